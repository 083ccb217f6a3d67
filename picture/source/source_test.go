package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// picture stands for the bytes of one; what they are is none of this package's business.
var picture = []byte("\x89PNG\r\n\x1a\n\x00\xff%20+picture")

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chart.png", "a b%.png", "data:x", "-"} {
		write(t, name, picture)
	}
	link(t, "chart.png", "link.png")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Cookies()) > 0 || r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("request for %s with headers that tell of another: %v", r.URL, r.Header)
		}
		// Given to whoever comes back with a cookie or a referrer.
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/"})
		var step int
		if n, _ := fmt.Sscanf(r.URL.Path, "/redirect/%d", &step); n == 1 && step > 0 {
			http.Redirect(w, r, fmt.Sprintf("/redirect/%d?token=secret", step-1), http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write(picture)
	}))
	defer server.Close()

	encoded := base64.StdEncoding.EncodeToString(picture)
	for _, test := range []struct{ ref, name string }{
		{"chart.png", "chart.png"},
		{"./chart.png", "./chart.png"},
		{"./data:x", "./data:x"},
		{"./-", "./-"},
		{"link.png", "link.png"},
		{filepath.Join(here, "chart.png"), filepath.Join(here, "chart.png")},
		{"file://" + here + "/chart.png", here + "/chart.png"},
		{"file:" + here + "/chart.png", here + "/chart.png"},
		{"FILE://localhost" + here + "/a%20b%25.png", here + "/a b%.png"},
		{"-", "standard input"},
		{"data:image/png;base64," + encoded, "data URI"},
		{"DATA:;BASE64," + encoded, "data URI"},
		{"data:text/plain;charset=utf-8;base64 ," + encoded, "data URI"},
		{"data:image/png;base64," + base64.RawURLEncoding.EncodeToString(picture), "data URI"},
		{"data:image/png;base64," + url.QueryEscape(encoded), "data URI"},
		{"data:image/png;base64," + encoded[:5] + "\r\n " + encoded[5:] + "#fragment", "data URI"},
		{"data:," + url.PathEscape(string(picture)), "data URI"},
		{server.URL + "/picture.png?token=secret#top", server.URL + "/picture.png"},
		{strings.Replace(server.URL, "http", "HTTP", 1), server.URL},
		{server.URL + "/redirect/5", server.URL + "/redirect/5"},
	} {
		got, err := Read(t.Context(), test.ref, &Options{
			Stdin: bytes.NewReader(picture), AllowURL: true, AllowPrivate: true,
		})
		if err != nil {
			t.Errorf("Read(%q): %v", test.ref, err)
			continue
		}
		if diff := cmp.Diff(&Input{Name: test.name, Data: picture}, got); diff != "" {
			t.Errorf("Read(%q) (-want +got):\n%s", test.ref, diff)
		}
	}
}

// TestLimit holds the size limit to the byte on every way in.
func TestLimit(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, size := range []int{0, 1, 700, 3 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		write(t, "file", data)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/chunked" {
				w.(http.Flusher).Flush() // from here on the length is not told in advance
			}
			w.Write(data)
		}))
		for _, ref := range []string{
			"file", "-", "data:," + string(data),
			"data:;base64," + base64.StdEncoding.EncodeToString(data),
			server.URL, server.URL + "/chunked",
		} {
			for _, less := range []int{0, 1} {
				limit := int64(size - less)
				if limit <= 0 {
					continue
				}
				got, err := Read(t.Context(), ref, &Options{
					Stdin: io.MultiReader(bytes.NewReader(data)), AllowURL: true, AllowPrivate: true, MaxBytes: limit,
				})
				switch {
				case less == 0 && err != nil:
					t.Errorf("%d bytes of %.30s: %v", size, ref, err)
				case less == 0 && !bytes.Equal(got.Data, data):
					t.Errorf("%d bytes of %.30s came out as %d", size, ref, len(got.Data))
				case less == 1 && !errors.Is(err, ErrTooLarge):
					t.Errorf("%d bytes of %.30s with limit %d: %v, want ErrTooLarge", size, ref, limit, err)
				}
			}
		}
		server.Close()
	}
}

