package computer

import (
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The pauses of a hand. Applications tell clicks, drags and turns of the wheel apart by
// the time between events, so a few members cannot be as fast as the display.
const (
	// A double click without any time between its events is dropped by some applications;
	// one slower than 200 ms is two clicks to others.
	pressTime = 12 * time.Millisecond // a button is down in a double or triple click
	clickTime = 60 * time.Millisecond // from one press to the next

	// Applications count presses of a button that are as close as this in time and place
	// as one double or triple click.
	countTime = 500 * time.Millisecond
	countNear = 8 // display pixels

	// A drag begins once the pointer has left a few pixels around the press, and drop
	// targets must see the pointer arrive: a drag in one jump does nothing.
	dragSteps = 12                    // in the middle
	dragPause = 8 * time.Millisecond  // between steps
	dragDwell = 40 * time.Millisecond // before the first move and before the release

	// Turns of the wheel that arrive together may be taken for one.
	wheelPause = 5 * time.Millisecond
)

// act runs a command that does something, and returns a short text.
func (t *Toolset) act(ctx context.Context, c *command) (string, error) {
	in := c.input
	if button, count := clickOf(c.member); count > 0 {
		return t.click(ctx, c, button, count)
	}
	switch c.member {
	case "left_click_drag":
		return t.drag(ctx, c)
	case "left_mouse_down":
		return t.hold(ctx)
	case "left_mouse_up":
		t.down = false
		return "The left button is up.", t.desktop.Send(ctx, Event{Kind: ButtonUp, Button: LeftButton})
	case "mouse_move":
		return t.move(ctx, c)
	case "cursor_position":
		p, err := t.desktop.Pointer(ctx)
		p = c.frame.ToView(p)
		return fmt.Sprintf("X=%d, Y=%d", p.X, p.Y), err
	case "scroll":
		return t.scroll(ctx, c)
	case "type":
		return t.typeText(ctx, *in.Text)
	case "key":
		times := 1
		if in.Repeat != nil {
			times = *in.Repeat
		}
		return t.key(ctx, c, times)
	case "hold_key":
		return t.holdKey(ctx, c)
	}
	// What is left is wait.
	return fmt.Sprintf("Waited for %v.", in.time()), t.idle(ctx, in.time())
}

// lookTime is how long a display may be gone before a block that only waits notices.
const lookTime = time.Second

// idle waits as pause does, and ends early when the display is gone.
func (t *Toolset) idle(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if err := pause(ctx, min(left, lookTime)); err != nil || left <= lookTime {
			return err
		}
		if _, err := t.size(ctx); err != nil {
			return err
		}
	}
}

// chord returns the events that press keys, and those that release them, the last one first.
func chord(keys []Key) (down, up []Event) {
	for _, key := range keys {
		down = append(down, Event{Kind: KeyDown, Key: key})
		up = append(up, Event{Kind: KeyUp, Key: key})
	}
	slices.Reverse(up)
	return down, up
}

// errHeld refuses what a held left button would turn into something else.
var errHeld = inputErrorf("The left button is held down by left_mouse_down; release it with left_mouse_up first.")

// press is a press of a button by a member.
type press struct {
	at     image.Point // display pixels
	button Button
	single bool // a single click, and nothing else
	when   time.Time
}

// apart sees to it that a member's press is not counted as one more of the clicks before:
// a double click after a click would be a triple one, and a drag would select by words. It
// waits until the time for that is over, before anything is pressed. Single clicks do not
// wait for each other: two of them at one place are a double click to anybody.
func (t *Toolset) apart(ctx context.Context, at *image.Point, button Button, single bool) error {
	now := press{button: button, single: single}
	if at != nil {
		now.at = *at
	} else {
		var err error
		if now.at, err = t.desktop.Pointer(ctx); err != nil {
			return err
		}
	}
	last := t.last
	t.last = now
	defer func() { t.last.when = time.Now() }()
	way := now.at.Sub(last.at)
	if last.button != button || single && last.single || max(way.X, -way.X, way.Y, -way.Y) > countNear {
		return nil
	}
	if left := countTime - time.Since(last.when); left > 0 {
		return pause(ctx, left)
	}
	return nil
}

