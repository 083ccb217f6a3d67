// Package egress is a proxy that is the only way from a sandbox to the network, and opens
// exactly the hosts and ports that it was given.
//
// It takes CONNECT and plain HTTP requests in absolute form, WebSocket upgrades among
// them. What it promises:
//
//   - A host that no rule matches is not even looked up.
//   - Names are resolved here and by no one else. The addresses are checked after that, and
//     the very address that was checked is dialled, so an answer of the DNS that changes
//     (rebinding) gains nothing. What is not the public internet stays closed unless the
//     address itself is named; see Rule.
//   - TLS in a tunnel has to carry the tunnel's host as its server name, and HTTP in a
//     tunnel its first Host. On port 443 there is nothing but TLS, on 80 nothing but HTTP
//     and TLS. Other ports, which a rule has to name, may speak any protocol.
//   - Redirects are not followed: they go to the client, whose next request is judged as any.
//   - Every attempt is reported once, whether it was refused, failed or worked.
//   - Nothing of this machine is sent along: no address, no name, no proxy and no
//     credentials of the environment.
//
// What cannot be seen inside TLS cannot be judged: a client can ask a server for another
// host than the server name said, where the server plays along (domain fronting), and
// Encrypted Client Hello hides the true server name behind an allowed one
// (Options.RefuseECH). Nor are later requests of an unencrypted tunnel looked at.
package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Resolver looks names up; *net.Resolver is one. The network is always "ip", the name in
// lower case, in ASCII and without a trailing dot.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options say what a Proxy opens and how. The zero value opens nothing.
type Options struct {
	// Allow are the hosts that may be reached. It is copied.
	Allow []Rule

	// Resolver defaults to that of the system, without its search domains.
	Resolver Resolver
	// Dial connects to ADDRESS:PORT, always an IP address that has been checked; the network
	// is "tcp". It defaults to a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Attempt is called once for every attempt when it has ended, for a refused one before
	// its answer is sent. Calls come from many goroutines, one at a time; while one runs,
	// others that have ended wait for it.
	Attempt func(Attempt)
	// Log gets attempts too, at the debug level, and what goes wrong with the proxy itself.
	Log *slog.Logger

	// RefuseECH refuses TLS with Encrypted Client Hello. Browsers send a meaningless one of
	// those with every connection unless they are told not to, and nobody on the way can tell
	// it from one that hides another server name.
	RefuseECH bool

	// MaxConnections is how many clients can be connected at once (default 256). Further
	// ones wait until they are accepted.
	MaxConnections int
	// SetupTimeout bounds each of the steps until a connection carries data: the header of
	// the request, name and connection, the first bytes in a tunnel (default 30 s).
	SetupTimeout time.Duration
	// IdleTimeout ends a connection on which nothing moves in either direction (default 10
	// minutes).
	IdleTimeout time.Duration
}

const (
	maxHeader    = 64 << 10               // bytes of a request's header, and of the first bytes in a tunnel
	keepAlive    = time.Minute            // between two requests of a client on one connection
	maxAddresses = 16                     // of one name
	headStart    = 250 * time.Millisecond // of one address over the next (RFC 8305)
)

// Proxy is made by New, and does not change after that. Its methods may be called
// concurrently.
type Proxy struct {
	allow      []Rule
	resolver   Resolver
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
	interfaces func() ([]net.Addr, error)
	log        *slog.Logger
	refuseECH  bool
	clients    int
	setup      time.Duration
	idle       time.Duration

	mu      sync.Mutex // held while attempt is called
	attempt func(Attempt)
}

