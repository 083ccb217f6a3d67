package source

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestCheckAddress(t *testing.T) {
	const public, private, never = "public", "private", "never"
	for addr, want := range map[string]string{
		"8.8.8.8":         public,
		"93.184.215.14":   public,
		"100.63.255.255":  public,
		"100.128.0.0":     public,
		"172.15.255.255":  public,
		"172.32.0.0":      public,
		"192.167.255.255": public,
		"223.255.255.255": public,

		"10.0.0.0":        private,
		"10.255.255.255":  private,
		"100.64.0.1":      private,
		"100.127.255.255": private,
		"127.0.0.1":       private,
		"127.255.255.255": private,
		"169.254.0.1":     private,
		"172.16.0.0":      private,
		"172.31.255.255":  private,
		"192.0.0.8":       private,
		"192.0.2.1":       private,
		"192.168.255.255": private,
		"198.19.0.0":      private,
		"203.0.113.1":     private,

		"0.0.0.0":         never,
		"0.1.2.3":         never,
		"169.254.169.254": never,
		"169.254.170.2":   never,
		"100.100.100.200": never,
		"168.63.129.16":   never,
		"192.0.0.192":     never,
		"224.0.0.1":       never,
		"239.255.255.255": never,
		"240.0.0.1":       never,
		"255.255.255.255": never,

		"2606:4700::1111":      public,
		"2a00:1450:4001::200e": public,

		"::1":                          private,
		"fe80::1":                      private,
		"fe80::1%eth0":                 private,
		"febf::1":                      private,
		"fec0::1":                      private,
		"fc00::1":                      private,
		"fdff::1":                      private,
		"2001::1":                      private, // Teredo
		"2001:db8::1":                  private,
		"3fff::1":                      private,
		"100::1":                       private,
		"4000::1":                      private,
		"::":                           never,
		"ff02::1":                      never,
		"fd00:ec2::254":                never,
		"fd00:ec2::254%eth0":           never,
		"::ffff:8.8.8.8":               public,
		"::ffff:127.0.0.1":             private,
		"::ffff:0.0.0.0":               never,
		"::ffff:169.254.1.1":           private,
		"::ffff:100.64.0.1":            private,
		"::ffff:a9fe:a9fe":             never,
		"::127.0.0.1":                  private,
		"::8.8.8.8":                    private,
		"::169.254.169.254":            never,
		"2002:808:808::1":              public, // 6to4 of 8.8.8.8
		"2002:7f00:1::1":               private,
		"2002:a00:1::":                 private,
		"2002:a9fe:a9fe::":             never,
		"64:ff9b::8.8.8.8":             public, // NAT64
		"64:ff9b::127.0.0.1":           private,
		"64:ff9b::10.1.2.3":            private,
		"64:ff9b::a9fe:a9fe":           never,
		"64:ff9b::0.0.0.0":             never,
		"64:ff9b:1::8.8.8.8":           private,
		"64:ff9b:1::a9fe:a9fe":         never,
		"2606:4700::5efe:192.168.0.1":  private, // ISATAP
		"2606:4700::200:5efe:10.0.0.1": private,
		"2606:4700::5efe:8.8.8.8":      public,
	} {
		got := public
		if checkAddress(netip.MustParseAddr(addr), false) != nil {
			got = private
		}
		if checkAddress(netip.MustParseAddr(addr), true) != nil {
			got = never
		}
		if got != want {
			t.Errorf("%s is %s, want %s", addr, got, want)
		}
	}
}

// TestCheckAddressAgreesWithNetip: what the standard library calls special is refused,
// in every form that an IPv4 address can take in an IPv6 one.
func TestCheckAddressAgreesWithNetip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v4 := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		if rapid.Bool().Draw(t, "near a special one") {
			v4[0] = rapid.SampledFrom([]byte{0, 10, 100, 127, 169, 172, 192, 198, 224, 255}).Draw(t, "first")
		}
		addr := netip.AddrFrom4(v4)
		verdict := checkAddress(addr, false)
		special := addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified()
		if special && verdict == nil {
			t.Fatalf("%s is let through", addr)
		}
		for name, b := range map[string][16]byte{
			"mapped": addr.As16(),
			"6to4":   {0x20, 0x02, v4[0], v4[1], v4[2], v4[3]},
			"nat64":  {0, 0x64, 0xff, 0x9b, 12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]},
			"isatap": {0x26, 0x06, 10: 0x5e, 11: 0xfe, 12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]},
		} {
			if got := checkAddress(netip.AddrFrom16(b), false); (got == nil) != (verdict == nil) {
				t.Fatalf("%s is judged %v, and its %s form %v: %v", addr, verdict, name, netip.AddrFrom16(b), got)
			}
		}
	})
}
