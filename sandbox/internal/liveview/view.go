package liveview

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Options set up a View.
type Options struct {
	// Dial connects to the VNC server, once for each viewer. It is required. The
	// connection is the View's to close.
	Dial func(ctx context.Context) (net.Conn, error)

	// VNCPassword is the server's. When it is empty the server must ask for none.
	VNCPassword string

	// Name is what the desktop is called on the page.
	Name string

	// ViewOnly drops what viewers do with mouse, keyboard and clipboard.
	ViewOnly bool

	// Clipboard is the desktop's. Without it the page has none.
	Clipboard Clipboard

	// Input is called with what a person does on the desktop, before the server gets it.
	// It is called from several goroutines and must return soon.
	Input func(Input)

	// Gate is what viewers pass; the page makes further passwords with it. One with the
	// desktop's name as its title when nil.
	Gate *Gate

	// Static has noVNC's files, with core and vendor at its top. Debian's
	// /usr/share/novnc when nil.
	Static fs.FS

	Log *slog.Logger // slog.Default() when nil
}

// Clipboard reads and writes the clipboard of a desktop. It is used by several goroutines.
//
// VNC's own way is not used: x11vnc passes no text on to the desktop, and knows Latin-1
// alone.
type Clipboard interface {
	// Read returns the text, or "" where there is none.
	Read(ctx context.Context) (string, error)
	// Write puts text there, in UTF-8 and of 1 MB at the most.
	Write(ctx context.Context, text string) error
}

// Input is something that a person did on the desktop through the page.
type Input struct {
	Kind InputKind
	Time time.Time

	// Buttons and Keys are how many of the mouse's buttons and of the keyboard's keys this
	// viewer holds down now.
	Buttons, Keys int
}

// InputKind says what a person used.
type InputKind string

// The kinds of input.
const (
	Move   InputKind = "move"   // of the pointer, with or without buttons down
	Button InputKind = "button" // a button of the mouse or its wheel, down or up
	Key    InputKind = "key"    // a key, down or up
	CopyIn InputKind = "copy"   // text for the desktop's clipboard
)

// View is the HTTP handler of one desktop's live view. It is safe for concurrent use.
type View struct {
	dial     func(ctx context.Context) (net.Conn, error)
	password string
	name     string
	viewOnly bool
	clips    Clipboard
	input    func(Input)
	gate     *Gate
	log      *slog.Logger
	handler  http.Handler

	life    context.Context // of all viewers; ended by Close
	end     context.CancelFunc
	viewers sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	count     int // viewers that are connected
	holding   int // buttons and keys that they hold
	lastInput time.Time
}

// MissingError says that noVNC's files are not where they should be.
type MissingError struct {
	Err error
}

// Error is one sentence with the command that helps.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the live view needs noVNC, which is missing (%v); install it with: apt-get install novnc", e.Err)
}

// Unwrap returns the cause.
func (e *MissingError) Unwrap() error { return e.Err }

//go:embed page/index.html page/page.js page/page.css
var pageFiles embed.FS

const (
	mostViewers = 16
	novncFolder = "/usr/share/novnc"
)

// New returns a View. Close it when the desktop ends. The error is a *MissingError when
// noVNC's files are not there.
func New(o *Options) (*View, error) {
	if o == nil || o.Dial == nil {
		return nil, errors.New("a live view needs a way to reach the VNC server")
	}
	v := &View{
		dial: o.Dial, password: o.VNCPassword, name: o.Name, viewOnly: o.ViewOnly,
		clips: o.Clipboard, input: o.Input, gate: o.Gate, log: o.Log,
	}
	if v.log == nil {
		v.log = slog.Default()
	}
	if v.name == "" {
		v.name = "Desktop"
	}
	if v.gate == nil {
		v.gate = NewGate(&GateOptions{Title: v.name, Log: v.log})
	}
	scripts, err := loadNoVNC(o.Static)
	if err != nil {
		return nil, &MissingError{err}
	}
	mux := http.NewServeMux()
	const script = "text/javascript; charset=utf-8"
	for _, file := range []struct{ url, name, contentType string }{
		{"/{$}", "index.html", "text/html; charset=utf-8"},
		{"/page.js", "page.js", script},
		{"/page.css", "page.css", "text/css; charset=utf-8"},
	} {
		data, err := pageFiles.ReadFile("page/" + file.name)
		if err != nil {
			return nil, err
		}
		mux.HandleFunc("GET "+file.url, serveBytes(data, file.contentType))
	}
	for name, data := range scripts {
		mux.HandleFunc("GET /novnc/"+name, serveBytes(data, script))
	}
	mux.HandleFunc("GET /state", v.serveState)
	mux.HandleFunc("POST /invite", v.serveInvite)
	mux.HandleFunc("GET /socket", v.serveSocket)
	if v.clips != nil {
		mux.HandleFunc("GET /clipboard", v.readClipboard)
		mux.HandleFunc("POST /clipboard", v.writeClipboard)
	}
	v.handler = v.gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// noVNC draws the pointer as an image with a data URI. Browsers that take 'self' for
		// HTTP alone need the websocket's address.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self' ws://"+r.Host+" wss://"+r.Host+"; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		mux.ServeHTTP(w, r)
	}))
	v.life, v.end = context.WithCancel(context.Background())
	return v, nil
}

