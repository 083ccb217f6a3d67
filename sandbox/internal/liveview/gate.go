package liveview

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the sign-in page
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GateOptions set up a Gate. The zero value is right.
type GateOptions struct {
	// Title names what is behind the gate, on the sign-in page.
	Title string

	// Hosts are names, without a port, under which browsers may reach the server beside
	// the loopback ones, which are always right.
	Hosts []string

	// Spent is called after a password has let a browser in, so that the program can issue
	// and show the next one. It must return soon.
	Spent func()

	Now func() time.Time // time.Now when nil
	Log *slog.Logger     // slog.Default() when nil
}

// Gate stands before an HTTP handler and lets browsers in that were given a one-time
// password. It is safe for concurrent use.
//
// The first use of a password (POST /sign-in) exchanges it for a session, held by a
// cookie, and spends it; the session lasts as long as the Gate and the browser. So a link
// that is found in a history or over a shoulder is worth nothing. Whoever else is to come
// in needs a password of their own, from Issue.
//
// Requests are refused whose Host is neither a loopback name nor one of Options.Hosts,
// which is what a page of another site sends that has had its name point here, and those
// that another site's page makes. Cookies do not tell ports apart: another server on this
// machine's loopback address that a browser visits is sent the session's cookie, so whoever
// may run servers on this machine is trusted.
type Gate struct {
	title string
	hosts []string
	spent func()
	now   func() time.Time
	log   *slog.Logger
	page  *template.Template

	mu        sync.Mutex
	passwords [][sha256.Size]byte // oldest first
	sessions  [][sha256.Size]byte // oldest first
	guesses   float64             // how many wrong passwords may come now
	counted   time.Time           // when guesses was right
}

const (
	mostPasswords  = 16
	mostSessions   = 64
	mostGuesses    = 5               // wrong passwords in a row
	guessEvery     = 2 * time.Second // and then one each
	passwordLength = 16              // characters of base 32: 80 bits
	signInPath     = "/sign-in"
)

//go:embed page/signin.html
var signInPage string

// NewGate returns a Gate that no password opens yet.
func NewGate(o *GateOptions) *Gate {
	if o == nil {
		o = &GateOptions{}
	}
	g := &Gate{
		title: o.Title, hosts: []string{"localhost"}, spent: o.Spent, now: o.Now, log: o.Log,
		guesses: mostGuesses, page: template.Must(template.New("").Parse(signInPage)),
	}
	if g.title == "" {
		g.title = "Loupe"
	}
	for _, h := range o.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.Trim(h, "[]")))
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	g.counted = g.now()
	return g
}

// Issue returns a new password, good for one browser. Of passwords that nobody has used,
// the newest 16 are good.
func (g *Gate) Issue() string {
	password := rand.Text()[:passwordLength]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passwords = append(g.passwords, sha256.Sum256([]byte(password)))
	if extra := len(g.passwords) - mostPasswords; extra > 0 {
		g.passwords = slices.Delete(g.passwords, 0, extra)
	}
	var groups []string
	for c := range slices.Chunk([]byte(password), 4) {
		groups = append(groups, string(c))
	}
	return strings.Join(groups, "-")
}

// URL returns the link that signs a browser in: the address that the server listens on
// with a new password. The password is in the fragment, which browsers do not send and
// servers do not log; the sign-in page takes it from there.
func (g *Gate) URL(a net.Addr) string {
	return (&url.URL{Scheme: "http", Host: a.String(), Path: "/", Fragment: g.Issue()}).String()
}

// Wrap returns a handler that passes to next what may come in. Every other request gets
// 401, 403 or 429, with the sign-in page where a person is looking.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=(), serial=(), hid=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		switch {
		case !g.rightHost(r.Host):
			g.log.Warn("A request for another host was refused.", "host", r.Host, "from", r.RemoteAddr)
			http.Error(w, "This server is not "+strconv.Quote(r.Host)+". Open it by the address that it printed.", http.StatusForbidden)
		case !rightOrigin(r):
			g.log.Warn("A request from another site's page was refused.", "origin", r.Header.Get("Origin"), "path", r.URL.Path, "from", r.RemoteAddr)
			http.Error(w, "Another site's page may not use this server.", http.StatusForbidden)
		case r.Method == http.MethodPost && r.URL.Path == signInPath:
			g.signIn(w, r)
		case !g.signedIn(r):
			g.askPassword(w, r, http.StatusUnauthorized, "")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// rightHost says whether a Host header names this server. The port is free: behind an SSH
