package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

const public = "93.184.216.34" // of example.com in every test

// tunnel asks for a tunnel, and returns it with the answer to that.
func (r *running) tunnel(authority string) (net.Conn, *bufio.Reader, *http.Response) {
	r.t.Helper()
	c := r.dial()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", authority)
	buffered := bufio.NewReader(c)
	res, err := http.ReadResponse(buffered, &http.Request{Method: http.MethodConnect})
	if err != nil {
		r.t.Fatal(err)
	}
	return c, buffered, res
}

// open asks for a tunnel that has to be given.
func (r *running) open(authority string) net.Conn {
	r.t.Helper()
	c, buffered, res := r.tunnel(authority)
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("CONNECT %s: %s", authority, res.Status)
	}
	if buffered.Buffered() > 0 { // a host that speaks first
		return &readConn{c, buffered}
	}
	return c
}

type readConn struct {
	net.Conn
	r io.Reader
}

func (c *readConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// listen runs a server on loopback that answers each connection with serve.
func listen(t testing.TB, serve func(net.Conn)) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr()
}

// sink is a server that keeps what it is sent and answers nothing.
func sink(t testing.TB) (net.Addr, <-chan []byte) {
	got := make(chan []byte, 100)
	return listen(t, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		got <- b
	}), got
}

// quiet is a server, not started, that logs nothing.
func quiet(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

func want(t testing.TB, got Attempt, allowed bool, reason, detail string) {
	t.Helper()
	if allowed && reason == "" && got.Reason == ReasonEnded {
		// Clients of libraries reset a connection that they are done with if there is
		// something left to read, such as a session ticket.
		if strings.Contains(got.Detail, "reset by peer") || strings.Contains(got.Detail, "broken pipe") {
			reason = ReasonEnded
		}
	}
	if got.Allowed != allowed || got.Reason != reason || !strings.Contains(got.Detail, detail) {
		t.Errorf("reported %+v, want allowed %v, reason %q, detail %q", got, allowed, reason, detail)
	}
}

func TestHTTP2AndHTTP1ThroughCONNECT(t *testing.T) {
	for _, h2 := range []bool{true, false} {
		web := quiet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+" "+r.Host)
		}))
		web.EnableHTTP2 = h2
		web.StartTLS()
		defer web.Close()
		n := newInternet()
		n.put("example.com", public, 443, web.Listener.Addr())
		p := start(t, n, Options{}, "example.com")
		c := p.client(trust(web))
		_, body := get(t, c, "https://example.com/")
		expect := "HTTP/1.1 example.com"
		if h2 {
			expect = "HTTP/2.0 example.com"
		}
		if body != expect {
			t.Errorf("got %q, want %q", body, expect)
		}
		c.CloseIdleConnections()
		a := p.next()
		want(t, a, true, "", "")
		if a.Method != "CONNECT" || a.Host != "example.com" || a.Port != 443 ||
			a.Address.String() != public+":443" || a.Sent < 300 || a.Received < 500 || a.Duration <= 0 || a.Time.IsZero() {
			t.Errorf("attempt %+v", a)
		}
	}
}

func TestEmptyAllowListRefusesAndReportsEverything(t *testing.T) {
	n := newInternet()
	p := start(t, n, Options{})
	for _, authority := range []string{"example.com:443", "127.0.0.1:22", "[::1]:80", "localhost:80", "169.254.169.254:80"} {
		_, r, res := p.tunnel(authority)
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := parseTarget(authority, 0)
		text := fmt.Sprintf("%s port %d is not on the allow-list of this desktop.\n", target.host, target.port)
		if res.StatusCode != http.StatusForbidden || string(body) != text {
			t.Errorf("CONNECT %s: %s %q, want %q", authority, res.Status, body, text)
		}
		a := p.next()
		want(t, a, false, ReasonNotListed, "")
		if a.Host != target.host.String() || a.Port != int(target.port) || a.Sent != 0 || a.Received != 0 || a.Address.IsValid() {
			t.Errorf("attempt %+v", a)
		}
	}
	res, body := get(t, p.client(nil), "http://example.com/")
	if res.StatusCode != http.StatusForbidden || body != "example.com port 80 is not on the allow-list of this desktop.\n" {
		t.Errorf("got %s %q", res.Status, body)
	}
	want(t, p.next(), false, ReasonNotListed, "")
	if lookups, dialled := n.seen(); lookups != nil || dialled != nil {
		t.Errorf("looked up %v, dialled %v", lookups, dialled)
	}
}

