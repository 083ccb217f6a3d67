package x11

import (
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"sync"
	"time"

	"github.com/jezek/xgb/damage"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// The rule by which animation is told from a screen that is still changing; see
// [Display.Settle].
const (
	animationTimes = 8                       // an area is animated when it was redrawn so often
	animationSpan  = 500 * time.Millisecond  // over so long a time
	animationPause = 2500 * time.Millisecond // with no longer pause; one that is longer ends it
	sameRedraw     = 8 * time.Millisecond    // what comes closer together is one redraw

	// reactionTime is how many times Options.Quiet an application that has done nothing
	// yet is given to show a reaction to what was sent.
	reactionTime = 3
)

// settler watches what changes on the screen.
type settler struct {
	*link
	quiet time.Duration
	watch bool // the display has DAMAGE
	id    damage.Damage

	repair     chan struct{} // wakes the goroutine that repairs
	repairOnce sync.Once

	mu   sync.Mutex
	seen history
	told time.Time // when input was sent last
	due  bool      // Settle has not yet been called since
}

// repairPause is how often the server is told to forget the damage that it has reported,
// which otherwise becomes a region of ever more rectangles.
const repairPause = 100 * time.Millisecond

// newSettler must be called before the link listens.
func (d *Display) newSettler(ctx context.Context) (*settler, error) {
	s := &settler{link: d.link, quiet: d.options.Quiet, repair: make(chan struct{}, 1)}
	event, present, err := d.extension(ctx, "DAMAGE")
	if err != nil {
		return nil, err
	}
	if !present {
		d.missing = append(d.missing, "DAMAGE")
		return s, nil
	}
	s.id, err = await(ctx, d.link, func() (damage.Damage, error) {
		if _, err := damage.QueryVersion(d.x, 1, 1).Reply(); err != nil {
			return 0, err
		}
		id, err := damage.NewDamageId(d.x)
		if err != nil {
			return 0, err
		}
		// Every redraw is reported, of all windows, since they are in the root window. The
		// levels that report less lose redraws, and cost the server more: 200,000 small
		// rectangles in one second took 1.1 times as long as without anybody watching, and
		// 2.8 times with only new damage reported and repaired every 4 ms.
		return id, damage.CreateChecked(d.x, id, xproto.Drawable(d.root), damage.ReportLevelRawRectangles).Check()
	})
	if err != nil {
		return nil, fmt.Errorf("watching the screen: %w", err)
	}
	s.watch = true
	d.handlers[event+damage.Notify] = s.damage
	return s, nil
}

// close lets go of the screen.
func (s *settler) close(ctx context.Context) {
	if !s.watch {
		return
	}
	_, _ = await(ctx, s.link, func() (struct{}, error) {
		return struct{}{}, damage.DestroyChecked(s.x, s.id).Check()
	})
}

// damage takes a report that an area of the screen was redrawn.
func (s *settler) damage(event []byte) {
	if len(event) < 32 {
		return
	}
	at := func(i int) int { return int(binary.LittleEndian.Uint16(event[i:])) }
	area := image.Rect(0, 0, at(20), at(22)).Add(image.Pt(int(int16(at(16))), int(int16(at(18)))))
	s.mu.Lock()
	s.seen.add(area, image.Pt(at(28), at(30)), time.Now())
	s.mu.Unlock()
	s.repairOnce.Do(func() { go s.repairs() })
	select {
	case s.repair <- struct{}{}:
	default:
	}
}

// repairs empties the damage after it was reported. It ends with the connection.
func (s *settler) repairs() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-s.repair:
		case <-s.done:
			return
		}
		pause.Reset(repairPause)
		select {
		case <-pause.C:
		case <-s.done:
			return
		}
		damage.Subtract(s.x, s.id, xfixes.Region(0), xfixes.Region(0))
	}
}

// sent notes that input was sent: what is redrawn from now on may be the reaction to it.
func (s *settler) sent() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.due = now, true
	s.seen.learnFrom = now
}

// damaged says whether the screen was redrawn after a time, animation included, and when it
// last was. Without DAMAGE it never was.
func (s *settler) damaged(since time.Time) (last time.Time, redrawn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.last, s.seen.last.After(since)
}

// Settle waits, after Send or Type, until the applications under the pointer and with the
// keyboard focus have read their input, as far as they can tell, and then until nothing on
// the screen that counts has been redrawn for Options.Quiet. An application that has not
// redrawn anything since the input is given three times Options.Quiet from then on to
// begin. When nothing was sent since the last Settle it waits for quiet alone, and returns
// at once on a screen that is quiet. It never takes much longer than Options.Bound; that
// it was reached is no error.
//
// What counts is decided by area, in squares of 16 pixels (larger ones on displays of more
// than 16 megapixels). A redraw of a square does not count when the square is animated:
// when it was redrawn at least 8 times, over at least half a second, with no pause longer
// than 2.5 seconds. So a spinner or a video, once it has played for half a second, holds
// nothing up, and one that played before the input never does. A pause longer than 2.5
// seconds ends it, and the square counts again. Redraws closer together than 8
// milliseconds are one. Squares that are not yet animated start over with each input and
// when the applications have read it, so that the reaction to input, such as a menu that
// fades in, is not taken for animation. A page that is being built up at different places
// counts all the while. This is learned from all redraws on the display while the
// connection lasts, also between calls.
//
// On a display without DAMAGE it waits, after input, four times Options.Quiet.
func (d *Display) Settle(ctx context.Context) error {
	if err := d.settle(ctx); err != nil {
		return fmt.Errorf("waiting for the screen to settle: %w", err)
	}
	return nil
}

