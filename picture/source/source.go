// Package source fetches the bytes of a picture from wherever a reference says
// they are: a file, standard input, a data: URI, or, where that was allowed, the
// web. It does not look into the bytes; package picture decides what they are.
//
// # What it promises
//
//   - No reference reads anything but a regular file, and with [Options.Roots]
//     set nothing outside these folders, wherever symbolic links lead.
//   - No URL is fetched unless [Options.AllowURL] says so. A fetch never connects
//     to a loopback, link-local, private or otherwise special address unless
//     [Options.AllowPrivate] says so, and never to a multicast, unspecified or
//     cloud-metadata address. The address of each connection is checked as it is
//     made, so neither a redirect nor a name that changes its address gets by.
//   - Nothing larger than [Options.MaxBytes] is kept in memory.
//   - Every error is an [*Error] of one sentence that holds no data of a data:
//     URI and no password, query or fragment of a URL.
package source

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Defaults of the limits in [Options].
const (
	// DefaultMaxBytes is room for an uncompressed 8-bit picture of 89 megapixels.
	DefaultMaxBytes = 256 << 20
	// DefaultTimeout is the time that one fetch of a URL may take in all.
	DefaultTimeout = 30 * time.Second
)

// Sentinel errors tell the kinds of failure apart: use [errors.Is] on what [Read]
// returns. Beside them, a missing file is [io/fs.ErrNotExist], one that this user
// may not read is [io/fs.ErrPermission], and a cancelled or timed out read is
// [context.Canceled] or [context.DeadlineExceeded].
var (
	// ErrInvalid: the reference itself is wrong (malformed, of an unknown scheme,
	// a folder, a device). The same reference can never work.
	ErrInvalid = errors.New("invalid reference")
	// ErrURLNotAllowed: the reference is a URL and Options.AllowURL is not set.
	ErrURLNotAllowed = errors.New("URLs are not allowed")
	// ErrForbidden: the policy forbids it (outside the roots, a private address, a
	// redirect from https to http).
	ErrForbidden = errors.New("forbidden")
	// ErrTooLarge: there are more bytes than Options.MaxBytes.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable: the network or the server did not deliver. Trying again later
	// may work.
	ErrUnavailable = errors.New("unavailable")
)

// Error is what [Read] returns when it fails.
type Error struct {
	// Name is the short name of the reference, as in [Input].
	Name string
	// Text is one sentence for a person: what went wrong, and what to do. It names
	// neither the roots nor the address that a name stands for, so it may be shown
	// to whoever sent the reference.
	Text string
	// Err is the kind of failure and its cause; for a log, not for a client.
	Err error
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

// Options says what may be read, and how much. The zero value, or nil, reads files
// and data URIs of up to [DefaultMaxBytes].
type Options struct {
	// Stdin is what the reference "-" reads, to its end. Nil refuses "-".
	Stdin io.Reader
	// Roots, unless empty, are the only folders below which files are read. Set it
	// whenever references come from outside the process. Symbolic links are followed
	// only as far as they stay below a root.
	Roots []string
	// AllowURL lets http and https URLs be fetched.
	AllowURL bool
	// AllowPrivate lets a fetch reach loopback, link-local, private, shared
	// (carrier-grade NAT) and reserved addresses. Addresses that are multicast,
	// unspecified or known to serve cloud metadata stay out of reach.
	AllowPrivate bool
	// MaxBytes is the largest size accepted, in bytes; zero means DefaultMaxBytes.
	MaxBytes int64
	// Timeout bounds one fetch of a URL, redirects and body included; zero means
	// DefaultTimeout.
	Timeout time.Duration
	// Resolver looks host names up; nil means net.DefaultResolver.
	Resolver *net.Resolver

	// authorities are the certificate authorities trusted; nil means the system's.
	authorities *x509.CertPool
	// permit overrules the address rules for one address and port; for tests, as
	// authorities is.
	permit func(netip.AddrPort) bool
}

func (o *Options) maxBytes() int64 {
	if o.MaxBytes > 0 {
		return o.MaxBytes
	}
	return DefaultMaxBytes
}

func (o *Options) timeout() time.Duration {
	if o.Timeout > 0 {
		return o.Timeout
	}
	return DefaultTimeout
}

// Input is the bytes behind a reference.
type Input struct {
	// Name says in messages where the bytes came from: the path as given, "standard
	// input", "data URI", or a URL without user, query and fragment.
	Name string
	// Data is all of the bytes, owned by the caller.
	Data []byte
}

// scheme matches the beginning of a reference that can only be meant as a URL.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// Read returns the bytes that ref refers to. A reference is one of
//
//	path            a file; write ./- or ./data:x for files of such names
//	-               standard input
//	file:///path    a file, percent-encoded
//	data:...,...    the bytes themselves, base64 or percent-encoded
//	http(s)://...   fetched with GET
//
// Fetches use no proxy, send no cookies and no credentials, follow at most 5
// redirects and none from https to http, and ignore the content type.
//
// Read may be called from several goroutines at once. When ctx ends it returns
// without delay; a read of Options.Stdin that is under way then ends at once if the
// reader takes deadlines, and else whenever the reader returns.
func Read(ctx context.Context, ref string, o *Options) (*Input, error) {
	if o == nil {
		o = &Options{}
	}
	switch lower := strings.ToLower(ref[:min(len(ref), 8)]); {
	case ref == "":
		return nil, fail("", ErrInvalid, "The picture's name is empty; give a path, a URL or - for standard input.")
	case ref == "-":
		return readStdin(ctx, o)
	case strings.HasPrefix(lower, "data:"):
		return readDataURI(ref, o)
	case strings.HasPrefix(lower, "file:/"):
		return readFileURL(ctx, ref, o)
	case strings.HasPrefix(lower, "http://"), strings.HasPrefix(lower, "https://"):
		return readURL(ctx, ref, o)
	case scheme.MatchString(ref):
		name := printable(ref[:strings.Index(ref, "://")])
		return nil, fail(name, ErrInvalid, "URLs of the kind %s:// are not supported; use http, https, file or a path.", name)
	}
	return readFile(ctx, ref, o)
}

// fail makes an Error. That no argument holds a secret is the caller's care.
func fail(name string, err error, format string, args ...any) *Error {
	return &Error{Name: name, Text: fmt.Sprintf(format, args...), Err: err}
}

func tooLarge(name string, limit int64) *Error {
	return fail(name, ErrTooLarge, "%s is larger than the limit of %s; use a smaller picture or raise the limit.", subject(name), size(limit))
}

// interrupted is the error for a read that ended with its context.
func interrupted(ctx context.Context, name string) *Error {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(name, err, "%s was not read in time; try again or allow more time.", subject(name))
	}
	return fail(name, err, "Reading %s was cancelled.", name)
}

