package egress

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseRule(t *testing.T) {
	// The spelling that each is printed in; a rule that is wrong has a part of the sentence
	// that says why.
	tests := []struct{ in, want, wrong string }{
		{in: "example.org", want: "example.org"},
		{in: "Example.ORG.", want: "example.org"},
		{in: "example.org:8443", want: "example.org:8443"},
		{in: "*.example.net:443", want: "*.example.net:443"},
		{in: "*.Example.net.", want: "*.example.net"},
		{in: "bücher.example", want: "xn--bcher-kva.example"},
		{in: "BÜCHER.example:80", want: "xn--bcher-kva.example:80"},
		{in: "*.例え。テスト", want: "*.xn--r8jz45g.xn--zckzah"},
		{in: "XN--BCHER-KVA.example", want: "xn--bcher-kva.example"},
		{in: "under_score.example", want: "under_score.example"},
		{in: "localhost:3000", want: "localhost:3000"},
		{in: "intranet", want: "intranet"},
		{in: "192.0.2.7", want: "192.0.2.7"},
		{in: "192.0.2.7:22", want: "192.0.2.7:22"},
		{in: "10.0.0.0/8", want: "10.0.0.0/8"},
		{in: "10.0.0.0/8:8080", want: "10.0.0.0/8:8080"},
		{in: "192.0.2.7/32", want: "192.0.2.7"},
		{in: "0.0.0.0/0", want: "0.0.0.0/0"},
		{in: "::/0", want: "::/0"},
		{in: "2001:DB8::0001", want: "2001:db8::1"},
		{in: "[2001:db8::1]", want: "2001:db8::1"},
		{in: "[2001:db8::1]:443", want: "[2001:db8::1]:443"},
		{in: "fd00::/8", want: "fd00::/8"},
		{in: "[fd00::/8]:443", want: "[fd00::/8]:443"},
		{in: "::ffff:10.0.0.1", want: "10.0.0.1"},
		{in: "[::ffff:10.0.0.1]:80", want: "10.0.0.1:80"},
		{in: "::ffff:10.0.0.0/104", want: "10.0.0.0/8"},
		{in: "169.254.169.254", want: "169.254.169.254"},

		{in: "", wrong: "name a host"},
		{in: "*", wrong: "would open every host"},
		{in: "*:443", wrong: "would open every host"},
		{in: "https://example.org/", wrong: "leave out the scheme"},
		{in: "example.org/path", wrong: "only a network has a slash"},
		{in: "example.org:", wrong: "the port is no number"},
		{in: "example.org:0", wrong: "the port is no number"},
		{in: "example.org:65536", wrong: "the port is no number"},
		{in: "example.org:+80", wrong: "the port is no number"},
		{in: "example.org:080", wrong: "the port is no number"},
		{in: "example.org:https", wrong: "the port is no number"},
		{in: "example.org:80:80", wrong: "needs brackets"},
		{in: "a.*.example", wrong: "asterisk"},
		{in: "*.*.example", wrong: "asterisk"},
		{in: "foo*.example", wrong: "asterisk"},
		{in: "*.", wrong: "no part of a host name"},
		{in: ".", wrong: "no part of a host name"},
		{in: ".example.org", wrong: "no part of a host name"},
		{in: "example..org", wrong: "no part of a host name"},
		{in: "example.org..", wrong: "no part of a host name"},
		{in: "exa mple.org", wrong: "no part of a host name"},
		{in: "example.org\n", wrong: "no part of a host name"},
		{in: "user@example.org", wrong: "no part of a host name"},
		{in: "ex%61mple.org", wrong: "no part of a host name"},
		{in: strings.Repeat("a", 64) + ".example", wrong: "no part of a host name"},
		{in: strings.Repeat("abcdefg.", 32) + "example", wrong: "too long"},
		{in: strings.Repeat("ü", 5000), wrong: "too long"},
		{in: "a\u200db.example", wrong: "no valid international domain name"},
		{in: "0x7f.1", wrong: "the address 127.0.0.1"},
		{in: "2130706433", wrong: "the address 127.0.0.1"},
		{in: "010.0.0.1", wrong: "the address 8.0.0.1"},
		{in: "10.0.0.1.", wrong: "the address 10.0.0.1"},
		{in: "10.0.0.256", wrong: "no IPv4 address"},
		{in: "example.1", wrong: "no IPv4 address"},
		{in: "*.10.0.0.1", wrong: "no hosts below an address"},
		{in: "10.0.0.1/8", wrong: "write 10.0.0.0/8 for the network or 10.0.0.1 for the address"},
		{in: "10.0.0.0/33", wrong: "only a network has a slash"},
		{in: "fe80::1%eth0", wrong: "zone"},
		{in: "[fe80::1%25eth0]:80", wrong: "zone"},
		{in: "[::1", wrong: "bracket is not closed"},
		{in: "[::1]80", wrong: "something other than a port"},
		{in: "[10.0.0.1]:80", wrong: "no IPv6 address in the brackets"},
		{in: "[example.org]:80", wrong: "no IPv6 address in the brackets"},
		{in: "::1:80:x", wrong: "needs brackets"},
		{in: "::ffff:0.0.0.0/90", wrong: ""}, // has bits beyond its prefix, or is IPv4 in IPv6
		{in: "0.0.0.0", wrong: "an unspecified address cannot be connected to"},
		{in: "::", wrong: "an unspecified address cannot be connected to"},
		{in: "224.0.0.1", wrong: "a multicast address cannot be connected to"},
		{in: "ff02::1", wrong: "a multicast address cannot be connected to"},
		{in: "255.255.255.255", wrong: "the broadcast address cannot be connected to"},
	}
	for _, tt := range tests {
		r, err := ParseRule(tt.in)
		if tt.want == "" {
			if err == nil {
				t.Errorf("ParseRule(%q) is %s, want an error", tt.in, r)
			} else if !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("ParseRule(%q): %v, want it to say %q", tt.in, err, tt.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("ParseRule(%q): %v", tt.in, err)
		} else if r.String() != tt.want {
			t.Errorf("ParseRule(%q) is %s, want %s", tt.in, r, tt.want)
		} else if again, err := ParseRule(r.String()); err != nil || again != r {
			t.Errorf("ParseRule(%q) is %+v, and its String %+v, %v", tt.in, r, again, err)
		}
	}
}

func TestRuleAsText(t *testing.T) {
	in := `["*.example.net:443","fd00::/8"]`
	var list []Rule
	if err := json.Unmarshal([]byte(in), &list); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(list)
	if err != nil || string(out) != in {
		t.Errorf("got %s, %v, want %s", out, err, in)
	}
	if err := json.Unmarshal([]byte(`["no host"]`), &list); err == nil {
		t.Error("a rule that is none was taken")
	}
}

func TestZeroRuleAllowsNothing(t *testing.T) {
	p := New(&Options{Allow: []Rule{{}}})
	for _, s := range []string{"example.org:80", "127.0.0.1:443", "[::1]:443", "0.0.0.0:80"} {
		target, err := parseTarget(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		if p.judge(target) == nil {
			t.Errorf("%s is allowed", s)
		}
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		rule, target string
		want         bool
	}{
		{"example.org", "example.org:80", true},
		{"example.org", "example.org:443", true},
		{"example.org", "EXAMPLE.org.:443", true},
		{"example.org", "example.org:8080", false},
		{"example.org", "www.example.org:443", false},
		{"example.org", "example.org.evil.example:443", false},
		{"example.org", "notexample.org:443", false},
		{"example.org:8080", "example.org:8080", true},
		{"example.org:8080", "example.org:80", false},
		{"*.example.net:443", "a.example.net:443", true},
		{"*.example.net:443", "a.b.example.net:443", true},
		{"*.example.net:443", "a.example.net:80", false},
		{"*.example.net", "example.net:443", false},
		{"*.example.net", "aexample.net:443", false},
		{"*.example.net", ".example.net:443", false}, // no host at all
		{"bücher.example", "xn--bcher-kva.example:443", true},
		{"xn--bcher-kva.example", "Bücher.example:443", true},
		{"192.0.2.7", "192.0.2.7:80", true},
		{"192.0.2.7", "0xc0000207:80", true},
		{"192.0.2.7", "[::ffff:192.0.2.7]:80", true},
		{"192.0.2.7", "192.0.2.8:80", false},
		{"10.0.0.0/8:22", "10.1.2.3:22", true},
		{"10.0.0.0/8:22", "11.1.2.3:22", false},
		{"fd00::/8", "[fd12::1]:443", true},
		{"::/0", "10.0.0.1:443", false},
		{"0.0.0.0/0", "[2606:2800:220:1::1]:443", false},
		{"localhost:3000", "localhost:3000", true},
		{"localhost:3000", "127.0.0.1:3000", true},
		{"localhost:3000", "[::1]:3000", true},
		{"localhost:3000", "127.0.0.2:3000", false},
		{"localhost:3000", "a.localhost:3000", false},
		{"*.localhost", "a.localhost:80", true},
		{"*.localhost", "127.0.0.1:80", false},
	}
	for _, tt := range tests {
		target, err := parseTarget(tt.target, 0)
		got := err == nil && rules(t, tt.rule)[0].matches(target)
		if got != tt.want {
			t.Errorf("%s matches %s: %v (%v), want %v", tt.rule, tt.target, got, err, tt.want)
		}
	}
}

func TestRuleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRule(t)
		again, err := ParseRule(r.String())
		if err != nil || again != r {
			t.Fatalf("%+v prints as %s, which is %+v, %v", r, r, again, err)
		}
	})
}

func drawRule(t *rapid.T) Rule {
	hosts := rapid.OneOf(
		rapid.StringMatching(`(\*\.)?[a-z0-9-]{1,8}(\.[a-z]{2,5}){1,2}\.?`),
		rapid.Map(drawAddr(), netip.Addr.String),
		rapid.Custom(func(t *rapid.T) string {
			a := drawAddr().Draw(t, "address")
			return netip.PrefixFrom(a, rapid.IntRange(1, a.BitLen()).Draw(t, "bits")).Masked().String()
		}),
	)
	s := rapid.Custom(func(t *rapid.T) string {
		s := hosts.Draw(t, "host")
		if port := rapid.IntRange(0, 65535).Draw(t, "port"); port != 0 {
			if strings.Contains(s, ":") {
				s = "[" + s + "]"
			}
			s += ":" + strconv.Itoa(port)
		}
		return s
	}).Filter(func(s string) bool {
		_, err := ParseRule(s) // some addresses cannot be connected to
		return err == nil
	}).Draw(t, "rule")
	r, err := ParseRule(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
