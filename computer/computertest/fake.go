package computertest

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/loupe-tools/loupe/computer"
)

// Fake is a desktop in memory, with an application on it that records what reaches it. It
// is a [computer.Desktop] and a [computer.Settler].
//
// It refuses everything that the contract of [computer.Desktop] refuses. Its methods may be
// called from several goroutines. Points are in display pixels. What a method returns
// belongs to the caller, with all that it refers to.
type Fake struct {
	mu        sync.Mutex
	now       func() time.Time
	screen    *image.RGBA
	pointer   image.Point
	keys      []computer.Key    // held, in the order of pressing
	buttons   []computer.Button // the same
	intercept func(ctx context.Context, method string) error
	app       app
}

var _ computer.Settler = (*Fake)(nil)

// app is what the application on the fake desktop has received.
type app struct {
	text   []rune
	keys   []Stroke
	clicks []Click
	drags  []Drag
	wheel  map[computer.Button]int
	events []computer.Event

	press    image.Point // of the button that is down
	path     []image.Point
	pressed  time.Time
	previous time.Time // press of the last click
}

// Click is a press and a release of a button at one place: the pointer was released at most
// 5 pixels from where it was pressed. A turn of the wheel is no Click; see [Fake.Wheel].
type Click struct {
	Point  image.Point // of the release, in display pixels
	Button computer.Button

	// Count is 1 for a single click, 2 for the second of a double click, and so on. A
	// click is counted on from the last one when it has the same button, is at most 5
	// pixels away, and its press comes at least 10 ms and at most 400 ms after the press
	// of the last one.
	Count int

	Held []computer.Key // that were down at the release, in the order of pressing
}

// Drag is a press of a button, at least three moves, and a release more than 5 pixels from
// the press. With fewer moves, the application takes it for nothing at all, as many
// applications do.
type Drag struct {
	From, To image.Point // display pixels
	Button   computer.Button
	Held     []computer.Key // that were down at the release, in the order of pressing
	Path     []image.Point  // the moves between the press and the release, in display pixels
}

// Stroke is a press of a key.
type Stroke struct {
	Key  computer.Key   // as Send was given it, also while Shift is held
	Held []computer.Key // that were down before it, in the order of pressing
}

// NewFake returns a desktop of the given size in display pixels. A number less than 1 stands
// for 1. The screen is grey with a darker frame, and the pointer is in the middle.
func NewFake(width, height int) *Fake {
	f := &Fake{now: time.Now}
	f.app.wheel = map[computer.Button]int{}
	f.Resize(width, height)
	f.pointer = image.Pt(width/2, height/2)
	return f
}

// Resize gives the display another size, in display pixels, and paints the screen anew as
// NewFake does. A pointer that would be outside goes to the nearest edge.
func (f *Fake) Resize(width, height int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.screen = image.NewRGBA(image.Rect(0, 0, max(width, 1), max(height, 1)))
	inner := f.screen.Rect.Inset(2)
	for y := range f.screen.Rect.Dy() {
		for x := range f.screen.Rect.Dx() {
			c := color.RGBA{90, 90, 100, 255}
			if image.Pt(x, y).In(inner) {
				c = color.RGBA{210, 210, 200, 255}
			}
			f.screen.SetRGBA(x, y, c)
		}
	}
	f.pointer = image.Pt(min(f.pointer.X, f.screen.Rect.Dx()-1), min(f.pointer.Y, f.screen.Rect.Dy()-1))
}

// Paint calls draw with the screen, whose bounds are those of the display. The pointer is
// not part of it. draw must leave the screen opaque, must not keep it, and must not call
// methods of the Fake: they wait until draw has returned, so it would never return.
func (f *Fake) Paint(draw func(screen *image.RGBA)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	draw(f.screen)
}

// Intercept sets a function that is called at the start of each method of
// [computer.Desktop] and [computer.Settler], with the method's context and its name, such as
// "Capture". The function may wait, panic, or return an error, which the method then returns
// without having done anything. It may call methods of the Fake, where those of the Desktop
// call it again. It runs in the goroutine that called the method, so it is called
// concurrently when methods are. A nil function removes the one that was set.
func (f *Fake) Intercept(function func(ctx context.Context, method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept = function
}

// Held returns the keys and the buttons that are down, in the order of pressing.
func (f *Fake) Held() (keys []computer.Key, buttons []computer.Button) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.keys), slices.Clone(f.buttons)
}

