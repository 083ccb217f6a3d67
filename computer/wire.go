package computer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ToolUse is one tool_use block of an assistant turn. It marshals to the wire's form.
type ToolUse struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`                   // of the member
	ToolsetName string          `json:"toolset_name,omitempty"` // [ToolsetName], or a family whose blocks are left alone
	Input       json.RawMessage `json:"input"`                  // a JSON object
}

// ToolResult is the tool_result block that answers a ToolUse. It marshals to the wire's
// form. Its content is never empty; when IsError is set it is text alone.
type ToolResult struct {
	ToolUseID   string    `json:"tool_use_id"`
	ToolsetName string    `json:"toolset_name,omitempty"`
	IsError     bool      `json:"is_error,omitempty"`
	Content     []Content `json:"content"`
}

// Content is a block of a result: a text, or an image when Image is set. It marshals to
// the wire's form.
type Content struct {
	Text  string
	Image *Image
}

// Image is an image as it goes to the model. In a result of [Toolset.Run] its Data belongs
// to the caller.
type Image struct {
	MediaType string // image/png or image/jpeg
	Data      []byte // the file, not in base64
}

// MarshalJSON writes the block as the API has it.
func (u ToolUse) MarshalJSON() ([]byte, error) {
	type fields ToolUse
	if len(u.Input) == 0 {
		u.Input = json.RawMessage("{}")
	}
	return encode(struct {
		Type string `json:"type"`
		fields
	}{"tool_use", fields(u)})
}

// MarshalJSON writes the block as the API takes it.
func (r ToolResult) MarshalJSON() ([]byte, error) {
	type fields ToolResult
	if r.Content == nil {
		r.Content = []Content{}
	}
	return encode(struct {
		Type string `json:"type"`
		fields
	}{"tool_result", fields(r)})
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type imageBlock struct {
	Type            string            `json:"type"`
	Source          imageSource       `json:"source"`
	Transformations map[string]string `json:"transformations"`
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"` // marshals as base64
}

// MarshalJSON writes a text or an image block. An image tells the API to refuse it rather
// than to scale it down unasked, which would shift every coordinate without a word.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Image == nil {
		return encode(textBlock{"text", c.Text})
	}
	return encode(imageBlock{
		Type:            "image",
		Source:          imageSource{"base64", c.Image.MediaType, c.Image.Data},
		Transformations: map[string]string{"oversized_image": "error"},
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Content) UnmarshalJSON(data []byte) error {
	var block struct {
		Type   string      `json:"type"`
		Text   string      `json:"text"`
		Source imageSource `json:"source"`
	}
	if err := json.Unmarshal(data, &block); err != nil {
		return err
	}
	switch block.Type {
	case "text":
		*c = Content{Text: block.Text}
	case "image":
		*c = Content{Image: &Image{block.Source.MediaType, block.Source.Data}}
	default:
		return fmt.Errorf("a result holds text and images, not %q", block.Type)
	}
	return nil
}

// encode is json.Marshal that leaves <, > and & as they are.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// ParseTurn reads the content of an assistant turn, a JSON array of blocks, and returns its
// tool_use blocks in order, those of other toolsets too. Blocks of other types, such as
// text and thinking, are skipped. An error is one sentence that says which block is wrong;
// what is wrong inside a block's input is for [Toolset.Run] to answer.
func ParseTurn(data []byte) ([]ToolUse, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	var blocks []json.RawMessage
	if err := json.Unmarshal(data, &blocks); err != nil {
		var syntax *json.SyntaxError
		switch {
		case len(bytes.TrimSpace(data)) == 0:
			return nil, errors.New("the turn is empty; give a JSON array of tool_use blocks")
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("the turn is not valid JSON: %w, at byte %d", syntax, syntax.Offset)
		}
		return nil, fmt.Errorf("the turn must be a JSON array of blocks, not %s", kindOf(data))
	}
	if blocks == nil {
		return nil, errors.New("the turn must be a JSON array of blocks, not null")
	}
	var turn []ToolUse
	for i, block := range blocks {
		use, ok, err := parseBlock(block)
		if err != nil {
			return nil, fmt.Errorf("block %d of the turn %w", i, err)
		}
		if ok {
			turn = append(turn, use)
		}
	}
	return turn, nil
}

// parseBlock reads a block; ok is false for one that is no tool_use. Its errors go on from
// the words "block N of the turn".
func parseBlock(data json.RawMessage) (use ToolUse, ok bool, err error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return use, false, fmt.Errorf("must be an object, not %s", kindOf(data))
	}
	text := func(name string) string {
		value := fields[name]
		if err != nil || value == nil || string(value) == "null" {
			return ""
		}
		var s string
		if json.Unmarshal(value, &s) != nil {
			err = fmt.Errorf("has the field %s as %s, not as a string", name, kindOf(value))
		}
		return s
	}
	kind := text("type")
	if err != nil || kind != "tool_use" {
		if err == nil && kind == "" {
			err = errors.New("has no type")
		}
		return use, false, err
	}
	use = ToolUse{ID: text("id"), Name: text("name"), ToolsetName: text("toolset_name"), Input: fields["input"]}
	switch {
	case err != nil:
	case use.ID == "":
		err = errors.New("is a tool_use without an id")
	case use.Name == "":
		err = errors.New("is a tool_use without a name")
	}
	return use, true, err
}

// kindOf names the kind of a JSON value by its first character, with an article.
func kindOf(value []byte) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
