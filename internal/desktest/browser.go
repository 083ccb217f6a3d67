package desktest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"image"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

//go:embed testdata/page.html
var page []byte

// Page is the state of the witness page, as the browser that shows it tells.
type Page struct {
	Text     string // of the text area
	Selected string // the selection in the text area when that has the focus, else in the page
	Slider   int    // 0 to 100
	Dropped  string // the id of the element that was dropped into the box
	Scroll   struct{ X, Y float64 }
	Hovered  bool   // the pointer is over the element "hover"
	Focus    string // the id of the element with the focus
	Focused  bool   // the page has the keyboard focus
	Ratio    float64
	Width    int // of the viewport, in CSS pixels
	Height   int

	Mouse []PageMouse
	Keys  []PageKey
	Wheel []PageWheel
	Drag  []string // dragstart, dragenter, dragover (a run of them once), drop, dragend
	Path  []PageStroke

	Elements map[string]struct{ X, Y, W, H int } // by id, in display pixels
}

// PageMouse is an event of a button of the mouse.
type PageMouse struct {
	Type      string // mousedown, mouseup, click, dblclick, auxclick, contextmenu
	Target    string // the id of the element
	X, Y      float64
	Button    int // 0 left, 1 middle, 2 right
	Count     int // of clicks in a row
	Modifiers string
}

// PageKey is an event of a key.
type PageKey struct {
	Type      string // keydown, keyup
	Key, Code string
	Modifiers string // of shift, ctrl, alt, meta, joined by +
	Repeat    bool
}

// PageWheel is an event of the wheel; X and Y are -1, 0 or 1.
type PageWheel struct {
	Target    string
	X, Y      int
	Modifiers string
}

// PageStroke is an event on the canvas, in its pixels, while a button is down.
type PageStroke struct {
	Type    string // mousedown, mousemove, mouseup
	X, Y    int
	Buttons int
}

// Rect returns where an element is, in display pixels. An unknown one is empty.
func (p Page) Rect(id string) image.Rectangle {
	e := p.Elements[id]
	return image.Rect(e.X, e.Y, e.X+e.W, e.Y+e.H)
}

// Center returns the middle of an element, in display pixels.
func (p Page) Center(id string) image.Point {
	r := p.Rect(id)
	return r.Min.Add(r.Max).Div(2)
}

// Events returns the events of one type, in order.
func (p Page) Events(kind string) []PageMouse {
	var events []PageMouse
	for _, e := range p.Mouse {
		if e.Type == kind {
			events = append(events, e)
		}
	}
	return events
}

// BrowserOptions set up a browser. The zero value fills the display with the page.
type BrowserOptions struct {
	// Window shows the page in an ordinary window with the browser's own bars, in the
	// place and size that the window manager gives it.
	Window bool
}

// Browser is a browser that shows the witness page: a text area, a button, a slider, drag
// and drop, a canvas, an area that scrolls, and a record of what happens to them.
type Browser struct {
	Name string

	pid      int
	evaluate func(ctx context.Context, ask string) ([]byte, error)
	stop     func()
	once     sync.Once
}

