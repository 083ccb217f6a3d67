package x11

import (
	"context"
	"errors"
	"fmt"
	"image"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/loupe-tools/loupe/computer"
)

// input makes events happen through XTEST and knows what it holds down.
type input struct {
	*link
	keyboard *keyboard
	mark     *heldMark
	rescuer  *rescuer
	watch    *time.Timer // while a button is held

	mu        sync.Mutex // held while requests are written, so that they come in one piece
	released  int        // how often Release came: what was planned before it is not carried out
	state     heldState  // as it is when all that was written has been handled
	written   int        // how often requests were written
	confirmed int        // up to where the server has handled them
	pending   outcome    // of what may not have arrived yet; see arrived
	letGo     []byte     // buttons whose release the server may not have handled
}

// releaseTime bounds a Release whose context had ended before.
const releaseTime = 2 * time.Second

// readyXTEST readies the extension that makes input.
func (d *Display) readyXTEST(ctx context.Context) error {
	_, present, err := d.extension(ctx, "XTEST")
	if err != nil {
		return fmt.Errorf("asking for XTEST: %w", err)
	}
	if !present {
		return errors.New("the display lacks the XTEST extension, without which there is no input; start its server with XTEST")
	}
	// A program that has grabbed the server, as some do while something is dragged, must
	// not keep out the very input that it waits for. Nor must our own locker.
	_, err = await(ctx, d.link, func() (struct{}, error) {
		return struct{}{}, xtest.GrabControlChecked(d.x, true).Check()
	})
	if err != nil {
		return fmt.Errorf("readying XTEST: %w", err)
	}
	return nil
}

func (d *Display) newInput(ctx context.Context) (*input, error) {
	in := &input{link: d.link, keyboard: d.keyboard, rescuer: d.rescuer}
	in.watch = time.AfterFunc(time.Hour, in.rescue)
	in.watch.Stop()
	var err error
	in.mark, err = newHeldMark(ctx, d.keyboard)
	return in, err
}

// Pointer returns where the pointer is, in display pixels. On a server with several screens,
// a pointer that is on another screen is an error, a [computer.InputError].
func (d *Display) Pointer(ctx context.Context) (image.Point, error) {
	if err := d.input.arrived(ctx); err != nil {
		return image.Point{}, fmt.Errorf("waiting for the pointer: %w", err)
	}
	reply, err := await(ctx, d.link, func() (*xproto.QueryPointerReply, error) {
		return xproto.QueryPointer(d.x, d.root).Reply()
	})
	switch {
	case err != nil:
		return image.Point{}, fmt.Errorf("asking where the pointer is: %w", err)
	case !reply.SameScreen:
		return image.Point{}, &computer.InputError{Text: "the pointer is on another screen of the display; move it to this one first"}
	}
	return image.Pt(int(reply.RootX), int(reply.RootY)), nil
}

// Send makes the events happen, and returns when the server has handled them. See
// [computer.Desktop].
//
// Send looks at all events first. When it refuses one of them, none happens. A key or a
// button that the display does not have is a [computer.InputError], and so is the press of a
// key or a button that Send holds down already. Two symbols of one key of the keyboard, such
// as 'a' and 'A', cannot be held at the same time. A point outside the display is another
// error.
//
// A move that does not bring the pointer to its point, since another program keeps it
// elsewhere, is found only when it happens. It is an InputError. The events before it have
// happened, and the events after it do not happen.
func (d *Display) Send(ctx context.Context, events ...computer.Event) error {
	if len(events) == 0 {
		return ctx.Err()
	}
	d.settler.sent()
	if slices.ContainsFunc(events, func(e computer.Event) bool {
		return e.Kind == computer.ButtonDown && e.Button < computer.WheelUp
	}) {
		d.settler.sentPress()
	}
	if err := d.input.send(ctx, events); err != nil {
		return fmt.Errorf("sending input: %w", err)
	}
	return nil
}

