package computer_test

import (
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

// TestExampleDriver: what the example shows is a right driver.
func TestExampleDriver(t *testing.T) {
	computertest.Run(t, func(*testing.T) computertest.Subject {
		s := &driverSubject{}
		s.driver = &driver{screen: image.NewRGBA(image.Rect(0, 0, 1800, 1130)), deliver: s.see, write: s.write}
		draw.Draw(s.driver.screen, s.driver.screen.Rect, image.White, image.Point{}, draw.Src)
		return s
	})
}

// driverSubject is the application on the display of the example's driver.
type driverSubject struct {
	driver *driver

	mu   sync.Mutex
	seen []computertest.Seen
	text []rune
	down map[computer.Event]bool // by the event that pressed it
	at   image.Point
	last computertest.Seen // press of a button
	when time.Time         // of that
}

func (s *driverSubject) Desktop() computer.Desktop { return s.driver }

func (s *driverSubject) write(r rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, r)
}

func (s *driverSubject) see(e computer.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := computertest.Seen{Modifiers: s.modifiers()}
	switch e.Kind {
	case computer.Move:
		s.at = e.Point
		seen.Kind, seen.Point = computertest.Motion, s.at
	case computer.ButtonDown:
		seen.Kind, seen.Button, seen.Point, seen.Count = computertest.Press, e.Button, s.at, 1
		way := s.last.Point.Sub(s.at)
		if s.last.Button == e.Button && e.Button < computer.WheelUp && time.Since(s.when) <= 400*time.Millisecond && max(way.X, -way.X, way.Y, -way.Y) <= 5 {
			seen.Count += s.last.Count
		}
		s.last, s.when = seen, time.Now()
		s.down[e] = true
	case computer.ButtonUp:
		seen.Kind, seen.Button, seen.Point = computertest.Release, e.Button, s.at
		delete(s.down, computer.Event{Kind: computer.ButtonDown, Button: e.Button})
	case computer.KeyDown:
		seen.Kind, seen.Key = computertest.KeyPress, s.symbol(e.Key)
		if r, ok := seen.Key.Rune(); ok && strings.Trim(seen.Modifiers, "shift") == "" {
			s.text = append(s.text, r)
		}
		s.down[e] = true
	case computer.KeyUp:
		seen.Kind, seen.Key = computertest.KeyRelease, s.symbol(e.Key)
		delete(s.down, computer.Event{Kind: computer.KeyDown, Key: e.Key})
	}
	s.seen = append(s.seen, seen)
}

func (s *driverSubject) isDown(k computer.Key) bool {
	return s.down[computer.Event{Kind: computer.KeyDown, Key: k}]
}

func (s *driverSubject) symbol(k computer.Key) computer.Key {
	if k >= 'a' && k <= 'z' && s.isDown(computer.KeyShift) {
		return k - 'a' + 'A'
	}
	return k
}

func (s *driverSubject) modifiers() string {
	var names []string
	for _, m := range []struct {
		key  computer.Key
		name string
	}{{computer.KeyShift, "shift"}, {computer.KeyControl, "ctrl"}, {computer.KeyAlt, "alt"}, {computer.KeySuper, "super"}} {
		if s.isDown(m.key) {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, "+")
}

func (s *driverSubject) Reset(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.text, s.last = nil, nil, computertest.Seen{}
	if s.down == nil {
		s.down = map[computer.Event]bool{}
	}
}

func (s *driverSubject) Area(testing.TB) image.Rectangle { return s.driver.screen.Rect }

func (s *driverSubject) Seen(testing.TB) []computertest.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *driverSubject) Text(testing.TB) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

func (s *driverSubject) Held(testing.TB) (keys int, buttons []computer.Button) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.down {
		if e.Kind == computer.KeyDown {
			keys++
		} else {
			buttons = append(buttons, e.Button)
		}
	}
	slices.Sort(buttons)
	return keys, buttons
}

func (s *driverSubject) Paint(_ testing.TB, m image.Image) {
	draw.Draw(s.driver.screen, m.Bounds(), m, m.Bounds().Min, draw.Src)
}
