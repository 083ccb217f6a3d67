package source

import (
	"fmt"
	"net/netip"
)

// addressError is the refusal of an address. Its text is for a log: whoever sent the
// URL is told the kind alone, lest it be used to look names up in a private network.
type addressError struct {
	addr netip.Addr
	kind string
	// always is set where not even AllowPrivate would help.
	always bool
}

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is %s", e.addr, e.kind)
}

func (e *addressError) Is(target error) bool { return target == ErrForbidden }

type network struct {
	prefix netip.Prefix
	kind   string
	always bool
}

// special is every network that is not the public internet, from the IANA registries
// of special-purpose addresses (RFC 6890 and its updates). The narrower ones come
// before those that hold them.
var special = []network{
	// Where clouds keep credentials of the machine. The first is the common one, the
	// second is Amazon's, then Alibaba's, Oracle's, and Azure's, whose is a public
	// address.
	{netip.MustParsePrefix("169.254.169.254/32"), "a cloud metadata address", true},
	{netip.MustParsePrefix("169.254.170.2/32"), "a cloud metadata address", true},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a cloud metadata address", true},
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud metadata address", true},
	{netip.MustParsePrefix("192.0.0.192/32"), "a cloud metadata address", true},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud metadata address", true},

	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address", true},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address", false},
	{netip.MustParsePrefix("100.64.0.0/10"), "a shared (carrier-grade NAT) address", false},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", false},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address", false},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("192.0.2.0/24"), "a documentation address", false},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address", false},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmarking address", false},
	{netip.MustParsePrefix("198.51.100.0/24"), "a documentation address", false},
	{netip.MustParsePrefix("203.0.113.0/24"), "a documentation address", false},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address", true},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address", true},

	{netip.MustParsePrefix("::/128"), "an unspecified address", true},
	{netip.MustParsePrefix("::1/128"), "a loopback address", false},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address", false},
	{netip.MustParsePrefix("fec0::/10"), "a private address", false},
	{netip.MustParsePrefix("fc00::/7"), "a private address", false},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address", true},
	{netip.MustParsePrefix("2001::/23"), "a reserved address", false}, // Teredo among them
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation address", false},
	{netip.MustParsePrefix("3fff::/20"), "a documentation address", false},
}

var (
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056: the IPv4 address follows
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052: the IPv4 address is the rest
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: likewise, within a network
	v4Compat   = netip.MustParsePrefix("::/96")          // RFC 4291: likewise, long deprecated
	global6    = netip.MustParsePrefix("2000::/3")       // all that is given out of IPv6
)

// checkAddress returns an *addressError unless a fetch may connect to addr. IPv6
// addresses that stand for an IPv4 one are judged by that one.
func checkAddress(addr netip.Addr, allowPrivate bool) error {
	judged := addr.WithZone("").Unmap()
	for _, n := range special {
		if n.prefix.Contains(judged) {
			if allowPrivate && !n.always {
				return nil
			}
			return &addressError{addr, n.kind, n.always}
		}
	}
	if judged.Is4() {
		return nil
	}
	if v4, ok := embedded(judged); ok {
		if err := checkAddress(v4, allowPrivate); err != nil {
			return err
		}
	}
	if !global6.Contains(judged) && !nat64.Contains(judged) && !allowPrivate {
		return &addressError{addr, "a reserved address", false}
	}
	return nil
}

// embedded returns the IPv4 address that an IPv6 one carries, if it is of a kind that
// some router on the way may take for it.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	// ISATAP (RFC 5214): any prefix, then this identifier, then the IPv4 address.
	isatap := b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
	switch {
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case nat64.Contains(addr), nat64Local.Contains(addr), v4Compat.Contains(addr), isatap:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}