// Release lets go of every key and button that Send holds down, the last one first. It may be
// called while Send runs in another goroutine: events that Send has not yet written are then
// not sent, and Send returns an error. When the context has already ended, Release gives
// itself 2 seconds.
func (d *Display) Release(ctx context.Context) error {
	if d.input == nil { // not opened to the end
		return nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
	}
	_, err := await(ctx, d.link, func() (struct{}, error) { return struct{}{}, d.input.release(ctx) })
	if err != nil {
		return fmt.Errorf("releasing what is held: %w", err)
	}
	return nil
}

// step is an event with what the display needs for it.
type step struct {
	computer.Event
	stroke stroke // of KeyDown
	button byte   // of ButtonDown and ButtonUp: the one that the display takes for Button
}

func (in *input) send(ctx context.Context, events []computer.Event) error {
	in.mu.Lock()
	released := in.released
	in.mu.Unlock()
	steps, locked, err := in.prepare(ctx, events)
	if err != nil {
		return err
	}
	_, err = await(ctx, in.link, func() (struct{}, error) {
		return struct{}{}, in.perform(ctx, steps, locked, released)
	})
	return err
}

// prepare checks the events and finds out everything that must be asked for, so that
// nothing need be waited for in between. It tells whether Caps Lock is on, when that counts.
func (in *input) prepare(ctx context.Context, events []computer.Event) (steps []step, locked bool, err error) {
	var p pointerFacts
	if slices.ContainsFunc(events, func(e computer.Event) bool {
		return e.Kind == computer.Move || e.Kind == computer.ButtonDown || e.Kind == computer.ButtonUp
	}) {
		if p, err = in.pointerFacts(ctx); err != nil {
			return nil, false, err
		}
	}
	types := false
	steps = make([]step, len(events))
	for i, e := range events {
		steps[i].Event = e
		if e.Kind == computer.ButtonDown && (i+1 == len(events) || events[i+1].Kind != computer.ButtonUp) {
			in.rescuer.ready(ctx) // it is to stay down
		}
		switch e.Kind {
		case computer.Move:
			if !e.Point.In(image.Rectangle{Max: p.size}) {
				return nil, false, fmt.Errorf("the point %v is outside the display, which is %d x %d pixels", e.Point, p.size.X, p.size.Y)
			}
		case computer.ButtonDown, computer.ButtonUp:
			at := -1
			if e.Button > 0 && e.Button < 256 {
				at = slices.Index(p.buttons, byte(e.Button))
			}
			if at < 0 {
				return nil, false, &computer.InputError{Text: fmt.Sprintf("the mouse has no button %d", e.Button)}
			}
			steps[i].button = byte(at + 1)
		case computer.KeyDown:
			if steps[i].stroke, err = in.keyboard.stroke(ctx, e.Key); err != nil {
				return nil, false, err
			}
			types = types || isCharacter(e.Key)
		case computer.KeyUp:
		default:
			return nil, false, fmt.Errorf("there is no kind %d of event", e.Kind)
		}
	}
	if types && in.keyboard.xkb.present {
		state, err := in.keyboard.xkb.state(ctx)
		if err != nil {
			return nil, false, err
		}
		locked = state.locked&modLock != 0
	}
	return steps, locked, nil
}

// pointerFacts are the size of the display, in pixels, and the order of the pointer's
// buttons: what the display takes its buttons 1, 2, 3 and so on for. A left-handed user has
// exchanged some.
type pointerFacts struct {
	size    image.Point
	buttons []byte
}

func (in *input) pointerFacts(ctx context.Context) (pointerFacts, error) {
	return await(ctx, in.link, func() (pointerFacts, error) {
		size, order := xproto.GetGeometry(in.x, xproto.Drawable(in.root)), xproto.GetPointerMapping(in.x)
		s, err := size.Reply()
		if err != nil {
			return pointerFacts{}, fmt.Errorf("asking for the display's size: %w", err)
		}
		o, err := order.Reply()
		if err != nil {
			return pointerFacts{}, fmt.Errorf("asking for the order of the buttons: %w", err)
		}
		return pointerFacts{image.Pt(int(s.Width), int(s.Height)), o.Map}, nil
	})
}

// isCharacter tells whether a key makes a character, which Caps Lock may change.
func isCharacter(k computer.Key) bool {
	r, ok := k.Rune()
	return ok && r >= ' '
}

