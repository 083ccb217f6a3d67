package egress

import (
	"errors"
	"io"
	"slices"
)

// opening is what a client sends first in a tunnel, kept until it has been judged.
type opening struct {
	src io.Reader
	buf []byte // all that was read
	off int    // what a Read has taken of it

	// pass sends bytes on while it is not known whether they begin an HTTP request: in another
	// protocol the client may wait for an answer to them, and no server answers a request
	// before its header is complete. Nil where nothing may be sent unjudged.
	pass      func([]byte) error
	passed    int  // of buf
	undecided bool // whether to pass

	// hurry is called when it is known that more has to come; nil if nobody needs to know.
	hurry func()

	judged int    // what may be sent on of it, once it has been let through
	spoken spoken // once it is known
	early  bool   // a ClientHello announced data that comes before its answer

	large     bool // a message has come that may be part of a ClientHello of more than 64 KiB
	handshake int  // bytes of it and of what followed
}

// maxUnjudged bounds what is sent on of a message that may be a ClientHello and cannot be
// judged. It is less than any ClientHello that cannot.
const maxUnjudged = 32 << 10

type spoken int

const (
	spokenOther spoken = iota
	spokenTLS
	spokenHTTP
)

var errOpeningTooLong = errors.New("the first bytes are more than a header can have")

// more reads on, unless there is something that has not been taken yet.
func (o *opening) more() error {
	if o.off < len(o.buf) {
		return nil
	}
	return o.read()
}

func (o *opening) read() error {
	if o.undecided && o.pass != nil && o.passed < len(o.buf) {
		if err := o.pass(o.buf[o.passed:]); err != nil {
			return err
		}
		o.passed = len(o.buf)
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

// speaks notes the protocol, in which more has to come than one byte.
func (o *opening) speaks(protocol spoken) {
	o.spoken = protocol
	if o.hurry != nil {
		o.hurry()
	}
}

// fill reads on until there are n bytes.
func (o *opening) fill(n int) error {
	for len(o.buf) < n {
		if err := o.read(); err != nil {
			return err
		}
	}
	return nil
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
	case spokenTLS:
		return "\x15\x03\x01\x00\x02\x02\x70" // a fatal alert, unrecognized_name (RFC 8446, 6.2)
	case spokenHTTP:
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
	if o.buf[0] == recordHandshake {
		return p.inspectTLS(o, t)
	}
	if t.port == 443 {
		if methodChar(o.buf[0]) {
			o.speaks(spokenHTTP)
		}
		return &blocked{reason: ReasonNotTLS, refused: true, text: where(t) + " takes nothing but TLS."}, nil
	}
	b, err := inspectText(o, t)
	o.judged = len(o.buf)
	return b, err
}
