package reader

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/picture"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func newReader(t testing.TB) *Reader {
	t.Helper()
	r, err := New(nil)
	if err != nil {
		t.Fatalf("%v (make setup installs it)", err)
	}
	return r
}

// object is a JSON object of a request.
type object = map[string]any

func imageBlock(t testing.TB, m *image.RGBA) object {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": base64.StdEncoding.EncodeToString(b.Bytes())}}
}

func textBlock(text string) object { return object{"type": "text", "text": text} }

// ask is a first request about one image.
func ask(t testing.TB, m *image.RGBA, question string) object {
	t.Helper()
	return object{
		"model": "loupe-reader", "max_tokens": 1000,
		"tools": []any{object{"name": "zoom", "input_schema": object{"type": "object"}}},
		"messages": []any{object{"role": "user", "content": []any{
			textBlock(fmt.Sprintf("Image 0 (%dx%d pixels):", m.Rect.Dx(), m.Rect.Dy())),
			imageBlock(t, m),
			textBlock("Question: " + question),
		}}},
	}
}

// post sends a request and returns the status and the body.
func post(t testing.TB, r *Reader, request any) (int, string) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return postBody(t, r, body)
}

func postBody(t testing.TB, r *Reader, body []byte) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://reader/v1/messages", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.Transport().RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// answered is an assistant turn as a client reads it.
type answered struct {
	Model      string `json:"model"`
	StopReason string `json:"stop_reason"`
	Content    []struct {
		Type  string         `json:"type"`
		Text  string         `json:"text"`
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input map[string]int `json:"input"`
	} `json:"content"`
	Usage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	} `json:"usage"`
}