func TestServerName(t *testing.T) {
	tests := []struct {
		authority, name string
		reason, detail  string
	}{
		{"example.com:443", "example.com", "", ""},
		{"EXAMPLE.com.:443", "example.com", "", ""},
		{"example.com:443", "EXAMPLE.COM", "", ""},
		{"example.com:8443", "example.com", "", ""},
		{"example.com:80", "example.com", "", ""},
		{"example.com:443", "evil.example", ReasonServerName, "evil.example"},
		{"example.com:443", "www.example.com", ReasonServerName, "www.example.com"},
		{"example.com:80", "evil.example", ReasonServerName, "evil.example"},
		{"example.com:8443", "evil.example", ReasonServerName, "evil.example"},
		{"example.com:443", "", ReasonServerName, "none"},
		{public + ":443", "", "", ""},
		{"0x5db8d822:443", "", "", ""},
		{public + ":443", "example.com", ReasonServerName, "example.com"},
	}
	var mu sync.Mutex
	sent := map[string]int{}
	web := quiet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
	}))
	web.StartTLS()
	defer web.Close()
	n := newInternet()
	for _, port := range []int{80, 443, 8443} {
		n.put("example.com", public, port, web.Listener.Addr())
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := n.dial(ctx, network, address)
		return countWrites{c, &mu, sent, address}, err
	}
	p := start(t, n, Options{Dial: dial}, "example.com", "example.com:8443", public)
	for _, tt := range tests {
		mu.Lock()
		clear(sent)
		mu.Unlock()
		c := tls.Client(p.open(tt.authority), &tls.Config{ServerName: tt.name, InsecureSkipVerify: true})
		err := c.Handshake()
		if tt.reason == "" {
			if err != nil {
				t.Errorf("%s with the server name %q: %v", tt.authority, tt.name, err)
			}
			c.Close()
		} else if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("%s with the server name %q: %v, want an alert", tt.authority, tt.name, err)
		}
		a := p.next()
		want(t, a, tt.reason == "", tt.reason, tt.detail)
		mu.Lock()
		if tt.reason != "" && (len(sent) > 0 || a.Sent != 0) {
			t.Errorf("%s with the server name %q: %v was sent, and reported %d", tt.authority, tt.name, sent, a.Sent)
		}
		mu.Unlock()
	}
}

type countWrites struct {
	net.Conn
	mu   *sync.Mutex
	sent map[string]int
	to   string
}

func (c countWrites) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.sent[c.to] += len(b)
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// fragments writes the payload of the first TLS record in records, and segments, of no
// more than a few bytes.
type fragments struct {
	net.Conn
	size int
	done bool
}

func (c *fragments) Write(b []byte) (int, error) {
	if c.done {
		return c.Conn.Write(b)
	}
	c.done = true
	var all [][]byte
	for payload := b[recordHeader:]; len(payload) > 0; {
		n := min(c.size, len(payload))
		all = append(all, binary.BigEndian.AppendUint16(bytes.Clone(b[:3]), uint16(n)), payload[:n])
		payload = payload[n:]
	}
	for _, part := range all {
		if _, err := c.Conn.Write(part); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func TestClientHelloInFragments(t *testing.T) {
	web := quiet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	web.StartTLS()
	defer web.Close()
	n := newInternet()
	n.put("example.com", public, 443, web.Listener.Addr())
	p := start(t, n, Options{}, "example.com")
	for _, size := range []int{1, 3, 7, 100} {
		config := trust(web)
		config.ServerName = "example.com"
		c := tls.Client(&fragments{Conn: p.open("example.com:443"), size: size}, config)
		if err := c.Handshake(); err != nil {
			t.Errorf("in fragments of %d bytes: %v", size, err)
		}
		c.Close()
		want(t, p.next(), true, "", "")

		config.ServerName = "evil.example"
		c = tls.Client(&fragments{Conn: p.open("example.com:443"), size: size}, config)
		if err := c.Handshake(); err == nil {
			t.Errorf("in fragments of %d bytes: another server name passes", size)
		}
		want(t, p.next(), false, ReasonServerName, "evil.example")
	}
}

// hello returns the ClientHello of a configuration as it is sent.
func hello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	var done sync.WaitGroup
	done.Go(func() {
		tls.Client(a, config).Handshake()
		a.Close()
	})
	header := make([]byte, recordHeader)
	if _, err := io.ReadFull(b, header); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(b, payload); err != nil {
		t.Fatal(err)
	}
	b.Close()
	done.Wait()
	return append(header, payload...)
}

func record(kind byte, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(len(payload))), payload...)
}

