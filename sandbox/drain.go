//go:build linux

package sandbox

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// outputGrace is how long the output of a command is read after its end, unless it ends too:
// what the command has started in the background may hold it open.
const outputGrace = 250 * time.Millisecond

// drain copies what comes out of a pipe.
type drain struct {
	from *os.File
	done chan struct{} // closed when nothing is copied any more
}

func startDrain(from *os.File, to io.Writer) *drain {
	d := &drain{from: from, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		defer func() { _ = from.Close() }()
		// The writer must not see the pipe, or it would be asked to do the copying.
		_, err := io.Copy(to, struct{ io.Reader }{from})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		// Who writes slowly has not seen what the command wrote before it ended. What is in the
		// pipe now is all of that, and can be read without waiting.
		if n := waiting(from); n > 0 && from.SetReadDeadline(time.Time{}) == nil {
			_, _ = io.CopyN(to, struct{ io.Reader }{from}, int64(n))
		}
	}()
	return d
}

// end lets the copying end when the pipe does, or soon.
func (d *drain) end() { _ = d.from.SetReadDeadline(time.Now().Add(outputGrace)) }

// waiting is how many bytes are in a pipe.
func waiting(pipe *os.File) (n int) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// blocking makes the other holders of a file wait in the kernel.
func blocking(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.SetNonblock(int(fd), false) }); err != nil {
		return err
	}
	return inner
}

// oneAtATime lets two goroutines share a writer.
type oneAtATime struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneAtATime) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// same reports whether two writers are one.
func same(a, b io.Writer) (is bool) {
	defer func() { _ = recover() }() // of a kind that cannot be compared
	return a != nil && a == b
}
