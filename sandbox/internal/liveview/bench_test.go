package liveview_test

import (
	"encoding/binary"
	"image"
	"image/color"
	"io"
	"testing"

	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

// BenchmarkUpdate is the time from a change of the display to the changed pixel at a
// viewer's websocket.
func BenchmarkUpdate(b *testing.B) {
	x := desktest.Xvfb(b, desktest.Options{Width: 1280, Height: 800})
	w := x.Window(b, desktest.WindowOptions{Background: color.Black})
	v := startVNC(b, x.Name())
	s := serve(b, liveview.Options{Dial: v.dial, VNCPassword: vncPassword, Name: "Desk"})
	c := begin(b, s.connect(b, s.session(b)))
	request := func(incremental byte) {
		if _, err := c.Write([]byte{3, incremental, 0, 10, 0, 10, 0, 1, 0, 1}); err != nil {
			b.Fatal(err)
		}
	}
	// read returns the red of that pixel, with 32 bits and Raw, or 0 where an update does
	// not have it: the server adds the place of the pointer.
	read := func() (red byte) {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil || head[0] != 0 {
			b.Fatalf("%x, %v", head, err)
		}
		for range binary.BigEndian.Uint16(head[2:]) {
			rect := make([]byte, 12)
			if _, err := io.ReadFull(c, rect); err != nil {
				b.Fatal(err)
			}
			field := func(i int) int { return int(binary.BigEndian.Uint16(rect[2*i:])) }
			pixels := make([]byte, 4*field(2)*field(3))
			if _, err := io.ReadFull(c, pixels); err != nil {
				b.Fatal(err)
			}
			if (image.Rect(0, 0, field(2), field(3)).Add(image.Pt(field(0), field(1)))) == image.Rect(10, 10, 11, 11) {
				red = pixels[2]
			}
		}
		return red
	}
	request(0)
	read()
	n := byte(0)
	for b.Loop() {
		n = n%250 + 1
		w.Fill(b, image.Rect(0, 0, 100, 100), color.RGBA{n, 0, 0, 255})
		for {
			if request(1); read() == n {
				break
			}
		}
	}
}
