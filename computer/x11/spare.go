package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// A symbol that no key makes is lent a spare key: one that makes nothing, or a media key
// for the time being. Each lent key makes two symbols, the second with Shift.
//
// A client learns of a change of the map by an event, but reads the map when it next looks
// a key up: a client that is late sees the newest map for older keystrokes. So a key that
// was lent is neither given back nor lent for another symbol before the client has read
// what was typed, as far as that can be told.

// loan is a key that makes other symbols for the time being.
type loan struct {
	original, lent keyRow
}

// record is a loan as it is noted on the root window, for all who use the display: who
// would give the key back, and what it was.
type record struct {
	owner owner
	code  xproto.Keycode
	loan
}

const (
	recordsProperty = "_LOUPE_KEYMAP"
	typingSelection = "_LOUPE_TYPING"
)

// errNoSpare says that there is no spare key left to lend.
var errNoSpare = errors.New("the keyboard has no spare key")

// lentRow is what a lent key makes.
func lentRow(plain, shifted computer.Key) keyRow {
	return keyRow{types: [4]byte{xkbTwoLevel}, info: 1, width: 2, syms: []uint32{uint32(plain), uint32(shifted)}}
}

// encode appends a record's numbers.
func (r record) encode(b []uint32) []uint32 {
	o := r.original
	b = append(b, uint32(r.owner.window), r.owner.token, uint32(r.code), r.lent.syms[0], r.lent.syms[1],
		xgb.Get32(o.types[:]), uint32(o.info)|uint32(o.width)<<8, uint32(len(o.syms)))
	return append(b, o.syms...)
}

// decodeRecords takes the property apart. What does not look like records is ignored.
func decodeRecords(b []uint32) []record {
	var records []record
	for len(b) >= 8 {
		n := b[7]
		if b[2] > 255 || n > 255 || uint32(len(b)-8) < n {
			break
		}
		r := record{owner: owner{xproto.Window(b[0]), b[1]}, code: xproto.Keycode(b[2])}
		r.lent = lentRow(computer.Key(b[3]), computer.Key(b[4]))
		r.original = keyRow{info: byte(b[6]), width: byte(b[6] >> 8), syms: b[8 : 8+n : 8+n]}
		xgb.Put32(r.original.types[:], b[5])
		records = append(records, r)
		b = b[8+n:]
	}
	return records
}

// alone runs something while the server serves no other client. What it does is done in
// full even if the context ends meanwhile, unless the server does not answer. Another
// program that keeps the display to itself is waited for, and then errLocked is returned.
func (k *keyboard) alone(ctx context.Context, do func(context.Context) error) error {
	return k.aloneWithin(ctx, lockBound, do)
}

// aloneWithin is alone with a bound for the wait for another program.
func (k *keyboard) aloneWithin(ctx context.Context, bound time.Duration, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := k.locker.lock(ctx, bound)
	if err != nil {
		return err
	}
	defer unlock()
	const extra = 500 * time.Millisecond
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(extra, cancel)
		context.AfterFunc(long, func() { late.Stop() })
	})()
	err = do(long)
	// What was written must be handled before others are served again.
	if syncErr := k.sync(long); err == nil {
		err = syncErr
	}
	if long.Err() != nil && errors.Is(err, context.Canceled) {
		return ctx.Err()
	}
	return err
}

// records returns the loans of other connections. Those of connections that have gone are
// returned apart.
func (k *keyboard) records(ctx context.Context) (others, orphans []record, err error) {
	values, err := k.numbers(ctx, k.root, k.recordsAtom)
	if err != nil {
		return nil, nil, fmt.Errorf("reading which keys are lent: %w", err)
	}
	living := map[owner]bool{}
	for _, r := range decodeRecords(values) {
		if r.owner == k.owner {
			continue
		}
		lives, known := living[r.owner]
		if !known {
			if lives, err = k.alive(ctx, r.owner); err != nil {
				return nil, nil, fmt.Errorf("asking who has lent keys: %w", err)
			}
			living[r.owner] = lives
		}
		if lives {
			others = append(others, r)
		} else {
			orphans = append(orphans, r)
		}
	}
	return others, orphans, nil
}

// note writes down the loans of others and our own.
func (k *keyboard) note(ctx context.Context, others []record) error {
	var values []uint32
	for _, r := range others {
		values = r.encode(values)
	}
	for code, l := range k.loans {
		values = record{owner: k.owner, code: code, loan: *l}.encode(values)
	}
	if err := k.setNumbers(ctx, k.root, k.recordsAtom, values); err != nil {
		return fmt.Errorf("noting which keys are lent: %w", err)
	}
	return nil
}

