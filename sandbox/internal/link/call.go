//go:build linux

package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Message is what a link carries: a call (Op, with an ID), the wish that one be given up (ID and
// Cancel), the answer to one (ID alone), or an event (Op without an ID).
type Message struct {
	ID     uint64          `json:"id,omitempty"`
	Op     string          `json:"op,omitempty"`
	Cancel bool            `json:"cancel,omitempty"`
	Error  string          `json:"error,omitempty"` // one sentence for a person
	Body   json.RawMessage `json:"body,omitempty"`
}

// Peer makes calls over a link and answers those of the other side. Its methods may be called by
// several goroutines at once.
type Peer struct {
	conn   *Conn
	answer Handler
	hear   Listener
	ctx    context.Context // of the calls that are answered; ends with the link
	end    context.CancelFunc

	mu        sync.Mutex
	last      uint64
	waiting   map[uint64]chan<- reply
	answering map[uint64]context.CancelFunc
	err       error // why the link ended

	calls sync.WaitGroup // that are being answered
	done  chan struct{}
}

type reply struct {
	message *Message
	files   []*os.File
}

// Handler answers a call, in a goroutine of its own. It owns the files that it is given, and
// those that it returns are closed when they have been sent. The context ends with the link,
// and when the caller gives up.
type Handler func(ctx context.Context, op string, body json.RawMessage, files []*os.File) (any, []*os.File, error)

// Listener takes an event. It is called with one event after the other, and nothing else is
// received until it returns.
type Listener func(op string, body json.RawMessage)

// ErrEnded says that the link has ended, and with it the other side.
var ErrEnded = errors.New("the desktop has ended")

// maxCalls bounds the calls that are answered at once. As many more are refused; who makes still
// more of them has his link ended.
const maxCalls = 256

// cancelTime is how long a call whose context has ended waits for the other side to have
// given up too.
const cancelTime = time.Second

// Serve starts using a link, which is the Peer's from now on. A side that answers no calls, and
// has a nil handler, ends the link when one comes. Without a listener events are dropped.
func Serve(conn *Conn, answer Handler, hear Listener) *Peer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Peer{conn: conn, answer: answer, hear: hear, ctx: ctx, end: cancel,
		waiting: map[uint64]chan<- reply{}, answering: map[uint64]context.CancelFunc{}, done: make(chan struct{})}
	go p.receive()
	return p
}

// Done is closed when the link has ended and every call has been answered.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Ended is closed when the link has ended. Calls may still be on their way to their answers,
// which nobody gets.
func (p *Peer) Ended() <-chan struct{} { return p.ctx.Done() }

// Break ends the link, and waits for nothing.
func (p *Peer) Break() error { return p.conn.Close() }

// Close ends the link and waits for the handlers to return.
func (p *Peer) Close() {
	_ = p.conn.Close()
	<-p.done
}

// receive hands out what comes, until the link ends.
func (p *Peer) receive() {
	var err error
	for err == nil {
		var m *Message
		var files []*os.File
		if m, files, err = p.conn.Receive(); err == nil {
			err = p.deal(m, files)
		}
	}
	_ = p.conn.Close()
	if errors.Is(err, io.EOF) {
		err = ErrEnded
	} else {
		err = fmt.Errorf("%w: %w", ErrEnded, err)
	}
	p.mu.Lock()
	p.err = err
	for id, waiting := range p.waiting {
		close(waiting)
		delete(p.waiting, id)
	}
	p.mu.Unlock()
	p.end()
	p.calls.Wait()
	close(p.done)
}

// deal sees to a message. An error ends the link.
func (p *Peer) deal(m *Message, files []*os.File) error {
	switch {
	case m.Cancel:
		closeAll(files)
		p.mu.Lock()
		defer p.mu.Unlock()
		if cancel := p.answering[m.ID]; cancel != nil {
			cancel()
		}
	case m.Op == "":
		p.mu.Lock()
		defer p.mu.Unlock()
		waiting := p.waiting[m.ID]
		if waiting == nil { // the caller has given up, or never asked
			closeAll(files)
			return nil
		}
		delete(p.waiting, m.ID)
		waiting <- reply{m, files} // there is room for one
	case m.ID == 0:
		closeAll(files)
		if p.hear != nil {
			p.hear(m.Op, m.Body)
		}
	default:
		if err := p.called(m, files); err != nil {
			closeAll(files)
			return err
		}
	}
	return nil
}

