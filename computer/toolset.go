package computer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/loupe-tools/loupe/vision"
)

// ToolsetName is the family that the toolset's calls and results carry.
const ToolsetName = "computer"

// ToolUse is one tool_use block of an assistant turn, in the wire's form.
type ToolUse struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	ToolsetName string          `json:"toolset_name"`
	Input       json.RawMessage `json:"input"`
}

// ToolResult is the tool_result block that answers a ToolUse, in the wire's form.
type ToolResult struct {
	ToolUseID   string    `json:"tool_use_id"`
	ToolsetName string    `json:"toolset_name"`
	IsError     bool      `json:"is_error,omitempty"`
	Content     []Content `json:"content"`
}

// Content is a block of a result: a text, or an image when Image is set.
type Content struct {
	Text  string
	Image *Image
}

// Image is an image as it goes to the model.
type Image struct {
	MediaType string // image/png or image/jpeg
	Data      []byte
}

// Options set up a Toolset. The zero value is right for a model of the standard tier, with
// nobody to ask.
type Options struct {
	// Limits of the model that looks. vision.Standard when zero.
	Limits vision.Limits

	// MaxEdge bounds the longest edge of screenshots and zooms, in view pixels, so that a
	// conversation may hold more than 20 of them. 2000 when zero, no bound when negative.
	MaxEdge int

	// Disabled names the members that are switched off: declared so, and refused.
	Disabled []string

	// Confirm is asked before each block is run, once it is known what it would do. When
	// nil, there is nobody to ask: type, key and hold_key are refused and the rest is
	// approved. ApproveAll approves everything. It must return when the context ends.
	Confirm func(ctx context.Context, action Action) Decision

	// AppendScreenshot ends a turn that neither ends in a screenshot nor fails with one, in
	// its last result.
	AppendScreenshot bool

	// MaxText bounds the characters of one type. 100,000 when zero.
	MaxText int

	// BlockTime bounds one block, on top of the duration that it asks for. 60 s when zero.
	BlockTime time.Duration
}

// Decision is an answer to a confirmation. The zero value refuses.
type Decision struct {
	Approved bool
	Reason   string // shown to the model on refusal; may be empty
}

// Toolset answers the computer calls of a model on one desktop. Its methods are called
// from one goroutine at a time.
type Toolset struct {
	desktop Desktop
	options Options
}
