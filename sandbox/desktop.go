//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// Desktop is a desktop that runs: one that this process started ([Start]), or one that
// another process has published ([Open]). Its methods may be called by several goroutines at
// once; what Display returns is used by one at a time.
type Desktop struct {
	name    string
	size    image.Point
	at      place
	log     *slog.Logger
	peer    *link.Peer
	display *x11.Display
	own     *owner // nil for another process's desktop

	mu     sync.Mutex
	reason error // why it ended
	done   chan struct{}
}

// place is where things are inside.
type place struct {
	Home    string // folder
	Runtime string // folder of sockets
	Display string // such as ":1"
	Cookie  []byte // of the display
	Open    bool   // there is no sandbox
}

// Display is the desktop's display, open since the desktop started. It is a
// [computer.Desktop], and the Desktop's to close.
//
// [computer.Desktop]: https://pkg.go.dev/github.com/loupe-tools/loupe/computer#Desktop
func (d *Desktop) Display() *x11.Display { return d.display }

// Name is the name that the desktop is published under, or empty.
func (d *Desktop) Name() string { return d.name }

// Size is the display's size in pixels.
func (d *Desktop) Size() image.Point { return d.size }

// Home is the home folder, as programs inside see it.
func (d *Desktop) Home() string { return d.at.Home }

// Done is closed when the desktop has ended, everything of it is gone, and every event has been
// told. Of another process's desktop it says that the connection has ended, which is what a
// desktop's end looks like from there.
func (d *Desktop) Done() <-chan struct{} { return d.done }

// Err is why the desktop ended: nil while it runs and after Close, the context's error when
// that ended it, and otherwise an error that wraps [ErrEnded], with [ErrStopped] where it was
// [Stop], or [ErrLimit].
func (d *Desktop) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(d.reason, errClosed) {
		return nil
	}
	return d.reason
}

// Reasons of ends.
var (
	errClosed       = errors.New("the desktop was closed")
	errSandboxEnded = errors.New("its sandbox has ended")
	errGuestEnded   = errors.New("its guest has ended")
)

// Close ends a desktop of this process, and returns when nothing is left of it, no process and
// no file, and every event has been told; but where [Options.Event] is being called at that
// moment it does not wait for that, so that it may be called from there. A desktop of another
// process goes on; only the connection to it ends. Closing again does nothing. The error is
// always nil.
func (d *Desktop) Close() error {
	d.fail(errClosed)
	if d.own != nil && d.own.events.isCalling() {
		<-d.own.freed
		return nil
	}
	<-d.done
	return nil
}

// byContext is a reason to end that a context had.
type byContext struct{ cause error }

func (b *byContext) Error() string { return b.cause.Error() }
func (b *byContext) Unwrap() error { return b.cause }

// fail ends the desktop for a reason. The first counts.
func (d *Desktop) fail(reason error) {
	d.mu.Lock()
	first := d.reason == nil
	if first {
		var ended *byContext
		switch {
		case errors.As(reason, &ended):
			d.reason = ended.cause
		case errors.Is(reason, errClosed), errors.Is(reason, context.Canceled), errors.Is(reason, context.DeadlineExceeded),
			errors.Is(reason, ErrEnded), errors.Is(reason, ErrLimit):
			d.reason = reason
		default:
			d.reason = &sentence{kind: ErrEnded, text: "the desktop has ended: " + reason.Error(), cause: reason}
		}
	}
	d.mu.Unlock()
	if d.own == nil {
		_ = d.peer.Break()
		return
	}
	if first {
		offer(d.own.failed, reason)
	}
	d.own.end()
}

// follow waits for the end of another process's desktop, or of the connection to it.
func (d *Desktop) follow() {
	<-d.peer.Done()
	d.fail(errors.New("it was stopped, or its owner has ended"))
	_ = d.display.Close() // it has no server any more
	close(d.done)
}

// supervise waits for the end of the desktop, however it comes, and clears up.
func (d *Desktop) supervise() {
	own := d.own
	select {
	case <-own.process.done:
		d.fail(errSandboxEnded)
	case <-d.peer.Ended():
		d.fail(errGuestEnded)
	}
	own.ignore()
	if err := d.Err(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrStopped) {
		own.events.add(Event{Kind: EventEnd, Text: err.Error()})
	}
	own.process.end()
	go func() { // it waits for this goroutine too
		<-own.brought
		d.release()
	}()
}

// release frees everything of a desktop of ours, and closes Done.
func (d *Desktop) release() {
	own := d.own
	own.released.Do(func() {
		own.end()
		if own.control != nil {
			_ = own.control.Close()
		}
		if own.process != nil {
			own.process.end()
			d.peer.Close()
		}
		if d.display != nil {
			_ = d.display.Close() // its server is gone, and with it all that could be wrong
		}
		own.tasks.Wait()
		if own.group != nil {
			if err := own.group.Close(); err != nil {
				d.log.Warn("removing the desktop's control group", "error", err)
			}
		}
		if own.scratch != "" {
			_ = os.RemoveAll(own.scratch) // the guest has done it, unless it was killed
		}
		close(own.freed)
		own.events.stop()
		<-own.events.done
		close(d.done)
	})
}

// dial connects to a Unix socket inside the desktop.
func (d *Desktop) dial(ctx context.Context, path string) (net.Conn, error) {
	return d.connect(ctx, guest.Dial{Path: path})
}

// dialDisplay connects to the display's server.
func (d *Desktop) dialDisplay(ctx context.Context) (net.Conn, error) {
	return d.connect(ctx, guest.Dial{Display: true})
}

func (d *Desktop) connect(ctx context.Context, to guest.Dial) (net.Conn, error) {
	file, err := d.peer.CallForFile(ctx, guest.OpDial, to, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("the guest sent no connection: %w", err)
	}
	// Another kind, as TCP, would let whoever is at the other end hold up its closing.
	socket, ok := conn.(*net.UnixConn)
	if !ok || socket.LocalAddr().Network() != "unix" {
		_ = conn.Close()
		return nil, errors.New("the guest sent a connection of another kind")
	}
	return socket, nil
}

// ended says of an error that came since the desktop has ended that it has, and why.
func (d *Desktop) ended(err error) error {
	select {
	case <-d.peer.Ended():
	default:
		return err
	}
	if reason := d.Err(); reason != nil {
		return &sentence{kind: ErrEnded, text: reason.Error(), cause: err}
	}
	return &sentence{kind: ErrEnded, text: ErrEnded.Error(), cause: err}
}