// perform makes the steps happen, or none when one is refused beforehand.
func (in *input) perform(ctx context.Context, steps []step, locked bool, released int) error {
	in.mu.Lock()
	dry := in.state.clone()
	in.mu.Unlock()
	if _, err := dry.apply(steps, locked); err != nil {
		return err
	}
	for _, piece := range inPieces(steps) {
		if err := in.performPiece(ctx, piece, locked, released); err != nil {
			return err
		}
	}
	return nil
}

// performPiece waits for what must have arrived before, then writes the requests for the
// steps and waits until the server has handled them.
func (in *input) performPiece(ctx context.Context, steps []step, locked bool, released int) error {
	in.mu.Lock()
	before := in.pending
	in.mu.Unlock()
	if !steps[0].ofButton() || len(before.keys) > 0 {
		if err := in.arrive(ctx, before); err != nil {
			return err
		}
	}
	in.mu.Lock()
	if err := ctx.Err(); err != nil || in.released != released {
		in.mu.Unlock()
		return errors.Join(err, errReleased)
	}
	next := in.state.clone()
	actions, err := next.apply(steps, locked)
	if err != nil {
		in.mu.Unlock()
		return err
	}
	w := in.carryOut(actions, next)
	in.mu.Unlock()
	if steps[len(steps)-1].Kind == computer.ButtonDown {
		// Whoever keeps the display to itself at the press should find us idle; see rescuer.
		idle := time.NewTimer(pressPause)
		defer idle.Stop()
		select {
		case <-idle.C:
		case <-ctx.Done(): // what is written must be confirmed all the same
		}
	}
	shown, err := in.confirm(w)
	if err != nil || shown || !steps[0].isMove() {
		return err
	}
	return in.reach(ctx, w.outcome, released)
}

// pressPause is how long nothing follows the press of a button that stays down.
const pressPause = 5 * time.Millisecond

// errReleased is the error of a Send that a Release overtook.
var errReleased = errors.New("everything was released before the input was sent")

func (in *input) release(ctx context.Context) error {
	in.mu.Lock()
	in.released++
	actions := in.state.releaseAll()
	if len(actions) == 0 && in.written == in.confirmed && in.pending.isEmpty() {
		in.mu.Unlock()
		return nil
	}
	w := in.carryOut(actions, heldState{})
	in.mu.Unlock()
	_, err := in.confirm(w)
	if isRefusal(errors.Unwrap(err)) {
		in.noLongerPending(w.outcome)
		return nil // what the display does not know is not held there
	}
	if err != nil {
		return err
	}
	in.mu.Lock()
	pending := in.pending
	in.mu.Unlock()
	return in.arrive(ctx, pending)
}

// announceTyped announces the keys that Type is going to press and release, or that it has.
func (in *input) announceTyped(codes ...xproto.Keycode) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mark.announceTyped(codes)
}

// announceUnlocked announces the modifiers that Type takes off and is to lock again.
func (in *input) announceUnlocked(bits byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mark.announceUnlocked(bits)
}

// rescue releases the buttons that are held, when the server has put the connection to
// sleep. It runs on a timer for as long as there are any.
func (in *input) rescue() {
	in.mu.Lock()
	buttons := slices.Clone(in.letGo)
	for _, t := range in.state.all() {
		if t.kind == heldButton {
			buttons = append(buttons, t.code)
		}
	}
	in.mu.Unlock()
	if len(buttons) == 0 {
		return
	}
	in.rescuer.release(buttons)
	select {
	case <-in.keyboard.closing.Done():
	default:
		in.watch.Reset(rescuePause)
	}
}

// writing is a number of requests that have been written together.
type writing struct {
	number  int
	cookies []*xgb.Cookie
	outcome outcome // of these and of what had not arrived before
}

