package desktest

import (
	"bufio"
	_ "embed" // gtk.py
	"encoding/json"
	"errors"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

//go:embed gtk.py
var gtkScript string

// GTKOptions set up a GTK program. The zero value is right.
type GTKOptions struct {
	// X and Y are where the window asks to be; a window manager may put it elsewhere.
	X, Y int

	// Width and Height of the window. 600x500 when zero.
	Width, Height int

	// Blink makes the text cursor blink.
	Blink bool

	// Env is more environment, such as "GTK_IM_MODULE=xim".
	Env []string
}

// GTK is a running GTK 3 program with one window: an entry, a button, a slider, a text
// view and a list that scrolls both ways.
type GTK struct {
	process *process
	in      io.Writer
	out     *os.File
	lines   *bufio.Reader
}

// The widgets of a GTK program.
const (
	Entry  = "entry"  // one line of text; has the focus first
	Button = "button" // logs what the pointer does to it
	Scale  = "scale"  // a horizontal slider from 0 to 100
	Canvas = "canvas" // logs what the pointer does over it
	Text   = "text"   // lines of text; Tab is a character there
	List   = "list"   // longer and wider than its place
	Window = "window"
)

// GTKState is what a GTK program knows of itself.
type GTKState struct {
	Active bool   // its window has the focus
	Focus  string // the widget that has it

	Entry          string
	EntrySelection string `json:"entry_selection"`
	Text           string
	TextSelection  string `json:"text_selection"`

	Clicks  []GTKClick // what the button saw
	Clicked int        // how often the button was clicked, as GTK counts it
	Scale   float64    // 0 to 100

	// Scrolls counts wheel clicks over the list by direction: up, down, left, right.
	Scrolls map[string]int
	List    [2]float64 // how far it is scrolled, right and down, in pixels

	Keys []GTKKey // what the window saw
}

// GTKClick is something that the pointer did to the button.
type GTKClick struct {
	Kind      string // single, double, triple or release; a double click is also two singles
	Button    int
	Modifiers []string // shift, lock, ctrl, alt, super; as they were before
	X, Y      int      // in display pixels
}

// GTKKey is a key that went down or came up.
type GTKKey struct {
	Press     bool
	Name      string   // GDK's, such as "Return", "a" or "Cyrillic_a"
	Symbol    uint32   // the keysym
	Modifiers []string // as they were before
}

// GTKEvent is something that the pointer did over the canvas, or a key.
type GTKEvent struct {
	Kind      string   // single, double, triple, release, motion, scroll or key; a double click is also two singles
	Button    int      // 4 to 7 of scroll: up, down, left, right
	Press     bool     // of key
	Symbol    uint32   // of key: the keysym
	Modifiers []string // shift, lock, ctrl, alt, super; as they were before
	X, Y      int      // in display pixels
}

// GTK starts a GTK program, and returns when it is on the screen and has the focus.
func (s *Server) GTK(t testing.TB, o GTKOptions) *GTK {
	t.Helper()
	if o.Width == 0 {
		o.Width, o.Height = 600, 500
	}
	options, err := json.Marshal(map[string]any{"x": o.X, "y": o.Y, "width": o.Width, "height": o.Height, "blink": o.Blink})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	script := filepath.Join(home, "witness.py")
	if err := os.WriteFile(script, []byte(gtkScript), 0o600); err != nil {
		t.Fatal(err)
	}
	// Debian's own Python is the one that sees Debian's modules.
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("%s is missing; install it with: make setup", python)
	}
	cmd := exec.Command(python, script, string(options))
	cmd.Env = append(s.Env(),
		"HOME="+home, "XDG_RUNTIME_DIR="+home, "XDG_CONFIG_HOME="+home, "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
		"GDK_BACKEND=x11", "GDK_SCALE=1", "GTK_THEME=Adwaita", "GTK_IM_MODULE=gtk-im-context-simple",
		"NO_AT_BRIDGE=1", "GIO_USE_VFS=local", "GSETTINGS_BACKEND=memory", "GTK_USE_PORTAL=0",
		"DBUS_SESSION_BUS_ADDRESS=disabled:", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, o.Env...)
	g := &GTK{}
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = in, out
	g.in, g.out, g.lines = stdin, stdout, bufio.NewReader(stdout)
	t.Cleanup(func() { stdin.Close(); stdout.Close() })
	g.process = launch(t, cmd)
	in.Close()
	out.Close()
	g.answer(t, nil)
	Eventually(t, "the GTK program has the focus", func() bool { return g.State(t).Active })
	return g
}

