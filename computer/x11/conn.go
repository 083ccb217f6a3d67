package x11

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// prepareLibrary makes the protocol library fit for more than one connection in a process,
// and quiet.
//
// The library keeps the constructors of events and errors in maps that all connections
// share, writes to them whenever an extension is set up, and reads them without a lock.
// So they are filled once, before the first connection, with constructors for every
// number, and the extensions are set up here (see extension) without its help.
var prepareLibrary = sync.OnceFunc(func() {
	xgb.Logger = log.New(io.Discard, "", 0)
	for n := 35; n < 128; n++ {
		xgb.NewEventFuncs[n] = func(buf []byte) xgb.Event { return extensionEvent(buf) }
	}
	for n := 18; n < 256; n++ {
		xgb.NewErrorFuncs[n] = func(buf []byte) xgb.Error { return extensionError(buf) }
	}
})

// extensionEvent is an event of an extension as it came: 32 bytes. What its number means
// differs from server to server, so the connection takes it apart.
type extensionEvent []byte

func (e extensionEvent) Bytes() []byte  { return e }
func (e extensionEvent) String() string { return fmt.Sprintf("extension event %d", e.number()) }
func (e extensionEvent) number() byte   { return e[0] &^ 0x80 }

// extensionError is an error of an extension as it came: 32 bytes.
type extensionError []byte

func (e extensionError) SequenceId() uint16 { return xgb.Get16(e[2:]) }
func (e extensionError) BadId() uint32      { return xgb.Get32(e[4:]) }
func (e extensionError) Error() string {
	return fmt.Sprintf("the display refused request %d.%d with error %d", e[10], xgb.Get16(e[8:]), e[1])
}

// link is the connection to a display and what belongs to it alone.
type link struct {
	x      *xgb.Conn
	socket net.Conn // under x, to break it off
	setup  *xproto.SetupInfo
	screen *xproto.ScreenInfo
	root   xproto.Window

	handlers map[byte]func([]byte) // by event number; set before listen, then only read
	done     chan struct{}         // closed when the event loop has ended
	broken   sync.Once
}

// connect connects to the display of a name.
func connect(ctx context.Context, name string, getenv func(string) string) (*link, error) {
	a, err := parseName(name)
	if err != nil {
		return nil, err
	}
	return a.connect(ctx, getenv)
}

// connect connects to the display.
func (a address) connect(ctx context.Context, getenv func(string) string) (*link, error) {
	prepareLibrary()
	socket, x, err := a.greet(ctx, getenv)
	for try := 1; try < greetTries && hungUp(err); try++ {
		// A server that starts afresh, since its last client has left, hangs up on those
		// who come in that moment.
		pause := time.NewTimer(greetPause)
		select {
		case <-pause.C:
			socket, x, err = a.greet(ctx, getenv)
		case <-ctx.Done():
			pause.Stop()
			err = ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	x.DisplayNumber, x.DefaultScreen = a.number, a.screen
	l := &link{x: x, socket: socket, setup: xproto.Setup(x), handlers: map[byte]func([]byte){}, done: make(chan struct{})}
	if a.screen >= len(l.setup.Roots) {
		l.breakOff()
		return nil, fmt.Errorf("display %s has no screen %d, only %d", a.name, a.screen, len(l.setup.Roots))
	}
	l.screen = &l.setup.Roots[a.screen]
	l.root = l.screen.Root
	return l, nil
}

const (
	greetTries = 5
	greetPause = 50 * time.Millisecond
)

// hungUp reports whether the server ended a connection that had just been made.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// greet dials and goes through the connection setup.
func (a address) greet(ctx context.Context, getenv func(string) string) (net.Conn, *xgb.Conn, error) {
	socket, err := a.dial(ctx)
	if err != nil {
		return nil, nil, a.dialError(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	x, err := meet(&authConn{Conn: &framedConn{Conn: socket}, cookie: a.cookie(getenv)})
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	switch {
	case err == nil:
		return socket, x, nil
	case ctx.Err() == nil && !hungUp(err):
		if a.given != nil {
			err = &connectError{ErrRefused, fmt.Sprintf("display %s refused the connection: its authority is another one", a.name), err}
			break
		}
		err = &connectError{ErrRefused, fmt.Sprintf("display %s refused the connection; XAUTHORITY must name the file with its authority", a.name), err}
	default:
		err = a.dialError(errors.Join(ctx.Err(), err))
	}
	_ = socket.Close()
	return nil, nil, err
}

// extension asks for an extension and readies the library for its requests. It returns the
// number of the extension's first event.
func (l *link) extension(ctx context.Context, name string) (firstEvent byte, present bool, err error) {
	reply, err := await(ctx, l, func() (*xproto.QueryExtensionReply, error) {
		return xproto.QueryExtension(l.x, uint16(len(name)), name).Reply()
	})
	if err != nil || !reply.Present {
		return 0, false, err
	}
	l.x.ExtLock.Lock()
	l.x.Extensions[name] = reply.MajorOpcode
	l.x.ExtLock.Unlock()
	return reply.FirstEvent, true, nil
}

// listen starts the goroutine that reads events until the connection ends. Handlers run on
// it: they must not make requests that are answered.
func (l *link) listen() {
	go func() {
		defer close(l.done)
		for {
			event, xerr := l.x.WaitForEvent()
			switch {
			case event == nil && xerr == nil:
				return
			case event != nil:
				if data := event.Bytes(); len(data) > 0 {
					if handle := l.handlers[data[0]&^0x80]; handle != nil {
						handle(data)
					}
				}
			}
			// An error here answers a request that nobody waited for.
		}
	}()
}

// breakOff ends the connection at once, also when the server no longer answers.
func (l *link) breakOff() {
	l.broken.Do(func() { _ = l.socket.Close() })
	l.x.Close()
}

// meet goes through the connection setup. A server whose answer makes no sense is an error.
func meet(conn net.Conn) (x *xgb.Conn, err error) {
	defer func() {
		if recover() != nil { // the library takes the lengths within the answer for true
			x, err = nil, errGarbled
		}
	}()
	return xgb.NewConnNet(conn)
}

// await runs requests that wait for the server, and returns early when the context or the
// connection ends. A server that has stopped answering would otherwise hold the caller for
// ever; do's goroutine then ends with the connection.
func await[T any](ctx context.Context, l *link, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	finished := make(chan result, 1)
	go func() {
		r := result{err: errGarbled}
		defer func() {
			// The library takes the lengths within a reply for true.
			if recover() != nil {
				l.breakOff()
			}
			finished <- r
		}()
		r.value, r.err = do()
	}()
	select {
	case r := <-finished:
		if errors.Is(r.err, io.EOF) {
			return zero, computer.ErrClosed
		}
		return r.value, r.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// sync waits until the server has handled everything that was sent.
func (l *link) sync(ctx context.Context) error {
	_, err := await(ctx, l, func() (*xproto.GetInputFocusReply, error) { return xproto.GetInputFocus(l.x).Reply() })
	return err
}
