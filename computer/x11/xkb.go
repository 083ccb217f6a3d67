package x11

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// The protocol library has no XKEYBOARD, so the few requests that a driver needs are put
// together here. Layouts of messages and the meaning of a key's groups, types and levels
// are those of "The X Keyboard Extension: Protocol Specification", version 1.0.

const (
	xkbName    = "XKEYBOARD"
	xkbCoreKbd = 0x100 // the device that stands for the core keyboard

	xkbPartTypes   = 1 << 0
	xkbPartSymbols = 1 << 1
	xkbPartModMap  = 1 << 2

	xkbTwoLevel = 1 // of the types that every map has, the one whose second level is Shift's
)

// errMap says that the server's answer about its keyboard made no sense.
var errMap = errors.New("the display's description of its keyboard is damaged")

// layout is the keyboard of a display at one moment: what each key makes, and the state.
type layout struct {
	min, max xproto.Keycode
	types    []keyType
	rows     [256]keyRow
	mods     [256]byte // by keycode, the modifiers that the key sets
	state    keyState
	lent     []xproto.Keycode        // keys that make something else for the time being
	strokes  map[computer.Key]stroke // made when it is first needed
	answer   []byte                  // that the map came in
}

// same reports whether two layouts have the same map and a state that means the same.
func (l *layout) same(o *layout) bool {
	const head = 8 // with the number of the request
	return l.state.group == o.state.group && l.state.locked == o.state.locked &&
		len(l.answer) > head && len(o.answer) > head && bytes.Equal(l.answer[head:], o.answer[head:])
}

// keyState is the part of a keyboard's state that decides what a key makes.
type keyState struct {
	base, latched, locked byte // modifiers: held down, for the next key, until further notice
	group                 byte // in effect, from 0
}

// keyType says which level of a key a set of modifiers chooses.
type keyType struct {
	mask    byte
	levels  byte
	entries []typeEntry
}

// typeEntry chooses a level, from 0, for an exact set of modifiers.
type typeEntry struct {
	mods, level byte
}

// level returns the level that the modifiers choose.
func (t keyType) level(mods byte) byte {
	for _, e := range t.entries {
		if e.mods == mods&t.mask {
			return e.level
		}
	}
	return 0
}

// keyRow is what one key makes: groups of width symbols each.
type keyRow struct {
	types [4]byte // by group
	info  byte    // the number of groups, and what stands in for groups that are not there
	width byte
	syms  []uint32
}

// equal reports whether two rows are the same in every respect.
func (r keyRow) equal(o keyRow) bool {
	if r.types != o.types || r.info != o.info || r.width != o.width || len(r.syms) != len(o.syms) {
		return false
	}
	for i, s := range r.syms {
		if s != o.syms[i] {
			return false
		}
	}
	return true
}

// empty reports whether the key makes nothing at all.
func (r keyRow) empty() bool {
	for _, s := range r.syms {
		if s != 0 {
			return false
		}
	}
	return true
}

// group returns which of the key's groups is in effect when the keyboard's group is g.
func (r keyRow) group(g byte) (group byte, ok bool) {
	n := r.info & 0x0f
	switch {
	case n == 0:
		return 0, false
	case g < n:
		return g, true
	case r.info&0xc0 == 0x80: // a group is named
		if g = r.info >> 4 & 3; g < n {
			return g, true
		}
		return 0, true
	case r.info&0xc0 == 0x40: // the last
		return n - 1, true
	default: // around
		return g % n, true
	}
}

// symbols returns a key's type and what its levels make when the keyboard's group is g.
func (l *layout) symbols(code xproto.Keycode, g byte) (t keyType, syms []uint32) {
	r := &l.rows[code]
	g, ok := r.group(g)
	if !ok || g > 3 || int(r.types[g]) >= len(l.types) {
		return keyType{}, nil
	}
	from, to := int(g)*int(r.width), (int(g)+1)*int(r.width)
	if to > len(r.syms) {
		return keyType{}, nil
	}
	t = l.types[r.types[g]]
	return t, r.syms[from:min(to, from+int(t.levels))]
}

// xkb makes requests of the extension.
type xkb struct {
	*link
	opcode  byte
	present bool
}

// newXKB readies the extension, where the display has it.
func newXKB(ctx context.Context, l *link) (*xkb, error) {
	_, present, err := l.extension(ctx, xkbName)
	if err != nil || !present {
		return &xkb{link: l}, err
	}
	l.x.ExtLock.RLock()
	k := &xkb{link: l, opcode: l.x.Extensions[xkbName]}
	l.x.ExtLock.RUnlock()
	answer, err := k.ask(ctx, k.message(0, 1, 0, 0, 0)) // version 1.0
	if err != nil {
		return nil, err
	}
	k.present = len(answer) > 1 && answer[1] != 0
	return k, nil
}