// Chromium starts Chromium on a display and waits until it shows the page. The page
// is read through the browser's debugging protocol. The browser ends with the test, or
// with Close.
func (s *Server) Chromium(t testing.TB, o BrowserOptions) *Browser {
	t.Helper()
	server := servePage(t)
	home := t.TempDir()
	profile := filepath.Join(home, "profile")
	// With a frame of its own, whose shadow counts as the window, the browser does not say
	// where its page is.
	const preferences = `{"browser": {"custom_chrome_frame": false}}`
	writeFile(t, filepath.Join(profile, "Default", "Preferences"), preferences)
	output := &tail{}
	var command *exec.Cmd
	flag := chromedp.Flag
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program(t, "chromium")),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.NoSandbox,
		chromedp.UserDataDir(profile),
		chromedp.CombinedOutput(output), chromedp.NoInheritEnv, chromedp.Env(browserEnv(s.name, home)...),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			endWithParent(c.SysProcAttr)
			command = c
		}),
		flag("test-type", true), // without it a bar warns of the missing sandbox
		flag("disable-smooth-scrolling", true), flag("disable-gpu", true), flag("disable-dev-shm-usage", true),
		flag("disable-background-networking", true), flag("disable-component-update", true),
		flag("disable-sync", true), flag("disable-extensions", true), flag("disable-default-apps", true),
		flag("disable-features", "Translate,OptimizationHints,MediaRouter"),
		flag("password-store", "basic"), flag("force-device-scale-factor", "1"),
		flag("ozone-platform", "x11"), flag("window-position", "0,0"),
	}
	if !o.Window {
		// Without a window manager only the size makes the window fill the display.
		size := s.Size(t)
		options = append(options, flag("kiosk", true), flag("window-size", fmt.Sprintf("%d,%d", size.X, size.Y)))
	}
	ctx, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	b := &Browser{Name: "chromium"}
	b.stop = func() {
		cancel()
		cancelAllocator()
		if command != nil && command.Process != nil {
			// What the browser leaves behind when it ends.
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		}
	}
	t.Cleanup(b.Close)
	b.evaluate = func(limit context.Context, ask string) ([]byte, error) {
		// The tab's life hangs on ctx, so the limit only ends the waiting.
		within, cancel := context.WithCancel(ctx)
		defer context.AfterFunc(limit, cancel)()
		defer cancel()
		return chromedp.Run(within, chromedp.Evaluate[[]byte](ask+"()", chromedp.EvalAwaitPromise))
	}
	start, done := context.WithTimeout(context.Background(), patience)
	defer done()
	defer context.AfterFunc(start, cancel)()
	if _, err := chromedp.Run(ctx, chromedp.Navigate(server.URL+"/")); err != nil {
		t.Fatalf("chromium does not show the page: %v", err)
	}
	if command != nil && command.Process != nil {
		b.pid = command.Process.Pid
	}
	b.ready(t)
	return b
}

// firefoxPreferences keep Firefox to the one page: no first-run tabs, no updates, no
// questions, no restored session.
const firefoxPreferences = `
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("startup.homepage_welcome_url", "");
user_pref("startup.homepage_override_url", "");
user_pref("browser.startup.page", 0);
user_pref("browser.startup.firstrunSkipsHomepage", true);
user_pref("browser.sessionstore.resume_from_crash", false);
user_pref("browser.tabs.warnOnClose", false);
user_pref("browser.tabs.firefox-view", false);
user_pref("browser.warnOnQuit", false);
user_pref("browser.uitour.enabled", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.region.network.url", "");
user_pref("browser.translations.enable", false);
user_pref("app.update.enabled", false);
user_pref("app.update.auto", false);
user_pref("app.normandy.enabled", false);
user_pref("app.shield.optoutstudies.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("datareporting.policy.dataSubmissionPolicyBypassNotification", true);
user_pref("datareporting.healthreport.uploadEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);
user_pref("termsofuse.bypassNotification", true);
user_pref("trailhead.firstrun.didSeeAboutWelcome", true);
user_pref("extensions.update.enabled", false);
user_pref("extensions.getAddons.cache.enabled", false);
user_pref("extensions.pocket.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disablePrefetch", true);
user_pref("network.prefetch-next", false);
user_pref("full-screen-api.warning.timeout", 0);
user_pref("layout.css.devPixelsPerPx", "1.0");
user_pref("general.smoothScroll", false);
user_pref("services.settings.server", "data:,");
`

// Firefox starts Firefox on a display and waits until it shows the page, which
// answers questions by posting to a server of the test. The browser ends with the test, or
// with Close.
func (s *Server) Firefox(t testing.TB, o BrowserOptions) *Browser {
	t.Helper()
	server := servePage(t)
	home := t.TempDir()
	profile := filepath.Join(home, "profile")
	writeFile(t, filepath.Join(profile, "user.js"), firefoxPreferences)
	arguments := []string{"--no-remote", "--profile", profile}
	if !o.Window {
		size := s.Size(t)
		arguments = append(arguments, "--kiosk", "--width", strconv.Itoa(size.X), "--height", strconv.Itoa(size.Y))
	}
	command := exec.Command(program(t, "firefox"), append(arguments, server.URL+"/#ask")...)
	command.Env = browserEnv(s.name, home)
	p := launch(t, command)
	b := &Browser{Name: "firefox", pid: command.Process.Pid, evaluate: server.ask, stop: p.kill}
	t.Cleanup(b.Close)
	b.ready(t)
	return b
}

