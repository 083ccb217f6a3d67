package claudetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/loupe-tools/loupe/internal/wire"
)

// Request is one request as it came, with what the double found out about it. It is
// shared between its readers: nobody changes it.
type Request struct {
	wire.Request
	Number      int // 1 for the first
	Size        int // bytes of the body
	Header      http.Header
	Images      []Image  // in the order in which the model sees them
	MaxEdge     int      // longest edge of Images, in pixels
	Breakpoints []string // paths of the blocks that carry cache_control
	Usage       wire.Usage
	Prompt      int // tokens of the whole prompt

	Refusal *wire.Error   // why a rule refused it; nil when none did
	Status  int           // HTTP status of the answer
	Answer  *wire.Message // what was answered, whole even where the stream broke; nil for an error

	short    []byte // the body with long base64 named, see blobs
	named    []string
	blobs    *blobs
	top      map[string]json.RawMessage
	messages []map[string]json.RawMessage
	beta     map[string]bool // of the anthropic-beta header
	model    Model
	blocks   []block // every content block of messages, in order
	tools    []tool
	system   []block
	pieces   []piece
}

// Image is one image of a request.
type Image struct {
	Path       string // of its block, e.g. messages.0.content.1
	MediaType  string // by its bytes
	Width      int    // pixels
	Height     int
	Base64     int  // bytes of its base64 text
	Tokens     int  // visual tokens, at the size that the model sees
	Strict     bool // carries transformations.oversized_image "error"
	Downscaled bool // larger than the model's limits and not Strict: the API would shrink it silently
}

// Body returns the body as it came. Each call makes a copy.
func (r *Request) Body() []byte {
	body := bytes.Clone(r.short)
	for _, name := range r.named {
		body = bytes.Replace(body, []byte(name), []byte(r.blobs.restore(name)), 1)
	}
	return body
}

// LastUser returns the blocks of the newest user turn, merged with user turns right
// before it.
func (r *Request) LastUser() wire.Content {
	var content wire.Content
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role == "user"; i-- {
		content = append(append(wire.Content(nil), r.Messages[i].Content...), content...)
	}
	return content
}

// Results returns the tool results of the newest user turn.
func (r *Request) Results() []wire.RequestBlock {
	var results []wire.RequestBlock
	for _, b := range r.LastUser() {
		if b.Type == "tool_result" {
			results = append(results, b)
		}
	}
	return results
}

// TextOf returns the text of blocks and of the tool results in them, a line a block.
func TextOf(content wire.Content) string {
	var lines []string
	for _, b := range content {
		switch b.Type {
		case "text":
			lines = append(lines, b.Text)
		case "tool_result":
			lines = append(lines, TextOf(b.Content))
		}
	}
	return strings.Join(lines, "\n")
}

// block is one content block with its place: path names it in an error, message is
// the index of its message.
type block struct {
	wire.RequestBlock
	path      string
	message   int
	role      string
	raw       map[string]json.RawMessage
	dataName  string  // of an image's data: its name among the blobs, or the data itself
	nested    []block // of a tool_result
	canonical string  // see canonicalBlock
}

// typed is the block's path with its type, under which the API names its fields.
func (b block) typed() string { return b.path + "." + b.Type }

// parse reads the body into a request. What cannot be read is the API's 400.
func (b *blobs) parse(body []byte, header http.Header) (*Request, *wire.Error) {
	r := &Request{Size: len(body), Header: header, beta: map[string]bool{}, blobs: b}
	r.short, r.named = b.shorten(body)
	for _, line := range header.Values("anthropic-beta") {
		for name := range strings.SplitSeq(line, ",") {
			r.beta[strings.TrimSpace(name)] = true
		}
	}
	if err := json.Unmarshal(r.short, &r.top); err != nil || r.top == nil {
		return r, wire.Invalid("The request body is not valid JSON: %v", err)
	}
	for _, field := range []struct {
		name string
		into any
		kind string
	}{
		{"model", &r.Model, "string"},
		{"max_tokens", &r.MaxTokens, "integer"},
		{"stream", &r.Stream, "boolean"},
		{"tools", &r.Tools, "list"},
		{"tool_choice", &r.ToolChoice, "dictionary"},
	} {
		raw, ok := r.top[field.name]
		if ok && json.Unmarshal(raw, field.into) != nil {
			return r, wire.Invalid("%s: Input should be a valid %s", field.name, field.kind)
		}
	}
	return r, r.parseMessages()
}

