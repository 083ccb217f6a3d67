package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rule is one entry of an allow-list: which hosts, at which port. Its zero value allows
// nothing. Rules are values, compared with ==.
//
// A name allows that host, "*.name" every host below it at any depth and not the name
// itself, an IP address or CIDR prefix those addresses. Without a port, 80 and 443.
//
// A name never opens an address that is not public: where it resolves to a private,
// loopback, link-local, metadata or otherwise special address, that address has to be
// named too, by a rule that lies wholly within the special network. So 10.1.0.0/16 opens
// what is in it, and 0.0.0.0/0 opens the public internet alone. The metadata addresses of
// clouds are networks of one address. "localhost" names 127.0.0.1 and ::1, in either
// spelling.
type Rule struct {
	name   string       // the host, or for below, what the host ends in
	below  bool         // *.name
	prefix netip.Prefix // valid for addresses, and then name is empty
	port   uint16       // 0: 80 and 443
}

var (
	loopbackIPv4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopbackIPv6 = netip.IPv6Loopback()
)

// ParseRule reads HOST[:PORT], *.HOST[:PORT], ADDRESS, ADDRESS:PORT with brackets around
// IPv6, PREFIX/BITS and PREFIX/BITS:PORT ([fd00::/8]:443 for IPv6). Names may be in upper
// case, international and with a dot at the end. Addresses only in their usual spelling:
// what a reader might take for another address is an error. The error's text is one
// sentence.
func ParseRule(s string) (Rule, error) {
	r, err := parseRule(s)
	if err != nil {
		return Rule{}, fmt.Errorf("%s is no rule for the network: %w", quote(s), err)
	}
	return r, nil
}

func parseRule(s string) (Rule, error) {
	switch {
	case s == "":
		return Rule{}, errors.New("name a host, such as example.org or *.example.org:443")
	case strings.Contains(s, "://"):
		return Rule{}, errors.New("leave out the scheme and the path and name the host alone, such as example.org:443")
	case s == "*" || strings.HasPrefix(s, "*:"):
		return Rule{}, errors.New("it would open every host; name them, such as *.example.org")
	}
	if p, err := netip.ParseAddr(s); err == nil { // bare, so IPv6 needs no brackets
		return singleRule(p, 0)
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return addressRule(p, 0)
	}

	name, digits, err := splitPort(s)
	if err != nil {
		return Rule{}, err
	}
	var port uint16
	if len(name) < len(s) {
		if port, err = parsePort(digits); err != nil {
			return Rule{}, err
		}
	}
	if inner, found := strings.CutPrefix(name, "["); found {
		inner = strings.TrimSuffix(inner, "]")
		if p, err := netip.ParsePrefix(inner); err == nil && p.Addr().Is6() {
			return addressRule(p, port)
		}
		if a, err := netip.ParseAddr(inner); err == nil && a.Is6() {
			return singleRule(a, port)
		}
		return Rule{}, errors.New("there is no IPv6 address in the brackets")
	}
	if strings.Contains(name, "/") {
		p, err := netip.ParsePrefix(name)
		if err != nil {
			return Rule{}, errors.New("only a network has a slash, such as 192.0.2.0/24")
		}
		return addressRule(p, port)
	}
	name, below := strings.CutPrefix(name, "*.")
	if strings.Contains(name, "*") {
		return Rule{}, errors.New("an asterisk can only stand for what is in front of the first dot, such as *.example.org")
	}
	h, err := parseHost(name)
	if err != nil {
		return Rule{}, err
	}
	if h.name == "" {
		if below {
			return Rule{}, errors.New("there are no hosts below an address")
		}
		if h.addr.String() != name {
			return Rule{}, fmt.Errorf("programs read it as the address %s; write that if it is meant", h.addr)
		}
		return singleRule(h.addr, port)
	}
	return Rule{name: h.name, below: below, port: port}, nil
}

func singleRule(a netip.Addr, port uint16) (Rule, error) {
	h, err := addressHost(a)
	if err != nil {
		return Rule{}, err
	}
	return addressRule(netip.PrefixFrom(h.addr, h.addr.BitLen()), port)
}

func addressRule(p netip.Prefix, port uint16) (Rule, error) {
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return Rule{}, errors.New("write IPv4 addresses as such")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return Rule{}, fmt.Errorf("the address has more bits than the prefix; write %s for the network or %s for the address", p.Masked(), p.Addr())
	}
	if n, found := special(p.Addr()); found && n.never && n.prefix.Bits() <= p.Bits() {
		return Rule{}, fmt.Errorf("%s cannot be connected to", n.kind)
	}
	return Rule{prefix: p, port: port}, nil
}

// String is the rule in the spelling that ParseRule makes the same rule of. The zero
// Rule's is empty.
func (r Rule) String() string {
	s := r.name
	switch {
	case r.below:
		s = "*." + s
	case r.prefix.IsValid():
		s = r.prefix.String()
		if r.prefix.IsSingleIP() {
			s = r.prefix.Addr().String()
		}
		if r.port != 0 && r.prefix.Addr().Is6() {
			s = "[" + s + "]"
		}
	}
	if r.port != 0 {
		s += ":" + strconv.Itoa(int(r.port))
	}
	return s
}

// MarshalText is String.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRule.
func (r *Rule) UnmarshalText(text []byte) error {
	parsed, err := ParseRule(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}

func (r Rule) opens(port uint16) bool {
	if r.port == 0 {
		return port == 80 || port == 443
	}
	return r.port == port
}

// matches is whether the rule allows what a request asks for.
func (r Rule) matches(t target) bool {
	switch {
	case !r.opens(t.port):
		return false
	case t.host.name == "":
		return r.prefix.IsValid() && r.prefix.Contains(t.host.addr) || r.loopback(t.host.addr)
	case r.below:
		return strings.HasSuffix(t.host.name, "."+r.name)
	}
	return r.name != "" && r.name == t.host.name
}

// names is whether the rule names an address of a special network itself.
func (r Rule) names(addr netip.AddrPort, special netip.Prefix) bool {
	if !r.opens(addr.Port()) {
		return false
	}
	if r.loopback(addr.Addr()) {
		return true
	}
	return r.prefix.IsValid() && r.prefix.Contains(addr.Addr()) && r.prefix.Bits() >= special.Bits()
}

// loopback is whether the rule is the one for localhost and the address one of its two.
func (r Rule) loopback(addr netip.Addr) bool {
	return r.name == "localhost" && !r.below && (addr == loopbackIPv4 || addr == loopbackIPv6)
}
