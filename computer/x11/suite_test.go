package x11

import (
	"image"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestSuite runs the suite of every driver on displays with and without a window manager
// and under several layouts. The application is either a plain window that covers the
// display, and so sees every pixel, or a GTK program.
func TestSuite(t *testing.T) {
	for _, test := range []struct {
		name    string
		options desktest.Options
		manager string
		layout  string
		gtk     bool
	}{
		{name: "bare", options: desktest.Options{Width: 2560, Height: 1600}},
		{name: "bare, GTK, de", layout: "de", gtk: true},
		{name: "mutter, fr", layout: "fr", manager: "mutter"},
		{name: "mutter, GTK", manager: "mutter", gtk: true},
		{name: "openbox, GTK, ru", layout: "ru", manager: "openbox", gtk: true},
		{name: "openbox, us and ru", layout: "us,ru", manager: "openbox"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			computertest.Run(t, func(t *testing.T) computertest.Subject {
				server := desktest.Xvfb(t, test.options)
				if test.layout != "" {
					server.Layout(t, test.layout)
				}
				if test.manager != "" {
					server.WindowManager(t, test.manager)
				}
				display, err := Open(t.Context(), server.Name(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := display.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
				s := subject{server, display}
				if test.gtk {
					return &gtkSubject{s, server.GTK(t, desktest.GTKOptions{X: 60, Y: 40, Height: 600}), test.manager}
				}
				return &windowSubject{s, server.Window(t, desktest.WindowOptions{})}
			})
		})
	}
}

// subject is what all subjects have in common.
type subject struct {
	server  *desktest.Server
	display *Display
}

func (s *subject) Desktop() computer.Desktop { return s.display }

func (s *subject) Held(t testing.TB) (int, []computer.Button) {
	t.Helper()
	var buttons []computer.Button
	_, down := s.server.Pointer(t)
	for _, b := range down {
		buttons = append(buttons, computer.Button(b))
	}
	return len(s.server.KeysDown(t)), buttons
}

// windowSubject has a plain window, which covers the display.
type windowSubject struct {
	subject
	window *desktest.XWindow
}

func (s *windowSubject) Reset(t testing.TB) {
	t.Helper()
	s.window.Raise(t)
	// Events that are on their way belong to what was before.
	s.window.Sync(t)
	s.window.Clear()
}

func (s *windowSubject) Area(t testing.TB) image.Rectangle {
	t.Helper()
	return image.Rectangle{Max: s.server.Size(t)}
}

func (s *windowSubject) Seen(testing.TB) []computertest.Seen {
	var all []computertest.Seen
	var last desktest.XEvent
	count := 0
	for _, e := range s.window.Events() {
		seen := computertest.Seen{Point: e.Point, Modifiers: modifierNames(e.State)}
		switch e.Kind {
		case desktest.KeyPress, desktest.KeyRelease:
			seen.Kind, seen.Key, seen.Point = computertest.KeyPress, computer.Key(e.Symbol), image.Point{}
			if e.Kind == desktest.KeyRelease {
				seen.Kind = computertest.KeyRelease
			}
		case desktest.ButtonPress:
			// What GTK takes for a double click.
			const doubleTime, doubleDistance = 400, 5 // milliseconds, pixels
			d := last.Point.Sub(e.Point)
			if count++; last.Code != e.Code || e.Time-last.Time > doubleTime || max(d.X, -d.X, d.Y, -d.Y) > doubleDistance {
				count = 1
			}
			last = e
			seen.Kind, seen.Button, seen.Count = computertest.Press, computer.Button(e.Code), count
		case desktest.ButtonRelease:
			seen.Kind, seen.Button = computertest.Release, computer.Button(e.Code)
		case desktest.Motion:
			seen.Kind = computertest.Motion
		}
		all = append(all, seen)
	}
	return all
}

// modifierNames names the modifiers in an event's state.
func modifierNames(state uint16) string {
	const shift, control, mod1, mod4 = 1 << 0, 1 << 2, 1 << 3, 1 << 6
	var names []string
	for _, m := range []struct {
		mask uint16
		name string
	}{{shift, "shift"}, {control, "ctrl"}, {mod1, "alt"}, {mod4, "super"}} {
		if state&m.mask != 0 {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, "+")
}

// Text is what a text field would make of the keys.
func (s *windowSubject) Text(testing.TB) string {
	var text []rune
	for _, e := range s.window.Events() {
		const control, mod1, mod4 = 1 << 2, 1 << 3, 1 << 6
		if e.Kind != desktest.KeyPress || e.State&(control|mod1|mod4) != 0 {
			continue
		}
		if r, ok := computer.Key(e.Symbol).Rune(); ok {
			text = append(text, r)
		}
	}
	return string(text)
}

func (s *windowSubject) Paint(t testing.TB, m image.Image) {
	t.Helper()
	s.window.Draw(t, m)
}

func (s *windowSubject) Resize(t testing.TB, size image.Point) {
	t.Helper()
	s.server.Resize(t, size)
}

// gtkSubject has a GTK program.
type gtkSubject struct {
	subject
	gtk     *desktest.GTK
	manager string
}

func (s *gtkSubject) Reset(t testing.TB) {
	t.Helper()
	s.gtk.Focus(t, desktest.Text)
	s.gtk.Clear(t)
}

func (s *gtkSubject) Area(t testing.TB) image.Rectangle {
	t.Helper()
	return s.gtk.Rect(t, desktest.Canvas)
}

// Reserved: both window managers move a window that is clicked with one of these.
func (s *gtkSubject) Reserved(modifier string) bool {
	return s.manager != "" && (modifier == "super" || modifier == "alt")
}

func (s *gtkSubject) Seen(t testing.TB) []computertest.Seen {
	t.Helper()
	var all []computertest.Seen
	for _, e := range s.gtk.Log(t) {
		seen := computertest.Seen{Point: image.Pt(e.X, e.Y), Button: computer.Button(e.Button)}
		seen.Modifiers = strings.Join(slices.DeleteFunc(e.Modifiers, func(m string) bool { return m == "lock" }), "+")
		switch e.Kind {
		case "single":
			seen.Kind, seen.Count = computertest.Press, 1
		case "double", "triple":
			// It comes besides the single one.
			if n := len(all); n > 0 && all[n-1].Kind == computertest.Press {
				all[n-1].Count = 2
				if e.Kind == "triple" {
					all[n-1].Count = 3
				}
			}
			continue
		case "scroll":
			seen.Kind, seen.Count = computertest.Press, 1
		case "release":
			seen.Kind = computertest.Release
		case "motion":
			seen.Kind = computertest.Motion
		case "key":
			seen.Kind, seen.Key, seen.Point = computertest.KeyRelease, computer.Key(e.Symbol), image.Point{}
			if e.Press {
				seen.Kind = computertest.KeyPress
			}
		}
		all = append(all, seen)
	}
	return all
}

func (s *gtkSubject) Text(t testing.TB) string {
	t.Helper()
	return s.gtk.State(t).Text
}