// message puts a request together and fills in its length.
func (k *xkb) message(minor byte, body ...byte) []byte {
	b := append([]byte{k.opcode, minor, 0, 0}, body...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	xgb.Put16(b[2:], uint16(len(b)/4))
	return b
}

// ask makes a request that is answered.
func (k *xkb) ask(ctx context.Context, request []byte) ([]byte, error) {
	return await(ctx, k.link, func() ([]byte, error) {
		cookie := k.x.NewCookie(true, true)
		k.x.NewRequest(request, cookie)
		return cookie.Reply()
	})
}

// tell makes a request that is not answered and waits until the server has handled it.
func (k *xkb) tell(ctx context.Context, request []byte) error {
	_, err := await(ctx, k.link, func() (struct{}, error) {
		cookie := k.x.NewCookie(true, false)
		k.x.NewRequest(request, cookie)
		return struct{}{}, cookie.Check()
	})
	return err
}

// u16 appends numbers of two bytes.
func u16(b []byte, values ...uint16) []byte {
	for _, v := range values {
		b = append(b, byte(v), byte(v>>8))
	}
	return b
}

// u32 appends numbers of four bytes.
func u32(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	return b
}

// read asks for the keyboard's map and state.
func (k *xkb) read(ctx context.Context) (*layout, error) {
	if !k.present {
		return nil, errors.New("the display lacks the XKEYBOARD extension, without which its keyboard cannot be used; start a newer server")
	}
	request := u16(nil, xkbCoreKbd, xkbPartTypes|xkbPartSymbols|xkbPartModMap, 0)
	request = k.message(8, append(request, make([]byte, 18)...)...)
	answer, err := k.ask(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("asking for the keyboard's map: %w", err)
	}
	l, err := parseMap(answer)
	if err != nil {
		return nil, err
	}
	l.state, err = k.state(ctx)
	return l, err
}

// state asks for the keyboard's state.
func (k *xkb) state(ctx context.Context) (keyState, error) {
	answer, err := k.ask(ctx, k.message(4, u16(nil, xkbCoreKbd, 0)...))
	if err != nil {
		return keyState{}, fmt.Errorf("asking for the keyboard's state: %w", err)
	}
	if len(answer) < 32 {
		return keyState{}, errMap
	}
	return keyState{base: answer[9], latched: answer[10], locked: answer[11], group: answer[12] & 3}, nil
}

// write sets what keys make. The keys between them are written as they are in l, so that
// one request does for all and clients hear of one change; the server must be grabbed since
// l was read.
func (k *xkb) write(ctx context.Context, l *layout, rows map[xproto.Keycode]keyRow) error {
	if len(rows) == 0 {
		return nil
	}
	first, last := 255, 0
	for code := range rows {
		first, last = min(first, int(code)), max(last, int(code))
	}
	var body []byte
	total := 0
	for code := first; code <= last; code++ {
		r, ok := rows[xproto.Keycode(code)]
		if !ok {
			r = l.rows[code]
		}
		body = append(body, r.types[:]...)
		body = append(body, r.info, r.width)
		body = u16(body, uint16(len(r.syms)))
		body = u32(body, r.syms...)
		total += len(r.syms)
	}
	head := u16(nil, xkbCoreKbd, xkbPartSymbols, 0)
	head = append(head, byte(l.min), byte(l.max), 0, 0, byte(first), byte(last-first+1))
	head = u16(head, uint16(total))
	head = append(head, make([]byte, 18)...)
	if err := k.tell(ctx, k.message(9, append(head, body...)...)); err != nil {
		return fmt.Errorf("changing the keyboard's map: %w", err)
	}
	return nil
}

// lock locks the given ones of the affected modifiers and unlocks the others of them, and
// takes back everything that is latched.
func (k *xkb) lock(ctx context.Context, affected, locked byte) error {
	if err := k.tell(ctx, k.lockRequest(affected, locked)); err != nil {
		return fmt.Errorf("changing what is locked on the keyboard: %w", err)
	}
	return nil
}

func (k *xkb) lockRequest(affected, locked byte) []byte {
	request := u16(nil, xkbCoreKbd)
	return k.message(5, append(request, affected, locked, 0, 0, 0xff, 0, 0, 0, 0, 0)...)
}

// parseMap takes the answer to a request for the map apart.
func parseMap(b []byte) (*layout, error) {
	if len(b) < 40 {
		return nil, errMap
	}
	l := &layout{min: xproto.Keycode(b[10]), max: xproto.Keycode(b[11]), answer: b}
	nTypes, firstSym, nSyms, nMods := int(b[15]), int(b[17]), int(b[20]), int(b[33])
	b = b[40:]
	take := func(n int) []byte {
		if n > len(b) {
			return nil
		}
		head := b[:n]
		b = b[n:]
		return head
	}
	for range nTypes {
		head := take(8)
		if head == nil {
			return nil, errMap
		}
		t := keyType{mask: head[0], levels: head[4]}
		entries := take(8 * int(head[5]))
		if entries == nil && head[5] != 0 {
			return nil, errMap
		}
		for ; len(entries) > 0; entries = entries[8:] {
			if entries[0] != 0 { // an entry without its modifiers bound chooses nothing
				t.entries = append(t.entries, typeEntry{mods: entries[1], level: entries[2]})
			}
		}
		if head[6] != 0 && take(4*int(head[5])) == nil && head[5] != 0 {
			return nil, errMap
		}
		l.types = append(l.types, t)
	}
	for i := range nSyms {
		head := take(8)
		if head == nil || firstSym+i > 255 {
			return nil, errMap
		}
		r := keyRow{types: [4]byte(head), info: head[4], width: head[5]}
		n := int(xgb.Get16(head[6:]))
		syms := take(4 * n)
		if syms == nil && n != 0 {
			return nil, errMap
		}
		for ; len(syms) > 0; syms = syms[4:] {
			r.syms = append(r.syms, xgb.Get32(syms))
		}
		l.rows[firstSym+i] = r
	}
	for range nMods {
		pair := take(2)
		if pair == nil {
			return nil, errMap
		}
		l.mods[pair[0]] = pair[1]
	}
	return l, nil
}
