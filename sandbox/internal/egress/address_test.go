package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestForbidden(t *testing.T) {
	tests := []struct {
		addr  string
		kind  string // part of it; empty where it is the public internet
		never bool   // no rule opens it
	}{
		{addr: "93.184.216.34"}, {addr: "1.1.1.1"}, {addr: "9.255.255.255"}, {addr: "11.0.0.0"}, {addr: "172.15.255.255"}, {addr: "172.32.0.0"},
		{addr: "192.167.255.255"}, {addr: "192.169.0.0"}, {addr: "100.63.255.255"}, {addr: "100.128.0.0"}, {addr: "169.253.255.255"},
		{addr: "126.255.255.255"}, {addr: "128.0.0.0"}, {addr: "223.255.255.255"}, {addr: "198.17.255.255"}, {addr: "198.20.0.0"}, {addr: "168.63.129.15"},
		{addr: "2606:2800:220:1:248:1893:25c8:1946"}, {addr: "2a00::1"}, {addr: "2001:4860:4860::8888"}, {addr: "2003::1"}, {addr: "64:ff9b::5db8:d822"},

		{addr: "0.0.0.0", kind: "unspecified", never: true}, {addr: "0.1.2.3", kind: "unspecified", never: true},
		{addr: "10.0.0.1", kind: "private"}, {addr: "172.16.0.1", kind: "private"}, {addr: "172.31.255.255", kind: "private"}, {addr: "192.168.1.1", kind: "private"},
		{addr: "100.64.0.1", kind: "carrier-grade"}, {addr: "100.127.255.255", kind: "carrier-grade"},
		{addr: "127.0.0.1", kind: "loopback"}, {addr: "127.255.255.254", kind: "loopback"},
		{addr: "169.254.1.1", kind: "link-local"},
		{addr: "169.254.169.254", kind: "metadata"}, {addr: "169.254.170.2", kind: "metadata"}, {addr: "100.100.100.200", kind: "metadata"},
		{addr: "168.63.129.16", kind: "metadata"}, {addr: "192.0.0.192", kind: "metadata"},
		{addr: "192.0.0.8", kind: "reserved"}, {addr: "192.88.99.1", kind: "reserved"}, {addr: "240.0.0.1", kind: "reserved"},
		{addr: "192.0.2.1", kind: "documentation"}, {addr: "198.51.100.1", kind: "documentation"}, {addr: "203.0.113.1", kind: "documentation"},
		{addr: "198.18.0.1", kind: "benchmarking"}, {addr: "198.19.255.255", kind: "benchmarking"},
		{addr: "224.0.0.251", kind: "multicast", never: true}, {addr: "239.255.255.250", kind: "multicast", never: true},
		{addr: "255.255.255.255", kind: "broadcast", never: true},

		{addr: "::", kind: "unspecified", never: true}, {addr: "::1", kind: "loopback"},
		{addr: "::2", kind: "compatible", never: true}, {addr: "::7f00:1", kind: "compatible", never: true}, {addr: "::ffff:0:7f00:1", kind: "translated", never: true},
		{addr: "64:ff9b::7f00:1", kind: "loopback"}, {addr: "64:ff9b::a9fe:a9fe", kind: "metadata"}, {addr: "64:ff9b::", kind: "unspecified", never: true},
		{addr: "64:ff9b:1::a00:1", kind: "NAT64"}, {addr: "64:ff9b::1:0:0", kind: "reserved"},
		{addr: "100::1", kind: "discard"}, {addr: "2001::1", kind: "Teredo"}, {addr: "2001:2::1", kind: "benchmarking"}, {addr: "2001:10::1", kind: "reserved"}, {addr: "2001:20::1", kind: "reserved"},
		{addr: "2001:db8::1", kind: "documentation"}, {addr: "3fff::1", kind: "documentation"}, {addr: "2002:7f00:1::", kind: "6to4"}, {addr: "3ffe::1", kind: "reserved"},
		{addr: "2606:2800:220:1:0:5efe:7f00:1", kind: "loopback"}, {addr: "2606:2800:220:1:200:5efe:a00:1", kind: "private"},
		{addr: "fc00::1", kind: "private"}, {addr: "fd12:3456::1", kind: "private"}, {addr: "fec0::1", kind: "private"},
		{addr: "fe80::1", kind: "link-local"}, {addr: "febf::1", kind: "link-local"},
		{addr: "fd00:ec2::254", kind: "metadata"}, {addr: "fd20:ce::254", kind: "metadata"}, {addr: "fe80::a9fe:a9fe", kind: "metadata"},
		{addr: "ff02::fb", kind: "multicast", never: true},
		{addr: "4000::1", kind: "reserved"}, {addr: "5f00::1", kind: "reserved"}, {addr: "8000::1", kind: "reserved"},
	}
	for _, tt := range tests {
		addr := netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 443)
		for _, allow := range [][]string{nil, {"0.0.0.0/0", "::/0", "*.example"}} {
			got := New(&Options{Allow: rules(t, allow...)}).forbidden(addr)
			if (got == "") != (tt.kind == "") || !strings.Contains(got, tt.kind) {
				t.Errorf("%s with the rules %v is %q, want %q", tt.addr, allow, got, tt.kind)
			}
		}
		if tt.kind == "" {
			continue
		}
		named := New(&Options{Allow: []Rule{{prefix: netip.PrefixFrom(addr.Addr(), addr.Addr().BitLen())}}})
		if got := named.forbidden(addr); (got == "") == tt.never {
			t.Errorf("%s, named by a rule, is %q", tt.addr, got)
		}
		if named.forbidden(netip.AddrPortFrom(addr.Addr(), 8080)) == "" {
			t.Errorf("%s is open at a port that its rule does not name", tt.addr)
		}
	}
}

