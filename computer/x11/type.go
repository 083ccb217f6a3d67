package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/loupe-tools/loupe/computer"
)

const (
	// chunkSize is how many characters are typed in one go, between which others get at
	// the display and a context can end the typing.
	chunkSize = 64

	// flowSize is after how many characters a client that can be asked has to have read
	// them. What it has not read yet, the server keeps in memory.
	flowSize = 1024

	// busyBound is how long another connection's typing is waited for.
	busyBound = 10 * time.Second

	// An application that cannot say whether it has read what was typed is waited for
	// before keys get other symbols, until it has redrawn and then been quiet for
	// weakQuiet. One that shows nothing of it, as for a password, costs weakBound, and on a
	// display that does not tell of redraws each costs blindBound. Between other parts of a
	// long text the pause only keeps the server's memory small.
	weakBound, weakQuiet = 10 * time.Second, 100 * time.Millisecond
	blindBound           = 2500 * time.Millisecond
	flowBound, flowQuiet = 100 * time.Millisecond, 20 * time.Millisecond

	// personBound is how long a modifier key that a person holds down is waited for.
	personBound = time.Second

	// hangBound is how long an application that can say that it has read what was typed
	// may take for it.
	hangBound = 10 * time.Second
)

// Type types text at the keyboard focus, whatever the layout is, and returns how many
// characters it typed, counted in Unicode code points. See [computer.Desktop].
//
// Type looks at the whole text first. When the text is not UTF-8, or contains a character
// that can never be typed, nothing is typed and the error is a [computer.InputError]. Typing
// can still stop in the middle, when no spare key is left or the application does not
// respond, which is an InputError too, or when the context ends.
//
// Characters that the layout lacks are typed with spare keys, which make other symbols
// meanwhile. The spare keys are given back when the application has read the text, as far as
// that can be told: before Type returns or later, at the latest by Close. While Type works,
// Caps Lock is off, and the keys that Send holds are released; Type presses them again at
// the end. Type waits for a modifier key that somebody else holds down, for up to a second,
// and then releases it, for good. Connections that type at the same time take turns.
func (d *Display) Type(ctx context.Context, text string) (typed int, err error) {
	k := d.keyboard
	keys, err := keysOf(text)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.closing, func() { cancel(computer.ErrClosed) })() //nolint:contextcheck // the keyboard's end is one more reason to stop
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), computer.ErrClosed) {
			err = computer.ErrClosed
		}
	}()

	// A click before may be what puts the focus where the text is to go.
	if err := d.input.arrived(ctx); err != nil {
		return 0, fmt.Errorf("waiting for what was done before: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.acquire(ctx); err != nil {
		if errors.Is(err, errLocked) {
			return 0, &computer.InputError{Text: fmt.Sprintf("%v; typed 0 of %d characters", err, len(keys))}
		}
		return 0, fmt.Errorf("waiting for a turn to type: %w", err)
	}
	defer k.relinquish()

	if len(k.loans) == 0 {
		k.echoes.clear()
	}
	t := &typing{keyboard: k, input: d.input, sent: d.settler.sent, keys: keys}
	defer t.restore(ctx)
	err = t.run(ctx)
	if errors.Is(err, errHung) || errors.Is(err, errNoSpare) || errors.Is(err, errLocked) {
		err = &computer.InputError{Text: fmt.Sprintf("%v; typed %d of %d characters", err, t.done, len(keys))}
	}
	if err != nil && !isInput(err) {
		err = fmt.Errorf("typing stopped after %d of %d characters: %w", t.done, len(keys), err)
	}
	return t.done, err
}

func isInput(err error) bool {
	var input *computer.InputError
	return errors.As(err, &input)
}