// tunnel it is another.
func (g *Gate) rightHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	if a, err := netip.ParseAddr(name); err == nil && a.Unmap().IsLoopback() {
		return true
	}
	return slices.Contains(g.hosts, strings.ToLower(name))
}

// rightOrigin says whether a request comes from a page of this server, or from a person
// who opens one. Browsers send Origin with whatever may change something and with every
// websocket.
func rightOrigin(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	site := r.Header.Get("Sec-Fetch-Site")
	opened := reads && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if site != "" && site != "same-origin" && site != "none" && !opened {
		return false
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return reads && r.Header.Get("Upgrade") == ""
	}
	if len(origins) == 1 && origins[0] == "null" && r.Header.Get("Upgrade") == "" {
		// What a form sends under the referrer policy of the sign-in page. The other header
		// is the browser's own, which no page can set.
		return site == "same-origin"
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return len(origins) == 1 && strings.EqualFold(origins[0], scheme+"://"+r.Host)
}

// cookieName is that of the session's cookie. Cookies are shared by all ports of a host, so
// the port is in the name.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return "loupe-" + port
	}
	return "loupe"
}

func (g *Gate) signedIn(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(r.CookiesNamed(cookieName(r)), func(c *http.Cookie) bool {
		return find(g.sessions, c.Value) >= 0
	})
}

// find returns the index of the hash of a secret, or -1, in a time that says nothing about
// the secrets.
func find(hashes [][sha256.Size]byte, secret string) int {
	sum := sha256.Sum256([]byte(secret))
	found := -1
	for i := range hashes {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hashes[i][:], sum[:]), i, found)
	}
	return found
}

// signIn exchanges a password for a session.
func (g *Gate) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	if err := r.ParseForm(); err != nil {
		g.askPassword(w, r, http.StatusBadRequest, "The password did not arrive. Try again.")
		return
	}
	// However it was typed or copied: letters of either case, dashes and spaces anywhere.
	password := strings.ToUpper(strings.NewReplacer("-", "", " ", "", "#", "").Replace(strings.TrimSpace(r.PostForm.Get("password"))))
	session, wait := g.exchange(password)
	switch {
	case wait > 0:
		seconds := int(math.Ceil(wait.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		g.askPassword(w, r, http.StatusTooManyRequests, fmt.Sprintf("Too many wrong passwords. Try again in %d s.", seconds))
		return
	case session == "":
		g.log.Warn("A wrong or spent password was refused.", "from", r.RemoteAddr)
		g.askPassword(w, r, http.StatusForbidden, "That password is wrong, or it has been used already: each works once.")
		return
	}
	g.log.Info("A browser has signed in.", "from", r.RemoteAddr)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: session, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	if g.spent != nil {
		g.spent()
	}
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusSeeOther)
}

// exchange returns a new session for a good password, which it spends, or how long nobody
// may try.
func (g *Gate) exchange(password string) (session string, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.guesses = min(mostGuesses, g.guesses+now.Sub(g.counted).Seconds()/guessEvery.Seconds())
	g.counted = now
	if g.guesses < 1 {
		return "", time.Duration((1 - g.guesses) * float64(guessEvery))
	}
	i := find(g.passwords, password)
	if i < 0 {
		g.guesses--
		return "", 0
	}
	g.passwords = slices.Delete(g.passwords, i, i+1)
	session = rand.Text()
	g.sessions = append(g.sessions, sha256.Sum256([]byte(session)))
	if extra := len(g.sessions) - mostSessions; extra > 0 {
		g.sessions = slices.Delete(g.sessions, 0, extra)
	}
	return session, 0
}

// askPassword answers with the sign-in page where a page is wanted, and with a line of text
// elsewhere.
func (g *Gate) askPassword(w http.ResponseWriter, r *http.Request, status int, message string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		if message == "" {
			message = "Sign in first: open / in a browser."
		}
		http.Error(w, message, status)
		return
	}
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+
		"'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	w.WriteHeader(status)
	fields := struct{ Title, Nonce, Message, Action string }{g.title, nonce, message, signInPath}
	if err := g.page.Execute(w, fields); err != nil {
		g.log.Debug("The sign-in page did not arrive.", "error", err)
	}
}
