//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"image"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/sandbox"
)

// TestHarm runs what does harm to the desktop that it runs on, and looks at what is left of
// the caller's.
func TestHarm(t *testing.T) {
	t.Run("signals to the guest", func(t *testing.T) {
		t.Parallel()
		d := start(t, nil)
		output(t, d, "for signal in $(seq 64); do kill -$signal 1; done; true")
		if got := output(t, d, "cat /proc/1/comm; grep State /proc/1/status"); !strings.HasPrefix(got, "loupe-guest\n") || strings.Contains(got, "stopped") {
			t.Errorf("the guest after signals is %q", got)
		}
		if _, err := d.Display().Capture(t.Context(), image.Rect(0, 0, 10, 10)); err != nil {
			t.Error(err)
		}
		if err := d.Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("orphans are collected", func(t *testing.T) {
		t.Parallel()
		d := start(t, nil)
		output(t, d, `for i in $(seq 50); do (sh -c 'exit 3' & exit 0); done; setsid sh -c '(sleep 0.01 &)' & wait`)
		until(t, "no zombie on the desktop", func() bool {
			return output(t, d, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true") == "0"
		})
	})
	t.Run("kill everything", func(t *testing.T) {
		t.Parallel()
		d := start(t, nil)
		_ = d.Command("sh", "-c", "kill -KILL -1").Run(t.Context()) // it kills itself too
		<-d.Done()
		if err := d.Err(); !errors.Is(err, sandbox.ErrEnded) {
			t.Errorf("the desktop ended with %v", err)
		}
		if err := d.Command("true").Run(t.Context()); !errors.Is(err, sandbox.ErrEnded) {
			t.Errorf("a command after that: %v", err)
		}
	})
	t.Run("stop everything", func(t *testing.T) {
		t.Parallel()
		d := start(t, nil)
		_ = d.Command("sh", "-c", "pkill -STOP Xvfb").Run(t.Context())
		// Nobody answers, so what asks ends with its context.
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() {
			_, err := d.Display().Capture(ctx, image.Rect(0, 0, 10, 10))
			asked <- err
		}()
		until(t, "the request of a capture", func() bool { // it has been sent, or will not be
			return output(t, d, "grep -c 'State:.T' /proc/$(pgrep -x Xvfb)/status") == "1"
		})
		cancel()
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("a capture of a display that was stopped: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("the proxy's port", func(t *testing.T) {
		t.Parallel()
		d := start(t, nil)
		// Nobody inside can listen in the proxy's place, or beside it.
		got := output(t, d, `python3 -c '
import socket
for host in ("127.0.0.1", "0.0.0.0", "::"):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        s.bind((host, 3128)); s.listen(); print("listens on", host)
    except OSError as e:
        print(e.strerror)'; curl -s -o /dev/null -w '%{http_code}' http://example.org/`)
		if want := "Address already in use\nAddress already in use\nAddress already in use\n403"; got != want {
			t.Errorf("taking the proxy's port gives %q, want %q", got, want)
		}
	})
}