func (t *Toolset) click(ctx context.Context, c *command, button Button, count int) (string, error) {
	if t.down && button == LeftButton {
		return "", errHeld
	}
	if err := t.apart(ctx, c.at, button, count == 1); err != nil {
		return "", err
	}
	down, release := Event{Kind: ButtonDown, Button: button}, Event{Kind: ButtonUp, Button: button}
	events, up := chord(c.modifiers)
	if c.at != nil {
		events = append([]Event{{Kind: Move, Point: *c.at}}, events...)
	}
	if count == 1 {
		events = append(events, down, release)
		return done(c, "Clicked"), t.desktop.Send(ctx, append(events, up...)...)
	}
	for i := range count {
		if i > 0 {
			if err := pause(ctx, clickTime-pressTime); err != nil {
				return "", err
			}
		}
		if err := t.desktop.Send(ctx, append(events, down)...); err != nil {
			return "", err
		}
		if err := pause(ctx, pressTime); err != nil {
			return "", err
		}
		events = nil
		if err := t.desktop.Send(ctx, release); err != nil {
			return "", err
		}
	}
	t.last.when = time.Now()
	return done(c, "Clicked"), t.send(ctx, up)
}

// send is Send for what may be nothing.
func (t *Toolset) send(ctx context.Context, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	return t.desktop.Send(ctx, events...)
}

// done says where something was done, in view pixels.
func done(c *command, what string) string {
	if p := c.input.Coordinate; p != nil {
		return fmt.Sprintf("%s at (%d, %d).", what, p[0], p[1])
	}
	return what + " at the pointer."
}

func (t *Toolset) hold(ctx context.Context) (string, error) {
	if t.down {
		return "The left button is down already.", nil
	}
	if err := t.apart(ctx, nil, LeftButton, false); err != nil {
		return "", err
	}
	err := t.desktop.Send(ctx, Event{Kind: ButtonDown, Button: LeftButton})
	t.down = err == nil
	return "The left button is down.", err
}

func (t *Toolset) move(ctx context.Context, c *command) (string, error) {
	if !t.down {
		return done(c, "The pointer is"), t.desktop.Send(ctx, Event{Kind: Move, Point: *c.at})
	}
	// A held button makes this a drag, which has to come in steps.
	from, err := t.desktop.Pointer(ctx)
	if err != nil {
		return "", err
	}
	return done(c, "The pointer is"), t.follow(ctx, from, *c.at)
}

func (t *Toolset) drag(ctx context.Context, c *command) (string, error) {
	if t.down {
		return "", errHeld
	}
	if err := t.apart(ctx, c.from, LeftButton, false); err != nil {
		return "", err
	}
	events := []Event{{Kind: Move, Point: *c.from}}
	down, up := chord(c.modifiers)
	events = append(append(events, down...), Event{Kind: ButtonDown, Button: LeftButton})
	if err := t.desktop.Send(ctx, events...); err != nil {
		return "", err
	}
	if err := pause(ctx, dragDwell); err != nil {
		return "", err
	}
	if err := t.follow(ctx, *c.from, *c.at); err != nil {
		return "", err
	}
	if err := pause(ctx, dragDwell); err != nil {
		return "", err
	}
	in := c.input
	text := fmt.Sprintf("Dragged from (%d, %d) to (%d, %d).", in.StartCoordinate[0], in.StartCoordinate[1], in.Coordinate[0], in.Coordinate[1])
	return text, t.desktop.Send(ctx, append([]Event{{Kind: ButtonUp, Button: LeftButton}}, up...)...)
}

// follow moves the pointer from one place to another as a hand does that holds something.
func (t *Toolset) follow(ctx context.Context, from, to image.Point) error {
	points := path(from, to)
	if err := t.trace(ctx, points); err != nil || len(points) < 2 {
		return err
	}
	// A busy application takes its time to see that it is a target. Chromium tells so only
	// when the pointer moves once more.
	if err := t.settle(ctx); err != nil {
		return err
	}
	return t.trace(ctx, points[len(points)-2:])
}

// trace moves the pointer from point to point, with a pause after each.
func (t *Toolset) trace(ctx context.Context, points []image.Point) error {
	for _, p := range points {
		if err := t.desktop.Send(ctx, Event{Kind: Move, Point: p}); err != nil {
			return err
		}
		if err := pause(ctx, dragPause); err != nil {
			return err
		}
	}
	return nil
}

