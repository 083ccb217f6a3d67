package computer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns text with every character that a person could not see, or that changes
// how others are seen, written out as \u{...} with its code point: control and format
// characters, line breaks, direction marks, tags, variation selectors, blanks other than
// the common space, what Unicode leaves unassigned or private, and combining marks that
// have no letter to stand on. A byte that is not UTF-8 is written as \x{...}. So that this
// cannot be imitated, the backslash of such a form in the text itself is written out too.
func Escape(text string) string { return escape(text, true) }

// escape is Escape, or without backslash for a text that has escaped values in it already.
func escape(text string, backslash bool) string {
	var out strings.Builder
	base := false // whether a combining mark would have something to stand on
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		rest := text[i+size:]
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x{%x}`, text[i])
			base = false
		case hidden(r), unicode.Is(unicode.M, r) && !base,
			backslash && r == '\\' && (strings.HasPrefix(rest, "u{") || strings.HasPrefix(rest, "x{")):
			fmt.Fprintf(&out, `\u{%x}`, r)
			base = false
		default:
			out.WriteRune(r)
			base = r != ' '
		}
		i += size
	}
	return out.String()
}

// hidden says whether a character leaves nothing to see where it stands.
func hidden(r rune) bool {
	switch {
	case r == ' ':
		return false
	case !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S):
		return true // control, format, private, unassigned, blanks and line breaks
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return true
	}
	return r == 0x2800 // the Braille pattern without dots, a symbol that is blank
}
