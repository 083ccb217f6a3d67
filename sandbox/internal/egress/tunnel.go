package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

// connect answers CONNECT.
func (s *server) connect(w http.ResponseWriter, r *http.Request, c *client, a *attempt) {
	t, err := parseTarget(r.RequestURI, 0)
	if err == nil && (r.ContentLength != 0 || len(r.TransferEncoding) > 0) {
		err = errors.New("CONNECT has no body")
	}
	if err != nil {
		a.Host = shown(r.RequestURI)
		s.refuse(w, r, a, malformed(err.Error()))
		return
	}
	a.aim(t)
	if b := s.p.judge(t); b != nil {
		s.refuse(w, r, a, b)
		return
	}
	up, err := s.dial(r.Context(), t)
	if err != nil {
		b := new(blocked)
		if !errors.As(err, &b) {
			b = &blocked{reason: ReasonUnreached, detail: err.Error(), status: http.StatusBadGateway, text: where(t) + " could not be connected to."}
		}
		if r.Context().Err() != nil {
			b = &blocked{reason: ReasonEnded, status: http.StatusBadGateway, text: b.text}
		}
		s.refuse(w, r, a, b)
		return
	}
	defer up.Close()
	a.Allowed, a.Address = true, up.address
	up.count.Store(&a.traffic)

	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		a.end(ReasonEnded, err.Error())
		return
	}
	defer c.Close()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // what the client sent without waiting
	early = slices.Clone(early)
	stop := context.AfterFunc(r.Context(), func() {
		c.Close()
		up.Close()
	})
	defer stop()
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		a.end(ReasonEnded, err.Error())
		return
	}
	s.tunnel(c, up, early, t, a)
}

// tunnel carries bytes both ways until both ends have ended or either breaks.
func (s *server) tunnel(c *client, up *upstream, early []byte, t target, a *attempt) {
	o := &opening{src: c, buf: early}
	open := func() end { return s.open(o, c, up, t) }
	toHost := func() end {
		if o.spoken == spokenTLS {
			if e := s.guard(o, up, t); e.reason != "" {
				return e
			}
		}
		o.buf = nil // the tunnel may last
		return s.carry(up.idleConn, c, true)
	}
	toClient := func() end { return s.carry(c.idleConn, up, false) }
	if t.port == 80 || t.port == 443 {
		// Here it is the client that speaks first, and nothing comes back before that.
		if e := open(); e.reason != "" {
			e.note(a)
			return
		}
	} else {
		carry := toHost
		toHost = func() end {
			if e := open(); e.reason != "" {
				return e
			}
			return carry()
		}
	}

	ends := make(chan end, 2)
	for _, half := range []func() end{toHost, toClient} {
		s.running.Go(func() { ends <- half() })
	}
	for range 2 {
		if e := <-ends; e.reason != "" {
			e.note(a)
			c.Close()
			up.Close()
		}
	}
}

// end is how one direction of a tunnel ended; its zero value is the end of its source.
type end struct {
	reason  string
	detail  string
	refused bool
}

// note puts it into the attempt, unless the other direction did so before; a refusal
// counts in any case.
func (e end) note(a *attempt) {
	if e.refused {
		a.Allowed, a.Reason, a.Detail = false, e.reason, e.detail
		return
	}
	a.end(e.reason, e.detail)
}

// open judges the first bytes of the client and sends them on.
func (s *server) open(o *opening, c *client, up *upstream, t target) end {
	// They have a time of their own: on the ports of the web from the start, elsewhere, where
	// it may be the host that speaks first, from when it is known that more has to come.
	o.hurry = func() { _ = c.SetReadDeadline(time.Now().Add(s.p.setup)) }
	if t.port == 80 || t.port == 443 {
		o.hurry()
	} else {
		o.pass = func(b []byte) error {
			if _, err := up.Write(b); err != nil {
				return hostError{err}
			}
			return nil
		}
	}
	err := o.more()
	if err == nil {
		var b *blocked
		if b, err = s.p.inspect(o, t); b != nil {
			_, _ = io.WriteString(c, o.refusal(b))
			return end{reason: b.reason, detail: b.detail, refused: true}
		}
	}
	o.hurry = nil
	var host hostError
	switch {
	case errors.Is(err, io.EOF):
	case errors.As(err, &host):
		return end{reason: failure(err), detail: err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded) && (o.spoken != spokenOther || o.pass == nil):
		return end{reason: ReasonSilent}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return end{reason: ReasonIdle, detail: err.Error()}
	case err != nil:
		return end{reason: ReasonEnded, detail: err.Error()}
	}
	_ = c.SetReadDeadline(time.Time{})
	return s.sendOn(o, up, o.judged)
}

// hostError marks the error of a connection to a host.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

// sendOn sends the first n bytes of the opening to the host, but for those that it has
// already, and drops them.
func (s *server) sendOn(o *opening, up *upstream, n int) end {
	if n > o.passed {
		if _, err := up.Write(o.buf[o.passed:n]); err != nil {
			return end{reason: failure(err), detail: err.Error()}
		}
	}
	o.buf = o.buf[:copy(o.buf, o.buf[n:])]
	o.off, o.judged, o.passed = 0, 0, 0
	return end{}
}

// carry moves bytes one way.
func (s *server) carry(dst *idleConn, src io.Reader, fromClient bool) end {
	readErr, writeErr := copyHalf(dst, src)
	hostErr, clientErr := readErr, writeErr
	if fromClient {
		hostErr, clientErr = writeErr, readErr
	}
	switch {
	case s.ctx.Err() != nil:
		return end{reason: ReasonEnded}
	case errors.Is(hostErr, net.ErrClosed), errors.Is(clientErr, net.ErrClosed):
		// By the other direction, for a reason of its own, or since its end could not be passed
		// on as the end of a half.
		return end{}
	case hostErr != nil:
		return end{reason: failure(hostErr), detail: hostErr.Error()}
	case errors.Is(clientErr, os.ErrDeadlineExceeded):
		return end{reason: ReasonIdle, detail: clientErr.Error()}
	case clientErr != nil:
		return end{reason: ReasonEnded, detail: clientErr.Error()}
	}
	return end{}
}
