package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseHost(t *testing.T) {
	tests := []struct{ in, want string }{ // "" where there is no such host
		{"example.org", "example.org"},
		{"ExAmPlE.oRg.", "example.org"},
		{"faß.example", "xn--fa-hia.example"},
		{"ｅｘａｍｐｌｅ．ｏｒｇ", "example.org"},
		{"example。org", "example.org"},
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.1.", "127.0.0.1"},
		{"127.1", "127.0.0.1"},
		{"127.0.1", "127.0.0.1"},
		{"2130706433", "127.0.0.1"},
		{"0x7f.1", "127.0.0.1"},
		{"0X7F.0x0.0x0.0x1", "127.0.0.1"},
		{"0x7f000001", "127.0.0.1"},
		{"0177.0.0.01", "127.0.0.1"},
		{"017700000001", "127.0.0.1"},
		{"000000127.0.0.1", "87.0.0.1"}, // octal, to whoever takes it at all
		{"0", "0.0.0.0"},
		{"0x", "0.0.0.0"},
		{"１２７.０.０.１", "127.0.0.1"},
		{"①②⑦.⓪.⓪.①", "127.0.0.1"},
		{"[::1]", "::1"},
		{"[0:0:0:0:0:0:0:1]", "::1"},
		{"[::ffff:127.0.0.1]", "127.0.0.1"},
		{"[::FFFF:7f00:1]", "127.0.0.1"},
		{"[64:ff9b::7f00:1]", "64:ff9b::7f00:1"},
		{"[2001:DB8::A]", "2001:db8::a"},
		{"1e3.example", "1e3.example"},
		{"0x7g", "0x7g"},
		{"1.2.3.4.example", "1.2.3.4.example"},

		{"", ""}, {".", ""}, {"..", ""}, {"a..b", ""}, {"example.org..", ""},
		{"::1", ""}, {"[::1", ""}, {"::1]", ""}, {"[]", ""}, {"[127.0.0.1]", ""}, {"[::1]x", ""}, {"[[::1]]", ""},
		{"[fe80::1%eth0]", ""}, {"[fe80::1%25eth0]", ""}, {"fe80::1%eth0", ""}, {"127.0.0.1%lo", ""},
		{"256.0.0.1", ""}, {"1.2.3.4.5", ""}, {"08.0.0.1", ""}, {"0x100000000", ""}, {"4294967296", ""}, {"1.2.3.", "1.2.0.3"}, {"a.1", ""}, {"a.0x1", ""},
		{"99999999999999999999999", ""},
		{"ex ample", ""}, {"ex\tample", ""}, {"a/b", ""}, {"a\\b", ""}, {"a@b", ""}, {"a?b", ""}, {"a#b", ""}, {"%31", ""}, {"a\x00b", ""}, {"a\r\nb", ""},
		{"\xff\xfe", ""}, {"a\u00adb\u200b", "ab"}, {"a／b.example", ""}, {"a：80", ""}, {"ａ％b", ""},
	}
	for _, tt := range tests {
		h, err := parseHost(tt.in)
		if tt.want == "" && err == nil || tt.want != "" && (err != nil || h.String() != tt.want) {
			t.Errorf("parseHost(%q) is %v, %v, want %q", tt.in, h, err, tt.want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	tests := []struct{ in, want string }{
		{"example.org:443", "example.org:443"},
		{"[::1]:443", "[::1]:443"},
		{"127.1:80", "127.0.0.1:80"},
		{"[::ffff:10.0.0.1]:80", "10.0.0.1:80"},
		{"example.org", ""}, {"example.org:", ""}, {":443", ""}, {"", ""}, {"[::1]", ""}, {"::1:443", ""},
		{"example.org:0", ""}, {"example.org:65536", ""}, {"example.org:-1", ""}, {"example.org:4 3", ""},
		{"example.org:443:443", ""}, {"user@example.org:443", ""}, {"example.org:443/", ""}, {"http://example.org:443", ""},
	}
	for _, tt := range tests {
		got, err := parseTarget(tt.in, 0)
		if tt.want == "" && err == nil || tt.want != "" && (err != nil || got.String() != tt.want) {
			t.Errorf("parseTarget(%q) is %v, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

func drawAddr() *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "v6") {
			return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))).Unmap()
		}
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")))
	})
}

// drawSpecial draws an IPv4 address that is not of the public internet.
func drawSpecial(t *rapid.T) netip.Addr {
	p := rapid.SampledFrom(specialIPv4).Draw(t, "network").prefix
	n := binary.BigEndian.Uint32(p.Addr().AsSlice())
	host := rapid.Uint32().Draw(t, "host") & uint32(1<<(32-p.Bits())-1)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n|host)))
}

