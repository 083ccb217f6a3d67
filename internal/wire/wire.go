// Package wire is the Messages API as a server speaks it: the request as it is
// read, the message as it is answered (whole or as server-sent events), and the
// shape of an error. The built-in reader and the strict double stand on it; a
// client uses the SDK instead.
//
// All values are plain data, owned by whoever made them; nothing here is safe to
// change while another goroutine uses it.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// Request is the part of a Messages request that a server here looks at. Fields
// that it does not name are dropped; a caller that must judge them reads the raw
// body itself.
type Request struct {
	Model      string            `json:"model"`
	MaxTokens  int               `json:"max_tokens"`
	Stream     bool              `json:"stream"`
	System     Content           `json:"system"`
	Messages   []RequestMessage  `json:"messages"`
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage   `json:"tool_choice"`
}

// ToolNames returns the names of the tools that may be called: empty when none
// are declared or when tool_choice forbids them.
func (r *Request) ToolNames() []string {
	var choice struct {
		Type string `json:"type"`
	}
	if len(r.ToolChoice) > 0 && json.Unmarshal(r.ToolChoice, &choice) == nil && choice.Type == "none" {
		return nil
	}
	var names []string
	for _, raw := range r.Tools {
		var tool struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &tool) == nil && tool.Name != "" {
			names = append(names, tool.Name)
		}
	}
	return names
}

// RequestMessage is one turn of the conversation. Role is "user" or "assistant".
type RequestMessage struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// Content is a list of blocks. On the wire it may also be a bare string, which is
// read as one text block.
type Content []RequestBlock

// UnmarshalJSON reads a list of blocks or a bare string.
func (c *Content) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*c = Content{{Type: "text", Text: text}}
		return nil
	}
	var blocks []RequestBlock
	if err := json.Unmarshal(data, &blocks); err != nil {
		return err
	}
	*c = blocks
	return nil
}

// RequestBlock is one content block of a request: text, image, tool_use,
// tool_result, thinking or redacted_thinking; the fields of the others are zero.
type RequestBlock struct {
	Type string `json:"type"`

	Text string `json:"text"` // text

	Source          *ImageSource    `json:"source"` // image
	Transformations json.RawMessage `json:"transformations"`

	ID          string          `json:"id"` // tool_use
	Name        string          `json:"name"`
	Input       json.RawMessage `json:"input"`
	ToolsetName string          `json:"toolset_name"` // tool_use and tool_result

	ToolUseID string  `json:"tool_use_id"` // tool_result
	Content   Content `json:"content"`
	IsError   bool    `json:"is_error"`

	Thinking  string `json:"thinking"` // thinking
	Signature string `json:"signature"`
	Data      string `json:"data"` // redacted_thinking

	CacheControl json.RawMessage `json:"cache_control"`
}

// ImageSource is where an image block's bytes are. Type is "base64", "url" or
// "file"; Data is standard base64.
type ImageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
	FileID    string `json:"file_id"`
}

// Message is an assistant turn as a server answers it.
type Message struct {
	ID         string
	Model      string
	Content    []Block
	StopReason string
	Usage      Usage
}

// Block is one content block of an answer. Type is "text", "thinking",
// "redacted_thinking" or "tool_use".
type Block struct {
	Type        string
	Text        string          // text
	Thinking    string          // thinking
	Signature   string          // thinking
	Data        string          // redacted_thinking
	ID          string          // tool_use
	Name        string          // tool_use
	ToolsetName string          // tool_use of a toolset's member
	Input       json.RawMessage // tool_use; whole JSON, or a prefix of it when the turn was cut inside the call
}

// Usage counts the tokens of one request. InputTokens are those neither read from
// nor written to the cache.
type Usage struct {
	InputTokens              int `json:"input_tokens"`
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int `json:"cache_read_input_tokens"`
	OutputTokens             int `json:"output_tokens"`
}

// MarshalJSON writes the block as the API does. A tool_use whose Input is not
// whole JSON is written with the empty object, as the API does for a call that
// was cut.
func (b Block) MarshalJSON() ([]byte, error) {
	input := b.Input
	if !json.Valid(input) {
		input = json.RawMessage("{}")
	}
	return json.Marshal(b.fields(b.Text, b.Thinking, b.Signature, input))
}

// fields returns the block's wire form with the parts that a stream sends as
// deltas given apart.
func (b Block) fields(text, thinking, signature string, input json.RawMessage) any {
	switch b.Type {
	case "thinking":
		return struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{b.Type, thinking, signature}
	case "redacted_thinking":
		return struct {
			Type string `json:"type"`
			Data string `json:"data"`
		}{b.Type, b.Data}
	case "tool_use":
		return struct {
			Type        string          `json:"type"`
			ID          string          `json:"id"`
			Name        string          `json:"name"`
			ToolsetName string          `json:"toolset_name,omitempty"`
			Input       json.RawMessage `json:"input"`
		}{b.Type, b.ID, b.Name, b.ToolsetName, input}
	default:
		return struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{b.Type, text}
	}
}