// path is the way of a drag in display pixels: a few short steps past the distance at which
// applications take a press for a drag, then even ones, and short ones again, the last
// exactly at the end. Chromium answers each step with what the target said to the one
// before, so that it takes a drop only after some steps within the target. Two steps never
// fall on the same pixel.
func path(from, to image.Point) []image.Point {
	way := to.Sub(from)
	length := math.Hypot(float64(way.X), float64(way.Y))
	var shares, last []float64
	near, far := 0.0, 1.0
	for _, distance := range []float64{2, 5, 9, 14} {
		if distance < length/2 {
			near = distance / length
			shares = append(shares, near)
		}
	}
	for _, distance := range []float64{12, 8, 5, 3, 2, 1} {
		if distance < length/2 {
			last = append(last, 1-distance/length)
			far = min(far, 1-distance/length)
		}
	}
	for i := 1; i <= dragSteps; i++ {
		shares = append(shares, near+(far-near)*float64(i)/dragSteps)
	}
	shares = append(append(shares, last...), 1)
	var points []image.Point
	for _, share := range shares {
		p := from.Add(image.Pt(int(math.Round(float64(way.X)*share)), int(math.Round(float64(way.Y)*share))))
		if n := len(points); n == 0 || points[n-1] != p {
			points = append(points, p)
		}
	}
	return points
}

func (t *Toolset) scroll(ctx context.Context, c *command) (string, error) {
	button, amount := wheelOf(*c.input.ScrollDirection), *c.input.ScrollAmount
	events, up := chord(c.modifiers)
	if c.at != nil {
		events = append([]Event{{Kind: Move, Point: *c.at}}, events...)
	}
	for i := range amount {
		if i > 0 {
			if err := pause(ctx, wheelPause); err != nil {
				return "", err
			}
		}
		events = append(events, Event{Kind: ButtonDown, Button: button}, Event{Kind: ButtonUp, Button: button})
		if err := t.desktop.Send(ctx, events...); err != nil {
			return "", err
		}
		events = nil
	}
	return done(c, fmt.Sprintf("Scrolled %s by %d", *c.input.ScrollDirection, amount)), t.send(ctx, append(events, up...))
}

// key presses and releases a chord. Each time all of it is one sequence, so that nothing
// comes between and no key is held long enough to repeat.
func (t *Toolset) key(ctx context.Context, c *command, times int) (string, error) {
	down, up := chord(c.keys)
	all := append(down, up...)
	for i := range times {
		if err := t.desktop.Send(ctx, all...); err != nil {
			return "", fmt.Errorf("press %d of %d: %w", i+1, times, err)
		}
	}
	text := "Pressed " + c.keyText()
	if times > 1 {
		text += fmt.Sprintf(" %d times", times)
	}
	return text + ".", nil
}

// keyText is what the keys were called, or the name of one that was given as itself, such as
// a newline.
func (c *command) keyText() string {
	text := strings.TrimSpace(*c.input.Text)
	if text == "" {
		text = c.keys[0].String()
	}
	return shorten(text)
}

func (t *Toolset) holdKey(ctx context.Context, c *command) (string, error) {
	down, up := chord(c.keys)
	if err := t.desktop.Send(ctx, down...); err != nil {
		return "", err
	}
	if err := t.idle(ctx, c.input.time()); err != nil {
		return "", err
	}
	return fmt.Sprintf("Held %s for %v.", c.keyText(), c.input.time()), t.desktop.Send(ctx, up...)
}

func (t *Toolset) typeText(ctx context.Context, text string) (string, error) {
	of := utf8.RuneCountInString(text)
	if of == 0 {
		return "There was nothing to type.", nil
	}
	typed, err := t.desktop.Type(ctx, text)
	if err != nil {
		return "", &typedError{err, typed, of}
	}
	return fmt.Sprintf("Typed %d %s.", of, plural(of, "character")), nil
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// typedError is an error that came after a part of a text was typed.
type typedError struct {
	err       error
	typed, of int
}

func (e *typedError) Error() string {
	return fmt.Sprintf("typing stopped after %d of %d characters: %v", e.typed, e.of, e.err)
}

func (e *typedError) Unwrap() error { return e.err }
