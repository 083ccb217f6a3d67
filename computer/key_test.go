package computer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestKeyOf(t *testing.T) {
	for _, c := range []struct {
		r   rune
		key Key // 0 for none
	}{
		{'a', 'a'}, {'A', 'A'}, {' ', ' '}, {'~', '~'}, {'\n', KeyReturn}, {'\t', KeyTab},
		{'é', 0xe9}, {'\u00a0', 0xa0}, {'ÿ', 0xff}, {'Ā', 0x1000100}, {'ф', 0x1000444}, {'€', 0x10020ac},
		{'漢', 0x1006f22}, {'😀', 0x101f600}, {0x10fffd, 0x110fffd}, {'\u200b', 0x100200b},
		{0, 0}, {'\r', 0}, {0x1b, 0}, {0x7f, 0}, {0x80, 0}, {0x9f, 0}, {0xd800, 0}, {0xdfff, 0},
		{0xfdd0, 0}, {0xffff, 0}, {0x10ffff, 0}, {0x110000, 0}, {-1, 0},
	} {
		key, ok := KeyOf(c.r)
		if key != c.key || ok != (c.key != 0) {
			t.Errorf("KeyOf(%q) = %#x, %v; want %#x", c.r, uint32(key), ok, uint32(c.key))
		}
		if !ok {
			continue
		}
		if r, ok := key.Rune(); !ok || r != c.r {
			t.Errorf("the key of %q types %q, %v", c.r, r, ok)
		}
	}
}

func TestKeyString(t *testing.T) {
	for key, want := range map[Key]string{
		'a': "a", 'A': "A", '+': "plus", '-': "minus", ' ': "space", KeyReturn: "Return", KeyControl: "Control_L",
		0xff55: "Prior", 0x6c6: "Cyrillic_ef", 0x1000444: "U+0444", 0x101f600: "U+1F600",
		0xad: "U+00AD", 0x1008ff13: "XF86AudioRaiseVolume", 0: "0x0", 0x12345678: "0x12345678",
	} {
		if got := key.String(); got != want {
			t.Errorf("Key(%#x).String() = %q, want %q", uint32(key), got, want)
		}
	}
}

