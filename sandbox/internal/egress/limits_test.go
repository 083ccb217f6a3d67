package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const soon = 250 * time.Millisecond // for a limit that a test wants to reach

func TestClientThatIsTooSlow(t *testing.T) {
	addr := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	n := newInternet()
	for _, port := range []int{80, 443, 7000} {
		n.put("example.com", public, port, addr)
	}
	tests := []struct {
		name           string // for the reader
		tunnel, sent   string
		allowed        bool
		reason, detail string
	}{
		{"header", "", "GET http://example.com/ HTTP/1.1\r\nHost:", false, ReasonMalformed, "late"},
		{"hello", "example.com:443", "", true, ReasonSilent, ""},
		{"half a hello", "example.com:443", string(hello(t, &tls.Config{ServerName: "example.com"})[:100]), true, ReasonSilent, ""},
		{"request on port 80", "example.com:80", "", true, ReasonSilent, ""},
		{"half a request on port 80", "example.com:80", "GET / HT", true, ReasonSilent, ""},
		{"half a header on a port of its own", "example.com:7000", "GET / HTTP/1.1\r\n", true, ReasonSilent, ""},
	}
	p := start(t, n, Options{SetupTimeout: soon}, "example.com", "example.com:7000")
	const refused = "GET http://refused.example/ HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, tt := range tests {
		var c net.Conn
		if tt.tunnel == "" {
			// The time for a header begins with its first byte only behind another request.
			c = p.dial()
			io.WriteString(c, refused)
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Fatal(err)
			}
			want(t, p.next(), false, ReasonNotListed, "")
		} else {
			c = p.open(tt.tunnel)
		}
		io.WriteString(c, tt.sent)
		io.Copy(io.Discard, c) // until the proxy ends it
		want(t, p.next(), tt.allowed, tt.reason, tt.detail)
	}
}

func TestIdle(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		io.WriteString(c, "hello")
		io.Copy(io.Discard, c)
	})
	hung := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	n := newInternet()
	n.put("example.com", public, 7000, addr)
	n.put("example.com", public, 80, hung)
	p := start(t, n, Options{IdleTimeout: soon}, "example.com:7000", "example.com")
	for _, sent := range []string{"", "X", "GET ", "EHLO example.com\r\n"} { // the client's turn, in each state of the proxy
		c := p.open("example.com:7000")
		io.WriteString(c, sent)
		if b, err := io.ReadAll(c); string(b) != "hello" {
			t.Errorf("got %q, %v", b, err)
		}
		a := p.next()
		want(t, a, true, ReasonIdle, "")
		if a.Sent != int64(len(sent)) || a.Received != 5 {
			t.Errorf("attempt %+v", a)
		}
	}
	c := p.dial()
	io.WriteString(c, "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n")
	http.ReadResponse(bufio.NewReader(c), nil) // 502, or a mere end: it is idle on both sides
	if a := p.next(); !a.Allowed || a.Reason != ReasonIdle && a.Reason != ReasonEnded {
		t.Errorf("attempt %+v", a)
	}
}

// advance lets time go by on the clock of a synctest bubble, which takes none.
func advance(d time.Duration) { <-time.After(d) }

// What moves in one direction keeps the other open, and deadlines from outside hold.
func TestIdleConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := newIdleConn(a, time.Minute, nil)
		defer c.Close()
		defer b.Close()
		go io.Copy(io.Discard, b)
		begin := time.Now()
		read := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		for range 10 {
			advance(40 * time.Second)
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 400*time.Second+time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}

		begin = time.Now()
		c.SetReadDeadline(begin.Add(time.Hour))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Hour {
			t.Errorf("with a deadline, after %v: %v", time.Since(begin), err)
		}
		begin = time.Now()
		go func() {
			advance(time.Second)
			c.SetReadDeadline(time.Unix(1, 0)) // as the HTTP server does to stop a read
		}()
		c.SetReadDeadline(time.Time{})
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("stopped, after %v: %v", time.Since(begin), err)
		}
	})
}

func TestWriteToSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := newIdleConn(a, time.Minute, nil)
		defer c.Close()
		defer b.Close()
		go func() {
			for range 10 {
				advance(40 * time.Second)
				io.ReadFull(b, make([]byte, 10))
			}
		}()
		begin := time.Now()
		n, err := c.Write(make([]byte, 1000))
		// The last byte went at 6:40, within the write that ended at 7:00.
		if n != 100 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 8*time.Minute {
			t.Errorf("%d bytes in %v, %v", n, time.Since(begin), err)
		}
	})
}

// A client that does not read makes the host wait, and then ends.
func TestClientThatDoesNotRead(t *testing.T) {
	sent := make(chan int64, 1)
	addr := listen(t, func(c net.Conn) {
		var sum int64
		block := make([]byte, 1<<20)
		for {
			n, err := c.Write(block)
			sum += int64(n)
			if err != nil {
				sent <- sum
				return
			}
		}
	})
	n := newInternet()
	n.put("example.com", public, 7000, addr)
	p := start(t, n, Options{IdleTimeout: soon}, "example.com:7000")
	p.open("example.com:7000")
	want(t, p.next(), true, ReasonIdle, "")
	if n := <-sent; n > 64<<20 {
		t.Errorf("%d bytes were taken from the host for a client that reads nothing", n)
	}
}

