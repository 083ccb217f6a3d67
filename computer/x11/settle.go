package x11

import (
	"bytes"
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

// The numbers of [Display.Settle].
const (
	animationTimes = 8                      // a square is animated when it has changed so often
	animationSpan  = 500 * time.Millisecond // over so long a time
	sameChange     = 8 * time.Millisecond   // what comes closer together is one change

	// In units of Options.Quiet:
	reactionTime = 6 // how long an application is given to show a first reaction
	largeQuiet   = 4 // how long the screen must be quiet after a large part has changed
	pressedTime  = 2 // how long it is given after a press that has changed a small part
	blindWait    = 4 // how long is waited without DAMAGE

	// A change of fewer squares may be no more than the look of a button that is pressed.
	pressedSquares = 100

	// How long redraws are gathered before their pixels are looked at.
	lookPause = 8 * time.Millisecond
)

// settler watches what changes on the screen.
type settler struct {
	*link
	quiet  time.Duration
	watch  bool    // the display has DAMAGE
	echoes *echoes // to be told of every redraw
	id     damage.Damage

	repair     chan struct{} // wakes the goroutine that repairs
	repairOnce sync.Once
	redrawn    chan struct{} // wakes Settle

	mu      sync.Mutex
	new     redraws     // not yet looked at
	told    time.Time   // when input was sent last
	due     bool        // Settle has not yet been called since
	pressed bool        // among it was a press of a mouse button
	left    []bystander // while Settle does not run

	created uint16 // the number of the request to watch

	// Of the goroutine that settles:
	seen      history
	frame     []byte // the screen as it was looked at last, in the server's format
	frameSize image.Point
}

// redraws gathers what has been redrawn.
type redraws struct {
	areas []image.Rectangle
	size  image.Point // of the display
	at    time.Time   // of the last
}

// add notes one more. Of very many only one rectangle around all of them is kept.
func (r *redraws) add(area image.Rectangle, size image.Point, at time.Time) {
	r.size, r.at = size, at
	for _, have := range r.areas {
		if area.In(have) {
			return
		}
	}
	r.areas = append(r.areas, area)
	if len(r.areas) > 64 {
		r.areas = append(r.areas[:0], around(r.areas))
	}
}

// around returns the smallest rectangle that holds all of the given ones.
func around(areas []image.Rectangle) (all image.Rectangle) {
	for _, a := range areas {
		all = all.Union(a)
	}
	return all
}

// repairPause is how often the server is told to forget the damage that it has reported,
// which otherwise becomes a region of ever more rectangles.
const repairPause = 100 * time.Millisecond

// newSettler must be called before the link listens.
func (d *Display) newSettler(ctx context.Context) (*settler, error) {
	s := &settler{link: d.link, quiet: d.options.Quiet, echoes: &d.keyboard.echoes, repair: make(chan struct{}, 1), redrawn: make(chan struct{}, 1)}
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
		create := damage.CreateChecked(d.x, id, xproto.Drawable(d.root), damage.ReportLevelRawRectangles)
		s.created = create.Sequence
		return id, create.Check()
	})
	if err != nil {
		return nil, fmt.Errorf("watching the screen: %w", err)
	}
	s.watch = true
	// Nobody knows what happened before: something may just have changed.
	s.seen.counted = time.Now()
	if err := d.remember(ctx, s); err != nil {
		return nil, err
	}
	d.keyboard.watched = true
	d.handlers[event+damage.Notify] = s.damage
	return s, nil
}

// remember takes the screen as it is for what it was before, so that the first redraws can
// be told from changes.
func (d *Display) remember(ctx context.Context, s *settler) error {
	format := d.capturer.format
	if !d.capturer.shared || format.bits%8 != 0 {
		return nil
	}
	size, err := d.Size(ctx)
	if err != nil {
		return err
	}
	frame := make([]byte, format.stride(size.X)*size.Y)
	if _, err := d.readShared(ctx, image.Rectangle{Max: size}, false, func(data []byte) { copy(frame, data) }); err == nil {
		s.frame, s.frameSize = frame, size
	}
	return ctx.Err() // without it the first redraw counts
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
	if len(event) < 32 || binary.LittleEndian.Uint16(event[2:]) == s.created {
		return // whoever begins to watch is told that all is damaged
	}
	at := func(i int) int { return int(binary.LittleEndian.Uint16(event[i:])) }
	area := image.Rect(0, 0, at(20), at(22)).Add(image.Pt(int(int16(at(16))), int(int16(at(18)))))
	s.mu.Lock()
	now := time.Now()
	s.new.add(area, image.Pt(at(28), at(30)), now)
	for i := range s.left {
		s.left[i].redrawn(area, now)
	}
	s.mu.Unlock()
	s.echoes.redrawn(area, now)
	s.repairOnce.Do(func() { go s.repairs() })
	for _, wake := range [...]chan struct{}{s.repair, s.redrawn} {
		select {
		case wake <- struct{}{}:
		default: // it has not yet come to it
		}
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

// sent notes that input was sent: what changes from now on may be the reaction to it.
func (s *settler) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.due {
		for i := range s.left {
			s.left[i].moving = s.left[i].moves(now)
		}
	}
	s.told, s.due = now, true
}

// sentPress notes that a mouse button was pressed, other than those of the wheel.
func (s *settler) sentPress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pressed = true
}

