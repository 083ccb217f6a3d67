package liveview_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

// keys is a JavaScript function that presses and releases the keys that make a text, as a
// browser reports them.
const keys = `(text) => {
	const canvas = document.querySelector('#screen canvas');
	const send = (type, key, code) => canvas.dispatchEvent(new KeyboardEvent(type, { key, code, bubbles: true, cancelable: true }));
	[...text].forEach((key, i) => {
		const shift = key !== key.toLowerCase();
		if (shift) send('keydown', 'Shift', 'ShiftLeft');
		for (const type of ['keydown', 'keyup']) send(type, key, 'Key' + String.fromCharCode(65 + i % 26));
		if (shift) send('keyup', 'Shift', 'ShiftLeft');
	});
}`

// signedIn starts x11vnc on a display, a view of it and a browser that has control.
func signedIn(t *testing.T, x *desktest.Server) (*live, *tab) {
	t.Helper()
	v := startVNC(t, x.Name())
	s := serve(t, liveview.Options{Dial: v.dial, VNCPassword: vncPassword, Clipboard: xclip{x.Env()}})
	b := browser(t)
	b.open(t, s.Gate().URL(s.addr))
	b.wait(t, "status", "Watching")
	b.click(t, "control")
	b.wait(t, "status", "You have mouse and keyboard")
	return s, b
}

// settings are those of the display that a VNC server might change.
func settings(t *testing.T, x *desktest.Server) string {
	t.Helper()
	cmd := exec.Command(program(t, "xset"), "q")
	cmd.Env = x.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("xset q: %v\n%s", err, out)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "auto repeat") || strings.Contains(line, "DPMS") || strings.Contains(line, "timeout:") || strings.Contains(line, "blanking") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// TestTyping types through the page into a GTK program, under layouts that make more or
// less of the text.
func TestTyping(t *testing.T) {
	for _, layout := range []string{"us", "de", "fr"} {
		t.Run(layout, func(t *testing.T) {
			x := desktest.Xvfb(t, desktest.Options{Width: 800, Height: 600})
			x.Layout(t, layout)
			before := settings(t, x)
			if !strings.Contains(before, "auto repeat:  on") {
				t.Fatalf("the display's settings are %q", before)
			}
			g := x.GTK(t, desktest.GTKOptions{})
			s, b := signedIn(t, x)
			const text = "Hello, World! @[]{}|~#^ wörld ÄÉßñÑ €5 мирМИР ŁΩ"
			eval[any](t, b, "(%s)(%q)", keys, text)
			got := ""
			desktest.Eventually(t, "the text arrives", func() bool {
				got = g.State(t).Entry
				return len([]rune(got)) >= len([]rune(text))
			})
			if got != text {
				t.Errorf("%q was typed, and %q arrived", text, got)
			}
			if during := settings(t, x); during != before {
				t.Errorf("the display's settings were %q, and are %q while a person types", before, during)
			}
			if s.kinds()[liveview.Key] == 0 || s.Holding() {
				t.Errorf("the input was reported as %v", s.kinds())
			}
		})
	}
}

// TestHeldKeys looks at keys that stay down: the server repeats them, once; they come up
// when control is given back, and when the browser goes.
func TestHeldKeys(t *testing.T) {
	x := desktest.Xvfb(t, desktest.Options{Width: 800, Height: 600})
	term := x.Xterm(t, desktest.XtermOptions{})
	s, b := signedIn(t, x)
	const hold = `(key, code, times) => { for (let i = 0; i < times; i++)
		document.querySelector('#screen canvas').dispatchEvent(new KeyboardEvent('keydown',
			{ key, code, repeat: i > 0, bubbles: true, cancelable: true })); }`

	eval[any](t, b, "(%s)('x', 'KeyX', 20)", hold)
	desktest.Eventually(t, "the server repeats the key", func() bool { return len(term.Typed(t)) > 5 })
	if n := s.kinds()[liveview.Key]; n != 1 || !s.Holding() {
		t.Errorf("a key that is held was reported %d times; somebody holds something: %v", n, s.Holding())
	}
	b.click(t, "control")
	b.wait(t, "status", "Watching")
	desktest.Eventually(t, "the key comes up with control", func() bool { return len(x.KeysDown(t)) == 0 && !s.Holding() })

	b.click(t, "control")
	b.wait(t, "status", "You have mouse and keyboard")
	eval[any](t, b, "(%s)('Control', 'ControlLeft', 1)", hold)
	eval[any](t, b, "(%s)('x', 'KeyX', 1)", hold)
	desktest.Eventually(t, "two keys are down", func() bool { return len(x.KeysDown(t)) == 2 })
	b.close()
	desktest.Eventually(t, "the keys come up for the browser that has gone", func() bool { return len(x.KeysDown(t)) == 0 && !s.Holding() })
	if got := settings(t, x); !strings.Contains(got, "auto repeat:  on") {
		t.Errorf("the display's settings are %q afterwards", got)
	}
}

// xclip is the clipboard of a display.
type xclip struct{ env []string }

func (c xclip) Read(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "xclip", "-out", "-selection", "clipboard", "-target", "UTF8_STRING")
	cmd.Env = c.env
	out, err := cmd.Output()
	return string(out), err
}

func (c xclip) Write(ctx context.Context, text string) error {
	cmd := exec.CommandContext(ctx, "xclip", "-in", "-selection", "clipboard")
	cmd.Env, cmd.Stdin = c.env, strings.NewReader(text)
	return cmd.Run()
}

// TestClipboard carries text both ways.
func TestClipboard(t *testing.T) {
	program(t, "xclip")
	x := desktest.Xvfb(t, desktest.Options{Width: 800, Height: 600})
	g := x.GTK(t, desktest.GTKOptions{})
	s, b := signedIn(t, x)
	const in, out = "Grüße – 東京 👋", "наружу\nund zurück"
	b.click(t, "clipboard")
	eval[any](t, b, "document.getElementById('clipboard-text').value = %q", in)
	b.click(t, "clipboard-send")
	b.wait(t, "clipboard-note", "It can be pasted on the desktop now.")
	b.click(t, "clipboard")
	eval[any](t, b, "(%s)('Control', 'ControlLeft', ['keydown'])", key)
	eval[any](t, b, "(%s)('v', 'KeyV', ['keydown', 'keyup'])", key)
	eval[any](t, b, "(%s)('Control', 'ControlLeft', ['keyup'])", key)
	desktest.Eventually(t, "the text is pasted", func() bool { return g.State(t).Entry == in })
	if s.kinds()[liveview.CopyIn] != 1 {
		t.Error("the clipboard is not reported as input")
	}
	if err := (xclip{x.Env()}).Write(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	b.click(t, "clipboard")
	desktest.Eventually(t, "the page has the desktop's text", func() bool {
		return eval[string](t, b, "document.getElementById('clipboard-text').value") == out
	})
}

const key = `(key, code, types) => types.forEach((type) => document.querySelector('#screen canvas')
	.dispatchEvent(new KeyboardEvent(type, { key, code, bubbles: true, cancelable: true })))`
