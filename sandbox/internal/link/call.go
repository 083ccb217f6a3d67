package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Message is what a link carries: a call (Op, with an ID), the answer to one (ID alone), or
// an event (Op without an ID).
type Message struct {
	ID    uint64          `json:"id,omitempty"`
	Op    string          `json:"op,omitempty"`
	Error string          `json:"error,omitempty"` // one sentence for a person
	Body  json.RawMessage `json:"body,omitempty"`
}

// Peer makes calls over a link and answers those of the other side.
type Peer struct {
	conn    *Conn
	handler Handler
	ctx     context.Context // of the calls that are answered; ends with the link
	end     context.CancelFunc

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan<- answer
	err     error // why the link ended

	calls sync.WaitGroup // that are being answered
	done  chan struct{}
}

type answer struct {
	message *Message
	files   []*os.File
}

// Handler answers a call, or takes an event, whose answer goes nowhere. It is called in a
// goroutine of its own for each call, and one after the other for events. It owns the files
// that it is given, and those that it returns are closed when they have been sent. The context
// ends with the link.
type Handler func(ctx context.Context, op string, body json.RawMessage, files []*os.File) (any, []*os.File, error)

// ErrEnded says that the link has ended, and with it the other side.
var ErrEnded = errors.New("the desktop has ended")

// Serve starts using a link, which is the Peer's from now on. A nil handler refuses all calls.
func Serve(conn *Conn, handler Handler) *Peer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Peer{conn: conn, handler: handler, ctx: ctx, end: cancel, waiting: map[uint64]chan<- answer{}, done: make(chan struct{})}
	go p.receive()
	return p
}

// Done is closed when the link has ended and every call has been answered.
func (p *Peer) Done() <-chan struct{} { return p.done }

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
	for {
		var m *Message
		var files []*os.File
		if m, files, err = p.conn.Receive(); err != nil {
			break
		}
		p.deal(m, files)
	}
	_ = p.conn.Close()
	if !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrEnded, err)
	} else {
		err = ErrEnded
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

func (p *Peer) deal(m *Message, files []*os.File) {
	switch {
	case m.Op == "":
		p.mu.Lock()
		waiting := p.waiting[m.ID]
		delete(p.waiting, m.ID)
		p.mu.Unlock()
		if waiting == nil { // the caller has given up
			closeAll(files)
			return
		}
		waiting <- answer{m, files}
	case p.handler == nil:
		closeAll(files)
		if m.ID != 0 {
			_ = p.conn.Send(&Message{ID: m.ID, Error: "nothing is offered here"})
		}
	case m.ID == 0:
		_, files, _ := p.handler(p.ctx, m.Op, m.Body, files)
		closeAll(files)
	default:
		p.calls.Add(1)
		go func() {
			defer p.calls.Done()
			reply := &Message{ID: m.ID}
			result, out, err := p.handler(p.ctx, m.Op, m.Body, files)
			defer closeAll(out)
			if err == nil {
				reply.Body, err = json.Marshal(result)
			}
			if err != nil {
				reply.Error = err.Error()
			}
			if err := p.conn.Send(reply, out...); err != nil {
				// Too large an answer must not leave the caller waiting.
				_ = p.conn.Send(&Message{ID: m.ID, Error: "the answer could not be sent: " + err.Error()})
			}
		}()
	}
}

// Call asks the other side and waits for its answer, which is decoded into reply unless that
// is nil. The files to send stay the caller's, and those returned are the caller's too. An
// error of the other side has its text. Without a link it is [ErrEnded].
func (p *Peer) Call(ctx context.Context, op string, args, reply any, send ...*os.File) ([]*os.File, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", op, err)
	}
	answers := make(chan answer, 1)
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return nil, p.err
	}
	p.last++
	id := p.last
	p.waiting[id] = answers
	p.mu.Unlock()
	if err := p.conn.Send(&Message{ID: id, Op: op, Body: body}, send...); err != nil {
		p.forget(id, answers)
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	select {
	case a, ok := <-answers:
		if !ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			return nil, p.err
		}
		if a.message.Error != "" {
			closeAll(a.files)
			return nil, errors.New(a.message.Error)
		}
		if reply != nil {
			if err := json.Unmarshal(a.message.Body, reply); err != nil {
				closeAll(a.files)
				return nil, fmt.Errorf("the answer to %s makes no sense: %w", op, err)
			}
		}
		return a.files, nil
	case <-ctx.Done():
		p.forget(id, answers)
		return nil, ctx.Err()
	}
}

// forget gives an answer up, also one that has just come.
func (p *Peer) forget(id uint64, answers <-chan answer) {
	p.mu.Lock()
	delete(p.waiting, id)
	p.mu.Unlock()
	select {
	case a, ok := <-answers:
		if ok {
			closeAll(a.files)
		}
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
	_ = p.conn.Send(&Message{Op: op, Body: body})
}
