package egress

import (
	"net"
	"net/netip"
)

// A network that is not the public internet.
type network struct {
	prefix netip.Prefix
	kind   string
	// never is set where nothing can be connected to, or something quite different from
	// what the address says; no rule opens it.
	never bool
}

func block(prefix, kind string) network {
	return network{prefix: netip.MustParsePrefix(prefix), kind: kind}
}

func closed(prefix, kind string) network {
	return network{prefix: netip.MustParsePrefix(prefix), kind: kind, never: true}
}

// specialIPv4 and specialIPv6 are from the IANA registries of special-purpose addresses
// (RFC 6890 and its updates). Narrower networks come before those that hold them.
var specialIPv4 = []network{
	// Where clouds keep credentials of the machine: the common one; Amazon's for
	// containers, twice; Amazon's resolver; Scaleway's; Tencent's; Alibaba's; Oracle's;
	// and Azure's, which is a public address.
	block("169.254.169.254/32", "a cloud metadata address"),
	block("169.254.170.2/32", "a cloud metadata address"),
	block("169.254.170.23/32", "a cloud metadata address"),
	block("169.254.169.253/32", "a cloud metadata address"),
	block("169.254.42.42/32", "a cloud metadata address"),
	block("169.254.0.23/32", "a cloud metadata address"),
	block("100.100.100.200/32", "a cloud metadata address"),
	block("192.0.0.192/32", "a cloud metadata address"),
	block("168.63.129.16/32", "a cloud metadata address"),

	closed("0.0.0.0/8", "an unspecified address"), // Linux connects 0.0.0.0 to itself
	block("10.0.0.0/8", "a private address"),
	block("100.64.0.0/10", "a shared (carrier-grade NAT) address"),
	block("127.0.0.0/8", "a loopback address"),
	block("169.254.0.0/16", "a link-local address"),
	block("172.16.0.0/12", "a private address"),
	block("192.0.0.0/24", "a reserved address"),
	block("192.0.2.0/24", "a documentation address"),
	block("192.88.99.0/24", "a reserved address"),
	block("192.168.0.0/16", "a private address"),
	block("198.18.0.0/15", "a benchmarking address"),
	block("198.51.100.0/24", "a documentation address"),
	block("203.0.113.0/24", "a documentation address"),
	closed("224.0.0.0/4", "a multicast address"),
	closed("255.255.255.255/32", "the broadcast address"),
	block("240.0.0.0/4", "a reserved address"),
}

var specialIPv6 = []network{
	// Amazon's, three of them; Google's; Scaleway's; OpenStack's.
	block("fd00:ec2::254/128", "a cloud metadata address"),
	block("fd00:ec2::253/128", "a cloud metadata address"),
	block("fd00:ec2::23/128", "a cloud metadata address"),
	block("fd20:ce::254/128", "a cloud metadata address"),
	block("fd00:42::42/128", "a cloud metadata address"),
	block("fe80::a9fe:a9fe/128", "a cloud metadata address"),

	closed("::/128", "an unspecified address"),
	block("::1/128", "a loopback address"),
	closed("::/96", "a deprecated IPv4-compatible address"),
	closed("::ffff:0:0/96", "an IPv4-mapped address"), // taken as IPv4 before it gets here
	closed("::ffff:0:0:0/96", "an IPv4-translated address"),
	block("64:ff9b:1::/48", "a local translation (NAT64) address"),
	block("100::/64", "a discard-only address"),
	block("2001::/32", "a Teredo address"),
	block("2001:2::/48", "a benchmarking address"),
	block("2001:db8::/32", "a documentation address"),
	block("2001::/23", "a reserved address"),
	block("2002::/16", "a 6to4 address"),
	block("3ffe::/16", "a reserved address"),
	block("3fff::/20", "a documentation address"),
	block("fc00::/7", "a private address"),
	block("fe80::/10", "a link-local address"),
	block("fec0::/10", "a private address"),
	closed("ff00::/8", "a multicast address"),
}

var (
	nat64       = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	unicastIPv6 = netip.MustParsePrefix("2000::/3")     // all that is given out so far
)

// special returns the network that makes an address another than one of the public
// internet, or false. The address has no zone, and is not in the IPv4-mapped form.
func special(addr netip.Addr) (network, bool) {
	if addr.Is4() {
		return lookup(specialIPv4, addr)
	}
	bytes := addr.As16()
	embedded := netip.AddrFrom4([4]byte(bytes[12:]))
	if nat64.Contains(addr) {
		// A translator on the way makes it the IPv4 address in its end.
		n, found := lookup(specialIPv4, embedded)
		if found {
			inner := n.prefix.Addr().As4()
			outer := nat64.Addr().As16()
			copy(outer[12:], inner[:])
			n.prefix = netip.PrefixFrom(netip.AddrFrom16(outer), 96+n.prefix.Bits())
		}
		return n, found
	}
	if n, found := lookup(specialIPv6, addr); found {
		return n, true
	}
	if !unicastIPv6.Contains(addr) {
		return network{prefix: netip.PrefixFrom(addr, 128), kind: "a reserved address"}, true
	}
	// ISATAP (RFC 5214): the machine's own tunnel makes it the IPv4 address in its end.
	if (bytes[8] == 0 || bytes[8] == 2) && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe {
		if n, found := lookup(specialIPv4, embedded); found {
			return network{prefix: netip.PrefixFrom(addr, 128), kind: n.kind, never: n.never}, true
		}
	}
	return network{}, false
}

func lookup(networks []network, addr netip.Addr) (network, bool) {
	for _, n := range networks {
		if n.prefix.Contains(addr) {
			return n, true
		}
	}
	return network{}, false
}

// forbidden says what is wrong with connecting to an address, or nothing. The address is
// the very one that is dialled.
func (p *Proxy) forbidden(addr netip.AddrPort) string {
	n, found := special(addr.Addr())
	if !found {
		own, err := p.own(addr.Addr())
		if err != nil {
			return "an address that cannot be told from this machine's own"
		}
		if !own {
			return ""
		}
		// What listens here trusts that a firewall is in front of it, and there is none
		// in front of a connection from within.
		n = network{prefix: netip.PrefixFrom(addr.Addr(), addr.Addr().BitLen()), kind: "an address of this machine"}
	}
	if !n.never {
		for _, r := range p.allow {
			if r.names(addr, n.prefix) {
				return ""
			}
		}
	}
	return n.kind
}

// own is whether an address is one of this machine's interfaces.
func (p *Proxy) own(addr netip.Addr) (bool, error) {
	addrs, err := p.interfaces()
	if err != nil {
		return false, err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == addr {
				return true, nil
			}
		}
	}
	return false, nil
}
