package computertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/computer"
)

// testDesktop tests the contract of computer.Desktop.
func (s *suite) testDesktop(t *testing.T) {
	tests := []namedTest{
		{"Size", testSize},
		{"Move", testMove},
		{"Move outside the display", testMoveOutside},
		{"Send keeps the order", testOrder},
		{"Send without events", testSendNothing},
		{"Send refuses", testSendRefuses},
		{"Press of what is held", testPressHeld},
		{"Release of what is not held", testReleaseUnheld},
		{"Release of one of several", testReleaseNamed},
		{"Key with its own shift", testOwnShift},
		{"Key with a held shift", testHeldShift},
		{"Release", testRelease},
		{"Release with an ended context", testReleaseEnded},
		{"Type counts", testTypeCounts},
		{"Type refuses", testTypeRefuses},
		{"Type leaves held keys", testTypeHeld},
		{"Type that is cancelled", testTypeCancelled},
		{"Capture", testCapture},
		{"Capture belongs to the caller", testCaptureOwned},
		{"Ended context", testEndedContext},
	}
	tests = append(tests, when(s.paints,
		namedTest{"Capture shows the pointer", testCapturePointer},
		namedTest{"Capture sees what is new", testCaptureFresh})...)
	tests = append(tests, when(s.settles, namedTest{"Settle", testSettle})...)
	s.run(t, tests)
}

func (t *test) size() image.Point {
	t.Helper()
	size, err := t.d.Size(t.Context())
	if err != nil {
		t.Fatalf("Size: %v", err)
	}
	return size
}

func (t *test) capture(r image.Rectangle) *image.RGBA {
	t.Helper()
	m, err := t.d.Capture(t.Context(), r)
	if err != nil {
		t.Fatalf("Capture %v: %v", r, err)
	}
	return m
}

func testSize(t *test) {
	display := image.Rectangle{Max: t.size()}
	if area := t.s.Area(t); !area.In(display) || area.Dx() < 200 || area.Dy() < 80 {
		t.Errorf("the display is %v and the application has %v of it", display, area)
	}
}

func testMove(t *test) {
	area := t.s.Area(t)
	display := image.Rectangle{Max: t.size()}
	for _, p := range append(append(corners(display), corners(area)...), randomPoints(area, 10)...) {
		// Moving to where the pointer is already is no move, and no reason to wait for one.
		for range 2 {
			t.send(move(p))
			if at, err := t.d.Pointer(t.Context()); err != nil || at != p {
				t.Fatalf("after a move to %v the pointer is said to be at %v (%v)", p, at, err)
			}
		}
		if p.In(area) {
			t.eventually("the application sees the pointer come", func() bool {
				moves := only(t.s.Seen(t), Motion)
				return len(moves) > 0 && moves[len(moves)-1].Point == p
			})
		}
	}
}

func testMoveOutside(t *test) {
	size := t.size()
	inside := t.s.Area(t).Min.Add(image.Pt(30, 30))
	for _, p := range []image.Point{
		{size.X, 5}, {5, size.Y}, size, {-1, 5}, {5, -1}, {size.X + 65536, 5}, {5, math.MinInt32}, {math.MaxInt32, math.MaxInt32},
	} {
		t.send(move(inside))
		if err := t.d.Send(t.Context(), move(p), press(computer.LeftButton), release(computer.LeftButton)); err == nil {
			t.Errorf("a move to %v, on a display of %v, is no error", p, size)
		}
		if at, err := t.d.Pointer(t.Context()); err != nil || at != inside {
			t.Errorf("after a move to %v, on a display of %v, the pointer went from %v to %v (%v)", p, size, inside, at, err)
		}
	}
	t.wantNothingHeld()
	if all := only(t.seen(), Press); len(all) > 0 {
		t.Errorf("the application saw %v, which came after moves that are refused", all)
	}
}

func testSendNothing(t *test) {
	if err := t.d.Send(t.Context()); err != nil {
		t.Errorf("Send without events: %v", err)
	}
}

// wantRefused wants an InputError for an event.
func (t *test) wantRefused(what string, event computer.Event) {
	t.Helper()
	var input *computer.InputError
	if err := t.d.Send(t.Context(), event); !errors.As(err, &input) {
		t.Errorf("%s gave %v, want an InputError", what, err)
	}
}