func TestParseKeys(t *testing.T) {
	const (
		control, shift, alt, super = KeyControl, KeyShift, KeyAlt, KeySuper
		pageUp, pageDown           = Key(0xff55), Key(0xff56)
		left, up, right, down      = Key(0xff51), Key(0xff52), Key(0xff53), Key(0xff54)
	)
	for _, c := range []struct {
		texts string // separated by |
		keys  []Key
	}{
		{"Return|return|RETURN|enter|Enter|\n|\r|\r\n| Return ", []Key{KeyReturn}},
		{"esc|Escape|ESC", []Key{KeyEscape}},
		{"del|delete|Delete", []Key{KeyDelete}},
		{"ins|insert", []Key{0xff63}},
		{"BackSpace|backspace|back_space|bksp|back space", []Key{KeyBackSpace}},
		{"Tab|tab|\t", []Key{KeyTab}},
		{"space|spacebar|Space| ", []Key{' '}},
		{"pgup|Page_Up|pageup|page up|PageUp|page-up|prior|Prior", []Key{pageUp}},
		{"pgdn|Page_Down|pagedown|page down|next|Next", []Key{pageDown}},
		{"left|Left|ArrowLeft|left arrow|arrow_left", []Key{left}},
		{"up|arrowup|up arrow", []Key{up}},
		{"right|arrowright", []Key{right}},
		{"down|arrowdown|Down Arrow", []Key{down}},
		{"ctrl|control|Control_L|ctrl_l|left ctrl|ControlLeft|CTRL", []Key{control}},
		{"ctrl_r|control_r|right ctrl|ControlRight", []Key{0xffe4}},
		{"shift|Shift_L|ShiftLeft", []Key{shift}},
		{"alt|Alt_L|option|opt", []Key{alt}},
		{"cmd|command|super|Super_L|win|windows|meta|MetaLeft", []Key{super}},
		{"Meta_L|meta_l", []Key{0xffe7}},
		{"altgr|iso_level3_shift|ISO_Level3_Shift|AltGraph", []Key{KeyAltGr}},
		{"caps|capslock|Caps_Lock|caps lock", []Key{0xffe5}},
		{"num_lock|numlock|NumLock", []Key{0xff7f}},
		{"scroll_lock|ScrollLock", []Key{0xff14}},
		{"print|printscreen|print screen|prtsc|Print", []Key{0xff61}},
		{"sysrq|Sys_Req", []Key{0xff15}},
		{"pause", []Key{0xff13}},
		{"break", []Key{0xff6b}},
		{"menu|apps|ContextMenu", []Key{0xff67}},
		{"f1|F1", []Key{0xffbe}},
		{"F12", []Key{0xffc9}},
		{"f24|F24", []Key{0xffd5}},
		{"F35", []Key{0xffe0}},
		{"KP_Enter|kp_enter|numpadenter|numpad enter|NumpadEnter", []Key{0xff8d}},
		{"KP_0|numpad0|num0|keypad0|kp0|numpad 0", []Key{0xffb0}},
		{"KP_Add|kp_plus|NumpadAdd|add", []Key{0xffab}},
		{"KP_Subtract|numpadminus|subtract", []Key{0xffad}},
		{"NumpadDecimal|kp_period|numpad .", []Key{0xffae}},
		{"KP_Home", []Key{0xff95}},
		{"XF86AudioRaiseVolume|xf86audioraisevolume|volumeup|volume up|AudioVolumeUp", []Key{0x1008ff13}},
		{"XF86Back|browserback", []Key{0x1008ff26}},
		{"XF86Copy", []Key{0x1008ff57}},

		{"a|KeyA|U+0061|u0061", []Key{'a'}},
		{"A|U+0041|U0041", []Key{'A'}},
		{"1|Digit1", []Key{'1'}},
		{"<|less", []Key{'<'}},
		{"é|eacute|EACUTE", []Key{'é'}},
		{"É|Eacute", []Key{'É'}},
		{"ф", []Key{0x1000444}},
		{"漢", []Key{0x1006f22}},
		{"😀|U+1F600", []Key{0x101f600}},
		{"+|plus|Plus", []Key{'+'}},
		{"-|minus|hyphen|dash", []Key{'-'}},
		{"=|equal|equals", []Key{'='}},
		{",|comma", []Key{','}},
		{".|period|dot", []Key{'.'}},
		{"/|slash", []Key{'/'}},
		{"\\|backslash", []Key{'\\'}},
		{";|semicolon", []Key{';'}},
		{"'|apostrophe|quote", []Key{'\''}},
		{"`|grave|backtick|Backquote", []Key{'`'}},
		{"[|bracketleft|BracketLeft|left bracket", []Key{'['}},
		{"~|asciitilde|tilde", []Key{'~'}},
		{"_|underscore", []Key{'_'}},
		{"$|dollar", []Key{'$'}},

		{"ctrl+s|Ctrl+S|CTRL+S|ctrl + s|control+s|ctrl-s|Ctrl-S|ctrl - s", []Key{control, 's'}},
		{"ctrl+c|ctrl-c|Control_L+c", []Key{control, 'c'}},
		{"ctrl-l", []Key{control, 'l'}},
		{"ctrl-r", []Key{control, 'r'}},
		{"ctrl+shift+T|ctrl+shift+t|ctrl-shift-t|ctrl-shift+T", []Key{control, shift, 't'}},
		{"shift+T", []Key{shift, 'T'}},
		{"shift+a", []Key{shift, 'a'}},
		{"alt+Tab|alt-tab|ALT+TAB", []Key{alt, KeyTab}},
		{"ctrl+alt+Delete|ctrl-alt-del", []Key{control, alt, KeyDelete}},
		{"ctrl++|ctrl+plus|ctrl + +", []Key{control, '+'}},
		{"ctrl+shift++", []Key{control, shift, '+'}},
		{"ctrl+-|ctrl+minus|ctrl--", []Key{control, '-'}},
		{"ctrl+page up|ctrl+Page_Up|ctrl-page-up", []Key{control, pageUp}},
		{"shift-left", []Key{shift, left}},
		{"++a", []Key{'+', 'a'}},
		{"ctrl+U+0444", []Key{control, 0x1000444}},
		{"Ctrl+Ф", []Key{control, 0x1000444}},
		{"ctrl+shift", []Key{control, shift}},
		{"meta-x|cmd+X|win+x", []Key{super, 'x'}},
		{"altgr+E", []Key{KeyAltGr, 'E'}},
		{"⌘+c|⌘+C", []Key{super, 'c'}},
		{"⌃+⇧+←", []Key{control, shift, left}},
		{"→", []Key{right}},
		{"⏎", []Key{KeyReturn}},
		{"U+2192", []Key{0x1002192}},
		{"ctrl+,", []Key{control, ','}},
		{"ctrl+space|ctrl-space", []Key{control, ' '}},
		{"f+u", []Key{'f', 'u'}},
		{"a+b+c+d+e+f+g+h", []Key{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}},
	} {
		texts := strings.Split(c.texts, "|")
		for _, text := range texts {
			keys, err := ParseKeys(text)
			if err != nil || !slices.Equal(keys, c.keys) {
				t.Errorf("ParseKeys(%q) = %v, %v; want %v", text, keys, err, c.keys)
			}
		}
	}
	if keys, err := ParseKeys("|"); err != nil || !slices.Equal(keys, []Key{'|'}) {
		t.Errorf("ParseKeys(|) = %v, %v", keys, err)
	}
}

func TestParseKeysRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "no key is named",
		"  ":                        "no key is named",
		"foo":                       `there is no key "foo"`,
		"NULL":                      `there is no key "NULL"`,
		"VoidSymbol":                `there is no key "VoidSymbol"`,
		"ctrl+foo":                  `there is no key "foo"`,
		"hello world":               `there is no key "hello world"`,
		"copy":                      `there is no key "copy"`,
		"10":                        `there is no key "10"`,
		"a-b":                       `there is no key "a-b"`,
		"ctrl-":                     `there is no key "ctrl-"`,
		"\x1b":                      `there is no key "\x1b"`,
		"\x00":                      `there is no key "\x00"`,
		"\xff":                      `there is no key "\xff"`,
		"\ufffd":                    `there is no key "` + "\ufffd",
		"U+D800":                    `there is no key "U+D800"`,
		"U+110000":                  `there is no key "U+110000"`,
		"a\u202eb":                  `there is no key "a\u202eb"`,
		"$(reboot)":                 `there is no key "$(reboot)"`,
		"; rm -rf /":                `there is no key "; rm -rf /"`,
		"a; xdotool key b":          `there is no key "a; xdotool key b"`,
		"ctrl+":                     "a key is missing beside a +",
		"ctrl + ":                   "a key is missing beside a +",
		"+a":                        "a key is missing beside a +",
		"ctrl++a":                   "a key is missing beside a +",
		"++":                        "a key is missing beside a +",
		"ctrl+a Delete":             "more than one chord",
		"ctrl+a ctrl+c":             "more than one chord",
		"ctrl-a ctrl-c":             "more than one chord",
		"Down Down Return":          "more than one chord",
		"e t h":                     "more than one chord",
		"a+a":                       `has the key "a" twice`,
		"ctrl+control":              `has the key "control" twice`,
		"ctrl+a+A":                  `has the key "A" twice`,
		"+++":                       `has the key "+" twice`,
		"a+b+c+d+e+f+g+h+i":         "too many keys",
		strings.Repeat("u+", 1e5):   "too long",
		"ctrl+alt+Terminate_Server": "acts on the display itself",
		"XF86Switch_VT_1":           "acts on the display itself",
		"RepeatKeys_Enable":         "acts on the display itself",
	} {
		keys, err := ParseKeys(text)
		if err == nil {
			t.Errorf("ParseKeys(%.40q) = %v, want an error", text, keys)
			continue
		}
		checkInputError(t, text, err)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("ParseKeys(%.40q): %v; want it to say %s", text, err, want)
		}
	}
}

