package desktest

import (
	"image"
	"image/color"
	"reflect"
	"testing"
)

func TestWindow(t *testing.T) {
	for _, manager := range []string{"", "mutter", "openbox"} {
		t.Run("manager "+manager, func(t *testing.T) {
			t.Parallel()
			s := Xvfb(t, Options{Width: 640, Height: 480})
			if manager != "" {
				s.WindowManager(t, manager)
			}
			s.Layout(t, "de")
			w := s.Window(t, WindowOptions{})
			env := []string{"DISPLAY=" + s.Name()}
			run(t, env, "xdotool", "mousemove", "0", "0", "mousedown", "1", "mousemove", "639", "479", "mouseup", "1",
				"keydown", "at", "keyup", "at", "click", "7")
			type seen struct {
				Kind  XKind
				Code  byte
				Point image.Point
			}
			corner := image.Pt(639, 479)
			want := []seen{{ButtonPress, 1, image.Point{}}, {Motion, 0, corner}, {ButtonRelease, 1, corner}, {ButtonPress, 7, corner}, {ButtonRelease, 7, corner}}
			var got []seen
			var symbols []uint32
			Eventually(t, "the window saw the last release", func() bool {
				got, symbols = nil, nil
				for _, e := range w.Events() {
					switch {
					case e.Kind == KeyPress:
						symbols = append(symbols, e.Symbol)
					case e.Kind != KeyRelease && (len(got) > 0 || e.Kind != Motion):
						got = append(got, seen{e.Kind, e.Code, e.Point})
					}
				}
				return len(got) > 0 && got[len(got)-1] == want[len(want)-1]
			})
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the window saw %v, want %v", got, want)
			}
			if n := len(symbols); n == 0 || symbols[n-1] != '@' {
				t.Errorf("the window saw the keys %#x, want @ last", symbols)
			}
			if keys, at := s.KeysDown(t), image.Pt(639, 479); len(keys) > 0 {
				t.Errorf("keys %v are down", keys)
			} else if p, buttons := s.Pointer(t); p != at || len(buttons) > 0 {
				t.Errorf("the pointer is at %v with %v down, want %v", p, buttons, at)
			}
			run(t, env, "xdotool", "mousedown", "3", "keydown", "a")
			if _, buttons := s.Pointer(t); !reflect.DeepEqual(buttons, []int{3}) || len(s.KeysDown(t)) != 1 {
				t.Errorf("the buttons %v and the keys %v are down, want one of each", buttons, s.KeysDown(t))
			}
		})
	}
}

func TestWindowColours(t *testing.T) {
	for depth, want := range map[int]uint32{24: 0x336699, 16: 0x3333} {
		s := Xvfb(t, Options{Width: 64, Height: 64, Depth: depth})
		w := s.Window(t, WindowOptions{Background: color.Black})
		shade := color.RGBA{0x33, 0x66, 0x99, 0xff}
		w.Fill(t, image.Rect(1, 0, 2, 1), shade)
		m := image.NewRGBA(image.Rect(2, 1, 3, 2))
		m.Set(2, 1, shade)
		w.Draw(t, m)
		for _, test := range []struct {
			x, y int16
			want uint32
		}{{0, 0, 0}, {1, 0, want}, {2, 0, 0}, {2, 1, want}, {3, 1, 0}} {
			const getImage, zPixmap, allPlanes = 73, 2, ^uint32(0)
			reply := s.ask(t, request(getImage, zPixmap, w.id, test.x, test.y, uint16(1), uint16(1), allPlanes))
			got := uint32(reply[32]) | uint32(reply[33])<<8
			if depth == 24 {
				got |= uint32(reply[34]) << 16
			}
			if got != test.want {
				t.Errorf("depth %d: pixel (%d,%d) is %#x, want %#x", depth, test.x, test.y, got, test.want)
			}
		}
	}
}
