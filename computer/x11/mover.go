package x11

import (
	"image"
	"slices"
	"time"
)

// What moves over the screen, such as a dot that orbits or a bar that slides to and fro,
// changes each square only now and then. So places are followed as well: a mover is a small
// part of the screen that changes at one place after another, each next to where it was.

const (
	moverSteps = 12                     // a mover is animated when it has made so many steps
	moverSpan  = time.Second            // over so long a time
	moverPause = 250 * time.Millisecond // with no longer pause between two
	moverNear  = 48                     // pixels from one place to the next

	// and when it has changed each square that it came to so often, in halves: what is
	// being built up, such as a page, changes new squares all the time
	moverTimes = 5

	maxMovers = 32
)

// mover is something that moves, or may turn out to.
type mover struct {
	extent      image.Rectangle   // everywhere that it was
	recent      []image.Rectangle // where its last step was
	largest     int               // pixels of the largest place
	first, last time.Time
	stepped     time.Time // when the last step began
	steps       int
	changes     int                      // of squares
	places      map[image.Rectangle]bool // squares that have changed
	animated    bool
}

// part is a part of the screen that has changed at once.
type part struct {
	box     image.Rectangle
	squares []image.Rectangle
}

func (p part) pixels() int { return p.box.Dx() * p.box.Dy() }

func near(a, b image.Rectangle) bool { return a.Inset(-moverNear).Overlaps(b) }

// join adds a part to others, of which it becomes one with those that are near.
func join(parts []part, p part) []part {
	for i := 0; i < len(parts); {
		if o := parts[i]; near(p.box, o.box) {
			p = part{p.box.Union(o.box), append(o.squares, p.squares...)}
			parts = slices.Delete(parts, i, i+1)
			i = 0 // it has grown
			continue
		}
		i++
	}
	return append(parts, p)
}

// follow notes the parts of the screen that have changed at a time, and reports whether any
// of them is no animation.
func (h *history) follow(parts []part, at time.Time) (counts bool) {
	for _, p := range parts {
		if p.pixels() > h.size.X*h.size.Y/4 { // too large to move about
			counts = true
			continue
		}
		var m mover
		h.movers = slices.DeleteFunc(h.movers, func(o mover) bool {
			match := o.reaches(p)
			if match {
				m = m.merge(o)
			}
			return match
		})
		if !m.step(p, at) {
			counts = true
		}
		if len(h.movers) == maxMovers {
			h.movers = slices.Delete(h.movers, 0, 1)
		}
		h.movers = append(h.movers, m)
	}
	return counts
}

// keepUp notes squares that have changed and are animated by themselves, as those become that a
// mover comes back to: it has not stopped.
func (h *history) keepUp(squares []image.Rectangle, at time.Time) {
	for i := range h.movers {
		m := &h.movers[i]
		if m.animated && at.Sub(m.last) <= moverPause && slices.ContainsFunc(squares, m.extent.Overlaps) {
			m.last = at
		}
	}
}

// reaches reports whether a change may be a step of the mover. One that is animated already
// takes nothing beside its way for its own but at where it was last.
func (m mover) reaches(p part) bool {
	if !m.animated {
		return near(p.box, m.extent)
	}
	return p.box.Overlaps(m.extent) || m.leadsTo(p.box)
}

// leadsTo reports whether a place is such as the mover would go to next.
func (m mover) leadsTo(box image.Rectangle) bool {
	return box.Dx()*box.Dy() <= 4*m.largest && slices.ContainsFunc(m.recent, func(r image.Rectangle) bool { return near(r, box) })
}

// merge returns the mover that two turn out to be.
func (m mover) merge(o mover) mover {
	if m.steps == 0 {
		return o
	}
	m.extent = m.extent.Union(o.extent)
	m.recent = append(m.recent, o.recent...)
	m.largest = max(m.largest, o.largest)
	if o.first.Before(m.first) {
		m.first = o.first
	}
	m.last, m.stepped = later(m.last, o.last), later(m.stepped, o.stepped)
	m.steps = max(m.steps, o.steps)
	m.changes += o.changes
	for place := range o.places {
		m.places[place] = true
	}
	m.animated = m.animated || o.animated
	return m
}

// step takes a change for a step of the mover, and reports whether it is animated.
func (m *mover) step(p part, at time.Time) bool {
	if m.steps > 0 && at.Sub(m.last) > moverPause {
		*m = mover{} // it has stopped: this is something new
	}
	if m.steps == 0 {
		m.first, m.places = at, map[image.Rectangle]bool{}
	}
	if m.steps == 0 || at.Sub(m.stepped) >= sameChange {
		m.steps++
		m.stepped, m.recent = at, nil
	}
	m.extent = m.extent.Union(p.box)
	m.recent = append(m.recent, p.box)
	m.largest = max(m.largest, p.pixels())
	m.last = at
	if m.animated {
		return true
	}
	m.changes += len(p.squares)
	for _, square := range p.squares {
		m.places[square] = true
	}
	m.animated = m.steps >= moverSteps && at.Sub(m.first) >= moverSpan && 2*m.changes >= moverTimes*len(m.places)
	return m.animated
}

// bystander follows the redraws of an animated mover while nobody looks at pixels.
type bystander struct {
	mover
	moving bool // when input was sent
}

// redrawn notes a redraw.
func (b *bystander) redrawn(area image.Rectangle, at time.Time) {
	switch {
	case b.leadsTo(area):
		b.extent, b.recent, b.last = b.extent.Union(area), []image.Rectangle{area}, at
	case area.Overlaps(b.extent):
		b.last = at
	}
}

// moves reports whether the mover still moves at a time.
func (b *bystander) moves(at time.Time) bool { return at.Sub(b.last) <= moverPause }

// leave returns the movers that are animated, to be followed until the next Settle.
func (h *history) leave() (left []bystander) {
	for _, m := range h.movers {
		if m.animated {
			left = append(left, bystander{mover: m})
		}
	}
	return left
}

// resume starts the history of one Settle, with those movers that have not stopped since the
// last: before the input, when there was any, since afterwards a change may be the reaction.
func (h *history) resume(now time.Time, left []bystander, input bool) {
	h.begin(now)
	h.movers = nil
	for _, b := range left {
		if input && b.moving || !input && b.moves(now) {
			b.last = now
			h.movers = append(h.movers, b.mover)
		}
	}
}
