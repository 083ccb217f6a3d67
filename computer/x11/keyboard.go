package x11

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// keyboard knows which key of the display makes which symbol, and maps spare keys to
// symbols that no key makes.
type keyboard struct {
	*link
	xkb    *xkb
	owner  owner
	pinger *pinger
}

func newKeyboard(ctx context.Context, l *link) (*keyboard, error) {
	x, err := newXKB(ctx, l)
	if err != nil {
		return nil, err
	}
	o, err := newOwner(ctx, l)
	if err != nil {
		return nil, err
	}
	p, err := newPinger(ctx, l)
	if err != nil {
		return nil, err
	}
	return &keyboard{link: l, xkb: x, owner: o, pinger: p}, nil
}

func (k *keyboard) close(ctx context.Context) {}

// stroke is how to make a symbol: a key, and the modifier keys that must be down with it.
type stroke struct {
	code xproto.Keycode
	mods []xproto.Keycode
}

// stroke returns how to make a symbol in the keyboard's layout and group as they are now.
// A symbol that no key makes is given a spare key.
func (k *keyboard) stroke(ctx context.Context, key computer.Key) (stroke, error) {
	l, err := k.xkb.read(ctx)
	if err != nil {
		return stroke{}, err
	}
	if s, ok := l.find(key); ok {
		return s, nil
	}
	return stroke{}, &computer.InputError{Text: fmt.Sprintf("the keyboard has no key for symbol %#x", uint32(key))}
}

// Modifiers, as bits.
const (
	modShift = xproto.ModMaskShift
	modLock  = xproto.ModMaskLock
)

// Symbols of keys that choose a level.
const (
	symShiftL         = 0xffe1
	symShiftR         = 0xffe2
	symISOLevel3Shift = 0xfe03
)

// chooser returns the key that, held down, sets one modifier that chooses a level: Shift or
// AltGr. It is a plain key for just that.
func (l *layout) chooser(bit byte) (code xproto.Keycode, ok bool) {
	for c := int(l.min); c <= int(l.max); c++ {
		if l.mods[c] != bit {
			continue
		}
		_, syms := l.symbols(xproto.Keycode(c), l.state.group)
		if len(syms) == 0 {
			continue
		}
		switch s := syms[0]; {
		case bit == modShift && (s == symShiftL || s == symShiftR), bit != modShift && s == symISOLevel3Shift:
			return xproto.Keycode(c), true
		}
	}
	return 0, false
}

// choosers returns the modifiers that can be held down to choose a level, with their keys.
func (l *layout) choosers() map[byte]xproto.Keycode {
	keys := map[byte]xproto.Keycode{}
	for bit := byte(1); bit != 0; bit <<= 1 {
		if code, ok := l.chooser(bit); ok && bit != modLock {
			keys[bit] = code
		}
	}
	return keys
}

// find looks for the key that makes a symbol in the group in effect. Of several it takes
// the one that needs the fewest modifiers beyond Shift, then the first: that of the main
// block. A letter, digit or mark is matched by what it stands for, since a layout can name
// it by more than one symbol.
func (l *layout) find(key computer.Key) (stroke, bool) {
	char, isChar := key.Rune()
	choosers := l.choosers()
	var best stroke
	bestRank := 1 << 30
	for c := int(l.min); c <= int(l.max); c++ {
		if isChar && l.mods[c] != 0 {
			continue
		}
		t, syms := l.symbols(xproto.Keycode(c), l.state.group)
		for level, sym := range syms {
			if sym == 0 || sym != uint32(key) && (!isChar || !stands(sym, char)) {
				continue
			}
			set, ok := l.reach(t, byte(level), choosers)
			if !ok {
				continue
			}
			rank := c + 256*bits.OnesCount8(set&^modShift)
			if !isChar {
				rank += 256 * bits.OnesCount8(set)
			}
			if rank < bestRank {
				best, bestRank = stroke{code: xproto.Keycode(c)}, rank
				for bit := byte(1); bit != 0; bit <<= 1 {
					if set&bit != 0 {
						best.mods = append(best.mods, choosers[bit])
					}
				}
			}
		}
	}
	return best, bestRank < 1<<30
}

// stands reports whether a symbol stands for a character.
func stands(sym uint32, char rune) bool {
	r, ok := computer.Key(sym).Rune()
	return ok && r == char
}

// reach returns the smallest set of modifiers that chooses a level of a key.
func (l *layout) reach(t keyType, level byte, choosers map[byte]xproto.Keycode) (set byte, ok bool) {
	// Num Lock counts, for the keypad. Caps Lock does not: whoever types text takes it
	// off, and a shortcut means the key.
	locked := l.state.locked &^ (modShift | modLock)
	if t.level(locked) == level {
		return 0, true
	}
	for _, e := range t.entries {
		need := e.mods
		if e.level != level || need&modLock != 0 || need&locked != locked&t.mask {
			continue
		}
		need &^= locked
		pressable := true
		for bit := byte(1); bit != 0; bit <<= 1 {
			if need&bit != 0 {
				if _, has := choosers[bit]; !has {
					pressable = false
				}
			}
		}
		if pressable && (!ok || bits.OnesCount8(need) < bits.OnesCount8(set)) {
			set, ok = need, true
		}
	}
	return set, ok
}
