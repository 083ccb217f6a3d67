package x11

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// keyboard knows which key of the display makes which symbol, and lends spare keys to
// symbols that no key makes.
type keyboard struct {
	*link
	locker      *locker
	xkb         *xkb
	xinput      byte // the number of the X Input Extension's requests, or 0
	owner       owner
	pinger      *pinger
	recordsAtom xproto.Atom
	typingAtom  xproto.Atom

	closing context.Context // ends when the keyboard is to end
	end     context.CancelFunc

	mu       sync.Mutex // over what follows
	loans    map[xproto.Keycode]*loan
	slots    map[computer.Key]slot // of the loans, where each symbol is
	last     *layout               // as it was last seen
	windows  []xproto.Window       // that got keys since they were lent
	lastUsed time.Time             // of lent keys
	timer    *time.Timer           // to give lent keys back

	echoes  echoes
	watched bool // the display tells of redraws; set once

	closePatience time.Duration // see the constant; set once
}

func newKeyboard(ctx context.Context, l *link, locker *locker) (*keyboard, error) {
	k := &keyboard{link: l, locker: locker, closePatience: closePatience, loans: map[xproto.Keycode]*loan{}, slots: map[computer.Key]slot{}}
	var err error
	if k.xkb, err = newXKB(ctx, l); err != nil {
		return nil, err
	}
	if k.xinput, err = newXInput(ctx, l); err != nil {
		return nil, err
	}
	if k.owner, err = newOwner(ctx, l); err != nil {
		return nil, err
	}
	if k.pinger, err = newPinger(ctx, l); err != nil {
		return nil, err
	}
	if k.recordsAtom, err = l.atom(ctx, recordsProperty); err != nil {
		return nil, err
	}
	if k.typingAtom, err = l.atom(ctx, typingSelection); err != nil {
		return nil, err
	}
	k.closing, k.end = context.WithCancel(context.Background())
	k.timer = time.AfterFunc(time.Hour, k.expire)
	k.timer.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	// One who was killed may have left keys lent.
	if _, orphans, err := k.records(ctx); err != nil || len(orphans) > 0 {
		if err == nil {
			err = k.giveBack(ctx, lockBound)
		}
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// ErrUnread is the error of closing a Display while an application has not read what was
// typed, and has been waited for in vain.
var ErrUnread = errors.New("an application has not read yet what was typed, and may get other characters in its place")

const (
	// closePatience is how long closing waits for an application that can say that it has
	// read what was typed, and has not.
	closePatience = 30 * time.Second

	// silentPatience is how long closing waits, from the last key on, for one that cannot
	// say so and has shown nothing of it either.
	silentPatience = 6 * time.Second
)

// stop ends whatever still goes on.
func (k *keyboard) stop() {
	k.end()
	k.timer.Stop()
}

// close gives back what is lent, when applications have read what was typed or had the time
// to. The error is ErrUnread, or the server's when it does not answer a request within a
// bound or is gone.
func (k *keyboard) close(bound time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.loans) == 0 {
		return nil
	}
	unread := k.awaitReaders(bound)
	if unread != nil && !errors.Is(unread, ErrUnread) {
		return unread
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	// Where it fails, the next connection does it.
	return errors.Join(unread, k.giveBack(ctx, lockBound))
}

// awaitReaders waits for applications to read what was typed.
func (k *keyboard) awaitReaders(bound time.Duration) error {
	began := time.Now()
	for {
		const moment = 500 * time.Millisecond
		r, err := func() (reading, error) {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			r, err := k.hasBeenRead(ctx, k.windows, moment)
			if err != nil || r.unread || len(r.silent) == 0 {
				return r, err
			}
			rest := min(moment, time.Until(k.lastUsed.Add(silentPatience)))
			if shown, err := k.echoed(ctx, r.silent, k.lastUsed, rest, echoQuiet); shown || err != nil {
				return reading{}, err
			}
			return r, nil
		}()
		switch {
		case err != nil || r.isRead():
			return err
		case r.unread && time.Since(began) >= k.closePatience:
			return ErrUnread
		case !r.unread && time.Since(k.lastUsed) >= silentPatience:
			return nil
		}
		select {
		case <-k.done:
			return computer.ErrClosed
		default:
		}
	}
}

// echoQuiet is how long an application that has redrawn something must have been quiet since
// for all that was typed to have been read, as far as can be told.
const echoQuiet = 300 * time.Millisecond

// expire gives back what is lent when it has not been used for a while. It runs on a timer.
func (k *keyboard) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing.Err() != nil || len(k.loans) == 0 {
		return
	}
	again := func(after time.Duration) { k.timer.Reset(after) }
	idle := time.Since(k.lastUsed)
	if idle < grace {
		again(grace - idle)
		return
	}
	ctx, cancel := context.WithTimeout(k.closing, 5*time.Second)
	defer cancel()
	if codes, err := k.keysDown(ctx); err == nil && slices.ContainsFunc(codes, func(c xproto.Keycode) bool { return k.loans[c] != nil }) {
		again(time.Second) // one of them is held down
		return
	}
	// Send must not be kept waiting for long.
	const moment = 100 * time.Millisecond
	r, err := k.hasBeenRead(ctx, k.windows, moment)
	if err == nil && (r.unread || !k.echoes.seen(r.silent, k.lastUsed, echoQuiet)) && idle < k.patience() {
		again(time.Second)
		return
	}
	if k.giveBack(ctx, moment) != nil && k.closing.Err() == nil {
		again(time.Second)
	}
}

// patience is how long applications that may not have read what was typed are waited for.
func (k *keyboard) patience() time.Duration {
	for code := range k.loans {
		if hasPurpose(code) {
			return placePatience
		}
	}
	return patience
}

// stroke is how to make a symbol: a key, and the modifier keys that must be down with it.
type stroke struct {
	code xproto.Keycode
	mods []xproto.Keycode

	// For a key that is a modifier itself: mods need be down only while it is pressed.
	// They would change what the other keys of a chord make.
	brief bool
}

// stroke returns how to make a symbol in the keyboard's layout and group as they are now.
// A symbol that no key makes is lent a spare key, for some seconds after it was last used.
func (k *keyboard) stroke(ctx context.Context, key computer.Key) (stroke, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := key.Rune(); ok {
		if usual, ok := computer.KeyOf(r); ok {
			key = usual
		}
	}
	l, _, _, err := k.survey(ctx)
	if err != nil {
		return stroke{}, err
	}
	if s, ok := l.index()[key]; ok {
		return s, nil
	}
	if place, ok := placeOf(key); ok {
		if s, ok, err := k.atPlace(ctx, key, place); err != nil || ok {
			return s, err
		}
	}
	if !lendable(key) {
		return stroke{}, &computer.InputError{Text: fmt.Sprintf("the keyboard has no key %v", key)}
	}
	if _, has := k.slots[key]; !has {
		if err := k.room(ctx, [][2]computer.Key{withCase(key)}); err != nil {
			if errors.Is(err, errNoSpare) || errors.Is(err, errHung) || errors.Is(err, errLocked) {
				return stroke{}, &computer.InputError{Text: fmt.Sprintf("there is no key for %v: %v", key, err)}
			}
			return stroke{}, err
		}
	}
	k.used(ctx)
	s := stroke{code: k.slots[key].code}
	if k.slots[key].shifted {
		if l, _, _, err = k.survey(ctx); err != nil {
			return stroke{}, err
		}
		shift, ok := l.chooser(modShift)
		if !ok {
			return stroke{}, &computer.InputError{Text: fmt.Sprintf("the keyboard has no Shift key, which %v needs", key)}
		}
		s.mods = []xproto.Keycode{shift}
	}
	return s, nil
}

// lendable reports whether a spare key that makes the symbol does what a key of its own would
// do. A modifier, a lock or a switch of layouts on a spare key sets nothing, and the keys of
// a chord would come without it; what acts on the pointer or the server must not be made up.
// The numbers are those of keysymdef.h and XF86keysym.h.
func lendable(key computer.Key) bool {
	switch {
	case key >= 0xfe01 && key <= 0xfe1f: // ISO locks, levels and groups
	case key >= 0xfe70 && key <= 0xfeff: // AccessX, switches of screens, the pointer
	case key >= 0xffe1 && key <= 0xffee: // Shift to Hyper
	case key == 0xff14, key == 0xff7e, key == 0xff7f: // Scroll Lock, Mode_switch, Num Lock
	case key == 0xff2d, key == 0xff2e, key == 0xff2f: // Kana Lock, Kana Shift, Eisu Shift
	case key == 0x1008ff01, key >= 0x1008fe01 && key <= 0x1008feff: // ModeLock, commands to the server
	default:
		return true
	}
	return false
}

// isModifier reports whether a symbol is that of a key that is held with others.
func isModifier(key computer.Key) bool {
	return key >= 0xffe1 && key <= 0xffee || key >= 0xfe01 && key <= 0xfe1f || key == 0xff7e || key == 0xff7f
}

// placeOf returns the key that has a Latin letter on the keyboards of most layouts. Under a
// layout without Latin letters, such as a Russian one, that is where Chromium looks for the
// letter of a shortcut, whatever the key makes. The numbers are those of Linux's
// input-event-codes.h and 8.
func placeOf(key computer.Key) (xproto.Keycode, bool) {
	r, ok := key.Rune()
	if !ok {
		return 0, false
	}
	for first, row := range map[xproto.Keycode]string{24: "qwertyuiop", 38: "asdfghjkl", 52: "zxcvbnm"} {
		if i := strings.IndexRune(row, unicode.ToLower(r)); i >= 0 {
			return first + xproto.Keycode(i), true
		}
	}
	return 0, false
}

// atPlace returns how to make a letter with the key at a place, which is lent for it like a
// spare one. It is not ok when the key cannot be lent.
func (k *keyboard) atPlace(ctx context.Context, key computer.Key, place xproto.Keycode) (s stroke, ok bool, err error) {
	pair := withCase(key)
	if l := k.loans[place]; l == nil || !l.lent.equal(lentRow(pair[0], pair[1])) {
		// What was typed with the key before must be read before it makes something else.
		if err := k.handled(ctx, k.lastUsed, weakBound, weakQuiet); err != nil {
			if errors.Is(err, errHung) {
				err = &computer.InputError{Text: fmt.Sprintf("there is no key for %v: %v", key, err)}
			}
			return stroke{}, false, err
		}
		if ok, err := k.lendPlace(ctx, place, pair); err != nil || !ok {
			if errors.Is(err, errLocked) {
				err = &computer.InputError{Text: fmt.Sprintf("there is no key for %v: %v", key, err)}
			}
			return stroke{}, false, err
		}
	}
	k.used(ctx)
	s = stroke{code: place}
	if key != pair[0] {
		l, _, _, err := k.survey(ctx)
		if err != nil {
			return stroke{}, false, err
		}
		shift, ok := l.chooser(modShift)
		if !ok {
			return stroke{}, false, nil
		}
		s.mods = []xproto.Keycode{shift}
	}
	return s, true, nil
}

// used says that lent keys are about to be used, and sees to it that they are given back.
func (k *keyboard) used(ctx context.Context) {
	if window, err := k.focused(ctx); err == nil {
		_ = k.follow(ctx, window) // without it, it takes longer
		if !slices.Contains(k.windows, window) {
			k.windows = append(k.windows, window)
		}
	}
	k.lastUsed = time.Now()
	k.timer.Reset(grace)
}

// room lends keys, after waiting for the use of earlier ones when it must.
func (k *keyboard) room(ctx context.Context, pairs [][2]computer.Key) error {
	_, err := k.lend(ctx, pairs, false)
	if !errors.Is(err, errNoSpare) || len(k.loans) == 0 {
		return err
	}
	if err := k.handled(ctx, k.lastUsed, weakBound, weakQuiet); err != nil {
		return err
	}
	_, err = k.lend(ctx, pairs, true)
	return err
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

// index finds how to make each symbol in the group in effect. Of several ways it takes the
// one that needs the fewest modifiers beyond Shift, then the first key: that of the main
// block. Characters are found by their usual symbol (see [computer.KeyOf]), whichever of
// its symbols a layout has for it.
func (l *layout) index() map[computer.Key]stroke {
	if l.strokes != nil {
		return l.strokes
	}
	l.strokes = map[computer.Key]stroke{}
	ranks := map[computer.Key]int{}
	choosers := l.choosers()
	for c := int(l.min); c <= int(l.max); c++ {
		if slices.Contains(l.lent, xproto.Keycode(c)) {
			continue
		}
		t, syms := l.symbols(xproto.Keycode(c), l.state.group)
		for level, sym := range syms {
			if sym == 0 {
				continue
			}
			key, isChar := computer.Key(sym), false
			if r, ok := key.Rune(); ok {
				if usual, ok := computer.KeyOf(r); ok {
					key, isChar = usual, true
				}
			}
			if isChar && l.mods[c] != 0 {
				continue
			}
			set, ok := l.reach(t, byte(level), choosers)
			if !ok {
				continue
			}
			rank := c + 256*bits.OnesCount8(set&^modShift)
			if !isChar {
				rank = c + 256*bits.OnesCount8(set) // Print rather than Shift and Sys_Req
			}
			brief := set != 0 && isModifier(key)
			if brief && syms[0] != 0 {
				rank += 256 // a key of its own rather than one that is another modifier, too
			}
			if had, ok := ranks[key]; ok && had <= rank {
				continue
			}
			s := stroke{code: xproto.Keycode(c), brief: brief}
			for bit := byte(1); bit != 0; bit <<= 1 {
				if set&bit != 0 {
					s.mods = append(s.mods, choosers[bit])
				}
			}
			l.strokes[key], ranks[key] = s, rank
		}
	}
	return l.strokes
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