// loadNoVNC reads the scripts of noVNC's core and vendor folders, by their path.
func loadNoVNC(files fs.FS) (map[string][]byte, error) {
	if files == nil {
		root, err := os.OpenRoot(novncFolder)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		files = root.FS()
	}
	const mostFiles, mostBytes = 200, 8 << 20
	scripts, size := map[string][]byte{}, 0
	for _, top := range []string{"core", "vendor"} {
		err := fs.WalkDir(files, top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || path.Ext(name) != ".js" || strings.ContainsAny(name, "{} ") {
				return err
			}
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			scripts[name] = data
			if size += len(data); size > mostBytes || len(scripts) > mostFiles {
				return fmt.Errorf("there is more in %s than noVNC", top)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if _, ok := scripts["core/rfb.js"]; !ok {
		return nil, &fs.PathError{Op: "open", Path: "core/rfb.js", Err: fs.ErrNotExist}
	}
	return scripts, nil
}

func serveBytes(data []byte, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(data)
	}
}

// ServeHTTP answers a request, after the Gate.
func (v *View) ServeHTTP(w http.ResponseWriter, r *http.Request) { v.handler.ServeHTTP(w, r) }

// Gate returns what stands before the view.
func (v *View) Gate() *Gate { return v.gate }

// LastInput returns when a person last did something on the desktop, or the zero time.
func (v *View) LastInput() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lastInput
}

// Holding says whether a person holds a button of the mouse or a key down now.
func (v *View) Holding() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.holding > 0
}

// Viewers returns how many viewers are connected.
func (v *View) Viewers() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.count
}

// Close ends all viewers' connections, and returns when they have ended. Closing again
// does nothing.
func (v *View) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.end()
	v.viewers.Wait()
}

// state is what the page asks for.
type state struct {
	Name      string `json:"name"`
	ViewOnly  bool   `json:"viewOnly"`
	Clipboard bool   `json:"clipboard"`
	Viewers   int    `json:"viewers"`
}

func (v *View) serveState(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, state{Name: v.name, ViewOnly: v.viewOnly, Clipboard: v.clips != nil, Viewers: v.Viewers()})
}

// serveInvite gives somebody who is in a password for somebody else.
func (v *View) serveInvite(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, struct {
		Password string `json:"password"`
	}{v.gate.Issue()})
}

const (
	mostClipboard  = 1 << 20 // bytes
	clipboardLimit = 10 * time.Second
)

type clipboardText struct {
	Text string `json:"text"`
}

func (v *View) readClipboard(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), clipboardLimit)
	defer cancel()
	text, err := v.clips.Read(ctx)
	if err != nil {
		v.log.Warn("The desktop's clipboard cannot be read.", "error", err)
		http.Error(w, "The desktop's clipboard cannot be read.", http.StatusBadGateway)
		return
	}
	writeJSON(w, clipboardText{strings.ToValidUTF8(text[:min(len(text), mostClipboard)], "\ufffd")})
}

func (v *View) writeClipboard(w http.ResponseWriter, r *http.Request) {
	if v.viewOnly {
		http.Error(w, "This desktop can only be watched.", http.StatusForbidden)
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostClipboard))
	switch {
	case err != nil:
		http.Error(w, "The text is too long for the clipboard: 1 MB is the most.", http.StatusRequestEntityTooLarge)
		return
	case !utf8.Valid(data):
		http.Error(w, "The text is not UTF-8.", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), clipboardLimit)
	defer cancel()
	v.report(Input{Kind: CopyIn}, 0)
	if err := v.clips.Write(ctx, string(data)); err != nil {
		v.log.Warn("The desktop's clipboard cannot be written.", "error", err)
		http.Error(w, "The desktop's clipboard cannot be written.", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// report takes down that a person did something, and by how much what they hold changes.
func (v *View) report(i Input, holding int) {
	i.Time = time.Now()
	v.mu.Lock()
	v.lastInput = i.Time
	v.holding += holding
	v.mu.Unlock()
	if v.input != nil {
		v.input(i)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the viewer may have gone
}
