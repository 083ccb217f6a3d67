package x11

import (
	"encoding/binary"
	"errors"
	"net"
)

// errGarbled says that what answers is no X server, or one that somebody has got hold of.
var errGarbled = errors.New("the display's server sends what makes no sense")

// maxReply bounds a reply, in bytes. The largest is a capture, of which the parts of a large
// display have less.
const maxReply = 256 << 20

// framedConn follows the server's messages and ends where one claims to be too large. The
// protocol library would make room for whatever is claimed, and computes its size in 32 bits.
type framedConn struct {
	net.Conn
	head  [32]byte
	have  int   // of head
	body  int64 // bytes until the next head
	begun bool  // the answer to the setup has been seen
	err   error
}

// Read reads what the server has sent, as far as it is in order.
func (c *framedConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if c.body > 0 {
			skip := min(c.body, int64(len(rest)))
			c.body -= skip
			rest = rest[skip:]
			continue
		}
		size := len(c.head)
		if !c.begun {
			size = 8
		}
		took := copy(c.head[c.have:size], rest)
		c.have += took
		rest = rest[took:]
		if c.have < size {
			continue
		}
		c.have = 0
		c.body = c.extra()
		if c.body > maxReply {
			c.err = errGarbled
			_ = c.Close()
			return 0, c.err
		}
	}
	return n, err
}

// extra is how many bytes follow a head.
func (c *framedConn) extra() int64 {
	const reply, genericEvent = 1, 35
	if !c.begun {
		c.begun = true
		return int64(binary.LittleEndian.Uint16(c.head[6:])) * 4
	}
	if kind := c.head[0] &^ 0x80; c.head[0] == reply || kind == genericEvent {
		return int64(binary.LittleEndian.Uint32(c.head[4:])) * 4
	}
	return 0
}