// survey reads the layout and takes note of what others did to it: loans of ours that they
// overwrote are void, and their own loans are not to be used. It holds for as long as the
// server is grabbed.
func (k *keyboard) survey(ctx context.Context) (l *layout, others, orphans []record, err error) {
	if others, orphans, err = k.records(ctx); err != nil {
		return nil, nil, nil, err
	}
	if l, err = k.xkb.read(ctx); err != nil {
		return nil, nil, nil, err
	}
	for code, loan := range k.loans {
		if !l.rows[code].equal(loan.lent) {
			delete(k.loans, code)
			for key, s := range k.slots {
				if s.code == code {
					delete(k.slots, key)
				}
			}
		}
	}
	if k.last != nil && k.last.same(l) && len(others) == 0 && len(orphans) == 0 {
		k.last.state = l.state
		return k.last, nil, nil, nil
	}
	k.last = l
	for _, r := range slices.Concat(others, orphans) {
		if l.rows[r.code].equal(r.lent) {
			l.lent = append(l.lent, r.code)
		}
	}
	for code := range k.loans {
		l.lent = append(l.lent, code)
	}
	return l, others, orphans, nil
}

// giveBack makes lent keys what they were before, those of connections that have gone
// included. Keys that somebody has changed since stay as they are. The bound is that for
// another program that keeps the display to itself.
func (k *keyboard) giveBack(ctx context.Context, bound time.Duration) error {
	return k.aloneWithin(ctx, bound, func(ctx context.Context) error {
		l, others, orphans, err := k.survey(ctx)
		if err != nil {
			return err
		}
		rows := map[xproto.Keycode]keyRow{}
		for _, r := range orphans {
			if l.rows[r.code].equal(r.lent) {
				rows[r.code] = r.original
			}
		}
		for code, loan := range k.loans {
			rows[code] = loan.original
		}
		if err := k.xkb.write(ctx, l, rows); err != nil {
			return err
		}
		clear(k.loans)
		clear(k.slots)
		k.windows = nil
		k.echoes.clear()
		k.last = nil
		return k.note(ctx, others)
	})
}

// lend makes spare keys make the wanted symbols, as many as there is place for, in the
// order given, and returns how many those are. Without any place it returns errNoSpare.
// Once the keys that are lent already have been read, they are spare as well.
func (k *keyboard) lend(ctx context.Context, pairs [][2]computer.Key, reclaim bool) (lent int, err error) {
	err = k.alone(ctx, func(ctx context.Context) error {
		l, others, orphans, err := k.survey(ctx)
		if err != nil {
			return err
		}
		codes, err := k.spare(ctx, l, others, reclaim)
		if err != nil {
			return err
		}
		if lent = min(len(pairs), len(codes)); lent == 0 {
			return errNoSpare
		}
		rows := map[xproto.Keycode]keyRow{}
		for _, r := range orphans {
			if l.rows[r.code].equal(r.lent) {
				rows[r.code] = r.original
			}
		}
		k.assign(l, codes, pairs[:lent], reclaim, rows)
		k.last = nil
		// Noted first: when we are killed in between, what is noted and not done is void.
		if err := k.note(ctx, others); err != nil {
			return err
		}
		return k.xkb.write(ctx, l, rows)
	})
	if err != nil {
		return 0, err
	}
	k.lastUsed = time.Now()
	k.timer.Reset(grace)
	return lent, nil
}

// lendPlace lends one certain key, which may make something of its own, and reports whether
// it could: a key that is held, that chooses what others make or that somebody has lent
// already cannot.
func (k *keyboard) lendPlace(ctx context.Context, code xproto.Keycode, pair [2]computer.Key) (ok bool, err error) {
	err = k.alone(ctx, func(ctx context.Context) error {
		l, others, orphans, err := k.survey(ctx)
		if err != nil {
			return err
		}
		down, err := k.keysDown(ctx)
		if err != nil {
			return err
		}
		if code < l.min || code > l.max || l.mods[code] != 0 || k.loans[code] != nil || slices.Contains(down, code) ||
			slices.ContainsFunc(append(slices.Clone(others), orphans...), func(r record) bool { return r.code == code }) {
			return nil
		}
		ok = true
		lent := lentRow(pair[0], pair[1])
		k.loans[code] = &loan{original: l.rows[code], lent: lent}
		k.last = nil
		// The orphans' notes stay, since their keys do.
		if err := k.note(ctx, append(slices.Clone(others), orphans...)); err != nil {
			return err
		}
		return k.xkb.write(ctx, l, map[xproto.Keycode]keyRow{code: lent})
	})
	if ok && err == nil {
		k.lastUsed = time.Now()
		k.timer.Reset(grace)
	}
	return ok && err == nil, err
}

