package egress

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// Of TLS (RFC 8446): types of records, a type of handshake message, extensions.
const (
	recordHeader     = 5 // bytes: the type, two of a version, two of a length
	recordCipherSpec = 20
	recordAlert      = 21
	recordHandshake  = 22
	recordData       = 23

	messageClientHello = 1

	extensionEarlyData = 42
	extensionECH       = 0xfe0d
)

// inspectTLS compares the server name of the ClientHello. The parser is crypto/tls's own,
// which puts together what is spread over several records.
func (p *Proxy) inspectTLS(o *opening, t target) (*blocked, error) {
	o.speaks(spokenTLS)
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
		return notTLS(t, err.Error()), nil
	}
	if name == "" {
		if t.host.name != "" {
			return serverName(t, "none"), nil
		}
	} else if h, err := parseHost(name); err != nil || h != t.host {
		return serverName(t, shown(name)), nil
	}
	if p.refuseECH && slices.Contains(extensions, extensionECH) {
		return &blocked{reason: ReasonECH, refused: true, text: where(t) + " was asked for with a hidden server name."}, nil
	}
	o.early = o.early || slices.Contains(extensions, extensionEarlyData)
	if o.judged = helloEnd(o.buf); o.judged == 0 {
		return notTLS(t, "something follows the ClientHello in its record"), nil
	}
	return nil, nil
}

func serverName(t target, name string) *blocked {
	return &blocked{reason: ReasonServerName, detail: name, refused: true, text: where(t) + " was asked for with another server name."}
}

func notTLS(t target, detail string) *blocked {
	return &blocked{reason: ReasonNotTLS, detail: detail, refused: true, text: where(t) + " was sent no valid TLS."}
}

// helloEnd is where the record ends that ends the handshake message at the start of
// records, or 0 if more follows in that record, or it is not there.
func helloEnd(records []byte) int {
	var length []byte // the first bytes of the message, which say how long it is
	have, end := 0, 0
	for len(records)-end >= recordHeader {
		kind, n := records[end], int(binary.BigEndian.Uint16(records[end+3:]))
		end += recordHeader
		if len(records)-end < n {
			return 0
		}
		payload := records[end : end+n]
		end += n
		if kind != recordHandshake {
			continue // a warning, which crypto/tls passes over too
		}
		have += n
		length = append(length, payload[:min(n, 4-len(length))]...)
		if len(length) < 4 {
			continue
		}
		want := 4 + int(binary.BigEndian.Uint32(length)&0xffffff)
		if have == want {
			return end
		}
		if have > want {
			return 0
		}
	}
	return 0
}

// guard sends on what follows a ClientHello until no second one can follow. A server may
// ask for that (HelloRetryRequest), and go by the server name of the second instead of
// the first; a client can also send it unasked, before the server has read the first.
func (s *server) guard(o *opening, up *upstream, t target) end {
	for {
		b, more, err := s.p.nextRecord(o, t)
		switch {
		case errors.Is(err, io.EOF):
			return s.sendOn(o, up, len(o.buf)) // carry finds the end again
		case errors.Is(err, os.ErrDeadlineExceeded):
			return end{reason: ReasonIdle, detail: err.Error()}
		case err != nil:
			return end{reason: ReasonEnded, detail: err.Error()}
		case b != nil:
			return end{reason: b.reason, detail: b.detail, refused: true}
		}
		if e := s.sendOn(o, up, o.judged); e.reason != "" || !more {
			return e
		}
	}
}

// nextRecord judges the record at the start of o, and says how much may be sent on. More
// is whether what follows has to be looked at too.
func (p *Proxy) nextRecord(o *opening, t target) (b *blocked, more bool, err error) {
	if err := o.fill(recordHeader); err != nil {
		return nil, false, err
	}
	n := int(binary.BigEndian.Uint16(o.buf[3:]))
	const longest = 1<<14 + 2048 // of TLS 1.2; 1.3 has less
	if n == 0 || n > longest {
		return notTLS(t, "a record with an impossible length"), false, nil
	}
	switch o.buf[0] {
	case recordCipherSpec, recordAlert:
	case recordData:
		if !o.early {
			o.judged = len(o.buf)
			return nil, false, nil
		}
	case recordHandshake:
		// The second byte is the highest of a length, which is zero in every ClientHello that
		// is taken.
		looked := recordHeader + min(n, 2)
		if err := o.fill(looked); err != nil {
			return nil, false, err
		}
		if n > 1 && o.buf[recordHeader] == messageClientHello && o.buf[recordHeader+1] != 0 {
			o.large = true
		}
		if o.large {
			// A message of TLS 1.2 that is encrypted, or a ClientHello of more than 64 KiB
			// that no one could judge. Of the former there is little before the data.
			if o.handshake += n; o.handshake > maxUnjudged {
				return notTLS(t, "a ClientHello of an impossible length"), false, nil
			}
			break
		}
		if o.buf[recordHeader] != messageClientHello {
			o.judged = len(o.buf)
			return nil, false, nil
		}
		o.off = 0
		b, err := p.inspectTLS(o, t)
		if errors.Is(err, errOpeningTooLong) {
			b, err = notTLS(t, err.Error()), nil
		}
		return b, true, err
	default:
		return notTLS(t, "a record of an unknown type"), false, nil
	}
	if err := o.fill(recordHeader + n); err != nil {
		return nil, false, err
	}
	o.judged = recordHeader + n
	return nil, true, nil
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
