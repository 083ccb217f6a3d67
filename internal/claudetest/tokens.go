package claudetest

import "github.com/loupe-tools/loupe/internal/wire"

// Token counts are estimates of the right size: what matters is that they are the
// same for the same bytes. The figures for images are exact.
const (
	bytesPerToken = 3.5  // of text
	blockOverhead = 8    // of a call, a result or a message's role
	toolPreamble  = 340  // of the instructions that come with any tools
	toolsetTokens = 4500 // of a toolset's entry
)

func textTokens(n int) int { return int((float64(n) + bytesPerToken - 1) / bytesPerToken) }

func toolTokens(t tool) int {
	if toolKinds()[t.kind].toolset != "" {
		return toolsetTokens
	}
	n := 0
	for name, value := range t.raw {
		if name != "cache_control" {
			n += len(name) + len(value)
		}
	}
	return textTokens(n)
}

// blockTokens counts one block; sizes holds the visual tokens of images by path.
func blockTokens(b block, sizes map[string]int) int {
	switch b.Type {
	case "text":
		return textTokens(len(b.Text))
	case "image":
		return sizes[b.path]
	case "tool_use":
		return blockOverhead + textTokens(len(b.Name)+len(b.Input))
	case "tool_result":
		n := blockOverhead
		for _, inner := range b.nested {
			n += blockTokens(inner, sizes)
		}
		return n
	case "thinking":
		return textTokens(len(b.Thinking))
	case "redacted_thinking":
		return textTokens(len(b.Data))
	}
	return 0
}

func outputTokens(blocks []wire.Block) int {
	n := 1
	for _, b := range blocks {
		n += textTokens(len(b.Text) + len(b.Thinking) + len(b.Data) + len(b.Name) + len(b.Input))
	}
	return n
}

// contextWindow: the prompt fits the model's context window. It records the prompt's
// size on the way.
func contextWindow(_ *Handler, r *Request) *wire.Error {
	pieces := prompt(r)
	if len(pieces) > 0 {
		r.Prompt = pieces[len(pieces)-1].tokens
	}
	r.pieces = pieces
	if r.Prompt > r.model.Context {
		return wire.Invalid("prompt is too long: %d tokens > %d maximum", r.Prompt, r.model.Context)
	}
	return nil
}
