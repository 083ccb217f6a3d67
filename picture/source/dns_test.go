package source

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// dnsServer answers questions for addresses (RFC 1035) from a table, each time with the
// next of a name's addresses, the last one for good. Names that it does not have do not
// exist.
type dnsServer struct {
	resolver *net.Resolver

	mu    sync.Mutex
	names map[string][]string
}

func startDNS(t *testing.T, names map[string][]string) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{names: names}
	s.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if answer := s.answer(query[:n]); answer != nil {
				conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return s
}

const (
	typeA    = 1
	typeAAAA = 28
)

func (s *dnsServer) answer(query []byte) []byte {
	if len(query) < 12 {
		return nil
	}
	var labels []string
	at := 12
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return nil
		}
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	if at+5 > len(query) {
		return nil
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	question := query[12 : at+5]

	code := uint16(0x8583) // an answer with authority: there is no such name
	var record []byte
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.ToLower(strings.Join(labels, "."))
	if addresses := s.names[name]; len(addresses) > 0 {
		code = 0x8580
		addr := netip.MustParseAddr(addresses[0])
		if addr.Is4() && kind == typeA || addr.Is6() && kind == typeAAAA {
			record = addr.AsSlice()
			if len(addresses) > 1 {
				s.names[name] = addresses[1:]
			}
		}
	}
	answer := append([]byte(nil), query[:2]...)
	answer = binary.BigEndian.AppendUint16(answer, code)
	answer = append(answer, 0, 1, 0, byte(min(len(record), 1)), 0, 0, 0, 0)
	answer = append(answer, question...)
	if record != nil {
		answer = append(answer, 0xc0, 12) // the name of the question
		answer = binary.BigEndian.AppendUint16(answer, kind)
		answer = append(answer, 0, 1, 0, 0, 0, 0, 0, byte(len(record)))
		answer = append(answer, record...)
	}
	return answer
}