func testSendRefuses(t *test) {
	t.wantRefused("pressing button 0", press(0))
	t.wantRefused("pressing button -1", press(-1))
	t.wantRefused("pressing button 257", press(257))
	if err := t.d.Send(t.Context(), computer.Event{Kind: 99}); err == nil {
		t.Error("an event of a kind that does not exist is no error")
	}
	t.wantNothingHeld()
	if all := only(t.seen(), Press, KeyPress); len(all) > 0 {
		t.Errorf("the application saw %v of what is refused", all)
	}
}

const keyF6 computer.Key = 0xffc3

// testPressHeld: what is pressed once is released once, so a second press is a mistake.
func testPressHeld(t *test) {
	at := t.s.Area(t).Min.Add(image.Pt(30, 30))
	t.send(move(at), keyDown(keyF6), press(computer.LeftButton))
	t.wantRefused("pressing the key F6, which is held,", keyDown(keyF6))
	t.wantRefused("pressing the left button, which is held,", press(computer.LeftButton))
	t.wantHeld(1, computer.LeftButton)
	t.send(release(computer.LeftButton), keyUp(keyF6))
	t.wantNothingHeld()
	if all := only(t.seen(), Press); len(all) != 1 {
		t.Errorf("the application saw %v, want one press", all)
	}
}

func testReleaseUnheld(t *test) {
	at := t.s.Area(t).Min.Add(image.Pt(30, 30))
	t.send(move(at), keyUp('x'), keyUp(computer.KeyShift), release(computer.LeftButton), release(computer.RightButton))
	t.wantNothingHeld()
	if all := only(t.seen(), Press, KeyPress); len(all) > 0 {
		t.Errorf("the application saw %v when what is not held was released", all)
	}
}

// wantHeld wants some keys and buttons down.
func (t *test) wantHeld(keys int, buttons ...computer.Button) {
	t.Helper()
	t.eventually(fmt.Sprintf("%d keys and the buttons %v are down", keys, buttons), func() bool {
		k, b := t.s.Held(t)
		return k == keys && slices.Equal(b, buttons)
	})
}

