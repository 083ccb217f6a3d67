package liveview

import (
	"unicode"

	"golang.org/x/text/encoding/charmap"
)

// firstUnicode is added to a character's code to make its keysym; older keysyms have
// numbers of their own.
const firstUnicode = 0x01000000

// legacyKeysyms are the 8-bit sets that the older keysyms of letters are from, by the
// keysym's upper byte.
var legacyKeysyms = map[uint32]*charmap.Charmap{
	0x00: charmap.ISO8859_1, 0x01: charmap.ISO8859_2, 0x02: charmap.ISO8859_3, 0x03: charmap.ISO8859_4,
	0x06: charmap.KOI8U, 0x07: charmap.ISO8859_7, 0x13: charmap.ISO8859_15,
}

// portableKeysym returns the keysym to send to x11vnc for that of a viewer.
//
// For a symbol that no key makes x11vnc makes a key with that symbol alone. The X server
// takes a letter of the older sets that stands alone for a pair of small and capital, so
// that a capital comes out small. With Unicode's keysyms it does not.
func portableKeysym(symbol uint32) uint32 {
	set := legacyKeysyms[symbol>>8]
	if set == nil || symbol&0xff < 0xa0 {
		return symbol
	}
	if r := set.DecodeByte(byte(symbol)); unicode.IsUpper(r) {
		return firstUnicode + uint32(r)
	}
	return symbol
}