func (d *Display) settle(ctx context.Context) error {
	s := d.settler
	end := time.Now().Add(d.options.Bound)
	s.mu.Lock()
	due := s.due
	s.due = false
	s.mu.Unlock()
	readAt := time.Time{}
	if due {
		d.awaitReaders(ctx, end)
		readAt = time.Now()
		s.mu.Lock()
		s.seen.learnFrom = readAt
		s.mu.Unlock()
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		now := time.Now()
		until := s.quietAt(readAt)
		if until.After(end) {
			until = end
		}
		if !until.After(now) {
			return ctx.Err()
		}
		pause.Reset(until.Sub(now))
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.done:
			return computer.ErrClosed
		}
	}
}

// quietAt says when the screen will have been quiet for long enough, if it stays as it is.
// Input that has to be waited for was read at readAt, which is zero without any.
func (s *settler) quietAt(readAt time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watch {
		if readAt.IsZero() {
			return readAt
		}
		return s.told.Add(4 * s.quiet)
	}
	at := s.seen.counted.Add(s.quiet)
	if !readAt.IsZero() {
		at = later(at, readAt.Add(s.quiet))
		if !s.seen.counted.After(s.told) {
			at = later(at, s.told.Add(reactionTime*s.quiet))
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// awaitReaders waits until the applications that may have got the input say that they have
// read it. Those that cannot say are not waited for.
func (d *Display) awaitReaders(ctx context.Context, end time.Time) {
	under, err := d.underPointer(ctx)
	if err != nil {
		return
	}
	focus, err := d.focused(ctx)
	if err != nil {
		return
	}
	if under != 0 {
		d.caughtUp(ctx, under, time.Until(end))
	}
	if focus != 0 && focus != under && time.Now().Before(end) {
		d.caughtUp(ctx, focus, time.Until(end))
	}
}

// underPointer returns the innermost window that the pointer is in, or 0.
func (d *Display) underPointer(ctx context.Context) (xproto.Window, error) {
	return await(ctx, d.link, func() (xproto.Window, error) {
		inner := xproto.Window(0)
		for w, depth := d.root, 0; depth < 64; depth++ {
			at, err := xproto.QueryPointer(d.x, w).Reply()
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

// history remembers where and when the screen was redrawn, in squares.
type history struct {
	size      image.Point // of the display
	side      int         // of a square, in pixels
	columns   int
	squares   []square
	learnFrom time.Time // a square that is not animated yet starts over after this

	last    time.Time // of any redraw
	counted time.Time // of the last redraw that was not animation
}

// square is what is remembered of one place.
type square struct {
	first, last time.Time // of the redraws that are counted in times
	times       int
	animated    bool
}

// maxSquares bounds the memory of a history; squares are larger on larger displays.
const maxSquares = 1 << 16

// add notes a redraw of an area of a display of the given size. Times must not decrease.
func (h *history) add(area image.Rectangle, size image.Point, now time.Time) {
	if h.size != size || h.squares == nil {
		h.size, h.side = size, 16
		for (size.X/h.side+1)*(size.Y/h.side+1) > maxSquares {
			h.side *= 2
		}
		h.columns = size.X/h.side + 1
		h.squares = make([]square, h.columns*(size.Y/h.side+1))
	}
	area = area.Intersect(image.Rectangle{Max: size})
	if area.Empty() {
		return
	}
	h.last = now
	counts := false
	for y := area.Min.Y / h.side; y <= (area.Max.Y-1)/h.side; y++ {
		for x := area.Min.X / h.side; x <= (area.Max.X-1)/h.side; x++ {
			if !h.squares[y*h.columns+x].redrawn(now, h.learnFrom) {
				counts = true
			}
		}
	}
	if counts {
		h.counted = now
	}
}

// redrawn notes a redraw of the square and says whether it is animated.
func (q *square) redrawn(now, learnFrom time.Time) bool {
	pause := now.Sub(q.last)
	switch {
	case pause > animationPause, !q.animated && q.first.Before(learnFrom):
		*q = square{first: now, last: now, times: 1}
	case pause >= sameRedraw:
		q.last = now
		q.times++
		q.animated = q.animated || q.times >= animationTimes && q.last.Sub(q.first) >= animationSpan
	}
	return q.animated
}