// ask gives a command and reads its answer.
func (g *GTK) ask(t testing.TB, command map[string]any, answer any) {
	t.Helper()
	line, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("the GTK program takes no commands (%v): %s", err, g.process.output)
	}
	g.answer(t, answer)
}

func (g *GTK) answer(t testing.TB, answer any) {
	t.Helper()
	_ = g.out.SetReadDeadline(time.Now().Add(patience))
	line, err := g.lines.ReadBytes('\n')
	if err != nil {
		text := g.process.output.String()
		if errors.Is(err, io.EOF) {
			text += "\nIt needs python3-gi and gir1.2-gtk-3.0; install them with: make setup"
		}
		t.Fatalf("the GTK program does not answer (%v): %s", err, text)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(line, answer); err != nil {
		t.Fatalf("the GTK program said %q: %v", line, err)
	}
}

// State returns what the program knows once it has handled all that had reached it.
func (g *GTK) State(t testing.TB) GTKState {
	t.Helper()
	var state GTKState
	g.ask(t, map[string]any{"do": "state"}, &state)
	return state
}

// Log returns, in order, the pointer's events over the canvas and all keys, since the last
// Clear. Of motions GTK may leave out all but the last of a moment.
func (g *GTK) Log(t testing.TB) []GTKEvent {
	t.Helper()
	var events []GTKEvent
	g.ask(t, map[string]any{"do": "log"}, &events)
	return events
}

// Rect returns a widget's rectangle on the display.
func (g *GTK) Rect(t testing.TB, widget string) image.Rectangle {
	t.Helper()
	var all map[string][4]int
	g.ask(t, map[string]any{"do": "geometry"}, &all)
	r, ok := all[widget]
	if !ok {
		t.Fatalf("the GTK program has no %q", widget)
	}
	return image.Rect(r[0], r[1], r[2], r[3])
}

// Center returns the middle of a widget on the display.
func (g *GTK) Center(t testing.TB, widget string) image.Point {
	t.Helper()
	r := g.Rect(t, widget)
	return r.Min.Add(r.Max).Div(2)
}

// Focus gives the keyboard focus to a widget of this window, and returns when it has it.
func (g *GTK) Focus(t testing.TB, widget string) {
	t.Helper()
	g.ask(t, map[string]any{"do": "focus", "widget": widget}, nil)
	Eventually(t, widget+" has the focus", func() bool {
		state := g.State(t)
		return state.Active && state.Focus == widget
	})
}

// Clear empties the texts and the logs and sets the slider and the list back.
func (g *GTK) Clear(t testing.TB) {
	t.Helper()
	g.ask(t, map[string]any{"do": "clear"}, nil)
}

// Fill puts text into the entry or the text view.
func (g *GTK) Fill(t testing.TB, widget, text string) {
	t.Helper()
	g.ask(t, map[string]any{"do": "set", widget: text}, nil)
}

// Slow makes the program take its time before it handles each key that is pressed.
func (g *GTK) Slow(t testing.TB, perKey time.Duration) {
	t.Helper()
	g.ask(t, map[string]any{"do": "slow", "milliseconds": perKey.Milliseconds()}, nil)
}

// Redraw makes the button show how often it was clicked, from the next click on.
func (g *GTK) Redraw(t testing.TB) {
	t.Helper()
	g.ask(t, map[string]any{"do": "redraw"}, nil)
}

// Pause stops the program, as if it hung, until Resume.
func (g *GTK) Pause() { g.process.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (g *GTK) Resume() { g.process.signal(syscall.SIGCONT) }

// Stop ends the program, and returns when it has ended.
func (g *GTK) Stop() { g.process.stop() }

// Ended reports whether the program has ended.
func (g *GTK) Ended() bool { return g.process.ended() }
