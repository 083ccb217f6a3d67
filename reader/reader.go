// Package reader is the built-in reader: the Messages API in process, answered by an OCR
// engine instead of a model, so that the loop is the same code with or without a key and
// a network.
//
// # What it does
//
// It works from what a request carries alone: the images, the question, the calls made so
// far and their results. It reads the images with tesseract, looks for lines that have
// the shape of text, and answers when a legible reading fits the question: the kind of
// value asked for, with words of the question in the same line, the same row or the
// heading of the column. Otherwise it calls the zoom tool where small text seems to be,
// the most hopeful places first and in the end part by part, as a model would, and reads
// what comes back. After at most 18 zooms it says that it found nothing.
//
// # What it promises
//
// It prefers "I could not find" to a doubtful answer. Every such text begins with the
// words "I could not". A value is answered only when its capitals are at least 13 pixels
// high in the image that was sent, and when most of several readings at different sizes
// agree; of a code, all. Print smaller than that can often be read, but with single
// digits wrong, and serves only to decide where to zoom. When two values fit a question
// alike, it names them and does not choose. A question in words that names a row and a
// column of a table gets the cell where they cross; what merely stands beside a label
// is answered only in a list of two columns, and never a part of a date.
//
// # What it cannot do
//
// It finds and reads text; it does not see. It does not compare, count, judge colours or
// follow a curve, and says so when asked to. It does not know which line of a chart a
// note belongs to unless the note says so: a chart with one note about a peak gets that
// note, whichever line was asked about. It reads English print in level lines: no
// handwriting, no text turned by 90 degrees, and text crossed by a stroke of its own
// colour only by luck. It knows few synonyms, and a question in other words than the
// picture's may find nothing.
package reader

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"net/http"
	"runtime"
	"sync"

	"github.com/loupe-tools/loupe/internal/wire"
)

// Model is the name that the reader answers under, whatever model was asked for.
const Model = "loupe-reader"

// Options set a reader up; the zero value, and nil, are right for most uses.
type Options struct {
	Tesseract string // the engine's program; "tesseract" on the PATH when empty
	Workers   int    // engines that run at once; one for each processor when 0
}

// A Reader answers the Messages API by reading images with an OCR engine. It keeps
// no conversation, only a bounded store of what images it has read. All its methods
// may be called from several goroutines at once.
type Reader struct {
	engine *engine
	pages  *kept[*page]
	again  *kept[[][]word]
}

// New looks for the engine. Its error wraps [ErrNoEngine] and says what to install
// when the engine or its English data is missing. The options are not kept.
func New(o *Options) (*Reader, error) {
	if o == nil {
		o = &Options{}
	}
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	e, err := newEngine(o.Tesseract, workers)
	if err != nil {
		return nil, err
	}
	return &Reader{engine: e, pages: newKept[*page](64), again: newKept[[][]word](256)}, nil
}

// maxBody is the API's limit on the body of a request.
const maxBody = 32 << 20

// ServeHTTP answers POST /v1/messages; everything else is a not_found_error. A request
// whose context ends stops the engine.
func (r *Reader) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path != "/v1/messages" {
		wire.WriteError(w, &wire.Error{Status: http.StatusNotFound, Message: "The built-in reader answers /v1/messages only."})
		return
	}
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		wire.WriteError(w, &wire.Error{Status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Message: "The built-in reader answers POST only."})
		return
	}
	var body wire.Request
	data, err := io.ReadAll(io.LimitReader(request.Body, maxBody+1))
	switch {
	case err != nil:
		wire.WriteError(w, wire.Invalid("the request could not be read: %v", err))
		return
	case len(data) > maxBody:
		wire.WriteError(w, &wire.Error{Status: http.StatusRequestEntityTooLarge, Message: "The request is over 32 MB."})
		return
	}
	if err := json.Unmarshal(data, &body); err != nil {
		wire.WriteError(w, wire.Invalid("the request is not valid JSON for the Messages API: %v", err))
		return
	}
	message, err := r.answer(request.Context(), &body)
	if err != nil {
		wire.WriteError(w, err)
		return
	}
	_ = message.Write(w, body.Stream) // the client is gone when this fails
}

// answer makes the assistant's turn that follows a request.
func (r *Reader) answer(ctx context.Context, request *wire.Request) (*wire.Message, error) {
	c, err := converse(request)
	if err != nil {
		return nil, err
	}
	s, sources, err := r.look(ctx, c)
	if err != nil {
		return nil, err
	}
	m, err := next(ctx, &c.question, s, c.canZoom, func(ctx context.Context, p *page, box image.Rectangle) ([][]word, error) {
		return r.readAgain(ctx, sources[p], box)
	})
	if err != nil {
		return nil, err
	}
	message := &wire.Message{ID: newID("msg_"), Model: Model, StopReason: "end_turn"}
	message.Content = append(message.Content, wire.Block{Type: "text", Text: m.say})
	for _, z := range m.zooms {
		input, err := json.Marshal(map[string]int{
			"x1": z.region.Min.X, "y1": z.region.Min.Y, "x2": z.region.Max.X, "y2": z.region.Max.Y, "image_index": z.image,
		})
		if err != nil {
			return nil, fmt.Errorf("encode a zoom: %w", err)
		}
		message.Content = append(message.Content, wire.Block{Type: "tool_use", ID: newID("toolu_"), Name: zoomTool, Input: input})
		message.StopReason = "tool_use"
	}
	message.Usage = usage(request, message, s)
	return message, nil
}

