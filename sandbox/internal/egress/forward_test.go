package egress

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"testing"
)

// ask sends raw bytes to the proxy and returns the answer to them.
func (r *running) ask(raw string) (*http.Response, string) {
	r.t.Helper()
	c := r.dial()
	defer c.Close()
	if _, err := io.WriteString(c, raw); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatalf("%.100q: %v", raw, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(body)
}

func TestPlainRequestOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	addr := listen(t, func(c net.Conn) {
		r := textproto.NewReader(bufio.NewReader(c))
		var all []string
		for {
			line, err := r.ReadLine()
			if err != nil || line == "" {
				break
			}
			all = append(all, line)
		}
		got <- strings.Join(all, "\n")
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-Kept: 1\r\n\r\nok")
	})
	n := newInternet()
	n.put("example.com", public, 80, addr)
	n.put("example.com", public, 8080, addr)
	p := start(t, n, Options{}, "example.com", "example.com:8080")
	tests := []struct{ line, header, want string }{
		{
			"GET http://user:secret@Example.COM./a%2Fb//c?x=1;y&z=%zz HTTP/1.1",
			"Host: evil.example\r\nProxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, X-Private\r\nX-Private: 1\r\n" +
				"Keep-Alive: 5\r\nTE: gzip\r\nX-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nAccept: */*\r\nX-Kept: 1\r\n",
			"GET /a%2Fb//c?x=1;y&z=%zz HTTP/1.1\nHost: example.com\nAccept: */*\nX-Kept: 1\nConnection: close",
		},
		{"GET http://example.com:8080 HTTP/1.1", "Host: x\r\n", "GET / HTTP/1.1\nHost: example.com:8080\nConnection: close"},
		{"OPTIONS http://example.com:80/x HTTP/1.0", "User-Agent: test\r\n", "OPTIONS /x HTTP/1.1\nHost: example.com\nUser-Agent: test\nConnection: close"},
	}
	for _, tt := range tests {
		res, body := p.ask(tt.line + "\r\n" + tt.header + "\r\n")
		if sent := <-got; sent != tt.want {
			t.Errorf("%s\nsent\n%s\nwant\n%s", tt.line, sent, tt.want)
		}
		if res.StatusCode != 200 || body != "ok" || res.Header.Get("X-Kept") != "1" {
			t.Errorf("%s: %s %q", tt.line, res.Status, body)
		}
		for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", "Via", "X-Forwarded-For"} {
			if v := res.Header.Get(name); v != "" {
				t.Errorf("%s: the answer has %s: %s", tt.line, name, v)
			}
		}
		a := p.next()
		want(t, a, true, "", "")
		if a.Host != "example.com" || a.Sent < 30 || a.Received < 100 {
			t.Errorf("attempt %+v", a)
		}
	}
}

