package desktest

import (
	"fmt"
	"image"
	"testing"
)

func TestXterm(t *testing.T) {
	s := Xvfb(t, Options{})
	x := s.Xterm(t, XtermOptions{At: image.Pt(100, 50), Show: "first second"})
	do := func(args ...string) {
		t.Helper()
		run(t, []string{"DISPLAY=" + s.Name()}, "xdotool", args...)
	}
	typed := ""
	see := func(more string) {
		t.Helper()
		typed += more
		Eventually(t, fmt.Sprintf("the terminal has read %q", typed), func() bool { return x.Typed(t) == typed })
	}
	do("type", "Hello")
	do("key", "Return", "Tab", "ctrl+c", "odiaeresis")
	see("Hello\n\t\x03ö")
	at := x.Rect(t).Min
	do("mousemove", fmt.Sprint(at.X+10), fmt.Sprint(at.Y+8), "click", "--repeat", "2", "1", "click", "2")
	see("first")
}