// WriteJSON answers a request that did not ask for a stream.
func (m *Message) WriteJSON(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	content := m.Content
	if content == nil {
		content = []Block{}
	}
	return json.NewEncoder(w).Encode(m.envelope(content, &m.StopReason, m.Usage))
}

func (m *Message) envelope(content []Block, stopReason *string, usage Usage) any {
	return map[string]any{
		"id": m.ID, "type": "message", "role": "assistant", "model": m.Model,
		"content": content, "stop_reason": stopReason, "stop_sequence": nil, "usage": usage,
	}
}

// Stream writes a message as server-sent events, piece by piece, so that a server
// can stop in the middle. Not safe for concurrent use.
type Stream struct {
	w     io.Writer
	flush func()
}

// NewStream starts an event stream on w; every event is flushed when w can.
func NewStream(w http.ResponseWriter) *Stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	s := &Stream{w: w, flush: func() {}}
	if f, ok := w.(http.Flusher); ok {
		s.flush = f.Flush
	}
	return s
}

// Event writes one event whose name is also its "type".
func (s *Stream) Event(name string, fields map[string]any) error {
	fields["type"] = name
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode %s event: %w", name, err)
	}
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data); err != nil {
		return fmt.Errorf("write %s event: %w", name, err)
	}
	s.flush()
	return nil
}

// Start writes message_start, with the input side of the message's usage.
func (s *Stream) Start(m *Message) error {
	usage := m.Usage
	usage.OutputTokens = 1
	return s.Event("message_start", map[string]any{"message": m.envelope([]Block{}, nil, usage)})
}

// Block writes one content block: its start, its deltas, its stop.
func (s *Stream) Block(index int, b Block) error {
	if err := s.BlockStart(index, b); err != nil {
		return err
	}
	if err := s.BlockDeltas(index, b); err != nil {
		return err
	}
	return s.Event("content_block_stop", map[string]any{"index": index})
}

// BlockStart writes content_block_start alone.
func (s *Stream) BlockStart(index int, b Block) error {
	return s.Event("content_block_start", map[string]any{
		"index": index, "content_block": b.fields("", "", "", json.RawMessage("{}")),
	})
}

// BlockDeltas writes a block's deltas alone, in pieces of about 40 bytes that never
// split a character.
func (s *Stream) BlockDeltas(index int, b Block) error {
	delta := func(kind, field, value string) error {
		return s.Event("content_block_delta", map[string]any{
			"index": index, "delta": map[string]any{"type": kind, field: value},
		})
	}
	var kind, field, value string
	switch b.Type {
	case "text":
		kind, field, value = "text_delta", "text", b.Text
	case "thinking":
		kind, field, value = "thinking_delta", "thinking", b.Thinking
	case "tool_use":
		kind, field, value = "input_json_delta", "partial_json", string(b.Input)
	default:
		return nil
	}
	for value != "" {
		n := min(len(value), 40)
		for n < len(value) && !utf8.RuneStart(value[n]) {
			n++
		}
		if err := delta(kind, field, value[:n]); err != nil {
			return err
		}
		value = value[n:]
	}
	if b.Type == "thinking" {
		return delta("signature_delta", "signature", b.Signature)
	}
	return nil
}

// Stop writes message_delta with the stop reason and the whole usage, then
// message_stop.
func (s *Stream) Stop(m *Message) error {
	err := s.Event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": m.StopReason, "stop_sequence": nil},
		"usage": m.Usage,
	})
	if err != nil {
		return err
	}
	return s.Event("message_stop", map[string]any{})
}

// Write answers with the message: as events when stream is true, whole otherwise.
func (m *Message) Write(w http.ResponseWriter, stream bool) error {
	if !stream {
		return m.WriteJSON(w)
	}
	s := NewStream(w)
	if err := s.Start(m); err != nil {
		return err
	}
	for i, b := range m.Content {
		if err := s.Block(i, b); err != nil {
			return err
		}
	}
	return s.Stop(m)
}

// Error is a refusal in the API's shape. It is a Go error too, so that a check deep
// in a server can return it and the handler can write it.
type Error struct {
	Status     int           // HTTP status, 400 to 599
	Type       string        // e.g. "invalid_request_error"; by Status when empty
	Message    string        // what the client reads
	RequestID  string        // sent as request-id and in the body when set
	RetryAfter time.Duration // sent in whole seconds when positive
}

// Error returns the text that the client reads.
func (e *Error) Error() string { return e.Message }

// Invalid is a 400 invalid_request_error.
func Invalid(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// errorTypes are the API's error types by HTTP status.
var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
	403: "permission_error", 404: "not_found_error", 413: "request_too_large",
	429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

// WriteError answers with err: with its own status and type when it is an *Error,
// as a 500 api_error otherwise.
func WriteError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Status: http.StatusInternalServerError, Message: err.Error()}
	}
	kind := e.Type
	if kind == "" {
		kind = errorTypes[e.Status]
	}
	if kind == "" {
		kind = "api_error"
	}
	if e.RequestID != "" {
		w.Header().Set("Request-Id", e.RequestID)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	body := map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": e.Message}}
	if e.RequestID != "" {
		body["request_id"] = e.RequestID
	}
	_ = json.NewEncoder(w).Encode(body) // the client is gone when this fails
}
