package x11

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// pinger asks applications whether they have handled their events so far. It uses the
// protocol _NET_WM_PING of the Extended Window Manager Hints, by which window managers
// find hung applications: a message to a window, which its application sends back to the
// root window. The message queues behind earlier events, so that the answer says that
// those have been read. Toolkits answer; a program on bare Xlib, such as xterm, does not.
type pinger struct {
	*link
	protocols, ping xproto.Atom

	mu       sync.Mutex
	selected bool
	asked    map[uint32]chan struct{} // by the number in the message
}

// newPinger must be called before the link listens.
func newPinger(ctx context.Context, l *link) (*pinger, error) {
	p := &pinger{link: l, asked: map[uint32]chan struct{}{}}
	var err error
	if p.protocols, err = l.atom(ctx, "WM_PROTOCOLS"); err != nil {
		return nil, err
	}
	if p.ping, err = l.atom(ctx, "_NET_WM_PING"); err != nil {
		return nil, err
	}
	l.handlers[xproto.ClientMessage] = p.answered
	return p, nil
}

// answered takes a message that came to the root window.
func (p *pinger) answered(event []byte) {
	if len(event) < 32 || xproto.Window(xgb.Get32(event[4:])) != p.root ||
		xproto.Atom(xgb.Get32(event[8:])) != p.protocols || xproto.Atom(xgb.Get32(event[12:])) != p.ping {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if done := p.asked[xgb.Get32(event[16:])]; done != nil {
		close(done)
		delete(p.asked, xgb.Get32(event[16:]))
	}
}

// send asks the application of a window that takes pings. The channel is closed when it
// answers; forget ends the waiting.
func (p *pinger) send(ctx context.Context, window xproto.Window) (done <-chan struct{}, forget func(), err error) {
	if err := p.selectRoot(ctx); err != nil {
		return nil, nil, err
	}
	answer := make(chan struct{})
	p.mu.Lock()
	// The place is that of a time stamp; a number of our own tells our pings from those of
	// a window manager.
	number := rand.Uint32() | 1
	p.asked[number] = answer
	p.mu.Unlock()
	forget = func() {
		p.mu.Lock()
		delete(p.asked, number)
		p.mu.Unlock()
	}
	message := xproto.ClientMessageEvent{Format: 32, Window: window, Type: p.protocols,
		Data: xproto.ClientMessageDataUnionData32New([]uint32{uint32(p.ping), number, uint32(window), 0, 0})}
	_, err = await(ctx, p.link, func() (struct{}, error) {
		return struct{}{}, xproto.SendEventChecked(p.x, false, window, xproto.EventMaskNoEvent, string(message.Bytes())).Check()
	})
	if err != nil {
		forget()
		return nil, nil, fmt.Errorf("asking a window whether it keeps up: %w", err)
	}
	return answer, forget, nil
}

// selectRoot asks for what is sent to the root window, which is where answers go. Other
// parts may already have asked for other events there.
func (p *pinger) selectRoot(ctx context.Context) error {
	p.mu.Lock()
	selected := p.selected
	p.selected = true
	p.mu.Unlock()
	if selected {
		return nil
	}
	return p.alsoSelect(ctx, xproto.EventMaskSubstructureNotify)
}

// alsoSelect adds to the events of the root window that this connection gets.
func (l *link) alsoSelect(ctx context.Context, mask uint32) error {
	_, err := await(ctx, l, func() (struct{}, error) {
		now, err := xproto.GetWindowAttributes(l.x, l.root).Reply()
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, xproto.ChangeWindowAttributesChecked(l.x, l.root, xproto.CwEventMask,
			[]uint32{now.YourEventMask | mask}).Check()
	})
	if err != nil {
		return fmt.Errorf("asking for events of the root window: %w", err)
	}
	return nil
}

// pingable returns the window that takes pings for a window: itself or one that it is in.
func (p *pinger) pingable(ctx context.Context, window xproto.Window) (xproto.Window, bool, error) {
	for depth := 0; window != 0 && window != p.root && depth < 64; depth++ {
		protocols, err := p.numbers(ctx, window, p.protocols)
		if err == nil && slices.Contains(protocols, uint32(p.ping)) {
			return window, true, nil
		}
		var tree *xproto.QueryTreeReply
		if err == nil {
			tree, err = await(ctx, p.link, func() (*xproto.QueryTreeReply, error) { return xproto.QueryTree(p.x, window).Reply() })
		}
		if isRefusal(err) { // the window has gone
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		window = tree.Parent
	}
	return 0, false, nil
}

// focused returns the window that gets what is typed, or 0.
func (l *link) focused(ctx context.Context) (xproto.Window, error) {
	focus, err := await(ctx, l, func() (*xproto.GetInputFocusReply, error) { return xproto.GetInputFocus(l.x).Reply() })
	if err != nil {
		return 0, err
	}
	if focus.Focus > 1 && focus.Focus != l.root {
		return focus.Focus, nil
	}
	if focus.Focus == xproto.InputFocusNone {
		return 0, nil
	}
	return l.underPointer(ctx) // the focus is wherever the pointer is
}

// underPointer returns the innermost window that the pointer is in, or 0.
func (l *link) underPointer(ctx context.Context) (xproto.Window, error) {
	return await(ctx, l, func() (xproto.Window, error) {
		inner := xproto.Window(0)
		for w, depth := l.root, 0; depth < 64; depth++ {
			at, err := xproto.QueryPointer(l.x, w).Reply()
			if err != nil {
				if isRefusal(err) { // the window has gone
					err = nil
				}
				return inner, err
			}
			if at.Child == 0 {
				break
			}
			w, inner = at.Child, at.Child
		}
		return inner, nil
	})
}

// caughtUp waits until the application of a window has read every event that it was sent
// before the call, or until the bound has passed. The second result says whether it can
// tell at all: when not, it returns at once.
func (d *Display) caughtUp(ctx context.Context, window xproto.Window, bound time.Duration) (answered, supported bool) {
	answered, supported, _ = d.keyboard.pinger.caughtUp(ctx, window, bound)
	return answered, supported
}

func (p *pinger) caughtUp(ctx context.Context, window xproto.Window, bound time.Duration) (answered, supported bool, err error) {
	window, supported, err = p.pingable(ctx, window)
	if err != nil || !supported {
		return false, false, err
	}
	done, forget, err := p.send(ctx, window)
	if err != nil {
		if isRefusal(errors.Unwrap(err)) {
			return false, false, nil
		}
		return false, false, err
	}
	defer forget()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
		return true, true, nil
	case <-timer.C:
		return false, true, nil
	case <-p.done:
		return false, true, nil
	case <-ctx.Done():
		return false, true, ctx.Err()
	}
}
