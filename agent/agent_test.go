package agent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/internal/wire"
	"github.com/loupe-tools/loupe/vision"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	fullBudget = "claude-opus-4-7" // high resolution, takes images out where it must
	bindsModel = "claude-opus-5-5" // high resolution, ties thinking to the conversation before it
	standard   = "claude-sonnet-4-6"
)

// pngOf returns a PNG file of the given size with padding bytes of ancillary data, so
// that an image of any weight costs a test nothing to draw.
func pngOf(width, height, padding int) []byte {
	key := [3]int{width, height, padding}
	pngMu.Lock()
	defer pngMu.Unlock()
	if data, ok := pngs[key]; ok {
		return data
	}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err)
	}
	data := b.Bytes()
	const afterHeader = 8 + 25 // signature and IHDR
	chunk := binary.BigEndian.AppendUint32(nil, uint32(padding))
	chunk = append(chunk, "puFf"...)
	chunk = append(chunk, bytes.Repeat([]byte{0xA5}, padding)...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	data = bytes.Join([][]byte{data[:afterHeader], chunk, data[afterHeader:]}, nil)
	pngs[key] = data
	return data
}

var (
	pngMu sync.Mutex
	pngs  = map[[3]int][]byte{}
)

func imageBlock(data []byte) *anthropic.BetaImageBlockParam {
	return &anthropic.BetaImageBlockParam{
		Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &anthropic.BetaBase64ImageSourceParam{
			Data: base64.StdEncoding.EncodeToString(data), MediaType: "image/png",
		}},
		Transformations: anthropic.BetaImageTransformationsParam{OversizedImage: "error"},
	}
}

// lens is a tool in place of the real zoom: it shows views and answers each call with an
// image of the size and weight that it is told to, within the allowance.
type lens struct {
	views   []image.Point
	limits  vision.Limits
	padding int
	greedy  bool // takes no notice of the allowance
	silent  bool // gives no results
}

func (l *lens) Declare() []anthropic.BetaToolUnionParam {
	return []anthropic.BetaToolUnionParam{{OfTool: &anthropic.BetaToolParam{
		Name: "zoom", Description: anthropic.String("Look closely."),
		InputSchema: anthropic.BetaToolInputSchemaParam{Properties: map[string]any{"x1": map[string]any{"type": "integer"}}},
	}}}
}

func (l *lens) Present() []anthropic.BetaContentBlockParamUnion {
	var blocks []anthropic.BetaContentBlockParamUnion
	for i, v := range l.views {
		blocks = append(blocks, anthropic.NewBetaTextBlock(fmt.Sprintf("Image %d:", i)),
			anthropic.BetaContentBlockParamUnion{OfImage: imageBlock(pngOf(v.X, v.Y, l.padding))})
	}
	return blocks
}

func (l *lens) Answer(_ context.Context, calls []anthropic.BetaToolUseBlock, room vision.Allowance) []anthropic.BetaToolResultBlockParam {
	if l.silent {
		return nil
	}
	var results []anthropic.BetaToolResultBlockParam
	for i, call := range calls {
		text := "Here it is."
		result := anthropic.BetaToolResultBlockParam{ToolUseID: call.ID}
		if i >= room.Images && !l.greedy {
			text = "Too many at once."
			result.IsError = anthropic.Bool(true)
		}
		result.Content = append(result.Content, anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: text}})
		if !result.IsError.Value {
			limits, padding := l.limits.CapEdge(room.MaxEdge), l.padding
			if l.greedy {
				limits = l.limits
			} else if room.MaxBytes > 0 {
				padding = min(padding, max(room.MaxBytes/len(calls)*3/4-64<<10, 0))
			}
			w, h := limits.Fill(1600, 900)
			result.Content = append(result.Content, anthropic.BetaToolResultBlockParamContentUnion{OfImage: imageBlock(pngOf(w, h, padding))})
		}
		results = append(results, result)
	}
	return results
}

func ask(t *testing.T, server *claudetest.Server, o agent.Options, tools ...agent.Tool) (*agent.Answer, error) {
	t.Helper()
	if o.Model == "" {
		o.Model = standard
	}
	return agent.New(server.Client(), &o).Ask(t.Context(), "Which is higher?", tools...)
}