// subject is a name as the beginning of a sentence.
func subject(name string) string {
	switch name {
	case dataName:
		return "The data URI"
	case stdinName:
		return "Standard input"
	}
	return name
}

// size prints a number of bytes for a person.
func size(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n == 1:
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// maxName is the length in bytes at which names are cut in messages.
const maxName = 200

// printable makes a name fit for a terminal: control and invisible characters are
// escaped, and what is too long is cut in its middle.
func printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			s = strconv.QuoteToGraphic(s)
			s = s[1 : len(s)-1]
			break
		}
	}
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName/2], "") + "..." + strings.ToValidUTF8(s[len(s)-maxName/2:], "")
	}
	return s
}

// chunk is how much is read between two looks at the context.
const chunk = 1 << 20

// growOnce is the size from which a buffer of unknown end grows to the limit at once: old
// and new exist side by side, and of a new buffer only what is written takes memory.
const growOnce = 32 << 20

// readAll reads r to its end, expecting about expected bytes of it. More than limit
// bytes are ErrTooLarge itself.
func readAll(ctx context.Context, r io.Reader, expected, limit int64) ([]byte, error) {
	// One byte more than expected, so that the end is seen without growing.
	data := make([]byte, 0, max(min(expected, limit), 511)+1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			// At most one byte over the limit, which is enough to see that it is passed.
			next := 2 * int64(cap(data))
			if cap(data) >= growOnce {
				next = limit
			}
			grown := make([]byte, len(data), min(next, limit)+1)
			copy(grown, data)
			data = grown
		}
		n, err := r.Read(data[len(data):min(cap(data), len(data)+chunk)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

const stdinName = "standard input"

// readStdin reads Options.Stdin in a goroutine of its own, since a terminal or a
// pipe may never deliver and the context must still be obeyed.
func readStdin(ctx context.Context, o *Options) (*Input, error) {
	const name = stdinName
	if o.Stdin == nil {
		return nil, fail(name, ErrInvalid, "There is no standard input to read a picture from; give a path instead of -.")
	}
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := readAll(ctx, o.Stdin, 0, o.maxBytes())
		done <- result{data, err}
	}()

	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		// Files that are pipes can be told to give up.
		if d, ok := o.Stdin.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Unix(1, 0)) == nil {
			<-done
		}
		return nil, interrupted(ctx, name)
	}
	switch {
	case got.err == nil:
		return &Input{Name: name, Data: got.data}, nil
	case errors.Is(got.err, ErrTooLarge):
		return nil, tooLarge(name, o.maxBytes())
	case ctx.Err() != nil:
		return nil, interrupted(ctx, name)
	}
	return nil, fail(name, got.err, "Standard input could not be read to its end; save the picture to a file and name that.")
}