func send(t testing.TB, r *Reader, request any) answered {
	t.Helper()
	status, body := post(t, r, request)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	var a answered
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// The original of the tests with zooms is four times the view.
const factor = 4

// chartOriginal is a picture whose note cannot be read in its view.
func chartOriginal(t testing.TB) (original, view *image.RGBA, note image.Rectangle) {
	s := newSketch(t, 900*factor, 500*factor, white)
	s.curve(300*factor, 60*factor, red)
	s.curve(380*factor, 50*factor, blue)
	box := s.text(500*factor, 60*factor, 24, black, "peak: 6,053 units")
	s.text(380*factor, 10*factor, 18*factor, black, "Output by line")
	view = picture.Resample(s.RGBA, s.Rect, image.Pt(900, 500))
	return s.RGBA, view, image.Rect(box.Min.X/factor, box.Min.Y/factor, box.Max.X/factor+1, box.Max.Y/factor+1)
}

// zoomInto answers the calls of a turn from the original, and appends both to the request.
func zoomInto(t testing.TB, request object, a answered, original *image.RGBA) {
	t.Helper()
	var calls, results []any
	for _, b := range a.Content {
		if b.Type != "tool_use" {
			calls = append(calls, textBlock(b.Text))
			continue
		}
		calls = append(calls, object{"type": "tool_use", "id": b.ID, "name": b.Name, "input": b.Input})
		region := image.Rect(b.Input["x1"]*factor, b.Input["y1"]*factor, b.Input["x2"]*factor, b.Input["y2"]*factor).Intersect(original.Rect)
		cut := picture.Resample(original, region, image.Pt(900, max(1, 900*region.Dy()/region.Dx())))
		results = append(results, object{"type": "tool_result", "tool_use_id": b.ID, "content": []any{textBlock("Region shown."), imageBlock(t, cut)}})
	}
	request["messages"] = append(request["messages"].([]any), object{"role": "assistant", "content": calls}, object{"role": "user", "content": results})
}

func TestSmallTextIsAnsweredAfterAZoomAndNotBefore(t *testing.T) {
	r := newReader(t)
	original, view, note := chartOriginal(t)
	request := ask(t, view, "What exact value is annotated at the peak?")
	first := send(t, r, request)
	if first.StopReason != "tool_use" || first.Model != Model || len(first.Content) != 2 {
		t.Fatalf("got %+v", first)
	}
	in := first.Content[1].Input
	if region := image.Rect(in["x1"], in["y1"], in["x2"], in["y2"]); !note.In(region) || !region.In(view.Rect) {
		t.Errorf("zoomed into %v; the note is at %v", region, note)
	}
	// A view of 900x500 is 33x18 patches.
	if first.Usage.Input < 594 || first.Usage.Output < 1 {
		t.Errorf("usage %+v", first.Usage)
	}
	zoomInto(t, request, first, original)
	second := send(t, r, request)
	if second.StopReason != "end_turn" || len(second.Content) != 1 || second.Content[0].Text != "6,053 units" {
		t.Errorf("got %+v", second)
	}
	if second.Usage.Input <= first.Usage.Input+500 {
		t.Errorf("the zoom's image is not in the usage: %+v", second.Usage)
	}

	t.Run("no tools", func(t *testing.T) {
		request := ask(t, view, "What exact value is annotated at the peak?")
		delete(request, "tools")
		if a := send(t, r, request); a.StopReason != "end_turn" || !strings.HasPrefix(a.Content[0].Text, "I could not find") {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("the answer is demanded", func(t *testing.T) {
		request := ask(t, view, "What exact value is annotated at the peak?")
		request["messages"] = append(request["messages"].([]any),
			object{"role": "assistant", "content": "Looking."},
			object{"role": "user", "content": "Answer now from what you have seen."})
		if a := send(t, r, request); a.StopReason != "end_turn" || !strings.HasPrefix(a.Content[0].Text, "I could not find") {
			t.Errorf("got %+v", a)
		}
	})
}

func TestTheConversationOnTheWire(t *testing.T) {
	r := newReader(t)
	original, view, _ := chartOriginal(t)
	request := ask(t, view, "What exact value is annotated at the peak?")
	var b strings.Builder
	b.WriteString(">>> first turn\n")
	first := send(t, r, request)
	request["stream"] = true
	_, body := post(t, r, request)
	b.WriteString(body)
	zoomInto(t, request, first, original)
	b.WriteString(">>> after the zoom\n")
	_, body = post(t, r, request)
	b.WriteString(body)
	b.WriteString(">>> beyond reading\n")
	delete(request, "stream")
	request["messages"] = request["messages"].([]any)[:1]
	request["messages"].([]any)[0].(object)["content"].([]any)[2] = textBlock("Question: Which line is higher?")
	_, body = post(t, r, request)
	b.WriteString(body)
	golden(t, "conversation.txt", hideIDs(b.String()))
}

var (
	idPattern    = regexp.MustCompile(`(msg|toolu)_[0-9a-f]{24}`)
	coordPattern = regexp.MustCompile(`"partial_json":"(\\.|[^"\\])*"`)
	usagePattern = regexp.MustCompile(`_tokens":\d+`)
)

// hideIDs leaves out what differs between runs, and what depends on the engine's version.
func hideIDs(s string) string {
	s = idPattern.ReplaceAllString(s, "${1}_ID")
	s = coordPattern.ReplaceAllString(s, `"partial_json":"INPUT"`)
	s = regexp.MustCompile(`(event: content_block_delta\ndata: \{"delta":\{"partial_json":"INPUT"[^\n]*\n\n)+`).ReplaceAllString(s, "$1")
	return usagePattern.ReplaceAllString(s, `_tokens":N`)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./reader -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func TestLegibleTextIsAnsweredAtOnce(t *testing.T) {
	r := newReader(t)
	for _, test := range []struct {
		name, question, want string
		draw                 func(s *sketch)
	}{
		{"a note", "What is the total?", "4,217 kg", func(s *sketch) { s.text(60, 60, 30, black, "Total: 4,217 kg") }},
		{"a title", "What is the title?", "Output of Plants", func(s *sketch) {
			s.text(60, 10, 40, black, "Output of Plants")
			s.text(60, 150, 22, black, "compiled in spring")
		}},
		{"all of it", "Read all the text.", "Wet paint\nDo not touch", func(s *sketch) {
			s.text(60, 30, 40, black, "Wet paint")
			s.text(60, 100, 40, black, "Do not touch")
		}},
		{"a blank page", "What is the total?", "I could not find a legible answer to this in the image.", func(*sketch) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSketch(t, 500, 240, white)
			test.draw(s)
			a := send(t, r, ask(t, s.RGBA, test.question))
			if a.StopReason != "end_turn" || a.Content[0].Text != test.want {
				t.Errorf("got %+v, want %q", a, test.want)
			}
		})
	}
}

func TestTheImageThatIsNamedIsRead(t *testing.T) {
	r := newReader(t)
	a, b := newSketch(t, 400, 120, white), newSketch(t, 400, 120, night)
	a.text(40, 40, 30, black, "Total: 1,111 kg")
	b.text(40, 40, 30, white, "Total: 2,222 kg")
	request := ask(t, a.RGBA, "What is the total in the second image?")
	content := request["messages"].([]any)[0].(object)["content"].([]any)
	request["messages"].([]any)[0].(object)["content"] = []any{content[0], content[1], textBlock("Image 1 (400x120 pixels):"), imageBlock(t, b.RGBA), content[2]}
	if got := send(t, r, request); got.Content[0].Text != "2,222 kg" {
		t.Errorf("got %+v", got)
	}
}

func TestBadRequestsAreRefusedInTheAPIsShape(t *testing.T) {
	r := newReader(t)
	blank := newSketch(t, 20, 20, white).RGBA
	with := func(change func(object)) object {
		request := ask(t, blank, "What is the total?")
		change(request)
		return request
	}
	block := func(request object) object {
		return request["messages"].([]any)[0].(object)["content"].([]any)[1].(object)["source"].(object)
	}
	for _, test := range []struct {
		name    string
		request any
		want    string
	}{
		{"no messages", object{"model": "m"}, "at least one message"},
		{"the assistant has the last word", with(func(o object) {
			o["messages"] = append(o["messages"].([]any), object{"role": "assistant", "content": "Yes."})
		}), "the last message must be the user's"},
		{"an unknown role", with(func(o object) { o["messages"].([]any)[0].(object)["role"] = "system" }), "user"},
		{"a picture that is none", with(func(o object) { block(o)["data"] = base64.StdEncoding.EncodeToString([]byte("not a picture")) }), "messages.0.content.1: the image could not be decoded"},
		{"a picture that is cut", with(func(o object) { block(o)["data"] = block(o)["data"].(string)[:60] }), "could not be decoded"},
		{"not base64", with(func(o object) { block(o)["data"] = "!" }), "not valid base64"},
		{"a URL", with(func(o object) { block(o)["type"] = "url" }), "base64 only"},
		{"no source", with(func(o object) { delete(o["messages"].([]any)[0].(object)["content"].([]any)[1].(object), "source") }), "needs a source"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body := post(t, r, test.request)
			var e struct {
				Type  string
				Error struct{ Type, Message string }
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatal(err)
			}
			if status != http.StatusBadRequest || e.Type != "error" || e.Error.Type != "invalid_request_error" || !strings.Contains(e.Error.Message, test.want) {
				t.Errorf("status %d: %s", status, body)
			}
		})
	}
	if status, body := postBody(t, r, []byte("{")); status != http.StatusBadRequest || !strings.Contains(body, "not valid JSON") {
		t.Errorf("status %d: %s", status, body)
	}
	if status, _ := postBody(t, r, bytes.Repeat([]byte(" "), maxBody+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d for a body over 32 MB", status)
	}
	for _, request := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/v1/messages", nil),
		httptest.NewRequest(http.MethodPost, "/v1/models", nil),
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		if w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed || !strings.Contains(w.Body.String(), `"type":"error"`) {
			t.Errorf("%s %s: %d %s", request.Method, request.URL, w.Code, w.Body)
		}
	}
}

func TestNoImageAndNoQuestionAreSaidPlainly(t *testing.T) {
	r := newReader(t)
	a := send(t, r, object{"model": "m", "messages": []any{object{"role": "user", "content": "Hello"}}})
	if a.StopReason != "end_turn" || !strings.Contains(a.Content[0].Text, "no image") {
		t.Errorf("got %+v", a)
	}
}

func TestCancellingARequestEndsItsEngine(t *testing.T) {
	defer goleak.VerifyNone(t)
	program, pipe := stuck(t)
	r, err := New(&Options{Tesseract: program, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(ask(t, newSketch(t, 60, 40, white).RGBA, "What is the total?"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error)
	go func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://reader/v1/messages", bytes.NewReader(body))
		if err == nil {
			_, err = r.Transport().RoundTrip(request)
		}
		result <- err
	}()
	said, err := os.ReadFile(pipe) // returns when the engine runs
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(said))); err == nil {
		t.Error("the engine's process is still there")
	}
}

func TestTheStoreIsBounded(t *testing.T) {
	k := newKept[int](2)
	for i := range 5 {
		k.put([32]byte{byte(i)}, i)
		k.put([32]byte{byte(i)}, i)
	}
	if _, ok := k.get([32]byte{2}); ok {
		t.Error("the oldest is still there")
	}
	if v, ok := k.get([32]byte{4}); !ok || v != 4 || len(k.values) != 2 || len(k.order) != 2 {
		t.Errorf("got %d, %v of %d", v, ok, len(k.values))
	}
}
