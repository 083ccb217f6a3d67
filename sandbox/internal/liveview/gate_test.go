package liveview_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

// gated is a gate before a handler that says "inside".
type gated struct {
	*liveview.Gate
	handler http.Handler
	now     time.Time
	spent   int
}

func newGated() *gated {
	g := &gated{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	g.Gate = liveview.NewGate(&liveview.GateOptions{
		Title: `<b>"Ada"</b>`, Hosts: []string{"desk.example"},
		Spent: func() { g.spent++ }, Now: func() time.Time { return g.now }, Log: slog.New(slog.DiscardHandler),
	})
	g.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "inside") }))
	return g
}

// ask sends a request as it is, with headers "Name: value".
func (g *gated) ask(method, target, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:6080"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w.Result()
}

const (
	ownOrigin = "Origin: http://127.0.0.1:6080"
	formType  = "Content-Type: application/x-www-form-urlencoded"
)

func (g *gated) signIn(password string, headers ...string) *http.Response {
	return g.ask("POST", "/sign-in", url.Values{"password": {password}}.Encode(), append([]string{ownOrigin, formType}, headers...)...)
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGatePasswordWorksOnce(t *testing.T) {
	g := newGated()
	password := g.Issue()
	// However it was copied.
	r := g.signIn(" " + strings.ToLower(strings.ReplaceAll(password, "-", " ")) + "\n")
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" {
		t.Fatalf("the password got %s to %q", r.Status, r.Header.Get("Location"))
	}
	cookie := r.Header.Get("Set-Cookie")
	for _, part := range []string{"loupe-6080=", "; Path=/", "; HttpOnly", "; SameSite=Strict"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie %q lacks %q", cookie, part)
		}
	}
	if strings.Contains(cookie, "Domain") || strings.Contains(cookie, "Max-Age") || strings.Contains(cookie, "Expires") {
		t.Errorf("the cookie %q outlives the browser or is for other hosts", cookie)
	}
	held := "Cookie: " + strings.Split(cookie, ";")[0]
	if r := g.ask("GET", "/", "", held); r.StatusCode != http.StatusOK || text(t, r) != "inside" {
		t.Errorf("the session gets %s", r.Status)
	}
	if r := g.ask("GET", "/", "", held+"A"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("another session gets %s", r.Status)
	}
	r = g.signIn(password, "Accept: text/html")
	if page := text(t, r); r.StatusCode != http.StatusForbidden || !strings.Contains(page, "has been used already") {
		t.Errorf("the second use of the password got %s", r.Status)
	}
	if g.spent != 1 {
		t.Errorf("the program was told %d times that a password was spent", g.spent)
	}
	// Whoever comes next has a password of their own, and the first stays in.
	if r := g.signIn(g.Issue()); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the second password got %s", r.Status)
	}
	if r := g.ask("GET", "/", "", held); r.StatusCode != http.StatusOK {
		t.Errorf("the first session then gets %s", r.Status)
	}
}

func TestGateLimitsGuesses(t *testing.T) {
	g := newGated()
	password := g.Issue()
	for i := range 5 {
		if r := g.signIn("AAAA-AAAA-AAAA-AAAA"); r.StatusCode != http.StatusForbidden {
			t.Fatalf("wrong password %d got %s", i+1, r.Status)
		}
	}
	r := g.signIn(password)
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "2" || !strings.Contains(text(t, r), "Try again in 2 s.") {
		t.Fatalf("after five wrong ones a password got %s, Retry-After %q", r.Status, r.Header.Get("Retry-After"))
	}
	g.now = g.now.Add(2 * time.Second)
	if r := g.signIn(password); r.StatusCode != http.StatusSeeOther {
		t.Errorf("after the wait the password got %s", r.Status)
	}
	if r := g.signIn(""); r.StatusCode != http.StatusForbidden && r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("no password got %s", r.Status)
	}
	if r := g.signIn(strings.Repeat("A", 4000)); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a password of 4000 characters got %s", r.Status)
	}
}

func TestGateForgetsOldPasswords(t *testing.T) {
	g := newGated()
	first, second := g.Issue(), g.Issue()
	for range 15 {
		g.Issue()
	}
	if r := g.signIn(first); r.StatusCode != http.StatusForbidden {
		t.Errorf("the oldest of 17 got %s", r.Status)
	}
	if r := g.signIn(second); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the oldest of the newest 16 got %s", r.Status)
	}
}

