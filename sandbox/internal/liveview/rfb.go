package liveview

import (
	"crypto/des"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The messages that a client of the RFB protocol sends, by their first byte: those of
// RFC 6143, and the extensions of https://github.com/rfbproto/rfbproto that noVNC speaks.
const (
	setPixelFormat          = 0
	setEncodings            = 2
	updateRequest           = 3
	keyEvent                = 4
	pointerEvent            = 5
	cutText                 = 6
	enableContinuousUpdates = 150
	clientFence             = 248
	xvp                     = 250
	setDesktopSize          = 251
	qemuMessage             = 255
	qemuKeyEvent            = 0 // its second byte
)

const (
	mostCutText   = 1 << 20 // bytes
	mostEncodings = 256
	mostFence     = 64 // bytes; the extension's own limit
)

// clientMessage is one whole message of a client, byte for byte.
type clientMessage []byte

// errProtocol is what every error wraps that is the client's doing.
var errProtocol = errors.New("the viewer does not keep to the RFB protocol")

// readClientMessage reads the next message into buffer, which grows as needed and is reused
// by the next call. The error is io.EOF only where the stream ends between two messages.
func readClientMessage(r io.Reader, buffer *[]byte) (clientMessage, error) {
	m := (*buffer)[:0]
	read := func(n int) error {
		at := len(m)
		m = slices.Grow(m, n)[:at+n]
		_, err := io.ReadFull(r, m[at:])
		if err != nil && at > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	defer func() { *buffer = m }()
	if err := read(1); err != nil {
		return nil, err
	}
	// The fixed part first, with the length of what follows it.
	fixed, ok := map[byte]int{
		setPixelFormat: 20, setEncodings: 4, updateRequest: 10, keyEvent: 8, pointerEvent: 6, cutText: 8,
		enableContinuousUpdates: 10, clientFence: 9, xvp: 4, setDesktopSize: 8, qemuMessage: 2,
	}[m[0]]
	if !ok {
		return nil, fmt.Errorf("%w: it sent a message of the unknown type %d", errProtocol, m[0])
	}
	if err := read(fixed - 1); err != nil {
		return nil, err
	}
	rest := 0
	switch m[0] {
	case setPixelFormat:
		if bits := m[4]; bits != 8 && bits != 16 && bits != 32 {
			return nil, fmt.Errorf("%w: it asked for %d bits a pixel", errProtocol, bits)
		}
	case setEncodings:
		n := int(binary.BigEndian.Uint16(m[2:]))
		if n > mostEncodings {
			return nil, fmt.Errorf("%w: it named %d encodings", errProtocol, n)
		}
		rest = 4 * n
	case cutText:
		// A negative length is that of the extended clipboard's message, which begins with
		// four bytes of flags.
		n := int64(int32(binary.BigEndian.Uint32(m[4:])))
		if n < 0 {
			if n = -n; n < 4 {
				return nil, fmt.Errorf("%w: it sent an extended clipboard message of %d bytes", errProtocol, n)
			}
		}
		if n > mostCutText {
			return nil, fmt.Errorf("%w: it sent a clipboard of %d bytes, and %d are the most", errProtocol, n, mostCutText)
		}
		rest = int(n)
	case clientFence:
		if rest = int(m[8]); rest > mostFence {
			return nil, fmt.Errorf("%w: it sent a fence with %d bytes", errProtocol, rest)
		}
	case setDesktopSize:
		rest = 16 * int(m[6])
	case qemuMessage:
		if m[1] != qemuKeyEvent {
			return nil, fmt.Errorf("%w: it sent a message of the unknown type 255.%d", errProtocol, m[1])
		}
		rest = 10
	}
	if err := read(rest); err != nil {
		return nil, err
	}
	return m, nil
}

// key returns what a message about a key says; ok is false for every other message.
func (m clientMessage) key() (symbol uint32, down, ok bool) {
	switch {
	case m[0] == keyEvent:
		return binary.BigEndian.Uint32(m[4:]), m[1] != 0, true
	case m[0] == qemuMessage && m[1] == qemuKeyEvent:
		return binary.BigEndian.Uint32(m[4:]), binary.BigEndian.Uint16(m[2:]) != 0, true
	}
	return 0, false, false
}

// keyMessage is a KeyEvent. Symbol is a keysym.
func keyMessage(symbol uint32, down bool) clientMessage {
	m := clientMessage{keyEvent, 0, 0, 0, 0, 0, 0, 0}
	if down {
		m[1] = 1
	}
	binary.BigEndian.PutUint32(m[4:], symbol)
	return m
}

// pointer returns what a PointerEvent says: the buttons that are down, bit 0 for button 1,
// and the place in display pixels.
func (m clientMessage) pointer() (buttons byte, x, y uint16) {
	return m[1], binary.BigEndian.Uint16(m[2:]), binary.BigEndian.Uint16(m[4:])
}

func pointerMessage(buttons byte, x, y uint16) clientMessage {
	m := clientMessage{pointerEvent, buttons, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(m[2:], x)
	binary.BigEndian.PutUint16(m[4:], y)
	return m
}

// onlyEncodings returns a SetEncodings message with those encodings alone that pass.
func (m clientMessage) onlyEncodings(pass func(int32) bool) clientMessage {
	kept := clientMessage{setEncodings, 0, 0, 0}
	for at := 4; at+4 <= len(m); at += 4 {
		if pass(int32(binary.BigEndian.Uint32(m[at:]))) {
			kept = append(kept, m[at:at+4]...)
		}
	}
	binary.BigEndian.PutUint16(kept[2:], uint16((len(kept)-4)/4))
	return kept
}

// passEncoding says which encodings and extensions a viewer may agree on with the server.
// What is left out is what would let a viewer change more than it sees (the display's size,
// the machine's power), what makes a key depend on the viewer's keyboard (QEMU's key
// events), clipboards (see Clipboard), and what is not known here, so that no viewer sends a message that is not either.
func passEncoding(encoding int32) bool {
	const (
		raw, copyRect, rre, hextile, zlib, tight, zrle = 0, 1, 2, 5, 6, 7, 16
		tightPNG                                       = -260
		firstQuality, lastQuality                      = -32, -23
		firstCompression, lastCompression              = -256, -247
		desktopSize, lastRect                          = -223, -224
		cursor, vmwareCursor                           = -239, 0x574d5664
		desktopName, fence, continuousUpdates          = -307, -312, -313
	)
	switch encoding {
	case raw, copyRect, rre, hextile, zlib, tight, zrle, tightPNG, desktopSize, lastRect,
		cursor, vmwareCursor, desktopName, fence, continuousUpdates:
		return true
	}
	return encoding >= firstQuality && encoding <= lastQuality ||
		encoding >= firstCompression && encoding <= lastCompression
}

// RFB's types of security, and its result for success.
const (
	securityNone = 1
	securityVNC  = 2
	securityOK   = 0
)

const protocolVersion = "RFB 003.008\n"

// connectServer does a client's part of the handshake with the server, up to and without
// ClientInit.
func connectServer(rw io.ReadWriter, password string) error {
	version := make([]byte, len(protocolVersion))
	if _, err := io.ReadFull(rw, version); err != nil {
		return fmt.Errorf("reading the server's version: %w", err)
	}
	if string(version) != protocolVersion {
		return fmt.Errorf("the server speaks %q, not RFB 3.8", version)
	}
	if _, err := io.WriteString(rw, protocolVersion); err != nil {
		return err
	}
	number := make([]byte, 1)
	if _, err := io.ReadFull(rw, number); err != nil {
		return fmt.Errorf("reading the server's types of security: %w", err)
	}
	if number[0] == 0 {
		return fmt.Errorf("the server refuses the connection: %s", readReason(rw))
	}
	types := make([]byte, number[0])
	if _, err := io.ReadFull(rw, types); err != nil {
		return fmt.Errorf("reading the server's types of security: %w", err)
	}
	want := byte(securityVNC)
	if password == "" {
		want = securityNone
	}
	if !slices.Contains(types, want) {
		return fmt.Errorf("the server offers the types of security %v, and %d is wanted", types, want)
	}
	if _, err := rw.Write([]byte{want}); err != nil {
		return err
	}
	if want == securityVNC {
		challenge := make([]byte, 16)
		if _, err := io.ReadFull(rw, challenge); err != nil {
			return fmt.Errorf("reading the server's challenge: %w", err)
		}
		if _, err := rw.Write(answerChallenge(password, challenge)); err != nil {
			return err
		}
	}
	result := make([]byte, 4)
	if _, err := io.ReadFull(rw, result); err != nil {
		return fmt.Errorf("reading the server's verdict: %w", err)
	}
	if binary.BigEndian.Uint32(result) != securityOK {
		return fmt.Errorf("the server refuses the password: %s", readReason(rw))
	}
	return nil
}

// readReason reads the reason that a server gives for a refusal, as far as it makes sense.
func readReason(r io.Reader) string {
	length := make([]byte, 4)
	if _, err := io.ReadFull(r, length); err != nil {
		return "it gives no reason"
	}
	reason := make([]byte, min(binary.BigEndian.Uint32(length), 256))
	n, _ := io.ReadFull(r, reason)
	return fmt.Sprintf("%q", reason[:n])
}

// answerChallenge encrypts a challenge of 16 bytes as VNC authentication does: DES under
// the password's first 8 bytes, padded with zeros, each with its bits in reverse.
func answerChallenge(password string, challenge []byte) []byte {
	key := make([]byte, des.BlockSize)
	copy(key, password)
	for i, b := range key {
		key[i] = 0
		for bit := range 8 {
			key[i] |= b >> bit & 1 << (7 - bit)
		}
	}
	answer := make([]byte, 2*des.BlockSize)
	block, err := des.NewCipher(key)
	if err != nil {
		return answer // not reached: the key has the right length
	}
	block.Encrypt(answer, challenge[:des.BlockSize])
	block.Encrypt(answer[des.BlockSize:], challenge[des.BlockSize:])
	return answer
}

// connectClient does a server's part of the handshake with the viewer, up to and with its
// ClientInit. Who the viewer is has been settled before, so RFB asks nothing.
func connectClient(rw io.ReadWriter) error {
	if _, err := io.WriteString(rw, protocolVersion); err != nil {
		return err
	}
	version := make([]byte, len(protocolVersion))
	if _, err := io.ReadFull(rw, version); err != nil {
		return fmt.Errorf("reading the viewer's version: %w", err)
	}
	if string(version) != protocolVersion {
		return fmt.Errorf("%w: it speaks %q, not RFB 3.8", errProtocol, version)
	}
	if _, err := rw.Write([]byte{1, securityNone}); err != nil {
		return err
	}
	choice := make([]byte, 1)
	if _, err := io.ReadFull(rw, choice); err != nil {
		return fmt.Errorf("reading the viewer's type of security: %w", err)
	}
	if choice[0] != securityNone {
		return fmt.Errorf("%w: it chose the type of security %d, which was not offered", errProtocol, choice[0])
	}
	if _, err := rw.Write([]byte{0, 0, 0, securityOK}); err != nil {
		return err
	}
	shared := make([]byte, 1)
	if _, err := io.ReadFull(rw, shared); err != nil {
		return fmt.Errorf("reading the viewer's ClientInit: %w", err)
	}
	return nil
}

// start asks the server to begin, as one viewer of several, and returns its ServerInit
// under another name.
func start(rw io.ReadWriter, name string) ([]byte, error) {
	const shared = 1
	if _, err := rw.Write([]byte{shared}); err != nil {
		return nil, err
	}
	const fixed, mostName = 24, 4 << 10
	head := make([]byte, fixed)
	if _, err := io.ReadFull(rw, head); err != nil {
		return nil, fmt.Errorf("reading the server's ServerInit: %w", err)
	}
	length := binary.BigEndian.Uint32(head[fixed-4:])
	if length > mostName {
		return nil, fmt.Errorf("the server has a name of %d bytes", length)
	}
	if _, err := io.CopyN(io.Discard, rw, int64(length)); err != nil {
		return nil, fmt.Errorf("reading the server's name: %w", err)
	}
	binary.BigEndian.PutUint32(head[fixed-4:], uint32(len(name)))
	return append(head, name...), nil
}
