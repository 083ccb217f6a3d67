package computer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loupe-tools/loupe/computer/internal/keysym"
)

const (
	maxChord     = 8   // keys in a chord
	maxChordText = 256 // bytes in the text of one
)

// ParseKeys parses the text of a key or hold_key block: one key, or a chord such as
// "ctrl+shift+T". It returns the keys in the order in which they are written, which is the
// order in which they are pressed.
//
// The case of names does not matter. ParseKeys knows the names of X, with or without the
// underscore, the names that web pages use (ArrowUp, KeyA, NumpadEnter), and what people
// write, such as esc, pgup, cmd or volumeup. The command key, the Windows key and meta are
// all Super; only the X names Meta_L and Meta_R are the Meta keys of X. Every single
// character is a key, and so is U+XXXX. A sign that is printed on a key, such as ⌘ or ←, is
// that key and not the character; to write the character, use type.
//
// The parts of a chord are joined by "+", with or without spaces around it. The plus key is
// written as "plus", or as a "+" where a part is expected. After a modifier, a "-" may take
// the place of the "+", as in ctrl-c.
//
// A capital letter alone, "A", is typed with Shift. In a chord with Control, Alt, Super or a
// similar key a capital is only another way of writing the shortcut: Ctrl+C is ctrl+c.
//
// The error is an [InputError] that says what is wrong: a name that no key has, nothing
// between two "+", the same key twice, more than eight keys, or several chords in one text.
// Keys that act on the display itself, such as Terminate_Server, are refused.
func ParseKeys(text string) ([]Key, error) {
	if text == "\r" || text == "\r\n" {
		text = "\n"
	}
	if key, ok := keyOfText(text); ok {
		return []Key{key}, nil // also a space, a newline and a tab
	}
	parts, err := splitChord(text)
	if err != nil {
		return nil, err
	}
	if len(parts) > maxChord {
		return nil, inputErrorf("the chord %s has too many keys; at most %d can be pressed together", quote(text), maxChord)
	}
	keys := make([]Key, len(parts))
	command := false
	for i, part := range parts {
		key, ok := keyNamed(part)
		switch {
		case ok:
		case isSequence(part):
			return nil, inputErrorf("%s is more than one chord; send one chord in a call, several calls for several", quote(text))
		default:
			return nil, inputErrorf("there is no key %s; use a name such as Return, Page_Up or F5, a single character, or a chord such as ctrl+s; text is written with type", quote(part))
		}
		if actsOnDisplay(key) {
			return nil, inputErrorf("the key %s acts on the display itself and is not pressed", quote(part))
		}
		keys[i] = key
		command = command || isCommand(key)
	}
	if command {
		for i, key := range keys {
			if r, ok := key.Rune(); ok && unicode.IsUpper(r) {
				if lower, ok := KeyOf(unicode.ToLower(r)); ok {
					keys[i] = lower
				}
			}
		}
	}
	for i, key := range keys {
		if first := slices.Index(keys, key); first < i {
			return nil, inputErrorf("the chord %s has the key %s twice", quote(text), quote(parts[i]))
		}
	}
	return keys, nil
}

