package claudetest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/google/go-cmp/cmp"

	"github.com/loupe-tools/loupe/internal/claudetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// What a client reads off the wire, event by event, for each script.
func TestStreamTranscripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/streams/*.script")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".script"), func(t *testing.T) {
			double := claudetest.New(t, nil, claudetest.Load(t, script)...)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, double.URL+"/v1/messages",
				strings.NewReader(request(`"stream":true`)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Api-Key", claudetest.Key)
			req.Header.Set("Anthropic-Version", "2023-06-01")
			response, err := double.HTTPClient().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			var got strings.Builder
			fmt.Fprintf(&got, "HTTP %d\n", response.StatusCode)
			for _, name := range []string{"Content-Type", "Request-Id", "Retry-After"} {
				if value := response.Header.Get(name); value != "" {
					fmt.Fprintf(&got, "%s: %s\n", name, value)
				}
			}
			fmt.Fprintf(&got, "\n%s", body)
			if err != nil {
				fmt.Fprintf(&got, "(then: %v)\n", err)
			}
			golden := strings.TrimSuffix(script, ".script") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; run go test -update", err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

func params() anthropic.BetaMessageNewParams {
	return anthropic.BetaMessageNewParams{
		Model: "claude-sonnet-5", MaxTokens: 1000,
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("What is it?"))},
	}
}

// read collects a stream through the SDK.
func read(ctx context.Context, client anthropic.Client) (anthropic.BetaMessage, error) {
	var message anthropic.BetaMessage
	stream := client.Beta.Messages.NewStreaming(ctx, params())
	for stream.Next() {
		if err := message.Accumulate(stream.Current()); err != nil {
			return message, err
		}
	}
	return message, stream.Err()
}

func TestClientRetriesWithoutWaiting(t *testing.T) {
	double := claudetest.New(t, nil, claudetest.Fail(429, 0), claudetest.Fail(529, 3600e9), claudetest.Answer("Fine."))
	message, err := read(t.Context(), double.Client())
	if err != nil || message.Content[0].Text != "Fine." {
		t.Errorf("got %v, %s", err, message.RawJSON())
	}
	var statuses []int
	for _, r := range double.Requests() {
		statuses = append(statuses, r.Status)
	}
	if !slices.Equal(statuses, []int{429, 529, 200}) {
		t.Errorf("got %v", statuses)
	}
}

func TestErrorReachesTheSDK(t *testing.T) {
	double := claudetest.New(t, nil, claudetest.Turn{Status: 403, Message: "Not for you."})
	_, err := read(t.Context(), double.Client(option.WithMaxRetries(0)))
	var refused *anthropic.Error
	if !errors.As(err, &refused) || refused.StatusCode != 403 || refused.RequestID != "req_0001" || !strings.Contains(refused.Error(), "Not for you.") {
		t.Errorf("got %v", err)
	}
}

func TestBrokenAnswers(t *testing.T) {
	whole := claudetest.Answer("It is forty-two, and here is why that is so: the label says so.")
	t.Run("dropped stream", func(t *testing.T) {
		double := claudetest.New(t, nil, whole.Dropped(4))
		message, err := read(t.Context(), double.Client())
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
		if len(message.Content) != 1 || !strings.HasPrefix(message.Content[0].Text, "It is forty-two") || message.StopReason != "" {
			t.Errorf("got %s", message.RawJSON())
		}
	})
	t.Run("dropped before the answer", func(t *testing.T) {
		double := claudetest.New(t, nil, whole.Dropped(0), whole.Dropped(0), whole.Dropped(0))
		client := double.Client()
		if _, err := client.Beta.Messages.New(t.Context(), params()); err == nil {
			t.Error("no error")
		}
	})
	t.Run("error event", func(t *testing.T) {
		double := claudetest.New(t, nil, whole.Failing(3, "overloaded_error"))
		if _, err := read(t.Context(), double.Client()); err == nil || !strings.Contains(err.Error(), "overloaded_error") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("error in place of a whole answer", func(t *testing.T) {
		double := claudetest.New(t, nil, whole.Failing(3, "overloaded_error"))
		client := double.Client(option.WithMaxRetries(0))
		_, err := client.Beta.Messages.New(t.Context(), params())
		var refused *anthropic.Error
		if !errors.As(err, &refused) || refused.StatusCode != 529 {
			t.Errorf("got %v", err)
		}
	})
	for _, events := range []int{0, 3} {
		t.Run(fmt.Sprintf("client gives up after %d events", events), func(t *testing.T) {
			double := claudetest.New(t, nil, whole.Hanging(events))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error)
			go func() {
				_, err := read(ctx, double.Client())
				failed <- err
			}()
			<-double.Hung()
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("double is closed", func(t *testing.T) {
		double := claudetest.New(t, nil, whole.Hanging(3))
		failed := make(chan error)
		go func() {
			_, err := read(t.Context(), double.Client())
			failed <- err
		}()
		<-double.Hung()
		double.Close()
		if err := <-failed; err != nil {
			t.Logf("the stream ended early, with: %v", err)
		}
	})
}

// reports makes a double whose complaints are kept and do not fail the test.
func reports(t *testing.T, script ...claudetest.Turn) *claudetest.Server {
	return claudetest.New(t, &claudetest.Options{Report: func(string) {}, AllowUnused: true}, script...)
}

func TestScriptFailures(t *testing.T) {
	condition := claudetest.Condition{Text: "images 1", Check: func(r *claudetest.Request) bool { return len(r.Images) == 1 }}
	for _, c := range []struct {
		name   string
		script []claudetest.Turn
		want   string
	}{
		{"no turn is left", nil, "request 1: the script has run out"},
		{"the request is not what was expected", []claudetest.Turn{{Expect: []claudetest.Condition{condition}}}, `request 1: the request does not meet "images 1"`},
		{"a stop reason that the API has not", []claudetest.Turn{{Stop: "tired"}}, `the turn's stop reason "tired" is unknown`},
		{"a status that is no error", []claudetest.Turn{{Status: 200}}, "status 200 is not an error"},
		{"a cut without a call", []claudetest.Turn{{Cut: true}}, "a turn that is cut must end in a call"},
		{"a rule of a rule", []claudetest.Turn{claudetest.Func(func(*claudetest.Request) claudetest.Turn {
			return claudetest.Func(func(*claudetest.Request) claudetest.Turn { return claudetest.Turn{} })
		})}, "is itself a rule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			double := reports(t, c.script...)
			got := post(t, double, request())
			if got.status != 500 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains("request 1: "+got.message, strings.TrimPrefix(c.want, "request 1: ")) {
				t.Errorf("got %d: %s", got.status, got.message)
			}
			if failures := double.Failures(); len(failures) != 1 || !strings.Contains(failures[0], c.want) {
				t.Errorf("got %q", failures)
			}
		})
	}
	t.Run("a break past the end", func(t *testing.T) {
		double := reports(t, claudetest.Answer("Hi").Dropped(99))
		if got := post(t, double, request(`"stream":true`)); got.status != 200 {
			t.Errorf("got %d", got.status)
		}
		if failures := double.Failures(); len(failures) != 1 || !strings.Contains(failures[0], "no more than 99 events") {
			t.Errorf("got %q", failures)
		}
	})
}

func TestTurnsMadeByARule(t *testing.T) {
	double := claudetest.New(t, nil,
		claudetest.Func(func(r *claudetest.Request) claudetest.Turn { return claudetest.Answer(claudetest.TextOf(r.LastUser())) }),
		claudetest.Always(func(r *claudetest.Request) claudetest.Turn { return claudetest.Answer(fmt.Sprint(r.Number)) }),
	)
	for _, want := range []string{"Hello", "2", "3"} {
		if got := post(t, double, request()); !strings.Contains(got.body, fmt.Sprintf(`"text":%q`, want)) {
			t.Errorf("got %s, want %s", got.body, want)
		}
	}
	if double.Unused() != 0 {
		t.Errorf("%d turns are left", double.Unused())
	}
}

// The double outside a test: a plain handler, with its complaints at hand.
func TestHandler(t *testing.T) {
	handler := claudetest.NewHandler(nil, claudetest.Answer("Fine."))
	defer handler.Close()
	server := httptest.NewServer(handler)
	defer server.Close()
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(server.URL),
		option.WithAPIKey("sk-any"), option.WithHTTPClient(server.Client()))
	message, err := client.Messages.New(t.Context(), anthropic.MessageNewParams{
		Model: "claude-haiku-4-5", MaxTokens: 10,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
	})
	if err != nil || message.Content[0].Text != "Fine." {
		t.Errorf("got %v, %+v", err, message)
	}
	if _, err := client.Messages.New(t.Context(), anthropic.MessageNewParams{
		Model: "claude-haiku-4-5", MaxTokens: 10,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
	}); err == nil {
		t.Error("a request without a turn was answered")
	}
	if got := handler.Failures(); len(got) != 1 || !strings.Contains(got[0], "run out") {
		t.Errorf("got %q", got)
	}
}

// What a test can ask about a request afterwards.
func TestSnapshot(t *testing.T) {
	double := claudetest.New(t, nil, claudetest.Answer("Fine."))
	large := blank(3000, 2000)
	body := request(`"system":`+list(marked), zoomTool, messages(hello, list(call),
		`[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":`+list(picture(3000, 2000), picture(100, 50, strict))+`},`+marked+`]`))
	if got := post(t, double, body); got.status != 200 {
		t.Fatal(got.message)
	}
	if got := post(t, double, request(`"model":"none"`)); got.status != 404 {
		t.Fatal(got.message)
	}
	requests := double.Requests()
	r := requests[0]
	if string(r.Body()) != body || r.Size != len(body) || r.Header.Get("X-Api-Key") != claudetest.Key {
		t.Errorf("the body or the header is not what was sent: %d bytes, %v", r.Size, r.Header)
	}
	want := []claudetest.Image{
		// 2576x1717 is 92x62 patches and too many; 2369x1579 is 85x57.
		{Path: "messages.2.content.0.tool_result.content.0", MediaType: "image/png", Width: 3000, Height: 2000, Base64: len(large), Tokens: r.Images[0].Tokens, Downscaled: true},
		{Path: "messages.2.content.0.tool_result.content.1", MediaType: "image/png", Width: 100, Height: 50, Base64: len(blank(100, 50)), Tokens: 8, Strict: true},
	}
	if diff := cmp.Diff(want, r.Images); diff != "" {
		t.Error(diff)
	}
	if r.Images[0].Tokens > 4784 || r.Images[0].Tokens < 4600 {
		t.Errorf("an image of the whole budget counts %d tokens", r.Images[0].Tokens)
	}
	if got := r.Results()[0].Content[0].Source.Data; got != large {
		t.Errorf("the image of the snapshot has %d bytes of base64, want %d", len(got), len(large))
	}
	if !slices.Equal(r.Breakpoints, []string{"system.0.cache_control", "messages.2.content.1.cache_control"}) || r.MaxEdge != 3000 {
		t.Errorf("got %q, %d", r.Breakpoints, r.MaxEdge)
	}
	if requests[1].Refusal == nil || requests[1].Status != 404 || requests[1].Answer != nil {
		t.Errorf("got %+v", requests[1])
	}
	totals := double.Totals()
	if totals.Requests != 2 || totals.Refused != 1 || totals.Answered != 1 || totals.Downscaled != 1 || totals.Images != 2 || totals.MaxEdge != 3000 || totals.Body != len(body) {
		t.Errorf("got %+v", totals)
	}
}

// A script may call a member of a toolset that the request never declared: the call
// comes back as it is, with its result.
func TestUndeclaredCall(t *testing.T) {
	double := claudetest.New(t, nil, claudetest.Say(claudetest.Member("computer", "screenshot", nil)), claudetest.Answer("Fine."))
	if got := post(t, double, request(zoomTool)); got.status != 200 {
		t.Fatal(got.message)
	}
	back := `{"type":"tool_use","id":"toolu_0001","name":"screenshot","toolset_name":"computer","input":{}}`
	refused := `{"type":"tool_result","tool_use_id":"toolu_0001","toolset_name":"computer","is_error":true,"content":"no such tool"}`
	if got := post(t, double, request(zoomTool, messages(hello, list(back), list(refused)))); got.status != 200 {
		t.Error(got.message)
	}
}
