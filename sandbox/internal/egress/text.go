package egress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// inspectText judges what is no TLS: an HTTP request has to be for the host; what is no
// HTTP may pass, except on port 80.
func inspectText(o *opening, t target) (*blocked, error) {
	line, err := requestLine(o)
	if errors.Is(err, io.EOF) {
		err = nil // as much of a line as there will ever be: no server takes it for a request
	}
	if err != nil {
		return nil, err
	}
	if line == "" {
		if t.port == 80 {
			return &blocked{reason: ReasonNotHTTP, refused: true, text: where(t) + " takes nothing but HTTP and TLS."}, nil
		}
		return nil, nil
	}
	o.speaks(spokenHTTP)
	b, err := judgeRequest(o, line, t)
	if errors.Is(err, io.EOF) {
		b, err = hostHeader(t, "the header is incomplete"), nil
	}
	return b, err
}

// requestLine returns the line that some server might take for an HTTP/1 request, or
// nothing if the opening is none. It reads no further than it takes to tell.
func requestLine(o *opening) (string, error) {
	o.undecided = true
	defer func() { o.undecided = false }()
	// Servers pass over empty lines.
	c, err := o.ReadByte()
	for err == nil && (c == '\r' || c == '\n') {
		c, err = o.ReadByte()
	}
	const longest = 64 // of a method; the registry's longest has 16 letters
	start := o.off - 1
	for err == nil && methodChar(c) && o.off-start <= longest {
		c, err = o.ReadByte()
	}
	if err != nil || c != ' ' && c != '\t' {
		return "", err
	}
	if _, err := o.line(); err != nil {
		return "", err
	}
	line := o.buf[start:o.off]
	if !bytes.Contains(bytes.ToUpper(line), []byte("HTTP/")) {
		return "", nil
	}
	return string(line), nil
}

func methodChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// judgeRequest reads the header of a request and compares its host. It is strict: what
// two servers might read differently is refused.
func judgeRequest(o *opening, line string, t target) (*blocked, error) {
	parts := strings.Split(endless(line), " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return hostHeader(t, "the first line is "+quote(endless(line))), nil
	}
	if parts[0] == http.MethodConnect {
		return hostHeader(t, "CONNECT within the tunnel"), nil
	}
	var hosts []string
	if target := parts[1]; !strings.HasPrefix(target, "/") && target != "*" {
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return hostHeader(t, "the target is "+quote(target)), nil
		}
		hosts = append(hosts, u.Host)
	}
	named := 0
	for {
		raw, err := o.line()
		if err != nil {
			return nil, err
		}
		field := endless(string(raw))
		if field == "" {
			break
		}
		name, value, found := strings.Cut(field, ":")
		if !found || name == "" || strings.IndexFunc(name, func(c rune) bool { return c > 0x7f || !methodChar(byte(c)) }) >= 0 ||
			strings.ContainsAny(value, "\r\x00") {
			return hostHeader(t, "the header has the line "+quote(field)), nil
		}
		if strings.EqualFold(name, "Host") {
			named++
			hosts = append(hosts, strings.Trim(value, " \t"))
		}
	}
	if named != 1 {
		return hostHeader(t, "there has to be one Host"), nil
	}
	for _, h := range hosts {
		if asked, err := parseTarget(h, t.port); err != nil || asked != t {
			return hostHeader(t, shown(h)), nil
		}
	}
	return nil, nil
}

// endless is a line without its end.
func endless(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

func hostHeader(t target, detail string) *blocked {
	return &blocked{reason: ReasonHostHeader, detail: detail, refused: true, text: where(t) + " was sent a request that is not for it."}
}
