package claudetest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/internal/claudetest"
)

// answer is what came back for one request.
type answer struct {
	status  int
	header  http.Header
	kind    string // of an error
	message string // of an error
	body    string
}

// post sends one request as a client would; headers come in pairs, and an empty value
// takes a default away.
func post(t *testing.T, double *claudetest.Server, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, double.URL+"/v1/messages?beta=true", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", claudetest.Key)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := double.HTTPClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := answer{status: response.StatusCode, header: response.Header, body: string(data)}
	var e struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct{ Type, Message string }
	}
	if response.StatusCode >= 400 {
		if err := json.Unmarshal(data, &e); err != nil || e.Type != "error" || e.RequestID == "" {
			t.Fatalf("not an error in the API's shape: %s", data)
		}
		got.kind, got.message = e.Error.Type, e.Error.Message
	}
	return got
}

// request is a body: these fields, and model, max_tokens and messages where the
// fields do not give them.
func request(fields ...string) string {
	all := map[string]json.RawMessage{
		"model":      json.RawMessage(`"claude-sonnet-5"`),
		"max_tokens": json.RawMessage(`1000`),
		"messages":   json.RawMessage(`[{"role":"user","content":"Hello"}]`),
	}
	for _, f := range fields {
		var some map[string]json.RawMessage
		if err := json.Unmarshal([]byte("{"+f+"}"), &some); err != nil {
			panic(fmt.Sprintf("a test's body is not JSON: %v: %s", err, f))
		}
		for name, value := range some {
			if string(value) == `"-"` {
				delete(all, name)
				continue
			}
			all[name] = value
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// messages is the messages field of turns that alternate, the user first. A turn is
// its content as JSON.
func messages(contents ...string) string {
	var turns []string
	for i, content := range contents {
		role := [2]string{"user", "assistant"}[i%2]
		turns = append(turns, fmt.Sprintf(`{"role":%q,"content":%s}`, role, content))
	}
	return `"messages":[` + strings.Join(turns, ",") + `]`
}

const (
	zoomTool = `"tools":[{"name":"zoom","input_schema":{"type":"object"}}]`
	hands    = `"tools":[{"type":"computer_toolset_20260801"}]`
	hello    = `"Hello"`
	more     = `[{"type":"text","text":"Go on."}]`
	call     = `{"type":"tool_use","id":"t1","name":"zoom","input":{"x1":1}}`
	result   = `{"type":"tool_result","tool_use_id":"t1","content":"seen"}`
	said     = `{"type":"text","text":"Looking."}`
	asked    = `{"type":"text","text":"Go on."}`
	marked   = `{"type":"text","text":"A","cache_control":{"type":"ephemeral"}}`
)

func list(items ...string) string { return "[" + strings.Join(items, ",") + "]" }

// blank is a PNG of one colour, as base64; it is small at any size.
func blank(width, height int) string {
	m := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White})
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

func picture(width, height int, extra ...string) string {
	return fmt.Sprintf(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}%s}`,
		blank(width, height), strings.Join(extra, ""))
}

const strict = `,"transformations":{"oversized_image":"error"}`

func pictures(n, width, height int) string {
	one := picture(width, height)
	return list(append([]string{}, strings.Split(strings.Repeat(one+"\x00", n-1)+one, "\x00")...)...)
}

func jpegAs(mediaType string) string {
	var out bytes.Buffer
	if err := jpeg.Encode(&out, image.NewGray(image.Rect(0, 0, 10, 20)), nil); err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"type":"image","source":{"type":"base64","media_type":%q,"data":%q}}`,
		mediaType, base64.StdEncoding.EncodeToString(out.Bytes()))
}

// What the double answers to the first request in the cases about its own turns, and
// how these turns come back. The ids and signatures are the ones that it gives out.
const (
	sign1    = `{"type":"thinking","thinking":"Hm.","signature":"c2lnbmF0dXJlIDAwMDE="}`
	sign2    = `{"type":"thinking","thinking":"Well.","signature":"c2lnbmF0dXJlIDAwMDI="}`
	hidden   = `{"type":"redacted_thinking","data":"cmVkYWN0ZWQ="}`
	zoomed   = `{"type":"tool_use","id":"toolu_0001","name":"zoom","input":{"x1":1,"x2":30,"y1":2,"y2":40}}`
	seen     = `{"type":"tool_result","tool_use_id":"toolu_0001","content":"seen"}`
	working  = `{"type":"text","text":"Working."}`
	thinking = `"thinking":{"type":"adaptive"}`
)

func thought() []claudetest.Turn {
	return []claudetest.Turn{claudetest.Say(
		claudetest.Thinking("Hm."), claudetest.RedactedThinking("cmVkYWN0ZWQ="), claudetest.Thinking("Well."),
		claudetest.Text("Looking."), claudetest.Zoom(1, 2, 30, 40, 0),
	)}
}

type ruleCase struct {
	name    string
	options *claudetest.Options
	issued  []claudetest.Turn // answered to first, one after the other
	first   string            // the request that they answer; "" is one with the zoom tool
	headers []string

	refused string
	status  int // 0 is 400
	message string
	legal   string // the nearest request that is accepted
}

// Every rule with one request that it refuses and the nearest one that it accepts.
func TestRules(t *testing.T) {
	for _, c := range ruleCases() {
		t.Run(c.name, func(t *testing.T) {
			double := claudetest.New(t, c.options, append(c.issued, claudetest.Answer("Fine."))...)
			first := c.first
			if first == "" {
				first = request(zoomTool)
			}
			for range c.issued {
				if got := post(t, double, first); got.status != 200 {
					t.Fatalf("the first request was answered with %d: %s", got.status, got.body)
				}
			}
			status := c.status
			if status == 0 {
				status = 400
			}
			kind := map[int]string{400: "invalid_request_error", 404: "not_found_error", 413: "request_too_large"}[status]
			if got := post(t, double, c.refused, c.headers...); got.status != status || got.kind != kind || !strings.Contains(got.message, c.message) {
				t.Errorf("refused request: got %d %s: %s\nwant %d %s: ...%s...", got.status, got.kind, got.message, status, kind, c.message)
			}
			if got := post(t, double, c.legal, c.headers...); got.status != 200 {
				t.Errorf("legal request: got %d: %s", got.status, got.message)
			}
		})
	}
}

