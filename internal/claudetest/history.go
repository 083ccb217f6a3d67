package claudetest

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/loupe-tools/loupe/internal/wire"
)

// memory is what the double has issued. Its owner holds the handler's lock.
type memory struct {
	byMark map[string]*issued
	paused map[digest]bool // conversations that end in a turn that the double paused
}

func newMemory() memory {
	return memory{byMark: map[string]*issued{}, paused: map[digest]bool{}}
}

// issued is a turn as it was answered.
type issued struct {
	blocks []issuedBlock
	needed int    // how many of blocks must come back: thinking at the end cannot
	calls  bool   // it holds a call
	before digest // of the prefix that it answered, see prefixes
}

type issuedBlock struct {
	kind, mark, canonical string
	cut                   bool // a call that broke off: whatever its input became is right
}

// mark names a block that only one turn can hold; "" for text.
func mark(b wire.RequestBlock) string {
	switch b.Type {
	case "tool_use":
		return "call " + b.ID
	case "thinking":
		return "signature " + b.Signature
	case "redacted_thinking":
		return "data " + b.Data
	}
	return ""
}

// conversation returns the digest before each block and, last, that of the whole.
func conversation(blocks []block) []digest {
	digests := make([]digest, len(blocks)+1)
	for i, b := range blocks {
		digests[i+1] = digests[i].extend(b.role, b.canonical)
	}
	return digests
}

// prefixes returns the digest of what thinking at each block is bound to and, last,
// that of the whole: tools, system and the messages before it, without the thinking
// in them. Source: the page on preserved thinking, and reports of what the API
// refuses: a changed system prompt and a tool more, but not thinking left out.
func prefixes(r *Request) []digest {
	var at digest
	for _, raw := range r.Tools {
		at = at.extend("tool", canonicalBlock(raw))
	}
	for _, b := range r.system {
		at = at.extend("system", b.canonical)
	}
	digests := make([]digest, 0, len(r.blocks)+1)
	for _, b := range r.blocks {
		digests = append(digests, at)
		if !isThinking(b.Type) {
			at = at.extend(b.role, b.canonical)
		}
	}
	return append(digests, at)
}

func isThinking(kind string) bool { return kind == "thinking" || kind == "redacted_thinking" }

// keep remembers an answer to a request.
func (m *memory) keep(r *Request, answer *wire.Message, cut bool) {
	turn := &issued{}
	before := prefixes(r)
	turn.before = before[len(before)-1]
	whole := conversation(r.blocks)
	end := whole[len(whole)-1]
	for i, b := range answer.Content {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			continue // a blank text cannot be sent back: the client leaves it out
		}
		raw, err := json.Marshal(b)
		if err != nil {
			continue // a block that does not encode was not answered either
		}
		kept := issuedBlock{kind: b.Type, canonical: canonicalBlock(raw), cut: cut && i == len(answer.Content)-1}
		kept.mark = mark(wire.RequestBlock{Type: b.Type, ID: b.ID, Signature: b.Signature, Data: b.Data})
		turn.blocks = append(turn.blocks, kept)
		turn.calls = turn.calls || b.Type == "tool_use"
		end = end.extend("assistant", kept.canonical)
	}
	for _, b := range turn.blocks {
		if b.mark != "" {
			m.byMark[b.mark] = turn
		}
	}
	turn.needed = len(turn.blocks)
	// A paused turn goes on as it is, but one with calls goes on with their results.
	for (answer.StopReason != "pause_turn" || turn.calls) && turn.needed > 0 && isThinking(turn.blocks[turn.needed-1].kind) {
		turn.needed--
	}
	if answer.StopReason == "pause_turn" {
		m.paused[end] = true
	}
}

const modified = "%s: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. " +
	"These blocks must remain as they were in the original response."

// thinkingGenuine: thinking was issued here, is unchanged, and comes once. Source:
// the page on extended thinking, and the API's own sentences.
func thinkingGenuine(h *Handler, r *Request) *wire.Error {
	seen := map[string]bool{}
	for _, b := range r.blocks {
		if !isThinking(b.Type) {
			continue
		}
		m := mark(b.RequestBlock)
		turn := h.memory.byMark[m]
		if turn == nil && b.Type == "thinking" {
			return wire.Invalid("%s: Invalid `signature` in `thinking` block", b.path)
		}
		if turn == nil {
			return wire.Invalid("%s: Invalid `data` in `redacted_thinking` block", b.path)
		}
		for _, was := range turn.blocks {
			if was.mark == m && was.canonical != b.canonical {
				return wire.Invalid(modified, b.path)
			}
		}
		if seen[m] {
			return wire.Invalid(modified, b.path)
		}
		seen[m] = true
	}
	return nil
}

