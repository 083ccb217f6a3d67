package x11

import (
	"context"
	"image"
	"maps"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// A window manager may look at a press before the application gets it, as those do that
// raise a window that is clicked, or that have a key of their own. Until it has decided
// the server keeps back what that device does next, in a queue, and gives it out
// later: at the place where the pointer is by then, and after what the other device does.
// So nothing follows a button or a key before the display shows that it has arrived; save
// that one button may follow another, as the clicks of a double click do: they stay in
// order, at one place, and keep their times.
//
// Nor does anything follow a move before the pointer is there: a program may confine it, as
// games do, or put it back, and what is pressed then would come somewhere else.

// The bounds of the waits: a window manager may hang, and a program may keep the pointer for
// as long as it likes.
const (
	arrivalBound = 2 * time.Second
	moveBound    = 300 * time.Millisecond
	arrivalPause = 500 * time.Microsecond
)

// errPointerKept returns the error of a move that did not bring the pointer to its point.
func errPointerKept() error {
	return &computer.InputError{Text: "the pointer could not be moved there: another program keeps it elsewhere, or no monitor shows that place"}
}

// inPieces cuts steps into pieces that are each written at once. What comes between the
// pieces is a wait for the arrival of the former.
func inPieces(steps []step) [][]step {
	var pieces [][]step
	start := 0
	for i := 1; i < len(steps); i++ {
		before, now := steps[i-1], steps[i]
		if before.isMove() != now.isMove() || before.ofButton() != now.ofButton() {
			pieces = append(pieces, steps[start:i])
			start = i
		}
	}
	return append(pieces, steps[start:])
}

func (s step) isMove() bool   { return s.Kind == computer.Move }
func (s step) ofButton() bool { return s.Kind == computer.ButtonDown || s.Kind == computer.ButtonUp }

// outcome is what the display shows when all of some actions have arrived.
type outcome struct {
	number  int // of the writing that they ended with
	point   *image.Point
	keys    map[byte]bool            // down or not, of those that were pressed or released
	buttons map[computer.Button]bool // the same
}

func (o outcome) isEmpty() bool { return o.point == nil && len(o.keys) == 0 && len(o.buttons) == 0 }

// after returns the outcome once the actions of the writing with a number have arrived too.
func (o outcome) after(number int, actions []action) outcome {
	next := outcome{number: number, point: o.point, keys: map[byte]bool{}, buttons: map[computer.Button]bool{}}
	maps.Copy(next.keys, o.keys)
	maps.Copy(next.buttons, o.buttons)
	for _, a := range actions {
		switch {
		case a.move:
			next.point = &a.point
		case a.kind == heldKey:
			next.keys[a.code] = a.press
		case a.kind == heldButton:
			next.buttons[a.button] = a.press
		}
	}
	return next
}

// noLongerPending takes note that an outcome is no longer to be waited for.
func (in *input) noLongerPending(o outcome) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pending.number == o.number {
		in.pending = outcome{}
	}
}

// arrived waits until all that was sent so far has arrived, or it has taken too long,
// which is no error.
func (in *input) arrived(ctx context.Context) error {
	in.mu.Lock()
	pending := in.pending
	in.mu.Unlock()
	_, err := await(ctx, in.link, func() (struct{}, error) { return struct{}{}, in.arrive(ctx, pending) })
	return err
}

// arrive waits until the display shows which keys and buttons an outcome has down. It is
// no error when that takes too long, or when more was written meanwhile, as by Release.
func (in *input) arrive(ctx context.Context, want outcome) error {
	want.point = nil // which reach has waited for
	_, err := in.waitFor(ctx, want, arrivalBound)
	return err
}

// reach waits until the pointer is where the last of some moves puts it. It is an error
// when that takes too long, or when a Release came meanwhile.
func (in *input) reach(ctx context.Context, want outcome, released int) error {
	want.keys, want.buttons = nil, nil
	reached, err := in.waitFor(ctx, want, moveBound)
	if err != nil || reached {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.released != released {
		return errReleased
	}
	return errPointerKept()
}

// waitFor waits until the display shows an outcome, which it reports, for no longer than a
// bound, and not once more has been written. Then the outcome is no longer pending.
func (in *input) waitFor(ctx context.Context, want outcome, within time.Duration) (shown bool, err error) {
	if want.isEmpty() {
		in.noLongerPending(want)
		return true, nil
	}
	bound, pause := time.NewTimer(within), time.NewTicker(arrivalPause)
	defer bound.Stop()
	defer pause.Stop()
	for {
		shown, err := in.shows(want)
		if err != nil || shown {
			in.noLongerPending(want)
			return shown, err
		}
		in.mu.Lock()
		overtaken := in.pending.number != want.number
		in.mu.Unlock()
		if overtaken {
			return false, nil
		}
		select {
		case <-pause.C:
		case <-bound.C:
			in.noLongerPending(want)
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// shows reports whether the display shows an outcome.
func (in *input) shows(want outcome) (bool, error) {
	askPointer, askKeys := xproto.QueryPointer(in.x, in.root), xproto.QueryKeymap(in.x)
	pointer, err := askPointer.Reply()
	if err != nil {
		return false, err
	}
	keys, err := askKeys.Reply()
	if err != nil {
		return false, err
	}
	at := image.Pt(int(pointer.RootX), int(pointer.RootY))
	if want.point != nil && (at != *want.point || !pointer.SameScreen) {
		return false, nil
	}
	for code, down := range want.keys {
		if is := keys.Keys[code/8]>>(code%8)&1 == 1; is != down {
			return false, nil
		}
	}
	for button, down := range want.buttons {
		const first = 7 // the bit of button 1 less one; the display tells of five
		if is := pointer.Mask>>(first+button)&1 == 1; is != down && button <= 5 {
			return false, nil
		}
	}
	return true, nil
}
