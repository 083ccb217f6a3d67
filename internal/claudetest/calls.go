package claudetest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/loupe-tools/loupe/internal/wire"
)

// run is one turn: the blocks of consecutive messages of one role.
type run struct {
	role   string
	blocks []block
}

func runs(blocks []block) []run {
	var out []run
	for _, b := range blocks {
		if len(out) == 0 || out[len(out)-1].role != b.role {
			out = append(out, run{role: b.role})
		}
		last := &out[len(out)-1]
		last.blocks = append(last.blocks, b)
	}
	return out
}

var callID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// toolUseIDs: an id has the API's form and no two calls share one.
func toolUseIDs(_ *Handler, r *Request) *wire.Error {
	seen := map[string]bool{}
	for _, b := range r.blocks {
		if b.Type != "tool_use" {
			continue
		}
		if !callID.MatchString(b.ID) {
			return wire.Invalid("%s.id: String should match pattern '%s'", b.typed(), callID)
		}
		if seen[b.ID] {
			return wire.Invalid("%s: `tool_use` ids must be unique", b.path)
		}
		seen[b.ID] = true
	}
	return nil
}

// resultsAnswerCalls: every call of an assistant turn has exactly one result in the
// user turn right after it, results come before anything else there, and there is no
// result without its call. Source: the page on tool use, "handling results", and the
// API's own sentences.
func resultsAnswerCalls(_ *Handler, r *Request) *wire.Error {
	turns := runs(r.blocks)
	var open []block // the calls of the turn before
	for _, turn := range turns {
		if turn.role == "assistant" {
			if err := unanswered(open, nil); err != nil {
				return err
			}
			open = callsOf(turn)
			continue
		}
		answered := map[string]bool{}
		leading := map[string]bool{}
		first := true
		for _, b := range turn.blocks {
			if b.Type != "tool_result" {
				first = false
				continue
			}
			if !slices.ContainsFunc(open, func(c block) bool { return c.ID == b.ToolUseID }) {
				return wire.Invalid("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` "+
					"block must have a corresponding `tool_use` block in the previous message.", b.path, b.ToolUseID)
			}
			if answered[b.ToolUseID] {
				return wire.Invalid("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s",
					b.path, b.ToolUseID)
			}
			answered[b.ToolUseID] = true
			leading[b.ToolUseID] = first
		}
		if err := unanswered(open, leading); err != nil {
			return err
		}
		open = nil
	}
	return unanswered(open, nil)
}

func callsOf(turn run) []block {
	var calls []block
	for _, b := range turn.blocks {
		if b.Type == "tool_use" {
			calls = append(calls, b)
		}
	}
	return calls
}

func unanswered(calls []block, answered map[string]bool) *wire.Error {
	var missing []string
	message := 0
	for _, c := range calls {
		if !answered[c.ID] {
			missing = append(missing, c.ID)
			message = c.message
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return wire.Invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
		"Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
		message, strings.Join(missing, ", "))
}

// toolsDeclared: who sends calls or results declares tools.
func toolsDeclared(_ *Handler, r *Request) *wire.Error {
	if len(r.tools) > 0 {
		return nil
	}
	for _, b := range r.blocks {
		if b.Type == "tool_use" || b.Type == "tool_result" {
			return wire.Invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
		}
	}
	return nil
}

// toolsets: a call of a toolset's member belongs to a declared toolset, its result
// echoes toolset_name, the result of any other call has none, and a member's result
// that is an error holds text alone. Source: the page on the computer use tool.
func toolsets(h *Handler, r *Request) *wire.Error {
	calls := map[string]block{}
	for _, b := range r.blocks {
		switch b.Type {
		case "tool_use":
			calls[b.ID] = b
			// A script may call what was never declared; such a call comes back as it is.
			if b.ToolsetName != "" && !declares(r, b.ToolsetName) && h.memory.byMark[mark(b.RequestBlock)] == nil {
				return wire.Invalid("%s.toolset_name: no toolset '%s' is declared in tools", b.typed(), b.ToolsetName)
			}
		case "tool_result":
			want := calls[b.ToolUseID].ToolsetName
			if want != b.ToolsetName {
				return wire.Invalid("%s.toolset_name: Input should be '%s', the toolset of the `tool_use` block %s",
					b.typed(), want, b.ToolUseID)
			}
			if want == "" || !b.IsError {
				continue
			}
			for _, inner := range b.nested {
				if inner.Type != "text" {
					return wire.Invalid("%s: all content must be type 'text' if 'is_error' is true", inner.path)
				}
			}
		}
	}
	return nil
}

func declares(r *Request, toolset string) bool {
	kinds := toolKinds()
	return slices.ContainsFunc(r.tools, func(t tool) bool { return kinds[t.kind].toolset == toolset })
}
