package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// idleConn ends a connection on which no byte has moved, in either direction, for the
// idle time. A deadline that is set on it holds in place of that. Close may be called
// more than once.
type idleConn struct {
	net.Conn
	idle time.Duration

	last  atomic.Int64            // when a byte last moved, in nanoseconds of the Unix epoch
	count atomic.Pointer[traffic] // where bytes are counted now; nil: nowhere

	mu          sync.Mutex // holds a deadline and the one that stands in for it together
	read, write time.Time  // set from outside

	once    sync.Once
	onClose func()
	closing error
}

func newIdleConn(c net.Conn, idle time.Duration, onClose func()) *idleConn {
	ic := &idleConn{Conn: c, idle: idle, onClose: onClose}
	ic.touch()
	return ic
}

func (c *idleConn) touch() { c.last.Store(time.Now().UnixNano()) }

// armRead sets the deadline for a read that begins, and reports whether it is the one
// for idleness.
func (c *idleConn) armRead(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() {
		return false
	}
	_ = c.Conn.SetReadDeadline(t)
	return true
}

func (c *idleConn) armWrite(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.write.IsZero() {
		return false
	}
	_ = c.Conn.SetWriteDeadline(t)
	return true
}

func (c *idleConn) Read(b []byte) (int, error) {
	until := time.Now().Add(c.idle)
	for {
		armed := c.armRead(until)
		n, err := c.Conn.Read(b)
		if n > 0 {
			c.touch()
			if t := c.count.Load(); t != nil {
				t.received.Add(int64(n))
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil
			}
			return n, err
		}
		if !armed || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		// Bytes that went the other way are activity too.
		until = time.Unix(0, c.last.Load()).Add(c.idle)
		if !until.After(time.Now()) {
			return n, err
		}
	}
}

func (c *idleConn) Write(b []byte) (int, error) {
	sum := 0
	for {
		armed := c.armWrite(time.Now().Add(c.idle))
		n, err := c.Conn.Write(b[sum:])
		sum += n
		if n > 0 {
			c.touch()
			if t := c.count.Load(); t != nil {
				t.sent.Add(int64(n))
			}
		}
		if n > 0 && sum < len(b) && armed && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // slow, but not idle
		}
		return sum, err
	}
}

func (c *idleConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	if t.IsZero() {
		t = time.Now().Add(c.idle)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *idleConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	if t.IsZero() {
		t = time.Now().Add(c.idle)
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *idleConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite says that nothing more will be written. A connection that cannot say so is
// closed, since its other end would wait for ever.
func (c *idleConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

func (c *idleConn) Close() error {
	c.once.Do(func() {
		c.closing = c.Conn.Close()
		if c.onClose != nil {
			c.onClose()
		}
	})
	return c.closing
}

// buffers are for copying: a tunnel holds two.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyHalf moves bytes one way until the source ends, and then ends the destination's
// half of the connection.
func copyHalf(dst *idleConn, src io.Reader) (readErr, writeErr error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	for {
		n, err := src.Read(buffer[:])
		if n > 0 {
			if _, err := dst.Write(buffer[:n]); err != nil {
				return nil, err
			}
		}
		if err == io.EOF {
			// The other end may have gone already, which is no fault.
			_ = dst.CloseWrite()
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}

// limitedListener accepts no more than so many connections at once; further ones wait
// in the kernel's queue.
type limitedListener struct {
	net.Listener
	ctx   context.Context
	slots chan struct{}
	wrap  func(net.Conn, func()) net.Conn
	full  func()
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	default:
		l.full()
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return nil, net.ErrClosed
		}
	}
	release := func() { <-l.slots }
	c, err := l.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	return l.wrap(c, release), nil
}
