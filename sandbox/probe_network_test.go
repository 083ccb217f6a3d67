//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"image/color"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/loupe-tools/loupe/sandbox"
)

// page is a page in one colour whose title says what a WebSocket and a request of its own
// have answered.
const page = `<!DOCTYPE html><title>loading</title><body style="margin:0;background:#2060c0">
<script>
const socket = new WebSocket("ws://" + location.host + "/socket");
socket.onopen = () => socket.send("over a WebSocket");
socket.onmessage = async e => { document.title = e.data + " " + await (await fetch("/proto")).text(); };
</script>`

// site is what the tests reach over the network.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page)
	})
	mux.HandleFunc("/proto", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "by "+r.Proto) })
	mux.HandleFunc("/document.html", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>A document</title><p>A document from the network.</p>")
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.RawQuery)
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(make([]byte, n))
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, text); err != nil {
				return
			}
		}
	})
	return mux
}

// reach starts a desktop that may reach allowed.example, and the network around it.
func reach(t testing.TB, o sandbox.Options, allow ...string) (*sandbox.Desktop, *eventLog, *internet) {
	t.Helper()
	ca := newAuthority(t)
	certificate := ca.forHosts(t, "allowed.example")
	plain, secure := serve(t, site(), nil), serve(t, site(), &certificate)
	n := &internet{
		names:   map[string]string{"allowed.example": "93.184.215.14", "blocked.example": "93.184.215.15"},
		servers: map[string]string{"93.184.215.14:80": plain, "93.184.215.14:443": secure, "93.184.215.15:80": plain, "93.184.215.15:443": secure},
	}
	events := &eventLog{}
	o.Allow, o.Event = allow, events.add
	d, err := sandbox.StartOn(context.WithoutCancel(t.Context()), &o, n.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(ca.PEM()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.CopyIn(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	return d, events, n
}

// socketClient sends a text over a WebSocket and prints what comes back.
const socketClient = `python3 - "$@" <<'END'
import base64, os, socket, ssl, sys
host, secure, how = sys.argv[1], sys.argv[2] == "wss", sys.argv[3]
s = socket.create_connection(("127.0.0.1", 3128))
def head():
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(1)
        if not more: sys.exit("closed after %r" % data)
        data += more
    return data.decode().splitlines()[0]
target = "/socket"
if how == "tunnel":
    port = 443 if secure else 80
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    line = head()
    if " 200" not in line: sys.exit(line)
    if secure: s = ssl.create_default_context(cafile="ca.pem").wrap_socket(s, server_hostname=host)
else:
    target = f"http://{host}/socket"
key = base64.b64encode(os.urandom(16)).decode()
s.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
line = head()
if " 101" not in line: sys.exit(line)
text = b"over a WebSocket"
s.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
got = b""
while len(got) < 2 + len(text): got += s.recv(100)
print(got[2:].decode())
END`

func TestNetwork(t *testing.T) {
	t.Parallel()
	d, events, network := reach(t, sandbox.Options{}, "allowed.example")
	// said is what a shell line prints, errors too.
	said := func(line string) string {
		return output(t, d, "{ "+line+"\n} 2>&1 || true")
	}
	for _, c := range []struct {
		name, line, want string
		host             string // of the event; none without
		port             int
		allowed          bool
	}{
		{"HTTP", "curl -s http://allowed.example/proto", "by HTTP/1.1", "allowed.example", 80, true},
		{"HTTPS", "curl -s --http1.1 --cacert ca.pem https://allowed.example/proto", "by HTTP/1.1", "allowed.example", 443, true},
		{"HTTP/2", "curl -s --http2 --cacert ca.pem https://allowed.example/proto", "by HTTP/2.0", "allowed.example", 443, true},
		{"Python", `python3 -c 'import urllib.request as r; print(r.urlopen("http://allowed.example/proto").read().decode())'`, "by HTTP/1.1", "allowed.example", 80, true},
		{"WebSocket", "set -- allowed.example ws plain; " + socketClient, "over a WebSocket", "allowed.example", 80, true},
		{"WebSocket in a tunnel", "set -- allowed.example ws tunnel; " + socketClient, "over a WebSocket", "allowed.example", 80, true},
		{"WebSocket with TLS", "set -- allowed.example wss tunnel; " + socketClient, "over a WebSocket", "allowed.example", 443, true},
		{"refused HTTP", "curl -s http://blocked.example/proto", "blocked.example port 80 is not on the allow-list of this desktop.", "blocked.example", 80, false},
		{"refused HTTPS", "curl -s -o /dev/null -w '%{http_connect}' https://blocked.example/", "403", "blocked.example", 443, false},
		{"refused port", "curl -s http://allowed.example:8080/", "allowed.example port 8080 is not on the allow-list of this desktop.", "allowed.example", 8080, false},
		{"without the proxy", "curl -s --noproxy '*' -w '%{errormsg}' http://allowed.example/", "Could not resolve host: allowed.example", "", 0, false},
		{"localhost", "python3 -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & until curl -s -o /dev/null http://localhost:8123/; do :; done; " +
			"curl -s -o /dev/null -w '%{http_code} %{remote_ip}' http://localhost:8123/; kill $!", "200 127.0.0.1", "", 0, false},
	} {
		before := len(events.attempts())
		if got := said(c.line); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.host == "" {
			if more := events.attempts()[before:]; len(more) > 0 {
				t.Errorf("%s: the proxy has seen %+v", c.name, more)
			}
			continue
		}
		until(t, "the event of "+c.name, func() bool { return len(events.attempts()) > before })
		all := events.attempts()[before:]
		a := all[0]
		if len(all) != 1 || a.Host != c.host || a.Port != c.port || a.Allowed != c.allowed {
			t.Errorf("%s: the events are %+v", c.name, all)
		}
		if c.allowed && (a.Sent <= 0 || a.Received < int64(len(c.want)) || a.Address.Addr().String() != "93.184.215.14") {
			t.Errorf("%s: the event says %d bytes sent, %d received, of %v", c.name, a.Sent, a.Received, a.Address)
		}
		if !c.allowed && (a.Sent != 0 || a.Received != 0 || a.Reason == "") {
			t.Errorf("%s: the event of a refusal is %+v", c.name, a)
		}
	}

	before := len(events.attempts())
	if got := said("curl -s 'http://allowed.example/bytes?1000000' | wc -c"); got != "1000000" {
		t.Errorf("a million bytes are %s", got)
	}
	until(t, "the event of a million bytes", func() bool { return len(events.attempts()) > before })
	if a := events.attempts()[before]; a.Received < 1_000_000 || a.Received > 1_001_000 {
		t.Errorf("a million bytes are %d in the event", a.Received)
	}
	lookups, _ := network.seen()
	for _, name := range lookups {
		if name != "allowed.example" {
			t.Errorf("%s was looked up", name)
		}
	}
}

// TestNoNetwork looks that without an allow-list nothing is reached, nothing even looked up.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	d, events, network := reach(t, sandbox.Options{})
	for _, line := range []string{
		"curl -s -o /dev/null -w '%{http_code}' http://allowed.example/",
		"curl -s -o /dev/null -w '%{http_connect}' https://allowed.example/",
		"curl -s -o /dev/null -w '%{http_code}' http://10.0.0.1/",
		"curl -s -o /dev/null -w '%{http_code}' 'http://[::ffff:127.0.0.1]:80/'",
	} {
		if got := output(t, d, line+" || true"); got != "403" {
			t.Errorf("%s gives %s", line, got)
		}
	}
	if got := output(t, d, "ip -o addr 2>/dev/null || cat /proc/net/dev | tail -n +3 | cut -d: -f1"); strings.Count(got, "lo") == 0 || strings.Contains(got, "eth") {
		t.Errorf("the interfaces are %q", got)
	}
	lookups, dialled := network.seen()
	if len(lookups)+len(dialled) > 0 {
		t.Errorf("looked up %q, dialled %q", lookups, dialled)
	}
	if n := len(events.attempts()); n != 4 {
		t.Errorf("%d events of 4 attempts", n)
	}
}

// window is a window of the desktop, as its window manager lists it.
type window struct{ Title, Class, Kind string }

// windows lists the windows of a desktop.
func windows(t testing.TB, d *sandbox.Desktop) (all []window) {
	t.Helper()
	text := output(t, d, `for id in $(xprop -root _NET_CLIENT_LIST | sed 's/.*#//; s/,/ /g'); do
		xprop -id $id -notype -f _NET_WM_NAME 8u '=$0\n' -f WM_CLASS 8s '=$1\n' _NET_WM_NAME WM_CLASS _NET_WM_WINDOW_TYPE 2>/dev/null | tr '\n' '\t' || true; echo
	done`)
	for line := range strings.Lines(text) {
		var w window
		for field := range strings.SplitSeq(strings.TrimSpace(line), "\t") {
			name, value, _ := strings.Cut(field, "=")
			value = strings.Trim(strings.TrimSpace(value), `"`)
			switch name {
			case "_NET_WM_NAME":
				w.Title = value
			case "WM_CLASS":
				w.Class = value
			default:
				if kind, ok := strings.CutPrefix(field, "_NET_WM_WINDOW_TYPE"); ok {
					w.Kind = strings.TrimPrefix(kind, " = ")
				}
			}
		}
		if w != (window{}) && !strings.Contains(w.Kind, "_DOCK") {
			all = append(all, w)
		}
	}
	return all
}

// awaitTitle waits until a window's title holds a text.
func awaitTitle(t testing.TB, d *sandbox.Desktop, text string) {
	t.Helper()
	var last []window
	defer func() {
		if t.Failed() {
			t.Logf("the windows are %+v", last)
		}
	}()
	until(t, fmt.Sprintf("a window titled %q", text), func() bool {
		last = windows(t, d)
		for _, w := range last {
			if strings.Contains(w.Title, text) {
				return true
			}
		}
		return false
	})
}

// TestBrowsers loads pages in browsers on a desktop: one that is allowed, whose script uses a
// WebSocket, and one that is not.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	for _, browser := range []string{"firefox", "chromium"} {
		t.Run(browser, func(t *testing.T) {
			d, events, _ := reach(t, sandbox.Options{Apps: []string{browser}}, "allowed.example")
			program := map[string]string{"firefox": "firefox-esr", "chromium": "chromium"}[browser]
			visit := func(address string) { output(t, d, "setsid "+program+" "+address+" >/dev/null 2>&1 &") }
			visit("http://allowed.example/page")
			awaitTitle(t, d, "over a WebSocket by HTTP/1.1")
			until(t, "the page's colour", func() bool { return share(t, d, color.RGBA{0x20, 0x60, 0xc0, 0xff}) > 0.5 })
			visit("http://blocked.example/page")
			awaitTitle(t, d, "Not allowed")
			visit("https://blocked.example/page")
			until(t, "the event of a refused tunnel", func() bool {
				for _, a := range events.attempts() {
					if a.Host == "blocked.example" && a.Port == 443 && !a.Allowed {
						return true
					}
				}
				return false
			})
			// Its authority is unknown to the browser, but the connection must come as far.
			visit("https://allowed.example/page")
			until(t, "the event of an allowed tunnel", func() bool {
				for _, a := range events.attempts() {
					if a.Host == "allowed.example" && a.Port == 443 {
						return a.Reason != "" || a.Received > 0
					}
				}
				return false
			})
			for _, a := range events.attempts() {
				if a.Host != "allowed.example" && a.Host != "blocked.example" {
					t.Errorf("the browser has asked for %s:%d", a.Host, a.Port)
				}
				if a.Allowed != (a.Host == "allowed.example") {
					t.Errorf("%s:%d was allowed: %v", a.Host, a.Port, a.Allowed)
				}
			}
		})
	}
}