// New returns a proxy. Options may be nil.
func New(o *Options) *Proxy {
	if o == nil {
		o = &Options{}
	}
	p := &Proxy{
		allow:      slices.Clone(o.Allow),
		resolver:   o.Resolver,
		dial:       o.Dial,
		interfaces: net.InterfaceAddrs,
		log:        o.Log,
		refuseECH:  o.RefuseECH,
		clients:    o.MaxConnections,
		setup:      o.SetupTimeout,
		idle:       o.IdleTimeout,
		attempt:    o.Attempt,
	}
	if p.resolver == nil {
		// The resolver in Go, since a lookup of the C library cannot be cancelled.
		p.resolver = absolute{&net.Resolver{PreferGo: true}}
	}
	if p.dial == nil {
		p.dial = new(net.Dialer).DialContext
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.clients <= 0 {
		p.clients = 256
	}
	if p.setup <= 0 {
		p.setup = 30 * time.Second
	}
	if p.idle <= 0 {
		p.idle = 10 * time.Minute
	}
	return p
}

// absolute looks names up as they are. A name with a dot that does not exist would else
// be tried below the search domains of this machine: another host than the one allowed.
type absolute struct{ r *net.Resolver }

func (a absolute) LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error) {
	for i := range len(name) {
		if name[i] == '.' {
			name += "."
			break
		}
	}
	return a.r.LookupNetIP(ctx, network, name)
}

// Serve answers the clients that connect to l until ctx ends or l fails. It closes l. When
// it returns every connection, of clients and to hosts, is closed, and every attempt has
// been reported. The error is nil when ctx has ended. Several Serve may run at once, each
// with its own listener and its own limit of connections.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{p: p, ctx: ctx, conns: make(map[*idleConn]struct{})}
	s.transport = &http.Transport{
		DialContext:        s.dialTransport,
		DisableCompression: true, // the client decides
		// Every request is judged with an address of its own. And the transport writes what a
		// host sends on an idle connection to the standard logger, which is not the host's.
		DisableKeepAlives:      true,
		ExpectContinueTimeout:  5 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	errorLog := slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)
	s.reverse = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      s.transport,
		ModifyResponse: watchBody,
		ErrorHandler:   s.failed,
		ErrorLog:       errorLog,
		FlushInterval:  -1, // events and long polls arrive as they are sent
		BufferPool:     copyBuffers{},
	}
	web := &http.Server{
		Handler:                      s,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            p.setup,
		IdleTimeout:                  keepAlive,
		MaxHeaderBytes:               maxHeader,
		ConnState:                    s.connState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, c)
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    errorLog,
	}
	limited := &limitedListener{
		Listener: l,
		ctx:      ctx,
		slots:    make(chan struct{}, p.clients),
		wrap:     s.accept,
		full: sync.OnceFunc(func() {
			p.log.Warn("The proxy has as many clients as it takes at once; others wait.", "most", p.clients)
		}),
	}

	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		web.Close()
		s.closeAll()
		close(closed)
	})
	err := web.Serve(limited)
	ended := ctx.Err() != nil
	l.Close()
	cancel()
	if stop() {
		web.Close()
		s.closeAll()
	} else {
		<-closed
	}
	s.running.Wait()
	if ended || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// server is one Serve of a Proxy.
type server struct {
	p         *Proxy
	ctx       context.Context
	transport *http.Transport
	reverse   *httputil.ReverseProxy

	// running counts the connections of clients until they are closed or taken over, the
	// requests in hand, and the connections that are being made.
	running sync.WaitGroup

	mu    sync.Mutex
	ended bool
	conns map[*idleConn]struct{} // all that are open, on both sides
}

// track puts a connection under the care of the server.
func (s *server) track(c net.Conn, onClose func()) *idleConn {
	var ic *idleConn
	ic = newIdleConn(c, s.p.idle, func() {
		s.mu.Lock()
		delete(s.conns, ic)
		s.mu.Unlock()
		if onClose != nil {
			onClose()
		}
	})
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.conns[ic] = struct{}{}
	}
	s.mu.Unlock()
	if ended {
		ic.Close()
	}
	return ic
}

// begin registers work that Serve waits for, unless the server has ended.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.running.Add(1)
	}
	return !s.ended
}