// testReleaseNamed releases the first of two, which is not the last that was pressed.
func testReleaseNamed(t *test) {
	at := t.s.Area(t).Min.Add(image.Pt(30, 30))
	t.send(move(at), press(computer.LeftButton), press(computer.RightButton))
	t.send(release(computer.LeftButton))
	t.wantHeld(0, computer.RightButton)
	t.send(release(computer.RightButton))
	t.wantHeld(0)
	t.send(keyDown(computer.KeyControl), keyDown(computer.KeyShift))
	t.send(keyUp(computer.KeyControl))
	t.wantHeld(1)
	t.send(keyUp(computer.KeyShift))
	t.wantHeld(0)
	var got []Seen
	for _, e := range only(t.seen(), Press, Release, KeyPress, KeyRelease) {
		got = append(got, Seen{Kind: e.Kind, Button: e.Button, Modifiers: e.Modifiers})
	}
	want := []Seen{
		{Kind: Press, Button: computer.LeftButton}, {Kind: Press, Button: computer.RightButton},
		{Kind: Release, Button: computer.LeftButton}, {Kind: Release, Button: computer.RightButton},
		{Kind: KeyPress}, {Kind: KeyPress, Modifiers: "ctrl"},
		{Kind: KeyRelease, Modifiers: "shift+ctrl"}, {Kind: KeyRelease, Modifiers: "shift"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the application saw\n%v, want\n%v", got, want)
	}
}

func testOrder(t *test) {
	area := t.s.Area(t)
	a, b := area.Min.Add(image.Pt(20, 20)), area.Min.Add(image.Pt(90, 40))
	t.send(
		move(a), keyDown(computer.KeyShift), press(computer.LeftButton), release(computer.LeftButton), keyUp(computer.KeyShift),
		keyDown('x'), keyUp('x'),
		move(b), press(computer.WheelDown), release(computer.WheelDown),
		press(computer.RightButton), release(computer.RightButton),
		keyDown('y'), keyUp('y'),
	)
	var got []Seen
	for _, e := range t.seen() {
		e.Count = 0
		if e.Kind != Motion && (e.Kind != Release || e.Button < computer.WheelUp) {
			got = append(got, e)
		}
	}
	want := []Seen{
		{Kind: KeyPress, Key: computer.KeyShift},
		{Kind: Press, Button: computer.LeftButton, Point: a, Modifiers: "shift"},
		{Kind: Release, Button: computer.LeftButton, Point: a, Modifiers: "shift"},
		{Kind: KeyRelease, Key: computer.KeyShift, Modifiers: "shift"},
		{Kind: KeyPress, Key: 'x'},
		{Kind: KeyRelease, Key: 'x'},
		{Kind: Press, Button: computer.WheelDown, Point: b},
		{Kind: Press, Button: computer.RightButton, Point: b},
		{Kind: Release, Button: computer.RightButton, Point: b},
		{Kind: KeyPress, Key: 'y'},
		{Kind: KeyRelease, Key: 'y'},
	}
	if got := symbolsOf(got); !reflect.DeepEqual(got, want) {
		t.Errorf("the application saw\n%v, want\n%v", got, want)
	}
}

// symbolsOf gives keys their character where they have several symbols for it, as
// Cyrillic ones do.
func symbolsOf(all []Seen) []Seen {
	for i := range all {
		if r, ok := all[i].Key.Rune(); ok {
			if k, ok := computer.KeyOf(r); ok {
				all[i].Key = k
			}
		}
	}
	return all
}

// keysPressed returns the keys that went down, without modifiers.
func keysPressed(all []Seen) []Seen {
	var some []Seen
	for _, e := range symbolsOf(only(all, KeyPress)) {
		if !isModifier(e.Key) {
			some = append(some, e)
		}
	}
	return some
}

func isModifier(k computer.Key) bool {
	const shiftL, hyperR, altGr, level5Lock, modeSwitch, numLock = 0xffe1, 0xffee, 0xfe03, 0xfe13, 0xff7e, 0xff7f
	return k >= shiftL && k <= hyperR || k >= altGr && k <= level5Lock || k == modeSwitch || k == numLock
}

func testOwnShift(t *test) {
	for _, k := range []computer.Key{'A', '@', '<', '>', '{', '~', '?', 'é', 'ж', 'Ж', '漢'} {
		k, _ := computer.KeyOf(rune(k))
		t.s.Reset(t)
		t.send(keyDown(k))
		if keys, _ := t.s.Held(t); keys == 0 {
			t.Errorf("%v is down, and the desktop holds nothing", k)
		}
		t.send(keyUp(k))
		t.wantNothingHeld()
		got := keysPressed(t.seen())
		if len(got) != 1 || got[0].Key != k {
			t.Errorf("the application saw the keys %v, want %v", got, k)
		}
	}
}

// testHeldShift presses letters while Shift is held by an event of its own.
func testHeldShift(t *test) {
	for _, k := range []computer.Key{'f', 'F'} {
		t.s.Reset(t)
		t.send(keyDown(computer.KeyShift), keyDown(k), keyUp(k), keyUp(computer.KeyShift))
		t.wantNothingHeld()
		want := []Seen{{Kind: KeyPress, Key: 'F', Modifiers: "shift"}}
		if got := keysPressed(t.seen()); !reflect.DeepEqual(got, want) {
			t.Errorf("the key %c with Shift held: the application saw %v, want %v", k, got, want)
		}
		t.wantText("F")
	}
}

// testReleaseEnded: Release is for when everything else has failed.
func testReleaseEnded(t *test) {
	at := t.s.Area(t).Min.Add(image.Pt(30, 30))
	t.send(move(at), keyDown(computer.KeyControl), press(computer.LeftButton))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := t.d.Release(ended); err != nil {
		t.Errorf("Release with a context that had ended before: %v", err)
	}
	t.wantNothingHeld()
}

func testRelease(t *test) {
	at := t.s.Area(t).Min.Add(image.Pt(30, 30))
	t.send(move(at), keyDown(computer.KeyControl), keyDown('A'), keyDown(computer.KeyReturn),
		press(computer.LeftButton), press(computer.RightButton))
	if keys, buttons := t.s.Held(t); keys < 3 || !reflect.DeepEqual(buttons, []computer.Button{1, 3}) {
		t.Errorf("%d keys and the buttons %v are down, want some and 1 and 3", keys, buttons)
	}
	for range 2 {
		if err := t.d.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		t.wantNothingHeld()
	}
	all := t.seen()
	down := map[any]int{}
	for _, e := range all {
		switch e.Kind {
		case Press:
			down[e.Button]++
		case Release:
			down[e.Button]--
		}
	}
	for button, times := range down {
		if times != 0 {
			t.Errorf("the application saw button %v go down %d times more than it came up: %v", button, times, all)
		}
	}
}

func testTypeCounts(t *test) {
	text := ""
	for _, part := range []string{"", "a", "Zz@{", "éж漢😀", "\n\t", "  aa漢漢"} {
		n, err := t.d.Type(t.Context(), part)
		if want := len([]rune(part)); n != want || err != nil {
			t.Errorf("Type(%q) typed %d (%v), want %d", part, n, err, want)
		}
		text += part
	}
	t.wantText(text)
}

func testTypeRefuses(t *test) {
	const before = "abc漢"
	n, err := t.d.Type(t.Context(), before+"\uffff"+"def")
	var input *computer.InputError
	if !errors.As(err, &input) {
		t.Fatalf("typing U+FFFF, which is no character, gave %v, want an InputError", err)
	}
	if n < 0 || n > len([]rune(before)) {
		t.Fatalf("%d characters are said to be typed", n)
	}
	t.wantText(string([]rune(before)[:n]))
}

// testTypeHeld types while Shift is held. A driver may work around that or refuse; it must
// not let go, nor type something else.
func testTypeHeld(t *test) {
	t.send(keyDown(computer.KeyShift))
	const text = "a漢"
	n, err := t.d.Type(t.Context(), text)
	if keys, _ := t.s.Held(t); keys != 1 {
		t.Errorf("%d keys are down, want the one that was", keys)
	}
	t.send(keyUp(computer.KeyShift))
	if n < 0 || n > len([]rune(text)) || err == nil && n < len([]rune(text)) {
		t.Errorf("%d of the characters of %q were typed: %v", n, text, err)
	}
	t.wantText(string([]rune(text)[:n]))
}

// testTypeCancelled: what is said to be typed is what has been typed, also when it was cut
// short.
func testTypeCancelled(t *test) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := []rune(mixedText(2000))
	type result struct {
		typed int
		err   error
	}
	done := make(chan result, 1)
	go func() {
		n, err := t.d.Type(ctx, string(text))
		done <- result{n, err}
	}()
	t.eventually("some of the text has come", func() bool { return t.s.Text(t) != "" })
	cancel()
	r := <-done
	if r.typed < 0 || r.typed > len(text) || r.err == nil && r.typed < len(text) || r.err != nil && !errors.Is(r.err, context.Canceled) {
		t.Fatalf("a Type of %d characters that was cancelled typed %d: %v", len(text), r.typed, r.err)
	}
	t.wantNothingHeld()
	t.wantText(string(text[:r.typed]))
}

