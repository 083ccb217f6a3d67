package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// opening is what a client sends first in a tunnel, kept until it has been judged.
type opening struct {
	src io.Reader
	buf []byte // all that was read
	off int    // what a Read has taken of it

	spoken string // "tls" or "http", once it is known
}

var errOpeningTooLong = errors.New("the first bytes are more than a header can have")

// more reads on, unless there is something that has not been taken yet.
func (o *opening) more() error {
	if o.off < len(o.buf) {
		return nil
	}
	if len(o.buf) >= maxHeader {
		return errOpeningTooLong
	}
	o.buf = slices.Grow(o.buf, 512)
	n, err := o.src.Read(o.buf[len(o.buf):min(cap(o.buf), maxHeader)])
	o.buf = o.buf[:len(o.buf)+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (o *opening) Read(b []byte) (int, error) {
	if err := o.more(); err != nil {
		return 0, err
	}
	n := copy(b, o.buf[o.off:])
	o.off += n
	return n, nil
}

func (o *opening) ReadByte() (byte, error) {
	if err := o.more(); err != nil {
		return 0, err
	}
	o.off++
	return o.buf[o.off-1], nil
}

// line returns the next line with its line feed.
func (o *opening) line() ([]byte, error) {
	start := o.off
	for {
		c, err := o.ReadByte()
		if err != nil {
			return nil, err
		}
		if c == '\n' {
			return o.buf[start:o.off], nil
		}
	}
}

// refusal is what the client is told, in the protocol that it speaks.
func (o *opening) refusal(b *blocked) string {
	switch o.spoken {
	case "tls":
		return "\x15\x03\x01\x00\x02\x02\x70" // a fatal alert, unrecognized_name (RFC 8446, 6.2)
	case "http":
		return rawPage(b)
	}
	return ""
}

// inspect reads the first bytes of a tunnel and judges them. The error is that of the
// reading; o has its first byte.
func (p *Proxy) inspect(o *opening, t target) (*blocked, error) {
	b, err := p.judgeOpening(o, t)
	if errors.Is(err, errOpeningTooLong) {
		return &blocked{reason: ReasonMalformed, detail: err.Error(), refused: true, text: where(t) + " was sent a header that is too long."}, nil
	}
	return b, err
}

func (p *Proxy) judgeOpening(o *opening, t target) (*blocked, error) {
	const handshake = 22 // the type of a TLS record
	if o.buf[0] == handshake {
		return p.inspectTLS(o, t)
	}
	if t.port == 443 {
		if methodChar(o.buf[0]) {
			o.spoken = "http"
		}
		return &blocked{reason: ReasonNotTLS, refused: true, text: where(t) + " takes nothing but TLS."}, nil
	}
	return inspectText(o, t)
}

// inspectTLS compares the server name of the ClientHello. The parser is crypto/tls's own,
// which puts together what is spread over several records.
func (p *Proxy) inspectTLS(o *opening, t target) (*blocked, error) {
	o.spoken = "tls"
	var name string
	var extensions []uint16
	seen := false
	err := tls.Server(helloConn{o}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, extensions, seen = hello.ServerName, slices.Clone(hello.Extensions), true
			return nil, errors.New("seen")
		},
	}).Handshake()
	if !seen {
		var failed net.Error
		switch {
		case errors.Is(err, errOpeningTooLong):
			return nil, errOpeningTooLong
		case errors.As(err, &failed) && failed.Timeout(), errors.Is(err, net.ErrClosed):
			return nil, err
		}
		return &blocked{reason: ReasonNotTLS, detail: err.Error(), refused: true, text: where(t) + " was sent no valid TLS."}, nil
	}
	if name == "" {
		if t.host.name != "" {
			return serverName(t, "none"), nil
		}
	} else if h, err := parseHost(name); err != nil || h != t.host {
		return serverName(t, shown(name)), nil
	}
	const encryptedClientHello = 0xfe0d
	if p.refuseECH && slices.Contains(extensions, encryptedClientHello) {
		return &blocked{reason: ReasonECH, refused: true, text: where(t) + " was asked for with a hidden server name."}, nil
	}
	return nil, nil
}

