package x11

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// locker keeps other programs from the display for moments, on a connection of its own. A
// server puts a connection to sleep that asks for what another program has at the time, and
// a window manager that has it while something is dragged waits for the button to be
// released. So the connection that releases it must never ask. It goes on meanwhile: through
// XTEST it is impervious to what others have, our own locker included (see
// [Display.readyXTEST]).
type locker struct {
	aside
	mu     sync.Mutex // held for as long as the display is
	closed bool
}

const (
	// lockBound is how long another program that keeps the display to itself is waited for.
	lockBound = 2 * time.Second

	// lockSlack is how long a server that is not kept from us takes to answer at most.
	lockSlack = 100 * time.Millisecond
)

// errLocked says that another program keeps the display to itself.
var errLocked = errors.New("another program keeps the display to itself, as some do while something is dragged; end that, or try again later")

// lock keeps others from the display until unlock is called, which does not wait. Others
// that have it are waited for within a time.
//
// The X.Org server puts even an impervious connection to sleep when a request of it is in
// the queue at the moment that another gets the display. So the main connection must be
// idle then, and where it was not, since another goroutine used it, the locker lets go and
// tries again.
func (l *locker) lock(ctx context.Context, within time.Duration) (unlock func(), err error) {
	l.mu.Lock()
	for answer := firstAnswer; ; answer = min(2*answer, lastAnswer) {
		if err = l.main.sync(ctx); err != nil {
			break
		}
		if err = l.try(ctx, within); errors.Is(err, errLocked) {
			// A server that does not answer us either is just slow.
			asked := time.Now()
			if l.main.sync(ctx) == nil && time.Since(asked) < lockSlack {
				break
			}
			continue
		}
		if err != nil {
			break
		}
		own := l.own
		served, cancel := context.WithTimeout(ctx, answer)
		err = l.main.sync(served)
		asleep := served.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return func() {
				xproto.UngrabServer(own.x)
				l.mu.Unlock()
			}, nil
		}
		xproto.UngrabServer(own.x)
		if !asleep {
			break
		}
	}
	l.mu.Unlock()
	return nil, err
}

// How long the main connection may take to answer while the locker has the display, before
// it is taken to be asleep: at first, and as it grows.
const firstAnswer, lastAnswer = 100 * time.Millisecond, 2 * time.Second

// try asks for the display. After a failure the connection is gone.
func (l *locker) try(ctx context.Context, within time.Duration) error {
	if l.closed {
		return computer.ErrClosed
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := l.connect(bounded)
	if err == nil {
		own := l.own
		_, err = await(bounded, own, func() (*xproto.GetInputFocusReply, error) {
			xproto.GrabServer(own.x)
			return xproto.GetInputFocus(own.x).Reply()
		})
	}
	if err == nil {
		return nil
	}
	l.drop()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return errLocked
	}
	// A server that is gone shows on either connection.
	if mainErr := l.main.sync(ctx); mainErr != nil {
		return mainErr
	}
	return err
}

// close ends the connection for good.
func (l *locker) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.drop()
}
