package computer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/draw"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/loupe-tools/loupe/computer"
)

// driver is a driver of one's own. Its display is an image in memory; a real one talks to
// its display instead, where it shows pixels, delivers events and writes text.
type driver struct {
	screen  *image.RGBA            // what the display shows, without the pointer
	deliver func(e computer.Event) // does on the display what an event says
	write   func(character rune)   // types on the display
	mu      sync.Mutex             // over the rest: Release may come while Send runs
	pointer image.Point            // where the pointer is
	held    []computer.Event       // the presses that have no release yet
}

func (d *driver) Size(ctx context.Context) (image.Point, error) {
	return d.screen.Rect.Size(), ctx.Err()
}

func (d *driver) Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	if region.Empty() || !region.In(d.screen.Rect) {
		return nil, fmt.Errorf("the region %v is not within the display, %v", region, d.screen.Rect)
	}
	p, err := d.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	m := image.NewRGBA(image.Rectangle{Max: region.Size()})
	draw.Draw(m, m.Rect, d.screen, region.Min, draw.Src)
	square := image.Rect(-2, -2, 3, 3).Add(p).Sub(region.Min)
	draw.Draw(m, square, image.Black, image.Point{}, draw.Src)
	return m, nil
}

func (d *driver) Pointer(ctx context.Context) (image.Point, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pointer, ctx.Err()
}

func (d *driver) Send(ctx context.Context, events ...computer.Event) error {
	for _, e := range events {
		if err := d.happen(ctx, e); err != nil {
			return fmt.Errorf("sending input: %w", err)
		}
	}
	return nil
}

// happen makes one event happen, or refuses it.
func (d *driver) happen(ctx context.Context, e computer.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	// What is pressed or released, as it is in d.held.
	press := computer.Event{Kind: computer.KeyDown, Key: e.Key}
	if e.Kind == computer.ButtonDown || e.Kind == computer.ButtonUp {
		press = computer.Event{Kind: computer.ButtonDown, Button: e.Button}
		if e.Button < computer.LeftButton || e.Button > computer.WheelRight {
			return &computer.InputError{Text: fmt.Sprintf("the pointer has no button %d", e.Button)}
		}
	}
	at := slices.Index(d.held, press)
	switch e.Kind {
	case computer.Move:
		if !e.Point.In(d.screen.Rect) {
			return fmt.Errorf("the point %v is outside the display, %v", e.Point, d.screen.Rect)
		}
		d.pointer = e.Point
	case computer.ButtonDown, computer.KeyDown:
		if at >= 0 {
			return &computer.InputError{Text: "a key or a button is pressed that is held down already"}
		}
		d.held = append(d.held, press)
	case computer.ButtonUp, computer.KeyUp:
		if at < 0 {
			return nil // it is up
		}
		d.held = slices.Delete(d.held, at, at+1)
	default:
		return fmt.Errorf("there is no event of kind %d", e.Kind)
	}
	d.deliver(e)
	return nil
}

func (d *driver) Type(ctx context.Context, text string) (int, error) {
	for i, r := range []rune(text) {
		if err := ctx.Err(); err != nil {
			return i, err
		}
		if _, ok := computer.KeyOf(r); !ok {
			return i, &computer.InputError{Text: fmt.Sprintf("the character %U cannot be typed", r)}
		}
		d.write(r)
	}
	return utf8.RuneCountInString(text), nil
}

// Release does not look at the context, which may have ended: it takes no time here.
func (d *driver) Release(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, press := range slices.Backward(d.held) {
		up := computer.Event{Kind: computer.KeyUp, Key: press.Key}
		if press.Kind == computer.ButtonDown {
			up = computer.Event{Kind: computer.ButtonUp, Button: press.Button}
		}
		d.deliver(up)
	}
	d.held = nil
	return nil
}

// A driver of one's own has six methods. This one passes the suite of package computertest.
func ExampleDesktop() {
	desktop := &driver{
		screen: image.NewRGBA(image.Rect(0, 0, 640, 480)),
		deliver: func(e computer.Event) {
			fmt.Printf("kind %d, point %v, button %d, key %v\n", e.Kind, e.Point, e.Button, e.Key)
		},
		write: func(character rune) { fmt.Printf("write %q\n", character) },
	}
	draw.Draw(desktop.screen, desktop.screen.Rect, image.White, image.Point{}, draw.Src)
	hands, err := computer.New(desktop, &computer.Options{Confirm: computer.ApproveAll})
	if err != nil {
		fmt.Println(err)
		return
	}
	results := hands.Run(context.Background(), []computer.ToolUse{
		{ID: "1", Name: "left_click", ToolsetName: "computer", Input: json.RawMessage(`{"coordinate": [12, 34]}`)},
		{ID: "2", Name: "type", ToolsetName: "computer", Input: json.RawMessage(`{"text": "42"}`)},
		{ID: "3", Name: "key", ToolsetName: "computer", Input: json.RawMessage(`{"text": "Return"}`)},
		{ID: "4", Name: "type", ToolsetName: "computer", Input: json.RawMessage(`{"text": "\uffff"}`)},
	})
	for _, r := range results {
		fmt.Println(r.ToolUseID, r.IsError, r.Content[0].Text)
	}
	// Output:
	// kind 0, point (12,34), button 0, key 0x0
	// kind 1, point (0,0), button 1, key 0x0
	// kind 2, point (0,0), button 1, key 0x0
	// write '4'
	// write '2'
	// kind 3, point (0,0), button 0, key Return
	// kind 4, point (0,0), button 0, key Return
	// 1 false Clicked at (12, 34).
	// 2 false Typed 2 characters.
	// 3 false Pressed Return.
	// 4 true The text has U+FFFF, which is no character and cannot be typed.
}
