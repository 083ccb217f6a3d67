package x11

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/jezek/xgb/xproto"
	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestAssign holds, for any text and any number of spare keys, that every character gets a
// place, and that what a place makes does not change between its use and the next wait for
// the application to have read the text; and that at the end every key has its own row.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original := &layout{strokes: map[computer.Key]stroke{'a': {code: 38}, 'b': {code: 56}}}
		var codes []xproto.Keycode
		for i := range rapid.IntRange(1, 6).Draw(t, "spare keys") {
			code := xproto.Keycode(100 + i)
			codes = append(codes, code)
			if rapid.Bool().Draw(t, "media") {
				original.rows[code] = keyRow{info: 1, width: 1, syms: []uint32{0x1008ff00 + uint32(i)}}
			}
		}
		shift := rapid.Bool().Draw(t, "shift")
		now := *original // the map of the display
		write := func(rows map[xproto.Keycode]keyRow) {
			for code, row := range rows {
				now.rows[code] = row
			}
		}
		letters := rapid.SliceOfN(rapid.SampledFrom([]computer.Key{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o'}), 1, 60)
		k := &keyboard{loans: map[xproto.Keycode]*loan{}, slots: map[computer.Key]slot{}}
		unread := map[slot]computer.Key{}
		for range rapid.IntRange(1, 3).Draw(t, "texts") {
			typing := &typing{keyboard: k, keys: letters.Draw(t, "text")}
			for typing.done < len(typing.keys) {
				key := typing.keys[typing.done]
				if _, ok := original.strokes[key]; ok {
					typing.done++
					continue
				}
				at, has := k.slots[key]
				if has {
					level := 0
					if at.shifted {
						level = 1
					}
					if made := now.rows[at.code].syms[level]; made != uint32(key) || at.shifted && !shift {
						t.Fatalf("%v makes %v, want %v", at, computer.Key(made), key)
					}
					unread[at] = key
					typing.done++
					continue
				}
				free := slices.DeleteFunc(slices.Clone(codes), func(c xproto.Keycode) bool { return k.loans[c] != nil })
				reclaim := len(free) == 0
				if reclaim {
					clear(unread) // the application has been waited for
					free = codes
				}
				pairs := pairUp(typing.missing(original), shift)
				rows := map[xproto.Keycode]keyRow{}
				k.assign(&now, free, pairs[:min(len(pairs), len(free))], reclaim, rows)
				write(rows)
				for at, key := range unread {
					level := 0
					if at.shifted {
						level = 1
					}
					if made := now.rows[at.code].syms[level]; made != uint32(key) {
						t.Fatalf("%v makes %v before %v was read", at, computer.Key(made), key)
					}
				}
			}
		}
		rows := map[xproto.Keycode]keyRow{}
		for code, loan := range k.loans {
			rows[code] = loan.original
		}
		write(rows)
		for _, code := range codes {
			if !now.rows[code].equal(original.rows[code]) {
				t.Fatalf("key %d is left with %+v, want %+v", code, now.rows[code], original.rows[code])
			}
		}
	})
}

// TestRecords holds that records survive being written down.
func TestRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []record
		var numbers []uint32
		for range rapid.IntRange(0, 4).Draw(t, "records") {
			r := record{
				owner: owner{xproto.Window(rapid.Uint32().Draw(t, "window")), rapid.Uint32().Draw(t, "token")},
				code:  xproto.Keycode(rapid.Byte().Draw(t, "code")),
			}
			r.lent = lentRow(computer.Key(rapid.Uint32().Draw(t, "plain")), computer.Key(rapid.Uint32().Draw(t, "shifted")))
			r.original = keyRow{info: rapid.Byte().Draw(t, "info"), width: rapid.Byte().Draw(t, "width"),
				types: [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "types")),
				syms:  rapid.SliceOfN(rapid.Uint32(), 0, 16).Draw(t, "symbols")}
			records = append(records, r)
			numbers = r.encode(numbers)
		}
		got := decodeRecords(numbers)
		if !slices.EqualFunc(got, records, func(a, b record) bool {
			return a.owner == b.owner && a.code == b.code && a.lent.equal(b.lent) && a.original.equal(b.original)
		}) {
			t.Fatalf("got %+v, want %+v", got, records)
		}
	})
}