// withExtension adds an empty extension to a ClientHello in one record.
func withExtension(h []byte, kind byte) []byte {
	h = append(bytes.Clone(h), 0, kind, 0, 0)
	at := recordHeader + 4 + 2 + 32                         // behind the random value
	at += 1 + int(h[at])                                    // the session
	at += 2 + int(binary.BigEndian.Uint16(h[at:]))          // the ciphers
	at += 1 + int(h[at])                                    // the compressions
	for _, length := range []int{3, recordHeader + 2, at} { // of the record, the message, all extensions
		binary.BigEndian.PutUint16(h[length:], binary.BigEndian.Uint16(h[length:])+4)
	}
	return h
}

func TestSecondClientHello(t *testing.T) {
	// Asked for: the server takes none of the key shares that the client sent.
	web := quiet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, fmt.Sprint(r.TLS.HelloRetryRequest))
	}))
	web.TLS = &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}
	web.StartTLS()
	defer web.Close()
	n := newInternet()
	n.put("example.com", public, 443, web.Listener.Addr())
	addr, got := sink(t)
	n.put("example.com", public, 8443, addr)
	p := start(t, n, Options{}, "example.com", "example.com:8443")
	c := p.client(trust(web))
	if _, body := get(t, c, "https://example.com/"); body != "true" {
		t.Errorf("the server asked for a second ClientHello: %s", body)
	}
	c.CloseIdleConnections()
	want(t, p.next(), true, "", "")

	good := hello(t, &tls.Config{ServerName: "example.com"})
	evil := hello(t, &tls.Config{ServerName: "evil.example"})
	cipherSpec := record(recordCipherSpec, []byte{1})
	early := record(recordData, bytes.Repeat([]byte{1}, 1000))
	part := record(recordHandshake, append([]byte{messageClientHello, 1, 1, 0x3f}, make([]byte, 14<<10)...))
	split := append(record(recordHandshake, evil[recordHeader:][:1]), record(recordHandshake, evil[recordHeader+1:])...)
	tests := []struct {
		name    string
		then    []byte
		sent    []byte // of that
		reason  string
		detail  string
		inFirst bool // the bytes are put into the same record as the first ClientHello
		early   bool // the first announces early data
	}{
		{name: "the same", then: good, sent: good},
		{name: "a key exchange", then: record(recordHandshake, []byte{16, 0, 0, 1, 0}), sent: record(recordHandshake, []byte{16, 0, 0, 1, 0})},
		{name: "encrypted after a cipher spec", then: append(bytes.Clone(cipherSpec), record(recordHandshake, bytes.Repeat([]byte{1}, 40))...),
			sent: append(bytes.Clone(cipherSpec), record(recordHandshake, bytes.Repeat([]byte{1}, 40))...)},
		{name: "data, and then what looks like a hello", then: append(bytes.Clone(early), evil...), sent: append(bytes.Clone(early), evil...)},
		{name: "half a record", then: early[:100], sent: early[:100]},
		{name: "early data, and then more", then: append(bytes.Clone(early), early...), sent: append(bytes.Clone(early), early...), early: true},
		{name: "early data, and then the same", then: append(bytes.Clone(early), good...), sent: append(bytes.Clone(early), good...), early: true},
		{name: "early data, and then another", then: append(bytes.Clone(early), evil...), sent: early, early: true, reason: ReasonServerName, detail: "evil.example"},
		{name: "another", then: evil, reason: ReasonServerName, detail: "evil.example"},
		{name: "another in pieces", then: split, reason: ReasonServerName, detail: "evil.example"},
		{name: "another after a cipher spec", then: append(bytes.Clone(cipherSpec), evil...), sent: cipherSpec, reason: ReasonServerName, detail: "evil.example"},
		{name: "another in the record of the first", then: evil[recordHeader:], inFirst: true, reason: ReasonNotTLS, detail: "follows the ClientHello"},
		{name: "one that is too large to be judged", then: bytes.Join([][]byte{cipherSpec, part, part, part, part, part}, nil),
			sent: bytes.Join([][]byte{cipherSpec, part, part}, nil), reason: ReasonNotTLS, detail: "impossible length"},
		{name: "an unknown record", then: record(99, []byte{1}), reason: ReasonNotTLS, detail: "unknown type"},
		{name: "an empty record", then: record(recordHandshake, nil), reason: ReasonNotTLS, detail: "impossible length"},
	}
	for _, tt := range tests {
		c := p.open("example.com:8443")
		first := good
		if tt.early {
			first = withExtension(good, extensionEarlyData)
		}
		all := append(bytes.Clone(first), tt.then...)
		expect := append(bytes.Clone(first), tt.sent...)
		if tt.inFirst {
			all = record(recordHandshake, append(bytes.Clone(good[recordHeader:]), tt.then...))
			expect = nil
		}
		if _, err := c.Write(all); err != nil {
			t.Fatal(err)
		}
		if tt.reason == "" {
			c.(*net.TCPConn).CloseWrite()
		}
		io.Copy(io.Discard, c)
		c.Close()
		if b := <-got; !bytes.Equal(b, expect) {
			t.Errorf("%s: the server got %d bytes, want %d", tt.name, len(b), len(expect))
		}
		want(t, p.next(), tt.reason == "", tt.reason, tt.detail)
	}
}