// Text returns the text in the application's text field, which always has the focus.
func (f *Fake) Text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.app.text)
}

// Keys returns the presses of keys, in order. What Type does is not among them.
func (f *Fake) Keys() []Stroke {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := slices.Clone(f.app.keys)
	for i := range keys {
		keys[i].Held = slices.Clone(keys[i].Held)
	}
	return keys
}

// Clicks returns the clicks, in order.
func (f *Fake) Clicks() []Click {
	f.mu.Lock()
	defer f.mu.Unlock()
	clicks := slices.Clone(f.app.clicks)
	for i := range clicks {
		clicks[i].Held = slices.Clone(clicks[i].Held)
	}
	return clicks
}

// Drags returns the drags, in order.
func (f *Fake) Drags() []Drag {
	f.mu.Lock()
	defer f.mu.Unlock()
	drags := slices.Clone(f.app.drags)
	for i := range drags {
		drags[i].Held, drags[i].Path = slices.Clone(drags[i].Held), slices.Clone(drags[i].Path)
	}
	return drags
}

// Wheel returns how many clicks the wheel was turned, for each of its buttons.
func (f *Fake) Wheel() map[computer.Button]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.app.wheel)
}

// Events returns every event of Send that has happened, in order. What Release releases is
// not among them.
func (f *Fake) Events() []computer.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.app.events)
}

// begin starts a method of the Desktop.
func (f *Fake) begin(ctx context.Context, method string) error {
	if err := f.intercepted(ctx, method); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s on the fake desktop: %w", method, err)
	}
	return nil
}

func (f *Fake) intercepted(ctx context.Context, method string) error {
	f.mu.Lock()
	intercept := f.intercept
	f.mu.Unlock()
	if intercept == nil {
		return nil
	}
	return intercept(ctx, method)
}

