package desktest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// client is a connection to an X server with the few requests of the core protocol that
// the witnesses need. It is its own, so that a witness shares neither code nor state with
// a driver under test.
type client struct {
	mu     sync.Mutex // of a request with its answer
	conn   net.Conn
	event  func([]byte) // takes events that come while an answer is awaited; may be nil
	nextID uint32

	root          uint32
	depth         byte
	bitsPerPixel  int
	masks         [3]uint32 // of red, green and blue in a pixel
	minKey, maxNo byte      // the first and the last keycode
}

// The numbers of requests of the core protocol.
const (
	opCreateWindow              = 1
	opMapWindow                 = 8
	opConfigureWindow           = 12
	opGetGeometry               = 14
	opInternAtom                = 16
	opGetProperty               = 20
	opQueryPointer              = 38
	opTranslateCoordinates      = 40
	opSetInputFocus             = 42
	opGetInputFocus             = 43
	opQueryKeymap               = 44
	opCreateGC                  = 55
	opChangeGC                  = 56
	opPolyFillRectangle         = 70
	opPutImage                  = 72
	opGetKeyboardMapping        = 101
	currentTime                 = 0
	replyPacket                 = 1
	errorPacket                 = 0
	packetSize                  = 32
	mostInRequest               = 4 * 65535 // bytes, without the extension for larger ones
	setupAccepted          byte = 1
)

// dial connects to a display on this machine, without a cookie.
func dial(display string) (*client, error) {
	conn, err := net.Dial("unix", "/tmp/.X11-unix/X"+strings.TrimPrefix(display, ":"))
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn}
	if err := c.setUp(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to display %s: %w", display, err)
	}
	return c, nil
}

func (c *client) setUp() error {
	// Little-endian, version 11.0, no authority.
	if _, err := c.conn.Write([]byte{'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(c.conn, head); err != nil {
		return err
	}
	body := make([]byte, 4*int(binary.LittleEndian.Uint16(head[6:])))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return err
	}
	if head[0] != setupAccepted {
		return fmt.Errorf("the server refused: %q", body)
	}
	c.nextID = binary.LittleEndian.Uint32(body[4:])
	vendor := int(binary.LittleEndian.Uint16(body[16:]))
	formats := int(body[21])
	c.minKey, c.maxNo = body[26], body[27]
	at := 32 + (vendor+3)/4*4
	perDepth := map[byte]int{}
	for range formats {
		perDepth[body[at]] = int(body[at+1])
		at += 8
	}
	screen := body[at:]
	c.root = binary.LittleEndian.Uint32(screen)
	visual := binary.LittleEndian.Uint32(screen[32:])
	c.depth = screen[38]
	c.bitsPerPixel = perDepth[c.depth]
	depths := int(screen[39])
	at = 40
	for range depths {
		visuals := int(binary.LittleEndian.Uint16(screen[at+2:]))
		at += 8
		for range visuals {
			if binary.LittleEndian.Uint32(screen[at:]) == visual {
				for i := range c.masks {
					c.masks[i] = binary.LittleEndian.Uint32(screen[at+8+4*i:])
				}
			}
			at += 24
		}
	}
	return nil
}

// id returns a new identifier for a window or a graphics context.
func (c *client) id() uint32 {
	c.nextID++
	return c.nextID
}

// request packs a request: its number, one byte of data, then 16- and 32-bit values and
// byte strings, padded to four.
func request(op, data byte, fields ...any) []byte {
	b := []byte{op, data, 0, 0}
	for _, f := range fields {
		switch v := f.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = binary.LittleEndian.AppendUint16(b, v)
		case int16:
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		case []byte:
			b = append(b, v...)
		}
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	binary.LittleEndian.PutUint16(b[2:], uint16(len(b)/4))
	return b
}

// do sends requests without an answer and returns when the server has done them.
func (c *client) do(requests ...[]byte) error {
	_, err := c.ask(append(requests, request(opGetInputFocus, 0))...)
	return err
}

