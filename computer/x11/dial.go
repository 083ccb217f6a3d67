package x11

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// address is a parsed display name, [protocol/][host]:number[.screen].
type address struct {
	name    string // as it was given
	host    string // empty for this machine
	socket  string // a socket's path that was given in the name's place
	number  int
	screen  int
	hasPath bool

	given *Options // whose Dial and Cookie stand in place of all but the name
}

// parseName parses a display name such as ":1", "host:1.0" or "unix:1".
func parseName(name string) (address, error) {
	a := address{name: name}
	bad := fmt.Errorf("%q is not the name of a display; one is written as :1", name)
	colon := strings.LastIndexByte(name, ':')
	if colon < 0 {
		return a, bad
	}
	host, rest := name[:colon], name[colon+1:]
	number, screen, hasScreen := strings.Cut(rest, ".")
	var err error
	if a.number, err = strconv.Atoi(number); err != nil || a.number < 0 || a.number > 65535-6000 {
		return a, bad
	}
	if hasScreen {
		if a.screen, err = strconv.Atoi(screen); err != nil || a.screen < 0 {
			return a, bad
		}
	}
	switch {
	case strings.HasPrefix(host, "/"):
		a.socket, a.hasPath = host+":"+number, true
	default:
		host = strings.TrimPrefix(host, "tcp/")
		if host != "unix" && !strings.HasPrefix(host, "unix/") {
			a.host = host
		}
	}
	return a, nil
}

// dial connects to the display's server.
func (a address) dial(ctx context.Context) (net.Conn, error) {
	if a.given != nil {
		return a.given.Dial(ctx)
	}
	var dialer net.Dialer
	if a.host != "" {
		return dialer.DialContext(ctx, "tcp", net.JoinHostPort(a.host, strconv.Itoa(6000+a.number)))
	}
	path := a.socket
	if !a.hasPath {
		path = "/tmp/.X11-unix/X" + strconv.Itoa(a.number)
	}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil && !a.hasPath {
		// A server may have its socket in the abstract namespace alone.
		if abstract, err := dialer.DialContext(ctx, "unix", "@"+path); err == nil {
			return abstract, nil
		}
	}
	return conn, err
}

// cookie returns the MIT-MAGIC-COOKIE-1 for the display from the user's authority file,
// or nil: a server may take connections without one.
func (a address) cookie(getenv func(string) string) []byte {
	if a.given != nil {
		return a.given.Cookie
	}
	path := getenv("XAUTHORITY")
	if path == "" {
		if home := getenv("HOME"); home != "" {
			path = filepath.Join(home, ".Xauthority")
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	host, local := a.host, a.host == "" || a.host == "localhost"
	if local {
		host, _ = os.Hostname() // without a name only entries for any host match
	}
	return findCookie(data, host, local, strconv.Itoa(a.number))
}

const cookieProtocol = "MIT-MAGIC-COOKIE-1"

// findCookie looks for a display's cookie in the contents of an authority file: records of
// a family and four counted strings (address, display number, protocol, data), all
// big-endian. A damaged file has no more records.
func findCookie(data []byte, host string, local bool, number string) []byte {
	const familyLocal, familyWild = 256, 65535
	for len(data) >= 2 {
		family := binary.BigEndian.Uint16(data)
		data = data[2:]
		var field [4]string
		for i := range field {
			if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
				return nil
			}
			n := int(binary.BigEndian.Uint16(data))
			field[i], data = string(data[2:2+n]), data[2+n:]
		}
		forHost := family == familyWild || family == familyLocal && local && field[0] == host ||
			family != familyLocal && !local // an address of the host, whose name we dialled
		if forHost && (field[1] == "" || field[1] == number) && field[2] == cookieProtocol {
			return []byte(field[3])
		}
	}
	return nil
}

// authConn puts our own connection setup in the place of the one that the protocol library
// writes first: given a connection that it did not dial itself, the library does not know
// the display and so finds no cookie for it.
type authConn struct {
	net.Conn
	cookie []byte
	once   sync.Once
}

// Write replaces the first message and passes the others on.
func (c *authConn) Write(p []byte) (int, error) {
	n, first := 0, false
	var err error
	c.once.Do(func() {
		first = true
		if _, err = c.Conn.Write(setupRequest(c.cookie)); err == nil {
			n = len(p)
		}
	})
	if first {
		return n, err
	}
	return c.Conn.Write(p)
}

// setupRequest is the first message of a client: byte order, version 11.0, authority.
func setupRequest(cookie []byte) []byte {
	protocol := cookieProtocol
	if cookie == nil {
		protocol = ""
	}
	pad := func(s string) string { return s + strings.Repeat("\x00", (4-len(s)%4)%4) }
	b := []byte{'l', 0}
	b = binary.LittleEndian.AppendUint16(b, 11)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(protocol)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(cookie)))
	b = append(b, 0, 0)
	return append(append(b, pad(protocol)...), pad(string(cookie))...)
}

// dialError says in one sentence why there is no connection. The cause is wrapped and is not
// part of the text.
func (a address) dialError(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("connecting to display %s: %w", a.name, err)
	case hungUp(err):
		return &connectError{nil, fmt.Sprintf("display %s closed the connection at once; it may be ending, or have too many clients", a.name), err}
	case errors.Is(err, os.ErrPermission) && a.given == nil:
		return &connectError{ErrRefused, fmt.Sprintf("the socket of display %s belongs to another user; run as that user", a.name), err}
	case a.given != nil:
		return &connectError{ErrNoDisplay, fmt.Sprintf("display %s cannot be reached; it has ended, or is ending", a.name), err}
	case a.host != "":
		return &connectError{ErrNoDisplay, fmt.Sprintf("there is no display %s to connect to; check the name, and that its server listens on the network", a.name), err}
	case a.hasPath:
		return &connectError{ErrNoDisplay, fmt.Sprintf("there is no display %s to connect to; no server listens at that path", a.name), err}
	default:
		return &connectError{ErrNoDisplay, fmt.Sprintf("there is no display %s to connect to; start one with: Xvfb :%d -screen 0 1280x800x24 -noreset", a.name, a.number), err}
	}
}

// What errors of [Open] wrap, to be told apart.
var (
	// ErrNoDisplay says that no server was found under the display's name.
	ErrNoDisplay = errors.New("there is no such display")

	// ErrRefused says that there is a server, and that it or the system does not let this
	// user connect: the authority is missing or wrong, or the socket is another user's.
	ErrRefused = errors.New("the display refused the connection")
)

// connectError is a sentence for a person, and the cause for a log.
type connectError struct {
	kind     error // ErrNoDisplay, ErrRefused or nil
	sentence string
	cause    error
}

func (e *connectError) Error() string        { return e.sentence }
func (e *connectError) Unwrap() error        { return e.cause }
func (e *connectError) Is(target error) bool { return e.kind != nil && target == e.kind }