// ParseModifiers parses the modifiers that are held during a click, a drag or a scroll:
// shift, ctrl, alt and super, and their other names, joined by "+". As in [ParseKeys], cmd,
// win and meta are other names of super. An empty text has no modifiers. Every other key is
// refused, altgr too, and so is a modifier that is named twice. The error is an [InputError].
func ParseModifiers(text string) ([]Key, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	parts, err := splitChord(text)
	if err != nil {
		return nil, err
	}
	var keys []Key
	for _, part := range parts {
		key, ok := keyNamed(part)
		if !ok || !isClickModifier(key) {
			return nil, inputErrorf("%s is no modifier; those for a click are shift, ctrl, alt and super, joined by +", quote(part))
		}
		if slices.Contains(keys, key) {
			return nil, inputErrorf("%s has the modifier %s twice", quote(text), quote(part))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// splitChord splits a text at each "+" that joins, and at each "-" that joins a modifier to
// what follows. A "+" where a part is due, before another "+" or the end, is the part.
func splitChord(text string) ([]string, error) {
	rest := strings.TrimSpace(text)
	if len(rest) > maxChordText {
		return nil, inputErrorf("%s is too long for a chord; text is written with type", quote(text))
	}
	if rest == "" {
		return nil, inputErrorf("no key is named; use a name such as Return, or space for the space bar")
	}
	var parts []string
	for {
		part, after, joined := strings.Cut(rest, "+")
		part, after = strings.TrimSpace(part), strings.TrimSpace(after)
		if part == "" && joined && (after == "" || after[0] == '+') {
			part = "+"
			after, joined = strings.CutPrefix(after, "+")
			after = strings.TrimSpace(after)
		}
		if part == "" {
			return nil, inputErrorf("a key is missing beside a + in %s; the plus key itself is named plus", quote(text))
		}
		if (part == "u" || part == "U") && joined && isCodePoint("U+"+after) {
			part, joined = "U+"+after, false
		}
		parts = append(parts, splitDashes(part)...)
		if !joined {
			return parts, nil
		}
		rest = after
	}
}

// splitDashes takes the modifiers off the front of a part such as "ctrl-alt-t".
func splitDashes(part string) (parts []string) {
	for {
		before, after, found := strings.Cut(part, "-")
		before, after = strings.TrimSpace(before), strings.TrimSpace(after)
		if !found || after == "" {
			return append(parts, part)
		}
		if key, ok := keyNamed(before); !ok || !isCommand(key) && !isClickModifier(key) && key != KeyAltGr {
			return append(parts, part)
		}
		parts, part = append(parts, before), after
	}
}

// keyOfText returns the key of a text that is a single character.
func keyOfText(text string) (Key, bool) {
	r, size := utf8.DecodeRuneInString(text)
	if size != len(text) || r == utf8.RuneError { // which stands for a character that was lost
		return 0, false
	}
	if key, ok := keySigns[r]; ok {
		return key, true
	}
	return KeyOf(r)
}

// keyNamed returns the key of a name or a single character.
func keyNamed(name string) (Key, bool) {
	if _, size := utf8.DecodeRuneInString(name); size == len(name) {
		return keyOfText(name)
	}
	if strings.Trim(name, "-_") != name {
		return 0, false
	}
	if isCodePoint(name) {
		n, err := strconv.ParseUint(strings.TrimLeft(name, "Uu+"), 16, 32)
		if err != nil {
			return 0, false
		}
		return KeyOf(rune(n))
	}
	fold := keysym.Fold(strings.NewReplacer(" ", "", "-", "").Replace(name))
	if key, ok := keyNames[fold]; ok {
		return key, true
	}
	if strings.Contains(name, " ") && isSequence(name) {
		return 0, false
	}
	if value, ok := keysym.Lookup(name); ok && value != keysym.Void {
		return Key(value), true
	}
	if value, ok := keysym.LookupFold(fold); ok && value != keysym.Void {
		return Key(value), true
	}
	for _, prefix := range []string{"numpad", "keypad", "kp", "num"} {
		if rest, ok := strings.CutPrefix(fold, prefix); ok {
			if other, ok := keypadNames[rest]; ok {
				rest = other
			}
			if value, ok := keysym.LookupFold("kp" + rest); ok {
				return Key(value), true
			}
		}
	}
	return 0, false
}

// isSequence tells whether a text is several keys with spaces between.
func isSequence(text string) bool {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return false
	}
	for _, field := range fields {
		for _, part := range splitDashes(field) {
			if _, ok := keyNamed(part); !ok {
				return false
			}
		}
	}
	return true
}

// isCodePoint tells whether a name has the form U+XXXX or UXXXX.
func isCodePoint(name string) bool {
	digits, ok := strings.CutPrefix(strings.ToUpper(name), "U")
	if !ok {
		return false
	}
	digits = strings.TrimPrefix(digits, "+")
	return len(digits) >= 4 && len(digits) <= 6 && strings.Trim(digits, "0123456789ABCDEF") == ""
}

// isCommand tells whether a key makes a shortcut of the letter beside it.
func isCommand(k Key) bool {
	return k == KeyControl || k == 0xffe4 || k >= 0xffe7 && k <= 0xffee // Meta, Alt, Super and Hyper
}

// isClickModifier tells whether a key can be held during a click.
func isClickModifier(k Key) bool {
	return k >= 0xffe1 && k <= 0xffe4 || k >= 0xffe9 && k <= 0xffec // Shift, Control; Alt, Super
}

// actsOnDisplay tells whether a server that sees the key on its keyboard would do something
// to itself: end, change terminals or modes, break grabs, or turn auto-repeat and the like
// on and off.
func actsOnDisplay(k Key) bool {
	return k == 0xfed5 || k >= 0xfe70 && k <= 0xfe7a || k >= 0x1008fe01 && k <= 0x1008feff
}

// quote shows a text that came from a model: in quotation marks, escaped, and shortened.
func quote(text string) string {
	const longest = 40
	n := 0
	for i := range text {
		if n++; n > longest {
			return strconv.Quote(text[:i]) + "..."
		}
	}
	return strconv.Quote(text)
}

func inputErrorf(format string, args ...any) error {
	return &InputError{Text: fmt.Sprintf(format, args...)}
}
