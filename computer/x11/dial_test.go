package x11

import (
	"context"
	"errors"
	"image"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// A program that reaches the server in a way of its own needs neither a name that means
// something here nor an authority file.
func TestDialOfOnesOwn(t *testing.T) {
	t.Setenv("XAUTHORITY", filepath.Join(t.TempDir(), "none"))
	s := desktest.Xvfb(t, desktest.Options{Width: 320, Height: 200})
	number := s.Name()[1:]
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", "/tmp/.X11-unix/X"+number)
	}
	d, err := Open(t.Context(), "desk", &Options{Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if size, err := d.Size(t.Context()); err != nil || size != image.Pt(320, 200) {
		t.Errorf("the size is %v, %v", size, err)
	}

	gone := func(context.Context) (net.Conn, error) { return nil, os.ErrNotExist }
	if _, err := Open(t.Context(), "desk", &Options{Dial: gone}); !errors.Is(err, ErrNoDisplay) ||
		err.Error() != "display desk cannot be reached; it has ended, or is ending" {
		t.Errorf("a display that is gone: %v", err)
	}
}
