package agent

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loupe-tools/loupe/vision"
)

// Tool is something that a model can use. The loop knows nothing else about it.
//
// A Tool is used by one run at a time, from one goroutine.
type Tool interface {
	// Declare returns the tool's entries of a request's tools. It returns the same
	// bytes for the whole of a run, since the prompt cache depends on it. A tool that
	// is only there to be looked at declares nothing.
	Declare() []anthropic.BetaToolUnionParam

	// Answer answers the calls that one assistant turn makes to this tool, in their
	// order, with exactly one result for each and in the same order. What goes wrong
	// with a call is a result with is_error set and text only, never a panic. A tool
	// stays within the allowance: it answers a call that would exceed it with an error
	// that says so. When the context ends it answers the rest with errors and returns.
	Answer(ctx context.Context, calls []anthropic.BetaToolUseBlock, room vision.Allowance) []anthropic.BetaToolResultBlockParam
}

// Presenter is a Tool that shows something along with the question, such as the images
// that the question is about.
type Presenter interface {
	Tool

	// Present returns the blocks that stand before the question in the first turn.
	Present() []anthropic.BetaContentBlockParamUnion
}

// callKey is what a call is dispatched on: the pair of a toolset and a name. A plain
// tool has no toolset; a whole toolset has no name.
type callKey struct{ toolset, name string }

// toolbox is the tools of one run, their declarations and who answers what.
type toolbox struct {
	tools   []Tool
	declare []anthropic.BetaToolUnionParam
	owners  map[callKey]int // index into tools
}

func newToolbox(tools []Tool) *toolbox {
	box := &toolbox{tools: tools, owners: map[callKey]int{}}
	for i, tool := range tools {
		for _, entry := range tool.Declare() {
			box.declare = append(box.declare, entry)
			box.owners[keyOf(entry)] = i
		}
	}
	return box
}

// keyOf reads the key of a declaration from its wire form, which is the one place where
// all kinds of tools agree: a name, or a type such as computer_toolset_20260801.
func keyOf(entry anthropic.BetaToolUnionParam) callKey {
	var wire struct{ Type, Name string }
	if data, err := json.Marshal(entry); err == nil {
		_ = json.Unmarshal(data, &wire) // what is not there stays empty, and matches no call
	}
	if wire.Name == "" {
		if family, _, found := strings.Cut(wire.Type, "_toolset_"); found {
			return callKey{toolset: family}
		}
	}
	return callKey{name: wire.Name}
}

// owner returns the index of the tool that answers a call, or -1.
func (b *toolbox) owner(call anthropic.BetaToolUseBlock) int {
	for _, key := range []callKey{{call.ToolsetName, call.Name}, {toolset: call.ToolsetName}} {
		if i, ok := b.owners[key]; ok && (key.toolset != "" || key.name != "") {
			return i
		}
	}
	return -1
}

// names lists what a model may call, for the text that answers a call to anything else.
func (b *toolbox) names() string {
	var names []string
	for _, entry := range b.declare {
		key := keyOf(entry)
		if key.name == "" {
			key.name = key.toolset
		}
		names = append(names, key.name)
	}
	return strings.Join(names, ", ")
}

// answer gives every call exactly one result, in order. cut is the index of a call that
// was broken off in the middle, or -1.
func (b *toolbox) answer(ctx context.Context, calls []anthropic.BetaToolUseBlock, cut int, room vision.Allowance) []anthropic.BetaToolResultBlockParam {
	results := make([]anthropic.BetaToolResultBlockParam, len(calls))
	byTool := make([][]int, len(b.tools))
	for i, call := range calls {
		owner := b.owner(call)
		switch {
		case i == cut:
			results[i] = errorResult(call, "This call was cut off before it was complete, so it was not run. Make it again.")
		case owner < 0:
			results[i] = errorResult(call, unknownTool(call.Name, b.names()))
		default:
			byTool[owner] = append(byTool[owner], i)
		}
	}
	for t, indexes := range byTool {
		if len(indexes) == 0 {
			continue
		}
		mine := make([]anthropic.BetaToolUseBlock, len(indexes))
		for j, i := range indexes {
			mine[j] = calls[i]
		}
		answers := b.tools[t].Answer(ctx, mine, room)
		for j, i := range indexes {
			results[i] = errorResult(calls[i], "The tool gave no result for this call.")
			if j < len(answers) {
				results[i], room = checked(calls[i], answers[j], room)
			}
		}
	}
	return results
}

func unknownTool(name, known string) string {
	if known == "" {
		return "Unknown tool: " + name + ". There are no tools."
	}
	return "Unknown tool: " + name + ". The tools are: " + known + "."
}

// checked holds a tool's result to the contract, so that no mistake of a tool can make
// a request that the API refuses: the call's own id and toolset, something in it, and
// images within the allowance. It returns the allowance that is left.
func checked(call anthropic.BetaToolUseBlock, result anthropic.BetaToolResultBlockParam, room vision.Allowance) (anthropic.BetaToolResultBlockParam, vision.Allowance) {
	left := room
	for _, block := range result.Content {
		if block.OfImage == nil {
			continue
		}
		size := measure(block.OfImage)
		left.Images--
		tooLarge := room.MaxEdge > 0 && size.edge > room.MaxEdge
		if room.MaxBytes > 0 {
			left.MaxBytes -= size.bytes
			tooLarge = tooLarge || left.MaxBytes <= 0
		}
		if left.Images < 0 || tooLarge {
			return errorResult(call, "The result's images are more or larger than the conversation has room for."), room
		}
	}
	if len(result.Content) == 0 {
		return errorResult(call, "The tool gave an empty result."), room
	}
	result.ToolUseID = call.ID
	if call.ToolsetName != "" {
		result.ToolsetName = anthropic.String(call.ToolsetName)
	}
	return result, left
}

// errorResult answers a call with an error: text only.
func errorResult(call anthropic.BetaToolUseBlock, text string) anthropic.BetaToolResultBlockParam {
	result := anthropic.BetaToolResultBlockParam{
		ToolUseID: call.ID,
		IsError:   anthropic.Bool(true),
		Content: []anthropic.BetaToolResultBlockParamContentUnion{
			{OfText: &anthropic.BetaTextBlockParam{Text: text}},
		},
	}
	if call.ToolsetName != "" {
		result.ToolsetName = anthropic.String(call.ToolsetName)
	}
	return result
}
