package x11

import (
	"errors"
	"image"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// grab connects a client that looks at every press of a button before the window under the
// pointer gets it, as window managers do, and calls decide for it, on its own goroutine.
func grab(t *testing.T, server *desktest.Server, decide func(l *link, at xproto.Timestamp)) {
	t.Helper()
	l, err := connect(t.Context(), server.Name(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	l.handlers[xproto.ButtonPress] = func(data []byte) {
		event, _ := xproto.ButtonPressEventNew(data).(xproto.ButtonPressEvent)
		decide(l, event.Time)
	}
	l.listen()
	t.Cleanup(func() { l.breakOff(); <-l.done })
	if err := xproto.GrabButtonChecked(l.x, true, l.root, xproto.EventMaskButtonPress, xproto.GrabModeSync, xproto.GrabModeAsync,
		xproto.WindowNone, xproto.CursorNone, xproto.ButtonIndexAny, xproto.ModMaskAny).Check(); err != nil {
		t.Fatal(err)
	}
}

func replay(l *link, at xproto.Timestamp) { xproto.AllowEvents(l.x, xproto.AllowReplayPointer, at) }

// TestSendToGrabbedButton: a window manager that takes its time to look at a press must
// not make the release, the next click or a key come elsewhere or out of order.
func TestSendToGrabbedButton(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	grab(t, w.server, func(l *link, at xproto.Timestamp) {
		time.AfterFunc(20*time.Millisecond, func() { replay(l, at) })
	})
	a, b := image.Pt(100, 100), image.Pt(300, 200)
	events := func(p image.Point) []computer.Event {
		return []computer.Event{
			{Kind: computer.Move, Point: p},
			{Kind: computer.ButtonDown, Button: computer.LeftButton}, {Kind: computer.ButtonUp, Button: computer.LeftButton},
			{Kind: computer.KeyDown, Key: 'x'}, {Kind: computer.KeyUp, Key: 'x'},
		}
	}
	w.send(append(events(a), events(b)...)...)
	w.send(events(a)...)
	w.window.Sync(t)
	type seen struct {
		Kind  desktest.XKind
		Point image.Point
	}
	var got, want []seen
	for _, e := range w.window.Events() {
		if e.Kind != desktest.Motion {
			got = append(got, seen{e.Kind, e.Point})
		}
	}
	for _, p := range []image.Point{a, b, a} {
		for _, kind := range []desktest.XKind{desktest.ButtonPress, desktest.ButtonRelease, desktest.KeyPress, desktest.KeyRelease} {
			want = append(want, seen{kind, p})
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the window saw\n%v, want\n%v", got, want)
	}
}

// TestSendToHungGrab: a window manager that hangs holds Send up for a while only, and
// Release too.
func TestSendToHungGrab(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	pressed := make(chan struct{}, 1)
	grab(t, w.server, func(*link, xproto.Timestamp) { pressed <- struct{}{} })
	w.send(computer.Event{Kind: computer.Move, Point: image.Pt(10, 10)},
		computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}, computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
	<-pressed
	w.send(press(computer.KeyShift)...)
	if err := w.display.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if keys := w.server.KeysDown(t); len(keys) > 0 {
		t.Errorf("the keys %v are down", keys)
	}
}

// TestSendToKeptPointer holds that nothing is pressed when a program keeps the pointer away
// from where it is to be, and that this is an error which the model sees.
func TestSendToKeptPointer(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	p := newPainter(t, w.server)
	pen := p.window(image.Rect(100, 100, 300, 300))
	reply, err := xproto.GrabPointer(p.x, true, p.root, 0, xproto.GrabModeAsync, xproto.GrabModeAsync, pen, 0, 0).Reply()
	if err != nil || reply.Status != xproto.GrabStatusSuccess {
		t.Fatalf("confining the pointer: %v, %v", reply, err)
	}
	kept := func(what string, events ...computer.Event) {
		t.Helper()
		var input *computer.InputError
		if err := w.display.Send(t.Context(), events...); !errors.As(err, &input) || !strings.Contains(err.Error(), "could not be moved there") {
			t.Errorf("%s: %v", what, err)
		}
	}
	outside, inside := moveTo(600, 600), moveTo(200, 200)
	kept("a move", outside)
	kept("a click", append([]computer.Event{outside}, click(computer.LeftButton)...)...)
	kept("a click with a modifier", slices.Concat([]computer.Event{outside}, press(computer.KeyControl), click(computer.LeftButton), letGo(computer.KeyControl))...)
	kept("a drag", inside, computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}, outside,
		computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
	if _, down := w.server.Pointer(t); !slices.Equal(down, []int{1}) {
		t.Errorf("a drag that has failed holds the buttons %v, want the first", down)
	}
	if err := w.display.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.send(append([]computer.Event{inside}, click(computer.LeftButton)...)...)
	if err := xproto.UngrabPointerChecked(p.x, 0).Check(); err != nil {
		t.Fatal(err)
	}
	nothingDown(t, w.server)
	w.send(append([]computer.Event{outside}, click(computer.LeftButton)...)...)
	if got, want := w.got(), "(600,600) +1 -1"; got != want {
		t.Errorf("the window got %s, want %s", got, want)
	}
}
