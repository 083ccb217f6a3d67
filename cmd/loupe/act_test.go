package main

import (
	"fmt"
	"image"
	"image/color"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// desk is the display of a script.
type desk struct {
	t        testing.TB
	server   *desktest.Server
	terminal *desktest.Xterm
	window   *desktest.XWindow
}

func startDisplay(ts *testscript.TestScript, neg bool, args []string) {
	d := ts.Value("desk").(*desk)
	options := desktest.Options{Width: 800, Height: 600}
	if len(args) > 0 {
		if _, err := fmt.Sscanf(args[0], "%dx%d", &options.Width, &options.Height); neg || err != nil {
			ts.Fatalf("usage: display [WxH [ARGUMENT...]]")
		}
		options.Args = args[1:]
	}
	d.server = desktest.Xvfb(d.t, options)
	ts.Setenv("DISPLAY", d.server.Name())
}

func commandServer(ts *testscript.TestScript, _ bool, args []string) {
	server := ts.Value("desk").(*desk).server
	switch args[0] {
	case "kill":
		server.Kill()
	case "pause":
		server.Pause()
	case "resume":
		server.Resume()
	default:
		ts.Fatalf("usage: server kill|pause|resume")
	}
}

func startTerminal(ts *testscript.TestScript, _ bool, _ []string) {
	d := ts.Value("desk").(*desk)
	d.terminal = d.server.Xterm(d.t, desktest.XtermOptions{})
}

func checkTyped(ts *testscript.TestScript, neg bool, args []string) {
	d := ts.Value("desk").(*desk)
	want, err := strconv.Unquote(`"` + args[0] + `"`)
	ts.Check(err)
	got := ""
	defer func() {
		if d.t.Failed() {
			d.t.Logf("the terminal has read %q, want %q", got, want)
		}
	}()
	desktest.Eventually(d.t, "the terminal reads the text", func() bool {
		got = d.terminal.Typed(d.t)
		return got == want
	})
}

func startLogging(ts *testscript.TestScript, _ bool, _ []string) {
	d := ts.Value("desk").(*desk)
	d.window = d.server.Window(d.t, desktest.WindowOptions{})
	d.window.Fill(d.t, image.Rect(100, 100, 300, 200), color.Black) // or the display would be blank
}

func checkLogged(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value("desk").(*desk)
	desktest.Eventually(d.t, "the window sees "+args[0], func() bool {
		var seen []string
		for _, e := range d.window.Events() {
			switch e.Kind {
			case desktest.ButtonPress:
				seen = append(seen, fmt.Sprintf("press %d @%d,%d", e.Code, e.Point.X, e.Point.Y))
			case desktest.ButtonRelease:
				seen = append(seen, fmt.Sprintf("release %d @%d,%d", e.Code, e.Point.X, e.Point.Y))
			case desktest.KeyPress:
				seen = append(seen, fmt.Sprintf("key %#x", e.Symbol))
			}
		}
		return strings.Join(seen, " ") == args[0]
	})
}

// down is what is pressed on the display.
func (d *desk) down() (keys []byte, buttons []int) {
	_, buttons = d.server.Pointer(d.t)
	return d.server.KeysDown(d.t), buttons
}

func waitHeld(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: held NUMBER")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	d := ts.Value("desk").(*desk)
	desktest.Eventually(d.t, args[0]+" keys and buttons are down", func() bool {
		keys, buttons := d.down()
		return len(keys)+len(buttons) == want
	})
}

func checkReleased(ts *testscript.TestScript, _ bool, _ []string) {
	if keys, buttons := ts.Value("desk").(*desk).down(); len(keys)+len(buttons) > 0 {
		ts.Fatalf("the keys %v and the buttons %v are down", keys, buttons)
	}
}
