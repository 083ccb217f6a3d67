package egress

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRace(t *testing.T) {
	const hangs = -1
	one, two, three := netip.MustParseAddrPort("93.184.216.1:443"), netip.MustParseAddrPort("93.184.216.2:443"), netip.MustParseAddrPort("93.184.216.3:443")
	tests := []struct {
		name   string
		after  map[netip.AddrPort]time.Duration // when each answers, or fails if it is in fails
		fails  []netip.AddrPort
		winner netip.AddrPort // none: all fail
		took   time.Duration
	}{
		{"the first answers", map[netip.AddrPort]time.Duration{one: 10 * time.Millisecond}, nil, one, 10 * time.Millisecond},
		{"the first is slow, but faster", map[netip.AddrPort]time.Duration{one: 300 * time.Millisecond, two: time.Second, three: time.Second}, nil, one, 300 * time.Millisecond},
		{"the first hangs", map[netip.AddrPort]time.Duration{one: hangs, two: 10 * time.Millisecond}, nil, two, headStart + 10*time.Millisecond},
		{"the first fails", map[netip.AddrPort]time.Duration{one: 10 * time.Millisecond, two: 10 * time.Millisecond}, []netip.AddrPort{one}, two, 20 * time.Millisecond},
		{"two answer at once", map[netip.AddrPort]time.Duration{one: headStart + 10*time.Millisecond, two: 10 * time.Millisecond}, nil, netip.AddrPort{}, headStart + 10*time.Millisecond},
		{"all fail", map[netip.AddrPort]time.Duration{one: 0, two: 0, three: 5 * time.Millisecond}, []netip.AddrPort{one, two, three}, netip.AddrPort{}, 5 * time.Millisecond},
		{"all hang", map[netip.AddrPort]time.Duration{one: hangs, two: hangs, three: hangs}, nil, netip.AddrPort{}, time.Minute},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			refused := errors.New("connection refused")
			var open atomic.Int32
			closed := make(chan struct{}, 10)
			p := New(&Options{Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				a := netip.MustParseAddrPort(address)
				after := tt.after[a]
				if after == hangs {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				advance(after) // deaf to the context
				for _, f := range tt.fails {
					if f == a {
						return nil, refused
					}
				}
				mine, its := net.Pipe()
				open.Add(1)
				go func() {
					its.Read(make([]byte, 1))
					closed <- struct{}{}
				}()
				return mine, nil
			}})
			s := &server{p: p, ctx: t.Context()}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin := time.Now()
			conn, winner, err := s.race(ctx, []netip.AddrPort{one, two, three})
			if took := time.Since(begin); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
			if err == nil {
				conn.Close()
				if tt.winner.IsValid() && winner != tt.winner {
					t.Errorf("%s: %s answered, want %s", tt.name, winner, tt.winner)
				}
			} else if tt.winner.IsValid() || len(tt.fails) > 0 && !errors.Is(err, refused) {
				t.Errorf("%s: %v", tt.name, err)
			}
			s.running.Wait() // for those that came late
			for range open.Load() {
				<-closed // each of them, or the bubble ends in a deadlock
			}
		})
	}
}

func TestAttemptAsJSON(t *testing.T) {
	for _, tt := range []struct {
		a    Attempt
		want string
	}{
		{Attempt{Time: time.Unix(1, 0).UTC(), Method: "CONNECT", Host: "example.org", Port: 443, Allowed: true, Address: netip.MustParseAddrPort("93.184.216.34:443"), Sent: 1, Received: 2, Duration: 3},
			`{"time":"1970-01-01T00:00:01Z","method":"CONNECT","host":"example.org","port":443,"allowed":true,"address":"93.184.216.34:443","sent":1,"received":2,"duration_ns":3}`},
		{Attempt{Time: time.Unix(1, 0).UTC(), Host: "example.org", Port: 443, Reason: ReasonAddress, Detail: "10.0.0.1 is a private address"},
			`{"time":"1970-01-01T00:00:01Z","host":"example.org","port":443,"allowed":false,"reason":"address not allowed","detail":"10.0.0.1 is a private address","sent":0,"received":0,"duration_ns":0}`},
	} {
		if got, err := json.Marshal(tt.a); err != nil || string(got) != tt.want {
			t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
		}
	}
}

// What stood in a request is safe to print, and short.
func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"example.org": "example.org", "": "", "a b": `"a b"`, "\x1b[2J": `"\x1b[2J"`, "\u202e": `"\u202e"`, "\xff": `"\xff"`,
		strings.Repeat("a", 300): `"` + strings.Repeat("a", 253) + `"...`,
	} {
		if got := shown(in); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
}

// The resolver of the system is asked for the name itself, and not for one below a search
// domain.
func TestNamesAreAbsolute(t *testing.T) {
	asked := make(chan string, 10)
	r := absolute{&net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		mine, its := net.Pipe()
		go func() {
			defer its.Close()
			b := make([]byte, 512)
			n, err := its.Read(b)
			if err != nil {
				return
			}
			// Its length in two bytes, a header of 12, and the name in labels.
			var labels []string
			for at := 14; at < n && b[at] != 0; at += int(b[at]) + 1 {
				labels = append(labels, string(b[at+1:][:b[at]]))
			}
			asked <- strings.Join(labels, ".")
		}()
		return mine, nil
	}}}
	if _, err := r.LookupNetIP(t.Context(), "ip", "missing.example"); err == nil {
		t.Error("a name was found without an answer")
	}
	close(asked)
	for name := range asked {
		if name != "missing.example" {
			t.Errorf("asked for %q", name)
		}
	}
}