// echConfig is a list of one configuration of Encrypted Client Hello (RFC 9849).
func echConfig(t testing.TB, publicName string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var c []byte
	c = append(c, 7)                             // its number
	c = binary.BigEndian.AppendUint16(c, 0x0020) // DHKEM(X25519, HKDF-SHA256)
	c = binary.BigEndian.AppendUint16(c, 32)     //
	c = append(c, key.PublicKey().Bytes()...)    //
	c = append(c, 0, 4, 0, 1, 0, 1)              // HKDF-SHA256, AES-128-GCM
	c = append(c, 32, byte(len(publicName)))     // the longest name
	c = append(append(c, publicName...), 0, 0)   // no extensions
	c = append([]byte{0xfe, 0x0d, 0, byte(len(c))}, c...)
	return append([]byte{0, byte(len(c))}, c...)
}

func TestEncryptedClientHello(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		n := newInternet()
		addr, got := sink(t)
		n.put("example.com", public, 443, addr)
		p := start(t, n, Options{RefuseECH: refuse}, "example.com")
		for _, ech := range []bool{true, false} {
			config := &tls.Config{ServerName: "example.com"}
			if ech {
				config = &tls.Config{ServerName: "hidden.example", EncryptedClientHelloConfigList: echConfig(t, "example.com"), MinVersion: tls.VersionTLS13}
			}
			h := hello(t, config)
			c := p.open("example.com:443")
			c.Write(h)
			if !refuse || !ech {
				c.(*net.TCPConn).CloseWrite()
			}
			io.Copy(io.Discard, c)
			c.Close()
			a := p.next()
			if refuse && ech {
				want(t, a, false, ReasonECH, "")
				h = nil
			} else {
				want(t, a, true, "", "")
			}
			if b := <-got; !bytes.Equal(b, h) {
				t.Errorf("refuse %v, hidden %v: the server got %d bytes, want %d", refuse, ech, len(b), len(h))
			}
		}
	}
}

