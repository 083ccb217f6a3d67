package desktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// XEvent is an input event as an X client gets it.
type XEvent struct {
	Kind  XKind
	Code  byte // the keycode or the button
	State uint16
	Time  uint32      // the server's, in milliseconds
	Point image.Point // on the display

	// Symbol is what the key makes, by the keyboard's map as it was when the event was
	// read: the keysym, or 0.
	Symbol uint32
}

// XKind says what an XEvent is, with the core protocol's number.
type XKind byte

// The kinds of events that a Window logs.
const (
	KeyPress      XKind = 2
	KeyRelease    XKind = 3
	ButtonPress   XKind = 4
	ButtonRelease XKind = 5
	Motion        XKind = 6
)

// WindowOptions set up a Window. The zero value covers the display with white.
type WindowOptions struct {
	Rect       image.Rectangle // on the display; all of it when empty
	Background color.Color
	Slow       time.Duration // see SetSlow
}

// XWindow is a plain window of the core protocol, not managed by any window manager and
// above all others, that logs its input events as they come. It is safe for concurrent use.
type XWindow struct {
	server *Server
	client *client
	id     uint32
	gc     uint32
	rect   image.Rectangle
	slow   atomic.Int64
	synced chan struct{} // for each answer to Sync
	done   chan struct{}

	mu     sync.Mutex
	events []XEvent
}

// Window opens a window and gives it the keyboard focus.
func (s *Server) Window(t testing.TB, o WindowOptions) *XWindow {
	t.Helper()
	if o.Rect.Empty() {
		o.Rect = image.Rectangle{Max: s.Size(t)}
	}
	if o.Background == nil {
		o.Background = color.White
	}
	c, err := dial(s.name)
	if err != nil {
		t.Fatal(err)
	}
	w := &XWindow{server: s, client: c, id: c.id(), gc: c.id(), rect: o.Rect, synced: make(chan struct{}), done: make(chan struct{})}
	w.SetSlow(o.Slow)
	mapped := false
	const mapNotify, exposure = 19, 12
	c.event = func(packet []byte) {
		switch packet[0] &^ 0x80 {
		case mapNotify:
			mapped = true
		case exposure:
		default:
			w.take(packet)
		}
	}
	const (
		inputOutput                  = 1
		background, override, events = 1 << 1, 1 << 9, 1 << 11
		keys, buttons, motion        = 1<<0 | 1<<1, 1<<2 | 1<<3, 1 << 6
		structure                    = 1 << 17
		toParent                     = 2
	)
	err = c.do(
		request(opCreateWindow, c.depth, w.id, c.root, int16(o.Rect.Min.X), int16(o.Rect.Min.Y),
			uint16(o.Rect.Dx()), uint16(o.Rect.Dy()), uint16(0), uint16(inputOutput), uint32(0),
			uint32(background|override|events), c.color(o.Background), uint32(1), uint32(keys|buttons|motion|structure)),
		request(opCreateGC, 0, w.gc, w.id, uint32(0)),
		request(opMapWindow, 0, w.id),
	)
	if err == nil {
		err = wait(s.process, func() error {
			if err := c.do(); err != nil || mapped {
				return err
			}
			return errNotYet
		})
	}
	if err == nil {
		// A compositor that has just started covers the display with a window of its own,
		// and a little later lets the pointer through it.
		err = wait(s.process, func() error { return w.underPointer() })
	}
	if err == nil {
		err = c.do(request(opSetInputFocus, toParent, w.id, uint32(currentTime)))
	}
	if err != nil {
		c.conn.Close()
		t.Fatalf("opening a window: %v", err)
	}
	t.Cleanup(w.Close)
	go w.listen()
	return w
}

// underPointer returns an error when the pointer is within the window but another window
// has it.
func (w *XWindow) underPointer() error {
	reply, err := w.server.probe.ask(request(opQueryPointer, 0, w.server.probe.root))
	if err != nil {
		return err
	}
	at := image.Pt(int(int16(binary.LittleEndian.Uint16(reply[16:]))), int(int16(binary.LittleEndian.Uint16(reply[18:]))))
	if top := binary.LittleEndian.Uint32(reply[12:]); at.In(w.rect) && top != w.id {
		return fmt.Errorf("the pointer is over window %#x, not %#x", top, w.id)
	}
	return nil
}

