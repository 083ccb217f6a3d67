package claudetest

import (
	"encoding/json"
	"time"

	"github.com/loupe-tools/loupe/internal/wire"
)

// Turn is one entry of a script: what the double does with one request. The zero
// value answers with an empty turn that ends.
type Turn struct {
	// Blocks are the content of the answer. The double fills in the ids of calls and
	// the signatures of thinking where they are empty.
	Blocks []wire.Block
	// Stop is the stop reason; empty is "tool_use" when the turn holds a call and
	// "end_turn" otherwise.
	Stop string
	// Cut says that the turn ended inside its last block, a call whose Input is a
	// prefix of its JSON. Stop is then "max_tokens" unless it says otherwise.
	Cut bool

	// Status makes the double answer with an HTTP error, 400 to 599, in place of a
	// message; Message is its text and RetryAfter its header, where positive.
	Status     int
	Message    string
	RetryAfter time.Duration

	// Break stops the answer early. Only a streamed answer has a middle: a whole one
	// breaks before its first byte.
	Break Break

	// Expect are conditions that the request must meet, checked before answering.
	Expect []Condition

	rule   func(*Request) Turn
	always bool
}

// Break is a way in which an answer stops early. The zero value is none.
type Break struct {
	Kind  BreakKind
	After int    // events sent before the break
	Error string // the type of the error event, for BreakError; "" is overloaded_error
}

// BreakKind says what happens in the middle of an answer.
type BreakKind int

// The ways in which an answer breaks.
const (
	NoBreak    BreakKind = iota
	BreakDrop            // the connection is closed
	BreakHang            // nothing more comes until the client goes away
	BreakError           // an error event is sent and the stream ends
)

// Condition is something that a request must meet, as the script says it.
type Condition struct {
	Text  string // as it was written, for the failure's message
	Check func(*Request) bool
}

// Answer is a turn with one text block that ends the conversation.
func Answer(text string) Turn { return Say(Text(text)) }

// Say is a turn with these blocks.
func Say(blocks ...wire.Block) Turn { return Turn{Blocks: blocks} }

// Text is a text block.
func Text(text string) wire.Block { return wire.Block{Type: "text", Text: text} }

// Thinking is a thinking block; the double signs it.
func Thinking(text string) wire.Block { return wire.Block{Type: "thinking", Thinking: text} }

// RedactedThinking is a thinking block whose text is withheld.
func RedactedThinking(data string) wire.Block {
	return wire.Block{Type: "redacted_thinking", Data: data}
}

// Call is a tool call. Input is JSON text, or anything that encodes to JSON; what
// does not encode is an empty object.
func Call(name string, input any) wire.Block {
	return wire.Block{Type: "tool_use", Name: name, Input: encodeInput(input)}
}

// Member is a call of a toolset's member, e.g. Member("computer", "screenshot", nil).
func Member(toolset, name string, input any) wire.Block {
	b := Call(name, input)
	b.ToolsetName = toolset
	return b
}

func encodeInput(input any) json.RawMessage {
	switch v := input.(type) {
	case nil:
		return json.RawMessage("{}")
	case string:
		return json.RawMessage(v)
	case json.RawMessage:
		return v
	}
	data, err := json.Marshal(input)
	if err != nil {
		return json.RawMessage("{}")
	}
	return data
}

// Zoom is a call of the zoom tool: a region in pixels of the image as the model saw
// it, in the image with that index (0 is the first and is left out of the input).
func Zoom(x1, y1, x2, y2, image int) wire.Block {
	input := map[string]int{"x1": x1, "y1": y1, "x2": x2, "y2": y2}
	if image != 0 {
		input["image_index"] = image
	}
	return Call("zoom", input)
}

// Fail is an HTTP error: 429, 529 and the like. A positive retryAfter is sent in
// whole seconds.
func Fail(status int, retryAfter time.Duration) Turn {
	return Turn{Status: status, RetryAfter: retryAfter}
}

// Func is a turn that is made when its request comes.
func Func(rule func(*Request) Turn) Turn { return Turn{rule: rule} }

// Always is a turn that is made when its request comes and is never used up; turns
// after it are never reached.
func Always(rule func(*Request) Turn) Turn { return Turn{rule: rule, always: true} }

// WithStop returns the turn with another stop reason.
func (t Turn) WithStop(reason string) Turn { t.Stop = reason; return t }

// Dropped returns the turn with its connection closed after so many events.
func (t Turn) Dropped(after int) Turn { t.Break = Break{Kind: BreakDrop, After: after}; return t }

// Hanging returns the turn with nothing more sent after so many events, until the
// client goes away or the double is closed.
func (t Turn) Hanging(after int) Turn { t.Break = Break{Kind: BreakHang, After: after}; return t }

// Failing returns the turn with an error event of that type (e.g. overloaded_error)
// after so many events.
func (t Turn) Failing(after int, kind string) Turn {
	t.Break = Break{Kind: BreakError, After: after, Error: kind}
	return t
}

// CutInside returns a turn that hit the token cap inside its last call, whose input
// is a prefix of its JSON.
func CutInside(blocks ...wire.Block) Turn { return Turn{Blocks: blocks, Cut: true} }

// stopReason is the turn's stop reason with the default filled in.
func (t Turn) stopReason() string {
	switch {
	case t.Stop != "":
		return t.Stop
	case t.Cut:
		return "max_tokens"
	}
	for _, b := range t.Blocks {
		if b.Type == "tool_use" {
			return "tool_use"
		}
	}
	return "end_turn"
}