// ask sends requests, of which only the last has an answer, and returns the answer.
func (c *client) ask(requests ...[]byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range requests {
		if _, err := c.conn.Write(r); err != nil {
			return nil, err
		}
	}
	for {
		packet, err := c.read()
		switch {
		case err != nil:
			return nil, err
		case packet[0] == errorPacket:
			return nil, fmt.Errorf("the server refused request %d with error %d", packet[10], packet[1])
		case packet[0] == replyPacket:
			return packet, nil
		case c.event != nil:
			c.event(packet)
		}
	}
}

// read reads one packet: an answer with its data, an error or an event.
func (c *client) read() ([]byte, error) {
	packet := make([]byte, packetSize)
	if _, err := io.ReadFull(c.conn, packet); err != nil {
		return nil, err
	}
	if packet[0] == replyPacket {
		if more := 4 * int(binary.LittleEndian.Uint32(packet[4:])); more > 0 {
			packet = append(packet, make([]byte, more)...)
			if _, err := io.ReadFull(c.conn, packet[packetSize:]); err != nil {
				return nil, err
			}
		}
	}
	return packet, nil
}

// pixel is a colour as the display's visual has it, with 8 bits a channel given.
func (c *client) pixel(r, g, b uint32) uint32 {
	var p uint32
	for i, v := range [3]uint32{r, g, b} {
		mask := c.masks[i]
		if mask == 0 {
			continue
		}
		shift, width := 0, 0
		for mask>>shift&1 == 0 {
			shift++
		}
		for mask>>(shift+width)&1 == 1 {
			width++
		}
		p |= v >> (8 - min(width, 8)) << shift & mask
	}
	return p
}

// property reads a property of a window as 32-bit values.
func (c *client) property(window uint32, name string) ([]uint32, error) {
	reply, err := c.ask(request(opInternAtom, 0, uint16(len(name)), uint16(0), []byte(name)))
	if err != nil {
		return nil, err
	}
	atom := binary.LittleEndian.Uint32(reply[8:])
	reply, err = c.ask(request(opGetProperty, 0, window, atom, uint32(0), uint32(0), uint32(1024)))
	if err != nil || reply[1] != 32 {
		return nil, err
	}
	values := make([]uint32, binary.LittleEndian.Uint32(reply[16:]))
	for i := range values {
		values[i] = binary.LittleEndian.Uint32(reply[packetSize+4*i:])
	}
	return values, nil
}

// keySymbols is the keyboard's map as the core protocol has it.
type keySymbols struct {
	first byte
	per   int
	all   []byte
}

func (c *client) keyboard() (keySymbols, error) {
	reply, err := c.ask(request(opGetKeyboardMapping, 0, c.minKey, c.maxNo-c.minKey+1))
	if err != nil {
		return keySymbols{}, err
	}
	return keySymbols{c.minKey, int(reply[1]), reply[packetSize:]}, nil
}

// symbol is what a key makes with the given modifiers, as a client of the core protocol
// works it out: column 0 and 1 of the first group, 2 and 3 of the second, and 4 and 5 of
// the first with AltGr.
func (k keySymbols) symbol(code byte, state uint16) uint32 {
	const shift, lock, mod5 = 1, 2, 0x80
	column := 0
	switch group := state >> 13 & 3; {
	case group > 0:
		column = 2
	case state&mod5 != 0:
		column = 4
	}
	at := func(column int) uint32 {
		i := 4 * (int(code-k.first)*k.per + column)
		if code < k.first || column >= k.per || i+4 > len(k.all) {
			return 0
		}
		return binary.LittleEndian.Uint32(k.all[i:])
	}
	shifted := state&shift != 0
	if lower := at(column); state&lock != 0 && (lower >= 'a' && lower <= 'z') {
		shifted = !shifted
	}
	if shifted {
		if symbol := at(column + 1); symbol != 0 {
			return symbol
		}
	}
	return at(column)
}
