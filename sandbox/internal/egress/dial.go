package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// dialTransport makes a connection for the HTTP transport.
func (s *server) dialTransport(ctx context.Context, _, address string) (net.Conn, error) {
	// The transport dials in a goroutine of its own, which may outlast the request.
	if !s.begin() {
		return nil, net.ErrClosed
	}
	defer s.running.Done()
	t, err := parseTarget(address, 0)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", quote(address), err)
	}
	up, err := s.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	return &requestConn{upstream: up, wrote: make(chan struct{})}, nil
}

// requestConn is a connection to a host that is heard only once it has been asked: the
// transport would log what comes before.
type requestConn struct {
	*upstream
	once    sync.Once
	wrote   chan struct{}
	writing sync.Mutex
}

func (c *requestConn) Read(b []byte) (int, error) {
	<-c.wrote
	return c.upstream.Read(b)
}

func (c *requestConn) Write(b []byte) (int, error) {
	c.once.Do(func() { close(c.wrote) })
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.upstream.Write(b)
}

// settle closes the connection and waits until what was written is counted: an answer can
// be complete before the transport's goroutine has returned from writing the request.
func (c *requestConn) settle() {
	_ = c.Close()
	c.writing.Lock()
	defer c.writing.Unlock()
}

func (c *requestConn) Close() error {
	c.once.Do(func() { close(c.wrote) })
	return c.upstream.Close()
}

// dial resolves the host, checks its addresses and connects to one of them. The caller
// is counted as running. An error is a *blocked.
func (s *server) dial(ctx context.Context, t target) (*upstream, error) {
	if b := s.p.judge(t); b != nil {
		return nil, b
	}
	ctx, cancel := context.WithTimeout(ctx, s.p.setup)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() //nolint:contextcheck // the transport takes the request's end off its context, and the server's with it

	addresses, b := s.p.resolve(ctx, t)
	if b != nil {
		return nil, b
	}
	conn, address, err := s.race(ctx, addresses)
	if err != nil {
		b := &blocked{reason: ReasonUnreached, detail: err.Error(), status: http.StatusBadGateway,
			text: where(t) + " could not be connected to."}
		if errors.Is(err, context.DeadlineExceeded) {
			b.status = http.StatusGatewayTimeout
		}
		return nil, b
	}
	return &upstream{idleConn: s.track(conn, nil), address: address}, nil
}

// upstream is a connection to a host.
type upstream struct {
	*idleConn
	address netip.AddrPort
}

// resolve returns the addresses of the host that may be connected to, at least one.
func (p *Proxy) resolve(ctx context.Context, t target) ([]netip.AddrPort, *blocked) {
	var addrs []netip.Addr
	switch {
	case t.host.name == "":
		addrs = []netip.Addr{t.host.addr}
	case t.host.local():
		// The rule that matched names loopback, and no name server has a say in it.
		return []netip.AddrPort{netip.AddrPortFrom(loopbackIPv4, t.port), netip.AddrPortFrom(loopbackIPv6, t.port)}, nil
	default:
		var err error
		addrs, err = p.resolver.LookupNetIP(ctx, "ip", t.host.name)
		if err == nil && len(addrs) == 0 {
			err = errors.New("it has no address")
		}
		if err != nil {
			return nil, &blocked{reason: ReasonUnresolved, detail: err.Error(), status: http.StatusBadGateway,
				text: "The name " + t.host.name + " was not found."}
		}
	}

	var open []netip.AddrPort
	detail := ""
	for _, addr := range addrs {
		if len(open) == maxAddresses {
			break
		}
		if !addr.IsValid() {
			continue
		}
		// Without a zone, which no address of the public internet has.
		address := netip.AddrPortFrom(addr.WithZone("").Unmap(), t.port)
		if slices.Contains(open, address) {
			continue
		}
		if kind := p.forbidden(address); kind != "" {
			detail = fmt.Sprintf("%s is %s", address.Addr(), kind)
			continue
		}
		open = append(open, address)
	}
	if len(open) == 0 {
		return nil, &blocked{reason: ReasonAddress, detail: detail, refused: true, status: http.StatusForbidden,
			text: where(t) + " leads to an address that is not on the allow-list of this desktop."}
	}
	return open, nil
}

// race dials addresses in their order, each a little after the one before it or when that
// has failed. The first that answers is returned, the others are closed.
func (s *server) race(ctx context.Context, addresses []netip.AddrPort) (net.Conn, netip.AddrPort, error) {
	type result struct {
		conn    net.Conn
		address netip.AddrPort
		err     error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(addresses))
	next, pending := 0, 0
	start := func() {
		address := addresses[next]
		next++
		pending++
		s.running.Go(func() {
			conn, err := s.p.dial(ctx, "tcp", address.String())
			results <- result{conn, address, err}
		})
	}
	start()
	timer := time.NewTimer(headStart)
	defer timer.Stop()

	var failure error
	for pending > 0 {
		select {
		case r := <-results:
			pending--
			if r.err == nil {
				if pending > 0 {
					cancel()
					late := pending
					s.running.Go(func() {
						for range late {
							if r := <-results; r.err == nil {
								r.conn.Close()
							}
						}
					})
				}
				return r.conn, r.address, nil
			}
			if failure == nil || errors.Is(failure, context.Canceled) {
				failure = r.err
			}
			if next < len(addresses) && ctx.Err() == nil {
				start()
				timer.Reset(headStart)
			}
		case <-timer.C:
			if next < len(addresses) && ctx.Err() == nil {
				start()
				timer.Reset(headStart)
			}
		}
	}
	return nil, netip.AddrPort{}, failure
}

// where is a target in words.
func where(t target) string {
	return t.host.String() + " port " + strconv.Itoa(int(t.port))
}
