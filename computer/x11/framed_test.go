package x11

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand"
	"net"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// impostor stands between a driver and a server, and changes what the server says.
func impostor(t *testing.T, number string, change func(p []byte) []byte) func(context.Context) (net.Conn, error) {
	t.Helper()
	return func(ctx context.Context) (net.Conn, error) {
		server, err := new(net.Dialer).DialContext(ctx, "unix", "/tmp/.X11-unix/X"+number)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close(); _ = server.Close() })
		go func() { _, _ = io.Copy(server, far); _ = server.Close() }()
		go func() {
			buffer := make([]byte, 64<<10)
			for {
				n, err := server.Read(buffer)
				if n > 0 {
					if _, err := far.Write(change(buffer[:n])); err != nil {
						return
					}
				}
				if err != nil {
					_ = far.Close()
					return
				}
			}
		}()
		return near, nil
	}
}

// TestImpostor opens displays whose server has been got hold of: at worst that is an error.
func TestImpostor(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 320, Height: 200})
	number := s.Name()[1:]
	try := func(change func([]byte) []byte) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, err := Open(ctx, "desk", &Options{Dial: impostor(t, number, change)})
		if err == nil {
			_, err = d.Size(ctx)
			_ = d.Close()
		}
		return err
	}
	if err := try(func(p []byte) []byte { return p }); err != nil {
		t.Fatalf("a server as it is: %v", err)
	}
	setup := true
	if err := try(func(p []byte) []byte {
		if !setup && len(p) == 32 && p[0] == 1 { // 32 and four times this are 28, in 32 bits
			binary.LittleEndian.PutUint32(p[4:], 0x3fffffff)
		}
		setup = false
		return p
	}); err == nil {
		t.Error("a reply of 4 GiB is taken")
	}
	for seed := range int64(6) {
		random := rand.New(rand.NewSource(seed))
		_ = try(func(p []byte) []byte {
			for range 1 + random.Intn(4) {
				p[random.Intn(len(p))] = byte(random.Intn(256))
			}
			return p
		})
	}
}