// assign puts pairs of symbols on keys, and adds to rows what keys are to make. With reclaim
// it first takes the keys back that were lent before.
func (k *keyboard) assign(l *layout, codes []xproto.Keycode, pairs [][2]computer.Key, reclaim bool, rows map[xproto.Keycode]keyRow) {
	originals := map[xproto.Keycode]keyRow{}
	if reclaim {
		for code, loan := range k.loans {
			originals[code], rows[code] = loan.original, loan.original
		}
		clear(k.slots)
		clear(k.loans)
		k.windows = nil
	}
	for i, pair := range pairs {
		code := codes[i]
		original, was := originals[code]
		if !was {
			original = l.rows[code]
		}
		rows[code] = lentRow(pair[0], pair[1])
		k.loans[code] = &loan{original: original, lent: rows[code]}
		// The first place that a symbol has is as good as another.
		for level, key := range pair {
			if _, has := k.slots[key]; !has {
				k.slots[key] = slot{code: code, shifted: level == 1}
			}
		}
	}
}

// slot is one of the two symbols of a lent key.
type slot struct {
	code    xproto.Keycode
	shifted bool
}

// spare returns the keys that may be lent: first those that make nothing, then media keys.
func (k *keyboard) spare(ctx context.Context, l *layout, others []record, reclaim bool) ([]xproto.Keycode, error) {
	down, err := k.keysDown(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[xproto.Keycode]bool{}
	for _, r := range others {
		taken[r.code] = true
	}
	var empty, media []xproto.Keycode
	for c := int(l.min); c <= int(l.max); c++ {
		code := xproto.Keycode(c)
		if hasPurpose(code) {
			continue
		}
		row := l.rows[code]
		if loan := k.loans[code]; loan != nil {
			if !reclaim {
				continue
			}
			row = loan.original
		}
		switch {
		case taken[code], l.mods[code] != 0, slices.Contains(down, code):
		case row.empty():
			empty = append(empty, code)
		case onlyMedia(row):
			media = append(media, code)
		}
	}
	return k.ungrabbed(ctx, append(empty, media...))
}

// hasPurpose reports whether programs may act on a key for its number, whatever it makes.
// Chromium does: a character that it knows no key for is to it what stands at that place of
// a common keyboard, so that one typed with the number of Reload reloads the page. The
// numbers are those of Linux's input-event-codes.h and 8.
func hasPurpose(code xproto.Keycode) bool {
	switch {
	case code < 93: // the main block, the function keys and the keypad
		return true
	case code == 95, code == 96, code >= 104 && code <= 119: // the rest of them, cursor keys
		return true
	case code >= 133 && code <= 139: // Super, Menu, Stop, Again, Props, Undo
		return true
	}
	switch code {
	case 124, 127, 150, 151, 213, // Power, Pause, Sleep, WakeUp, Suspend
		141, 142, 143, 145, 146, 189, 190, 182, 214, 242, // Copy, Open, Paste, Cut, Help, New, Redo, Close twice, Save
		158, 163, 164, 166, 167, 180, 181, 225, // WWW, Mail, Bookmarks, Back, Forward, Homepage, Refresh, Search
		169, 170, 171, 172, 173, 174, 208, 209, 215, // Eject, media
		218, 223, 231, 239, 240, 241: // Print, E-mail, Cancel, Send, Reply, Forward
		return true
	}
	return false
}

// onlyMedia reports whether a key makes only symbols of media and internet keys. The
// symbols before them are commands to the server, such as to switch consoles.
func onlyMedia(r keyRow) bool {
	for _, s := range r.syms {
		if s != 0 && (s < 0x1008ff00 || s > 0x1008ffff) {
			return false
		}
	}
	return true
}

// ungrabbed returns those of the keys that no client has claimed for itself on the root
// window, as window managers and hotkey programs do. To find out we claim each ourselves
// for a moment, in both ways that there are: one does not tell of the other.
func (k *keyboard) ungrabbed(ctx context.Context, codes []xproto.Keycode) ([]xproto.Keycode, error) {
	return await(ctx, k.link, func() ([]xproto.Keycode, error) {
		cookies := make([]xproto.GrabKeyCookie, len(codes))
		for i, code := range codes {
			cookies[i] = xproto.GrabKeyChecked(k.x, false, k.root, xproto.ModMaskAny, code, xproto.GrabModeAsync, xproto.GrabModeAsync)
			xproto.UngrabKey(k.x, code, k.root, xproto.ModMaskAny)
		}
		var free []xproto.Keycode
		for i, code := range codes {
			switch err := cookies[i].Check(); {
			case err == nil:
				free = append(free, code)
			case !isRefusal(err):
				return nil, err
			}
		}
		if k.xinput != 0 {
			return k.ungrabbedXI(free)
		}
		return free, nil
	})
}

// The numbers of the few requests of the X Input Extension that are needed, from "The X
// Input Device Extension: Protocol Specification", version 2.
const (
	xiQueryVersion   = 47
	xiPassiveGrab    = 54
	xiPassiveUngrab  = 55
	xiAllMasters     = 1
	xiKeycode        = 1
	xiAnyModifier    = 1 << 31
	xiVersion        = 2
	xiGrabReplyCount = 8 // where the answer has the number of modifiers that failed
)

// newXInput readies version 2 of the X Input Extension, where the display has it, and
// returns the number of its requests, else 0.
func newXInput(ctx context.Context, l *link) (byte, error) {
	const name = "XInputExtension"
	_, present, err := l.extension(ctx, name)
	if err != nil || !present {
		return 0, err
	}
	l.x.ExtLock.RLock()
	opcode := l.x.Extensions[name]
	l.x.ExtLock.RUnlock()
	answer, err := await(ctx, l, func() ([]byte, error) {
		cookie := l.x.NewCookie(true, true)
		l.x.NewRequest(u16([]byte{opcode, xiQueryVersion, 2, 0}, xiVersion, 0), cookie)
		return cookie.Reply()
	})
	if isRefusal(err) || err == nil && (len(answer) < 10 || xgb.Get16(answer[8:]) < xiVersion) {
		return 0, nil
	}
	return opcode, err
}

// ungrabbedXI is ungrabbed for claims made through the X Input Extension.
func (k *keyboard) ungrabbedXI(codes []xproto.Keycode) ([]xproto.Keycode, error) {
	cookies := make([]*xgb.Cookie, len(codes))
	for i, code := range codes {
		cookies[i] = k.x.NewCookie(true, true)
		k.x.NewRequest(k.xiGrab(code), cookies[i])
		k.x.NewRequest(k.xiUngrab(code), k.x.NewCookie(false, false))
	}
	var free []xproto.Keycode
	for i, code := range codes {
		answer, err := cookies[i].Reply()
		switch {
		case err != nil && !isRefusal(err):
			return nil, err
		case err == nil && len(answer) >= 10 && xgb.Get16(answer[xiGrabReplyCount:]) == 0:
			free = append(free, code)
		}
	}
	return free, nil
}

// xiGrab is the request that claims a key with any modifiers, on the root window, of every
// keyboard that is not part of another. It asks for no events.
func (k *keyboard) xiGrab(code xproto.Keycode) []byte {
	b := u32([]byte{k.xinput, xiPassiveGrab, 10, 0}, xproto.TimeCurrentTime, uint32(k.root), xproto.CursorNone, uint32(code))
	b = u16(b, xiAllMasters, 1, 1) // one set of modifiers, one word of events
	b = append(b, xiKeycode, xproto.GrabModeAsync, xproto.GrabModeAsync, 0, 0, 0)
	return u32(b, 0, xiAnyModifier)
}

// xiUngrab is the request that undoes xiGrab.
func (k *keyboard) xiUngrab(code xproto.Keycode) []byte {
	b := u32([]byte{k.xinput, xiPassiveUngrab, 6, 0}, uint32(k.root), uint32(code))
	b = append(u16(b, xiAllMasters, 1), xiKeycode, 0, 0, 0)
	return u32(b, xiAnyModifier)
}

// pairUp puts symbols on keys: two on each, where Shift can tell them apart.
func pairUp(keys []computer.Key, shift bool) [][2]computer.Key {
	var pairs [][2]computer.Key
	for len(keys) > 0 {
		pair := [2]computer.Key{keys[0], keys[0]}
		keys = keys[1:]
		if shift && len(keys) > 0 {
			pair[1], keys = keys[0], keys[1:]
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

// withCase puts one symbol on a key as any keyboard has it: a letter with its capital, so
// that Shift in a shortcut does what it usually does.
func withCase(key computer.Key) [2]computer.Key {
	if r, ok := key.Rune(); ok {
		small, okSmall := computer.KeyOf(unicode.ToLower(r))
		capital, okCapital := computer.KeyOf(unicode.ToUpper(r))
		if okSmall && okCapital && (key == small || key == capital) {
			return [2]computer.Key{small, capital}
		}
	}
	return [2]computer.Key{key, key}
}

const (
	// grace is how long keys stay lent after their last use, even if it looks as if what was
	// typed has been read.
	grace = 2500 * time.Millisecond

	// patience is how long a client that has not said that it has read what was typed, and
	// has not redrawn anything, gets. With a key that makes something of its own it is
	// placePatience: a person may want it.
	patience      = time.Minute
	placePatience = 10 * time.Second
)
