//go:build linux

package link

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds the text of an error, in bytes.
const maxText = 1 << 10

// Printable makes of a text from the other side one that is fit for a person's eyes: a line
// without control characters, which a terminal would obey, and without what cannot be seen, of
// at most so many bytes.
func Printable(text string, most int) string {
	if whole := 4 * (most + 1); len(text) > whole { // what is cut off need not be looked at
		text = text[:whole]
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '\ufffd'
		}
		return r
	}, text)
	const cut = "…"
	if len(text) <= most {
		return text
	}
	end := max(most-len(cut), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