func ruleCases() []ruleCase {
	all := [][]ruleCase{fieldCases(), toolCases(), messageCases(), callCases(), toolsetCases(), imageCases(), historyCases(), cacheCases()}
	var cases []ruleCase
	for _, some := range all {
		cases = append(cases, some...)
	}
	return cases
}

func fieldCases() []ruleCase {
	return []ruleCase{
		{name: "not JSON", refused: `{"model":`, message: "not valid JSON", legal: request()},
		{name: "a list for a body", refused: `[]`, message: "not valid JSON", legal: request()},
		{name: "a number for the model", refused: request(`"model":5`), message: "model: Input should be a valid string", legal: request()},
		{name: "unknown field", refused: request(`"max_turns":3`), message: "max_turns: Extra inputs are not permitted", legal: request(`"stop_sequences":["x"]`)},
		{name: "no model", refused: request(`"model":"-"`), message: "model: Field required", legal: request()},
		{name: "unknown model", refused: request(`"model":"claude-opus-9"`), status: 404, message: "model: claude-opus-9", legal: request(`"model":"claude-opus-5"`)},
		{name: "no max_tokens", refused: request(`"max_tokens":"-"`), message: "max_tokens: Field required", legal: request()},
		{name: "max_tokens of nothing", refused: request(`"max_tokens":0`), message: "max_tokens: Input should be greater than or equal to 1", legal: request(`"max_tokens":1`)},
		{
			name:    "max_tokens above the model's",
			refused: request(`"model":"claude-haiku-4-5","max_tokens":64001`), message: "max_tokens: 64001 > 64000, which is the maximum allowed",
			legal: request(`"model":"claude-haiku-4-5","max_tokens":64000`),
		},
		{
			name:    "body too large",
			options: &claudetest.Options{MaxBody: 300}, refused: request(`"metadata":{"user_id":"` + strings.Repeat("x", 300) + `"}`),
			status: 413, message: "Request exceeds the maximum size", legal: request(),
		},
		{
			name:    "unknown kind of thinking",
			refused: request(`"thinking":{"type":"deep"}`), message: "thinking: Input tag 'deep'", legal: request(`"thinking":{"type":"adaptive"}`),
		},
		{
			name:    "thinking budget too small",
			refused: request(`"model":"claude-haiku-4-5","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":1023}`), message: "thinking.enabled.budget_tokens: Input should be greater",
			legal: request(`"model":"claude-haiku-4-5","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":1024}`),
		},
		{
			name:    "thinking budget of max_tokens",
			refused: request(`"model":"claude-haiku-4-5","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":2000}`), message: "`max_tokens` must be greater than",
			legal: request(`"model":"claude-haiku-4-5","max_tokens":2001,"thinking":{"type":"enabled","budget_tokens":2000}`),
		},
		{
			name:    "thinking budget on a model that has none",
			refused: request(`"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":1024}`), message: `"thinking.type.enabled" is not supported for this model`,
			legal: request(`"model":"claude-sonnet-4-6","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":1024}`),
		},
		{
			name:    "adaptive thinking on a model that has none",
			refused: request(`"model":"claude-sonnet-4-5"`, thinking), message: "adaptive thinking is not supported on this model",
			legal: request(`"model":"claude-sonnet-4-6"`, thinking),
		},
		{
			name:    "thinking switched off where it cannot be",
			refused: request(`"model":"claude-opus-5-5","thinking":{"type":"disabled"}`), message: `"thinking.type.disabled" is not supported for this model`,
			legal: request(`"model":"claude-sonnet-5-5","thinking":{"type":"disabled"}`),
		},
		{
			name:    "temperature",
			refused: request(`"temperature":0.2`), message: "`temperature` is deprecated for this model.",
			legal: request(`"model":"claude-sonnet-4-6","temperature":0.2`),
		},
		{
			name:    "field of thinking",
			refused: request(`"thinking":{"type":"disabled","budget_tokens":2000}`), message: "thinking.disabled.budget_tokens: Extra inputs",
			legal: request(`"thinking":{"type":"disabled"}`),
		},
		{
			name:    "block_binding without its beta",
			refused: request(`"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`),
			message: "thinking.adaptive.block_binding: Extra inputs", legal: request(`"thinking":{"type":"adaptive"}`),
		},
		{
			name:    "unknown mismatch behaviour",
			headers: []string{"anthropic-beta", "other-1,thinking-binding-controls-2026-08-01"},
			refused: request(`"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"ignore"}}`),
			message: "prefix_mismatch_behavior: Input should be 'error' or 'drop_block'",
			legal:   request(`"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`),
		},
		{
			name:    "context_management without its beta",
			refused: request(`"context_management":{"edits":[]}`), message: "context_management: Extra inputs", legal: request(),
		},
		{
			name:    "unknown context edit",
			headers: []string{"anthropic-beta", "context-management-2025-06-27"},
			refused: request(`"context_management":{"edits":[{"type":"clear_images"}]}`), message: "context_management.edits.0: Input tag 'clear_images'",
			legal: request(`"context_management":{"edits":[{"type":"clear_tool_uses_20250919","keep":{"type":"tool_uses","value":3}}]}`),
		},
		{
			name:    "field of a context edit",
			headers: []string{"anthropic-beta", "context-management-2025-06-27"},
			refused: request(`"context_management":{"edits":[{"type":"clear_thinking_20251015","trigger":1}]}`),
			message: "context_management.edits.0.clear_thinking_20251015.trigger: Extra inputs",
			legal:   request(`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`),
		},
		{
			name:    "prompt longer than the context window",
			refused: request(`"model":"claude-haiku-4-5","messages":[{"role":"user","content":"` + strings.Repeat("word ", 141_000) + `"}]`),
			message: "prompt is too long: 201429 tokens > 200000 maximum",
			legal:   request(`"model":"claude-haiku-4-5","messages":[{"role":"user","content":"` + strings.Repeat("word ", 139_000) + `"}]`),
		},
	}
}

