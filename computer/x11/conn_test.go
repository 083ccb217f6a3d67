package x11

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/internal/desktest"
)

func TestParseName(t *testing.T) {
	for _, c := range []struct {
		name string
		want address
	}{
		{":1", address{number: 1}},
		{":1.0", address{number: 1}},
		{":12.3", address{number: 12, screen: 3}},
		{"unix:1", address{number: 1}},
		{"unix/somewhere:1", address{number: 1}},
		{"host:2.1", address{host: "host", number: 2, screen: 1}},
		{"tcp/host:2", address{host: "host", number: 2}},
		{"::1:3", address{host: "::1", number: 3}},
		{"/run/x/display:4", address{socket: "/run/x/display:4", hasPath: true, number: 4}},
	} {
		c.want.name = c.name
		if got, err := parseName(c.name); err != nil || got != c.want {
			t.Errorf("parseName(%q) = %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for _, name := range []string{"", ":", "1", ":x", ":-1", ":1.", ":1.x", ":1.-1", ":99999999999999999999", ":60000", "host", ":1 "} {
		if got, err := parseName(name); err == nil {
			t.Errorf("parseName(%q) = %+v, want an error", name, got)
		}
	}
}

// entry is a record of an authority file.
func entry(family uint16, fields ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, family)
	for _, field := range fields {
		b = binary.BigEndian.AppendUint16(b, uint16(len(field)))
		b = append(b, field...)
	}
	return b
}

func TestFindCookie(t *testing.T) {
	const local, wild, internet = 256, 65535, 0
	file := bytes.Join([][]byte{
		entry(local, "other", "1", cookieProtocol, "other host"),
		entry(local, "here", "1", "XDM-AUTHORIZATION-1", "other protocol"),
		entry(local, "here", "1", cookieProtocol, "first"),
		entry(internet, "\x7f\x00\x00\x01", "2", cookieProtocol, "address"),
		entry(wild, "", "", cookieProtocol, "any"),
	}, nil)
	for _, c := range []struct {
		host   string
		local  bool
		number string
		want   string
	}{
		{"here", true, "1", "first"},
		{"here", true, "9", "any"},
		{"elsewhere", true, "1", "any"},
		{"127.0.0.1", false, "2", "address"},
		{"127.0.0.1", false, "9", "any"},
	} {
		if got := findCookie(file, c.host, c.local, c.number); string(got) != c.want {
			t.Errorf("for %s:%s it is %q, want %q", c.host, c.number, got, c.want)
		}
	}
	// However the file is cut, what is left of it counts.
	for n := range file {
		if got := findCookie(file[:n], "nowhere", true, "9"); got != nil {
			t.Errorf("the first %d bytes have %q", n, got)
		}
	}
}

func FuzzFindCookie(f *testing.F) {
	f.Add(entry(256, "here", "1", cookieProtocol, "first"))
	f.Add([]byte{1, 0, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := findCookie(data, "here", true, "1"); len(got) > len(data) {
			t.Error("it is longer than the file")
		}
	})
}

func TestAuthority(t *testing.T) {
	right, wrong := strings.Repeat("r", 16), strings.Repeat("w", 16)
	folder := t.TempDir()
	write := func(name, cookie string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, entry(65535, "", "", cookieProtocol, cookie), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := desktest.Xvfb(t, desktest.Options{Args: []string{"-auth", write("server", right)}, Reset: true})

	t.Setenv("XAUTHORITY", write("right", right))
	d, err := Open(t.Context(), server.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for name, path := range map[string]string{"wrong": write("wrong", wrong), "none": filepath.Join(folder, "missing")} {
		t.Setenv("XAUTHORITY", path)
		if _, err := Open(t.Context(), server.Name(), nil); err == nil || !strings.Contains(err.Error(), "XAUTHORITY") || !errors.Is(err, ErrRefused) {
			t.Errorf("with the %s cookie: %v", name, err)
		}
	}
}

// pretender listens as a display that is none, and returns the display's name.
func pretender(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "display")
	l, err := net.Listen("unix", path+":7")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return path + ":7"
}

func TestOpenWithoutDisplay(t *testing.T) {
	silent := pretender(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<20)); _, _ = c.Read(make([]byte, 1)) })
	hangsUp := pretender(t, func(net.Conn) {})
	babbles := pretender(t, func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("no display "), 1000)) })
	t.Setenv("DISPLAY", "")
	for name, want := range map[string]string{
		"":                     "DISPLAY is not set",
		"nonsense":             "not the name of a display",
		":64999":               "",
		":59535":               "Xvfb :59535",
		"/does/not/exist:1":    "there is no display",
		hangsUp:                "closed the connection",
		babbles:                "",
		"localhost.invalid:59": "there is no display",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		d, err := Open(ctx, name, nil)
		cancel()
		if err == nil {
			t.Errorf("%q opened as %v", name, d)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want it to say %q", name, err, want)
		} else if is := errors.Is(err, ErrNoDisplay); is == (name == "nonsense" || name == hangsUp || name == babbles || name == ":64999") {
			t.Errorf("%q: %v; is it ErrNoDisplay: %v", name, err, is)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, silent, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a display that says nothing: %v", err)
	}
}

// Connections to several servers at once share what the protocol library keeps for all.
func TestManyDisplays(t *testing.T) {
	var opening sync.WaitGroup
	for range 2 {
		server := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 48})
		for range 4 {
			opening.Go(func() {
				d, err := Open(t.Context(), server.Name(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if size, err := d.Size(t.Context()); err != nil || size.X != 64 {
					t.Errorf("%v, %v", size, err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	opening.Wait()
}
