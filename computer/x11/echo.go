package x11

import (
	"context"
	"image"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// echoes notes when the applications that get keys have redrawn something. Of one that
// cannot be asked, that is all that tells whether it has read them.
type echoes struct {
	mu   sync.Mutex
	list []*echo
}

// echo is a window that gets keys, with the whole window that it is a part of.
type echo struct {
	window xproto.Window
	area   image.Rectangle // of the whole, on the display
	found  time.Time       // when it was there
	last   time.Time       // when something in it was redrawn
}

// redrawn takes note that an area of the display was redrawn.
func (e *echoes) redrawn(area image.Rectangle, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.list {
		if o.area.Overlaps(area) {
			o.last = at
		}
	}
}

// seen reports whether windows have all been redrawn after a time, and then not for a while.
func (e *echoes) seen(windows []xproto.Window, since time.Time, quiet time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, window := range windows {
		i := slices.IndexFunc(e.list, func(o *echo) bool { return o.window == window })
		if i < 0 || !e.list[i].last.After(since) || time.Since(e.list[i].last) < quiet {
			return false
		}
	}
	return true
}

// clear forgets all windows.
func (e *echoes) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = nil
}

// follow begins to note when a window is redrawn, or looks where it is by now.
func (k *keyboard) follow(ctx context.Context, window xproto.Window) error {
	const fresh = time.Second
	k.echoes.mu.Lock()
	i := slices.IndexFunc(k.echoes.list, func(o *echo) bool { return o.window == window })
	known := i >= 0 && time.Since(k.echoes.list[i].found) < fresh
	k.echoes.mu.Unlock()
	if known || window == 0 {
		return nil
	}
	area, err := k.wholeArea(ctx, window)
	if isRefusal(err) { // the window has gone
		return nil
	}
	if err != nil {
		return err
	}
	k.echoes.mu.Lock()
	defer k.echoes.mu.Unlock()
	if i = slices.IndexFunc(k.echoes.list, func(o *echo) bool { return o.window == window }); i < 0 {
		i = len(k.echoes.list)
		k.echoes.list = append(k.echoes.list, &echo{window: window})
	}
	k.echoes.list[i].area, k.echoes.list[i].found = area, time.Now()
	return nil
}

// wholeArea returns where the outermost window is that a window is in, frame included. The
// focus may be on a part of it that never shows.
func (l *link) wholeArea(ctx context.Context, window xproto.Window) (image.Rectangle, error) {
	return await(ctx, l, func() (image.Rectangle, error) {
		for depth := 0; depth < 64; depth++ {
			tree, err := xproto.QueryTree(l.x, window).Reply()
			if err != nil {
				return image.Rectangle{}, err
			}
			if tree.Parent == l.root || tree.Parent == 0 {
				break
			}
			window = tree.Parent
		}
		g, err := xproto.GetGeometry(l.x, xproto.Drawable(window)).Reply()
		if err != nil {
			return image.Rectangle{}, err
		}
		border := 2 * int(g.BorderWidth)
		return image.Rect(0, 0, int(g.Width)+border, int(g.Height)+border).Add(image.Pt(int(g.X), int(g.Y))), nil
	})
}

// echoed waits until windows have been redrawn after a time, and then not for a while, but
// not longer than a bound, and reports whether they have.
func (k *keyboard) echoed(ctx context.Context, windows []xproto.Window, since time.Time, bound, quiet time.Duration) (bool, error) {
	end := time.NewTimer(bound)
	defer end.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		if k.echoes.seen(windows, since, quiet) {
			return true, nil
		}
		select {
		case <-poll.C:
		case <-end.C:
			return false, nil
		case <-k.done:
			return false, computer.ErrClosed
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
