package keysym

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write keysyms.txt from the headers")

const head = `# Names of X keysyms, their values and the characters that they stand for, in hexadecimal.
# A character is given where it does not follow from the value.
# Source: the facts of keysymdef.h and XF86keysym.h of the X protocol headers (MIT licence).
# Made by "go generate"; do not edit.
`

// headers are in the order of preference among names of one value.
var headers = []string{"/usr/include/X11/keysymdef.h", "/usr/include/X11/XF86keysym.h"}

var definition = regexp.MustCompile(`^#define (XK_|XF86XK_)(\w+)\s+(?:0x([0-9a-fA-F]+)|_EVDEVK\(0x([0-9a-fA-F]+)\))(?:\s*/\*\s*\(?U\+([0-9A-F]{4,6})\b)?`)

// evdev is what the header's macro _EVDEVK adds.
const evdev = 0x10081000

// generate makes the table from the headers.
func generate(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(head)
	for _, path := range headers {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v\ninstall the headers with: scripts/setup test (Debian's x11proto-dev)", err)
		}
		for line := range strings.Lines(string(data)) {
			m := definition.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			name := m[2]
			if m[1] == "XF86XK_" {
				name = "XF86" + name
			}
			value, err := strconv.ParseUint(m[3]+m[4], 16, 32)
			if err != nil {
				t.Fatalf("%s: %v in %q", path, err, line)
			}
			if m[4] != "" {
				value += evdev
			}
			fmt.Fprintf(&b, "%s %x", name, value)
			if m[5] != "" && value >= 0x100 && value < unicodeBase {
				character, err := strconv.ParseUint(m[5], 16, 32)
				if err != nil {
					t.Fatalf("%s: %v in %q", path, err, line)
				}
				fmt.Fprintf(&b, " %x", character)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// entries maps the name at the start of each line to the line.
func entries(table string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(table) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			m[name] = strings.TrimSpace(line)
		}
	}
	return m
}

// TestTable holds that the table says what the headers say. Headers that are newer may
// define more.
func TestTable(t *testing.T) {
	made := generate(t)
	if *update {
		if err := os.WriteFile("keysyms.txt", []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !strings.HasPrefix(text, head) {
		t.Error(`keysyms.txt has another head than the generator writes; run "go generate"`)
	}
	committed, installed := entries(text), entries(made)
	if len(committed) < 2400 {
		t.Errorf("the table has only %d names", len(committed))
	}
	for name, line := range committed {
		if installed[name] != line {
			t.Errorf(`the table has %q, the headers %q; run "go generate"`, line, installed[name])
		}
	}
	maps.DeleteFunc(installed, func(name, _ string) bool { return committed[name] != "" })
	if len(installed) > 0 {
		t.Logf(`the headers define %d more names; "go generate" adds them`, len(installed))
	}
}

// TestFoldLosesNoKey holds that names which become equal when case and underscores are
// dropped are either the two cases of a letter or names of one key.
func TestFoldLosesNoKey(t *testing.T) {
	seen := map[string]string{}
	for name := range entries(text) {
		fold := Fold(name)
		other, there := seen[fold]
		seen[fold] = name
		if !there || strings.EqualFold(name, other) {
			continue
		}
		a, _ := Lookup(name)
		b, _ := Lookup(other)
		if a != b && fold != "ch" { // the digraph of Breton and Welsh has five keys
			t.Errorf("%s (%#x) and %s (%#x) fold to the same name", name, a, other, b)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name  string
		value uint32
		fold  uint32
		main  string // the name of the value
		char  rune   // 0 for none
	}{
		{"Return", 0xff0d, 0xff0d, "Return", 0},
		{"Page_Up", 0xff55, 0xff55, "Prior", 0},
		{"Eacute", 0xc9, 0xe9, "Eacute", 'É'},
		{"a", 'a', 'a', "a", 'a'},
		{"A", 'A', 'a', "A", 'A'},
		{"Cyrillic_ef", 0x6c6, 0x6c6, "Cyrillic_ef", 'ф'},
		{"Cyrillic_EF", 0x6e6, 0x6c6, "Cyrillic_EF", 'Ф'},
		{"EuroSign", 0x20ac, 0x20ac, "EuroSign", '€'},
		{"Greek_alpha", 0x7e1, 0x7e1, "Greek_alpha", 'α'},
		{"leftcaret", 0xba3, 0xba3, "leftcaret", '<'},
		{"KP_1", 0xffb1, 0xffb1, "KP_1", 0},
		{"dead_acute", 0xfe51, 0xfe51, "dead_acute", 0},
		{"XF86AudioRaiseVolume", 0x1008ff13, 0x1008ff13, "XF86AudioRaiseVolume", 0},
		{"XF86RotationLockToggle", 0x1008ffb7, 0x1008ffb7, "XF86RotationLockToggle", 0},
		{"XF86KbdInputAssistPrev", 0x10081260, 0x10081260, "XF86KbdInputAssistPrev", 0},
		{"braille_dots_1", 0x1002801, 0x1002801, "braille_dots_1", '⠁'},
	} {
		if v, ok := Lookup(c.name); !ok || v != c.value {
			t.Errorf("Lookup(%s) = %#x, %v; want %#x", c.name, v, ok, c.value)
		}
		if v, ok := LookupFold(Fold(c.name)); !ok || v != c.fold {
			t.Errorf("LookupFold(%s) = %#x, %v; want %#x", Fold(c.name), v, ok, c.fold)
		}
		if name, ok := Name(c.value); !ok || name != c.main {
			t.Errorf("Name(%#x) = %q, %v; want %q", c.value, name, ok, c.main)
		}
		if r, ok := Rune(c.value); r != c.char || ok != (c.char != 0) {
			t.Errorf("Rune(%#x) = %q, %v; want %q", c.value, r, ok, c.char)
		}
	}
}

func TestRunes(t *testing.T) {
	for r := rune(-1); r <= 0x110001; r++ {
		value, ok := OfRune(r)
		if !ok {
			continue
		}
		if back, ok := Rune(value); !ok || back != r {
			t.Fatalf("U+%04X has the keysym %#x, which stands for U+%04X, %v", r, value, back, ok)
		}
	}
	for _, r := range []rune{-1, 0, '\n', 0x1f, 0x7f, 0x9f, 0xd800, 0xdfff, 0xfdd0, 0xfffe, 0xffff, 0x1ffff, 0x10ffff, 0x110000} {
		if value, ok := OfRune(r); ok {
			t.Errorf("OfRune(%#x) = %#x; it has no key", r, value)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		parse()
	}
}