// share is how much of the display has a colour.
func share(t testing.TB, d *sandbox.Desktop, c color.RGBA) float64 {
	t.Helper()
	picture, err := d.Display().Capture(t.Context(), rectangle(d))
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for i := 0; i < len(picture.Pix); i += 4 {
		if picture.Pix[i] == c.R && picture.Pix[i+1] == c.G && picture.Pix[i+2] == c.B {
			same++
		}
	}
	return float64(same) / float64(len(picture.Pix)/4)
}

// TestOffice opens a document in LibreOffice over the network: one that is allowed, and one
// that is not.
func TestOffice(t *testing.T) {
	t.Parallel()
	d, events, _ := reach(t, sandbox.Options{}, "allowed.example")
	open := func(address string) string {
		out, err := d.Command("soffice", "--headless", "--convert-to", "txt:Text", "--outdir", ".", address).Output(t.Context())
		return fmt.Sprint(string(out), err)
	}
	said := open("http://allowed.example/document.html")
	if got := output(t, d, "cat document.txt || true"); !strings.Contains(got, "A document from the network.") {
		t.Errorf("the document is %q; %s", got, said)
	}
	open("http://blocked.example/document.html")
	verdicts := map[string]bool{}
	for _, a := range events.attempts() {
		verdicts[a.Host] = a.Allowed
	}
	if allowed, tried := verdicts["blocked.example"]; !verdicts["allowed.example"] || allowed || !tried {
		t.Errorf("the verdicts are %v", verdicts)
	}
}
