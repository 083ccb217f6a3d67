package claudetest

import (
	"encoding/json"

	"github.com/loupe-tools/loupe/internal/wire"
)

const (
	maxBreakpoints = 4
	lookback       = 20 // blocks looked at from a breakpoint backwards, itself the first
)

// cacheControls: at most four breakpoints, each ephemeral with a known ttl, none of
// an hour after one of five minutes. Source: the page on prompt caching.
func cacheControls(_ *Handler, r *Request) *wire.Error {
	var ttls []string
	note := func(raw json.RawMessage, path string) *wire.Error {
		if !present(raw) {
			return nil
		}
		control, err := object(raw, path+".cache_control")
		if err != nil {
			return err
		}
		path += ".cache_control"
		if err := fields("type ttl").only(control, path+".ephemeral"); err != nil {
			return err
		}
		if str(control["type"]) != "ephemeral" {
			return wire.Invalid("%s.type: Input should be 'ephemeral'", path)
		}
		ttl := str(control["ttl"])
		switch {
		case !present(control["ttl"]):
			ttl = "5m"
		case ttl != "5m" && ttl != "1h":
			return wire.Invalid("%s.ephemeral.ttl: Input should be '5m' or '1h'", path)
		}
		if ttl == "1h" && len(ttls) > 0 && ttls[len(ttls)-1] == "5m" {
			return wire.Invalid("%s.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "+
				"Note that blocks are processed in the following order: `tools`, `system`, `messages`.", path)
		}
		ttls = append(ttls, ttl)
		r.Breakpoints = append(r.Breakpoints, path)
		return nil
	}
	for _, t := range r.tools {
		if err := note(t.raw["cache_control"], t.path); err != nil {
			return err
		}
	}
	for _, b := range everyBlock(r) {
		if err := note(b.raw["cache_control"], b.path); err != nil {
			return err
		}
	}
	if present(r.top["cache_control"]) {
		if err := note(r.top["cache_control"], "request"); err != nil {
			return err
		}
	}
	if len(r.Breakpoints) > maxBreakpoints {
		return wire.Invalid("A maximum of %d blocks with cache_control may be provided. Found %d.", maxBreakpoints, len(r.Breakpoints))
	}
	return nil
}

// piece is one block of a prompt as the cache sees it.
type piece struct {
	upTo   digest // everything up to and including it
	tokens int    // of everything up to and including it
	marked bool   // carries cache_control
}

// prompt lays a request out as the cache sees it: tools, then system, then messages.
// A change of tool_choice or of thinking leaves tools and system cached and
// invalidates the messages. Source: the page on prompt caching, "what invalidates the
// cache".
func prompt(r *Request) []piece {
	var pieces []piece
	at := digest{}.extend("model", r.Model)
	total := 0
	add := func(kind, text string, tokens int, marked bool) {
		at = at.extend(kind, text)
		total += tokens
		pieces = append(pieces, piece{upTo: at, tokens: total, marked: marked})
	}
	for i, raw := range r.Tools {
		tokens := toolTokens(r.tools[i])
		if i == 0 {
			tokens += toolPreamble
		}
		add("tool", canonicalBlock(raw), tokens, present(r.tools[i].raw["cache_control"]))
	}
	for _, b := range r.system {
		add("system", b.canonical, blockTokens(b, nil), present(b.CacheControl))
	}
	at = at.extend("choice", canonicalBlock(r.ToolChoice)+canonicalBlock(r.top["thinking"]))
	sizes := map[string]int{}
	for _, i := range r.Images {
		sizes[i.Path] = i.Tokens
	}
	for _, b := range r.blocks {
		marked := present(b.CacheControl)
		for _, inner := range b.nested {
			marked = marked || present(inner.CacheControl)
		}
		add(b.role, b.canonical, blockTokens(b, sizes), marked)
	}
	// cache_control of the request marks the last block that can carry one.
	if present(r.top["cache_control"]) {
		for i := len(r.blocks) - 1; i >= 0; i-- {
			if !isThinking(r.blocks[i].Type) {
				pieces[len(pieces)-len(r.blocks)+i].marked = true
				break
			}
		}
	}
	return pieces
}

// cache holds the prefixes that have been written. A prefix is written only where a
// request had a breakpoint; the five minutes of its life are not modelled.
type cache map[digest]bool

// lookUp returns how a prompt is charged. Every breakpoint is looked up backwards
// over at most lookback blocks, and the longest hit is read; what follows it up to the
// last breakpoint is written, unless that prefix is shorter than the least that is
// cached.
func (c cache) lookUp(pieces []piece, least int) wire.Usage {
	read, written := 0, 0
	for i, p := range pieces {
		if !p.marked {
			continue
		}
		if p.tokens >= least {
			written = p.tokens
		}
		for j := i; j >= 0 && j > i-lookback; j-- {
			if c[pieces[j].upTo] {
				read = max(read, pieces[j].tokens)
				break
			}
		}
	}
	written = max(written, read)
	all := 0
	if len(pieces) > 0 {
		all = pieces[len(pieces)-1].tokens
	}
	return wire.Usage{
		InputTokens: all - written, CacheCreationInputTokens: written - read, CacheReadInputTokens: read,
	}
}

// write stores the prefixes of a prompt's breakpoints.
func (c cache) write(pieces []piece, least int) {
	for _, p := range pieces {
		if p.marked && p.tokens >= least {
			c[p.upTo] = true
		}
	}
}