// look reads every image of the conversation that is not known yet.
func (r *Reader) look(ctx context.Context, c *conversation) (*scene, map[*page]*shown, error) {
	sources := map[*page]*shown{}
	// What is beyond reading needs no reading, but an image must still be one.
	var all []*shown
	all = append(all, c.views...)
	for _, z := range c.zooms {
		if z.result != nil {
			all = append(all, z.result)
		}
	}
	pages := make([]*page, len(all))
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	slots := make(chan struct{}, cap(r.engine.slots))
	for i, s := range all {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			pages[i], errs[i] = r.page(ctx, s)
		})
	}
	wait.Wait()
	if err := errors.Join(firstError(errs)); err != nil {
		return nil, nil, err
	}
	known := map[*shown]*page{}
	for i, s := range all {
		known[s] = pages[i]
		sources[pages[i]] = s
	}
	var looks []look
	for _, z := range c.zooms {
		k := look{image: z.image, region: z.region}
		if z.result != nil {
			k.page = known[z.result]
		}
		looks = append(looks, k)
	}
	return newScene(pages[:len(c.views)], looks), sources, nil
}

// firstError prefers the client's own mistake over what followed from it.
func firstError(errs []error) error {
	var first error
	for _, err := range errs {
		var refusal *wire.Error
		if errors.As(err, &refusal) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// page returns what an image holds, read now or before.
func (r *Reader) page(ctx context.Context, s *shown) (*page, error) {
	if p, ok := r.pages.get(s.key); ok {
		return p, nil
	}
	m, err := s.decode()
	if err != nil {
		return nil, err
	}
	p, err := r.engine.readPage(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.where, err)
	}
	r.pages.put(s.key, p)
	return p, nil
}

// againHeights are the heights in pixels that a line is read again at.
var againHeights = [...]int{26, 34, 44}

// readAgain reads one line of an image at several sizes.
func (r *Reader) readAgain(ctx context.Context, s *shown, box image.Rectangle) ([][]word, error) {
	key := sha256.Sum256(fmt.Append(s.key[:], box))
	if words, ok := r.again.get(key); ok {
		return words, nil
	}
	m, err := s.decode()
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, h := range againHeights {
		rows = append(rows, row{box: box, height: h})
	}
	words, err := r.engine.readRows(ctx, inkOf(m), rows)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.where, err)
	}
	r.again.put(key, words)
	return words, nil
}

// usage counts tokens as the API would about: one for each patch of 28x28 pixels of an
// image, one for four bytes of text.
func usage(request *wire.Request, answer *wire.Message, s *scene) wire.Usage {
	patch := func(p *page) int {
		return ((p.size.X + 27) / 28) * ((p.size.Y + 27) / 28)
	}
	images, text := 0, 0
	for _, p := range s.views {
		images += patch(p)
	}
	for _, k := range s.looks {
		if k.page != nil {
			images += patch(k.page)
		}
	}
	var count func(wire.Content)
	count = func(content wire.Content) {
		for _, b := range content {
			text += len(b.Text) + len(b.Input)
			count(b.Content)
		}
	}
	count(request.System)
	for _, m := range request.Messages {
		count(m.Content)
	}
	for _, t := range request.Tools {
		text += len(t)
	}
	out := 0
	for _, b := range answer.Content {
		out += len(b.Text) + len(b.Input)
	}
	return wire.Usage{InputTokens: images + (text+3)/4, OutputTokens: max(1, (out+3)/4)}
}

func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails
	return prefix + hex.EncodeToString(b[:])
}

// Transport returns a round tripper that hands requests to the reader in this process,
// without a socket. It answers when the whole turn is made; a request whose context
// ends returns the context's error once the engine has stopped.
func (r *Reader) Transport() http.RoundTripper { return transport{r} }

type transport struct{ reader *Reader }

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request = request.Clone(request.Context())
		request.Body = http.NoBody
	}
	defer request.Body.Close()
	w := &response{header: http.Header{}}
	t.reader.ServeHTTP(w, request)
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	status := max(w.status, http.StatusOK)
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       request,
	}, nil
}

// response collects what a handler writes.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// kept is a store of a fixed number of values; the one put first goes first.
type kept[V any] struct {
	mu     sync.Mutex
	values map[[sha256.Size]byte]V
	order  [][sha256.Size]byte
	limit  int
}

func newKept[V any](limit int) *kept[V] {
	return &kept[V]{values: map[[sha256.Size]byte]V{}, limit: limit}
}

func (k *kept[V]) get(key [sha256.Size]byte) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.values[key]
	return v, ok
}

func (k *kept[V]) put(key [sha256.Size]byte, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.values[key]; !ok {
		if len(k.order) == k.limit {
			delete(k.values, k.order[0])
			k.order = k.order[1:]
		}
		k.order = append(k.order, key)
	}
	k.values[key] = v
}