func oneView() *lens { return &lens{views: []image.Point{{800, 600}}, limits: vision.Standard} }

func zooms(n int) claudetest.Turn {
	var blocks []wire.Block
	for i := range n {
		blocks = append(blocks, claudetest.Zoom(i, i, i+100, i+100, 0))
	}
	return claudetest.Say(blocks...)
}

// cutAt is a call whose input breaks off after so many bytes.
func cutAt(call wire.Block, bytes int) wire.Block {
	call.Input = call.Input[:min(bytes, len(call.Input))]
	return call
}

func repeat(n int, turn claudetest.Turn, rest ...claudetest.Turn) []claudetest.Turn {
	var turns []claudetest.Turn
	for range n {
		turns = append(turns, turn)
	}
	return append(turns, rest...)
}

// Each rule of the loop, as a conversation and what came of it. The double refuses what
// the API refuses, so that a wrong history fails by itself.
func TestRules(t *testing.T) {
	thinking := claudetest.Thinking("Let me look.")
	for _, c := range []struct {
		name    string
		script  []claudetest.Turn
		options agent.Options
		tool    *lens
		want    string
		status  agent.Status
		turns   int
		detail  string
	}{{
		name:   "the answer is every text block of the last turn",
		script: []claudetest.Turn{claudetest.Say(claudetest.Text("First."), thinking, claudetest.Text("Second."))},
		want:   "First.\nSecond.", status: agent.StatusAnswered, turns: 1,
	}, {
		name:   "text beside a call is not the answer",
		script: []claudetest.Turn{claudetest.Say(thinking, claudetest.Text("I look closer."), claudetest.Zoom(1, 2, 3, 4, 0)), claudetest.Answer("42")},
		want:   "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:   "a call is answered whatever the stop reason",
		script: []claudetest.Turn{zooms(1).WithStop("end_turn"), zooms(2).WithStop("max_tokens"), zooms(1).WithStop("pause_turn"), claudetest.Answer("42")},
		want:   "42", status: agent.StatusAnswered, turns: 4,
	}, {
		name: "a call that was cut gets an error result",
		script: []claudetest.Turn{
			claudetest.CutInside(claudetest.Zoom(1, 2, 3, 4, 0), cutAt(claudetest.Zoom(5, 6, 7, 8, 0), 9)),
			claudetest.Func(func(r *claudetest.Request) claudetest.Turn {
				results := r.Results()
				if len(results) != 2 || results[0].IsError || !results[1].IsError || !strings.Contains(claudetest.TextOf(results[1].Content), "cut off") {
					return claudetest.Answer("wrong results")
				}
				return claudetest.Answer("42")
			}),
		},
		want: "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:   "a paused turn is sent back as it is",
		script: repeat(5, claudetest.Say(thinking, claudetest.Text("Still thinking.")).WithStop("pause_turn"), claudetest.Answer("42")),
		want:   "42", status: agent.StatusAnswered, turns: 6,
	}, {
		name:   "pauses are bounded to five",
		script: repeat(6, claudetest.Say(claudetest.Text("Still thinking.")).WithStop("pause_turn"), claudetest.Answer("42")),
		want:   "42", status: agent.StatusTurnBound, turns: 7,
	}, {
		name:    "pauses do not use up the turns",
		script:  append(repeat(5, claudetest.Say(claudetest.Text("...")).WithStop("pause_turn")), zooms(1), claudetest.Answer("42")),
		options: agent.Options{MaxTurns: 2},
		want:    "42", status: agent.StatusAnswered, turns: 7,
	}, {
		name: "the token cap without a word: asked once to be concise",
		script: []claudetest.Turn{
			claudetest.Say(thinking).WithStop("max_tokens"),
			claudetest.Func(func(r *claudetest.Request) claudetest.Turn {
				if !strings.Contains(claudetest.TextOf(r.LastUser()), "concisely") {
					return claudetest.Answer("not asked")
				}
				return claudetest.Answer("42")
			}),
		},
		want: "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:   "the token cap without a word, twice: the last plain turn",
		script: []claudetest.Turn{claudetest.Say(thinking).WithStop("max_tokens"), claudetest.Say(thinking).WithStop("max_tokens"), claudetest.Answer("42")},
		want:   "42", status: agent.StatusAnswered, turns: 3,
	}, {
		name:   "the token cap with no content at all",
		script: []claudetest.Turn{claudetest.Say().WithStop("max_tokens"), claudetest.Answer("42")},
		want:   "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:   "an answer cut at the token cap says so",
		script: []claudetest.Turn{claudetest.Answer("It is 4").WithStop("max_tokens")},
		want:   "It is 4", status: agent.StatusTruncated, turns: 1,
	}, {
		name: "the bound on turns: one last plain turn",
		script: repeat(3, zooms(1), claudetest.Func(func(r *claudetest.Request) claudetest.Turn {
			if string(r.ToolChoice) != `{"type":"none"}` || len(r.Results()) != 1 {
				return claudetest.Answer("not plain")
			}
			return claudetest.Answer("42")
		})),
		options: agent.Options{MaxTurns: 3},
		want:    "42", status: agent.StatusTurnBound, turns: 4,
	}, {
		name:   "the bound is twenty by default",
		script: repeat(20, zooms(1), claudetest.Answer("42")),
		want:   "42", status: agent.StatusTurnBound, turns: 21,
	}, {
		name:    "a last plain turn without text is no answer",
		script:  []claudetest.Turn{zooms(1), claudetest.Say(thinking)},
		options: agent.Options{MaxTurns: 1},
		status:  agent.StatusNoAnswer, turns: 2, detail: "no answer",
	}, {
		name:   "an end without text: the last plain turn",
		script: []claudetest.Turn{claudetest.Say(thinking), claudetest.Answer("42")},
		want:   "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:   "an end with blank text: the last plain turn",
		script: []claudetest.Turn{claudetest.Say(claudetest.Text(" \n")), claudetest.Answer("42")},
		want:   "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name: "an unknown tool is an error result",
		script: []claudetest.Turn{
			claudetest.Say(claudetest.Call("magnify", `{"x":1}`), claudetest.Zoom(1, 2, 3, 4, 0)),
			claudetest.Func(func(r *claudetest.Request) claudetest.Turn {
				results := r.Results()
				if len(results) != 2 || !results[0].IsError || results[1].IsError ||
					!strings.Contains(claudetest.TextOf(results[0].Content), "magnify") {
					return claudetest.Answer("wrong results")
				}
				return claudetest.Answer("42")
			}),
		},
		want: "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:   "a refusal ends the run",
		script: []claudetest.Turn{zooms(1), claudetest.Say(claudetest.Text("I cannot")).WithStop("refusal")},
		status: agent.StatusRefused, turns: 2, detail: "declined",
	}, {
		name:   "a full context window ends the run",
		script: []claudetest.Turn{claudetest.Say(claudetest.Text("It is")).WithStop("model_context_window_exceeded")},
		status: agent.StatusContext, turns: 1, detail: "context window",
	}, {
		name:   "a tool without results",
		script: []claudetest.Turn{zooms(2), claudetest.Answer("42")},
		tool:   &lens{silent: true},
		want:   "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:    "a tool that takes more room than there is",
		script:  []claudetest.Turn{zooms(25), claudetest.Answer("42")},
		tool:    &lens{views: []image.Point{{2576, 1400}}, limits: vision.HighResolution, greedy: true},
		options: agent.Options{Model: fullBudget},
		want:    "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:    "a last plain turn that calls a tool is no answer",
		script:  []claudetest.Turn{zooms(1), claudetest.Say(claudetest.Text("Let me look."), claudetest.Zoom(1, 2, 3, 4, 0))},
		options: agent.Options{MaxTurns: 1},
		status:  agent.StatusNoAnswer, turns: 2, detail: "no answer",
	}, {
		name: "a call whose input is no object, or holds an absurd number, is an error result",
		script: []claudetest.Turn{
			claudetest.Say(claudetest.Call("zoom", `{"x1":1e400}`), claudetest.Zoom(1, 2, 3, 4, 0)),
			claudetest.Answer("42"),
		},
		want: "42", status: agent.StatusAnswered, turns: 2,
	}, {
		name:    "the bound on tokens",
		script:  []claudetest.Turn{zooms(1)},
		options: agent.Options{MaxTotalTokens: 100},
		status:  agent.StatusTokenBound, turns: 1, detail: "bound on tokens",
	}} {
		t.Run(c.name, func(t *testing.T) {
			server := claudetest.New(t, nil, c.script...)
			tool := c.tool
			if tool == nil {
				tool = oneView()
			}
			answer, err := ask(t, server, c.options, tool)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Text != c.want || answer.Status != c.status || answer.Turns != c.turns || !strings.Contains(answer.Detail, c.detail) {
				t.Errorf("got %q, %s, %d turns, %q; want %q, %s, %d turns, %q", answer.Text, answer.Status, answer.Turns,
					answer.Detail, c.want, c.status, c.turns, c.detail)
			}
			if (c.want == "") != (answer.Detail != "") {
				t.Errorf("answer %q with detail %q", answer.Text, answer.Detail)
			}
			if totals := server.Totals(); totals.Refused > 0 {
				t.Errorf("%d requests were refused", totals.Refused)
			}
		})
	}
}

