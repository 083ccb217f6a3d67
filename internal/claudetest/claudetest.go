// Package claudetest is a strict double of the Messages API, for tests: an HTTP
// server that answers POST /v1/messages from a script, whole or as server-sent
// events, and refuses every request that the API refuses, with the API's status
// and error shape.
//
// It keeps what a test wants to assert afterwards: each request as it came, its
// images and their sizes, its cache breakpoints, and its usage. Tokens are counted
// here and the prompt cache is modelled here, so that the share of cached input is
// a fact of the requests and not of the script.
//
// Where the double is stricter than the API, the rule says so: an assistant turn
// that the double has issued must come back unchanged, text and calls included,
// because a loop that alters its own history is broken even where the API would
// not notice.
package claudetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loupe-tools/loupe/internal/wire"
)

// The keys that the double knows. Any key other than RefusedKey is accepted.
const (
	Key        = "sk-test"
	RefusedKey = "sk-refused" // answered with a 401 authentication_error
)

// Options set the limits of a double. The zero value and nil are the API's own
// documented limits.
type Options struct {
	Models         map[string]Model // models that exist, by name; nil is Models()
	MaxBody        int              // bytes of a request's body; 0 is 32 MB (32 * 1024 * 1024)
	MaxImageBytes  int              // bytes of one image's base64 text; 0 is 5,242,880
	MinCacheTokens int              // smallest prefix that is cached, in tokens; 0 is the model's own

	// Report hears of every failure of the script: it ran out, an expectation did not
	// hold, a turn could not be served. New sets it to t.Error.
	Report func(message string)
	// Log hears of every request that is refused and of every image that would be
	// scaled down silently. New sets it to t.Log.
	Log func(message string)
	// AllowUnused keeps New from failing the test when turns of the script are left.
	AllowUnused bool
}

// Handler is the double as an http.Handler, for use outside a test. It is safe for
// concurrent use; requests take turns from the script in the order in which they
// pass validation.
type Handler struct {
	options Options
	models  map[string]Model
	closed  chan struct{} // closed by Close; ends the turns that hang
	hung    chan struct{}
	once    sync.Once
	blobs   *blobs

	mu       sync.Mutex
	script   []Turn
	requests []*Request
	failures []string
	counts   struct{ request, message, tool, thinking int }
	memory   memory
	cache    cache
}

// NewHandler makes a double that answers with the turns of script, one a request.
// The caller closes it when turns that hang shall end.
func NewHandler(o *Options, script ...Turn) *Handler {
	h := &Handler{closed: make(chan struct{}), hung: make(chan struct{}, 1024), script: append([]Turn(nil), script...)}
	if o != nil {
		h.options = *o
	}
	setDefault(&h.options.MaxBody, 32<<20)
	setDefault(&h.options.MaxImageBytes, 5<<20)
	h.models = h.options.Models
	if h.models == nil {
		h.models = Models()
	}
	h.blobs = newBlobs()
	h.memory = newMemory()
	h.cache = cache{}
	return h
}

func setDefault(value *int, standard int) {
	if *value == 0 {
		*value = standard
	}
}

// Close ends the turns that hang. Closing twice is fine.
func (h *Handler) Close() { h.once.Do(func() { close(h.closed) }) }

// Requests returns every request that has come so far, refused ones included, in
// the order of their arrival. The values are shared: read them only.
func (h *Handler) Requests() []*Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*Request(nil), h.requests...)
}

// Last returns the newest request, or nil when none has come.
func (h *Handler) Last() *Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) == 0 {
		return nil
	}
	return h.requests[len(h.requests)-1]
}

// Hung receives one value each time a turn starts to hang, so that a test knows when
// to cancel.
func (h *Handler) Hung() <-chan struct{} { return h.hung }

// Failures returns what went wrong with the script so far: it ran out, or an
// expectation did not hold.
func (h *Handler) Failures() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.failures...)
}

// Unused returns how many turns of the script have not been asked for. Turns made
// by Always are not counted.
func (h *Handler) Unused() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	unused := 0
	for _, turn := range h.script {
		if !turn.always {
			unused++
		}
	}
	return unused
}