// listen reads events until the connection ends.
func (w *XWindow) listen() {
	defer close(w.done)
	for {
		packet, err := w.client.read()
		if err != nil {
			return
		}
		if packet[0] == replyPacket {
			w.synced <- struct{}{}
			continue
		}
		w.take(packet)
	}
}

// Sync returns when the window has logged all that the display had for it by now. Only one
// goroutine may call it at a time.
func (w *XWindow) Sync(t testing.TB) {
	t.Helper()
	if _, err := w.client.conn.Write(request(opGetInputFocus, 0)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.synced:
	case <-w.done:
		t.Fatal("the window's connection has ended")
	}
}

// take logs an event.
func (w *XWindow) take(packet []byte) {
	kind := XKind(packet[0] &^ 0x80)
	if kind < KeyPress || kind > Motion {
		return
	}
	if pause := time.Duration(w.slow.Load()); pause > 0 {
		time.Sleep(pause)
	}
	e := XEvent{
		Kind:  kind,
		Code:  packet[1],
		State: binary.LittleEndian.Uint16(packet[28:]),
		Time:  binary.LittleEndian.Uint32(packet[4:]),
		Point: image.Pt(int(int16(binary.LittleEndian.Uint16(packet[20:]))), int(int16(binary.LittleEndian.Uint16(packet[22:])))),
	}
	if kind == KeyPress || kind == KeyRelease {
		if keyboard, err := w.server.probe.keyboard(); err == nil {
			e.Symbol = keyboard.symbol(e.Code, e.State)
		}
	}
	if kind == Motion {
		e.Code = 0 // it says whether the event is a hint
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// Events returns what has been logged since the last Clear.
func (w *XWindow) Events() []XEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]XEvent(nil), w.events...)
}

// Clear forgets what has been logged. See Sync for what is on its way.
func (w *XWindow) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

// SetSlow makes the window wait before it looks at each event, as a busy program does.
func (w *XWindow) SetSlow(perEvent time.Duration) { w.slow.Store(int64(perEvent)) }

// Close closes the window. Closing again does nothing.
func (w *XWindow) Close() {
	w.client.conn.Close()
	<-w.done
}

// Fill fills a rectangle of the display, as far as it is within the window, with a colour.
func (w *XWindow) Fill(t testing.TB, r image.Rectangle, c color.Color) {
	t.Helper()
	r = r.Intersect(w.rect).Sub(w.rect.Min)
	const foreground = 1 << 2
	err := w.server.probe.do(
		request(opChangeGC, 0, w.gc, uint32(foreground), w.client.color(c)),
		request(opPolyFillRectangle, 0, w.id, w.gc, int16(r.Min.X), int16(r.Min.Y), uint16(r.Dx()), uint16(r.Dy())),
	)
	if err != nil {
		t.Fatalf("filling %v: %v", r, err)
	}
}

