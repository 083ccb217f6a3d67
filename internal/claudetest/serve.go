package claudetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/loupe-tools/loupe/internal/wire"
)

// ServeHTTP answers POST /v1/messages, with and without ?beta=true.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	number := h.nextRequest()
	id := fmt.Sprintf("req_%04d", number)
	r, refusal := h.read(w, req)
	r.Number = number
	if refusal == nil {
		refusal = h.judge(r)
	}
	if refusal != nil {
		refusal.RequestID = id
		r.Refusal, r.Status = refusal, refusal.Status
		h.record(r)
		h.log("request %d refused with %d: %s", number, refusal.Status, refusal.Message)
		wire.WriteError(w, refusal)
		return
	}
	for _, image := range r.Images {
		if image.Downscaled {
			h.log("request %d: %s, %dx%d, would be scaled down silently", number, image.Path, image.Width, image.Height)
		}
	}
	turn, err := h.turnFor(r)
	if err != nil {
		h.report("request %d: %v", number, err)
		r.Status = http.StatusInternalServerError
		h.record(r)
		w.Header().Set("X-Should-Retry", "false")
		wire.WriteError(w, &wire.Error{Status: r.Status, Message: "claudetest: " + err.Error(), RequestID: id})
		return
	}
	if turn.Status != 0 {
		r.Status = turn.Status
		h.record(r)
		wire.WriteError(w, &wire.Error{
			Status: turn.Status, Message: turn.faultMessage(), RetryAfter: turn.RetryAfter, RequestID: id,
		})
		return
	}
	h.issue(r, turn)
	w.Header().Set("Request-Id", id)
	h.send(w, req, r, turn)
}

func (h *Handler) nextRequest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.request++
	return h.counts.request
}

// record makes a request visible to the test. Nothing of it changes afterwards.
func (h *Handler) record(r *Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r)
}

// read takes the request off the wire and checks what the API checks before it looks
// at the body: path and method, key, version, size.
func (h *Handler) read(_ http.ResponseWriter, req *http.Request) (*Request, *wire.Error) {
	r := &Request{Header: req.Header.Clone(), blobs: h.blobs}
	body, err := io.ReadAll(io.LimitReader(req.Body, int64(h.options.MaxBody)+1))
	if err != nil {
		return r, wire.Invalid("The request body could not be read: %v", err)
	}
	r.Size = len(body)
	if refusal := h.admit(req, len(body)); refusal != nil {
		_, _ = io.Copy(io.Discard, req.Body) // a client that is still writing would not read the answer
		return r, refusal
	}
	return h.blobs.parse(body, req.Header.Clone())
}

// admit: the endpoint exists, a key is given and not refused, the version is named,
// and the body is within 32 MB. Source: the errors page and the page on versions.
func (h *Handler) admit(req *http.Request, size int) *wire.Error {
	if req.URL.Path != "/v1/messages" {
		return &wire.Error{Status: http.StatusNotFound, Message: "Not found"}
	}
	if req.Method != http.MethodPost {
		return &wire.Error{Status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Message: "Method Not Allowed"}
	}
	key := req.Header.Get("X-Api-Key")
	if key == "" {
		key = strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	}
	switch key {
	case "":
		return &wire.Error{Status: http.StatusUnauthorized, Message: "x-api-key header is required"}
	case RefusedKey:
		return &wire.Error{Status: http.StatusUnauthorized, Message: "invalid x-api-key"}
	}
	if req.Header.Get("Anthropic-Version") == "" {
		return wire.Invalid("anthropic-version: header is required")
	}
	if size > h.options.MaxBody {
		return &wire.Error{Status: http.StatusRequestEntityTooLarge, Message: "Request exceeds the maximum size"}
	}
	return nil
}

// judge tries every rule and, when none refuses, counts the request's tokens.
func (h *Handler) judge(r *Request) *wire.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, refuses := range rules() {
		if err := refuses(h, r); err != nil {
			return err
		}
	}
	r.Usage = h.cache.lookUp(r.pieces, h.leastCached(r))
	return nil
}

// leastCached is the smallest prefix that is cached, in tokens.
func (h *Handler) leastCached(r *Request) int {
	switch {
	case h.options.MinCacheTokens > 0:
		return h.options.MinCacheTokens
	case r.model.MinCache > 0:
		return r.model.MinCache
	}
	return 1024
}

// turnFor takes the next turn of the script and makes sure that it can be served.
func (h *Handler) turnFor(r *Request) (Turn, error) {
	h.mu.Lock()
	if len(h.script) == 0 {
		h.mu.Unlock()
		return Turn{}, errors.New("the script has run out: no turn is left for this request")
	}
	turn := h.script[0]
	if !turn.always {
		h.script = h.script[1:]
	}
	h.mu.Unlock()
	if turn.rule != nil {
		turn = turn.rule(r)
		if turn.rule != nil {
			return Turn{}, errors.New("a turn made by a rule is itself a rule; return a plain turn")
		}
	}
	for _, condition := range turn.Expect {
		if !condition.Check(r) {
			return Turn{}, fmt.Errorf("the request does not meet %q", condition.Text)
		}
	}
	return turn, turn.check()
}