// inProcess is a transport that needs no socket.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func TestTroubleOnTheWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []claudetest.Turn
		turns  int
	}{
		{"too many requests", []claudetest.Turn{claudetest.Fail(429, 1e9), claudetest.Answer("42")}, 1},
		{"overloaded", []claudetest.Turn{claudetest.Fail(529, 1e9), claudetest.Fail(529, 0), claudetest.Answer("42")}, 1},
		{"a dropped stream", []claudetest.Turn{claudetest.Answer("41 or so, or").Dropped(3), claudetest.Answer("42")}, 1},
		{"an error in mid-stream", []claudetest.Turn{zooms(1), claudetest.Answer("41 or so, or").Failing(3, "overloaded_error"), claudetest.Answer("42")}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := claudetest.New(t, nil, c.script...)
			answer, err := ask(t, server, agent.Options{}, oneView())
			if err != nil || answer.Text != "42" || answer.Status != agent.StatusAnswered || answer.Turns != c.turns {
				t.Errorf("got %+v, %v", answer, err)
			}
			var billed wire.Usage
			for _, r := range server.Requests() {
				if r.Answer != nil {
					billed.InputTokens += r.Usage.InputTokens + r.Usage.CacheCreationInputTokens + r.Usage.CacheReadInputTokens
				}
			}
			if answer.Usage.Prompt() != int64(billed.InputTokens) {
				t.Errorf("counted %d input tokens, billed %d", answer.Usage.Prompt(), billed.InputTokens)
			}
		})
	}
}