// Totals sums the requests up. Sizes and counts are the largest over all requests.
type Totals struct {
	Requests   int        // all that came
	Refused    int        // of these, refused by a rule
	Answered   int        // of these, answered with a message, whole or in part
	Usage      wire.Usage // over the answered ones
	Downscaled int        // images that the API would have scaled down silently
	Images     int        // most images in one request
	MaxEdge    int        // longest edge of any image, in pixels
	Body       int        // largest body, in bytes
}

// CachedShare is the part of all input tokens that was read from the cache, 0 to 1.
func (t Totals) CachedShare() float64 {
	all := t.Usage.InputTokens + t.Usage.CacheCreationInputTokens + t.Usage.CacheReadInputTokens
	if all == 0 {
		return 0
	}
	return float64(t.Usage.CacheReadInputTokens) / float64(all)
}

// Totals sums up what has come so far.
func (h *Handler) Totals() Totals {
	h.mu.Lock()
	defer h.mu.Unlock()
	var t Totals
	for _, r := range h.requests {
		t.Requests++
		if r.Refusal != nil {
			t.Refused++
		}
		if r.Answer != nil {
			t.Answered++
			t.Usage.InputTokens += r.Usage.InputTokens
			t.Usage.CacheCreationInputTokens += r.Usage.CacheCreationInputTokens
			t.Usage.CacheReadInputTokens += r.Usage.CacheReadInputTokens
			t.Usage.OutputTokens += r.Usage.OutputTokens
		}
		for _, image := range r.Images {
			if image.Downscaled {
				t.Downscaled++
			}
		}
		t.Images = max(t.Images, len(r.Images))
		t.MaxEdge = max(t.MaxEdge, r.MaxEdge)
		t.Body = max(t.Body, r.Size)
	}
	return t
}

func (h *Handler) report(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	h.mu.Lock()
	h.failures = append(h.failures, message)
	h.mu.Unlock()
	if h.options.Report != nil {
		h.options.Report(message)
	}
}

func (h *Handler) log(format string, args ...any) {
	if h.options.Log != nil {
		h.options.Log(fmt.Sprintf(format, args...))
	}
}

// Server is a double that listens on the loopback interface.
type Server struct {
	*Handler
	URL    string // base URL, without a path
	server *httptest.Server
}

// New starts a double for one test and closes it when the test ends. The test fails
// when the script runs out, when an expectation does not hold and, unless
// o.AllowUnused, when turns of the script are left at the end.
func New(t testing.TB, o *Options, script ...Turn) *Server {
	t.Helper()
	var options Options
	if o != nil {
		options = *o
	}
	if options.Report == nil {
		options.Report = func(message string) { t.Error("claudetest: " + message) }
	}
	if options.Log == nil {
		options.Log = func(message string) { t.Log("claudetest: " + message) }
	}
	handler := NewHandler(&options, script...)
	s := &Server{Handler: handler, server: httptest.NewServer(handler)}
	s.URL = s.server.URL
	t.Cleanup(func() {
		s.Handler.Close()
		s.server.CloseClientConnections()
		s.server.Close()
		if unused := handler.Unused(); unused > 0 && !options.AllowUnused && !t.Failed() {
			t.Errorf("claudetest: %d turns of the script were never asked for", unused)
		}
	})
	return s
}

// Client returns an SDK client of the double. It uses Key, takes nothing from the
// environment, and does not wait before it retries, whatever Retry-After says; the
// header itself reaches the caller unchanged. Further options come last and win.
func (s *Server) Client(opts ...option.RequestOption) anthropic.Client {
	all := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithBaseURL(s.URL),
		option.WithAPIKey(Key),
		option.WithHTTPClient(s.server.Client()),
		option.WithMiddleware(retryAtOnce),
	}
	return anthropic.NewClient(append(all, opts...)...)
}

// HTTPClient returns a client whose idle connections are closed with the double.
func (s *Server) HTTPClient() *http.Client { return s.server.Client() }

// retryAtOnce lets the SDK retry without a pause: it reads Retry-After-Ms before
// Retry-After.
func retryAtOnce(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	response, err := next(r)
	if response != nil && response.StatusCode >= 400 {
		response.Header.Set("Retry-After-Ms", "0")
	}
	return response, err
}

// Load reads a script from a file and fails the test when it cannot be read.
func Load(t testing.TB, path string) []Turn {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read the script: %v", err)
	}
	turns, err := Parse(path, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return turns
}
