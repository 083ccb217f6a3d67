package computer

import (
	"fmt"

	"github.com/loupe-tools/loupe/computer/internal/keysym"
)

// Key is a symbol of a keyboard: an X keysym, which RFB uses too. The key of a character of
// Latin-1 has the value of that character, so that 'a' and 'A' are two keys. [KeyOf] returns
// the key of any character. Keys without a character are constants such as [KeyReturn].
type Key uint32

// The keys that programs most often name: those of editing, and the modifiers, which a
// driver must know (see [EventKind]). Every other keysym of X is a Key too, and [ParseKeys]
// returns it by its name.
const (
	KeyBackSpace Key = 0xff08
	KeyTab       Key = 0xff09
	KeyReturn    Key = 0xff0d
	KeyEscape    Key = 0xff1b
	KeyDelete    Key = 0xffff
	KeyShift     Key = 0xffe1 // the left ones of pairs
	KeyControl   Key = 0xffe3
	KeyAlt       Key = 0xffe9
	KeySuper     Key = 0xffeb
	KeyAltGr     Key = 0xfe03 // ISO_Level3_Shift
)

// KeyOf returns the key that types a character: Return for a newline, Tab for a tab. Other
// controls, surrogates and code points that are no characters have none.
func KeyOf(r rune) (Key, bool) {
	switch r {
	case '\n':
		return KeyReturn, true
	case '\t':
		return KeyTab, true
	}
	value, ok := keysym.OfRune(r)
	return Key(value), ok
}

// Rune returns the character that the key types. It undoes [KeyOf], and knows the older
// keysyms that layouts still have, such as 0x6c6 for the Cyrillic ф. The keys of the
// keypad and dead keys have no character.
func (k Key) Rune() (rune, bool) {
	switch k {
	case KeyReturn:
		return '\n', true
	case KeyTab:
		return '\t', true
	}
	return keysym.Rune(uint32(k))
}

// String returns the name of the key's symbol in X, so "a" for 'a', "minus" for '-', "Prior"
// for the Page Up key and "Control_L" for KeyControl. A key whose symbol has no name, or has
// a name that [ParseKeys] reads as another key, is written as its character in the form
// U+XXXX: the soft hyphen, which X calls "hyphen", is "U+00AD". A key without a character is
// then written as a number, such as "0x0". ParseKeys understands the names and U+XXXX.
func (k Key) String() string {
	if name, ok := keysym.Name(uint32(k)); ok {
		if named, ok := keyNamed(name); ok && named == k {
			return name
		}
	}
	if r, ok := k.Rune(); ok {
		return fmt.Sprintf("U+%04X", r)
	}
	return fmt.Sprintf("%#x", uint32(k))
}
