package liveview_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

func TestListen(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:0", ":0", "127.0.0.2:0", "127.0.0.1:00"} {
		l, err := liveview.Listen(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			t.Errorf("%s listens on %v", address, ip)
		}
		l.Close()
	}
	taken, err := liveview.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String():   "another program listens on " + taken.Addr().String() + " already",
		"0.0.0.0:6080":          "ssh -L 6080:127.0.0.1:6080",
		"[::]:6080":             "is not this machine's loopback",
		"192.0.2.1:6080":        "is not this machine's loopback",
		"desk.example:6080":     "is not this machine's loopback",
		"127.0.0.1":             "is not HOST:PORT",
		"127.0.0.1:http":        "is not a port",
		"127.0.0.1:65536":       "is not a port",
		"":                      "is not HOST:PORT",
		"localhost.example:100": "is not this machine's loopback",
	} {
		l, err := liveview.Listen(t.Context(), address)
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, liveview.ErrAddress) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// files are a noVNC that is small.
func files() fstest.MapFS {
	return fstest.MapFS{
		"core/rfb.js":        {Data: []byte("export default class {}")},
		"core/util/int.js":   {Data: []byte("export const one = 1")},
		"core/secret.txt":    {Data: []byte("secret")},
		"core/link.js":       {Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink},
		"vendor/pako/p.js":   {Data: []byte("export {}")},
		"vnc.html":           {Data: []byte("noVNC's own page")},
		"app/ui.js":          {Data: []byte("noVNC's own page")},
		"utils/novnc_proxy":  {Data: []byte("#!/bin/sh")},
		"vendor/pako/README": {Data: []byte("about")},
	}
}

func noDial(context.Context) (net.Conn, error) { return nil, errors.New("nothing is there") }

func TestMissingNoVNC(t *testing.T) {
	for name, static := range map[string]fs.FS{
		"nothing":    fstest.MapFS{},
		"no core":    fstest.MapFS{"vendor/p.js": {}},
		"other core": fstest.MapFS{"core/x.js": {}, "vendor/p.js": {}},
	} {
		_, err := liveview.New(&liveview.Options{Dial: noDial, Static: static})
		var missing *liveview.MissingError
		if !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "apt-get install novnc") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := liveview.New(nil); err == nil {
		t.Error("a view without options is no error")
	}
}

// get asks for a path as it is written.
func (s *live) get(t *testing.T, path string, headers map[string]string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr.String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "//" + s.addr.String() + path
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(data)
}

// session signs in and returns the cookie.
func (s *live) session(t testing.TB) map[string]string {
	t.Helper()
	base := "http://" + s.addr.String()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/sign-in", strings.NewReader("password="+s.Gate().Issue()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", base)
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if len(answer.Cookies()) != 1 {
		t.Fatalf("signing in got %s", answer.Status)
	}
	c := answer.Cookies()[0]
	return map[string]string{"Cookie": c.Name + "=" + c.Value}
}

func TestPaths(t *testing.T) {
	s := serve(t, liveview.Options{Dial: noDial, Static: files()})
	session := s.session(t)
	for path, want := range map[string]int{
		"/": 200, "/page.js": 200, "/page.css": 200, "/state": 200, "/novnc/core/rfb.js": 200, "/novnc/core/util/int.js": 200,
		"/novnc/vendor/pako/p.js": 200,
		"/novnc/":                 404, "/novnc": 404, "/novnc/core": 404, "/novnc/core/": 404, "/novnc/core/secret.txt": 404,
		"/novnc/core/link.js": 404, "/novnc/vnc.html": 404, "/novnc/app/ui.js": 404, "/novnc/utils/novnc_proxy": 404,
		"/index.html": 404, "/page/": 404, "/clipboard": 404, "/favicon.ico": 404,
		"/novnc/core/../vnc.html": -1, "/novnc/core/%2e%2e/vnc.html": -1, "/novnc/core/..%2f..%2f..%2fetc/passwd": 404,
		"//etc/passwd": -1, "/socket": 403, "/invite": 405, "/sign-in": 404,
	} {
		status, header, body := s.get(t, path, session)
		if want < 0 { // cleaned by a redirect, whose target is not there either
			if status == 200 || strings.Contains(body, "noVNC's own page") {
				t.Errorf("%s gets %d: %s", path, status, body)
			}
		} else if status != want && (path != "/socket" || status != http.StatusUpgradeRequired) {
			t.Errorf("%s gets %d, not %d", path, status, want)
		}
		if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s has the headers %v", path, header)
		}
		if path == "/" && strings.Contains(header.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("the page's policy is %s", header.Get("Content-Security-Policy"))
		}
		if status, _, body := s.get(t, path, nil); status != http.StatusUnauthorized || strings.Contains(body, "export") {
			t.Errorf("%s without a session gets %d: %s", path, status, body)
		}
	}
}

// TestServeEnds takes the listener away.
func TestServeEnds(t *testing.T) {
	v, err := liveview.New(&liveview.Options{Dial: noDial, Static: files()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := liveview.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := liveview.Serve(t.Context(), l, v); !errors.Is(err, net.ErrClosed) {
		t.Errorf("serving on a closed listener ends with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l, err = liveview.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := liveview.Serve(ctx, l, v); err != nil {
		t.Errorf("serving under an ended context ends with %v", err)
	}
	if _, err := os.Stat("/usr/share/novnc/core/rfb.js"); err != nil {
		t.Errorf("noVNC is missing (%v); install it with: make setup", err)
	}
}