func TestParseModifiers(t *testing.T) {
	for text, want := range map[string][]Key{
		"":                  nil,
		" ":                 nil,
		"shift":             {KeyShift},
		"CTRL":              {KeyControl},
		"control":           {KeyControl},
		"alt":               {KeyAlt},
		"option":            {KeyAlt},
		"super":             {KeySuper},
		"cmd":               {KeySuper},
		"meta":              {KeySuper},
		"win":               {KeySuper},
		"Shift_R":           {0xffe2},
		"ctrl+shift":        {KeyControl, KeyShift},
		"ctrl-shift":        {KeyControl, KeyShift},
		"ctrl + alt+ super": {KeyControl, KeyAlt, KeySuper},
	} {
		keys, err := ParseModifiers(text)
		if err != nil || !slices.Equal(keys, want) {
			t.Errorf("ParseModifiers(%q) = %v, %v; want %v", text, keys, err, want)
		}
	}
	for text, want := range map[string]string{
		"a":           `"a" is no modifier`,
		"ctrl+a":      `"a" is no modifier`,
		"hello":       `"hello" is no modifier`,
		"capslock":    `"capslock" is no modifier`,
		"Return":      `"Return" is no modifier`,
		"ctrl shift":  `"ctrl shift" is no modifier`,
		"ctrl+":       "a key is missing",
		"+":           `"+" is no modifier`,
		"shift+shift": `has the modifier "shift" twice`,
		"ctrl\x00":    `"ctrl\x00" is no modifier`,
	} {
		keys, err := ParseModifiers(text)
		if err == nil {
			t.Errorf("ParseModifiers(%q) = %v, want an error", text, keys)
			continue
		}
		checkInputError(t, text, err)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("ParseModifiers(%q): %v; want it to say %s", text, err, want)
		}
	}
}

// checkInputError holds that an error can be shown to a model: typed, short, printable.
func checkInputError(t interface{ Errorf(string, ...any) }, text string, err error) {
	var input *InputError
	if !errors.As(err, &input) {
		t.Errorf("%.40q: the error is a %T", text, err)
	}
	s := err.Error()
	if len(s) > 1000 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%.40q: the error is not fit to be shown: %q", text, s)
	}
}

// TestKeyNames holds that every name of our own can be reached, and means a key.
func TestKeyNames(t *testing.T) {
	for name, want := range keyNames {
		if keys, err := ParseKeys(strings.ToUpper(name)); err != nil || !slices.Equal(keys, []Key{want}) {
			t.Errorf("ParseKeys(%q) = %v, %v; want %v", strings.ToUpper(name), keys, err, want)
		}
		if strings.HasPrefix(want.String(), "0x") {
			t.Errorf("%s is the key %v, which does not exist", name, want)
		}
	}
	for sign, want := range keySigns {
		if keys, err := ParseKeys(string(sign)); err != nil || !slices.Equal(keys, []Key{want}) {
			t.Errorf("ParseKeys(%q) = %v, %v; want %v", sign, keys, err, want)
		}
	}
}

// TestKeyStringParses holds that ParseKeys understands what String says, for every character.
func TestKeyStringParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, ok := KeyOf(rapid.Rune().Draw(t, "character"))
		if !ok {
			return
		}
		keys, err := ParseKeys(key.String())
		if err != nil || len(keys) != 1 {
			t.Fatalf("ParseKeys(%q) = %v, %v", key, keys, err)
		}
		want, _ := key.Rune()
		if got, _ := keys[0].Rune(); got != want {
			t.Fatalf("%v parses as %v", key, keys[0])
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	for _, seed := range []string{"Return", "ctrl+s", "ctrl++", "+", "page up", "ctrl-alt-t", "U+1F600", "u+u+0041",
		"a b", "\xff+\x00", "ctrl+a Delete", "numpad .", "ф", "- - -", "ctrl - - a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if err != nil {
			checkInputError(t, text, err)
			return
		}
		if len(keys) == 0 || len(keys) > maxChord {
			t.Errorf("ParseKeys(%q) = %v", text, keys)
		}
		for i, key := range keys {
			if slices.Index(keys, key) != i {
				t.Errorf("ParseKeys(%q) has %v twice", text, key)
			}
			if name := key.String(); strings.HasPrefix(name, "0x") {
				t.Errorf("ParseKeys(%q) has the key %s, which does not exist", text, name)
			}
		}
	})
}

func FuzzParseModifiers(f *testing.F) {
	for _, seed := range []string{"", "shift", "ctrl+alt", "cmd-shift", "ctrl+a", "+", "shift+"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseModifiers(text)
		if err != nil {
			checkInputError(t, text, err)
			return
		}
		for _, key := range keys {
			if !isClickModifier(key) {
				t.Errorf("ParseModifiers(%q) = %v", text, keys)
			}
		}
		if len(keys) == 0 && strings.TrimSpace(text) != "" {
			t.Errorf("ParseModifiers(%q) has none", text)
		}
	})
}