func TestPlainRequests(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		io.Copy(sum, r.Body)
		w.Header().Set("Trailer", "X-End")
		w.Header().Set("Location", "http://10.0.0.1/") // with any status
		w.WriteHeader(http.StatusFound)
		fmt.Fprintf(w, "%s %s %x", r.Method, r.Header.Get("Expect"), sum.Sum(nil))
		w.Header().Set("X-End", "end")
	}))
	defer web.Close()
	n := newInternet()
	n.put("example.com", public, 80, web.Listener.Addr())
	p := start(t, n, Options{}, "example.com")
	c := p.client(nil)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, tt := range []struct {
		method string
		body   []byte
		expect bool
	}{{"GET", nil, false}, {"HEAD", nil, false}, {"POST", big, false}, {"PUT", big, true}, {"DELETE", nil, false}} {
		r, err := http.NewRequest(tt.method, "http://example.com/", bytes.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if tt.expect {
			r.Header.Set("Expect", "100-continue")
			r.ContentLength = -1 // in chunks
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		expect := fmt.Sprintf("%s %s %x", tt.method, r.Header.Get("Expect"), sha256.Sum256(tt.body))
		if tt.method == "HEAD" {
			expect = ""
		}
		if string(body) != expect || tt.method != "HEAD" && res.Trailer.Get("X-End") != "end" {
			t.Errorf("got %q and the trailer %v, want %q", body, res.Trailer, expect)
		}
		if res.StatusCode != http.StatusFound || res.Header.Get("Location") != "http://10.0.0.1/" {
			t.Errorf("a redirect became %s to %s", res.Status, res.Header.Get("Location"))
		}
		a := p.next()
		want(t, a, true, "", "")
		if a.Method != tt.method || a.Sent < int64(len(tt.body)) || a.Received < int64(len(expect)) || a.Sent > int64(len(tt.body))+100_000 {
			t.Errorf("attempt %+v", a)
		}
	}

	// The client follows, and that is a new request.
	c.CheckRedirect = nil
	res, body := get(t, c, "http://example.com/")
	if res.StatusCode != http.StatusForbidden || body != "10.0.0.1 port 80 is not on the allow-list of this desktop.\n" {
		t.Errorf("got %s %q", res.Status, body)
	}
	want(t, p.next(), true, "", "")
	a := p.next()
	want(t, a, false, ReasonNotListed, "")
	if a.Host != "10.0.0.1" {
		t.Errorf("attempt %+v", a)
	}
}

func TestRefusedPlainRequest(t *testing.T) {
	n := newInternet()
	n.put("example.com", public, 0, nil)
	n.put("private.example", "10.0.0.1", 0, nil)
	p := start(t, n, Options{}, "example.com", "*.example")
	for _, tt := range []struct {
		url            string
		status         int
		text           string
		allowed        bool
		reason, detail string
	}{
		{"http://other.test/", 403, "other.test port 80 is not on the allow-list of this desktop.", false, ReasonNotListed, ""},
		{"http://example.com:8080/", 403, "example.com port 8080 is not on the allow-list of this desktop.", false, ReasonNotListed, ""},
		{"http://example.com:443/", 403, "example.com port 443 takes nothing but TLS; use https.", false, ReasonNotTLS, ""},
		{"http://private.example/", 403, "private.example port 80 leads to an address that is not on the allow-list of this desktop.", false, ReasonAddress, "10.0.0.1"},
		{"http://missing.example/", 502, "The name missing.example was not found.", true, ReasonUnresolved, "no such host"},
		{"http://example.com/", 502, "example.com port 80 could not be connected to.", true, ReasonUnreached, "refused"},
	} {
		for _, accept := range []string{"*/*", "text/html,*/*"} {
			res, body := p.ask("GET " + tt.url + " HTTP/1.1\r\nHost: x\r\nAccept: " + accept + "\r\n\r\n")
			kind, whole := "text/plain; charset=utf-8", tt.text+"\n"
			if accept != "*/*" {
				title := "Not allowed"
				if tt.allowed {
					title = "Not reached"
				}
				kind, whole = "text/html; charset=utf-8", "<!DOCTYPE html>\n<title>"+title+"</title>\n<h1>"+title+"</h1>\n<p>"+tt.text+"</p>\n"
			}
			if res.StatusCode != tt.status || body != whole || res.Header.Get("Content-Type") != kind || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s %v %q, want %q", tt.url, res.Status, res.Header, body, whole)
			}
			want(t, p.next(), tt.allowed, tt.reason, tt.detail)
		}
	}
	if lookups, dialled := n.seen(); slices.Contains(lookups, "other.test") || slices.Contains(dialled, "10.0.0.1:80") {
		t.Errorf("looked up %v, dialled %v", lookups, dialled)
	}
}

