package liveview

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"
)

const (
	handshakeLimit = 10 * time.Second       // from the request to the first picture's beginning
	writeLimit     = 20 * time.Second       // for a viewer, or the server, to take what it is sent
	pingEvery      = 15 * time.Second       // how often a quiet viewer is asked whether it is there
	closeLimit     = 300 * time.Millisecond // for a viewer to hear that it is over
	releaseLimit   = time.Second            // for the server to take the release of what is held
)

// What the page is told when a connection ends, by the websocket's private codes. The page
// knows them.
const (
	codeGone     websocket.StatusCode = 4000 // the desktop does not answer, or has ended
	codeProtocol websocket.StatusCode = 4001 // the viewer sent what it should not
	codeTooMany  websocket.StatusCode = 4002 // viewers
	codeOver     websocket.StatusCode = 4003 // the View is closed
)

// errGone is what every error wraps that is the desktop's doing, errLeft what the viewer's
// leaving causes.
var (
	errGone = errors.New("the desktop does not answer")
	errLeft = errors.New("the viewer has left")
)

// serveSocket connects one viewer to the VNC server until either leaves or the View is
// closed.
func (v *View) serveSocket(w http.ResponseWriter, r *http.Request) {
	leave, err := v.enter()
	if errors.Is(err, errOver) {
		http.Error(w, "The desktop is no longer shown.", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	tooMany := err
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{"binary"}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return // Accept has answered
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(v.life, cancel)() //nolint:contextcheck // a viewer is told of the end before it comes, and what it holds is released after
	// The websocket outlives ctx by the moment that it takes to say why it ends.
	wire, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	c := newClient(wire, ws)
	defer c.wait()

	if err = tooMany; err == nil {
		err = v.serve(ctx, c)
	}
	code, reason := codeOver, "The desktop is no longer shown."
	switch {
	case errors.Is(err, errLeft):
		v.log.Debug("A viewer has left.", "from", r.RemoteAddr)
	case errors.Is(err, errProtocol):
		code, reason = codeProtocol, "This browser sent what a desktop does not understand."
		v.log.Warn("A viewer's connection was ended.", "from", r.RemoteAddr, "error", err)
	case errors.Is(err, errTooMany):
		code, reason = codeTooMany, "Too many viewers are connected."
		v.log.Warn("A viewer's connection was ended.", "from", r.RemoteAddr, "error", err)
	case errors.Is(err, errGone):
		code, reason = codeGone, "The desktop does not answer."
		v.log.Warn("A viewer's connection was ended.", "from", r.RemoteAddr, "error", err)
	}
	defer time.AfterFunc(closeLimit, cut).Stop()
	_ = ws.Close(code, reason) // a viewer that has left does not hear it
}

var (
	errTooMany = fmt.Errorf("%d viewers are connected, and no more can be", mostViewers)
	errOver    = errors.New("the view is closed")
)

// enter counts a viewer in, or says why not. Unless the error is errOver, leave must be
// called when all is done.
func (v *View) enter() (leave func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errOver
	}
	v.viewers.Add(1)
	if v.count >= mostViewers {
		return v.viewers.Done, errTooMany
	}
	v.count++
	return func() {
		v.mu.Lock()
		v.count--
		v.mu.Unlock()
		v.viewers.Done()
	}, nil
}

// serve bridges one viewer and returns why it ended: errLeft, errGone or errProtocol in the
// error's chain, or ctx's error.
func (v *View) serve(ctx context.Context, c *client) error {
	server, err := v.connect(ctx, c)
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	held := &held{view: v}
	ends := []func() error{
		func() error { return toViewer(c, server) }, //nolint:contextcheck // a viewer is told of the end before it comes, and what it holds is released after
		func() error { return v.toServer(server, c, held) },
		func() error { return c.keepAlive(ctx) },
	}
	errs := make(chan error, len(ends))
	for _, end := range ends {
		go func() { errs <- end() }()
	}
	waiting := len(ends)
	select {
	case err = <-errs:
		waiting--
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	c.stop()
	_ = server.SetReadDeadline(time.Unix(1, 0))
	// Whoever takes nothing any more is not waited for.
	stuck := time.AfterFunc(closeLimit, func() {
		c.cutWriting()
		server.Close()
	})
	for range waiting {
		<-errs //nolint:errcheck // the first said why
	}
	stuck.Stop()
	held.release(server)
	return err
}

// connect does both handshakes and returns the connection to the VNC server, past
// ClientInit on both sides.
func (v *View) connect(ctx context.Context, c *client) (_ net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	server, err := v.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	defer func() {
		if err != nil {
			server.Close()
		}
	}()
	defer context.AfterFunc(ctx, func() {
		_ = server.SetDeadline(time.Unix(1, 0))
		c.stop()
	})()
	if err := connectServer(server, v.password); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	if err := connectClient(c); err != nil {
		return nil, err
	}
	beginning, err := start(server, v.name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	_, err = c.Write(beginning) //nolint:contextcheck // a viewer is told of the end before it comes, and what it holds is released after
	return server, err
}

// toViewer passes on what the server sends. The next piece is read when the viewer has
// taken the last.
func toViewer(c *client, server net.Conn) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			if _, err := c.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
}

// toServer passes on what the viewer sends, as far as it may.
func (v *View) toServer(server net.Conn, c *client, held *held) error {
	in := bufio.NewReader(c)
	out := bufio.NewWriter(server)
	var buffer []byte
	for {
		m, err := readClientMessage(in, &buffer)
		if err != nil {
			return err
		}
		if m = v.admit(m, held); m != nil {
			_ = server.SetWriteDeadline(time.Now().Add(writeLimit))
			if _, err := out.Write(m); err != nil {
				return fmt.Errorf("%w: %w", errGone, err)
			}
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("%w: %w", errGone, err)
			}
		}
	}
}

// admit returns what the server is to get in place of a viewer's message, or nil.
func (v *View) admit(m clientMessage, held *held) clientMessage {
	switch m[0] {
	case setEncodings:
		return m.onlyEncodings(passEncoding)
	case setDesktopSize, xvp:
		return nil // the desktop's size and power are not the viewer's to change
	case cutText:
		return nil // see Clipboard
	case keyEvent, qemuMessage, pointerEvent:
		if v.viewOnly {
			return nil
		}
		return held.note(m)
	}
	return m
}

// held is what one viewer holds down. It belongs to the goroutine that reads the viewer's
// messages, and when that has ended to the one that started it.
type held struct {
	view    *View
	buttons byte
	x, y    uint16
	keys    []uint32 // keysyms
}

// note takes a viewer's input down, tells who wants to know, and returns what the server is
// to get.
func (h *held) note(m clientMessage) clientMessage {
	before := h.count()
	kind := Key
	if symbol, down, ok := m.key(); ok {
		at := slices.Index(h.keys, symbol)
		switch {
		case down && at >= 0:
			// A browser repeats a key that is held, and so does the X server: one is enough.
			return nil
		case down && len(h.keys) < mostKeys:
			h.keys = append(h.keys, symbol)
		case !down && at >= 0:
			h.keys = slices.Delete(h.keys, at, at+1)
		}
		m = keyMessage(portableKeysym(symbol), down)
	} else {
		was := h.buttons
		h.buttons, h.x, h.y = m.pointer()
		if kind = Move; was != h.buttons {
			kind = Button
		}
	}
	h.view.report(Input{Kind: kind, Buttons: bits.OnesCount8(h.buttons), Keys: len(h.keys)}, h.count()-before)
	return m
}

const mostKeys = 64 // that a viewer can hold; more are passed on and not released for it

func (h *held) count() int { return bits.OnesCount8(h.buttons) + len(h.keys) }

// release lets go of what the viewer still holds: its browser may have been closed in the
// middle of a drag, and x11vnc would leave the button down.
func (h *held) release(server net.Conn) {
	n := h.count()
	if n == 0 {
		return
	}
	h.view.mu.Lock()
	h.view.holding -= n
	h.view.mu.Unlock()
	var out []byte
	if h.buttons != 0 {
		out = append(out, pointerMessage(0, h.x, h.y)...)
	}
	for _, symbol := range slices.Backward(h.keys) {
		out = append(out, keyMessage(portableKeysym(symbol), false)...)
	}
	_ = server.SetDeadline(time.Now().Add(releaseLimit))
	if _, err := server.Write(out); err != nil {
		return // the desktop has ended
	}
	// A server that finds the connection closed for its pictures looks at no more of its
	// input: so only our half is closed, and the server ends the other when it is done.
	if half, ok := server.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, server)
	}
}

