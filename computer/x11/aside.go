package x11

import (
	"context"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// aside is another connection to the display of the main one, made when it is first needed.
type aside struct {
	main   *link
	dial   func(context.Context) (*link, error)
	own    *link
	handle xproto.Pixmap // by which the server knows the connection
}

// connect makes the connection, where there is none.
func (a *aside) connect(ctx context.Context) (err error) {
	if a.own != nil {
		return nil
	}
	if a.own, err = a.dial(ctx); err != nil {
		a.own = nil
		return err
	}
	a.own.listen() // or events that go to every client would pile up
	own := a.own
	a.handle, err = await(ctx, own, func() (xproto.Pixmap, error) {
		id, err := xproto.NewPixmapId(own.x)
		if err != nil {
			return 0, err
		}
		return id, xproto.CreatePixmapChecked(own.x, 1, id, xproto.Drawable(own.root), 1, 1).Check()
	})
	return err
}

// drop ends the connection. Where it has got so far, the server is told to forget it before
// anything else that is asked on the main connection, so that neither what it may be waiting
// for comes to it any more, nor does it count as a client.
func (a *aside) drop() {
	if a.own == nil {
		return
	}
	if a.handle != 0 {
		xproto.KillClient(a.main.x, uint32(a.handle))
	}
	a.own.breakOff()
	<-a.own.done
	a.own, a.handle = nil, 0
}

// rescuer releases buttons when the main connection cannot. The X.Org server puts even an
// impervious connection to sleep when a request of it is in the queue at the moment that
// another program gets the display to itself, as a window manager may do at the press of a
// button, until it is released. A connection that asks for nothing meanwhile stays awake.
type rescuer struct {
	aside
	mu     sync.Mutex
	closed bool
}

// How long the server may take to answer while a button is held, and how often that is
// looked at.
const rescueAnswer, rescuePause = 500 * time.Millisecond, time.Second

// ready makes the connection. Without it there is no rescue, which is rarely needed.
func (r *rescuer) ready(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.own != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rescueAnswer)
	defer cancel()
	err := r.connect(ctx)
	if err == nil {
		_, _, err = r.own.extension(ctx, "XTEST")
	}
	if err == nil {
		own := r.own
		_, err = await(ctx, own, func() (struct{}, error) {
			return struct{}{}, xtest.GrabControlChecked(own.x, true).Check()
		})
	}
	if err != nil {
		r.drop()
	}
}

// release releases buttons when the main connection gets no answer.
func (r *rescuer) release(buttons []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.own == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rescueAnswer)
	defer cancel()
	if r.main.sync(ctx) == nil || ctx.Err() == nil {
		return
	}
	for _, button := range buttons {
		xtest.FakeInput(r.own.x, xproto.ButtonRelease, button, 0, 0, 0, 0, 0)
	}
}

// close ends the connection for good.
func (r *rescuer) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.drop()
}
