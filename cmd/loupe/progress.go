package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/zoom"
)

// progress shows a person on standard error how a run goes: the model's text as it
// streams, each zoom, and a line of tokens and cost for each turn. It also keeps the list
// of zooms for --json.
type progress struct {
	env   *environment
	quiet bool
	zooms []zoomJSON

	inText bool // the last thing written was text without its newline
	block  int  // which block of the turn that text is
	costly bool // the model has a price other than nothing
}

func (p *progress) printf(format string, args ...any) {
	if p.quiet {
		return
	}
	_, _ = fmt.Fprintf(p.env.stderr, format, args...) // standard error is gone when this fails
}

// printable writes control characters out, so that no text of a model can steer a
// person's terminal. Line ends and tabs stay.
func printable(text string) string {
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	for _, r := range text {
		if isControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

// line writes a whole line, after ending any text before it.
func (p *progress) line(format string, args ...any) {
	if p.inText {
		p.printf("\n")
		p.inText = false
	}
	p.printf(format+"\n", args...)
}

func (p *progress) event(e agent.Event) {
	switch e := e.(type) {
	case agent.TextStreamed:
		if p.inText && p.block != e.Block {
			p.printf("\n")
			p.inText = false
		}
		if !p.inText {
			p.printf("  ")
		}
		p.inText, p.block = true, e.Block
		p.printf("%s", strings.ReplaceAll(printable(e.Text), "\n", "\n  "))
	case agent.TurnEnded:
		p.line("turn %d: %s", e.Turn, p.tokens(e))
	case agent.TurnRetried:
		p.line("turn %d: the answer broke off; asking again in %.1f s", e.Turn, e.Wait.Seconds())
	case agent.CallAnswered:
		if e.Result.IsError.Value && len(e.Result.Content) > 0 && e.Result.Content[0].OfText != nil {
			p.line("  %s refused: %s", printable(e.Call.Name), printable(e.Result.Content[0].OfText.Text))
		}
	case agent.ImagesRemoved:
		p.line("  %d older images taken out of the conversation to make room", e.Images)
	}
}

func (p *progress) tokens(e agent.TurnEnded) string {
	text := fmt.Sprintf("%d tokens in", e.Usage.Prompt())
	if e.Usage.CacheReadTokens > 0 {
		text += fmt.Sprintf(" (%d%% cached)", 100*e.Usage.CacheReadTokens/e.Usage.Prompt())
	}
	text += fmt.Sprintf(", %d out", e.Usage.OutputTokens)
	p.costly = p.costly || e.Cost > 0
	switch {
	case !e.CostIsKnown:
		text += "; no price known"
	case p.costly:
		text += fmt.Sprintf("; $%.4f so far", e.TotalCost)
	}
	return text
}

// zoom is told each zoom as it was given.
func (p *progress) zoom(z zoom.Zoom) {
	a := z.Applied
	p.line("  zoom into image %d, (%d,%d)-(%d,%d): %dx%d", z.Image, a.Min.X, a.Min.Y, a.Max.X, a.Max.Y, z.Encoded.Size.X, z.Encoded.Size.Y)
	p.zooms = append(p.zooms, zoomJSON{Image: z.Image, Region: boxOf(a), Returned: sizeOf(z.Encoded.Size)})
}

// end closes the progress and sums it up.
func (p *progress) end(answer *agent.Answer) {
	if p.zooms == nil {
		p.zooms = []zoomJSON{}
	}
	if p.inText {
		p.printf("\n")
		p.inText = false
	}
	if answer.Turns == 0 {
		return
	}
	summary := fmt.Sprintf("%s after %d turns, %d zooms, %d tokens", answer.Status, answer.Turns, len(p.zooms), answer.Usage.Total())
	switch {
	case !answer.CostIsKnown:
		summary += ", no price known for this model"
	case p.costly:
		summary += fmt.Sprintf(", $%.4f", answer.Cost)
	}
	p.line("%s", summary)
}