// parseMessages reads system and messages, each block once.
func (r *Request) parseMessages() *wire.Error {
	var err *wire.Error
	if r.system, err = r.blobs.parseContent(r.top["system"], "system"); err != nil {
		return err
	}
	r.System = contentOf(r.system)
	if !present(r.top["messages"]) {
		return nil // a rule says so
	}
	var raws []json.RawMessage
	if json.Unmarshal(r.top["messages"], &raws) != nil {
		return wire.Invalid("messages: Input should be a valid list")
	}
	for i, raw := range raws {
		path := join("messages", itoa(i))
		message, err := object(raw, path)
		if err != nil {
			return err
		}
		blocks, err := r.blobs.parseContent(message["content"], path+".content")
		if err != nil {
			return err
		}
		role := str(message["role"])
		for j := range blocks {
			blocks[j].message, blocks[j].role = i, role
		}
		r.messages = append(r.messages, message)
		r.blocks = append(r.blocks, blocks...)
		r.Messages = append(r.Messages, wire.RequestMessage{Role: role, Content: contentOf(blocks)})
	}
	return nil
}

func contentOf(blocks []block) wire.Content {
	var content wire.Content
	for _, b := range blocks {
		content = append(content, b.RequestBlock)
	}
	return content
}

// parseContent reads a content list, or a bare string as one text block.
func (kept *blobs) parseContent(raw json.RawMessage, path string) ([]block, *wire.Error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	var list []json.RawMessage
	if raw[0] == '"' {
		list = []json.RawMessage{json.RawMessage(`{"type":"text","text":` + string(raw) + `}`)}
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return nil, wire.Invalid("%s: Input should be a valid list", path)
	}
	var blocks []block
	for i, item := range list {
		b := block{path: fmt.Sprintf("%s.%d", path, i)}
		if err := json.Unmarshal(item, &b.raw); err != nil || b.raw == nil {
			return nil, wire.Invalid("%s: Input should be a valid dictionary", b.path)
		}
		if err := json.Unmarshal(item, &b.RequestBlock); err != nil {
			return nil, blockError(b, err)
		}
		if b.Type == "tool_result" {
			nested, err := kept.parseContent(b.raw["content"], b.typed()+".content")
			if err != nil {
				return nil, err
			}
			b.nested = nested
			b.Content = contentOf(nested)
		}
		b.Data = kept.restore(b.Data)
		if b.Source != nil {
			b.dataName = b.Source.Data
			b.Source.Data = kept.restore(b.Source.Data)
		}
		b.canonical = canonicalBlock(item)
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// blockError says which field of a block is not of its kind.
func blockError(b block, err error) *wire.Error {
	b.Type = str(b.raw["type"])
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return wire.Invalid("%s: Input cannot be read: %v", b.path, err)
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Slice: "list",
	}
	kind := kinds[wrong.Type.Kind()]
	if kind == "" {
		kind = "dictionary"
	}
	return wire.Invalid("%s: Input should be a valid %s", join(b.typed(), wrong.Field), kind)
}

// canonicalBlock is a text that two blocks share when they say the same to the
// model: keys sorted, numbers in one form, and without what is not content
// (cache_control, caller, an empty list of citations).
func canonicalBlock(raw json.RawMessage) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return string(raw)
	}
	if object, ok := value.(map[string]any); ok {
		stripBlock(object)
	}
	var out strings.Builder
	writeCanonical(&out, value)
	return out.String()
}

func stripBlock(object map[string]any) {
	delete(object, "cache_control")
	delete(object, "caller")
	if list, ok := object["citations"].([]any); ok && len(list) == 0 || object["citations"] == nil {
		delete(object, "citations")
	}
	if object["is_error"] == false {
		delete(object, "is_error")
	}
	if text, ok := object["content"].(string); ok {
		object["content"] = []any{map[string]any{"type": "text", "text": text}}
	}
	if nested, ok := object["content"].([]any); ok {
		for _, item := range nested {
			if inner, ok := item.(map[string]any); ok {
				stripBlock(inner)
			}
		}
	}
}

func writeCanonical(out *strings.Builder, value any) {
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		out.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(strconv.Quote(key))
			out.WriteByte(':')
			writeCanonical(out, v[key])
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			writeCanonical(out, item)
		}
		out.WriteByte(']')
	case json.Number:
		if f, err := v.Float64(); err == nil {
			out.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
			return
		}
		out.WriteString(v.String())
	case string:
		if len(v) > longString {
			v = nameOf(v)
		}
		out.WriteString(strconv.Quote(v))
	default:
		fmt.Fprint(out, v)
	}
}

// digest names everything up to and including one piece of a prompt.
type digest [sha256.Size]byte

// extend returns the digest of what d names followed by one more piece.
func (d digest) extend(kind, text string) digest {
	h := sha256.New()
	h.Write(d[:])
	fmt.Fprintf(h, "%s %d ", kind, len(text))
	h.Write([]byte(text))
	return digest(h.Sum(nil))
}