// spell writes an IPv4 address in one of the many ways that some program understands.
func spell(t *rapid.T, addr netip.Addr) string {
	n := binary.BigEndian.Uint32(addr.AsSlice())
	if rapid.IntRange(0, 3).Draw(t, "family") == 0 {
		hex := fmt.Sprintf("%x:%x", n>>16, n&0xffff)
		s := rapid.SampledFrom([]string{
			"::ffff:" + addr.String(), "::ffff:" + hex, "0:0:0:0:0:ffff:" + hex, "0000:0000:0000:0000:0000:ffff:" + addr.String(),
			"::" + hex, "::" + addr.String(), // IPv4-compatible
			"::ffff:0:" + hex, // IPv4-translated
			"64:ff9b::" + hex, "64:ff9b::" + addr.String(),
			"64:ff9b:1::" + hex,
			"2002:" + hex + "::", "2002:" + hex + "::1",
			"2001:0:" + hex + "::1",
			fmt.Sprintf("2001:0:102:304:0:0:%x:%x", ^n>>16, ^n&0xffff),                   // Teredo: the client, inverted
			"2606:2800:220:1:0:5efe:" + hex, "2606:2800:220:1:200:5efe:" + addr.String(), // ISATAP
		}).Draw(t, "IPv6")
		if rapid.Bool().Draw(t, "upper") {
			s = strings.ToUpper(s)
		}
		return "[" + s + "]"
	}
	parts := rapid.IntRange(1, 4).Draw(t, "parts")
	var all []string
	for i := range parts {
		v := uint64(n>>(24-8*i)) & 0xff
		if i == parts-1 {
			v = uint64(n) & (1<<(8*(5-parts)) - 1)
		}
		format := rapid.SampledFrom([]string{"%d", "0x%x", "0X%X", "0%o", "000%o", "0x000%x"}).Draw(t, "format")
		all = append(all, fmt.Sprintf(format, v))
	}
	s := strings.Join(all, rapid.SampledFrom([]string{".", ".", "。", "．"}).Draw(t, "dot"))
	if rapid.Bool().Draw(t, "wide") {
		s = strings.Map(func(r rune) rune {
			if r > ' ' && r < 0x7f && r != '.' {
				return r - '!' + '！'
			}
			return r
		}, s)
	}
	return s + rapid.SampledFrom([]string{"", "", "."}).Draw(t, "end")
}

// No spelling of an address that is not public gets past rules that open everything that
// is public, and no spelling of one gets to another address.
func TestNoSpellingOfASpecialAddressPasses(t *testing.T) {
	p := New(&Options{Allow: rules(t, "0.0.0.0/0", "::/0", "*.example")})
	rapid.Check(t, func(t *rapid.T) {
		addr := drawSpecial(t)
		s := spell(t, addr)
		target, err := parseTarget(s+":443", 0)
		if err != nil {
			if !strings.HasPrefix(s, "[") {
				t.Fatalf("%s is no spelling of %s: %v", s, addr, err)
			}
			return
		}
		if target.host.name != "" || !strings.HasPrefix(s, "[") && target.host.addr != addr {
			t.Fatalf("%s is taken for %s", s, target.host)
		}
		open, b := p.resolve(t.Context(), target)
		if b == nil || b.reason != ReasonAddress || len(open) > 0 {
			t.Fatalf("%s (%s) may be dialled at %v", s, addr, open)
		}
	})
}

// Whatever a host is written as, it is the same in its one spelling.
func TestHostIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._。ü-]{1,20}`), rapid.StringMatching(`(0x)?[0-9a-f]{1,4}(\.[0-9]{1,3}){0,3}\.?`)).Draw(t, "host")
		h, err := parseHost(s)
		if err != nil {
			return
		}
		spelled := h.String()
		if h.addr.Is6() {
			spelled = "[" + spelled + "]"
		}
		again, err := parseHost(spelled)
		if err != nil || again != h {
			t.Fatalf("%q is %q, and that is %q, %v", s, spelled, again, err)
		}
		if (h.name == "") == !h.addr.IsValid() {
			t.Fatalf("%q is both a name and an address, or neither: %+v", s, h)
		}
		if _, err := netip.ParseAddr(h.name); err == nil {
			t.Fatalf("%q is the name %q, which is an address", s, h.name)
		}
	})
}