// Draw draws an image with its own bounds as its place on the display.
func (w *XWindow) Draw(t testing.TB, m image.Image) {
	t.Helper()
	r := m.Bounds().Intersect(w.rect)
	bytesPerPixel := w.client.bitsPerPixel / 8
	if bytesPerPixel == 0 {
		t.Fatal("drawing needs a display of 8 bits a pixel or more")
	}
	stride := (r.Dx()*bytesPerPixel + 3) / 4 * 4
	if stride == 0 {
		return
	}
	usual := bytesPerPixel == 4 && w.client.masks == [3]uint32{0xff0000, 0xff00, 0xff}
	const zPixmap, header = 2, 24
	rows := (mostInRequest - header) / stride
	var requests [][]byte
	for y := r.Min.Y; y < r.Max.Y; y += rows {
		height := min(rows, r.Max.Y-y)
		data := make([]byte, stride*height)
		for dy := range height {
			if known, ok := m.(*image.RGBA); ok && usual {
				from := known.Pix[known.PixOffset(r.Min.X, y+dy):][:4*r.Dx()]
				for to := data[dy*stride:][:4*r.Dx()]; len(to) > 0; from, to = from[4:], to[4:] {
					to[0], to[1], to[2] = from[2], from[1], from[0]
				}
				continue
			}
			for dx := range r.Dx() {
				p := w.client.color(m.At(r.Min.X+dx, y+dy))
				for i := range bytesPerPixel {
					data[dy*stride+dx*bytesPerPixel+i] = byte(p >> (8 * i))
				}
			}
		}
		requests = append(requests, request(opPutImage, zPixmap, w.id, w.gc, uint16(r.Dx()), uint16(height),
			int16(r.Min.X-w.rect.Min.X), int16(y-w.rect.Min.Y), byte(0), w.client.depth, uint16(0), data))
	}
	if err := w.server.probe.do(requests...); err != nil {
		t.Fatalf("drawing %v: %v", r, err)
	}
}

// Raise puts the window above all others and gives it the focus.
func (w *XWindow) Raise(t testing.TB) {
	t.Helper()
	const stackMode, above, toParent = 1 << 6, 0, 2
	err := w.server.probe.do(
		request(opConfigureWindow, 0, w.id, uint16(stackMode), uint16(0), uint32(above)),
		request(opSetInputFocus, toParent, w.id, uint32(currentTime)),
	)
	if err != nil {
		t.Fatalf("raising a window: %v", err)
	}
}

func (c *client) color(of color.Color) uint32 {
	r, g, b, _ := of.RGBA()
	return c.pixel(r>>8, g>>8, b>>8)
}

// Size returns the display's size.
func (s *Server) Size(t testing.TB) image.Point {
	t.Helper()
	reply := s.ask(t, request(opGetGeometry, 0, s.probe.root))
	return image.Pt(int(binary.LittleEndian.Uint16(reply[16:])), int(binary.LittleEndian.Uint16(reply[18:])))
}

// rect returns a window's rectangle on the display.
func (s *Server) rect(t testing.TB, window uint32) image.Rectangle {
	t.Helper()
	reply := s.ask(t, request(opGetGeometry, 0, window))
	size := image.Pt(int(binary.LittleEndian.Uint16(reply[16:])), int(binary.LittleEndian.Uint16(reply[18:])))
	reply = s.ask(t, request(opTranslateCoordinates, 0, window, s.probe.root, int16(0), int16(0)))
	at := image.Pt(int(int16(binary.LittleEndian.Uint16(reply[12:]))), int(int16(binary.LittleEndian.Uint16(reply[14:]))))
	return image.Rectangle{Min: at, Max: at.Add(size)}
}

// Pointer returns where the pointer is and which of its buttons are down.
func (s *Server) Pointer(t testing.TB) (at image.Point, down []int) {
	t.Helper()
	reply := s.ask(t, request(opQueryPointer, 0, s.probe.root))
	at = image.Pt(int(int16(binary.LittleEndian.Uint16(reply[16:]))), int(int16(binary.LittleEndian.Uint16(reply[18:]))))
	mask := binary.LittleEndian.Uint16(reply[24:])
	for button := 1; button <= 5; button++ {
		if mask>>(7+button)&1 == 1 {
			down = append(down, button)
		}
	}
	return at, down
}

// KeysDown returns the keycodes of all keys that are down.
func (s *Server) KeysDown(t testing.TB) []byte {
	t.Helper()
	reply := s.ask(t, request(opQueryKeymap, 0))
	var down []byte
	for code := range 256 {
		if reply[8+code/8]>>(code%8)&1 == 1 {
			down = append(down, byte(code))
		}
	}
	return down
}

func (s *Server) ask(t testing.TB, r []byte) []byte {
	t.Helper()
	reply, err := s.probe.ask(r)
	if err != nil {
		if errors.Is(err, net.ErrClosed) {
			t.Fatal("the display has been stopped")
		}
		t.Fatal(err)
	}
	return reply
}
