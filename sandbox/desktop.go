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
	"time"

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
	detach sync.Once
}

// place is where things are inside.
type place struct {
	Home    string // folder
	Runtime string // folder of sockets
	Display string // such as ":1"
	Cookie  []byte // of the display
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

// Done is closed when the desktop has ended and everything of it is gone.
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

var errClosed = errors.New("the desktop was closed")

// Close ends a desktop of this process, and returns when nothing is left of it: no process,
// no file. A desktop of another process goes on; only the connection to it ends. Closing again
// does nothing.
func (d *Desktop) Close() error {
	if d.own == nil {
		d.detach.Do(func() {
			_ = d.display.Close() // what is held is released, as far as that can be said
			d.peer.Close()
			close(d.done)
		})
		return nil
	}
	d.fail(errClosed)
	<-d.done
	return nil
}

// fail ends the desktop for a reason. The first counts.
func (d *Desktop) fail(reason error) {
	d.mu.Lock()
	first := d.reason == nil
	if first {
		switch {
		case errors.Is(reason, errClosed), errors.Is(reason, context.Canceled), errors.Is(reason, context.DeadlineExceeded),
			errors.Is(reason, ErrEnded), errors.Is(reason, ErrLimit):
			d.reason = reason
		default:
			d.reason = &sentence{kind: ErrEnded, text: "the desktop has ended: " + reason.Error(), cause: reason}
		}
	}
	d.mu.Unlock()
	if first {
		offer(d.own.failed, reason)
	}
	d.own.end()
	if d.peer != nil {
		_ = d.peer.Break()
	}
}

// supervise waits for the end of the desktop, however it comes, and clears up.
func (d *Desktop) supervise() {
	own := d.own
	select {
	case <-own.process.done:
		d.fail(fmt.Errorf("its sandbox has ended"))
	case <-d.peer.Done():
		d.fail(fmt.Errorf("its guest has ended"))
	}
	if err := d.Err(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrStopped) {
		own.events.add(Event{Kind: EventEnd, Text: err.Error()})
	}
	own.process.end()
	go d.release() // it waits for this goroutine too
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
		own.events.stop()
		close(d.done)
	})
}

// dial makes a connection inside the desktop.
func (d *Desktop) dial(ctx context.Context, network, address string) (net.Conn, error) {
	files, err := d.peer.Call(ctx, guest.OpDial, guest.Dial{Network: network, Address: address}, nil)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if len(files) != 1 {
		return nil, errors.New("the guest sent no connection")
	}
	return net.FileConn(files[0])
}

// dialDisplay connects to the display's server.
func (d *Desktop) dialDisplay(ctx context.Context) (net.Conn, error) {
	return d.dial(ctx, "display", "")
}

// eventQueue calls back with events, one at a time and in their order, without holding up
// those that add them.
type eventQueue struct {
	mu      sync.Mutex
	waiting []Event
	wake    chan struct{}
	stopped bool
	done    chan struct{}
}

func (q *eventQueue) start(call func(Event)) {
	q.wake, q.done = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(q.done)
		for range q.wake {
			for {
				q.mu.Lock()
				batch, stopped := q.waiting, q.stopped
				q.waiting = nil
				q.mu.Unlock()
				if len(batch) == 0 {
					if stopped {
						return
					}
					break
				}
				for _, e := range batch {
					if call != nil {
						call(e)
					}
				}
			}
		}
	}()
}

// maxEvents bounds those that wait: what runs inside can make any number of them.
const maxEvents = 10_000

func (q *eventQueue) add(e Event) {
	e.Time = time.Now()
	q.mu.Lock()
	if !q.stopped && len(q.waiting) < maxEvents {
		q.waiting = append(q.waiting, e)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// stop returns when all that were added have been told.
func (q *eventQueue) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	q.signal()
	<-q.done
}

func networkEvent(a Attempt) Event {
	verdict := "was refused"
	if a.Allowed {
		verdict = "was allowed"
	}
	text := fmt.Sprintf("a connection to %s %s", net.JoinHostPort(a.Host, fmt.Sprint(a.Port)), verdict)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return Event{Kind: EventNetwork, Text: text + ".", Attempt: &a}
}
