// Package keysym knows the names of X keysyms and the characters that they stand for.
//
// The table, keysyms.txt, holds the facts of keysymdef.h and XF86keysym.h, two headers of
// the X protocol (Debian's x11proto-dev, MIT licence): names, values and code points. It is
// made from them by this package's test:
//
//go:generate go test -run TestTable -update .
package keysym

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

//go:embed keysyms.txt
var text string

// Void is the keysym that stands for no key.
const Void = 0xffffff

// unicodeBase is added to a code point to make a keysym that stands for it.
const unicodeBase = 0x01000000

type table struct {
	byName map[string]uint32 // names as X writes them
	byFold map[string]uint32 // folded names
	names  map[uint32]string
	runes  map[uint32]rune // what does not follow from the value
}

// load parses the table when it is first needed.
var load = sync.OnceValue(parse)

func parse() *table {
	const about = 2700 // entries
	t := &table{
		byName: make(map[string]uint32, about),
		byFold: make(map[string]uint32, about),
		names:  make(map[uint32]string, about),
		runes:  make(map[uint32]rune, about),
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		n, err := strconv.ParseUint(fields[1], 16, 32)
		if err != nil {
			continue // a test holds that there is none
		}
		name, value := fields[0], uint32(n)
		t.byName[name] = value
		fold := Fold(name)
		// Of names that differ in case alone, such as Greek_ALPHA and Greek_alpha, the one
		// with fewer capitals is the small letter.
		if other, there := t.byFold[fold]; !there || capitals(name) < capitals(t.names[other]) {
			t.byFold[fold] = value
		}
		if _, there := t.names[value]; !there {
			t.names[value] = name // the first is the one that is not deprecated
		}
		if len(fields) > 2 {
			if r, err := strconv.ParseUint(fields[2], 16, 32); err == nil {
				t.runes[value] = rune(r)
			}
		}
	}
	return t
}

// capitals counts the capital letters of a name.
func capitals(name string) (n int) {
	for _, c := range []byte(name) {
		if c >= 'A' && c <= 'Z' {
			n++
		}
	}
	return n
}

// Fold returns a name in the form in which names are compared when case does not count:
// small letters, without underscores.
func Fold(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

// Lookup returns the keysym of a name as X writes it, such as "Page_Up" or "XF86Copy".
func Lookup(name string) (uint32, bool) {
	value, ok := load().byName[name]
	return value, ok
}

// LookupFold returns the keysym of a folded name. Where names differ in case alone it is
// the one of the small letter.
func LookupFold(fold string) (uint32, bool) {
	value, ok := load().byFold[fold]
	return value, ok
}

// Name returns the name of a keysym.
func Name(value uint32) (string, bool) {
	name, ok := load().names[value]
	return name, ok
}

// Rune returns the character that a keysym stands for. Keys of the keypad, function keys
// and dead keys stand for none.
func Rune(value uint32) (rune, bool) {
	switch {
	case value >= 0x20 && value <= 0x7e, value >= 0xa0 && value <= 0xff:
		return rune(value), true
	case value >= unicodeBase && value <= unicodeBase+unicode.MaxRune:
		r := rune(value - unicodeBase)
		return r, printable(r)
	case value >= 0x100 && value <= 0x20ff:
		r, ok := load().runes[value]
		return r, ok
	}
	return 0, false
}

// OfRune returns the keysym of a character: below U+0100 its own number, else the number
// plus 0x01000000 (keysymdef.h). Controls, surrogates and what is no character have none.
func OfRune(r rune) (uint32, bool) {
	switch {
	case !printable(r):
		return 0, false
	case r < 0x100:
		return uint32(r), true
	}
	return uint32(r) + unicodeBase, true
}

// printable tells whether a code point is a character that is not a control.
func printable(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0, r > unicode.MaxRune:
		return false
	case r >= 0xd800 && r < 0xe000:
		return false // surrogates
	case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
		return false // noncharacters
	}
	return true
}