// carryOut writes the requests for the actions, after which the given state is that of the
// display. It does not wait. The caller holds the lock.
func (in *input) carryOut(actions []action, next heldState) writing {
	// While it lasts, all that is held before, meanwhile and after is announced: should
	// the process be killed within, the next one knows what to release.
	most := in.state.all()
	for _, a := range actions {
		if a.press {
			most = append(most, a.thing)
		}
	}
	var cookies []*xgb.Cookie
	in.mark.announce(most)
	for _, a := range actions {
		cookies = append(cookies, in.write(a))
		if a.kind == heldButton && !a.move {
			in.watch.Reset(rescuePause)
			if !a.press {
				in.letGo = append(in.letGo, a.code)
			}
		}
	}
	in.mark.announce(next.all())
	in.state = next
	in.written++
	in.pending = in.pending.after(in.written, actions)
	return writing{in.written, cookies, in.pending}
}

// write writes the request for an action.
func (in *input) write(a action) *xgb.Cookie {
	fake := func(kind, detail byte, root xproto.Window, p image.Point) *xgb.Cookie {
		return xtest.FakeInputChecked(in.x, kind, detail, 0, root, int16(p.X), int16(p.Y), 0).Cookie
	}
	switch {
	case a.move:
		if len(in.setup.Roots) > 1 {
			// XTEST moves the pointer on the screen that it is on.
			xproto.WarpPointer(in.x, 0, in.root, 0, 0, 0, 0, int16(a.point.X), int16(a.point.Y))
		}
		return fake(xproto.MotionNotify, 0, in.root, a.point)
	case a.kind == heldKey && a.press:
		return fake(xproto.KeyPress, a.code, 0, image.Point{})
	case a.kind == heldKey:
		return fake(xproto.KeyRelease, a.code, 0, image.Point{})
	case a.kind == heldButton && a.press:
		return fake(xproto.ButtonPress, a.code, 0, image.Point{})
	case a.kind == heldButton:
		return fake(xproto.ButtonRelease, a.code, 0, image.Point{})
	default: // Caps Lock is held off, or on again
		return holdLockOff(in.keyboard, a.press)
	}
}

// holdLockOff writes the request that takes Caps Lock off, or puts it on again.
func holdLockOff(k *keyboard, off bool) *xgb.Cookie {
	locked := byte(modLock)
	if off {
		locked = 0
	}
	const latchLockState = 5
	request := k.xkb.message(latchLockState, append(u16(nil, xkbCoreKbd), modLock, locked, 0, 0, 0, 0, 0, 0, 0, 0)...)
	cookie := k.x.NewCookie(true, false)
	k.x.NewRequest(request, cookie)
	return cookie
}

// confirm waits until the server has handled what was written, and returns the first
// error. It reports whether the display shows the outcome already.
func (in *input) confirm(w writing) (shown bool, err error) {
	// The answer also says that the server has handled all that was written before.
	shown, err = in.shows(w.outcome)
	in.mu.Lock()
	in.confirmed = max(in.confirmed, w.number) // or it is gone, and so is all that was held
	if in.confirmed == in.written {
		in.letGo = nil
	}
	in.mu.Unlock()
	if shown || err != nil {
		in.noLongerPending(w.outcome)
	}
	if err != nil {
		return false, err
	}
	for _, cookie := range w.cookies {
		if err := cookie.Check(); err != nil {
			return false, fmt.Errorf("the display refused it: %w", err)
		}
	}
	return shown, nil
}

// thing is something that can be held.
type thing struct {
	kind heldKind
	code byte // the keycode or the button
}

type heldKind uint32

const (
	heldKey    heldKind = iota
	heldButton          // of the pointer
	heldLock            // Caps Lock, held off; or with a code, the modifiers that Type has unlocked
)

// action is what one request does: it moves the pointer, or presses or releases a thing.
type action struct {
	move  bool
	point image.Point
	press bool
	thing
	button computer.Button // of a button: which the display takes it for
}

// heldState is what is held, in the order of pressing.
type heldState struct {
	holds   []hold
	lockOff bool // Caps Lock was on and is to be on again
}

// hold is a key or a button that is held, with the modifier keys that it needs.
type hold struct {
	key       computer.Key    // of a key
	button    computer.Button // of a button
	things    []thing         // in the order of pressing, the key or button itself last
	character bool
}

func (h hold) main() thing { return h.things[len(h.things)-1] }