func (s *server) closeAll() {
	s.mu.Lock()
	s.ended = true
	conns := make([]*idleConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// client is a connection of a client.
type client struct {
	*idleConn
	// busy is set from when a request has been read until it is answered and the next is
	// awaited. What the HTTP server writes outside of that is its own answer to something
	// that was none.
	busy   atomic.Bool
	unread atomic.Bool            // bytes have come, or such an answer has gone, since then
	answer atomic.Pointer[string] // the status of that
}

type clientKey struct{}

func (c *client) Read(b []byte) (int, error) {
	n, err := c.idleConn.Read(b)
	if n > 0 && !c.busy.Load() {
		c.unread.Store(true)
	}
	return n, err
}

func (c *client) Write(b []byte) (int, error) {
	if !c.busy.Load() {
		c.unread.Store(true)
		line := firstLine(b)
		c.answer.CompareAndSwap(nil, &line)
	}
	return c.idleConn.Write(b)
}

func (s *server) accept(c net.Conn, release func()) net.Conn {
	return &client{idleConn: s.track(c, release)}
}

// connState follows the connections of the HTTP server, whose own refusals would else
// stay unseen.
func (s *server) connState(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*client)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		s.running.Add(1) // before the server begins with it, and while Serve runs
	case http.StateIdle:
		c.busy.Store(false)
	case http.StateClosed:
		if c.unread.Load() && s.ctx.Err() == nil {
			a := s.newAttempt("")
			a.Reason, a.Detail = ReasonMalformed, "incomplete, or late"
			if line := c.answer.Load(); line != nil {
				a.Detail = "answered with " + quote(*line)
			}
			a.report()
		}
		s.running.Done()
	case http.StateHijacked:
		s.running.Done() // its handler is counted by itself
	}
}

// ServeHTTP answers one request to the proxy.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(clientKey{}).(*client)
	if !ok || !s.begin() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.running.Done()
	c.busy.Store(true)
	c.unread.Store(false)

	a := s.newAttempt(r.Method)
	defer a.report() // also when the reverse proxy panics to break a connection off
	if r.Method == http.MethodConnect {
		s.connect(w, r, c, a)
	} else {
		s.forward(w, r, a)
	}
}

// attempt is an Attempt under way.
type attempt struct {
	Attempt
	traffic  traffic
	conn     *requestConn // of a plain request
	p        *Proxy
	reported bool
}

func (s *server) newAttempt(method string) *attempt {
	return &attempt{p: s.p, Attempt: Attempt{Time: time.Now(), Method: shown(method)}}
}

// settle ends the connection of a plain request.
func (a *attempt) settle() {
	if a.conn != nil {
		a.conn.settle()
	}
}

// aim says where the attempt goes.
func (a *attempt) aim(t target) {
	a.Host, a.Port = t.host.String(), int(t.port)
}

// block ends the attempt, before anything is answered.
func (a *attempt) block(b *blocked) {
	a.Allowed, a.Reason, a.Detail = !b.refused, b.reason, b.detail
	a.report()
}

// end says how an allowed attempt ended, once.
func (a *attempt) end(reason, detail string) {
	if a.Reason == "" {
		a.Reason, a.Detail = reason, detail
	}
}

func (a *attempt) report() {
	if a.reported {
		return
	}
	a.reported = true
	a.Duration = time.Since(a.Time)
	a.Sent, a.Received = a.traffic.sent.Load(), a.traffic.received.Load()
	a.p.log.Debug("network attempt", "method", a.Method, "host", a.Host, "port", a.Port, "allowed", a.Allowed,
		"reason", a.Reason, "detail", a.Detail, "address", a.Address, "sent", a.Sent, "received", a.Received, "duration", a.Duration)
	if a.p.attempt == nil {
		return
	}
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.p.attempt(a.Attempt)
}

// judge is the verdict of the rules on a request, before anything is looked up.
func (p *Proxy) judge(t target) *blocked {
	for _, r := range p.allow {
		if r.matches(t) {
			return nil
		}
	}
	return &blocked{
		reason: ReasonNotListed, refused: true, status: http.StatusForbidden,
		text: where(t) + " is not on the allow-list of this desktop.",
	}
}