func TestMalformedRequests(t *testing.T) {
	n := newInternet()
	n.put("example.com", public, 0, nil)
	p := start(t, n, Options{}, "example.com")
	long := strings.Repeat("a", maxHeader+8<<10)
	tests := []struct {
		raw    string
		status int
		host   string // reported
		detail string
	}{
		{"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no http:// URL"},
		{"GET / HTTP/1.1\r\nHost: <script>\r\n\r\n", 400, "", "malformed Host header"},
		{"OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no http:// URL"},
		{"GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "CONNECT"},
		{"GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no http:// URL"},
		{"GET file:///etc/passwd HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no http:// URL"},
		{"GET http:///path HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no http:// URL"},
		{"GET http:example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no http:// URL"},
		{"GET http://a..b/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "a..b", "no part of a host name"},
		{"GET http://[fe80::1%25eth0]/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "[fe80::1%eth0]", "zone"},
		{"GET http://example.com:0/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com:0", "port"},
		{"GET http://example.com:99999/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com:99999", "port"},
		{"GET http://%E2%80%8B/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, `"\u200b"`, "no part of a host name"},
		{"CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com", "no port"},
		{"CONNECT example.com: HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "example.com:", "no port"},
		{"CONNECT evil.example@example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "evil.example@example.com:443", "no part of a host name"},
		{"CONNECT /path HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "/path", "no port"},
		{"CONNECT http://example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "http://example.com:443", "brackets"},
		{"CONNECT ::1:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "", ""},
		{"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello", 400, "example.com:443", "no body"},
		{"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "example.com:443", "no body"},

		{"hello\r\n\r\n", 400, "", "400 Bad Request"},
		{"\x16\x03\x01\x02\x00\r\n\r\n", 400, "", "400 Bad Request"},
		{"\x05\x01\x00\r\n\r\n", 400, "", "400 Bad Request"}, // SOCKS
		{"GET http://example.com/ HTTP/9.9\r\nHost: example.com\r\n\r\n", 505, "", "505"},
		{"GET http://example.com/ HTTP/1.1\r\n\r\n", 400, "", "missing required Host"},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "", "400 Bad Request"},
		{"GET http://exa mple.com/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "", "400 Bad Request"},
		{"GET http://example.com/%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "", "400 Bad Request"},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nBad Name: 1\r\n\r\n", 400, "", "400 Bad Request"},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "", "501"},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "", "400 Bad Request"},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417, "", "417"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "", "no http:// URL"},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a\r\nA: " + long + "\r\n\r\n", 431, "", "431"},
		{"CONNECT " + long + ":443 HTTP/1.1\r\nHost: a\r\n\r\n", 431, "", "431"},
	}
	for _, tt := range tests {
		c := p.dial()
		go io.WriteString(c, tt.raw) // which breaks off where nobody reads on
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%.100q: %v", tt.raw, err)
		}
		if res.StatusCode != tt.status {
			t.Errorf("%.100q: %s, want %d", tt.raw, res.Status, tt.status)
		}
		c.Close()
		a := p.next()
		want(t, a, false, ReasonMalformed, tt.detail)
		if a.Host != tt.host || a.Port != 0 {
			t.Errorf("%.100q: reported the host %q and the port %d, want %q", tt.raw, a.Host, a.Port, tt.host)
		}
	}

	// Behind another request, whether or not its answer has been waited for.
	for _, wait := range []bool{true, false} {
		c := p.dial()
		r := bufio.NewReader(c)
		first, second := "GET http://refused.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "hello\r\n\r\n"
		if !wait {
			first, second = first+second, ""
		}
		for _, part := range []string{first, second} {
			io.WriteString(c, part)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
		}
		c.Close()
		want(t, p.next(), false, ReasonNotListed, "")
		want(t, p.next(), false, ReasonMalformed, "400 Bad Request")
	}

	// What never becomes a whole request is reported too.
	c := p.dial()
	io.WriteString(c, "GET http://exam")
	c.Close()
	want(t, p.next(), false, ReasonMalformed, "400 Bad Request")
	if lookups, dialled := n.seen(); lookups != nil || dialled != nil {
		t.Errorf("looked up %v, dialled %v", lookups, dialled)
	}
}

func TestAnswerThatBreaksOff(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")
	})
	none := listen(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "hello\r\n\r\n")
	})
	n := newInternet()
	n.put("example.com", public, 80, addr)
	n.put("none.example", public, 8080, none)
	p := start(t, n, Options{}, "example.com", "none.example:8080")
	c := p.dial()
	io.WriteString(c, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "hello" || err == nil {
		t.Errorf("got %q, %v, want an answer that breaks off", body, err)
	}
	want(t, p.next(), true, ReasonBroken, "unexpected EOF")

	res, body := p.ask("GET http://none.example:8080/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if res.StatusCode != http.StatusBadGateway || body != "none.example gave no answer that can be passed on.\n" {
		t.Errorf("got %s %q", res.Status, body)
	}
	want(t, p.next(), true, ReasonBroken, "malformed HTTP")
}

// What a host sends unasked reaches neither a client nor a log that is not the proxy's.
func TestHostThatSpeaksUnasked(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	before := listen(t, func(c net.Conn) {
		io.WriteString(c, answer+answer)
		http.ReadRequest(bufio.NewReader(c))
	})
	after := listen(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, answer+answer)
		io.Copy(io.Discard, c)
	})
	n := newInternet()
	n.put("example.com", public, 80, before)
	n.put("example.com", public, 8080, after)
	p := start(t, n, Options{}, "example.com", "example.com:8080")
	for _, url := range []string{"http://example.com/", "http://example.com:8080/"} {
		for range 5 {
			if res, body := p.ask("GET " + url + " HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != 200 || body != "ok" {
				t.Errorf("got %s %q", res.Status, body)
			}
		}
	}
	if err := p.end(); err != nil || logged.Len() > 0 {
		t.Errorf("%v, the log has %s", err, logged.String())
	}
}

// The settings of this machine's own proxy are for others.
func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://user:secret@127.0.0.1:9/")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header)
	}))
	defer web.Close()
	n := newInternet()
	n.put("example.com", public, 80, web.Listener.Addr())
	p := start(t, n, Options{}, "example.com")
	if res, body := p.ask("GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != 200 || body != "map[Connection:[close]]" {
		t.Errorf("got %s %q", res.Status, body)
	}
	if _, dialled := n.seen(); !slices.Equal(dialled, []string{public + ":80"}) {
		t.Errorf("dialled %v", dialled)
	}
}
