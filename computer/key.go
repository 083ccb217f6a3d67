package computer

import (
	"fmt"

	"github.com/loupe-tools/loupe/computer/internal/keysym"
)

// Key is a symbol of a keyboard: an X keysym, which RFB uses too. A letter, digit or mark
// is the symbol itself ('a' and 'A' are two keys), the rest are constants such as
// [KeyReturn].
type Key uint32

// Some keys that are needed by name.
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

// String returns the key's name in X, such as "Prior" or "Control_L", else its character
// as U+XXXX, else its number. [ParseKeys] understands the first two; what it takes for
// another key, such as X's "hyphen", is no name here.
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
