package claudetest

import (
	"strings"
	"unicode"

	"github.com/loupe-tools/loupe/internal/wire"
)

// messageList: there is a message, the first is a user's, every role is user or
// assistant, and every message has content. Consecutive messages of one role count
// as one turn. Source: the API reference, "messages".
func messageList(_ *Handler, r *Request) *wire.Error {
	if !present(r.top["messages"]) {
		return wire.Invalid("messages: Field required")
	}
	if len(r.Messages) == 0 {
		return wire.Invalid("messages: at least one message is required")
	}
	if len(r.Messages) > 100_000 {
		return wire.Invalid("messages: too many messages: %d > 100000", len(r.Messages))
	}
	for i, m := range r.Messages {
		path := join("messages", itoa(i))
		if err := fields("role content").only(r.messages[i], path); err != nil {
			return err
		}
		if m.Role != "user" && m.Role != "assistant" {
			return wire.Invalid("%s.role: Input should be 'user' or 'assistant'", path)
		}
		if len(m.Content) == 0 {
			return wire.Invalid("%s: all messages must have non-empty content except for the optional final assistant message", path)
		}
	}
	if r.Messages[0].Role != "user" {
		return wire.Invalid("messages: first message must use the \"user\" role")
	}
	return nil
}

// blockFields: every block's type may stand where it stands and has the fields of
// that type only. Source: the SDK's parameter types. Blocks of server tools,
// documents and search results are not taken: nothing here sends them.
func blockFields(_ *Handler, r *Request) *wire.Error {
	common := "type cache_control "
	kinds := map[string]fieldSet{
		"text":              fields(common + "text citations"),
		"image":             fields(common + "source transformations"),
		"tool_use":          fields(common + "id name input toolset_name caller"),
		"tool_result":       fields(common + "tool_use_id toolset_name is_error content"),
		"thinking":          fields("type thinking signature"),
		"redacted_thinking": fields("type data"),
	}
	allowed := map[string][]string{
		"user":        {"text", "image", "tool_result"},
		"assistant":   {"text", "thinking", "redacted_thinking", "tool_use"},
		"system":      {"text"},
		"tool_result": {"text", "image"},
	}
	var check func(blocks []block, place string) *wire.Error
	check = func(blocks []block, place string) *wire.Error {
		for _, b := range blocks {
			where := place
			if where == "" {
				where = b.role
			}
			if err := oneOf(b, allowed[where]); err != nil {
				return err
			}
			if err := kinds[b.Type].only(b.raw, b.typed()); err != nil {
				return err
			}
			if err := requiredFields(b); err != nil {
				return err
			}
			if err := check(b.nested, "tool_result"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := check(r.system, "system"); err != nil {
		return err
	}
	return check(r.blocks, "")
}

func oneOf(b block, kinds []string) *wire.Error {
	for _, kind := range kinds {
		if b.Type == kind {
			return nil
		}
	}
	return wire.Invalid("%s: Input tag '%s' found using 'type' does not match any of the expected tags: '%s'",
		b.path, b.Type, strings.Join(kinds, "', '"))
}

// requiredFields: what a block of that type cannot be without.
func requiredFields(b block) *wire.Error {
	required := map[string]string{
		"text": "text", "image": "source", "tool_use": "id name input", "tool_result": "tool_use_id",
		"thinking": "thinking signature", "redacted_thinking": "data",
	}
	for _, field := range strings.Fields(required[b.Type]) {
		if !present(b.raw[field]) {
			return wire.Invalid("%s.%s: Field required", b.typed(), field)
		}
	}
	if b.Type == "tool_use" {
		if _, err := object(b.Input, b.typed()+".input"); err != nil {
			return err
		}
	}
	return nil
}

// textNotEmpty: a text block holds more than white space, and none that is empty
// carries cache_control. Source: the API's own sentences, seen in many bug reports.
func textNotEmpty(_ *Handler, r *Request) *wire.Error {
	for _, b := range everyBlock(r) {
		if b.Type != "text" {
			continue
		}
		switch {
		case b.Text == "" && present(b.CacheControl):
			return wire.Invalid("%s: cache_control cannot be set for empty text blocks", b.typed())
		case b.Text == "":
			return wire.Invalid("%s: text content blocks must be non-empty", b.path)
		case strings.TrimFunc(b.Text, unicode.IsSpace) == "":
			return wire.Invalid("%s: text content blocks must contain non-whitespace text", b.path)
		}
	}
	return nil
}

// everyBlock is the system's blocks and the messages' blocks, each followed by what
// is nested in it.
func everyBlock(r *Request) []block {
	var all []block
	for _, list := range [][]block{r.system, r.blocks} {
		for _, b := range list {
			all = append(append(all, b), b.nested...)
		}
	}
	return all
}
