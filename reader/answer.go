package reader

import (
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
	"unicode"
)

// The bounds of a search. The conversation goes on while the loop allows it; these
// keep the reader from asking for more than it has use for.
const (
	maxZooms   = 18 // in one conversation
	maxAtOnce  = 4  // in one turn
	firstZooms = 2  // in the first turn when nothing read so far points anywhere
	goodHope   = 0.55
)

// move is what the reader does next: it asks for zooms, or answers.
type move struct {
	say   string
	zooms []zoomed
}

// rereader reads one line of a page again, at several sizes; see confirm.
type rereader func(ctx context.Context, p *page, box image.Rectangle) ([][]word, error)

// next decides the next move from what has been read.
func next(ctx context.Context, q *question, s *scene, canZoom bool, again rereader) (move, error) {
	if len(s.views) == 0 {
		return move{say: "There is no image in the request, so there is nothing to read."}, nil
	}
	if q.kind == kindBeyond {
		return move{say: fmt.Sprintf("I could not answer this: it takes %s, and the built-in reader only finds and reads text in images.", q.beyond)}, nil
	}
	if q.image >= len(s.views) {
		return move{say: fmt.Sprintf("I could not find image %d; there are %d.", q.image, len(s.views))}, nil
	}
	canZoom = canZoom && len(s.looks) < maxZooms
	if q.kind == kindAll || q.kind == kindText {
		return nextText(ctx, q, s, canZoom, again)
	}

	all := s.candidates(q)
	var doubtful []*textLine
	for {
		best, rivals := choose(all, doubtful)
		if best == nil {
			break
		}
		if canZoom && slices.ContainsFunc(rivals, func(c candidate) bool { return !c.line.trusted() && !s.looked(c.line.image, c.line.box) }) {
			break // something may fit as well and is not legible yet
		}
		// A note that names nothing is the answer only when what was asked about is in
		// the picture at all.
		if best.alone {
			if name, others := absent(q, s.lines, best.line.image); name != nil {
				if z, ok := s.closerLook(others); ok && canZoom {
					return move{say: "Looking for the name that was asked about.", zooms: []zoomed{z}}, nil
				}
				return move{say: noSuchName(name, others)}, nil
			}
		}
		sure, err := confirm(ctx, q, best, again)
		if err != nil {
			return move{}, err
		}
		if sure == nil {
			doubtful = append(doubtful, best.line)
			continue
		}
		if slices.ContainsFunc(rivals, func(c candidate) bool {
			return c.line.trusted() && c.core != best.core && !slices.Contains(doubtful, c.line)
		}) {
			return move{say: ambiguous(q, sure, rivals)}, nil
		}
		return move{say: sure.value}, nil
	}
	if canZoom {
		if zooms := s.nextZooms(q, doubtful); len(zooms) > 0 {
			return move{say: looking(q, s, zooms), zooms: zooms}, nil
		}
	}
	// Everything has been looked at. A question about a note is answered by the one
	// note there is, though nothing in it repeats the question.
	if q.marked && len(s.looks) > 0 {
		if only := onlyNote(q, all, doubtful); only != nil {
			sure, err := confirm(ctx, q, only, again)
			if err != nil {
				return move{}, err
			}
			if sure != nil {
				return move{say: sure.value}, nil
			}
		}
	}
	return move{say: notFound(q, s, doubtful)}, nil
}

// choose returns the best candidate that may be answered, and those that fit nearly
// as well.
func choose(all []candidate, doubtful []*textLine) (*candidate, []candidate) {
	var best *candidate
	for i := range all {
		c := &all[i]
		if c.score < accepted {
			break
		}
		if c.line.trusted() && c.conf() >= 40 && !slices.Contains(doubtful, c.line) {
			best = c
			break
		}
	}
	if best == nil {
		return nil, nil
	}
	var rivals []candidate
	for _, c := range all {
		if c.line != best.line && c.score > best.score-0.75 && (c.core != best.core || !c.line.trusted()) {
			rivals = append(rivals, c)
		}
	}
	return best, rivals
}

// conf is the engine's confidence in the value's own words.
func (c *candidate) conf() float64 {
	low := 100.0
	for _, w := range c.line.words[c.from:c.to] {
		low = min(low, w.conf)
	}
	return low
}

