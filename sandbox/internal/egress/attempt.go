package egress

import (
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// What an Attempt's Reason can be. The phrases are fixed, for a person to read and for a
// program to compare.
const (
	ReasonNotListed  = "not on the allow-list"
	ReasonAddress    = "address not allowed"              // the name is, what it resolves to is not
	ReasonServerName = "TLS server name is not the host"  // or there is none
	ReasonECH        = "TLS hides its server name"        // with Options.RefuseECH
	ReasonNotTLS     = "not TLS"                          // on port 443, or nothing that can be read as such
	ReasonNotHTTP    = "neither TLS nor HTTP"             // in a tunnel to port 80
	ReasonHostHeader = "HTTP request is not for the host" // in a tunnel, to another than the tunnel's
	ReasonMalformed  = "malformed request"                // none that a proxy can answer
	ReasonSilent     = "nothing was sent in time"         // in a tunnel whose client speaks first
	ReasonUnresolved = "name not found"                   // allowed
	ReasonUnreached  = "could not be connected to"        // allowed
	ReasonIdle       = "nothing moved for too long"       // allowed
	ReasonBroken     = "connection to the host broke"     // allowed
	ReasonEnded      = "ended by the client or the proxy" // allowed
)

// Attempt is one try to reach a host: one CONNECT or one plain request.
type Attempt struct {
	Time   time.Time `json:"time"`             // when the request had been read
	Method string    `json:"method,omitempty"` // CONNECT, or that of the plain request

	// Host is the name in lower case and ASCII, or the address in its usual spelling.
	// Of a malformed request it is what stood there, escaped and cut, or empty.
	Host string `json:"host"`
	Port int    `json:"port"` // 0 when it is not known

	// Allowed is the verdict of the rules, on everything that was seen of the attempt.
	// An allowed attempt can still have failed.
	Allowed bool `json:"allowed"`
	// Reason is why it was refused, failed or was cut off: one of the constants, and empty
	// for an allowed attempt that ended as its two ends wanted.
	Reason string `json:"reason,omitempty"`
	// Detail is for a log: the address, the server name, the error. It may say more of the
	// network outside than those inside should learn.
	Detail string `json:"detail,omitempty"`

	Address  netip.AddrPort `json:"address,omitzero"` // what was connected to
	Sent     int64          `json:"sent"`             // bytes to the host
	Received int64          `json:"received"`         // bytes from the host
	Duration time.Duration  `json:"duration_ns"`
}

// traffic counts the bytes of one attempt.
type traffic struct{ sent, received atomic.Int64 }

// blocked is why an attempt ends before it is connected, or within its first bytes.
type blocked struct {
	reason string
	detail string
	// refused is set where the rules say no, and not when something fails.
	refused bool
	status  int    // what an HTTP client gets
	text    string // what a client may know, one sentence
}

func (b *blocked) Error() string {
	if b.detail == "" {
		return b.reason
	}
	return b.reason + ": " + b.detail
}

// quote makes a string from inside safe to print, and short.
func quote(s string) string {
	const longest = 253
	if len(s) > longest {
		return strconv.QuoteToASCII(s[:longest]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// shown is quote for what needs no quotes.
func shown(s string) string {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return quote(s)
		}
	}
	if len(s) > 253 {
		return quote(s)
	}
	return s
}