// turnsUnchanged: a turn with calls that the double issued comes back whole, in
// order and unchanged. For thinking this is the API's rule; for text and calls it is
// the double's own.
func turnsUnchanged(h *Handler, r *Request) *wire.Error {
	for _, turn := range runs(r.blocks) {
		if turn.role != "assistant" {
			continue
		}
		for i := 0; i < len(turn.blocks); {
			was, at := h.issuedAt(turn.blocks, i)
			if was == nil {
				i++
				continue
			}
			start := i - at
			for k, want := range was.blocks[:was.needed] {
				j := start + k
				if j < 0 || j >= len(turn.blocks) {
					return altered(want, turn.blocks[min(max(j, 0), len(turn.blocks)-1)])
				}
				got := turn.blocks[j]
				if same := want.canonical == got.canonical || want.cut && want.mark == mark(got.RequestBlock); !same {
					return altered(want, got)
				}
			}
			i = max(i+1, start+was.needed)
		}
	}
	return nil
}

// issuedAt returns the issued turn with calls to which block i belongs, and the
// block's index in it; nil when the block belongs to none.
func (h *Handler) issuedAt(blocks []block, i int) (*issued, int) {
	m := mark(blocks[i].RequestBlock)
	turn := h.memory.byMark[m]
	if m == "" || turn == nil || !turn.calls {
		return nil, 0
	}
	for k, b := range turn.blocks {
		if b.mark == m {
			return turn, k
		}
	}
	return nil, 0
}

func altered(want issuedBlock, got block) *wire.Error {
	if isThinking(want.kind) || isThinking(got.Type) {
		return wire.Invalid(modified, got.path)
	}
	return wire.Invalid("%s: this turn is not the one that was returned: expected %s here", got.path, want.canonical)
}

// thinkingBound: on models that bind thinking to its conversation, neither tools nor
// system nor any message before it may have changed, unless the request asks for such
// blocks to be dropped. Source: as for prefixes. The API refuses this on accounts
// made since 31 August 2026; the double is such an account.
func thinkingBound(h *Handler, r *Request) *wire.Error {
	if !r.model.BindsPrefix || r.dropsBlocks() {
		return nil
	}
	before := prefixes(r)
	for i, b := range r.blocks {
		turn := h.memory.byMark[mark(b.RequestBlock)]
		if !isThinking(b.Type) || turn == nil {
			continue
		}
		start := i
		for k, was := range turn.blocks {
			if was.mark == mark(b.RequestBlock) {
				start = i - k
			}
		}
		if start < 0 || before[start] != turn.before {
			return wire.Invalid("%s: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "+
				"Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".", b.path)
		}
	}
	return nil
}

// endsWithUser: the last turn is the user's, but for a turn that the double itself
// paused, and for prefill on the models that take it. Source: the errors page,
// "prefill not supported".
func endsWithUser(h *Handler, r *Request) *wire.Error {
	last := r.blocks[len(r.blocks)-1]
	digests := conversation(r.blocks)
	if last.role != "assistant" || h.memory.paused[digests[len(digests)-1]] {
		return nil
	}
	if r.model.NoPrefill {
		return wire.Invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if last.Type == "text" && strings.TrimRightFunc(last.Text, unicode.IsSpace) != last.Text {
		return wire.Invalid("messages: final assistant content cannot end with trailing whitespace")
	}
	return nil
}

// noThinkingAtEnd: an assistant turn does not end in thinking, unless the double
// paused it there. A turn that was cut while thinking cannot be sent back as it is.
func noThinkingAtEnd(h *Handler, r *Request) *wire.Error {
	digests := conversation(r.blocks)
	for i, b := range r.blocks {
		ends := b.role == "assistant" && (i == len(r.blocks)-1 || r.blocks[i+1].role == "user")
		if ends && isThinking(b.Type) && !h.memory.paused[digests[i+1]] {
			return wire.Invalid("messages.%d: The final block in an assistant message cannot be `%s`.", b.message, b.Type)
		}
	}
	return nil
}