// ready waits until the page answers and has its final size.
func (b *Browser) ready(t testing.TB) {
	t.Helper()
	last := Page{}
	b.Wait(t, "a page whose size has settled", func(p Page) bool {
		settled := p.Width > 600 && p.Width == last.Width && p.Height == last.Height &&
			p.Elements["text"] == last.Elements["text"]
		last = p
		return settled
	})
}

// PID returns the process id of the browser.
func (b *Browser) PID() int { return b.pid }

// Close ends the browser and all its processes. Closing again does nothing.
func (b *Browser) Close() { b.once.Do(b.stop) }

// Page returns the state of the page as it is now.
func (b *Browser) Page(t testing.TB) Page {
	t.Helper()
	p, err := b.page()
	if err != nil {
		t.Fatalf("asking %s about its page: %v", b.Name, err)
	}
	return p
}

func (b *Browser) page() (Page, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	data, err := b.evaluate(ctx, "snapshot")
	if err != nil {
		return Page{}, err
	}
	var p Page
	return p, json.Unmarshal(data, &p)
}

// Clear forgets what happened on the page and puts its controls back to their first state.
func (b *Browser) Clear(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := b.evaluate(ctx, "clear"); err != nil {
		t.Fatalf("clearing the page in %s: %v", b.Name, err)
	}
}

// Wait asks about the page until it is as wanted, and returns it. The test fails when that
// takes too long; the message has the last state.
func (b *Browser) Wait(t testing.TB, what string, wanted func(Page) bool) Page {
	t.Helper()
	var p Page
	err := wait(nil, func() (err error) {
		if p, err = b.page(); err == nil && !wanted(p) {
			err = errNotYet
		}
		return err
	})
	if err != nil {
		p.Elements = nil
		last, _ := json.MarshalIndent(p, "", "  ")
		t.Fatalf("%s has not got %s: %v; its page is\n%s", b.Name, what, err, last)
	}
	return p
}

// pageServer serves the page on the loopback and puts questions to it.
type pageServer struct {
	*httptest.Server
	questions chan string
	closing   chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[int]chan json.RawMessage
}

func servePage(t testing.TB) *pageServer {
	s := &pageServer{questions: make(chan string), closing: make(chan struct{}), waiting: map[int]chan json.RawMessage{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /questions", s.stream)
	mux.HandleFunc("POST /answer", s.answer)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.closing)
		s.Close()
	})
	return s
}

// stream sends questions to the page as they come.
func (s *pageServer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher, ok := w.(http.Flusher)
	if !ok {
		return
	}
	flusher.Flush()
	for {
		select {
		case q := <-s.questions:
			fmt.Fprintf(w, "data: %s\n\n", q)
			flusher.Flush()
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
}

func (s *pageServer) answer(w http.ResponseWriter, r *http.Request) {
	var a struct {
		ID     int             `json:"id"`
		Answer json.RawMessage `json:"answer"`
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		slog.Error("The page's answer cannot be read.", "error", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.waiting[a.ID]; c != nil {
		c <- a.Answer
		delete(s.waiting, a.ID)
	}
}

// ask puts a question to the page and waits for the answer.
func (s *pageServer) ask(ctx context.Context, ask string) ([]byte, error) {
	c := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.last++
	id := s.last
	s.waiting[id] = c
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	select {
	case s.questions <- fmt.Sprintf(`{"id": %d, "ask": %q}`, id, ask):
	case <-ctx.Done():
		return nil, fmt.Errorf("the page does not listen: %w", ctx.Err())
	}
	select {
	case a := <-c:
		return a, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the page does not answer: %w", ctx.Err())
	}
}

// browserEnv is the whole environment of a browser: nothing of the user's gets in.
func browserEnv(display, home string) []string {
	return []string{
		"DISPLAY=" + display, "HOME=" + home, "XDG_RUNTIME_DIR=" + home, "TMPDIR=" + home,
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8",
		"DBUS_SESSION_BUS_ADDRESS=disabled:", "NO_AT_BRIDGE=1",
		"MOZ_CRASHREPORTER_DISABLE=1", "GTK_IM_MODULE=gtk-im-context-simple",
	}
}

// writeFile writes a file and makes the folders that it is in.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