func toolCases() []ruleCase {
	tools := func(entries ...string) string { return request(`"tools":` + list(entries...)) }
	const schema = `"input_schema":{"type":"object"}`
	return []ruleCase{
		{name: "unknown type of tool", refused: tools(`{"type":"hammer","name":"x"}`), message: "tools.0: Input tag 'hammer'", legal: tools(`{"type":"bash_20250124","name":"bash"}`)},
		{name: "field of a tool", refused: tools(`{"name":"x",` + schema + `,"parameters":{}}`), message: "tools.0.custom.parameters: Extra inputs", legal: tools(`{"name":"x",` + schema + `,"description":"d"}`)},
		{name: "tool without a schema", refused: tools(`{"name":"x"}`), message: "tools.0.custom.input_schema: Field required", legal: tools(`{"name":"x",` + schema + `}`)},
		{name: "schema of another type", refused: tools(`{"name":"x","input_schema":{"type":"array"}}`), message: "tools.0.custom.input_schema.type: Input should be 'object'", legal: tools(`{"name":"x",` + schema + `}`)},
		{
			name:    "schema that is a choice",
			refused: tools(`{"name":"x","input_schema":{"type":"object","oneOf":[]}}`), message: "tools.0.custom.input_schema: input_schema does not support oneOf",
			legal: tools(`{"name":"x","input_schema":{"type":"object","properties":{"a":{"oneOf":[]}}}}`),
		},
		{name: "name with a space", refused: tools(`{"name":"zoom in",` + schema + `}`), message: "tools.0.custom.name: String should match pattern", legal: tools(`{"name":"zoom_in-2",` + schema + `}`)},
		{
			name:    "name too long",
			refused: tools(`{"name":"` + strings.Repeat("x", 129) + `",` + schema + `}`), message: "tools.0.custom.name: String should match pattern",
			legal: tools(`{"name":"` + strings.Repeat("x", 128) + `",` + schema + `}`),
		},
		{
			name:    "two tools of one name",
			refused: tools(`{"name":"x",`+schema+`}`, `{"name":"x",`+schema+`}`), message: "tools: Tool names must be unique.",
			legal: tools(`{"name":"x",`+schema+`}`, `{"name":"y",`+schema+`}`),
		},
		{name: "bash by another name", refused: tools(`{"type":"bash_20250124","name":"sh"}`), message: "tools.0.bash_20250124.name: Input should be 'bash'", legal: tools(`{"type":"bash_20250124","name":"bash"}`)},
		{
			name:    "older computer tool without its beta",
			refused: tools(`{"type":"computer_20251124","name":"computer","display_width_px":10,"display_height_px":10}`), message: "computer-use-2025-11-24",
			legal: tools(hands[len(`"tools":[`) : len(hands)-1]),
		},
		{
			name:    "older computer tool without a display",
			headers: []string{"anthropic-beta", "computer-use-2025-11-24"},
			refused: tools(`{"type":"computer_20251124","name":"computer","display_width_px":10}`), message: "tools.0.computer_20251124.display_height_px: Field required",
			legal: tools(`{"type":"computer_20251124","name":"computer","display_width_px":10,"display_height_px":10,"enable_zoom":true}`),
		},
		{
			name:    "oldest computer tool has no zoom",
			headers: []string{"anthropic-beta", "computer-use-2025-01-24"},
			refused: request(`"model":"claude-haiku-4-5","tools":[{"type":"computer_20250124","name":"computer","display_width_px":10,"display_height_px":10,"enable_zoom":true}]`),
			message: "tools.0.computer_20250124.enable_zoom: Extra inputs",
			legal:   request(`"model":"claude-haiku-4-5","tools":[{"type":"computer_20250124","name":"computer","display_width_px":10,"display_height_px":10,"display_number":1}]`),
		},
		{
			name:    "older computer tool on a newer model",
			headers: []string{"anthropic-beta", "computer-use-2025-11-24"},
			refused: request(`"model":"claude-opus-5-5","tools":[{"type":"computer_20251124","name":"computer","display_width_px":10,"display_height_px":10}]`),
			message: "'claude-opus-5-5' does not support tool types: computer_20251124",
			legal:   request(`"model":"claude-opus-5","tools":[{"type":"computer_20251124","name":"computer","display_width_px":10,"display_height_px":10}]`),
		},
		{name: "named toolset", refused: tools(`{"type":"computer_toolset_20260801","name":"computer"}`), message: "tools.0.computer_toolset_20260801.name: Extra inputs", legal: request(hands)},
		{name: "toolset with a display", refused: tools(`{"type":"computer_toolset_20260801","display_width_px":1024}`), message: "computer_toolset_20260801.display_width_px: Extra inputs", legal: request(hands)},
		{name: "toolset with enable_zoom", refused: tools(`{"type":"computer_toolset_20260801","enable_zoom":true}`), message: "computer_toolset_20260801.enable_zoom: Extra inputs", legal: tools(`{"type":"computer_toolset_20260801","configs":{"zoom":{"enabled":true}}}`)},
		{
			name:    "unknown member",
			refused: tools(`{"type":"computer_toolset_20260801","configs":{"drag":{"enabled":false}}}`), message: "computer_toolset_20260801.configs.drag: Extra inputs",
			legal: tools(`{"type":"computer_toolset_20260801","configs":{"left_click_drag":{"enabled":false,"defer_loading":true}}}`),
		},
		{
			name:    "field of a member's configuration",
			refused: tools(`{"type":"computer_toolset_20260801","configs":{"key":{"off":true}}}`), message: "computer_toolset_20260801.configs.key.off: Extra inputs",
			legal: tools(`{"type":"computer_toolset_20260801","configs":{"key":{}}}`),
		},
		{
			name:    "member switched by a word",
			refused: tools(`{"type":"computer_toolset_20260801","configs":{"key":{"enabled":"no"}}}`), message: "configs.key.enabled: Input should be a valid boolean",
			legal: tools(`{"type":"computer_toolset_20260801","configs":{"key":{"enabled":false}}}`),
		},
		{
			name:    "toolset called by code",
			refused: tools(`{"type":"computer_toolset_20260801","allowed_callers":["code_execution_20260120"]}`), message: "allowed_callers.0: 'code_execution_20260120' is not",
			legal: tools(`{"type":"computer_toolset_20260801","allowed_callers":["direct"]}`),
		},
		{
			name:    "two toolsets",
			refused: tools(`{"type":"computer_toolset_20260801"}`, `{"type":"computer_toolset_20260801"}`), message: "tools: Tool names must be unique.",
			legal: tools(`{"type":"computer_toolset_20260801"}`, `{"type":"bash_20250124","name":"bash"}`),
		},
		{name: "tool_choice without tools", refused: request(`"tool_choice":{"type":"auto"}`), message: "may only be specified while providing `tools`", legal: request(zoomTool, `"tool_choice":{"type":"auto"}`)},
		{name: "unknown tool_choice", refused: request(zoomTool, `"tool_choice":{"type":"some"}`), message: "tool_choice: Input tag 'some'", legal: request(zoomTool, `"tool_choice":{"type":"none"}`)},
		{name: "field of tool_choice", refused: request(zoomTool, `"tool_choice":{"type":"none","name":"zoom"}`), message: "tool_choice.none.name: Extra inputs", legal: request(zoomTool, `"tool_choice":{"type":"tool","name":"zoom"}`)},
		{name: "choice of no tool", refused: request(zoomTool, `"tool_choice":{"type":"tool","name":"pan"}`), message: "Tool 'pan' not found in provided tools", legal: request(zoomTool, `"tool_choice":{"type":"tool","name":"zoom"}`)},
		{
			name:    "forced choice on a model that takes none",
			refused: request(`"model":"claude-fable-5-1"`, zoomTool, `"tool_choice":{"type":"any"}`), message: "does not support tool_choice type 'any'",
			legal: request(`"model":"claude-fable-5-1"`, zoomTool, `"tool_choice":{"type":"auto"}`),
		},
		{
			name:    "forced choice while thinking",
			refused: request(zoomTool, `"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`), message: "Thinking may not be enabled when tool_choice forces tool use",
			legal: request(zoomTool, `"tool_choice":{"type":"any"},"thinking":{"type":"disabled"}`),
		},
	}
}