func TestErrorsReadAsOneSentence(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  []claudetest.Turn
		options agent.Options
		client  []option.RequestOption
		want    string
	}{
		{"a refused key", nil, agent.Options{}, []option.RequestOption{option.WithAPIKey(claudetest.RefusedKey)}, "refused the key"},
		{"an unknown model", nil, agent.Options{Model: "claude-nonesuch"}, nil, `does not know the model "claude-nonesuch"`},
		{"no network", nil, agent.Options{}, []option.RequestOption{option.WithBaseURL("http://127.0.0.1:1"), option.WithMaxRetries(0)}, "cannot be reached"},
		{"overloaded for good", repeat(3, claudetest.Fail(529, 0)), agent.Options{}, nil, "overloaded"},
		{"limited for good", repeat(3, claudetest.Fail(429, 0)), agent.Options{}, nil, "limiting requests"},
		{"broken for good", repeat(3, claudetest.Fail(500, 0)), agent.Options{}, nil, "server failed (500)"},
		{"dropped for good", repeat(3, claudetest.Answer("42").Dropped(2)), agent.Options{}, nil, "broke off"},
		{"a body over the limit", []claudetest.Turn{claudetest.Fail(413, 0)}, agent.Options{}, nil, "fewer images"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := claudetest.New(t, nil, c.script...)
			c.options.Model = cmp.Or(c.options.Model, standard)
			answer, err := agent.New(server.Client(c.client...), &c.options).Ask(t.Context(), "Which?", oneView())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if answer == nil || answer.Status != agent.StatusFailed || answer.Text != "" {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

// An answer that breaks off is billed, so a bound on money also bounds how often it is
// asked for again.
func TestBrokenAnswersStayWithinTheBound(t *testing.T) {
	// The least bound under which a turn with tools is begun: one more is then too much.
	limit := 0.1
	for begun := false; !begun; limit += 0.0005 {
		server := claudetest.New(t, nil, claudetest.Answer("42"))
		if _, err := ask(t, server, agent.Options{Model: standard, MaxCost: limit}, oneView()); err != nil {
			t.Fatal(err)
		}
		begun = len(server.Last().ToolChoice) == 0
	}
	server := claudetest.New(t, &claudetest.Options{AllowUnused: true}, claudetest.Always(func(*claudetest.Request) claudetest.Turn {
		return claudetest.Answer("It is 41 or so, or").Dropped(3)
	}))
	answer, err := ask(t, server, agent.Options{Model: standard, MaxCost: limit}, oneView())
	if err != nil || answer.Status != agent.StatusCostBound || answer.Text != "" || answer.Cost > limit {
		t.Errorf("got %+v, %v", answer, err)
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

// What a model sends as a call's input goes back byte for byte where it is an object, and
// as the empty object where it is none.
func TestInputsGoBackAsTheyCame(t *testing.T) {
	for sent, want := range map[string]string{
		`{"x1":1e400,"y1":2}`:            `{"x1":1e400,"y1":2}`,
		`{"x1":12345678901234567890123}`: `{"x1":12345678901234567890123}`,
		`null`:                           `{}`,
		`[]`:                             `{}`,
		`"x"`:                            `{}`,
		`5`:                              `{}`,
	} {
		var back string
		requests := 0
		client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL("http://double.test"), option.WithAPIKey("k"),
			option.WithHTTPClient(&http.Client{Transport: inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				m := &wire.Message{ID: "msg", Model: standard, StopReason: "end_turn", Content: []wire.Block{{Type: "text", Text: "42"}}}
				if requests == 1 {
					m.Content = []wire.Block{{Type: "tool_use", ID: "toolu_1", Name: "zoom", Input: json.RawMessage(sent)}}
				} else {
					var request wire.Request
					if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
						t.Error(err)
					}
					back = string(request.Messages[1].Content[0].Input)
				}
				if err := m.Write(w, true); err != nil {
					t.Error(err)
				}
			})}}))
		answer, err := agent.New(client, &agent.Options{Model: standard}).Ask(t.Context(), "Which?", oneView())
		if err != nil || answer.Text != "42" || back != want {
			t.Errorf("%s: went back as %s, answer %+v, %v", sent, back, answer, err)
		}
	}
}

