package egress

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
)

// benchProxy runs a proxy in front of a host at port 7000 that takes everything and at 7001
// that sends without end.
func benchProxy(b *testing.B) *running {
	n := newInternet()
	n.put("example.com", public, 7000, listen(b, func(c net.Conn) { io.Copy(io.Discard, c) }))
	n.put("example.com", public, 7001, listen(b, func(c net.Conn) {
		block := make([]byte, 1<<20)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}))
	return start(b, n, Options{Attempt: func(Attempt) {}}, "example.com:7000", "example.com:7001")
}

// BenchmarkTunnel moves a mebibyte per operation through one tunnel, from client to host
// over two connections of loopback.
func BenchmarkTunnel(b *testing.B) {
	const size = 1 << 20
	b.Run("up", func(b *testing.B) {
		c := benchProxy(b).open("example.com:7000")
		block := make([]byte, size)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := c.Write(block); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("down", func(b *testing.B) {
		c := benchProxy(b).open("example.com:7001")
		block := make([]byte, size)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := io.ReadFull(c, block); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("direct", func(b *testing.B) { // the same without a proxy, to compare
		c, err := net.Dial("tcp", listen(b, func(c net.Conn) { io.Copy(io.Discard, c) }).String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		block := make([]byte, size)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := c.Write(block); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkConnect opens a tunnel, has a ClientHello judged and sent on, and closes it.
func BenchmarkConnect(b *testing.B) {
	n := newInternet()
	n.put("example.com", public, 443, listen(b, func(c net.Conn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "x")
	}))
	p := start(b, n, Options{Attempt: func(Attempt) {}}, "example.com")
	h := hello(b, &tls.Config{ServerName: "example.com"})
	one := func() error {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			return err
		}
		defer c.Close()
		io.WriteString(c, "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		r := bufio.NewReader(c)
		if res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect}); err != nil || res.StatusCode != 200 {
			return fmt.Errorf("%v", err)
		}
		c.Write(h)
		_, err = r.ReadByte()
		return err
	}
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			work := make(chan struct{})
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range work {
						if err := one(); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tunnels/s")
		})
	}
}

// BenchmarkRequest makes plain requests on one connection to the proxy.
func BenchmarkRequest(b *testing.B) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer web.Close()
	n := newInternet()
	n.put("example.com", public, 80, web.Listener.Addr())
	p := start(b, n, Options{Attempt: func(Attempt) {}}, "example.com")
	c := p.client(nil)
	for host, status := range map[string]int{"example.com": 200, "refused.example": 403} {
		b.Run(host, func(b *testing.B) {
			for b.Loop() {
				res, err := c.Get("http://" + host + "/")
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != status {
					b.Fatal(res.Status)
				}
			}
		})
	}
}

// BenchmarkAddress checks one address, as is done before each connection.
func BenchmarkAddress(b *testing.B) {
	p := New(&Options{Allow: rules(b, "example.com", "*.example.org", "10.0.0.0/8")})
	for _, s := range []string{"93.184.216.34:443", "[2606:2800:220:1::1]:443", "10.0.0.1:443", "127.0.0.1:443"} {
		addr := netip.MustParseAddrPort(s)
		b.Run(s, func(b *testing.B) {
			for b.Loop() {
				p.forbidden(addr)
			}
		})
	}
}