func TestConnectionsAtOnce(t *testing.T) {
	var now, most atomic.Int32
	addr := listen(t, func(c net.Conn) {
		most.Store(max(most.Load(), now.Add(1)))
		io.WriteString(c, "hello")
		io.Copy(io.Discard, c)
		now.Add(-1) // before the proxy sees that it has ended
	})
	n := newInternet()
	n.put("example.com", public, 7000, addr)
	p := start(t, n, Options{MaxConnections: 3}, "example.com:7000")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, err := net.Dial("tcp", p.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "CONNECT example.com:7000 HTTP/1.1\r\nHost: x\r\n\r\n")
			r := bufio.NewReader(c)
			if res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect}); err != nil || res.StatusCode != 200 {
				t.Errorf("%v", err)
				return
			}
			io.ReadFull(r, make([]byte, 5))
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, r)
		})
	}
	all.Wait()
	for range 20 {
		want(t, p.next(), true, "", "")
	}
	if most.Load() > 3 {
		t.Errorf("%d connections at once, want 3 at most", most.Load())
	}
}

// blocking is a resolver that answers nothing until it is told to stop.
type blocking struct{ entered chan<- string }

func (b blocking) LookupNetIP(ctx context.Context, _, name string) ([]netip.Addr, error) {
	b.entered <- name
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCancellationEndsEverything(t *testing.T) {
	entered := make(chan string, 10)
	addr := listen(t, func(c net.Conn) {
		entered <- "host"
		io.Copy(io.Discard, c)
	})
	for name, begin := range map[string]func(*running){
		"tunnel":          func(p *running) { p.open(public + ":7000") },
		"tunnel, hello":   func(p *running) { p.open(public + ":443") },
		"tunnel, request": func(p *running) { io.WriteString(p.open(public+":7000"), "GET / HTTP/1.1\r\n") },
		"plain":           func(p *running) { io.WriteString(p.dial(), "GET http://"+public+"/ HTTP/1.1\r\nHost: x\r\n\r\n") },
		"plain, body": func(p *running) {
			io.WriteString(p.dial(), "POST http://"+public+"/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
		},
		"plain, lookup":  func(p *running) { io.WriteString(p.dial(), "GET http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n") },
		"tunnel, lookup": func(p *running) { io.WriteString(p.dial(), "CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n") },
		"tunnel, dial":   func(p *running) { io.WriteString(p.dial(), "CONNECT 93.184.216.35:443 HTTP/1.1\r\nHost: x\r\n\r\n") },
	} {
		n := newInternet()
		for _, port := range []int{80, 443, 7000} {
			n.put("", public, port, addr)
		}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, public) {
				return n.dial(ctx, network, address)
			}
			entered <- address
			<-ctx.Done()
			return nil, ctx.Err()
		}
		p := start(t, n, Options{Resolver: blocking{entered}, Dial: dial}, "*.example", "93.184.216.0/24", public+":7000")
		begin(p)
		<-entered
		if err := p.end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(p.events) != 1 {
			t.Errorf("%s: %d attempts are reported when Serve has returned, want 1", name, len(p.events))
			continue
		}
		if a := p.next(); !a.Allowed || a.Reason != ReasonEnded && a.Reason != ReasonUnresolved && a.Reason != ReasonUnreached {
			t.Errorf("%s: attempt %+v", name, a)
		}
	}
}

func TestClientThatLeavesEndsTheLookup(t *testing.T) {
	entered := make(chan string, 1)
	p := start(t, newInternet(), Options{Resolver: blocking{entered}}, "*.example")
	for _, request := range []string{"CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c := p.dial()
		io.WriteString(c, request)
		<-entered
		c.Close()
		want(t, p.next(), true, ReasonEnded, "")
	}
}

func TestListenerThatFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(nil).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}

func TestContextThatHasEnded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(nil).Serve(ctx, l); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is not closed: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		io.WriteString(c, "hello")
		io.Copy(c, c)
	})
	n := newInternet()
	n.put("example.com", public, 7000, addr)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "proxy"))
	if err != nil {
		t.Fatal(err)
	}
	p := startOn(t, l, n, Options{}, "example.com:7000")
	c, err := net.Dial("unix", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "CONNECT example.com:7000 HTTP/1.1\r\nHost: x\r\n\r\n")
	io.WriteString(c, "EHLO\r\n")
	c.(*net.UnixConn).CloseWrite()
	b, err := io.ReadAll(c)
	if !strings.HasSuffix(string(b), "\r\n\r\nhelloEHLO\r\n") || err != nil {
		// A client that ends its half before the tunnel stands may also have ended it all.
		if a := p.next(); a.Reason != ReasonEnded {
			t.Errorf("got %q, %v; %+v", b, err, a)
		}
	}
}

// Attempts are reported one at a time, each once, and with several Serve at once.
func TestReportsAreNotConcurrent(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer web.Close()
	n := newInternet()
	n.put("example.com", public, 80, web.Listener.Addr())
	reported, allowed := 0, 0 // without a lock: the race detector tells
	p := New(&Options{Allow: rules(t, "example.com"), Resolver: n, Dial: n.dial, Attempt: func(a Attempt) {
		reported++
		if a.Allowed {
			allowed++
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var serving, clients sync.WaitGroup
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() {
			if err := p.Serve(ctx, l); err != nil {
				t.Error(err)
			}
		})
		r := &running{t: t, address: l.Addr().String()}
		c := r.client(nil)
		for i := range 40 {
			clients.Go(func() {
				host := []string{"example.com", "other.example"}[i%2]
				res, err := c.Get(fmt.Sprintf("http://%s/", host))
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
			})
		}
	}
	clients.Wait()
	cancel()
	serving.Wait()
	if reported != 80 || allowed != 40 {
		t.Errorf("%d attempts were reported, %d of them allowed, want 80 and 40", reported, allowed)
	}
}
