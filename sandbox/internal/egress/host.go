package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// host is a host in the one spelling that rules are compared in: a name in lower case,
// in ASCII (RFC 5891) and without a trailing dot, or an address.
type host struct {
	name string     // empty when it is an address
	addr netip.Addr // without a zone; an IPv4 address is never in its IPv6-mapped form
}

func (h host) String() string {
	if h.name != "" {
		return h.name
	}
	return h.addr.String()
}

// local is whether the name is one that stands for this machine itself (RFC 6761), and
// is therefore never looked up.
func (h host) local() bool {
	return h.name == "localhost" || strings.HasSuffix(h.name, ".localhost")
}

// target is what a request asks to be connected to.
type target struct {
	host host
	port uint16
}

// String is the target as an authority: host:port, with brackets around IPv6.
func (t target) String() string {
	if t.host.addr.Is6() {
		return "[" + t.host.addr.String() + "]:" + strconv.Itoa(int(t.port))
	}
	return t.host.String() + ":" + strconv.Itoa(int(t.port))
}

// parseTarget reads HOST:PORT. With a port of 0 given as the default, a port is required.
func parseTarget(authority string, defaultPort uint16) (target, error) {
	name, port, err := splitPort(authority)
	if err != nil {
		return target{}, err
	}
	t := target{port: defaultPort}
	if port != "" {
		if t.port, err = parsePort(port); err != nil {
			return target{}, err
		}
	}
	if t.port == 0 {
		return target{}, errors.New("it has no port")
	}
	t.host, err = parseHost(name)
	return t, err
}

// splitPort cuts an authority into its host, still with its brackets, and its port, which
// is empty when there is none.
func splitPort(authority string) (name, port string, err error) {
	end := 0
	if strings.HasPrefix(authority, "[") {
		end = strings.IndexByte(authority, ']')
		if end < 0 {
			return "", "", errors.New("its bracket is not closed")
		}
		end++
	} else if end = strings.IndexByte(authority, ':'); end < 0 {
		end = len(authority)
	}
	name, port = authority[:end], authority[end:]
	if port == "" {
		return name, "", nil
	}
	if port[0] != ':' {
		return "", "", errors.New("something other than a port follows the bracket")
	}
	if strings.IndexByte(port[1:], ':') >= 0 {
		return "", "", errors.New("an IPv6 address needs brackets")
	}
	return name, port[1:], nil
}

// parsePort reads a port in the one usual spelling of a number.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, errors.New("the port is no number from 1 to 65535")
	}
	return uint16(n), nil
}

// parseHost brings a host to its one spelling. Everything that some program somewhere
// takes for an IPv4 address (0x7f.1, 2130706433, 0177.0.0.1, full-width digits) is one
// here too, as in the URL standard: whatever ends in a number is an address or an error.
func parseHost(s string) (host, error) {
	if inner, found := strings.CutPrefix(s, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !found || err != nil || !strings.Contains(inner, ":") {
			return host{}, errors.New("there is no IPv6 address in the brackets")
		}
		return addressHost(addr)
	}
	if strings.Contains(s, ":") {
		return host{}, errors.New("an IPv6 address needs brackets")
	}
	// Beyond this no name can be one, and the conversion of long ones costs time.
	if len(s) > 1024 {
		return host{}, errors.New("the name is too long")
	}
	if !ascii(s) {
		if !utf8.ValidString(s) {
			return host{}, errors.New("the name is no UTF-8")
		}
		var err error
		if s, err = idna.Lookup.ToASCII(s); err != nil || !ascii(s) {
			return host{}, errors.New("the name is no valid international domain name")
		}
	}
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if len(s) > 253 {
		return host{}, errors.New("the name is too long")
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if !label(l) {
			return host{}, fmt.Errorf("%q is no part of a host name", l)
		}
	}
	if numeric(labels[len(labels)-1]) {
		addr, ok := parseIPv4(labels)
		if !ok {
			return host{}, errors.New("it ends in a number and is no IPv4 address")
		}
		return host{addr: addr}, nil
	}
	return host{name: s}, nil
}

// addressHost takes an address as a host. A zone would name an interface of the machine
// outside, so nobody inside can mean one.
func addressHost(addr netip.Addr) (host, error) {
	if addr.Zone() != "" {
		return host{}, errors.New("an address with a zone cannot be reached")
	}
	return host{addr: addr.Unmap()}, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// label is whether a string in lower case can be a part of a host name. The underscore
// is in no standard and in real names.
func label(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// numeric is the URL standard's test of a last label.
func numeric(s string) bool {
	if strings.Trim(s, "0123456789") == "" {
		return true
	}
	hex, found := strings.CutPrefix(s, "0x")
	return found && strings.Trim(hex, "0123456789abcdef") == ""
}

// parseIPv4 reads what inet_aton reads: one to four numbers, decimal, octal (0...) or
// hexadecimal (0x...), of which the last fills all bytes that are left.
func parseIPv4(parts []string) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		base := 10
		if hex, found := strings.CutPrefix(part, "0x"); found {
			base, part = 16, "0"+hex
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		limit := uint64(1) << 8
		if i == len(parts)-1 {
			limit = 1 << (8 * (5 - len(parts)))
		}
		n, err := strconv.ParseUint(part, base, 64)
		if err != nil || n >= limit {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			sum |= n
		} else {
			sum |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(sum)))), true
}