// keysOf returns the symbol of each character of a text.
func keysOf(text string) ([]computer.Key, error) {
	total := 0
	for range text {
		total++
	}
	keys := make([]computer.Key, 0, total)
	for i, r := range text {
		key, ok := computer.KeyOf(r)
		if r == '\uFFFD' && text[i] != 0xef { // a byte that is no part of a character
			return nil, &computer.InputError{Text: fmt.Sprintf("the text is not valid UTF-8 at character %d; typed 0 of %d characters", len(keys)+1, total)}
		}
		if !ok {
			return nil, &computer.InputError{Text: fmt.Sprintf("%U is not a character that can be typed; typed 0 of %d characters", r, total)}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// acquire waits for its turn to type, against other connections that do.
func (k *keyboard) acquire(ctx context.Context) error {
	bound := time.NewTimer(busyBound)
	defer bound.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		var mine bool
		err := k.alone(ctx, func(ctx context.Context) error {
			now, err := await(ctx, k.link, func() (*xproto.GetSelectionOwnerReply, error) {
				return xproto.GetSelectionOwner(k.x, k.typingAtom).Reply()
			})
			if err != nil || now.Owner != 0 && now.Owner != k.owner.window {
				return err
			}
			mine = true
			xproto.SetSelectionOwner(k.x, k.owner.window, k.typingAtom, xproto.TimeCurrentTime)
			return nil
		})
		if err != nil || mine {
			return err
		}
		select {
		case <-poll.C:
		case <-bound.C:
			return errors.New("another program has been typing on the display for too long; try again later")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// relinquish ends the turn. It does not wait.
func (k *keyboard) relinquish() {
	xproto.SetSelectionOwner(k.x, xproto.WindowNone, k.typingAtom, xproto.TimeCurrentTime)
}

// typing is one text on its way.
type typing struct {
	*keyboard
	input *input
	sent  func() // to be told when something was typed
	keys  []computer.Key
	done  int // how many of them are typed

	started  time.Time
	unlocked byte             // modifiers that were locked before
	lifted   []xproto.Keycode // keys that Send held down before
	waited   bool             // for somebody to let go of modifiers
}

// run types the text.
func (t *typing) run(ctx context.Context) error {
	// Whatever cannot be typed at all is found before the first key.
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if err := t.lift(ctx); err != nil {
		return err
	}
	t.started = time.Now()
	if focus, err := t.focused(ctx); err != nil {
		return err
	} else if err := t.follow(ctx, focus); err != nil {
		return err
	}
	flow, stuck := 0, 0
	for t.done < len(t.keys) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := t.chunk(ctx)
		t.done += n
		switch {
		case errors.Is(err, errUnknownKey):
			err = t.prepare(ctx)
		case errors.Is(err, errHeld):
			err = t.letGo(ctx)
		}
		if err != nil {
			return err
		}
		if stuck++; n > 0 {
			stuck = 0
		}
		if stuck > 20 {
			return errors.New("the keyboard's layout does not stay as it is")
		}
		if flow += n; flow >= flowSize && t.done < len(t.keys) {
			flow = 0
			if err := t.handled(ctx, t.started, flowBound, flowQuiet); err != nil {
				return err
			}
		}
	}
	return t.finish(ctx)
}

var (
	errUnknownKey = errors.New("no key makes the character")
	errHeld       = errors.New("a modifier is held down")
)

// prepare lends spare keys to the characters that come next, as many as there are.
func (t *typing) prepare(ctx context.Context) error {
	l, _, _, err := t.survey(ctx)
	if err != nil {
		return err
	}
	missing := t.missing(l)
	if len(missing) == 0 {
		return nil
	}
	_, shift := l.chooser(modShift)
	if err := t.room(ctx, pairUp(missing, shift)); err != nil {
		r, _ := missing[0].Rune()
		return fmt.Errorf("there is no key for %U: %w", r, err)
	}
	return nil
}

// missing returns the characters ahead that no key makes, in the order of their first use.
func (t *typing) missing(l *layout) []computer.Key {
	const enough = 2 * 256 // more than there are keys for
	var missing []computer.Key
	seen := map[computer.Key]bool{}
	strokes := l.index()
	for _, key := range t.keys[t.done:] {
		if seen[key] {
			continue
		}
		seen[key] = true
		if _, ok := strokes[key]; ok {
			continue
		}
		if _, ok := t.slots[key]; !ok {
			if missing = append(missing, key); len(missing) == enough {
				break
			}
		}
	}
	return missing
}

// chunk types some characters, and returns how many. The server serves nobody else
// meanwhile, so that the map and the modifiers are as they were found.
func (t *typing) chunk(ctx context.Context) (n int, err error) {
	err = t.alone(ctx, func(ctx context.Context) error {
		l, _, _, err := t.survey(ctx)
		if err != nil {
			return err
		}
		if err := t.unlock(ctx, l); err != nil {
			return err
		}
		if l.held() != 0 {
			return errHeld
		}
		shift, canShift := l.chooser(modShift)
		var chunk []stroke
		var codes []xproto.Keycode
		strokes, lent := l.index(), false
		for _, key := range t.keys[t.done:min(t.done+chunkSize, len(t.keys))] {
			s, ok := strokes[key]
			if !ok {
				at, has := t.slots[key]
				if !has || at.shifted && !canShift {
					err = errUnknownKey
					break
				}
				s, lent = stroke{code: at.code}, true
				if at.shifted {
					s.mods = []xproto.Keycode{shift}
				}
			}
			chunk = append(chunk, s)
			codes = append(append(codes, s.mods...), s.code)
		}
		t.input.announceTyped(codes...) // for the next one to release, should we be killed
		var down []xproto.Keycode
		for _, s := range chunk {
			// Modifiers stay down from one character to the next where they can.
			if !slices.Equal(down, s.mods) {
				t.release(down)
				t.press(s.mods)
				down = s.mods
			}
			t.press([]xproto.Keycode{s.code})
			t.release([]xproto.Keycode{s.code})
			n++
		}
		t.release(down)
		t.input.announceTyped()
		if lent {
			t.used(ctx)
		}
		if n > 0 {
			t.sent()
		}
		return err
	})
	return n, err // the keys are out, whatever became of the wait for the server to say so
}

func (t *typing) press(codes []xproto.Keycode) {
	for _, code := range codes {
		xtest.FakeInput(t.x, xproto.KeyPress, byte(code), 0, t.root, 0, 0, 0)
	}
}

func (t *typing) release(codes []xproto.Keycode) {
	for i := range codes {
		xtest.FakeInput(t.x, xproto.KeyRelease, byte(codes[len(codes)-1-i]), 0, t.root, 0, 0, 0)
	}
}

// errHung says that an application does not handle its input.
var errHung = errors.New("the application at the keyboard focus does not respond")

// handled waits until applications have read what was typed since a time: until they say so
// where they can, else until it looks like it, up to a bound.
func (k *keyboard) handled(ctx context.Context, since time.Time, bound, quiet time.Duration) error {
	focus, err := k.focused(ctx)
	if err != nil {
		return err
	}
	if err := k.follow(ctx, focus); err != nil {
		return err
	}
	r, err := k.hasBeenRead(ctx, append(slices.Clone(k.windows), focus), hangBound)
	switch {
	case err != nil || r.isRead():
		return err
	case r.unread:
		return errHung
	}
	if !k.watched {
		bound = min(bound, blindBound)
	}
	_, err = k.echoed(ctx, r.silent, since, bound, quiet)
	return err
}

// reading says whether what was typed has been read.
type reading struct {
	unread bool            // an application that could have said so has not
	silent []xproto.Window // of applications that cannot
}

func (r reading) isRead() bool { return !r.unread && len(r.silent) == 0 }

// hasBeenRead asks the applications of windows whether they have read what was typed, and
// waits for their answers, all together up to a bound.
func (k *keyboard) hasBeenRead(ctx context.Context, windows []xproto.Window, bound time.Duration) (r reading, err error) {
	end := time.Now().Add(bound)
	for _, window := range windows {
		if window == 0 || slices.Contains(r.silent, window) {
			continue // nobody had the focus
		}
		answered, supported, err := k.pinger.caughtUp(ctx, window, time.Until(end))
		switch {
		case err != nil:
			return reading{}, err
		case supported:
			r.unread = r.unread || !answered
		default:
			gone, err := k.gone(ctx, window)
			if err != nil {
				return reading{}, err
			}
			if !gone {
				r.silent = append(r.silent, window)
			}
		}
	}
	return r, nil
}

// gone reports whether there is no such window any more.
func (l *link) gone(ctx context.Context, window xproto.Window) (bool, error) {
	_, err := await(ctx, l, func() (*xproto.GetGeometryReply, error) {
		return xproto.GetGeometry(l.x, xproto.Drawable(window)).Reply()
	})
	if isRefusal(err) {
		return true, nil
	}
	return false, err
}

// finish gives lent keys back when the application says that it has read the text.
// Otherwise that is left for later.
func (t *typing) finish(ctx context.Context) error {
	heldLent := slices.ContainsFunc(t.lifted, func(code xproto.Keycode) bool { return t.loans[code] != nil })
	if len(t.loans) == 0 || heldLent {
		return nil
	}
	r, err := t.hasBeenRead(ctx, t.windows, time.Second)
	if err == nil && r.isRead() {
		err = t.giveBack(ctx, lockBound)
	}
	return err
}

// held returns the modifiers that are held down or latched and change what keys make.
func (l *layout) held() byte {
	return (l.state.base | l.state.latched) &^ l.numLock()
}

// numLock returns the modifier that Num Lock sets. It matters to the keypad alone.
func (l *layout) numLock() (bits byte) {
	const symNumLock = 0xff7f
	for c := int(l.min); c <= int(l.max); c++ {
		if l.mods[c] == 0 {
			continue
		}
		if _, syms := l.symbols(xproto.Keycode(c), 0); len(syms) > 0 && syms[0] == symNumLock {
			bits |= l.mods[c]
		}
	}
	return bits
}

// unlock takes Caps Lock and other locked modifiers off.
func (t *typing) unlock(ctx context.Context, l *layout) error {
	locked := l.state.locked &^ l.numLock()
	if locked == 0 && l.state.latched == 0 {
		return nil
	}
	t.unlocked |= locked
	t.input.announceUnlocked(t.unlocked) // for the next one to lock, should we be killed
	if err := t.xkb.lock(ctx, locked, 0); err != nil {
		return err
	}
	l.state.locked &^= locked
	l.state.latched = 0
	l.strokes, t.last = nil, nil
	return nil
}

// restore locks again what was locked, and holds down again what Send held, unless that was
// released meanwhile. It must work after the context has ended.
func (t *typing) restore(ctx context.Context) {
	t.last = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if t.unlocked != 0 {
		if t.xkb.lock(ctx, t.unlocked, t.unlocked) == nil {
			t.input.announceUnlocked(0)
		}
	}
	if len(t.lifted) == 0 {
		return
	}
	t.input.mu.Lock()
	for _, code := range t.lifted {
		if t.input.state.isDown(thing{heldKey, byte(code)}) {
			t.press([]xproto.Keycode{code})
		}
	}
	t.input.mu.Unlock()
	_ = t.sync(ctx) // so that they are down when Type returns
}

// lift lets go of the keys that Send holds down. They would change what is typed, or repeat.
func (t *typing) lift(ctx context.Context) error {
	codes, err := t.keysDown(ctx)
	if err != nil {
		return err
	}
	t.input.mu.Lock()
	defer t.input.mu.Unlock()
	for _, code := range codes {
		if t.input.state.isDown(thing{heldKey, byte(code)}) {
			t.lifted = append(t.lifted, code)
		}
	}
	t.release(t.lifted)
	return nil
}

// keysDown returns the keys that are down.
func (k *keyboard) keysDown(ctx context.Context) ([]xproto.Keycode, error) {
	down, err := await(ctx, k.link, func() (*xproto.QueryKeymapReply, error) { return xproto.QueryKeymap(k.x).Reply() })
	if err != nil {
		return nil, fmt.Errorf("asking which keys are down: %w", err)
	}
	var codes []xproto.Keycode
	for c := range 256 {
		if down.Keys[c/8]&(1<<(c%8)) != 0 {
			codes = append(codes, xproto.Keycode(c))
		}
	}
	return codes, nil
}

// letGo waits for modifiers to be let go of that somebody else holds down: a person, or a
// program that was killed. After a while it lets go of them itself.
func (t *typing) letGo(ctx context.Context) error {
	end := time.NewTimer(personBound)
	defer end.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for waiting := !t.waited; waiting; {
		select {
		case <-poll.C:
			l, _, _, err := t.survey(ctx)
			if err != nil {
				return err
			}
			if l.held() == 0 {
				return nil
			}
		case <-end.C:
			waiting = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.waited = true
	return t.alone(ctx, func(ctx context.Context) error {
		l, _, _, err := t.survey(ctx)
		if err != nil || l.held() == 0 {
			return err
		}
		codes, err := t.keysDown(ctx)
		if err != nil {
			return err
		}
		codes = slices.DeleteFunc(codes, func(code xproto.Keycode) bool { return !l.isModifier(code) })
		if len(codes) == 0 {
			return &computer.InputError{Text: fmt.Sprintf("a modifier of the keyboard is on and no key for it is down; typed %d of %d characters", t.done, len(t.keys))}
		}
		t.release(codes)
		return nil
	})
}

// isModifier reports whether a key, held down, changes what others make.
func (l *layout) isModifier(code xproto.Keycode) bool {
	if l.mods[code] != 0 {
		return true
	}
	_, syms := l.symbols(code, l.state.group)
	// From Shift_L to Hyper_R, from ISO_Lock to ISO_Level5_Lock, Mode_switch.
	return slices.ContainsFunc(syms, func(s uint32) bool {
		return s >= 0xffe1 && s <= 0xffee || s >= 0xfe01 && s <= 0xfe13 || s == 0xff7e
	})
}