// A rule opens a special network only where it lies within it.
func TestRuleNamesSpecialAddress(t *testing.T) {
	tests := []struct {
		rule, addr string
		want       bool
	}{
		{"10.0.0.0/8", "10.1.2.3:443", true},
		{"10.1.0.0/16", "10.1.2.3:443", true},
		{"10.1.0.0/16", "10.2.2.3:443", false},
		{"8.0.0.0/5", "10.1.2.3:443", false},
		{"10.0.0.0/8:22", "10.1.2.3:443", false},
		{"169.254.0.0/16", "169.254.7.7:80", true},
		{"169.254.0.0/16", "169.254.169.254:80", false},
		{"169.254.169.254", "169.254.169.254:80", true},
		{"fd00::/8", "[fd00:ec2::254]:80", false},
		{"fd00:ec2::254", "[fd00:ec2::254]:80", true},
		{"127.0.0.0/8:3000", "127.0.0.1:3000", true},
		{"localhost:3000", "127.0.0.1:3000", true},
		{"localhost:3000", "[::1]:3000", true},
		{"localhost:3000", "127.0.0.2:3000", false},
		{"localhost:3000", "127.0.0.1:80", false},
		{"*.localhost", "127.0.0.1:80", false},
		{"64:ff9b::/96", "[64:ff9b::a00:1]:80", false},
		{"64:ff9b::a00:0/104", "[64:ff9b::a00:1]:80", true},
		{"10.0.0.0/8", "[64:ff9b::a00:1]:80", false},
	}
	for _, tt := range tests {
		got := New(&Options{Allow: rules(t, tt.rule)}).forbidden(netip.MustParseAddrPort(tt.addr))
		if (got == "") != tt.want {
			t.Errorf("%s with the rule %s: %q, want it open: %v", tt.addr, tt.rule, got, tt.want)
		}
	}
}

func TestOwnAddressIsClosed(t *testing.T) {
	own := netip.MustParseAddrPort("93.184.216.34:443")
	_, cidr, err := net.ParseCIDR("93.184.216.0/24")
	if err != nil {
		t.Fatal(err)
	}
	cidr.IP = net.ParseIP("93.184.216.34")
	for _, tt := range []struct {
		rule string
		want string
	}{{"example.org", "an address of this machine"}, {"93.184.216.0/24", "an address of this machine"}, {"93.184.216.34", ""}} {
		p := New(&Options{Allow: rules(t, tt.rule)})
		p.interfaces = func() ([]net.Addr, error) { return []net.Addr{cidr}, nil }
		if got := p.forbidden(own); got != tt.want {
			t.Errorf("with the rule %s: %q, want %q", tt.rule, got, tt.want)
		}
		p.interfaces = func() ([]net.Addr, error) { return nil, errors.New("no") }
		if p.forbidden(own) == "" && tt.rule == "example.org" {
			t.Error("an address is open that may be the machine's own")
		}
	}
}

// Whatever a resolver answers, nothing may be dialled that is not public.
func TestNoAnswerOfTheDNSLeadsToASpecialAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var answer []netip.Addr
		for range rapid.IntRange(1, 20).Draw(t, "answers") {
			a := drawSpecial(t)
			switch rapid.IntRange(0, 3).Draw(t, "form") {
			case 0:
				a = netip.AddrFrom16(a.As16()) // mapped
			case 1:
				b := a.As4()
				a = netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
			case 2:
				a = drawAddr().Draw(t, "any")
			}
			if a.Is6() && rapid.Bool().Draw(t, "zoned") {
				a = a.WithZone("eth0")
			}
			answer = append(answer, a)
		}
		p := New(&Options{Allow: []Rule{{name: "example.org"}}, Resolver: answers(answer)})
		open, _ := p.resolve(t.Context(), target{host{name: "example.org"}, 443})
		if len(open) > maxAddresses {
			t.Fatalf("%d addresses may be dialled", len(open))
		}
		for _, o := range open {
			if n, found := special(o.Addr().Unmap()); found || o.Addr().Is4In6() || o.Addr().Zone() != "" {
				t.Fatalf("%s may be dialled, which is %s", o, n.kind)
			}
		}
	})
}

func TestAddressesOfOneName(t *testing.T) {
	var answer answers
	for i := range 100 {
		answer = append(answer, netip.Addr{}, netip.AddrFrom4([4]byte{93, 184, 216, byte(i / 2)})) // each twice
	}
	p := New(&Options{Allow: rules(t, "example.org"), Resolver: answer})
	open, b := p.resolve(t.Context(), target{host{name: "example.org"}, 443})
	if b != nil || len(open) != maxAddresses || open[1] != netip.MustParseAddrPort("93.184.216.1:443") {
		t.Errorf("%v, %v", open, b)
	}
}

type answers []netip.Addr

func (a answers) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return a, nil }