// called has a call answered in the background.
func (p *Peer) called(m *Message, files []*os.File) error {
	if p.answer == nil {
		return errors.New("a call came where none are answered")
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	_, twice := p.answering[m.ID]
	busy := len(p.answering)
	if !twice {
		p.answering[m.ID] = cancel
	}
	p.mu.Unlock()
	if twice || busy >= 2*maxCalls {
		cancel()
		return errors.New("calls came faster than they can be answered")
	}
	p.calls.Go(func() {
		defer func() {
			p.mu.Lock()
			delete(p.answering, m.ID)
			p.mu.Unlock()
			cancel()
		}()
		if busy >= maxCalls {
			closeAll(files)
			_ = p.conn.Send(p.ctx, &Message{ID: m.ID, Error: "too much is asked of the desktop at once; wait until something is done"}) //nolint:contextcheck // a link has a life of its own, which its end ends
			return
		}
		reply := &Message{ID: m.ID}
		result, out, err := p.answer(ctx, m.Op, m.Body, files)
		defer closeAll(out)
		if err == nil {
			reply.Body, err = json.Marshal(result)
		}
		if err != nil {
			reply.Error = Printable(err.Error(), maxText)
		}
		if err := p.conn.Send(p.ctx, reply, out...); err != nil { //nolint:contextcheck // a link has a life of its own, which its end ends
			// Too large an answer must not leave the caller waiting.
			_ = p.conn.Send(p.ctx, &Message{ID: m.ID, Error: Printable("the answer could not be sent: "+err.Error(), maxText)}) //nolint:contextcheck // a link has a life of its own, which its end ends
		}
	})
	return nil
}

// Call asks the other side and waits for its answer, which is decoded into reply unless that
// is nil. The files to send stay the caller's; files that come back are closed.
//
// An error of the other side has its text, without what does not print. Without a link the error
// is [ErrEnded]. When the context ends the other side is told, and the error is the context's; by
// then the other side has given up, if it does so within a second.
func (p *Peer) Call(ctx context.Context, op string, args, reply any, send ...*os.File) error {
	files, err := p.call(ctx, op, args, reply, send)
	closeAll(files)
	return err
}

// CallForFile is Call where the answer comes with one file, which is the caller's. An answer
// that comes with none or with more is an error.
func (p *Peer) CallForFile(ctx context.Context, op string, args, reply any, send ...*os.File) (*os.File, error) {
	files, err := p.call(ctx, op, args, reply, send)
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("the answer to %s makes no sense: it has %d files, and not one", op, len(files))
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files[0], nil
}

func (p *Peer) call(ctx context.Context, op string, args, result any, send []*os.File) ([]*os.File, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", op, err)
	}
	answers := make(chan reply, 1)
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return nil, p.err
	}
	p.last++
	id := p.last
	p.waiting[id] = answers
	p.mu.Unlock()
	defer p.forget(id, answers)
	switch err := p.conn.Send(ctx, &Message{ID: id, Op: op, Body: body}, send...); {
	case err == nil:
	case errors.Is(err, ErrTooLarge), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	select {
	case a, ok := <-answers:
		return p.take(op, a, ok, result)
	case <-ctx.Done():
		p.cancel(id, answers) //nolint:contextcheck // a link has a life of its own, which its end ends
		return nil, ctx.Err()
	}
}

// take takes an answer, or the end of the link.
func (p *Peer) take(op string, a reply, ok bool, result any) ([]*os.File, error) {
	if !ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		return nil, p.err
	}
	if a.message.Error != "" {
		closeAll(a.files)
		return nil, errors.New(Printable(a.message.Error, maxText))
	}
	if result != nil {
		if err := json.Unmarshal(a.message.Body, result); err != nil {
			closeAll(a.files)
			return nil, fmt.Errorf("the answer to %s makes no sense: %w", op, err)
		}
	}
	return a.files, nil
}

// cancel tells the other side that a call is given up, and waits a little until that has
// come through.
func (p *Peer) cancel(id uint64, answers <-chan reply) {
	ctx, end := context.WithTimeout(p.ctx, cancelTime)
	defer end()
	if p.conn.Send(ctx, &Message{ID: id, Cancel: true}) != nil {
		return
	}
	select {
	case a := <-answers:
		closeAll(a.files)
	case <-ctx.Done():
	}
}

// forget gives an answer up, also one that has just come.
func (p *Peer) forget(id uint64, answers <-chan reply) {
	p.mu.Lock()
	delete(p.waiting, id)
	p.mu.Unlock()
	select {
	case a := <-answers:
		closeAll(a.files)
	default:
	}
}

// Event tells the other side something that needs no answer. An event that cannot be sent is
// lost with the link.
func (p *Peer) Event(op string, args any) {
	body, err := json.Marshal(args)
	if err != nil {
		return
	}
	_ = p.conn.Send(p.ctx, &Message{Op: op, Body: body})
}
