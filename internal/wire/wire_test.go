package wire_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loupe-tools/loupe/internal/wire"
)

// The SDK is the reader of record: what it makes of an answer is what a user of the
// double or of the built-in reader sees.
func TestMessageReachesTheSDKWhole(t *testing.T) {
	want := &wire.Message{
		ID: "msg_1", Model: "m", StopReason: "tool_use",
		Usage: wire.Usage{InputTokens: 7, CacheCreationInputTokens: 8, CacheReadInputTokens: 9, OutputTokens: 10},
		Content: []wire.Block{
			{Type: "thinking", Thinking: strings.Repeat("größer ", 20), Signature: "c2ln"},
			{Type: "redacted_thinking", Data: "opaque"},
			{Type: "text", Text: "Looking closer. " + strings.Repeat("線", 50)},
			{Type: "tool_use", ID: "toolu_1", Name: "zoom", Input: json.RawMessage(`{"x1":1,"y1":2,"x2":30,"y2":40}`)},
			{Type: "tool_use", ID: "toolu_2", Name: "left_click", ToolsetName: "computer", Input: json.RawMessage(`{}`)},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request wire.Request
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		if err := want.Write(w, request.Stream); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client := anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("k"))
	params := anthropic.BetaMessageNewParams{
		Model: "m", MaxTokens: 10,
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("hello"))},
	}

	whole, err := client.Beta.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check(t, whole, want)

	var streamed anthropic.BetaMessage
	stream := client.Beta.Messages.NewStreaming(t.Context(), params)
	for stream.Next() {
		if err := streamed.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	check(t, &streamed, want)
}

func check(t *testing.T, got *anthropic.BetaMessage, want *wire.Message) {
	t.Helper()
	if got.ID != want.ID || string(got.StopReason) != want.StopReason || len(got.Content) != len(want.Content) {
		t.Fatalf("got %s, %s, %d blocks", got.ID, got.StopReason, len(got.Content))
	}
	usage := wire.Usage{
		InputTokens:              int(got.Usage.InputTokens),
		CacheCreationInputTokens: int(got.Usage.CacheCreationInputTokens),
		CacheReadInputTokens:     int(got.Usage.CacheReadInputTokens),
		OutputTokens:             int(got.Usage.OutputTokens),
	}
	if usage != want.Usage {
		t.Errorf("usage %+v, want %+v", usage, want.Usage)
	}
	for i, w := range want.Content {
		g := got.Content[i]
		if g.Type != w.Type || g.Text != w.Text || g.Thinking != w.Thinking || g.Signature != w.Signature ||
			g.Data != w.Data || g.ID != w.ID || g.Name != w.Name || g.ToolsetName != w.ToolsetName {
			t.Errorf("block %d: got %s, want %+v", i, g.RawJSON(), w)
		}
		if w.Type == "tool_use" && string(g.Input) != string(w.Input) {
			t.Errorf("block %d: input %s, want %s", i, g.Input, w.Input)
		}
	}
}

func TestErrorHasTheAPIsShape(t *testing.T) {
	recorder := httptest.NewRecorder()
	wire.WriteError(recorder, &wire.Error{Status: 529, Message: "Overloaded", RequestID: "req_1", RetryAfter: 1500 * time.Millisecond})
	if recorder.Code != 529 || recorder.Header().Get("Retry-After") != "2" || recorder.Header().Get("Request-Id") != "req_1" {
		t.Errorf("got %d %v", recorder.Code, recorder.Header())
	}
	want := `{"error":{"message":"Overloaded","type":"overloaded_error"},"request_id":"req_1","type":"error"}`
	if got := strings.TrimSpace(recorder.Body.String()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	recorder = httptest.NewRecorder()
	wire.WriteError(recorder, errors.New("broken"))
	if recorder.Code != 500 || !strings.Contains(recorder.Body.String(), "api_error") {
		t.Errorf("got %d %s", recorder.Code, recorder.Body)
	}
}

func TestContentMayBeABareString(t *testing.T) {
	var request wire.Request
	body := `{"messages":[{"role":"user","content":"hi"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}],
		"tools":[{"name":"zoom"},{"type":"computer_toolset_20260801"}]}`
	if err := json.Unmarshal([]byte(body), &request); err != nil {
		t.Fatal(err)
	}
	if got := request.Messages[0].Content[0]; got.Type != "text" || got.Text != "hi" {
		t.Errorf("got %+v", got)
	}
	if got := request.Messages[1].Content[0].Content[0].Text; got != "x" {
		t.Errorf("got %q", got)
	}
	if got := request.ToolNames(); len(got) != 1 || got[0] != "zoom" {
		t.Errorf("got %q", got)
	}
	request.ToolChoice = json.RawMessage(`{"type":"none"}`)
	if got := request.ToolNames(); got != nil {
		t.Errorf("got %q", got)
	}
}
