package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"os"
	"strings"
)

type attemptKey struct{}

// forward answers a plain request, whose target is a whole URL.
func (s *server) forward(w http.ResponseWriter, r *http.Request, a *attempt) {
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		detail := "the target of the request is no http:// URL"
		if r.URL.Scheme == "https" {
			detail = "https:// URLs need CONNECT"
		}
		a.Host = shown(r.Host)
		s.refuse(w, r, a, malformed(detail))
		return
	}
	t, err := parseTarget(r.URL.Host, 80)
	if err != nil {
		a.Host = shown(r.URL.Host)
		s.refuse(w, r, a, malformed(err.Error()))
		return
	}
	a.aim(t)
	b := s.p.judge(t)
	if b == nil && t.port == 443 {
		b = &blocked{reason: ReasonNotTLS, refused: true, status: http.StatusForbidden,
			text: where(t) + " takes nothing but TLS; use https."}
	}
	if b != nil {
		s.refuse(w, r, a, b)
		return
	}
	a.Allowed = true

	ctx := context.WithValue(r.Context(), attemptKey{}, a)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if up, ok := info.Conn.(*requestConn); ok {
			up.count.Store(&a.traffic)
			a.Address, a.conn = up.address, up
		}
	}})
	out := r.WithContext(ctx)
	url := *r.URL
	url.Host, url.User = strings.TrimSuffix(t.String(), ":80"), nil
	out.URL, out.Host = &url, url.Host
	// Nothing but a WebSocket may take the connection over: what else there is, such as h2c,
	// carries requests for any host.
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || len(r.Header.Values("Upgrade")) != 1 {
		out.Header = r.Header.Clone()
		out.Header.Del("Upgrade")
		out.Header.Del("Http2-Settings")
	}
	defer func() {
		a.settle()
		// The reverse proxy panics where an answer breaks off.
		if v := recover(); v != nil {
			a.end(ReasonEnded, "the client took no more")
			panic(v)
		}
	}()
	s.reverse.ServeHTTP(w, out)
	if s.ctx.Err() != nil {
		a.end(ReasonEnded, "")
	}
}

// rewrite is what the reverse proxy leaves to do: it has taken off the headers that are
// for one hop alone, and those that tell of clients.
func rewrite(r *httputil.ProxyRequest) {
	// As the client wrote it; the reverse proxy drops what it cannot parse itself.
	r.Out.URL.RawQuery = r.In.URL.RawQuery
}

// watchBody notes when it is the host that breaks an answer off.
func watchBody(r *http.Response) error {
	a, ok := r.Request.Context().Value(attemptKey{}).(*attempt)
	if ok && r.StatusCode != http.StatusSwitchingProtocols {
		r.Body = watchedBody{r.Body, a}
	}
	return nil
}

type watchedBody struct {
	io.ReadCloser
	a *attempt
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.a.end(failure(err), err.Error())
	}
	return n, err
}

// failed answers a request that got no answer.
func (s *server) failed(w http.ResponseWriter, r *http.Request, err error) {
	a, ok := r.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	a.settle()
	var b *blocked
	if !errors.As(err, &b) {
		b = &blocked{reason: failure(err), detail: err.Error(), status: http.StatusBadGateway,
			text: a.Host + " gave no answer that can be passed on."}
	}
	s.refuse(w, r, a, b)
}

// failure is the reason for the error of a connection to a host.
func failure(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonIdle
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed): // by this end
		return ReasonEnded
	}
	return ReasonBroken
}

// copyBuffers lends the buffers of tunnels to the reverse proxy.
type copyBuffers struct{}

func (copyBuffers) Get() []byte  { return buffers.Get().(*[32 << 10]byte)[:] }
func (copyBuffers) Put(b []byte) { buffers.Put((*[32 << 10]byte)(b)) }

func malformed(detail string) *blocked {
	return &blocked{reason: ReasonMalformed, detail: detail, refused: true, status: http.StatusBadRequest,
		text: "This is a proxy, and it cannot answer that request: " + detail + "."}
}
