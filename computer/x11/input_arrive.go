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

// arrivalBound bounds the wait, since a window manager may hang.
const (
	arrivalBound = 2 * time.Second
	arrivalPause = 500 * time.Microsecond
)

// inPieces cuts steps into pieces that are each written at once. What comes between the
// pieces is a wait for the arrival of the former.
func inPieces(steps []step) [][]step {
	var pieces [][]step
	start := 0
	for i := 1; i < len(steps); i++ {
		before, now := steps[i-1], steps[i]
		if before.Kind != computer.Move && (before.ofButton() != now.ofButton() || now.Kind == computer.Move) {
			pieces = append(pieces, steps[start:i])
			start = i
		}
	}
	return append(pieces, steps[start:])
}

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

// arrive waits until the display shows an outcome. It is no error when that takes too
// long, or when more was written meanwhile, as by Release.
func (in *input) arrive(ctx context.Context, want outcome) error {
	if want.isEmpty() {
		return nil
	}
	bound, pause := time.NewTimer(arrivalBound), time.NewTicker(arrivalPause)
	defer bound.Stop()
	defer pause.Stop()
	var first *image.Point
	for {
		at, shown, err := in.shows(want)
		if err != nil || shown {
			in.noLongerPending(want)
			return err
		}
		if first == nil {
			first = &at
		} else if at != *first {
			want.point = nil // somebody else moves the pointer, so nothing is kept back
		}
		in.mu.Lock()
		overtaken := in.pending.number != want.number
		in.mu.Unlock()
		if overtaken {
			return nil
		}
		select {
		case <-pause.C:
		case <-bound.C:
			in.noLongerPending(want)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shows reports whether the display shows an outcome, and where the pointer is.
func (in *input) shows(want outcome) (at image.Point, shown bool, err error) {
	askPointer, askKeys := xproto.QueryPointer(in.x, in.root), xproto.QueryKeymap(in.x)
	pointer, err := askPointer.Reply()
	if err != nil {
		return at, false, err
	}
	keys, err := askKeys.Reply()
	if err != nil {
		return at, false, err
	}
	at = image.Pt(int(pointer.RootX), int(pointer.RootY))
	if want.point != nil && at != *want.point {
		return at, false, nil
	}
	for code, down := range want.keys {
		if is := keys.Keys[code/8]>>(code%8)&1 == 1; is != down {
			return at, false, nil
		}
	}
	for button, down := range want.buttons {
		const first = 7 // the bit of button 1 less one; the display tells of five
		if is := pointer.Mask>>(first+button)&1 == 1; is != down && button <= 5 {
			return at, false, nil
		}
	}
	return at, true, nil
}