func (s heldState) clone() heldState {
	s.holds = slices.Clone(s.holds)
	return s
}

// all returns everything that is held.
func (s heldState) all() []thing {
	var all []thing
	for _, h := range s.holds {
		all = append(all, h.things...)
	}
	if s.lockOff {
		all = append(all, thing{kind: heldLock})
	}
	return all
}

func (s heldState) isDown(t thing) bool {
	return slices.ContainsFunc(s.holds, func(h hold) bool { return slices.Contains(h.things, t) })
}

// apply works out what to do for the steps, and changes the state accordingly.
func (s *heldState) apply(steps []step, locked bool) ([]action, error) {
	var actions []action
	for _, e := range steps {
		switch e.Kind {
		case computer.Move:
			actions = append(actions, action{move: true, point: e.Point})
		case computer.ButtonDown:
			button := thing{heldButton, e.button}
			if s.isDown(button) {
				return nil, &computer.InputError{Text: fmt.Sprintf("button %d of the mouse is held down already", e.Button)}
			}
			s.holds = append(s.holds, hold{button: e.Button, things: []thing{button}})
			actions = append(actions, action{press: true, thing: button, button: e.Button})
		case computer.ButtonUp:
			i := slices.IndexFunc(s.holds, func(h hold) bool { return h.button == e.Button })
			if i < 0 {
				// Whoever pressed it, it is to be up.
				actions = append(actions, action{thing: thing{heldButton, e.button}, button: e.Button})
				break
			}
			actions = append(actions, s.let(i)...)
		case computer.KeyDown:
			pressed, err := s.press(e.Key, e.stroke, locked)
			if err != nil {
				return nil, err
			}
			actions = append(actions, pressed...)
		case computer.KeyUp:
			for i, h := range slices.Backward(s.holds) {
				if h.button == 0 && h.key == e.Key {
					actions = append(actions, s.let(i)...)
					break
				}
			}
		}
	}
	return actions, nil
}

// press holds a key.
func (s *heldState) press(key computer.Key, stroke stroke, locked bool) (actions []action, err error) {
	h := hold{key: key, character: isCharacter(key)}
	var needs []thing
	for _, code := range stroke.mods {
		needs = append(needs, thing{heldKey, byte(code)})
	}
	if !stroke.brief {
		h.things = needs
	}
	h.things = append(h.things, thing{heldKey, byte(stroke.code)})
	if slices.ContainsFunc(s.holds, func(other hold) bool { return other.main() == h.main() }) {
		return nil, &computer.InputError{Text: fmt.Sprintf("the key %v is held down already", key)}
	}
	if h.character && locked && !s.lockOff {
		s.lockOff = true
		actions = append(actions, action{press: true, thing: thing{kind: heldLock}})
	}
	var briefly []thing
	if stroke.brief {
		for _, t := range needs {
			if !s.isDown(t) {
				briefly = append(briefly, t)
				actions = append(actions, action{press: true, thing: t})
			}
		}
	}
	for _, t := range h.things {
		if !s.isDown(t) {
			actions = append(actions, action{press: true, thing: t})
		}
	}
	for _, t := range slices.Backward(briefly) {
		actions = append(actions, action{thing: t})
	}
	s.holds = append(s.holds, h)
	return actions, nil
}

// let lets go of a hold, of what no other hold needs.
func (s *heldState) let(i int) (actions []action) {
	h := s.holds[i]
	s.holds = slices.Delete(s.holds, i, i+1)
	for _, t := range slices.Backward(h.things) {
		if !s.isDown(t) {
			actions = append(actions, action{thing: t, button: h.button})
		}
	}
	if s.lockOff && !slices.ContainsFunc(s.holds, func(h hold) bool { return h.character }) {
		s.lockOff = false
		actions = append(actions, action{thing: thing{kind: heldLock}})
	}
	return actions
}

// releaseAll returns what lets go of everything, the last one first.
func (s heldState) releaseAll() (actions []action) {
	for s = s.clone(); len(s.holds) > 0; {
		actions = append(actions, s.let(len(s.holds)-1)...)
	}
	return actions
}