func testCapture(t *test) {
	display := image.Rectangle{Max: t.size()}
	painter, paints := t.s.Subject.(Painter)
	area := t.s.Area(t)
	// As much as a test can paint and compare in a short time, at the far corner.
	painted := image.Rectangle{area.Max.Sub(image.Pt(700, 500)), area.Max}.Intersect(area)
	want := gradient(painted)
	if paints {
		painter.Paint(t, want)
	}
	t.send(move(area.Min)) // out of the way
	for _, r := range []image.Rectangle{
		display,
		image.Rect(area.Min.X, area.Min.Y, area.Min.X+1, area.Min.Y+1),
		image.Rect(area.Max.X-1, area.Max.Y-1, area.Max.X, area.Max.Y),
		{area.Min.Add(image.Pt(51, 31)), area.Max.Sub(image.Pt(3, 1))},
	} {
		m := t.capture(r)
		if m.Rect.Min != (image.Point{}) || m.Rect.Size() != r.Size() {
			t.Fatalf("the capture of %v has the bounds %v", r, m.Rect)
		}
		if !m.Opaque() {
			t.Errorf("the capture of %v is not opaque", r)
		}
		if !paints {
			continue
		}
		common := r.Intersect(painted)
		wrong := 0
		for y := common.Min.Y; y < common.Max.Y; y++ {
			row := func(m *image.RGBA, at image.Point) []byte { return m.Pix[m.PixOffset(at.X, at.Y):][:4*common.Dx()] }
			if bytes.Equal(row(m, image.Pt(common.Min.X, y).Sub(r.Min)), row(want, image.Pt(common.Min.X, y))) {
				continue
			}
			for x := common.Min.X; x < common.Max.X; x++ {
				if got, want := m.RGBAAt(x-r.Min.X, y-r.Min.Y), want.RGBAAt(x, y); got != want {
					if wrong++; wrong == 1 {
						t.Errorf("pixel (%d,%d) of the display is %v, want %v", x, y, got, want)
					}
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%d of the pixels in %v are wrong", wrong, common)
		}
	}
	for _, r := range []image.Rectangle{
		display.Add(image.Pt(1, 0)), display.Add(image.Pt(0, -1)), {Min: display.Max, Max: display.Max.Add(image.Pt(5, 5))}, {},
	} {
		if m, err := t.d.Capture(t.Context(), r); err == nil {
			t.Errorf("the capture of %v, on a display of %v, is %v and no error", r, display.Max, m.Rect)
		}
	}
}

func testCapturePointer(t *test) {
	area := t.s.Area(t)
	painter := t.s.Subject.(Painter) // else the pointer cannot be told from what is under it
	for _, p := range append(corners(area), area.Min.Add(area.Max).Div(2)) {
		around := image.Rectangle{p.Sub(image.Pt(24, 24)), p.Add(image.Pt(25, 25))}.Intersect(area)
		m := image.NewRGBA(around)
		draw.Draw(m, around, image.NewUniform(color.Gray{200}), image.Point{}, draw.Src)
		painter.Paint(t, m)
		t.send(move(p))
		changed := func() bool {
			for pix := t.capture(around).Pix; len(pix) > 0; pix = pix[4:] {
				if !bytes.Equal(pix[:4], []byte{200, 200, 200, 255}) {
					return true
				}
			}
			return false
		}
		t.eventually("the pointer is in the picture", changed)
	}
}

// testCaptureOwned writes into what was captured: a driver that keeps it would show that.
func testCaptureOwned(t *test) {
	area := t.s.Area(t)
	t.send(move(area.Max.Sub(image.Pt(1, 1))))
	for _, r := range []image.Rectangle{{area.Min, area.Min.Add(image.Pt(40, 40))}, {Max: t.size()}} {
		first := t.capture(r)
		for i := range first.Pix {
			first.Pix[i] = 7
		}
		second := t.capture(r)
		for _, v := range first.Pix {
			if v != 7 {
				t.Fatalf("a later capture of %v changed the pixels of an earlier one", r)
			}
		}
		for i := 3; i < len(second.Pix); i += 4 {
			if second.Pix[i] == 7 {
				t.Fatalf("a capture of %v has the pixels that the owner of an earlier one wrote there", r)
			}
		}
	}
}

func testCaptureFresh(t *test) {
	painter := t.s.Subject.(Painter)
	area := t.s.Area(t)
	t.send(move(area.Max.Sub(image.Pt(1, 1))))
	r := image.Rectangle{area.Min, area.Min.Add(image.Pt(40, 40))}
	for _, c := range []color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {1, 2, 3, 255}, {255, 255, 255, 255}} {
		m := image.NewRGBA(r)
		for i := 0; i < len(m.Pix); i += 4 {
			copy(m.Pix[i:], []byte{c.R, c.G, c.B, c.A})
		}
		painter.Paint(t, m)
		if got := t.capture(r).RGBAAt(20, 20); got != c {
			t.Errorf("a capture after painting %v has %v", c, got)
		}
	}
}

func testSettle(t *test) {
	settler := t.d.(computer.Settler)
	t.send(move(t.s.Area(t).Min))
	if err := settler.Settle(t.Context()); err != nil {
		t.Errorf("Settle: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := settler.Settle(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Settle with an ended context: %v, want one that wraps %v", err, context.Canceled)
	}
}

func testEndedContext(t *test) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := t.s.Area(t).Min.Add(image.Pt(30, 30))
	for name, do := range map[string]func() error{
		"Size":    func() error { _, err := t.d.Size(ended); return err },
		"Capture": func() error { _, err := t.d.Capture(ended, image.Rect(0, 0, 10, 10)); return err },
		"Pointer": func() error { _, err := t.d.Pointer(ended); return err },
		"Send": func() error {
			return t.d.Send(ended, move(at), press(computer.LeftButton), keyDown('x'), keyUp('x'))
		},
		"Type": func() error { _, err := t.d.Type(ended, strings.Repeat("xyz漢", 50)); return err },
	} {
		if err := do(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v, want one that wraps %v", name, err, context.Canceled)
		}
	}
	t.wantNothingHeld()
	if all := only(t.seen(), Press, KeyPress); len(all) > 0 {
		t.Errorf("the application saw %v", all)
	}
}
