package desktest

import (
	"image"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestBrowsers drives the witness page with xdotool, which shares nothing with our driver.
func TestBrowsers(t *testing.T) {
	for name, start := range map[string]func(*Server, testing.TB, BrowserOptions) *Browser{
		"chromium": (*Server).Chromium,
		"firefox":  (*Server).Firefox,
	} {
		for _, manager := range []string{"", "mutter", "openbox"} {
			t.Run(strings.TrimSuffix(name+" "+manager, " "), func(t *testing.T) {
				s := Xvfb(t, Options{})
				if manager != "" {
					s.WindowManager(t, manager)
				}
				b := start(s, t, BrowserOptions{Window: manager != ""})
				x := func(args ...string) { run(t, []string{"DISPLAY=" + s.Name()}, "xdotool", args...) }
				move := func(p image.Point) { x("mousemove", strconv.Itoa(p.X), strconv.Itoa(p.Y)) }

				p := b.Page(t)
				for i, id := range []string{"button", "dot0", "dot1", "dot2"} {
					move(p.Center(id))
					x("click", "1")
					clicks := b.Wait(t, "a click", func(p Page) bool { return len(p.Events("click")) == i+1 }).Events("click")
					if clicks[i].Target != id {
						t.Errorf("a click on %s arrived at %q", id, clicks[i].Target)
					}
				}
				move(p.Center("text"))
				x("click", "1", "key", "a", "B")
				b.Wait(t, "text", func(p Page) bool { return p.Text == "aB" && len(p.Keys) >= 5 && p.Focus == "text" })
				move(p.Center("hover"))
				b.Wait(t, "the pointer", func(p Page) bool { return p.Hovered })
				move(p.Center("scroll"))
				x("click", "5")
				b.Wait(t, "the wheel", func(p Page) bool {
					return len(p.Wheel) > 0 && p.Wheel[0] == PageWheel{Target: "scroll", Y: 1} && p.Scroll.Y > 2000
				})
				move(p.Center("canvas"))
				x("mousedown", "1", "mousemove_relative", "20", "10", "mouseup", "1")
				b.Wait(t, "a stroke", func(p Page) bool {
					return len(p.Path) == 3 && p.Path[2] == PageStroke{Type: "mouseup", X: 220, Y: 110}
				})
				b.Clear(t)
				if p := b.Page(t); len(p.Mouse)+len(p.Keys)+len(p.Wheel)+len(p.Path) > 0 || p.Text != "" {
					t.Errorf("after Clear the page still has %+v", p)
				}
				b.Close()
				if err := syscall.Kill(b.PID(), 0); err != syscall.ESRCH {
					t.Errorf("the browser still runs after Close: %v", err)
				}
			})
		}
	}
}
