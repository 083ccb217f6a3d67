package liveview_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

// rfbServer is a VNC server without a password that keeps what its viewers send.
type rfbServer struct {
	path string
	send chan []byte // to the newest viewer

	mu  sync.Mutex
	got []byte // after ClientInit, of all viewers
}

func startRFB(t *testing.T) *rfbServer {
	t.Helper()
	s := &rfbServer{path: filepath.Join(t.TempDir(), "rfb"), send: make(chan []byte)}
	l, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		running.Wait()
	})
	return s
}

func (s *rfbServer) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = io.WriteString(conn, "RFB 003.008\n")
	_, _ = io.CopyN(io.Discard, conn, 12)
	_, _ = conn.Write([]byte{1, 1})
	_, _ = io.CopyN(io.Discard, conn, 1)
	_, _ = conn.Write([]byte{0, 0, 0, 0})
	if _, err := io.CopyN(io.Discard, conn, 1); err != nil {
		return
	}
	beginning := append(make([]byte, 23), 6)
	_, _ = conn.Write(append(beginning, "secret"...))
	done := make(chan struct{})
	defer func() { <-done }()
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(done)
		for {
			select {
			case data := <-s.send:
				if data == nil {
					conn.Close()
					return
				}
				if _, err := conn.Write(data); err != nil {
					return
				}
			case <-over.Done():
				return
			}
		}
	}()
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		s.mu.Lock()
		s.got = append(s.got, buffer[:n]...)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *rfbServer) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.path)
}

func (s *rfbServer) wait(t *testing.T, want []byte) {
	t.Helper()
	var got []byte
	defer func() {
		if t.Failed() {
			t.Logf("the server got %x", got)
		}
	}()
	desktest.Eventually(t, "the server gets what it should", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = slices.Clone(s.got)
		return bytes.Equal(got, want)
	})
}

// connect opens a websocket as the page does.
func (s *live) connect(t testing.TB, session map[string]string) *websocket.Conn {
	t.Helper()
	base := "http://" + s.addr.String()
	ws, _, err := websocket.Dial(t.Context(), base+"/socket", &websocket.DialOptions{
		Subprotocols: []string{"binary"},
		HTTPHeader:   http.Header{"Origin": {base}, "Cookie": {session["Cookie"]}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.CloseNow() })
	if ws.Subprotocol() != "binary" {
		t.Errorf("the subprotocol is %q", ws.Subprotocol())
	}
	ws.SetReadLimit(-1)
	return ws
}

// begin does a viewer's handshake, and returns the stream.
func begin(t testing.TB, ws *websocket.Conn) net.Conn {
	t.Helper()
	c := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
	hand := func(read int, write string) []byte {
		got := make([]byte, read)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, write); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if v := hand(12, "RFB 003.008\n"); string(v) != "RFB 003.008\n" {
		t.Errorf("the version is %q", v)
	}
	if types := hand(2, "\x01"); !bytes.Equal(types, []byte{1, 1}) {
		t.Errorf("the types of security are %v: the browser is to be asked for nothing", types)
	}
	hand(4, "\x00")
	beginning := hand(24, "")
	if name := hand(int(binary.BigEndian.Uint32(beginning[20:])), ""); string(name) != "Desk" {
		t.Errorf("the name is %q", name)
	}
	return c
}

// ending waits for the end of a websocket and returns the code and the reason.
func ending(t *testing.T, ws *websocket.Conn) (websocket.StatusCode, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, _, err := ws.Read(ctx); err != nil {
			var end websocket.CloseError
			if !errors.As(err, &end) {
				t.Fatal(err)
			}
			return end.Code, end.Reason
		}
	}
}

const (
	keyDown    = "\x04\x01\x00\x00\x00\x00\x00a"
	keyUp      = "\x04\x00\x00\x00\x00\x00\x00a"
	qemuDown   = "\xff\x00\x00\x01\x00\x00\x00b\x00\x00\x00\x30"
	qemuUp     = "\xff\x00\x00\x00\x00\x00\x00b\x00\x00\x00\x30"
	plainDown  = "\x04\x01\x00\x00\x00\x00\x00b"
	plainUp    = "\x04\x00\x00\x00\x00\x00\x00b"
	pointerAt  = "\x05\x00\x00\x10\x00\x20"
	pressed    = "\x05\x01\x00\x10\x00\x20"
	update     = "\x03\x01\x00\x00\x00\x00\x00\x10\x00\x10"
	encodings  = "\x02\x00\x00\x02\x00\x00\x00\x00\xff\xff\xfe\xcb" // Raw and xvp
	onlyRaw    = "\x02\x00\x00\x01\x00\x00\x00\x00"
	powerOff   = "\xfa\x00\x01\x02"
	resize     = "\xfb\x00\x04\x00\x03\x00\x00\x00"
	clipboards = "\x06\x00\x00\x00\x00\x00\x00\x01x"
)

func TestBridgePassesWhatItMay(t *testing.T) {
	r := startRFB(t)
	s := serve(t, liveview.Options{Dial: r.dial, Name: "Desk", Static: files()})
	c := begin(t, s.connect(t, s.session(t)))
	sent := encodings + update + pointerAt + pressed + keyDown + keyDown + keyUp + qemuDown + qemuUp + powerOff + resize + clipboards + pointerAt
	// Cut across messages.
	for chunk := range slices.Chunk([]byte(sent), 7) {
		if _, err := c.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	r.wait(t, []byte(onlyRaw+update+pointerAt+pressed+keyDown+keyUp+plainDown+plainUp+pointerAt))
	if s.Holding() || s.Viewers() != 1 || s.LastInput().IsZero() {
		t.Errorf("holding %v, %d viewers, last input %v", s.Holding(), s.Viewers(), s.LastInput())
	}
	if k := s.kinds(); k[liveview.Key] != 4 || k[liveview.Button] != 2 || k[liveview.Move] != 1 {
		t.Errorf("the input was reported as %v", k)
	}
	// The other way everything passes as it is.
	picture := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MB
	r.send <- picture
	got := make([]byte, len(picture))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, picture) {
		t.Errorf("what the server sends does not arrive (%v)", err)
	}
}

