package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

const maxRedirects = 5

// Reasons for which a redirect is not followed.
var (
	errDowngrade   = fmt.Errorf("redirect from https to http: %w", ErrForbidden)
	errScheme      = fmt.Errorf("redirect to another scheme: %w", ErrForbidden)
	errCredentials = fmt.Errorf("redirect to a URL with credentials: %w", ErrForbidden)
	errRedirects   = fmt.Errorf("too many redirects: %w", ErrUnavailable)
)

func readURL(ctx context.Context, ref string, o *Options) (*Input, error) {
	u, err := url.Parse(ref)
	if err != nil || u.Hostname() == "" {
		// Not a word of the reference: what it holds was not understood.
		return nil, fail("URL", ErrInvalid, "The URL is not valid; it looks like https://example.org/picture.png.")
	}
	name := urlName(u)
	switch {
	case !o.AllowURL:
		return nil, fail(name, ErrURLNotAllowed, "%s is a URL and fetching is off; add --allow-url to fetch it, or download it and give the file.", name)
	case u.User != nil:
		return nil, fail(name, ErrInvalid, "The URL of %s has a user name or password in it, and none is ever sent; download it and give the file.", name)
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	data, err := fetch(ctx, u, o)
	if err != nil {
		return nil, fetchError(parent, ctx, name, o, err)
	}
	return &Input{Name: name, Data: data}, nil
}

// urlName is a URL without what may be secret in it.
func urlName(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return printable(bare.String())
}

// statusError is an answer that is not a picture.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", int(s), http.StatusText(int(s))))
}

// fetch GETs u. It uses a client of its own, so that no connection outlives it and none made
// under other options is used.
func fetch(ctx context.Context, u *url.URL, o *Options) ([]byte, error) {
	dialer := &net.Dialer{
		Resolver: o.Resolver,
		// Called with the address about to be connected to, for each one tried.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("address %q: %w", address, ErrForbidden)
			}
			if o.permit != nil && o.permit(to) {
				return nil
			}
			return checkAddress(to.Addr(), o.AllowPrivate)
		},
	}
	// The transport lets a connection that it is making outlive the request; this one
	// ends with it.
	dial := func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would make the connection, past the check
		DialContext:            dial,
		DisableKeepAlives:      true,
		DisableCompression:     true, // what is sent counts against the limit as it is
		MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.authorities},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			// The URL before may have a secret in its query.
			next.Header.Del("Referer")
			switch last := via[len(via)-1].URL; {
			case len(via) > maxRedirects:
				return errRedirects
			case next.URL.Scheme != "http" && next.URL.Scheme != "https":
				return errScheme
			case last.Scheme == "https" && next.URL.Scheme == "http":
				return errDowngrade
			case next.URL.User != nil:
				return errCredentials
			}
			return nil
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "loupe")
	request.Header.Set("Accept", "image/*,*/*;q=0.5")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, statusError(response.StatusCode)
	}
	if response.ContentLength > o.maxBytes() {
		return nil, ErrTooLarge
	}
	// A length that is only claimed is not worth more than this in advance.
	return readAll(ctx, response.Body, min(response.ContentLength, chunk), o.maxBytes())
}

// fetchError finds the sentence for a failed fetch. The library's own texts are kept
// out of it: they quote URLs in full. Parent is the caller's context, fetching the one with
// the time limit.
func fetchError(parent, fetching context.Context, name string, o *Options, err error) *Error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	unavailable := errors.Join(ErrUnavailable, err)

	var address *addressError
	var status statusError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case parent.Err() != nil:
		return interrupted(parent, name)
	case errors.As(err, &address) && address.always:
		return fail(name, err, "%s leads to %s, which is never fetched from; download it and give the file.", name, address.kind)
	case errors.As(err, &address):
		return fail(name, err, "%s leads to %s, and fetching from those is off; download it and give the file, or allow private addresses.", name, address.kind)
	case errors.Is(err, errDowngrade):
		return fail(name, err, "%s redirects from https to http, which is not followed; download it and give the file.", name)
	case errors.Is(err, errScheme), errors.Is(err, errCredentials):
		return fail(name, err, "%s redirects to a URL that is not plain http or https, which is not followed; download it and give the file.", name)
	case errors.Is(err, errRedirects):
		return fail(name, err, "%s redirects more than %d times; give the final address.", name, maxRedirects)
	case errors.Is(err, ErrTooLarge):
		return tooLarge(name, o.maxBytes())
	case errors.As(err, &status):
		return fail(name, unavailable, "%s could not be fetched: the server answered %v; check the address.", name, status)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fail(name, unavailable, "%s could not be fetched, since there is no host %s; check the address.", name, printable(dns.Name))
	case fetching.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return fail(name, errors.Join(ErrUnavailable, context.DeadlineExceeded, err), "%s did not arrive within %v; try again, or download it and give the file.", name, o.timeout())
	case errors.As(err, &dns):
		return fail(name, unavailable, "%s could not be fetched, since the host %s could not be looked up; check the network.", name, printable(dns.Name))
	case errors.As(err, &certificate):
		return fail(name, unavailable, "%s could not be fetched, since the certificate of its server could not be verified; check the address.", name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail(name, unavailable, "%s could not be fetched, since its server refused the connection; check the address and port.", name)
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fail(name, unavailable, "%s could not be fetched, since its server cannot be reached; check the network.", name)
	}
	return fail(name, unavailable, "%s could not be fetched whole; try again, or download it and give the file.", name)
}
