package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.org", "*.example.net:443", "10.0.0.0/8:80", "[fd00::/8]:443", "bücher.example", "0x7f.1", "::1", "[::ffff:1.2.3.4]:1", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err != nil {
			if r != (Rule{}) || strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
				t.Errorf("ParseRule(%q) is %+v, %q", s, r, err)
			}
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again != r {
			t.Errorf("ParseRule(%q) is %+v, and that prints as %s, which is %+v, %v", s, r, r, again, err)
		}
	})
}

// Whatever a request asks for, what passes the rules is what they say.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"example.org:443", "127.1:80", "[::1]:443", "１２７.1:80", "2130706433:80", "a.b.example:443", "[::ffff:7f00:1]:80", "localhost:80"} {
		f.Add(s)
	}
	p := New(&Options{Allow: []Rule{{name: "example.org"}, {name: "example", below: true}, {prefix: netip.MustParsePrefix("0.0.0.0/0")}, {prefix: netip.MustParsePrefix("::/0")}},
		Resolver: answers{netip.MustParseAddr("127.0.0.1")}})
	f.Fuzz(func(t *testing.T, s string) {
		to, err := parseTarget(s, 0)
		if err != nil {
			return
		}
		if again, err := parseTarget(to.String(), 0); err != nil || again != to {
			t.Errorf("%q is %s, and that %s, %v", s, to, again, err)
		}
		if p.judge(to) != nil {
			return
		}
		open, b := p.resolve(t.Context(), to)
		if to.host.name != "" && (b == nil || to.host.name != "example.org" && !strings.HasSuffix(to.host.name, ".example")) {
			t.Errorf("%q leads to %v", s, open)
		}
		for _, o := range open {
			if n, found := special(o.Addr()); found {
				t.Errorf("%q leads to %s, which is %s", s, o, n.kind)
			}
		}
	})
}

// FuzzOpening sends the first bytes of a tunnel in pieces.
func FuzzOpening(f *testing.F) {
	good := hello(f, &tls.Config{ServerName: "example.com"})
	evil := hello(f, &tls.Config{ServerName: "evil.example"})
	for _, port := range []uint16{80, 443, 7000} {
		for _, b := range [][]byte{good, evil, append(bytes.Clone(good), evil...), []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"),
			[]byte("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), []byte("EHLO x\r\n"), {0, 1, 2}} {
			f.Add(b, port, byte(3))
		}
	}
	to := func(port uint16) target { return target{host{name: "example.com"}, port} }
	f.Fuzz(func(t *testing.T, b []byte, port uint16, size byte) {
		if len(b) == 0 || port == 0 {
			return
		}
		p := New(nil)
		var passed []byte
		o := &opening{src: &pieces{b, int(size) + 1}}
		if port != 80 && port != 443 {
			o.pass = func(b []byte) error { passed = append(passed, b...); return nil }
		}
		if err := o.more(); err != nil {
			t.Fatal(err)
		}
		refused, err := p.inspect(o, to(port))
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%v", err)
		}
		if !bytes.HasPrefix(b, o.buf) || !bytes.HasPrefix(o.buf, passed) || o.passed != len(passed) || len(o.buf) > maxHeader {
			t.Fatalf("read %q, passed %q", o.buf, passed)
		}
		if refused != nil {
			if !refused.refused || refused.reason == "" || bytes.Contains(passed, []byte("\n\r\n")) && bytes.Contains(bytes.ToUpper(passed), []byte(" HTTP/")) {
				t.Fatalf("%+v, passed %q", refused, passed)
			}
			return
		}
		if err != nil {
			return
		}
		if port == 443 && o.spoken != spokenTLS || port == 80 && o.spoken == spokenOther {
			t.Fatalf("passed to port %d: %q", port, o.buf)
		}
		if o.judged == 0 || o.judged > len(o.buf) {
			t.Fatalf("%d bytes of %d may be sent on", o.judged, len(o.buf))
		}
		if o.spoken == spokenTLS {
			// The same, read by itself, names the host.
			name := ""
			tls.Server(helloConn{&opening{src: bytes.NewReader(o.buf[:o.judged])}}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				name = h.ServerName
				return nil, io.EOF
			}}).Handshake()
			if h, err := parseHost(name); err != nil || h.name != "example.com" {
				t.Fatalf("the server name %q passes", name)
			}
		}
	})
}

// pieces reads a few bytes at a time.
type pieces struct {
	b    []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.b[:min(p.size, len(p.b))])
	p.b = p.b[n:]
	return n, nil
}

// pipes is a listener whose connections are handed to it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// FuzzRequests sends bytes to a whole proxy. Nothing may be dialled that is not allowed,
// and everything ends.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT example.com:7000 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\nGET http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST http://example.com/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var mu sync.Mutex
		var bad []string
		attempts := 0
		dial := func(_ context.Context, _, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			switch address {
			case public + ":80", public + ":443", public + ":7000":
			default:
				bad = append(bad, address)
			}
			a, c := net.Pipe()
			go func() {
				defer c.Close()
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				io.Copy(io.Discard, c)
			}()
			return a, nil
		}
		names := newInternet()
		names.put("example.com", public, 0, nil)
		names.put("a.example", "127.0.0.1", 0, nil)
		p := New(&Options{Allow: rules(t, "example.com", "example.com:7000", "*.example"), Resolver: names, Dial: dial,
			Attempt: func(Attempt) { attempts++ }})
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := p.Serve(ctx, l); err != nil {
				t.Error(err)
			}
		})
		mine, its := net.Pipe()
		l.conns <- its
		all.Go(func() { io.Copy(io.Discard, mine) })
		mine.Write(b) // which ends when all is read, or nobody reads on
		mine.Close()
		cancel()
		all.Wait()
		if len(bad) > 0 {
			t.Errorf("dialled %v", bad)
		}
		if lookups, _ := names.seen(); len(lookups) > attempts {
			t.Errorf("looked up %v for %d attempts", lookups, attempts)
		}
	})
}
