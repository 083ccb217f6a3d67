//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/sandbox"
	"github.com/loupe-tools/loupe/sandbox/internal/egress"
)

// The attempts of the probes are in Python, which is on the desktop too.
//
//go:embed testdata/probe.py
var probeProgram string

// tried is what became of one attempt.
type tried struct {
	Name    string
	Through bool
	Text    string
}

// parameters are what a probe is told.
type parameters map[string]any

func (p parameters) arguments(t testing.TB, name string, control bool) []string {
	t.Helper()
	all := maps.Clone(p)
	all["control"] = control
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"-", name, string(data)}
}

// A surrounding runs a probe's program with arguments.
type surrounding func(t testing.TB, arguments []string) ([]byte, error)

// inside is a desktop.
func inside(d *sandbox.Desktop) surrounding {
	return func(t testing.TB, arguments []string) ([]byte, error) {
		c := d.Command("python3", arguments...)
		c.Stdin = strings.NewReader(probeProgram)
		return c.Output(t.Context())
	}
}

// onHost is the machine itself.
func onHost(t testing.TB, arguments []string) ([]byte, error) {
	return runOnHost(t, append([]string{"python3"}, arguments...))
}

// bare is a sandbox without what a desktop's has: its user is root there, and no system call
// is filtered.
func bare(t testing.TB, arguments []string) ([]byte, error) {
	return runOnHost(t, append([]string{"bwrap", "--unshare-all", "--uid", "0", "--gid", "0", "--cap-add", "ALL",
		"--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--setenv", "TMPDIR", "/tmp", "python3"}, arguments...))
}

func runOnHost(t testing.TB, command []string) ([]byte, error) {
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Stdin = strings.NewReader(probeProgram)
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: install it with: apt-get install python3-minimal bubblewrap", err)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return out, err
}

// probe runs a probe and returns what became of its attempts.
func probe(t testing.TB, where surrounding, name string, p parameters, control bool) []tried {
	t.Helper()
	out, err := where(t, p.arguments(t, name, control))
	if err != nil {
		t.Fatalf("the probe %s did not run: %v\n%s", name, err, out)
	}
	var all []tried
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var a tried
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("the probe %s said %q: %v", name, lines.Text(), err)
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		t.Fatalf("the probe %s has tried nothing", name)
	}
	return all
}

// mustFail runs a probe on a desktop, where nothing may get through, and where it is allowed,
// where everything must.
func mustFail(t *testing.T, d *sandbox.Desktop, name string, p parameters, allowed surrounding) {
	t.Helper()
	for _, a := range probe(t, inside(d), name, p, false) {
		if a.Through {
			t.Errorf("%s: it got through: %s", a.Name, a.Text)
		} else {
			t.Logf("%s: %s", a.Name, a.Text)
		}
	}
	for _, a := range probe(t, allowed, name, p, true) {
		if !a.Through {
			t.Errorf("%s: it fails where it is allowed, so it shows nothing: %s", a.Name, a.Text)
		}
	}
}

// internet is a network in the test's hands: names, addresses, and who answers there.
type internet struct {
	names   map[string]string // of hosts: their address
	servers map[string]string // of ADDRESS:PORT: where it listens in truth

	mu      sync.Mutex
	lookups []string
	dialled []string
}

func (n *internet) options() egress.Options { return egress.Options{Resolver: n, Dial: n.dial} }

func (n *internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	n.lookups = append(n.lookups, host)
	n.mu.Unlock()
	if address, ok := n.names[host]; ok {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (n *internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	to, ok := n.servers[address]
	if !ok {
		if netip.MustParseAddrPort(address).Addr().IsLoopback() {
			to = address
		} else {
			return nil, fmt.Errorf("nobody is at %s", address)
		}
	}
	return new(net.Dialer).DialContext(ctx, network, to)
}

// seen returns what was looked up and dialled so far.
func (n *internet) seen() (lookups, dialled []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lookups), slices.Clone(n.dialled)
}

// authority is a certificate authority for one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.certificate, a.key = sign(t, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Authority of a test"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

// sign makes a key and its certificate. Without an authority it is its own.
func sign(t testing.TB, c *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := c, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// PEM is the authority's certificate as text.
func (a *authority) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// forHosts makes a certificate for hosts.
func (a *authority) forHosts(t testing.TB, hosts ...string) tls.Certificate {
	t.Helper()
	c, key := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

// serve serves HTTP on a loopback port, with TLS when there is a certificate, and returns the
// address. It ends with the test.
func serve(t testing.TB, handler http.Handler, certificate *tls.Certificate) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// A probe's nonsense is not for the test's output.
	s := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	if certificate != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2", "http/1.1"}}
		go func() { _ = s.ServeTLS(l, "", "") }()
	} else {
		go func() { _ = s.Serve(l) }()
	}
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// eventLog collects the events of a desktop.
type eventLog struct {
	mu  sync.Mutex
	all []sandbox.Event
}

func (l *eventLog) add(e sandbox.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// attempts are those events that are of the network.
func (l *eventLog) attempts() (found []sandbox.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.Kind == sandbox.EventNetwork {
			found = append(found, *e.Attempt)
		}
	}
	return found
}