func TestWhatIsNoTLSInATunnel(t *testing.T) {
	ok := "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
	long := strings.Repeat("a", maxHeader)
	tests := []struct {
		port           string
		sent           string
		reason, detail string
		answer         string // what the client's answer has, of one that is refused
	}{
		{port: "443", sent: ok, reason: ReasonNotTLS, answer: "HTTP/1.1 403 Forbidden"},
		{port: "443", sent: "\x00\x01\x02", reason: ReasonNotTLS},
		{port: "443", sent: "\x16\x03\x01\x00\x05hello", reason: ReasonNotTLS},
		{port: "443", sent: "\x16\x03\x01\xff\xff" + long, reason: ReasonNotTLS},
		{port: "443", sent: "SSH-2.0-OpenSSH_9.2\r\n", reason: ReasonNotTLS},

		{port: "80", sent: ok},
		{port: "80", sent: "GET /chat HTTP/1.1\r\nHost: EXAMPLE.com.:80\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},
		{port: "80", sent: "\r\n\r\n" + ok},
		{port: "80", sent: "GET http://example.com/ HTTP/1.1\nhost:\texample.com\t\n\nbody"},
		{port: "80", sent: "OPTIONS * HTTP/1.1\r\nA: b\r\nHost:example.com\r\nC:d\r\n\r\n"},
		{port: "80", sent: "patch / HTTP/1.0\r\nHost: example.com\r\n\r\n"},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", reason: ReasonHostHeader, detail: "evil.example", answer: "example.com port 80 was sent a request that is not for it."},
		{port: "80", sent: "get / http/1.1\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET\t/\tHTTP/1.1\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET /  HTTP/1.1\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1 x\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost: example.com\r\nHost: evil.example\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader, detail: "one Host"},
		{port: "80", sent: "GET / HTTP/1.1\r\n\r\n", reason: ReasonHostHeader, detail: "one Host"},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost:\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost: example.com, evil.example\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nHost : evil.example\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\n Host: evil.example\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nA: b\rHost: evil.example\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\rHost: evil.example\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nHöst: evil.example\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET http://evil.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader, detail: "evil.example"},
		{port: "80", sent: "GET //evil.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n"}, // a path, to every server
		{port: "80", sent: "CONNECT evil.example:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", reason: ReasonHostHeader, detail: "CONNECT"},
		{port: "80", sent: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", reason: ReasonHostHeader},
		{port: "80", sent: "GET / HTTP/1.1\r\nA: " + long + "\r\nHost: example.com\r\n\r\n", reason: ReasonMalformed},
		{port: "80", sent: "GET /" + long, reason: ReasonMalformed},
		{port: "80", sent: "GET /\r\n", reason: ReasonNotHTTP},
		{port: "80", sent: "\x00\x01", reason: ReasonNotHTTP},
		{port: "80", sent: "EHLO example.com\r\n", reason: ReasonNotHTTP},

		{port: "7000", sent: ""},
		{port: "7000", sent: "E"},
		{port: "7000", sent: "EHLO example.com\r\n"},
		{port: "7000", sent: "*1\r\n$4\r\nPING\r\n"},
		{port: "7000", sent: "\x00\x00\x00\x08\x04\xd2\x16\x2f"},
		{port: "7000", sent: "SSH-2.0-OpenSSH_9.2 Debian\r\n"},
		{port: "7000", sent: "GET / HTTP/1.1\r\nHost: example.com:7000\r\n\r\n"},
		{port: "7000", sent: "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", reason: ReasonHostHeader, detail: "evil.example"},
		{port: "7000", sent: "\n\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", reason: ReasonHostHeader, detail: "evil.example"},
		{port: "7000", sent: "GET / HTTP/1.1\r\nHost: example.com", reason: ReasonHostHeader, detail: "incomplete"},
	}
	n := newInternet()
	addr, got := sink(t)
	for _, port := range []int{80, 443, 7000} {
		n.put("example.com", public, port, addr)
	}
	p := start(t, n, Options{}, "example.com", "example.com:7000")
	for _, tt := range tests {
		c := p.open("example.com:" + tt.port)
		io.WriteString(c, tt.sent) // which may break off where it is refused
		c.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(c)
		c.Close()
		expect := tt.sent
		if tt.reason != "" {
			expect = ""
			if !strings.Contains(string(answer), tt.answer) {
				t.Errorf("%.60q: the client got %q, want %q", tt.sent, answer, tt.answer)
			}
		}
		b := <-got
		if string(b) != expect && (tt.port != "7000" || tt.reason == "" || strings.Contains(string(b), "\n\r\n")) {
			t.Errorf("%.60q: the server got %.60q", tt.sent, b)
		}
		a := p.next()
		want(t, a, tt.reason == "", tt.reason, tt.detail)
		if a.Sent != int64(len(b)) {
			t.Errorf("%.60q: %d bytes were counted, want %d", tt.sent, a.Sent, len(expect))
		}
	}
}

func TestHostThatSpeaksFirst(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		io.WriteString(c, "220 mail\r\n")
		b, _ := io.ReadAll(c) // until the client ends its half
		fmt.Fprintf(c, "%d bytes\r\n", len(b))
	})
	n := newInternet()
	n.put("example.com", public, 25, addr)
	p := start(t, n, Options{}, "example.com:25")
	c, r, _ := p.tunnel("example.com:25")
	if line, err := r.ReadString('\n'); line != "220 mail\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	c.Write(big)
	c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(r); string(rest) != "1000000 bytes\r\n" {
		t.Errorf("got %q, %v after the client's half had ended", rest, err)
	}
	a := p.next()
	want(t, a, true, "", "")
	if a.Sent != 1_000_000 || a.Received != int64(len("220 mail\r\n1000000 bytes\r\n")) {
		t.Errorf("counted %d and %d", a.Sent, a.Received)
	}
}

func TestBytesSentBeforeTheAnswer(t *testing.T) {
	addr, got := sink(t)
	n := newInternet()
	n.put("example.com", public, 443, addr)
	p := start(t, n, Options{}, "example.com")
	h := hello(t, &tls.Config{ServerName: "example.com"})
	c := p.dial()
	c.Write(append([]byte("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"), h...))
	if _, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect}); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, c)
	if b := <-got; !bytes.Equal(b, h) {
		t.Errorf("the server got %d bytes, want %d", len(b), len(h))
	}
	want(t, p.next(), true, "", "")
}