func TestGateAsks(t *testing.T) {
	g := newGated()
	r := g.ask("GET", "/", "", "Accept: text/html,*/*;q=0.8")
	page := text(t, r)
	if r.StatusCode != http.StatusUnauthorized || !strings.Contains(page, `name="password"`) {
		t.Fatalf("a browser gets %s\n%s", r.Status, page)
	}
	if strings.Contains(page, "<b>") || !strings.Contains(page, "&lt;b&gt;") {
		t.Error("the title is markup on the page")
	}
	want := map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
	}
	for name, value := range want {
		if got := r.Header.Get(name); got != value {
			t.Errorf("%s is %q", name, got)
		}
	}
	policy := r.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'nonce-"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy %q lacks %q", policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	if r := g.ask("GET", "/", "", "Accept: */*"); r.StatusCode != http.StatusUnauthorized || strings.Contains(text(t, r), "<") {
		t.Errorf("a program gets %s and a page", r.Status)
	}
}

func TestGateHostAndOrigin(t *testing.T) {
	g := newGated()
	session := "Cookie: " + strings.Split(g.signIn(g.Issue()).Header.Get("Set-Cookie"), ";")[0]
	// The cookie's name has the port of the Host, so the ones behind a tunnel have another.
	tunnel := strings.Replace(session, "6080", "7000", 1)
	named := strings.Replace(session, "-6080", "", 1)
	upgrade := "Upgrade: websocket"
	for _, c := range []struct {
		name    string
		method  string
		headers []string
		want    int
	}{
		{"plain", "GET", []string{session}, 200},
		{"localhost", "GET", []string{session, "Host: localhost:6080"}, 200},
		{"IPv6", "GET", []string{session, "Host: [::1]:6080"}, 200},
		{"another port, as behind a tunnel", "GET", []string{tunnel, "Host: localhost:7000"}, 200},
		{"a name that was given", "GET", []string{named, "Host: DESK.example"}, 200},
		{"a name that points here", "GET", []string{session, "Host: evil.example:6080"}, 403},
		{"a name that begins like loopback", "GET", []string{session, "Host: 127.0.0.1.evil.example:6080"}, 403},
		{"localhost as a part", "GET", []string{session, "Host: localhost.evil.example:6080"}, 403},
		{"an address of another machine", "GET", []string{session, "Host: 10.0.0.1:6080"}, 403},
		{"no host", "GET", []string{session, "Host: "}, 403},
		{"a port that is none", "GET", []string{session, "Host: 127.0.0.1:x"}, 403},

		{"websocket of our page", "GET", []string{session, upgrade, ownOrigin}, 200},
		{"websocket without an origin", "GET", []string{session, upgrade}, 403},
		{"websocket of another site", "GET", []string{session, upgrade, "Origin: http://evil.example"}, 403},
		{"websocket of another port", "GET", []string{session, upgrade, "Origin: http://127.0.0.1:6081"}, 403},
		{"websocket of another scheme", "GET", []string{session, upgrade, "Origin: https://127.0.0.1:6080"}, 403},
		{"websocket of a sandboxed frame", "GET", []string{session, upgrade, "Origin: null", "Sec-Fetch-Site: same-origin"}, 403},
		{"websocket with two origins", "GET", []string{session, upgrade, ownOrigin, "Origin: http://evil.example"}, 403},

		{"post of our page", "POST", []string{session, ownOrigin}, 200},
		{"post without an origin", "POST", []string{session}, 403},
		{"post of another site", "POST", []string{session, "Origin: http://evil.example"}, 403},
		{"post of a frame", "POST", []string{session, "Origin: null", "Sec-Fetch-Site: cross-site"}, 403},
		{"post of our form under no-referrer", "POST", []string{session, "Origin: null", "Sec-Fetch-Site: same-origin"}, 200},

		{"an image on another site", "GET", []string{session, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403},
		{"a script on another port", "GET", []string{session, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403},
		{"a frame on another site", "GET", []string{session, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"a link on another site", "GET", []string{session, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"a link on another site, cookie held back", "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.ask(c.method, "/x", "", c.headers...)
			if body := text(t, r); r.StatusCode != c.want || (c.want == 200) != (body == "inside") {
				t.Errorf("%s, %q", r.Status, body)
			}
		})
	}
	if r := g.signIn(g.Issue(), "Origin: http://evil.example"); r.StatusCode != http.StatusForbidden || r.Header.Get("Set-Cookie") != "" {
		t.Errorf("signing in from another site got %s", r.Status)
	}
}
