package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// internet is the world of a test: names, and addresses behind each of which a server on
// loopback stands.
type internet struct {
	mu       sync.Mutex
	names    map[string][]string
	servers  map[string]string // "ADDRESS:PORT" to the loopback address
	lookups  []string
	dialled  []string
	onLookup func(name string)
}

func newInternet() *internet {
	return &internet{names: make(map[string][]string), servers: make(map[string]string)}
}

// put makes a name lead to an address, and a port of that to a server.
func (n *internet) put(name, address string, port int, server net.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name != "" && !slices.Contains(n.names[name], address) {
		n.names[name] = append(n.names[name], address)
	}
	if server != nil {
		n.servers[netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)).String()] = server.String()
	}
}

func (n *internet) LookupNetIP(_ context.Context, network, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups = append(n.lookups, name)
	if n.onLookup != nil {
		n.onLookup(name)
	}
	var addrs []netip.Addr
	all, found := n.names[name]
	for _, a := range all {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if network != "ip" || !found {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return addrs, nil
}

func (n *internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	server := n.servers[address]
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	if server == "" {
		return nil, fmt.Errorf("connect %s: connection refused", address)
	}
	return new(net.Dialer).DialContext(ctx, network, server)
}

func (n *internet) seen() (lookups, dialled []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lookups), slices.Clone(n.dialled)
}

// running is a proxy that runs for one test.
type running struct {
	t       testing.TB
	address string
	events  chan Attempt
	end     func() error // ends it, and returns what Serve did
}

func rules(t testing.TB, list ...string) []Rule {
	t.Helper()
	var all []Rule
	for _, s := range list {
		r, err := ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// start runs a proxy in front of an internet.
func start(t testing.TB, n *internet, o Options, allow ...string) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, l, n, o, allow...)
}

func startOn(t testing.TB, l net.Listener, n *internet, o Options, allow ...string) *running {
	t.Helper()
	r := &running{t: t, address: l.Addr().String(), events: make(chan Attempt, 10000)}
	o.Allow = rules(t, allow...)
	if o.Resolver == nil {
		o.Resolver = n
	}
	if o.Dial == nil {
		o.Dial = n.dial
	}
	if o.Attempt == nil {
		o.Attempt = func(a Attempt) { r.events <- a }
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- New(&o).Serve(ctx, l) }()
	r.end = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// client is an HTTP client that has the proxy as its only way.
func (r *running) client(trust *tls.Config) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: r.address}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: trust, ForceAttemptHTTP2: true}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// next is the next attempt that is reported.
func (r *running) next() Attempt {
	r.t.Helper()
	return <-r.events
}

// trust is a TLS configuration that trusts a server of httptest.
func trust(s *httptest.Server) *tls.Config {
	return s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}