func serverName(t target, name string) *blocked {
	return &blocked{reason: ReasonServerName, detail: name, refused: true, text: where(t) + " was asked for with another server name."}
}

// helloConn gives a TLS server the opening to read, and drops what it answers.
type helloConn struct{ o *opening }

func (c helloConn) Read(b []byte) (int, error)       { return c.o.Read(b) }
func (c helloConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c helloConn) Close() error                     { return nil }
func (c helloConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c helloConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c helloConn) SetDeadline(time.Time) error      { return nil }
func (c helloConn) SetReadDeadline(time.Time) error  { return nil }
func (c helloConn) SetWriteDeadline(time.Time) error { return nil }

// inspectText judges what is no TLS: an HTTP request has to be for the host; what is no
// HTTP may pass, except on port 80.
func inspectText(o *opening, t target) (*blocked, error) {
	line, err := requestLine(o)
	if err == io.EOF {
		err = nil // as much of a line as there will ever be: no server takes it for a request
	}
	if err != nil {
		return nil, err
	}
	if line == "" {
		if t.port == 80 {
			return &blocked{reason: ReasonNotHTTP, refused: true, text: where(t) + " takes nothing but HTTP and TLS."}, nil
		}
		return nil, nil
	}
	o.spoken = "http"
	b, err := judgeRequest(o, line, t)
	if err == io.EOF {
		b, err = hostHeader(t, "the header is incomplete"), nil
	}
	return b, err
}

// requestLine returns the line that some server might take for an HTTP/1 request, or
// nothing if the opening is none. It reads no further than it takes to tell, since in
// another protocol nothing more may come.
func requestLine(o *opening) (string, error) {
	// Servers pass over empty lines.
	c, err := o.ReadByte()
	for err == nil && (c == '\r' || c == '\n') {
		c, err = o.ReadByte()
	}
	start := o.off - 1
	for err == nil && methodChar(c) {
		c, err = o.ReadByte()
	}
	if err != nil || c != ' ' && c != '\t' {
		return "", err
	}
	if _, err := o.line(); err != nil {
		return "", err
	}
	line := o.buf[start:o.off]
	if !bytes.Contains(bytes.ToUpper(line), []byte("HTTP/")) {
		return "", nil
	}
	return string(line), nil
}

func methodChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// judgeRequest reads the header of a request and compares its host. It is strict: what
// two servers might read differently is refused.
func judgeRequest(o *opening, line string, t target) (*blocked, error) {
	parts := strings.Split(endless(line), " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return hostHeader(t, "the first line is "+quote(endless(line))), nil
	}
	if parts[0] == http.MethodConnect {
		return hostHeader(t, "CONNECT within the tunnel"), nil
	}
	var hosts []string
	if target := parts[1]; !strings.HasPrefix(target, "/") && target != "*" {
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return hostHeader(t, "the target is "+quote(target)), nil
		}
		hosts = append(hosts, u.Host)
	}
	named := 0
	for {
		raw, err := o.line()
		if err != nil {
			return nil, err
		}
		field := endless(string(raw))
		if field == "" {
			break
		}
		name, value, found := strings.Cut(field, ":")
		if !found || name == "" || strings.IndexFunc(name, func(c rune) bool { return c > 0x7f || !methodChar(byte(c)) }) >= 0 ||
			strings.ContainsAny(value, "\r\x00") {
			return hostHeader(t, "the header has the line "+quote(field)), nil
		}
		if strings.EqualFold(name, "Host") {
			named++
			hosts = append(hosts, strings.Trim(value, " \t"))
		}
	}
	if named != 1 {
		return hostHeader(t, "there has to be one Host"), nil
	}
	for _, h := range hosts {
		if asked, err := parseTarget(h, t.port); err != nil || asked != t {
			return hostHeader(t, shown(h)), nil
		}
	}
	return nil, nil
}

// endless is a line without its end.
func endless(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

func hostHeader(t target, detail string) *blocked {
	return &blocked{reason: ReasonHostHeader, detail: detail, refused: true, text: where(t) + " was sent a request that is not for it."}
}