// Size returns the display's size in pixels.
func (f *Fake) Size(ctx context.Context) (image.Point, error) {
	if err := f.begin(ctx, "Size"); err != nil {
		return image.Point{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.screen.Rect.Size(), nil
}

// Capture returns the pixels of a region, with the pointer drawn in. The image is a copy,
// which belongs to the caller.
func (f *Fake) Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	if err := f.begin(ctx, "Capture"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if region.Empty() || !region.In(f.screen.Rect) {
		return nil, fmt.Errorf("the region %v is not within the display of %v", region, f.screen.Rect.Size())
	}
	m := image.NewRGBA(image.Rectangle{Max: region.Size()})
	for y := range m.Rect.Dy() {
		from := f.screen.PixOffset(region.Min.X, region.Min.Y+y)
		copy(m.Pix[y*m.Stride:][:4*m.Rect.Dx()], f.screen.Pix[from:])
	}
	// The pointer is a black triangle with a white edge, its tip where it points.
	for y := range 14 {
		for x := range y + 1 {
			c := color.RGBA{0, 0, 0, 255}
			if x == 0 || x == y || y == 13 {
				c = color.RGBA{255, 255, 255, 255}
			}
			if at := f.pointer.Add(image.Pt(x, y)); at.In(region) {
				at = at.Sub(region.Min)
				m.SetRGBA(at.X, at.Y, c)
			}
		}
	}
	return m, nil
}

// Pointer returns where the pointer is, in display pixels.
func (f *Fake) Pointer(ctx context.Context) (image.Point, error) {
	if err := f.begin(ctx, "Pointer"); err != nil {
		return image.Point{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pointer, nil
}

// Settle returns at once: the screen is always at rest.
func (f *Fake) Settle(ctx context.Context) error { return f.begin(ctx, "Settle") }

// Release lets go of every key and button, also when the context has ended. The application
// takes it for neither a click nor a drag.
func (f *Fake) Release(ctx context.Context) error {
	if err := f.intercepted(ctx, "Release"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys, f.buttons = nil, nil
	return nil
}

// Type puts text into the text field, up to the first character that cannot be typed, and
// returns the number of code points that it has put there. Keys that are held do not matter.
// What cannot be typed is U+FFFD, for which a byte that is not UTF-8 also counts, the last
// two code points of each plane, and all control characters but the newline and the tab.
func (f *Fake) Type(ctx context.Context, text string) (int, error) {
	if err := f.begin(ctx, "Type"); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range []rune(text) {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r&0xfffe == 0xfffe || r == unicode.ReplacementChar {
			return i, &computer.InputError{Text: fmt.Sprintf("the character %U cannot be typed", r)}
		}
		f.app.text = append(f.app.text, r)
	}
	return len([]rune(text)), nil
}

// Send makes the events happen, up to the first that is refused.
func (f *Fake) Send(ctx context.Context, events ...computer.Event) error {
	if err := f.begin(ctx, "Send"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		if err := f.happen(e); err != nil {
			return err
		}
		f.app.events = append(f.app.events, e)
	}
	return nil
}

func (f *Fake) happen(e computer.Event) error {
	switch e.Kind {
	case computer.Move:
		if !e.Point.In(f.screen.Rect) {
			return fmt.Errorf("the point %v is outside the display of %v", e.Point, f.screen.Rect.Size())
		}
		f.pointer = e.Point
		if len(f.buttons) > 0 {
			f.app.path = append(f.app.path, e.Point)
		}
	case computer.ButtonDown, computer.ButtonUp:
		if e.Button < computer.LeftButton || e.Button > computer.WheelRight {
			return &computer.InputError{Text: fmt.Sprintf("the pointer has no button %d", e.Button)}
		}
		if e.Kind == computer.ButtonUp {
			f.buttonUp(e.Button)
			break
		}
		if slices.Contains(f.buttons, e.Button) {
			return &computer.InputError{Text: fmt.Sprintf("button %d is held down already", e.Button)}
		}
		f.buttons = append(f.buttons, e.Button)
		f.app.press, f.app.path = f.pointer, nil
		f.app.pressed = f.now()
	case computer.KeyDown:
		if slices.Contains(f.keys, e.Key) {
			return &computer.InputError{Text: fmt.Sprintf("the key %v is held down already", e.Key)}
		}
		f.app.keys = append(f.app.keys, Stroke{e.Key, slices.Clone(f.keys)})
		f.edit(e.Key)
		f.keys = append(f.keys, e.Key)
	case computer.KeyUp:
		f.keys = slices.DeleteFunc(f.keys, func(k computer.Key) bool { return k == e.Key })
	default:
		return fmt.Errorf("there is no event of kind %d", e.Kind)
	}
	return nil
}

// What the application takes for a click, a double click and a drag.
const (
	slop      = 5                      // pixels that the pointer may move in a click
	doubleMin = 10 * time.Millisecond  // from press to press: less is one click to some applications
	doubleMax = 400 * time.Millisecond // more is two clicks
	dragSeen  = 3                      // moves that make a drag
)

func (f *Fake) buttonUp(b computer.Button) {
	if !slices.Contains(f.buttons, b) {
		return
	}
	f.buttons = slices.DeleteFunc(f.buttons, func(down computer.Button) bool { return down == b })
	if b >= computer.WheelUp {
		f.app.wheel[b]++
		return
	}
	if distance(f.app.press, f.pointer) > slop {
		if len(f.app.path) >= dragSeen {
			f.app.drags = append(f.app.drags, Drag{f.app.press, f.pointer, b, slices.Clone(f.keys), f.app.path})
		}
		return
	}
	click := Click{Point: f.pointer, Button: b, Count: 1, Held: slices.Clone(f.keys)}
	if n := len(f.app.clicks); n > 0 {
		last := f.app.clicks[n-1]
		gap := f.app.pressed.Sub(f.app.previous)
		if last.Button == b && distance(last.Point, f.pointer) <= slop && gap >= doubleMin && gap <= doubleMax {
			click.Count = last.Count + 1
		}
	}
	f.app.previous = f.app.pressed
	f.app.clicks = append(f.app.clicks, click)
}

func distance(a, b image.Point) float64 {
	d := a.Sub(b)
	return math.Hypot(float64(d.X), float64(d.Y))
}

// edit is what a key does to the text field.
func (f *Fake) edit(key computer.Key) {
	command := slices.ContainsFunc(f.keys, func(k computer.Key) bool {
		return k == computer.KeyControl || k == computer.KeyAlt || k == computer.KeySuper
	})
	switch {
	case command:
	case key == computer.KeyReturn:
		f.app.text = append(f.app.text, '\n')
	case key == computer.KeyTab:
		f.app.text = append(f.app.text, '\t')
	case key == computer.KeyBackSpace:
		f.app.text = f.app.text[:max(len(f.app.text)-1, 0)]
	default:
		r, ok := key.Rune()
		if !ok {
			return
		}
		text := string(r)
		if slices.Contains(f.keys, computer.KeyShift) {
			text = strings.ToUpper(text)
		}
		f.app.text = append(f.app.text, []rune(text)...)
	}
}