// onlyNote returns the one legible note with a value of the kind asked for, or nil
// when there is none or more than one.
func onlyNote(q *question, all []candidate, doubtful []*textLine) *candidate {
	var only *candidate
	for i := range all {
		c := &all[i]
		if !c.isNote() || !c.line.trusted() || c.conf() < 80 || c.score < -2 || slices.Contains(doubtful, c.line) {
			continue
		}
		if only != nil && only.core != c.core {
			return nil
		}
		if only == nil {
			only = c
		}
	}
	return only
}

// confirm reads the line again at other sizes and returns the candidate as most
// readings have it, or nil when they do not agree.
func confirm(ctx context.Context, q *question, c *candidate, again rereader) (*candidate, error) {
	readings, err := again(ctx, c.line.page, c.line.inset)
	if err != nil {
		return nil, err
	}
	votes := map[string]int{c.core: 1}
	as := map[string]*candidate{c.core: c}
	for _, w := range c.line.words[c.from:c.to] {
		if w.agreed && c.to-c.from == 1 {
			votes[c.core]++
		}
	}
	units := map[string]int{c.value: 1}
	for _, words := range readings {
		line := &textLine{image: c.line.image, tall: c.line.tall, box: c.line.box}
		for _, w := range words {
			line.words = append(line.words, seenWord{word: w})
		}
		var near *candidate
		for _, k := range valuesIn(q, line) {
			// The same place in the line: by order, from the end that is nearer.
			if near == nil || abs(centreX(&k)-centreInset(c)) < abs(centreX(near)-centreInset(c)) {
				near = &k
			}
		}
		if near == nil {
			continue
		}
		votes[near.core]++
		units[near.value]++
		if as[near.core] == nil || units[near.value] > units[as[near.core].value] {
			as[near.core] = &candidate{value: near.value, core: near.core, line: c.line, from: c.from, to: c.to, score: c.score}
		}
	}
	best, second := "", ""
	for v, n := range votes {
		switch {
		case best == "" || n > votes[best] || n == votes[best] && v < best:
			best, second = v, best
		case second == "" || n > votes[second]:
			second = v
		}
	}
	if votes[best] < 3 || second != "" && votes[second]*2 >= votes[best] {
		return nil, nil
	}
	if q.kind == kindCode {
		// Nothing in a code tells an O from a 0 or a Z from a 2, so that all readings
		// must be the same, the smaller ones too.
		if second != "" {
			return nil, nil
		}
		own := squeeze(best)
		for _, text := range c.line.other {
			if slices.ContainsFunc(strings.Fields(text), func(w string) bool {
				w = squeeze(w)
				return w != own && len(w) == len(own) && differing(w, own) <= 2
			}) {
				return nil, nil
			}
		}
	}
	return as[best], nil
}

