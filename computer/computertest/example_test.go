package computertest_test

import (
	"context"
	"image"
	"image/draw"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
)

// The test of a driver. In a test of one's own, testDriver has the name TestDriver, and go
// test runs it.
func ExampleRun() {
	_ = testDriver
}

func testDriver(t *testing.T) {
	computertest.Run(t, func(*testing.T) computertest.Subject {
		// A real driver is opened here and closed with t.Cleanup, and so is the
		// application: a program that shows a text field and logs its events.
		return &subject{Fake: computertest.NewFake(1800, 1130)}
	})
}

// subject is both the driver under test, which is a fake desktop, and the application on it,
// which makes of the driver's events what a program on a real display would.
type subject struct {
	*computertest.Fake

	mu    sync.Mutex // the suite calls Seen while the driver works
	seen  []computertest.Seen
	start int // characters of the text that came before Reset
	held  []computer.Key
	down  []computer.Button
	at    image.Point
	last  computertest.Seen // press of a button
	when  time.Time         // of that
}

func (s *subject) Desktop() computer.Desktop { return s }

func (s *subject) Send(ctx context.Context, events ...computer.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.Events())
	err := s.Fake.Send(ctx, events...)
	for _, e := range s.Events()[before:] { // what has happened
		s.see(e)
	}
	return err
}

func (s *subject) Release(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Fake.Release(ctx); err != nil {
		return err
	}
	for _, b := range slices.Clone(s.down) {
		s.see(computer.Event{Kind: computer.ButtonUp, Button: b})
	}
	for _, k := range slices.Clone(s.held) {
		s.see(computer.Event{Kind: computer.KeyUp, Key: k})
	}
	return nil
}

// see is what the application makes of an event.
func (s *subject) see(e computer.Event) {
	seen := computertest.Seen{Modifiers: s.modifiers()}
	switch e.Kind {
	case computer.Move:
		s.at = e.Point
		seen.Kind, seen.Point = computertest.Motion, s.at
	case computer.ButtonDown:
		seen.Kind, seen.Button, seen.Point, seen.Count = computertest.Press, e.Button, s.at, 1
		const doubleTime, doubleDistance = 400 * time.Millisecond, 5
		way := s.last.Point.Sub(s.at)
		if s.last.Button == e.Button && time.Since(s.when) <= doubleTime && max(way.X, -way.X, way.Y, -way.Y) <= doubleDistance {
			seen.Count += s.last.Count
		}
		if e.Button >= computer.WheelUp {
			seen.Count = 1
		}
		s.last, s.when = seen, time.Now()
		s.down = append(s.down, e.Button)
	case computer.ButtonUp:
		if !slices.Contains(s.down, e.Button) {
			return
		}
		seen.Kind, seen.Button, seen.Point = computertest.Release, e.Button, s.at
		s.down = slices.DeleteFunc(s.down, func(b computer.Button) bool { return b == e.Button })
	case computer.KeyDown:
		seen.Kind, seen.Key = computertest.KeyPress, s.symbol(e.Key)
		s.held = append(s.held, e.Key)
	case computer.KeyUp:
		if !slices.Contains(s.held, e.Key) {
			return
		}
		seen.Kind, seen.Key = computertest.KeyRelease, s.symbol(e.Key)
		s.held = slices.DeleteFunc(s.held, func(k computer.Key) bool { return k == e.Key })
	}
	s.seen = append(s.seen, seen)
}

// symbol is what a key makes while some are held: with Shift, a letter is a capital.
func (s *subject) symbol(k computer.Key) computer.Key {
	if k >= 'a' && k <= 'z' && slices.Contains(s.held, computer.KeyShift) {
		return k - 'a' + 'A'
	}
	return k
}

func (s *subject) modifiers() string {
	var names []string
	for _, m := range []struct {
		key  computer.Key
		name string
	}{{computer.KeyShift, "shift"}, {computer.KeyControl, "ctrl"}, {computer.KeyAlt, "alt"}, {computer.KeySuper, "super"}} {
		if slices.Contains(s.held, m.key) {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, "+")
}

func (s *subject) Reset(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.last, s.start = nil, computertest.Seen{}, len([]rune(s.Fake.Text()))
}

func (s *subject) Area(t testing.TB) image.Rectangle {
	size, err := s.Size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return image.Rectangle{Max: size}
}

func (s *subject) Seen(testing.TB) []computertest.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *subject) Text(testing.TB) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string([]rune(s.Fake.Text())[s.start:])
}

func (s *subject) Held(testing.TB) (int, []computer.Button) {
	keys, buttons := s.Fake.Held()
	slices.Sort(buttons)
	return len(keys), buttons
}

// Paint makes it a computertest.Painter, so that the suite looks at pixels too.
func (s *subject) Paint(_ testing.TB, m image.Image) {
	s.Fake.Paint(func(screen *image.RGBA) { draw.Draw(screen, m.Bounds(), m, m.Bounds().Min, draw.Src) })
}

// Resize makes it a computertest.Resizer.
func (s *subject) Resize(_ testing.TB, size image.Point) { s.Fake.Resize(size.X, size.Y) }