func messageCases() []ruleCase {
	return []ruleCase{
		{name: "no messages", refused: request(`"messages":"-"`), message: "messages: Field required", legal: request()},
		{name: "empty messages", refused: request(`"messages":[]`), message: "messages: at least one message is required", legal: request()},
		{name: "messages that are not a list", refused: request(`"messages":{"role":"user"}`), message: "messages: Input should be a valid", legal: request()},
		{name: "content that is a number", refused: request(messages(`7`)), message: "messages.0.content", legal: request(messages(`"7"`))},
		{name: "assistant first", refused: request(`"messages":[{"role":"assistant","content":"Hi"},{"role":"user","content":"Hi"}]`), message: `first message must use the "user" role`, legal: request(messages(hello, `"Hi"`, hello))},
		{name: "unknown role", refused: request(`"messages":[{"role":"tool","content":"Hi"}]`), message: "messages.0.role: Input should be", legal: request()},
		{name: "field of a message", refused: request(`"messages":[{"role":"user","content":"Hi","name":"x"}]`), message: "messages.0.name: Extra inputs", legal: request()},
		{name: "empty content", refused: request(messages(hello, `[]`, hello)), message: "messages.1: all messages must have non-empty content", legal: request(messages(hello, `"Hi"`, hello))},
		{name: "empty text", refused: request(messages(`[{"type":"text","text":""}]`)), message: "messages.0.content.0: text content blocks must be non-empty", legal: request(messages(`[{"type":"text","text":"."}]`))},
		{name: "empty string", refused: request(messages(`""`)), message: "messages.0.content.0: text content blocks must be non-empty", legal: request(messages(`"."`))},
		{name: "text of white space", refused: request(messages(`[{"type":"text","text":" \n\t"}]`)), message: "messages.0.content.0: text content blocks must contain non-whitespace text", legal: request(messages(`[{"type":"text","text":" .\n"}]`))},
		{name: "empty system", refused: request(`"system":""`), message: "system.0: text content blocks must be non-empty", legal: request(`"system":"Be brief."`)},
		{name: "image in the system", refused: request(`"system":` + list(picture(1, 1))), message: "system.0: Input tag 'image'", legal: request(messages(list(picture(1, 1))))},
		{
			name:    "empty text in a result",
			refused: request(zoomTool, messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":""}]}]`)),
			message: "messages.2.content.0.tool_result.content.0: text content blocks must be non-empty", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{name: "field of a block", refused: request(messages(`[{"type":"text","text":"Hi","id":"x"}]`)), message: "messages.0.content.0.text.id: Extra inputs", legal: request(messages(`[{"type":"text","text":"Hi"}]`))},
		{name: "block without its field", refused: request(messages(`[{"type":"text"}]`)), message: "messages.0.content.0.text.text: Field required", legal: request(messages(`[{"type":"text","text":"Hi"}]`))},
		{name: "block that is a string", refused: request(messages(`["Hi"]`)), message: "messages.0.content.0: Input should be a valid dictionary", legal: request(messages(`"Hi"`))},
		{name: "call by the user", refused: request(zoomTool, messages(list(call))), message: "messages.0.content.0: Input tag 'tool_use'", legal: request(zoomTool, messages(hello, list(call), list(result)))},
		{name: "image by the assistant", refused: request(messages(hello, list(picture(1, 1)), hello)), message: "messages.1.content.0: Input tag 'image'", legal: request(messages(hello, list(said), list(picture(1, 1))))},
		{
			name:    "prefill",
			refused: request(messages(hello, `"The answer is"`)), message: "This model does not support assistant message prefill",
			legal: request(`"model":"claude-haiku-4-5"`, messages(hello, `"The answer is"`)),
		},
		{
			name:    "prefill that ends in white space",
			refused: request(`"model":"claude-haiku-4-5"`, messages(hello, `"The answer is "`)), message: "final assistant content cannot end with trailing whitespace",
			legal: request(`"model":"claude-haiku-4-5"`, messages(hello, `"The answer is "`, hello)),
		},
	}
}

func callCases() []ruleCase {
	second := `{"type":"tool_use","id":"t2","name":"zoom","input":{}}`
	result2 := `{"type":"tool_result","tool_use_id":"t2","content":"seen"}`
	return []ruleCase{
		{
			name: "call without a result", refused: request(zoomTool, messages(hello, list(said, call), list(asked))),
			message: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use`",
			legal:   request(zoomTool, messages(hello, list(said, call), list(result, asked))),
		},
		{
			name: "one of two calls without a result", refused: request(zoomTool, messages(hello, list(call, second), list(result))),
			message: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t2.",
			legal:   request(zoomTool, messages(hello, list(call, second), list(result2, result))),
		},
		{
			name: "call in the last turn", refused: request(zoomTool, messages(hello, list(call))),
			message: "messages.1: `tool_use` ids were found without", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{
			name: "result a turn too late", refused: request(zoomTool, messages(hello, list(call), hello, list(said), list(result))),
			message: "messages.1: `tool_use` ids were found without", legal: request(zoomTool, messages(hello, list(call), list(result), list(said), hello)),
		},
		{
			name: "text before a result", refused: request(zoomTool, messages(hello, list(call), list(asked, result))),
			message: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1.",
			legal:   request(zoomTool, messages(hello, list(call), list(result, asked))),
		},
		{
			name:    "results over two user messages count as one turn",
			refused: request(zoomTool, `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":`+list(call, second)+`},{"role":"user","content":`+list(result)+`},{"role":"user","content":`+list(asked, result2)+`}]`),
			message: "immediately after: t2.",
			legal:   request(zoomTool, `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":`+list(call, second)+`},{"role":"user","content":`+list(result)+`},{"role":"user","content":`+list(result2, asked)+`}]`),
		},
		{
			name: "result without a call", refused: request(zoomTool, messages(list(result))),
			message: "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1.", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{
			name: "call answered again later", refused: request(zoomTool, messages(hello, list(call), list(result), list(said), list(result))),
			message: "messages.4.content.0: unexpected `tool_use_id` found", legal: request(zoomTool, messages(hello, list(call), list(result), list(said), hello)),
		},
		{
			name: "call answered twice", refused: request(zoomTool, messages(hello, list(call), list(result, result))),
			message: "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: t1", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{
			name: "two calls of one id", refused: request(zoomTool, messages(hello, list(call), list(result), list(call), list(result))),
			message: "messages.3.content.0: `tool_use` ids must be unique", legal: request(zoomTool, messages(hello, list(call), list(result), list(second), list(result2))),
		},
		{
			name: "id of another form", refused: request(zoomTool, messages(hello, `[{"type":"tool_use","id":"t.1","name":"zoom","input":{}}]`, hello)),
			message: "messages.1.content.0.tool_use.id: String should match pattern", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{
			name: "input that is a string", refused: request(zoomTool, messages(hello, `[{"type":"tool_use","id":"t1","name":"zoom","input":"{}"}]`, list(result))),
			message: "messages.1.content.0.tool_use.input: Input should be a valid dictionary", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{
			name: "result in a result", refused: request(zoomTool, messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_result","tool_use_id":"t1"}]}]`)),
			message: "messages.2.content.0.tool_result.content.0: Input tag 'tool_result'", legal: request(zoomTool, messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":`+list(asked, picture(1, 1))+`}]`)),
		},
		{
			name: "calls without tools", refused: request(messages(hello, list(call), list(result))),
			message: "blocks must define tools", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
	}
}

func toolsetCases() []ruleCase {
	click := `{"type":"tool_use","id":"t1","name":"left_click","toolset_name":"computer","input":{}}`
	clicked := `{"type":"tool_result","tool_use_id":"t1","toolset_name":"computer","content":"ok"}`
	return []ruleCase{
		{
			name: "result without its toolset", refused: request(hands, messages(hello, list(click), list(result))),
			message: "messages.2.content.0.tool_result.toolset_name: Input should be 'computer'", legal: request(hands, messages(hello, list(click), list(clicked))),
		},
		{
			name: "result of a toolset that the call has not", refused: request(zoomTool, messages(hello, list(call), list(clicked))),
			message: "messages.2.content.0.tool_result.toolset_name: Input should be ''", legal: request(zoomTool, messages(hello, list(call), list(result))),
		},
		{
			name: "call of a toolset that is not declared", refused: request(zoomTool, messages(hello, list(click), list(clicked))),
			message: "messages.1.content.0.tool_use.toolset_name: no toolset 'computer'", legal: request(hands, messages(hello, list(click), list(clicked))),
		},
		{
			name:    "failed action with an image",
			refused: request(hands, messages(hello, list(click), `[{"type":"tool_result","tool_use_id":"t1","toolset_name":"computer","is_error":true,"content":`+list(asked, picture(1, 1))+`}]`)),
			message: "messages.2.content.0.tool_result.content.1: all content must be type 'text' if 'is_error' is true",
			legal:   request(hands, messages(hello, list(click), `[{"type":"tool_result","tool_use_id":"t1","toolset_name":"computer","is_error":false,"content":`+list(asked, picture(1, 1))+`}]`)),
		},
	}
}

func imageCases() []ruleCase {
	image := func(source string) string {
		return request(messages(`[{"type":"image","source":` + source + `}]`))
	}
	fits := func(width, height int, extra ...string) string {
		return request(messages(list(picture(width, height, extra...))))
	}
	old := `"model":"claude-sonnet-4-6"`
	return []ruleCase{
		{name: "image by URL", refused: image(`{"type":"url","url":"https://example.org/a.png"}`), message: "messages.0.content.0.image.source: the test server reads base64", legal: fits(1, 1)},
		{name: "field of a source", refused: image(`{"type":"base64","media_type":"image/png","data":"` + blank(1, 1) + `","name":"x"}`), message: "messages.0.content.0.image.source.base64.name: Extra inputs", legal: fits(1, 1)},
		{name: "base64 without padding", refused: image(`{"type":"base64","media_type":"image/png","data":"iVBORw0KGg"}`), message: "messages.0.content.0.image.source.base64.data: Invalid base64", legal: fits(1, 1)},
		{name: "unknown media type", refused: image(`{"type":"base64","media_type":"image/tiff","data":"` + blank(1, 1) + `"}`), message: "messages.0.content.0.image.source.base64.media_type: Input should be", legal: fits(1, 1)},
		{
			name: "JPEG named PNG", refused: request(messages(list(jpegAs("image/png")))),
			message: "messages.0.content.0.image.source.base64.data: The image was specified using the image/png media type, but the image appears to be a image/jpeg image",
			legal:   request(messages(list(jpegAs("image/jpeg")))),
		},
		{name: "text for an image", refused: image(`{"type":"base64","media_type":"image/png","data":"aGVsbG8gd29ybGQ="}`), message: "Could not process image", legal: fits(1, 1)},
		{name: "image without a header", refused: image(`{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}`), message: "Could not process image", legal: fits(1, 1)},
		{
			name: "image of too many bytes", options: &claudetest.Options{MaxImageBytes: len(blank(300, 300))},
			refused: fits(3000, 3000), message: "messages.0.content.0.image.source.base64: image exceeds", legal: fits(300, 300),
		},
		{name: "edge over 8000", refused: fits(8001, 1), message: "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels", legal: fits(8000, 1)},
		{name: "height over 8000", refused: fits(1, 8001), message: "exceed max allowed size: 8000 pixels", legal: fits(1, 8000)},
		{
			name: "edge over 2000 among 21", refused: request(messages(pictures(21, 2001, 1))),
			message: "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
			legal:   request(messages(pictures(20, 2001, 1))),
		},
		{name: "21 images of 2000", refused: request(messages(pictures(21, 1, 2001))), message: "many-image requests", legal: request(messages(pictures(21, 1, 2000)))},
		{
			name: "101 images with a small context", refused: request(`"model":"claude-haiku-4-5"`, messages(pictures(101, 1, 1))),
			message: "Too much media: 0 document pages + 101 images > 100", legal: request(`"model":"claude-haiku-4-5"`, messages(pictures(100, 1, 1))),
		},
		{name: "601 images", refused: request(messages(pictures(601, 1, 1))), message: "601 images > 600", legal: request(messages(pictures(600, 1, 1)))},
		{
			name: "oversized and strict", refused: fits(3000, 1000, strict),
			message: "messages.0.content.0.image: image dimensions 3000x1000 exceed the maximum image size of claude-sonnet-5; the largest dimensions that fit are 2576x859",
			legal:   fits(3000, 1000),
		},
		{name: "one pixel over the edge", refused: fits(2577, 100, strict), message: "2577x100 exceed", legal: fits(2576, 100, strict)},
		{name: "one patch over the tokens", refused: fits(1149, 3360, strict), message: "1149x3360 exceed", legal: fits(1148, 2576, strict)},
		{
			name: "standard tier", refused: request(old, messages(list(picture(1569, 700, strict)))),
			message: "the largest dimensions that fit are 1568x700", legal: request(old, messages(list(picture(1568, 700, strict)))),
		},
		{
			name: "oversized in a result", refused: request(zoomTool, messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":`+list(picture(2600, 10, strict))+`}]`)),
			message: "messages.2.content.0.tool_result.content.0.image: image dimensions 2600x10",
			legal:   request(zoomTool, messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":`+list(picture(2576, 10, strict))+`}]`)),
		},
		{name: "unknown transformation", refused: fits(1, 1, `,"transformations":{"crop":true}`), message: "messages.0.content.0.image.transformations.crop: Extra inputs", legal: fits(1, 1, `,"transformations":{}`)},
		{name: "unknown answer to an oversized image", refused: fits(1, 1, `,"transformations":{"oversized_image":"crash"}`), message: "transformations.oversized_image: Input should be", legal: fits(1, 1, `,"transformations":{"oversized_image":"downsize"}`)},
	}
}

func historyCases() []ruleCase {
	back := func(blocks ...string) string { return request(zoomTool, messages(hello, list(blocks...), list(seen))) }
	bound := `"model":"claude-fable-5-1"`
	whole := []string{sign1, hidden, sign2, said, zoomed}
	quiet := []claudetest.Turn{claudetest.Say(claudetest.Thinking("Hm."), claudetest.Text("Looking."))}
	paused := []claudetest.Turn{claudetest.Say(claudetest.Text("Working.")).WithStop("pause_turn")}
	const cannot = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
	return []ruleCase{
		{name: "thinking altered", issued: thought(), refused: back(strings.Replace(sign1, "Hm.", "Hm!", 1), hidden, sign2, said, zoomed), message: "messages.1.content.0: " + cannot, legal: back(whole...)},
		{name: "thinking dropped", issued: thought(), refused: back(sign1, hidden, said, zoomed), message: "messages.1.content.2: " + cannot, legal: back(whole...)},
		{name: "all thinking dropped", issued: thought(), refused: back(said, zoomed), message: cannot, legal: back(whole...)},
		{name: "thinking reordered", issued: thought(), refused: back(sign2, hidden, sign1, said, zoomed), message: cannot, legal: back(whole...)},
		{name: "thinking moved behind the text", issued: thought(), refused: back(sign1, hidden, said, sign2, zoomed), message: "messages.1.content.2: " + cannot, legal: back(whole...)},
		{name: "redacted thinking dropped", issued: thought(), refused: back(sign1, sign2, said, zoomed), message: "messages.1.content.1: " + cannot, legal: back(whole...)},
		{name: "unknown signature", issued: thought(), refused: back(strings.Replace(sign1, "c2ln", "d2ln", 1), hidden, sign2, said, zoomed), message: "messages.1.content.0: Invalid `signature` in `thinking` block", legal: back(whole...)},
		{name: "unknown redacted thinking", issued: thought(), refused: back(sign1, strings.Replace(hidden, "cm", "dm", 1), sign2, said, zoomed), message: "messages.1.content.1: Invalid `data` in `redacted_thinking` block", legal: back(whole...)},
		{name: "thinking with cache_control", issued: thought(), refused: back(strings.Replace(sign1, `{`, `{"cache_control":{"type":"ephemeral"},`, 1), hidden, sign2, said, zoomed), message: "messages.1.content.0.thinking.cache_control: Extra inputs", legal: back(whole...)},
		{name: "text altered", issued: thought(), refused: back(sign1, hidden, sign2, strings.Replace(said, "Looking", "Looked", 1), zoomed), message: "messages.1.content.3: this turn is not the one that was returned", legal: back(whole...)},
		{name: "input altered", issued: thought(), refused: back(sign1, hidden, sign2, said, strings.Replace(zoomed, "30", "31", 1)), message: "messages.1.content.4: this turn is not the one that was returned", legal: back(sign1, hidden, sign2, said, `{"type":"tool_use","input":{"y2":40.0,"y1":2,"x2":30,"x1":1},"name":"zoom","id":"toolu_0001"}`)},
		{
			name: "text turn sent twice", issued: quiet,
			refused: request(messages(hello, list(sign1, said, sign1, said), hello)), message: "messages.1.content.2: " + cannot,
			legal: request(messages(hello, list(sign1, said), hello)),
		},
		{name: "turn that ends in thinking", issued: quiet, refused: request(messages(hello, list(sign1), hello)), message: "messages.1: The final block in an assistant message cannot be `thinking`", legal: request(messages(hello, list(sign1, said), hello))},
		{
			name: "messages before thinking changed", issued: thought(), first: request(bound, zoomTool),
			refused: request(bound, zoomTool, messages(`"Hello!"`, list(whole...), list(seen))), message: "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
			legal: request(bound, zoomTool, messages(hello, list(whole...), list(seen))),
		},
		{
			name: "system before thinking changed", issued: thought(), first: request(bound, zoomTool, `"system":"Be brief."`),
			refused: request(bound, zoomTool, `"system":"Be long."`, messages(hello, list(whole...), list(seen))), message: "bound to a different conversation",
			legal: request(bound, zoomTool, `"system":"Be brief."`, messages(hello, list(whole...), list(seen))),
		},
		{
			name: "a tool more before thinking", issued: thought(), first: request(bound, zoomTool),
			refused: request(bound, `"tools":[{"name":"zoom","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"}]`, messages(hello, list(whole...), list(seen))),
			message: "bound to a different conversation",
			legal:   request(bound, `"tools":[{"name":"zoom","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]`, messages(hello, list(whole...), list(seen))),
		},
		{
			name: "messages changed on a model that does not mind", issued: thought(), first: request(zoomTool),
			refused: request(bound, zoomTool, messages(`"Hello!"`, list(whole...), list(seen))), message: "bound to a different conversation",
			legal: request(zoomTool, messages(`"Hello!"`, list(whole...), list(seen))),
		},
		{
			name: "failing thinking is dropped when asked", issued: thought(), first: request(bound, zoomTool),
			headers: []string{"anthropic-beta", "thinking-binding-controls-2026-08-01"},
			refused: request(bound, zoomTool, messages(`"Hello!"`, list(whole...), list(seen)), `"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"error"}}`),
			message: "bound to a different conversation",
			legal:   request(bound, zoomTool, messages(`"Hello!"`, list(whole...), list(seen)), `"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`),
		},
		{name: "paused turn altered", issued: paused, refused: request(zoomTool, messages(hello, list(strings.Replace(working, "ing", "ed", 1)))), message: "does not support assistant message prefill", legal: request(zoomTool, messages(hello, list(working)))},
		{name: "paused turn after another question", issued: paused, refused: request(zoomTool, messages(`"Hi"`, list(working))), message: "does not support assistant message prefill", legal: request(zoomTool, messages(hello, list(working)))},
		{
			name: "call and thinking that was cut", issued: []claudetest.Turn{claudetest.Say(claudetest.Zoom(1, 2, 30, 40, 0), claudetest.Thinking("Hm.")).WithStop("max_tokens")},
			refused: back(zoomed, sign1), message: "messages.1: The final block in an assistant message cannot be `thinking`",
			legal: back(zoomed),
		},
		{
			name: "blank text sent back", issued: []claudetest.Turn{claudetest.Say(claudetest.Text(" \n"), claudetest.Text("Looking."), claudetest.Zoom(1, 2, 30, 40, 0))},
			refused: back(`{"type":"text","text":" \n"}`, said, zoomed), message: "messages.1.content.0: text content blocks must contain non-whitespace text",
			legal: back(said, zoomed),
		},
		{
			name: "blank text of a paused turn", issued: []claudetest.Turn{claudetest.Say(claudetest.Text(""), claudetest.Text("Working.")).WithStop("pause_turn")},
			refused: request(messages(hello, list(`{"type":"text","text":""}`, working))), message: "messages.1.content.0: text content blocks must be non-empty",
			legal: request(messages(hello, list(working))),
		},
		{
			name: "cut call left out", issued: []claudetest.Turn{claudetest.CutInside(claudetest.Text("Looking."), claudetest.Zoom(1, 2, 30, 40, 0), claudetest.Call("zoom", `{"x1": 5, "y`))},
			refused: request(zoomTool, messages(hello, list(said, zoomed), list(seen))), message: "messages.1.content.1: this turn is not the one that was returned",
			legal: request(zoomTool, messages(hello, list(said, zoomed, `{"type":"tool_use","id":"toolu_0002","name":"zoom","input":{}}`),
				list(seen, `{"type":"tool_result","tool_use_id":"toolu_0002","is_error":true,"content":"cut off"}`))),
		},
	}
}

func cacheCases() []ruleCase {
	five := strings.Split(strings.Repeat(marked+"\x00", 4)+marked, "\x00")
	hour := strings.Replace(marked, `"ephemeral"`, `"ephemeral","ttl":"1h"`, 1)
	tool := `"tools":[{"name":"zoom","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]`
	return []ruleCase{
		{name: "five breakpoints", refused: request(messages(list(five...))), message: "A maximum of 4 blocks with cache_control may be provided. Found 5.", legal: request(messages(list(five[:4]...)))},
		{
			name: "five breakpoints over tools, system and messages", refused: request(tool, `"system":`+list(marked), messages(list(five[:3]...))),
			message: "Found 5.", legal: request(tool, `"system":`+list(marked), messages(list(five[:2]...))),
		},
		{
			name: "a fifth breakpoint inside a result", refused: request(zoomTool, `"system":`+list(five[:4]...), messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":`+list(marked)+`}]`)),
			message: "Found 5.", legal: request(zoomTool, `"system":`+list(five[:3]...), messages(hello, list(call), `[{"type":"tool_result","tool_use_id":"t1","content":`+list(marked)+`}]`)),
		},
		{name: "a fifth breakpoint by the request itself", refused: request(`"cache_control":{"type":"ephemeral"}`, messages(list(five[:4]...))), message: "Found 5.", legal: request(`"cache_control":{"type":"ephemeral"}`, messages(list(five[:3]...)))},
		{name: "unknown kind of cache", refused: request(messages(list(strings.Replace(marked, "ephemeral", "eternal", 1)))), message: "messages.0.content.0.cache_control.type: Input should be 'ephemeral'", legal: request(messages(list(marked)))},
		{name: "unknown ttl", refused: request(messages(list(strings.Replace(hour, "1h", "2h", 1)))), message: "messages.0.content.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'", legal: request(messages(list(hour)))},
		{name: "field of cache_control", refused: request(messages(list(strings.Replace(hour, "ttl", "scope", 1)))), message: "cache_control.ephemeral.scope: Extra inputs", legal: request(messages(list(hour)))},
		{name: "an hour after five minutes", refused: request(messages(list(marked, hour))), message: "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after", legal: request(messages(list(hour, marked)))},
		{name: "breakpoint on empty text", refused: request(messages(list(strings.Replace(marked, `"A"`, `""`, 1)))), message: "messages.0.content.0.text: cache_control cannot be set for empty text blocks", legal: request(messages(list(marked)))},
	}
}

func TestKeyAndVersion(t *testing.T) {
	double := claudetest.New(t, nil, claudetest.Answer("Fine."), claudetest.Answer("Fine."))
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		message string
	}{
		{"no key", []string{"X-Api-Key", ""}, 401, "x-api-key header is required"},
		{"a key that is refused", []string{"X-Api-Key", claudetest.RefusedKey}, 401, "invalid x-api-key"},
		{"no version", []string{"Anthropic-Version", ""}, 400, "anthropic-version: header is required"},
		{"another key", []string{"X-Api-Key", "sk-other"}, 200, ""},
		{"a bearer token", []string{"X-Api-Key", "", "Authorization", "Bearer token"}, 200, ""},
	} {
		if got := post(t, double, request(), c.headers...); got.status != c.status || got.message != c.message {
			t.Errorf("%s: got %d %q", c.name, got.status, got.message)
		}
	}
	for _, c := range []struct{ method, path string }{{"POST", "/v1/complete"}, {"GET", "/v1/messages"}} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, double.URL+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := double.HTTPClient().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 404 && response.StatusCode != 405 {
			t.Errorf("%s %s: got %d", c.method, c.path, response.StatusCode)
		}
	}
}