// client is a viewer's websocket as a stream of bytes. One goroutine may read and one write
// at a time.
type client struct {
	ws   *websocket.Conn
	in   *io.PipeReader
	done chan struct{} // closed when the websocket has ended

	writing    context.Context
	cutWriting context.CancelFunc
}

// newClient starts to read the websocket, until it ends or wire does.
func newClient(wire context.Context, ws *websocket.Conn) *client {
	ws.SetReadLimit(mostMessage)
	in, out := io.Pipe()
	c := &client{ws: ws, in: in, done: make(chan struct{})}
	c.writing, c.cutWriting = context.WithCancel(wire)
	go func() {
		defer close(c.done)
		defer c.cutWriting()
		for {
			kind, message, err := ws.Reader(wire)
			if err != nil {
				out.CloseWithError(fmt.Errorf("%w: %w", errLeft, err))
				break
			}
			if kind != websocket.MessageBinary {
				out.CloseWithError(fmt.Errorf("%w: it sent text", errProtocol))
			}
			// When nobody reads from the pipe any more the rest goes nowhere, so that
			// the end of the websocket is still noticed.
			if _, err := io.Copy(out, message); err != nil {
				_, _ = io.Copy(io.Discard, message)
			}
		}
	}()
	return c
}

const mostMessage = 2 << 20 // bytes in one message of the websocket; noVNC's have 10 KB

// Read reads what the viewer sends.
func (c *client) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write sends to the viewer and returns when it has been taken.
func (c *client) Write(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(c.writing, writeLimit)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageBinary, p); err != nil {
		return 0, fmt.Errorf("%w: %w", errLeft, err)
	}
	return len(p), nil
}

// stop ends reading.
func (c *client) stop() { c.in.CloseWithError(errLeft) }

// wait returns when the websocket has ended.
func (c *client) wait() { <-c.done }

// keepAlive asks the viewer from time to time whether it is there, until it is not.
func (c *client) keepAlive(ctx context.Context) error {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return errLeft
		case <-ticker.C:
		}
		limit, cancel := context.WithTimeout(ctx, writeLimit)
		err := c.ws.Ping(limit)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", errLeft, err)
		}
	}
}
