package computertest

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
)

func TestFake(t *testing.T) {
	Run(t, func(*testing.T) Subject { return &fakeSubject{Fake: NewFake(1800, 1130)} })
}

// fakeSubject is the fake desktop with an application that makes of events what a program
// on a display would.
type fakeSubject struct {
	*Fake

	mu    sync.Mutex
	start int // of what counts, in all
	all   []Seen
	text  int // characters that do not count any more
	held  []computer.Key
	down  []computer.Button
	at    image.Point
	last  Seen // press
	count int
	when  time.Time
}

func (s *fakeSubject) Desktop() computer.Desktop { return s }

// Send passes events on, and to the application what happened.
func (s *fakeSubject) Send(ctx context.Context, events ...computer.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.Events())
	err := s.Fake.Send(ctx, events...)
	for _, e := range s.Events()[before:] {
		s.see(e)
	}
	return err
}

// Release lets the application see what comes up.
func (s *fakeSubject) Release(ctx context.Context) error {
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

func (s *fakeSubject) see(e computer.Event) {
	seen := Seen{Button: e.Button, Key: e.Key, Point: s.at, Modifiers: s.modifiers()}
	switch e.Kind {
	case computer.Move:
		if e.Point == s.at && len(s.all) > 0 {
			return
		}
		s.at = e.Point
		seen.Kind, seen.Point = Motion, s.at
	case computer.ButtonDown:
		seen.Kind = Press
		const doubleTime, doubleDistance = 400 * time.Millisecond, 5
		distance := s.last.Point.Sub(s.at)
		if s.count++; s.last.Button != e.Button || time.Since(s.when) > doubleTime || max(distance.X, -distance.X, distance.Y, -distance.Y) > doubleDistance {
			s.count = 1
		}
		seen.Count = s.count
		s.last, s.when = seen, time.Now()
		s.down = append(s.down, e.Button)
	case computer.ButtonUp:
		seen.Kind = Release
		s.down = slices.DeleteFunc(s.down, func(b computer.Button) bool { return b == e.Button })
	case computer.KeyDown, computer.KeyUp:
		seen.Kind, seen.Point = KeyPress, image.Point{}
		if e.Kind == computer.KeyUp {
			seen.Kind = KeyRelease
		}
		if strings.Contains(seen.Modifiers, "shift") && e.Key >= 'a' && e.Key <= 'z' {
			seen.Key -= 'a' - 'A'
		}
		s.held = slices.DeleteFunc(s.held, func(k computer.Key) bool { return k == e.Key })
		if e.Kind == computer.KeyDown {
			s.held = append(s.held, e.Key)
		}
	}
	s.all = append(s.all, seen)
}

func (s *fakeSubject) modifiers() string {
	var names []string
	for _, m := range []struct {
		name string
		key  computer.Key
	}{{"shift", computer.KeyShift}, {"ctrl", computer.KeyControl}, {"alt", computer.KeyAlt}, {"super", computer.KeySuper}} {
		if slices.Contains(s.held, m.key) {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, "+")
}

func (s *fakeSubject) Reset(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.text = len(s.all), len([]rune(s.Fake.Text()))
	s.count, s.last = 0, Seen{}
}

func (s *fakeSubject) Area(t testing.TB) image.Rectangle {
	size, err := s.Size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return image.Rectangle{Max: size}
}

func (s *fakeSubject) Seen(testing.TB) []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all[s.start:])
}

func (s *fakeSubject) Text(testing.TB) string { return string([]rune(s.Fake.Text())[s.text:]) }

func (s *fakeSubject) Held(testing.TB) (int, []computer.Button) {
	keys, buttons := s.Fake.Held()
	return len(keys), buttons
}

func (s *fakeSubject) Paint(_ testing.TB, m image.Image) {
	s.Fake.Paint(func(screen *image.RGBA) { draw.Draw(screen, m.Bounds(), m, m.Bounds().Min, draw.Src) })
}

func (s *fakeSubject) Resize(_ testing.TB, size image.Point) { s.Fake.Resize(size.X, size.Y) }