func TestWebSocketInBothForms(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(-1)
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, b); err != nil {
				return
			}
		}
	})
	plain := httptest.NewServer(echo)
	defer plain.Close()
	secure := httptest.NewTLSServer(echo)
	defer secure.Close()
	n := newInternet()
	n.put("example.com", public, 80, plain.Listener.Addr())
	n.put("example.com", public, 443, secure.Listener.Addr())
	p := start(t, n, Options{}, "example.com")

	tunnels := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return p.open(address), nil }}
	for _, tt := range []struct {
		name, url, method string
		client            *http.Client
	}{
		{"absolute form", "ws://example.com/chat", "GET", p.client(nil)},
		{"tunnel", "ws://example.com/chat", "CONNECT", &http.Client{Transport: tunnels}},
		{"tunnel with TLS", "wss://example.com/chat", "CONNECT", p.client(trust(secure))},
	} {
		c, _, err := websocket.Dial(t.Context(), tt.url, &websocket.DialOptions{HTTPClient: tt.client})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		c.SetReadLimit(-1)
		for _, size := range []int{1, 100, 1 << 20} {
			sent := bytes.Repeat([]byte("x"), size)
			if err := c.Write(t.Context(), websocket.MessageBinary, sent); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if _, b, err := c.Read(t.Context()); err != nil || !bytes.Equal(b, sent) {
				t.Fatalf("%s: %d bytes came back of %d, %v", tt.name, len(b), size, err)
			}
		}
		c.Close(websocket.StatusNormalClosure, "")
		a := p.next()
		if !a.Allowed || a.Method != tt.method || a.Sent < 1<<20 || a.Received < 1<<20 || a.Address.Addr().String() != public {
			t.Errorf("%s: attempt %+v", tt.name, a)
		}
	}
	tunnels.CloseIdleConnections()
}