// Settle waits, after Send or Type, until the applications under the pointer and with the
// keyboard focus have read their input, as far as they can tell, and then until nothing on
// the screen that counts has changed for Options.Quiet. Once half of the screen has
// changed, as when a page is loaded, that is four times Options.Quiet, since large changes
// come in several bursts. When nothing has changed since the input, applications are given
// six times Options.Quiet after it to begin. Nearly every button changes its look when it is
// pressed; so when a mouse button was pressed and fewer than 100 squares (see below) have
// changed, they are given twice Options.Quiet.
//
// When nothing was sent since the last Settle it waits for quiet alone, and returns at once
// on a screen that has been quiet for long enough. The opening of the display counts as a
// small change, since what happened just before it is not known. Settle never takes much
// longer than Options.Bound; that the bound was reached is no error.
//
// What is redrawn is looked at in squares of 16 pixels (larger ones on displays of more
// than 16 megapixels). A redraw that leaves a square as it was does not count; many
// applications redraw more than what changes. Nor does a change of a square that is
// animated: one that has changed at least 8 times, over at least half a second, within one
// Settle, where changes less than 8 milliseconds apart are one. So a spinner or a video,
// which changes the same place all the time, holds up the first Settle for half a second
// at most. It stays known until a Settle in which it does not move, and holds up none until
// then. A menu that fades in takes less than half a second and counts to its end.
//
// What moves about, such as a dot that orbits or a bar that slides to and fro, comes to each
// square only now and then. It is followed: a part of at most a quarter of the screen that
// changes for a second, in at least 12 steps with no pause of more than a quarter of a
// second, each within 48 pixels of where it was before, is animated when its squares have
// changed two and a half times on average. It holds up the first Settle for a second. It
// stays known, with all of its way, for as long as it goes on, also between two calls of
// Settle; so a change on its way does not count before it stops. A page that is being built
// up changes new squares all the time, and counts to its end.
//
// On a display whose pixels cannot be read through shared memory, every redraw is taken for a
// change. On one without DAMAGE, Settle waits four times Options.Quiet after input.
func (d *Display) Settle(ctx context.Context) error {
	if err := d.settle(ctx); err != nil {
		return fmt.Errorf("waiting for the screen to settle: %w", err)
	}
	return nil
}