func TestBridgeViewOnly(t *testing.T) {
	r := startRFB(t)
	s := serve(t, liveview.Options{Dial: r.dial, Name: "Desk", Static: files(), ViewOnly: true})
	c := begin(t, s.connect(t, s.session(t)))
	if _, err := io.WriteString(c, pointerAt+pressed+keyDown+qemuDown+clipboards+update); err != nil {
		t.Fatal(err)
	}
	r.wait(t, []byte(update))
	if !s.LastInput().IsZero() || s.Holding() || len(s.kinds()) != 0 {
		t.Error("what is dropped counts as input")
	}
}

func TestBridgeReleasesWhatIsHeld(t *testing.T) {
	r := startRFB(t)
	s := serve(t, liveview.Options{Dial: r.dial, Name: "Desk", Static: files()})
	session := s.session(t)
	for _, leave := range []func(*websocket.Conn){
		func(ws *websocket.Conn) { ws.CloseNow() },
		func(ws *websocket.Conn) { ws.Close(websocket.StatusGoingAway, "") },
	} {
		r.mu.Lock()
		r.got = nil
		r.mu.Unlock()
		ws := s.connect(t, session)
		if _, err := io.WriteString(begin(t, ws), keyDown+qemuDown+pressed); err != nil {
			t.Fatal(err)
		}
		r.wait(t, []byte(keyDown+plainDown+pressed))
		if !s.Holding() {
			t.Error("nobody is said to hold anything")
		}
		leave(ws)
		r.wait(t, []byte(keyDown+plainDown+pressed+pointerAt+plainUp+keyUp))
		desktest.Eventually(t, "nobody holds anything", func() bool { return !s.Holding() && s.Viewers() == 0 })
	}
}

func TestBridgeEnds(t *testing.T) {
	r := startRFB(t)
	s := serve(t, liveview.Options{Dial: r.dial, Name: "Desk", Static: files()})
	session := s.session(t)
	end := func(name string, want websocket.StatusCode, log string, act func(ws *websocket.Conn)) {
		t.Helper()
		ws := s.connect(t, session)
		act(ws)
		if code, reason := ending(t, ws); code != want || reason == "" {
			t.Errorf("%s: ended with %d %q", name, code, reason)
		}
		if !strings.Contains(s.log.String(), log) {
			t.Errorf("%s: the log lacks %q", name, log)
		}
	}
	write := func(text string) func(ws *websocket.Conn) {
		return func(ws *websocket.Conn) {
			if _, err := io.WriteString(begin(t, ws), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	end("an unknown message", 4001, "a message of the unknown type 7", write(update+"\x07\x00"))
	end("text", 4001, "it sent text", func(ws *websocket.Conn) {
		begin(t, ws)
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
	})
	end("another version", 4001, "not RFB 3.8", func(ws *websocket.Conn) {
		if err := ws.Write(t.Context(), websocket.MessageBinary, []byte("RFB 003.003\n")); err != nil {
			t.Fatal(err)
		}
	})
	end("the server's end", 4000, "the desktop does not answer", func(ws *websocket.Conn) {
		begin(t, ws)
		r.send <- nil
	})
	desktest.Eventually(t, "all have left", func() bool { return s.Viewers() == 0 })

	for range 16 {
		begin(t, s.connect(t, session))
	}
	end("the 17th viewer", 4002, "16 viewers are connected", func(*websocket.Conn) {})
	ws := s.connect(t, session)
	if code, _ := ending(t, ws); code != 4002 {
		t.Errorf("the 18th viewer: %d", code)
	}

	gone := serve(t, liveview.Options{Dial: noDial, Static: files()})
	if code, reason := ending(t, gone.connect(t, gone.session(t))); code != 4000 || reason == "" {
		t.Errorf("without a server: %d %q", code, reason)
	}
}

// TestBridgeOver closes the view under viewers: one that reads, one that does not and to
// which the server sends more than fits.
func TestBridgeOver(t *testing.T) {
	r := startRFB(t)
	var passed atomic.Int64
	dial := func(ctx context.Context) (net.Conn, error) {
		conn, err := r.dial(ctx)
		return counted{conn, &passed}, err
	}
	s := serve(t, liveview.Options{Dial: dial, Name: "Desk", Static: files()})
	session := s.session(t)
	stuck := s.connect(t, session)
	begin(t, stuck)
	const flood = 64 << 20
	r.send <- make([]byte, flood)
	// The flood stands when it has not moved for a while.
	last, still := int64(0), 0
	desktest.Eventually(t, "the server is held up", func() bool {
		if still++; passed.Load() != last {
			last, still = passed.Load(), 0
		}
		return last > 0 && still > 20
	})
	if last >= flood {
		t.Fatal("a viewer that reads nothing was sent everything")
	}
	ws := s.connect(t, session)
	begin(t, ws)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	if code, reason := ending(t, ws); code != 4003 || reason == "" {
		t.Errorf("the view's end: %d %q", code, reason)
	}
	<-closed
	if s.Viewers() != 0 {
		t.Errorf("%d viewers are left", s.Viewers())
	}
	if status, _, body := s.get(t, "/socket", session); status != http.StatusServiceUnavailable {
		t.Errorf("a viewer that comes later gets %d: %s", status, body)
	}
	s.Close()
}

// counted counts what is read.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}