// TestErrors compares every sentence that a person may be shown with the golden file,
// and the kind of each error.
func TestErrors(t *testing.T) {
	golden, err := filepath.Abs("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "chart.png", picture)
	write(t, "large.png", make([]byte, 3<<20))
	write(t, "in/chart.png", picture)
	link(t, "../chart.png", "in/out.png")
	link(t, "loop", "loop")
	if err := syscall.Mkfifo("pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	hang := make(chan struct{})
	defer close(hang)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/odd":
			w.WriteHeader(799)
		case "/large":
			w.Write(make([]byte, 3<<20))
		case "/hang":
			w.(http.Flusher).Flush()
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "/cut":
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("short"))
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/ftp":
			w.Header().Set("Location", "ftp://example.org/secret")
			w.WriteHeader(http.StatusFound)
		case "/broken":
			w.Header().Set("Location", "http://%zz/secret")
			w.WriteHeader(http.StatusFound)
		case "/user":
			w.Header().Set("Location", "http://user:secret@"+r.Host+"/")
			w.WriteHeader(http.StatusFound)
		}
	}))
	defer server.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewUnstartedServer(http.RedirectHandler(server.URL+"/", http.StatusFound))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of clients that mistrust it
	secure.StartTLS()
	defer secure.Close()
	authority := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	dns := startDNS(t, map[string][]string{})

	web := Options{AllowURL: true, AllowPrivate: true, Resolver: dns.resolver}
	quick := web
	quick.Timeout = 50 * time.Millisecond
	trusting := web
	trusting.authorities = authority
	public := web
	public.AllowPrivate = false
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()

	var text strings.Builder
	text.WriteString("What a person is told, by reference. See TestErrors.\n")
	for _, test := range []struct {
		ref  string
		o    Options
		ctx  context.Context
		kind error
	}{
		{ref: "", kind: ErrInvalid},
		{ref: "missing.png", kind: fs.ErrNotExist},
		{ref: "chart.png/deeper", kind: fs.ErrNotExist},
		{ref: "in", kind: ErrInvalid},
		{ref: "pipe", kind: ErrInvalid},
		{ref: "socket", kind: ErrInvalid},
		{ref: os.DevNull, kind: ErrInvalid},
		{ref: "loop", kind: syscall.ELOOP},
		{ref: "nul\x00byte\x1b[31m\u202e", kind: ErrInvalid},
		{ref: strings.Repeat("long", 100), kind: ErrInvalid},
		{ref: "large.png", o: Options{MaxBytes: 2<<20 + 1<<19}, kind: ErrTooLarge},
		{ref: "chart.png", o: Options{MaxBytes: 1}, kind: ErrTooLarge},
		{ref: "chart.png", ctx: cancelled, kind: context.Canceled},
		{ref: "chart.png", ctx: late, kind: context.DeadlineExceeded},
		{ref: "chart.png", o: Options{Roots: []string{"in"}}, kind: ErrForbidden},
		{ref: "in/out.png", o: Options{Roots: []string{"in"}}, kind: ErrForbidden},
		{ref: "in/missing.png", o: Options{Roots: []string{"in"}}, kind: fs.ErrNotExist},
		{ref: "in", o: Options{Roots: []string{"in"}}, kind: ErrInvalid},
		{ref: "file://elsewhere/chart.png", kind: ErrInvalid},
		{ref: "file:///chart.png?x#y", kind: ErrInvalid},
		{ref: "file:///%zz", kind: ErrInvalid},
		{ref: "file:///missing.png", kind: fs.ErrNotExist},
		{ref: "s3://bucket/chart.png", kind: ErrInvalid},
		{ref: "-", kind: ErrInvalid},
		{ref: "-", o: Options{Stdin: bytes.NewReader(picture), MaxBytes: 10}, kind: ErrTooLarge},
		{ref: "-", o: Options{Stdin: broken{}}, kind: io.ErrUnexpectedEOF},
		{ref: "-", o: Options{Stdin: blocked(t)}, ctx: cancelled, kind: context.Canceled},
		{ref: "data:image/png;base64", kind: ErrInvalid},
		{ref: "data:image/png;base64,secret!", kind: ErrInvalid},
		{ref: "data:,secret%4", kind: ErrInvalid},
		{ref: "data:,secret", o: Options{MaxBytes: 5}, kind: ErrTooLarge},
		{ref: "https://user:secret@example.org/chart.png?token=secret#secret", kind: ErrURLNotAllowed},
		{ref: "https://user:secret@example.org/chart.png?token=secret#secret", o: web, kind: ErrInvalid},
		{ref: "http://[secret", o: web, kind: ErrInvalid},
		{ref: "http://", o: web, kind: ErrInvalid},
		{ref: server.URL + "/missing?token=secret", o: web, kind: ErrUnavailable},
		{ref: server.URL + "/odd", o: web, kind: ErrUnavailable},
		{ref: server.URL + "/large", o: Options{AllowURL: true, AllowPrivate: true, MaxBytes: 1 << 20}, kind: ErrTooLarge},
		{ref: server.URL + "/hang?token=secret", o: quick, kind: context.DeadlineExceeded},
		{ref: server.URL + "/hang", o: web, ctx: cancelled, kind: context.Canceled},
		{ref: server.URL + "/cut", o: web, kind: io.ErrUnexpectedEOF},
		{ref: server.URL + "/loop", o: web, kind: ErrUnavailable},
		{ref: server.URL + "/ftp", o: web, kind: ErrForbidden},
		{ref: server.URL + "/broken", o: web, kind: ErrUnavailable},
		{ref: server.URL + "/user", o: web, kind: ErrForbidden},
		{ref: server.URL + "/private?token=secret", o: public, kind: ErrForbidden},
		{ref: "http://169.254.169.254/latest/meta-data", o: web, kind: ErrForbidden},
		{ref: closed.URL + "/refused", o: web, kind: syscall.ECONNREFUSED},
		{ref: secure.URL + "/stranger", o: web, kind: ErrUnavailable},
		{ref: secure.URL + "/downgrade", o: trusting, kind: ErrForbidden},
		{ref: "http://nowhere.test/chart.png", o: web, kind: ErrUnavailable},
	} {
		ctx := test.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		input, err := Read(ctx, test.ref, &test.o)
		var got *Error
		if !errors.As(err, &got) || input != nil {
			t.Errorf("Read(%q) = %v, %v; want an *Error", test.ref, input, err)
			continue
		}
		if !errors.Is(err, test.kind) {
			t.Errorf("Read(%q): %q wraps %v, want %v", test.ref, err, got.Err, test.kind)
		}
		if strings.Contains(err.Error()+got.Name, "secret") {
			t.Errorf("Read(%q) tells the secret: %v", test.ref, err)
		}
		fmt.Fprintf(&text, "\n%.80q\n%v\n", test.ref, err)
	}
	got := text.String()
	for at, name := range map[string]string{server.URL: "http://SERVER", closed.URL: "http://CLOSED", secure.URL: "https://SECURE"} {
		got = strings.ReplaceAll(got, at, name)
	}

	if *update {
		write(t, golden, []byte(got))
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("messages differ from %s; if that is meant, run make update (-want +got):\n%s", golden, diff)
	}
}