func (d *Display) settle(ctx context.Context) error {
	s := d.settler
	if err := d.input.arrived(ctx); err != nil {
		return err
	}
	start := time.Now()
	end := start.Add(d.options.Bound)
	s.mu.Lock()
	due, told, pressed, left := s.due, s.told, s.pressed, s.left
	s.due, s.pressed, s.left = false, false, nil
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left = s.seen.leave()
	}()
	if due {
		d.awaitReaders(ctx, end)
	}
	read := time.Now()
	s.seen.resume(read, left, due)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		if err := d.look(ctx); err != nil {
			return err
		}
		until := s.seen.counted.Add(s.seen.quiet(s.quiet))
		if due {
			until = s.reacted(until, told, read, pressed)
		}
		if until.After(end) {
			until = end
		}
		if !until.After(time.Now()) {
			if due {
				s.seen.forget(start)
			}
			return ctx.Err()
		}
		pause.Reset(time.Until(until))
		woken := false
		select {
		case <-pause.C:
		case <-s.redrawn:
			woken = true
		case <-ctx.Done():
			return ctx.Err()
		case <-d.done:
			return computer.ErrClosed
		}
		if woken {
			pause.Reset(lookPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// reacted says until when there is to be waited after input, if all stays as it is; until
// is when the screen will have been quiet for long enough.
func (s *settler) reacted(until, told, read time.Time, pressed bool) time.Time {
	if !s.watch {
		return told.Add(blindWait * s.quiet)
	}
	until = later(until, read.Add(s.quiet))
	switch {
	case !s.seen.counted.After(told):
		until = later(until, told.Add(reactionTime*s.quiet))
	case pressed && s.seen.changed < pressedSquares:
		until = later(until, told.Add(pressedTime*s.quiet))
	}
	return until
}

// look finds out which squares have changed of what was redrawn since the last time.
func (d *Display) look(ctx context.Context) error {
	s := d.settler
	s.mu.Lock()
	r := s.new
	s.new = redraws{}
	s.mu.Unlock()
	if len(r.areas) == 0 {
		return nil
	}
	display := image.Rectangle{Max: r.size}
	changed := func(image.Rectangle) bool { return true }
	format := d.capturer.format
	stride, pixel := format.stride(r.size.X), format.bits/8
	if !d.capturer.shared || format.bits%8 != 0 {
		s.frame = nil
	} else {
		region := around(r.areas).Intersect(display)
		known := s.frame != nil && s.frameSize == r.size
		if !known {
			s.frame, s.frameSize, region = make([]byte, stride*r.size.Y), r.size, display
		}
		if region.Empty() {
			return nil
		}
		from := format.stride(region.Dx())
		_, err := d.readShared(ctx, region, false, func(data []byte) {
			if !known {
				copy(s.frame, data)
				return
			}
			// Within this call the memory is sure to be there.
			changed = func(square image.Rectangle) (different bool) {
				square = square.Intersect(region)
				n := square.Dx() * pixel
				for y := square.Min.Y; y < square.Max.Y; y++ {
					now := data[(y-region.Min.Y)*from+(square.Min.X-region.Min.X)*pixel:][:n]
					before := s.frame[y*stride+square.Min.X*pixel:][:n]
					if !bytes.Equal(now, before) {
						copy(before, now)
						different = true
					}
				}
				return different
			}
			s.seen.add(r, changed)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && known {
			return nil
		}
		if err != nil { // the display has become smaller, or is gone
			s.frame = nil
		}
	}
	s.seen.add(r, changed)
	return nil
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

// history remembers where and when the screen has changed, in squares.
type history struct {
	size    image.Point // of the display
	side    int         // of a square, in pixels
	columns int
	squares []square
	movers  []mover

	start   time.Time // of the present Settle
	changed int       // how many different squares have changed in it
	counted time.Time // of the last change that was not animation
}

// square is what is remembered of one place.
type square struct {
	first, last time.Time // of the changes that are counted in times
	times       int
	animated    bool
}

// maxSquares bounds the memory of a history; squares are larger on larger displays.
const maxSquares = 1 << 16

// begin starts the history of one Settle.
func (h *history) begin(now time.Time) { h.start, h.changed = now, 0 }

// quiet is how long the screen must be quiet, given how long for a small change.
func (h *history) quiet(small time.Duration) time.Duration {
	if h.changed > 0 && h.changed >= len(h.squares)/2 {
		return largeQuiet * small
	}
	return small
}

// forget ends the animation of the squares that have not changed since a time.
func (h *history) forget(since time.Time) {
	for i := range h.squares {
		if q := &h.squares[i]; q.animated && q.last.Before(since) {
			*q = square{}
		}
	}
}

// add notes redraws: of each of their squares it asks whether that has changed. Times must
// not decrease.
func (h *history) add(r redraws, changed func(image.Rectangle) bool) {
	if h.size != r.size || h.squares == nil {
		h.size, h.side = r.size, 16
		for (r.size.X/h.side+1)*(r.size.Y/h.side+1) > maxSquares {
			h.side *= 2
		}
		h.columns = r.size.X/h.side + 1
		h.squares = make([]square, h.columns*(r.size.Y/h.side+1))
		h.changed, h.movers = 0, nil
	}
	var parts []part
	var animated []image.Rectangle
	for _, area := range r.areas {
		area = area.Intersect(image.Rectangle{Max: r.size})
		if area.Empty() {
			continue
		}
		for y := area.Min.Y / h.side; y <= (area.Max.Y-1)/h.side; y++ {
			for x := area.Min.X / h.side; x <= (area.Max.X-1)/h.side; x++ {
				place := image.Rect(0, 0, h.side, h.side).Add(image.Pt(x*h.side, y*h.side))
				if !changed(place) {
					continue
				}
				if h.change(&h.squares[y*h.columns+x], r.at) {
					animated = append(animated, place)
				} else {
					parts = join(parts, part{place, []image.Rectangle{place}})
				}
			}
		}
	}
	h.keepUp(animated, r.at)
	if h.follow(parts, r.at) {
		h.counted = r.at
	}
}

// change notes a change of a square and says whether it is animated.
func (h *history) change(q *square, at time.Time) bool {
	switch {
	case q.animated:
		q.last = at
	case q.times == 0 || q.first.Before(h.start):
		*q = square{first: at, last: at, times: 1}
		h.changed++
	case at.Sub(q.last) >= sameChange:
		q.last = at
		q.times++
		q.animated = q.times >= animationTimes && q.last.Sub(q.first) >= animationSpan
	}
	return q.animated
}
