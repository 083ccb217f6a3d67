package desktest

import (
	"image"
	"strings"
	"syscall"
	"testing"
)

func TestXvfb(t *testing.T) {
	var pid int
	t.Run("server", func(t *testing.T) {
		s := Xvfb(t, Options{Width: 320, Height: 200})
		other := Xvfb(t, Options{})
		if s.Name() == other.Name() {
			t.Errorf("two displays are both called %s", s.Name())
		}
		if out := run(t, nil, "xdpyinfo", "-display", s.Name()); !strings.Contains(out, "320x200 pixels") {
			t.Errorf("xdpyinfo does not see 320x200:\n%s", out)
		}
		s.Layout(t, "de")
		if out := run(t, nil, "setxkbmap", "-display", s.Name(), "-query"); !strings.Contains(out, "de") {
			t.Errorf("the layout is not de:\n%s", out)
		}
		other.Stop()
		pid = s.process.cmd.Process.Pid
	})
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the server still runs after its test: %v", err)
	}
}

func TestResize(t *testing.T) {
	s := Xvfb(t, Options{Width: 1280, Height: 800})
	for _, size := range []image.Point{{800, 600}, {1001, 777}, {1280, 800}, {800, 600}} {
		s.Resize(t, size)
	}
}