// TestPermission is apart, since tests may run as a user who may read everything.
func TestPermission(t *testing.T) {
	err := fileError("chart.png", &fs.PathError{Op: "open", Path: "chart.png", Err: syscall.EACCES})
	if !errors.Is(err, fs.ErrPermission) || err.Text != "chart.png may not be read by this user; change its permissions or use a copy." {
		t.Errorf("%v wraps %v", err, err.Err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// blocked is an end of a pipe to which nobody ever writes.
func blocked(t *testing.T) io.Reader {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

// TestRoots sets out from one folder tree and asks for it in every way that may lead
// out of the allowed part.
func TestRoots(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(top)
	write(t, "in/chart.png", picture)
	write(t, "in/deep/chart.png", picture)
	write(t, "also/chart.png", picture)
	write(t, "out/chart.png", []byte("forbidden"))
	write(t, "inside-by-name-only/chart.png", []byte("forbidden"))
	link(t, "deep/chart.png", "in/near.png")
	link(t, top+"/in/chart.png", "in/absolute.png")
	link(t, top+"/also/chart.png", "in/other-root.png")
	link(t, "../out/chart.png", "in/far.png")
	link(t, top+"/out", "in/far")
	link(t, "../out/nothing", "in/dangling")
	link(t, "in", "alias")

	for _, test := range []struct {
		ref   string
		allow bool
	}{
		{"in/chart.png", true},
		{"in/deep/chart.png", true},
		{"in/deep/../chart.png", true},
		{top + "/in/chart.png", true},
		{"file://" + top + "/in/chart.png", true},
		{"in/near.png", true},
		{"in/absolute.png", true},
		{"in/other-root.png", true},
		{"also/chart.png", true},
		{"alias/chart.png", true},
		{"out/chart.png", false},
		{"out/nothing", false},
		{"in/../out/chart.png", false},
		{"file://" + top + "/in/%2e%2e/out/chart.png", false},
		{"inside-by-name-only/chart.png", false},
		{"in/far.png", false},
		{"in/far/chart.png", false},
		{"in/far/nothing", false},
		{"in/dangling", false},
		{"/etc/passwd", false},
	} {
		for _, roots := range [][]string{{"in", "also"}, {top + "/nowhere", top + "/also/", top + "/alias"}} {
			got, err := Read(t.Context(), test.ref, &Options{Roots: roots})
			switch {
			case test.allow && err != nil:
				t.Errorf("%s below %q: %v", test.ref, roots, err)
			case test.allow && !bytes.Equal(got.Data, picture):
				t.Errorf("%s below %q = %q", test.ref, roots, got.Data)
			case !test.allow && !errors.Is(err, ErrForbidden):
				t.Errorf("%s below %q: %v, %v; want ErrForbidden", test.ref, roots, got, err)
			}
		}
	}
}

// TestNothingReachesPrivateServers watches a server that must never see a request,
// whatever leads to it.
func TestNothingReachesPrivateServers(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the private server was asked for %s", r.URL)
	}))
	defer private.Close()
	private4 := netip.MustParseAddrPort(private.Listener.Addr().String())
	port := private4.Port()

	// The public server is on loopback too; its one port is let through.
	dns := startDNS(t, map[string][]string{
		"private.test": {"127.0.0.1"},
		"mapped.test":  {"::ffff:127.0.0.1"},
		"rebound.test": {"127.0.0.1", "127.0.0.2"}, // one after the other
	})
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	defer public.Close()
	publicAt := netip.MustParseAddrPort(public.Listener.Addr().String())
	rebound, err := net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), publicAt.Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	reboundServer := &httptest.Server{Listener: rebound, Config: private.Config}
	reboundServer.Start()
	defer reboundServer.Close()

	to := func(target string) string { return public.URL + "/?to=" + url.QueryEscape(target) }
	for _, ref := range []string{
		private.URL,
		fmt.Sprintf("http://localhost:%d/", port),
		fmt.Sprintf("http://[::ffff:127.0.0.1]:%d/", port),
		fmt.Sprintf("http://private.test:%d/", port),
		fmt.Sprintf("http://mapped.test:%d/", port),
		to(private.URL),
		to(to(private.URL)),
		to(fmt.Sprintf("http://private.test:%d/", port)),
		fmt.Sprintf("http://rebound.test:%d/?to=%s", publicAt.Port(), url.QueryEscape(fmt.Sprintf("http://rebound.test:%d/", publicAt.Port()))),
	} {
		got, err := Read(t.Context(), ref, &Options{
			AllowURL: true, Resolver: dns.resolver,
			permit: func(at netip.AddrPort) bool { return at == publicAt },
		})
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("Read(%q) = %v, %v; want ErrForbidden", ref, got, err)
		}
	}
}

// TestProxyIgnored: a proxy would connect on our behalf, to wherever it is told.
func TestProxyIgnored(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy was asked for %s", r.URL)
	}))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	dns := startDNS(t, map[string][]string{"elsewhere.test": {"192.168.0.1"}})
	_, err := Read(t.Context(), "http://elsewhere.test/", &Options{AllowURL: true, Resolver: dns.resolver})
	if !errors.Is(err, ErrForbidden) {
		t.Errorf("Read = %v, want ErrForbidden", err)
	}
}