// FuzzRecords takes any property apart.
func FuzzRecords(f *testing.F) {
	f.Add(u32(nil, record{code: 93, loan: loan{lent: lentRow('a', 'b'), original: keyRow{syms: []uint32{1}}}}.encode(nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var numbers []uint32
		for ; len(b) >= 4; b = b[4:] {
			numbers = append(numbers, binary.LittleEndian.Uint32(b))
		}
		for _, r := range decodeRecords(numbers) {
			r.encode(nil)
		}
	})
}

// describe is a server's description of a keyboard of three keys: a letter in two groups,
// Shift, and one that makes nothing.
func describe() []byte {
	head := make([]byte, 40)
	head[10], head[11] = 10, 12                                     // the lowest and the highest code
	head[15] = 2                                                    // types
	head[17], head[20], head[33] = 10, 3, 1                         // from which key on, how many, and how many with modifiers
	b := append(head, 0, 0, 0, 0, 1, 0, 0, 0)                       // one level
	b = append(b, modShift, modShift, 0, 0, 2, 1, 1, 0)             // two levels, with a preserved modifier
	b = append(b, 1, modShift, 1, modShift, 0, 0, 0, 0, 0, 0, 0, 0) // Shift chooses the second
	b = u32(u16(append(b, 1, 1, 0, 0, 2, 2), 4), 'a', 'A', 0x6c6, 0x6e6)
	b = u32(u16(append(b, 0, 0, 0, 0, 1, 1), 1), symShiftL)
	b = u16(append(b, 0, 0, 0, 0, 0, 0), 0)
	return append(b, 11, modShift, 0, 0)
}

// FuzzMap takes any description of a keyboard apart, and looks all of its keys up.
func FuzzMap(f *testing.F) {
	whole := describe()
	f.Add(whole, byte(0))
	f.Add(whole, byte(1))
	f.Add(whole[:len(whole)-7], byte(0))
	f.Fuzz(func(t *testing.T, b []byte, group byte) {
		l, err := parseMap(b)
		if err != nil {
			return
		}
		l.state.group = group & 3
		for key, s := range l.index() {
			if s.code < l.min || s.code > l.max {
				t.Errorf("%v is on key %d", key, s.code)
			}
		}
	})
}

func TestParseMap(t *testing.T) {
	for group, want := range []map[computer.Key]stroke{
		{'a': {code: 10}, 'A': {code: 10, mods: []xproto.Keycode{11}}},
		{0x01000444: {code: 10}, 0x01000424: {code: 10, mods: []xproto.Keycode{11}}},
	} {
		l, err := parseMap(describe())
		if err != nil {
			t.Fatal(err)
		}
		l.state.group = byte(group)
		for key, s := range want {
			if got := l.index()[key]; got.code != s.code || !slices.Equal(got.mods, s.mods) {
				t.Errorf("%v in group %d is %+v, want %+v", key, group, got, s)
			}
		}
	}
}

// TestStrokes looks keys up under layouts. What a key makes is what the server says of it,
// so that of these only the choice among several is at stake, and what must not be found.
func TestStrokes(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	const shift, altGr = 50, 92
	for _, test := range []struct {
		layout string
		key    computer.Key
		want   stroke
	}{
		{"us", 'a', stroke{code: 38}},
		{"us", 'A', stroke{code: 38, mods: []xproto.Keycode{shift}}},
		{"us", '(', stroke{code: 18, mods: []xproto.Keycode{shift}}}, // not the key of a phone
		{"us", '<', stroke{code: 59, mods: []xproto.Keycode{shift}}}, // not the key beside Shift
		{"us", '7', stroke{code: 16}},                                // not the keypad
		{"us", computer.KeyReturn, stroke{code: 36}},                 // not the keypad
		{"us", computer.KeyControl, stroke{code: 37}},
		{"us", 0xff61, stroke{code: 107}}, // Print
		{"de", 'z', stroke{code: 29}},
		{"de", '@', stroke{code: 24, mods: []xproto.Keycode{altGr}}},
		{"de", '<', stroke{code: 94}},
		{"fr", '1', stroke{code: 10, mods: []xproto.Keycode{shift}}},
		{"ru", 0x01000444, stroke{code: 38}},                                   // the letter ef
		{"ru", 0x6c6, stroke{code: 38}},                                        // the same, by its older symbol
		{"us,ru", 0x01000424, stroke{code: 38, mods: []xproto.Keycode{shift}}}, // its capital, in the second group
		{"us,ru", computer.KeyTab, stroke{code: 23}},                           // the same in both
		{"us,ru", computer.KeyBackSpace, stroke{code: 22}},
		{"us,ru", computer.Key(0xff0d), stroke{code: 36}},
		{"us,ru", computer.Key(0xffe1), stroke{code: shift}},
		{"us,ru", computer.Key('.'), stroke{code: 61}},
		{"us,ru", computer.Key(','), stroke{code: 61, mods: []xproto.Keycode{shift}}},
	} {
		setLayout(t, s, test.layout)
		d := openDisplay(t, s, nil)
		got, err := d.keyboard.stroke(t.Context(), test.key)
		if err != nil || got.code != test.want.code || !slices.Equal(got.mods, test.want.mods) {
			t.Errorf("%v under %s is %+v, %v; want %+v", test.key, test.layout, got, err, test.want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	// A letter that the layout lacks, for a shortcut: a spare key has it as any keyboard
	// does.
	setLayout(t, s, "us,ru")
	before := keymap(t, s)
	d := openDisplay(t, s, nil)
	small, err := d.keyboard.stroke(t.Context(), 'c')
	if err != nil {
		t.Fatal(err)
	}
	capital, err := d.keyboard.stroke(t.Context(), 'C')
	if err != nil {
		t.Fatal(err)
	}
	if small.code != capital.code || len(small.mods) != 0 || !slices.Equal(capital.mods, []xproto.Keycode{shift}) {
		t.Errorf("the small letter is %+v, the capital %+v", small, capital)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	same(t, keymap(t, s), before)
}