// differing counts the places at which two texts of one length differ.
func differing(a, b string) int {
	n := 0
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func centreX(c *candidate) int { b := c.box(); return (b.Min.X + b.Max.X) / 2 }

// centreInset is the middle of the value in the pixels of the page it was read in.
func centreInset(c *candidate) int {
	b := mapBox(c.box(), c.line.box, c.line.inset)
	return (b.Min.X + b.Max.X) / 2
}

// closerLook returns a zoom on lines of one image that were not all legible, unless
// they have been looked at.
func (s *scene) closerLook(lines []*textLine) (zoomed, bool) {
	t := target{image: lines[0].image, tall: math.MaxFloat64}
	unsure := false
	for _, l := range lines {
		t.box = t.box.Union(l.box)
		t.tall = min(t.tall, float64(l.box.Dy()))
		unsure = unsure || !l.trusted()
	}
	// The name that is sought may stand before the others or after them.
	size := s.views[t.image].size
	margin := 2 * lines[0].box.Dy()
	t.box = t.box.Inset(-margin).Intersect(image.Rectangle{Max: size})
	if !unsure || s.looked(t.image, t.box) {
		return zoomed{}, false
	}
	return zoomed{image: t.image, region: frameFor(t, size)}, true
}

// nextZooms picks the next regions: around the most hopeful targets, then tile by tile
// over what has not been looked at.
func (s *scene) nextZooms(q *question, doubtful []*textLine) []zoomed {
	room := min(maxAtOnce, maxZooms-len(s.looks))
	var out []zoomed
	for _, l := range doubtful {
		// Closer, once, than it was read.
		t := target{image: l.image, box: l.box, tall: float64(l.box.Dy()) / 1.27}
		region := frameFor(t, s.views[l.image].size)
		closer := image.Rectangle{Min: region.Min.Add(region.Size().Div(5)), Max: region.Max.Sub(region.Size().Div(5))}
		if l.box.In(closer) && !s.lookedClosely(l.image, closer) {
			out = append(out, zoomed{image: l.image, region: closer})
		}
	}
	todo := s.targets(q)
	limit := maxAtOnce
	switch {
	case len(todo) > 0 && todo[0].match:
		limit = 1
	case len(s.looks) == 0:
		limit = firstZooms
	}
	room = min(room, limit)
	spent := 0
	for _, t := range todo {
		if len(out) >= room {
			break
		}
		if t.hope < goodHope || spent+len(s.looks) >= maxZooms-len(tiles(s.views[0].size))/2 && !t.match {
			break
		}
		if slices.ContainsFunc(out, func(z zoomed) bool { return z.image == t.image && t.box.In(z.region) }) {
			continue
		}
		out = append(out, zoomed{image: t.image, region: frameFor(t, s.views[t.image].size)})
		spent++
	}
	if len(out) > 0 {
		return out
	}
	// The sweep: every part of every view that holds something like text not yet seen.
	for i, v := range s.views {
		if q.image >= 0 && i != q.image {
			continue
		}
		for _, tile := range tiles(v.size) {
			if len(out) >= room {
				return out
			}
			unread := slices.ContainsFunc(todo, func(t target) bool {
				return t.image == i && t.box.Min.Add(t.box.Max).Div(2).In(tile)
			})
			if unread && !slices.ContainsFunc(s.looks, func(k look) bool { return k.image == i && k.region == tile }) {
				out = append(out, zoomed{image: i, region: tile})
			}
		}
	}
	return out
}

// lookedClosely reports whether a zoom no larger than the region has shown it.
func (s *scene) lookedClosely(index int, region image.Rectangle) bool {
	return slices.ContainsFunc(s.looks, func(k look) bool {
		return k.image == index && overlap(k.region, region) > 0.8 && k.region.Dx() <= region.Dx()*11/10
	})
}

func looking(q *question, s *scene, zooms []zoomed) string {
	what := "the text"
	switch q.kind {
	case kindNumber:
		what = "the value"
	case kindMoney:
		what = "the amount"
	case kindPercent:
		what = "the percentage"
	case kindDate:
		what = "the date"
	case kindClock:
		what = "the time"
	case kindCode:
		what = "the code"
	}
	where := "one place that looks like small text"
	if len(zooms) > 1 {
		where = fmt.Sprintf("%d places that look like small text", len(zooms))
	}
	if len(s.looks) > 0 {
		return fmt.Sprintf("Not found yet; looking for %s in %s.", what, where)
	}
	return fmt.Sprintf("Looking for %s in %s.", what, where)
}

func notFound(q *question, s *scene, doubtful []*textLine) string {
	what := "an answer to this"
	if len(q.terms) > 0 {
		what = "a legible answer to this"
	}
	text := "I could not find " + what + " in the image."
	if len(s.views) > 1 {
		text = "I could not find " + what + " in the images."
	}
	if len(doubtful) > 0 {
		text += " There is text that may be it, but I could not read it with certainty."
	}
	return text
}

func noSuchName(name *term, others []*textLine) string {
	var names []string
	for _, l := range others {
		text := strings.TrimFunc(l.text(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if len(names) < 6 && !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return fmt.Sprintf("I could not find %q in the image; it has %s.", name.text, strings.Join(names, ", "))
}

func ambiguous(q *question, best *candidate, rivals []candidate) string {
	values := []string{best.value}
	for _, r := range rivals {
		if r.line.trusted() && !slices.Contains(values, r.value) && len(values) < 6 {
			values = append(values, r.value)
		}
	}
	return "I could not tell which of several values is meant: the image has " + strings.Join(values, ", ") + "."
}