// check says what is wrong with a turn that cannot be served.
func (t Turn) check() error {
	if t.Status != 0 && (t.Status < 400 || t.Status > 599) {
		return fmt.Errorf("the turn's status %d is not an error", t.Status)
	}
	known := []string{
		"", "end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal", "model_context_window_exceeded",
	}
	if !slices.Contains(known, t.Stop) {
		return fmt.Errorf("the turn's stop reason %q is unknown", t.Stop)
	}
	if t.Cut && (len(t.Blocks) == 0 || t.Blocks[len(t.Blocks)-1].Type != "tool_use") {
		return errors.New("a turn that is cut must end in a call")
	}
	return nil
}

func (t Turn) faultMessage() string {
	if t.Message != "" {
		return t.Message
	}
	switch t.Status {
	case 429:
		return "This request would exceed your organization's rate limit. Please try again later."
	case 529:
		return "Overloaded"
	case 500:
		return "Internal server error"
	}
	return http.StatusText(t.Status)
}

// issue turns a turn into the answer to a request: it gives out ids and signatures,
// remembers the turn, writes the cache and records the request.
func (h *Handler) issue(r *Request, turn Turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.message++
	content := slices.Clone(turn.Blocks)
	for i := range content {
		b := &content[i]
		switch {
		case b.Type == "tool_use" && b.ID == "":
			h.counts.tool++
			b.ID = fmt.Sprintf("toolu_%04d", h.counts.tool)
		case b.Type == "thinking" && b.Signature == "":
			h.counts.thinking++
			b.Signature = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signature %04d", h.counts.thinking))
		case b.Type == "redacted_thinking" && b.Data == "":
			h.counts.thinking++
			b.Data = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "redacted %04d", h.counts.thinking))
		}
	}
	r.Usage.OutputTokens = outputTokens(content)
	r.Status = http.StatusOK
	r.Answer = &wire.Message{
		ID: fmt.Sprintf("msg_%04d", h.counts.message), Model: r.Model, Content: content,
		StopReason: turn.stopReason(), Usage: r.Usage,
	}
	h.memory.keep(r, r.Answer, turn.Cut)
	h.cache.write(r.pieces, h.leastCached(r))
	h.requests = append(h.requests, r)
}

// errBreak stops a stream at the event where its turn breaks.
var errBreak = errors.New("the answer breaks here")

// counted lets so many events through. Every event is one Write.
type counted struct {
	http.ResponseWriter
	left int
}

func (c *counted) Write(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errBreak
	}
	c.left--
	return c.ResponseWriter.Write(p)
}

func (c *counted) Flush() {
	_ = http.NewResponseController(c.ResponseWriter).Flush() // a writer that cannot flush sends at the end
}

// send writes the answer, whole or as events, up to where the turn breaks. A client
// that has gone away is not the double's failure.
func (h *Handler) send(w http.ResponseWriter, req *http.Request, r *Request, turn Turn) {
	if turn.Break.Kind == NoBreak {
		if r.Stream {
			_ = stream(w, r.Answer)
		} else {
			_ = r.Answer.WriteJSON(w)
		}
		return
	}
	if r.Stream {
		if err := stream(&counted{w, turn.Break.After}, r.Answer); err == nil {
			h.report("request %d: the answer has no more than %d events, so it cannot break there", r.Number, turn.Break.After)
			return
		}
	}
	switch turn.Break.Kind {
	case BreakDrop:
		dropConnection(w)
	case BreakHang:
		select {
		case h.hung <- struct{}{}:
		default:
		}
		select {
		case <-req.Context().Done():
		case <-h.closed:
		}
	case BreakError:
		kind := turn.Break.Error
		if kind == "" {
			kind = "overloaded_error"
		}
		if !r.Stream {
			wire.WriteError(w, &wire.Error{Status: 529, Type: kind, Message: "Overloaded"})
			return
		}
		_ = wire.NewStream(w).Event("error", map[string]any{
			"error": map[string]any{"type": kind, "message": eventMessage(kind)},
		})
	}
}

func eventMessage(kind string) string {
	if kind == "overloaded_error" {
		return "Overloaded"
	}
	return "Internal server error"
}

// stream writes a message as events, with the ping that the API sends after the first.
func stream(w http.ResponseWriter, m *wire.Message) error {
	s := wire.NewStream(w)
	if err := s.Start(m); err != nil {
		return err
	}
	if err := s.Event("ping", map[string]any{}); err != nil {
		return err
	}
	for i, b := range m.Content {
		if err := s.Block(i, b); err != nil {
			return err
		}
	}
	return s.Stop(m)
}

// dropConnection closes the connection without ending the answer.
func dropConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to break off an answer; it is not logged
	}
	_ = conn.Close()
}