func TestAddresses(t *testing.T) {
	addr := listen(t, func(c net.Conn) { io.WriteString(c, "hello") })
	n := newInternet()
	n.put("private.example", "10.0.0.5", 7000, addr)
	n.put("metadata.example", "169.254.169.254", 7000, addr)
	n.put("mapped.example", "::ffff:127.0.0.1", 7000, addr)
	n.servers["127.0.0.1:7000"] = addr.String()
	n.put("both.example", "127.0.0.1", 0, nil)
	n.put("both.example", public, 7000, addr)
	n.put("second.example", "2606:2800:220:1::1", 0, nil) // where nothing answers
	n.put("second.example", public, 7000, addr)
	n.put("silent.example", "2606:2800:220:1::1", 0, nil)
	n.put("named.example", "192.168.7.7", 7000, addr)
	n.names["empty.example"] = []string{}
	n.put("", "::1", 3000, addr)
	p := start(t, n, Options{}, "*.example:7000", "192.168.7.0/24:7000", "localhost:3000")
	tests := []struct {
		authority string
		status    int
		body      string // of a refusal
		reason    string
		detail    string
		address   string // that was connected to
	}{
		{"private.example:7000", 403, "private.example port 7000 leads to an address that is not on the allow-list of this desktop.\n", ReasonAddress, "10.0.0.5 is a private address", ""},
		{"metadata.example:7000", 403, "", ReasonAddress, "169.254.169.254 is a cloud metadata address", ""},
		{"mapped.example:7000", 403, "", ReasonAddress, "127.0.0.1 is a loopback address", ""},
		{"both.example:7000", 200, "", "", "", public + ":7000"},
		{"second.example:7000", 200, "", "", "", public + ":7000"},
		{"silent.example:7000", 502, "silent.example port 7000 could not be connected to.\n", ReasonUnreached, "connection refused", ""},
		{"named.example:7000", 200, "", "", "", "192.168.7.7:7000"},
		{"missing.example:7000", 502, "The name missing.example was not found.\n", ReasonUnresolved, "no such host", ""},
		{"empty.example:7000", 502, "", ReasonUnresolved, "no address", ""},
		{"192.168.7.7:7000", 200, "", "", "", "192.168.7.7:7000"},
		{"0xc0.0xa8.1799:7000", 200, "", "", "", "192.168.7.7:7000"},
		{"192.168.8.7:7000", 403, "", ReasonNotListed, "", ""},
		{"localhost:3000", 200, "", "", "", "[::1]:3000"}, // nothing is at 127.0.0.1
	}
	for _, tt := range tests {
		_, dialled := n.seen()
		before := len(dialled)
		c, r, res := p.tunnel(tt.authority)
		body, _ := io.ReadAll(r)
		c.Close()
		if res.StatusCode != tt.status || tt.body != "" && string(body) != tt.body || tt.status == 200 && string(body) != "hello" {
			t.Errorf("%s: %s %q", tt.authority, res.Status, body)
		}
		a := p.next()
		want(t, a, tt.status != 403, tt.reason, tt.detail)
		if tt.address != "" && a.Address.String() != tt.address {
			t.Errorf("%s: connected to %s, want %s", tt.authority, a.Address, tt.address)
		}
		_, dialled = n.seen()
		if tt.status == 403 && len(dialled) > before {
			t.Errorf("%s: dialled %v", tt.authority, dialled[before:])
		}
	}
	if lookups, _ := n.seen(); strings.Contains(strings.Join(lookups, " "), "localhost") {
		t.Errorf("looked up %v", lookups)
	}
}

// The address that was checked is the one that is dialled, whatever the DNS says later.
func TestRebinding(t *testing.T) {
	addr := listen(t, func(c net.Conn) { io.WriteString(c, "hello") })
	n := newInternet()
	n.put("", public, 7000, addr)
	n.put("", "127.0.0.1", 7000, addr)
	turn := 0
	n.onLookup = func(name string) {
		n.names[name] = []string{[]string{public, "127.0.0.1"}[turn%2]}
		turn++
	}
	p := start(t, n, Options{}, "example.com:7000")
	for i := range 6 {
		c, r, res := p.tunnel("example.com:7000")
		io.Copy(io.Discard, r)
		c.Close()
		a := p.next()
		if i%2 == 0 && (res.StatusCode != 200 || a.Address.String() != public+":7000") || i%2 == 1 && (res.StatusCode != 403 || a.Reason != ReasonAddress) {
			t.Errorf("%d: %s, %+v", i, res.Status, a)
		}
	}
	lookups, dialled := n.seen()
	if len(lookups) != 6 || len(dialled) != 3 || strings.Contains(strings.Join(dialled, " "), "127.0.0.1") {
		t.Errorf("looked up %v, dialled %v", lookups, dialled)
	}
}

func TestHostThatBreaksOff(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 5))
		c.(*net.TCPConn).SetLinger(0) // a reset
	})
	n := newInternet()
	n.put("example.com", public, 7000, addr)
	p := start(t, n, Options{}, "example.com:7000")
	c := p.open("example.com:7000")
	io.WriteString(c, "hello") // as it stands it could begin a request
	io.Copy(io.Discard, c)
	a := p.next()
	want(t, a, true, ReasonBroken, "reset")
	if errors.Is(c.Close(), net.ErrClosed) || a.Sent != 5 {
		t.Errorf("attempt %+v", a)
	}
}