func TestServersThatAreNone(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a page":  func(w http.ResponseWriter) { fmt.Fprint(w, "<html>Welcome</html>") },
		"nothing": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
		"another format": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[]}`)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(server.URL), option.WithAPIKey("k"), option.WithHTTPClient(server.Client()))
		_, err := agent.New(client, &agent.Options{Model: standard}).Ask(t.Context(), "Which?", oneView())
		if err == nil || !strings.Contains(err.Error(), "did not answer as the Messages API does") {
			t.Errorf("%s: got %v", name, err)
		}
		server.Close()
	}
}

func TestNothingToAsk(t *testing.T) {
	server := claudetest.New(t, nil)
	for _, c := range []struct {
		options  *agent.Options
		question string
	}{
		{nil, "Which?"},
		{&agent.Options{}, "Which?"},
		{&agent.Options{Model: standard}, " \n"},
		{&agent.Options{Model: "qwen3-vl", MaxCost: 1}, "Which?"},
	} {
		if answer, err := agent.New(server.Client(), c.options).Ask(t.Context(), c.question, oneView()); err == nil || answer.Status != agent.StatusFailed {
			t.Errorf("%+v %q: got %+v, %v", c.options, c.question, answer, err)
		}
	}
	_, err := agent.New(server.Client(), &agent.Options{Model: "qwen3-vl", MaxCost: 1}).Ask(t.Context(), "Which?")
	if !errors.Is(err, agent.ErrNoPrice) {
		t.Errorf("got %v", err)
	}
}

func TestCancelInMidStream(t *testing.T) {
	server := claudetest.New(t, nil, zooms(1), claudetest.Answer("It is").Hanging(3))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-server.Hung()
		cancel()
	}()
	answer, err := agent.New(server.Client(), &agent.Options{Model: standard}).Ask(ctx, "Which?", oneView())
	if !errors.Is(err, context.Canceled) || answer.Status != agent.StatusCancelled || answer.Text != "" || answer.Turns != 1 {
		t.Errorf("got %+v, %v", answer, err)
	}
	if answer.Usage.Prompt() == 0 {
		t.Error("the tokens used so far are lost")
	}
}

// Bodies of the full 32 MB cost much to parse, so most tests of weight hold both sides to
// a part of it; TestBodyOfFullWeight does not.
var smallDouble = claudetest.Options{MaxBody: 2 << 20, MaxImageBytes: 192 << 10}

func smallLimits() vision.RequestLimits {
	limits := vision.DefaultRequestLimits()
	limits.MaxBodyBytes, limits.MaxImageBytes = smallDouble.MaxBody, smallDouble.MaxImageBytes
	return limits
}

func TestBodyOfFullWeight(t *testing.T) {
	server := claudetest.New(t, nil, repeat(2, zooms(5), claudetest.Answer("42"))...)
	answer, err := ask(t, server, agent.Options{}, &lens{limits: vision.Standard, views: []image.Point{{800, 600}}, padding: 3 << 20})
	if err != nil || answer.Text != "42" {
		t.Fatalf("got %+v, %v", answer, err)
	}
	if totals := server.Totals(); totals.Refused > 0 || totals.Body < 16<<20 {
		t.Errorf("%d refused, the largest body has %d bytes", totals.Refused, totals.Body)
	}
}

// However many zooms a run makes, on however many images, it stays one that the API
// accepts.
func TestLongRunsStayWithinTheLimits(t *testing.T) {
	for _, model := range []string{standard, fullBudget, bindsModel} {
		for _, c := range []struct {
			name              string
			views, turns, per int
			padding           int // the same for all models, so tried with one
		}{
			{"40 zooms on two images", 2, 40, 1, 0},
			{"4 zooms a turn", 2, 12, 4, 0},
			{"25 zooms in one turn", 1, 2, 25, 0},
			{"heavy images", 2, 20, 1, 100 << 10},
			{"heavy images, 3 a turn", 2, 10, 3, 100 << 10},
			{"many views", 18, 30, 1, 0},
			{"more views than may be large", 30, 10, 2, 0},
		} {
			if c.padding > 0 && model != bindsModel {
				continue
			}
			t.Run(model+"/"+c.name, func(t *testing.T) {
				server := claudetest.New(t, &smallDouble, repeat(c.turns, zooms(c.per), claudetest.Answer("42"))...)
				a := agent.New(server.Client(), &agent.Options{Model: model, MaxTurns: c.turns + 1, Request: smallLimits()})
				limits, _ := a.ImageLimits(c.views)
				tool := &lens{limits: limits, padding: c.padding}
				w, h := limits.Fill(1600, 900)
				for range c.views {
					tool.views = append(tool.views, image.Pt(w, h))
				}
				answer, err := a.Ask(t.Context(), "Which?", tool)
				if err != nil || answer.Text != "42" {
					t.Fatalf("got %+v, %v", answer, err)
				}
				totals := server.Totals()
				if totals.Refused > 0 || totals.Downscaled > 0 {
					t.Errorf("%d refused, %d scaled down silently", totals.Refused, totals.Downscaled)
				}
				for _, r := range server.Requests() {
					if len(r.Images) > 20 && r.MaxEdge > 2000 {
						t.Errorf("request %d has %d images and an edge of %d", r.Number, len(r.Images), r.MaxEdge)
					}
				}
			})
		}
	}
}

// Some models refuse their own thinking once the conversation before it has changed. When
// images are taken out, the API is told to drop such thinking instead.
func TestThinkingIsDroppedRatherThanRefused(t *testing.T) {
	script := repeat(25, claudetest.Say(claudetest.Thinking("Hm."), claudetest.Zoom(1, 2, 3, 4, 0)), claudetest.Answer("42"))
	server := claudetest.New(t, nil, script...)
	removed := 0
	a := agent.New(server.Client(), &agent.Options{Model: bindsModel, MaxTurns: 30, Observe: func(e agent.Event) {
		if e, ok := e.(agent.ImagesRemoved); ok {
			removed += e.Images
		}
	}})
	limits, _ := a.ImageLimits(1)
	answer, err := a.Ask(t.Context(), "Which?", &lens{limits: limits, views: []image.Point{{2500, 1400}}})
	if err != nil || answer.Text != "42" {
		t.Fatalf("%+v, %v", answer, err)
	}
	if server.Totals().Refused > 0 || removed == 0 {
		t.Errorf("%d requests were refused, %d images taken out", server.Totals().Refused, removed)
	}
}

func TestCacheCarriesTheRun(t *testing.T) {
	for _, model := range []string{standard, fullBudget, bindsModel} {
		server := claudetest.New(t, nil, repeat(20, zooms(1), claudetest.Answer("42"))...)
		a := agent.New(server.Client(), &agent.Options{Model: model, MaxTurns: 21})
		limits, _ := a.ImageLimits(1)
		w, h := limits.Fill(1600, 900)
		answer, err := a.Ask(t.Context(), "Which?", &lens{limits: limits, views: []image.Point{{w, h}}})
		if err != nil || answer.Text != "42" {
			t.Fatalf("%s: %+v, %v", model, answer, err)
		}
		share := float64(answer.Usage.CacheReadTokens) / float64(answer.Usage.Prompt())
		t.Logf("%s: %.1f%% of %d input tokens came from the cache", model, 100*share, answer.Usage.Prompt())
		if share < 0.85 {
			t.Errorf("%s: only %.1f%%", model, 100*share)
		}
		if got := server.Totals().CachedShare(); math.Abs(got-share) > 1e-9 {
			t.Errorf("%s: the double counts %.3f, the run %.3f", model, got, share)
		}
		for _, r := range server.Requests() {
			if len(r.Breakpoints) > 4 {
				t.Errorf("request %d has %d breakpoints", r.Number, len(r.Breakpoints))
			}
		}
	}
}

func TestNoCache(t *testing.T) {
	server := claudetest.New(t, nil, repeat(3, zooms(1), claudetest.Answer("42"))...)
	if _, err := ask(t, server, agent.Options{NoCache: true, System: "Be brief."}, oneView()); err != nil {
		t.Fatal(err)
	}
	for _, r := range server.Requests() {
		if len(r.Breakpoints) > 0 {
			t.Errorf("request %d has breakpoints at %q", r.Number, r.Breakpoints)
		}
	}
}

func TestCostStopsBeforeTheBound(t *testing.T) {
	prices := agent.DefaultPrices()
	for _, limit := range []float64{0.001, 0.05, 0.15, 0.3, 0.6} {
		server := claudetest.New(t, &claudetest.Options{AllowUnused: true}, claudetest.Always(func(r *claudetest.Request) claudetest.Turn {
			if string(r.ToolChoice) != "" {
				return claudetest.Answer("42")
			}
			return zooms(1)
		}))
		answer, err := ask(t, server, agent.Options{Model: standard, MaxCost: limit, MaxTurns: 100}, oneView())
		if err != nil {
			t.Fatal(err)
		}
		if answer.Cost > limit || !answer.CostIsKnown || answer.Status != agent.StatusCostBound {
			t.Errorf("bound $%.3f: cost $%.4f, %s", limit, answer.Cost, answer.Status)
		}
		var cost float64
		for _, r := range server.Requests() {
			c, _ := prices.Cost(standard, agent.Usage{
				InputTokens: int64(r.Usage.InputTokens), CacheWriteTokens: int64(r.Usage.CacheCreationInputTokens),
				CacheReadTokens: int64(r.Usage.CacheReadInputTokens), OutputTokens: int64(r.Usage.OutputTokens),
			})
			cost += c
		}
		if math.Abs(cost-answer.Cost) > 1e-9 {
			t.Errorf("bound $%.3f: counted $%.6f, the double's usage costs $%.6f", limit, answer.Cost, cost)
		}
		t.Logf("bound $%.3f: %d turns, $%.4f, answer %q", limit, answer.Turns, answer.Cost, answer.Text)
	}
}

func TestTooManyImagesForOneRequest(t *testing.T) {
	server := claudetest.New(t, nil)
	for name, tool := range map[string]*lens{
		"count":  {views: make([]image.Point, 101)},
		"edge":   {views: []image.Point{{8100, 1}}},
		"many":   {views: make([]image.Point, 21)},
		"weight": {views: make([]image.Point, 12), padding: 140 << 10},
	} {
		for i := range tool.views {
			if tool.views[i] == (image.Point{}) {
				tool.views[i] = image.Pt(100, 100)
			}
		}
		if name == "many" {
			tool.views[3] = image.Pt(2100, 100)
		}
		if _, err := ask(t, server, agent.Options{Request: smallLimits()}, tool); !errors.Is(err, agent.ErrTooLarge) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whatever a model answers, the API accepts what follows.
func TestAnyConversationIsAccepted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		redacted := 0
		turn := rapid.Custom(func(rt *rapid.T) claudetest.Turn {
			block := rapid.Custom(func(rt *rapid.T) wire.Block {
				switch rapid.IntRange(0, 6).Draw(rt, "block") {
				case 0:
					return claudetest.Text(rapid.SampledFrom([]string{"Hm.", " ", "A\nB "}).Draw(rt, "text"))
				case 1:
					return claudetest.Thinking("Hm.")
				case 2:
					redacted++ // no two are alike
					return claudetest.RedactedThinking(fmt.Sprintf("opaque %d", redacted))
				case 3:
					return claudetest.Call("nonesuch", `{"a":1}`)
				default:
					return claudetest.Zoom(1, 2, 3, 4, rapid.IntRange(0, 3).Draw(rt, "image"))
				}
			})
			blocks := rapid.SliceOfN(block, 0, 7).Draw(rt, "blocks")
			t := claudetest.Say(blocks...)
			if n := len(blocks); n > 0 && blocks[n-1].Type == "tool_use" && rapid.Bool().Draw(rt, "cut") {
				blocks[n-1] = cutAt(blocks[n-1], rapid.IntRange(0, 8).Draw(rt, "at"))
				return claudetest.CutInside(blocks...)
			}
			if rapid.IntRange(0, 2).Draw(rt, "odd") == 0 {
				t = t.WithStop(rapid.SampledFrom([]string{"end_turn", "max_tokens", "pause_turn", "tool_use", "stop_sequence"}).Draw(rt, "stop"))
			}
			return t
		})
		model := rapid.SampledFrom([]string{standard, fullBudget, bindsModel}).Draw(rt, "model")
		handler := claudetest.NewHandler(&smallDouble, claudetest.Always(func(*claudetest.Request) claudetest.Turn { return turn.Draw(rt, "turn") }))
		defer handler.Close()
		client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL("http://double.test"),
			option.WithAPIKey(claudetest.Key), option.WithHTTPClient(&http.Client{Transport: inProcess{handler}}))
		a := agent.New(client, &agent.Options{Model: model, MaxTurns: rapid.IntRange(1, 30).Draw(rt, "turns"), Request: smallLimits()})
		limits, _ := a.ImageLimits(2)
		answer, err := a.Ask(context.Background(), "Which?", &lens{
			limits: limits, views: []image.Point{{1000, 500}, {600, 700}},
			padding: rapid.SampledFrom([]int{0, 0, 0, 100 << 10}).Draw(rt, "padding"),
		})
		if err != nil {
			rt.Fatalf("%v", err)
		}
		if totals := handler.Totals(); totals.Refused > 0 || totals.Downscaled > 0 {
			rt.Fatalf("%d refused, %d scaled down", totals.Refused, totals.Downscaled)
		}
		answered := answer.Status == agent.StatusAnswered || answer.Status == agent.StatusTruncated || answer.Status == agent.StatusTurnBound
		if answered != (answer.Text != "") {
			rt.Fatalf("%s with text %q", answer.Status, answer.Text)
		}
	})
}
