package reader

import (
	"image"
	"slices"
)

// A scene is all that has been read so far, view by view, in the pixels of the views.
type scene struct {
	views []*page
	lines []*textLine
	looks []look
}

// A look is one zoom that was asked for, answered or not.
type look struct {
	image  int
	region image.Rectangle
	page   *page // nil when the call failed
}

// newScene lays what the zooms showed over what the views showed. Where a zoom has
// read a line, the view's own reading of it is dropped.
func newScene(views []*page, looks []look) *scene {
	s := &scene{views: views, looks: looks}
	for _, k := range looks {
		if k.page == nil || k.image >= len(views) {
			continue
		}
		frame := image.Rectangle{Max: k.page.size}
		full := image.Rectangle{Max: views[k.image].size}
		for i := range k.page.lines {
			l := &k.page.lines[i]
			if cut(l.box, frame, k.region, full) {
				continue
			}
			t := &textLine{image: k.image, tall: l.tall, page: k.page, inset: l.box, box: mapBox(l.box, frame, k.region)}
			for _, w := range l.words {
				w.box = mapBox(w.box, frame, k.region)
				t.words = append(t.words, w)
			}
			s.add(t)
		}
	}
	for i, v := range views {
		for j := range v.lines {
			l := &v.lines[j]
			s.add(&textLine{image: i, tall: l.tall, page: v, inset: l.box, box: l.box, words: l.words})
		}
	}
	return s
}

// cut reports whether a line runs over the edge of a zoom, so that a part of it may be
// missing. The edges of the view itself cut nothing.
func cut(line, frame, region, full image.Rectangle) bool {
	margin := max(3, line.Dy()/4)
	return line.Min.X < margin && region.Min.X > full.Min.X ||
		line.Max.X > frame.Max.X-margin && region.Max.X < full.Max.X ||
		line.Min.Y < 2 && region.Min.Y > full.Min.Y ||
		line.Max.Y > frame.Max.Y-2 && region.Max.Y < full.Max.Y
}

// add keeps a line unless a better reading of the same spot is there; zooms come first.
func (s *scene) add(l *textLine) {
	for i, old := range s.lines {
		if old.image != l.image || overlap(old.box, l.box) < 0.5 || old.box.Dy() > 3*l.box.Dy() {
			continue
		}
		better, worse := old, l
		if old.worth() < l.worth() {
			better, worse = l, old
		}
		better.other = append(better.other, worse.other...)
		if worse.conf() >= 80 {
			better.other = append(better.other, worse.text())
		}
		s.lines[i] = better
		return
	}
	s.lines = append(s.lines, l)
}

// worth compares two readings of the same spot: the larger print wins, then the surer.
func (l *textLine) worth() float64 {
	agreed := 0.0
	for _, w := range l.words {
		if w.agreed {
			agreed += 10
		}
	}
	return min(l.tall, 24)*4 + l.conf() + agreed/float64(max(1, len(l.words)))
}

// looked reports whether a zoom has shown the box whole.
func (s *scene) looked(index int, box image.Rectangle) bool {
	return slices.ContainsFunc(s.looks, func(k look) bool { return k.image == index && box.In(k.region) })
}

// target is a place worth a zoom.
type target struct {
	image int
	box   image.Rectangle
	tall  float64 // of a capital in the view, estimated
	hope  float64 // how likely the answer is there
	match bool    // what could be read of it fits the question
}

// targets lists the places that look like text and have not been read well enough,
// the most hopeful first.
func (s *scene) targets(q *question) []target {
	fits, notes := map[*textLine]float64{}, map[*textLine]bool{}
	for _, c := range s.candidates(q) {
		fits[c.line] = max(fits[c.line], c.score)
		notes[c.line] = notes[c.line] || c.isNote()
	}
	var out []target
	for i, v := range s.views {
		if q.image >= 0 && q.image < len(s.views) && i != q.image {
			continue
		}
		height := float64(max(1, v.size.Y))
		place := func(t *target) {
			y := float64(t.box.Min.Y+t.box.Max.Y) / 2 / height
			x := float64(t.box.Min.X+t.box.Max.X) / 2 / float64(max(1, v.size.X))
			if slices.Contains(q.extreme, "peak") {
				t.hope += 0.4 * (1 - y)
			}
			if slices.Contains(q.extreme, "low") {
				t.hope += 0.4 * y
			}
			t.hope += 0.8 * (float64(q.place.x)*(x-0.5) + float64(q.place.y)*(y-0.5))
		}
		for _, l := range s.lines {
			if l.image != i || l.trusted() {
				continue
			}
			fit := fits[l]
			t := target{image: i, box: l.box, tall: l.tall * float64(l.box.Dx()) / float64(max(1, l.inset.Dx())), hope: 0.5}
			// A zoom that was not close enough is worth a second one for what fits.
			if s.looked(i, l.box) && (fit < accepted || s.lookedClosely(i, frameFor(t, v.size))) {
				continue
			}
			switch {
			case fit >= accepted:
				t.hope += 3
				t.match = true
			case fit > 0:
				t.hope += 0.5 + fit/3
			}
			if notes[l] {
				t.hope += 0.6 // the words that would fit may be misread
			}
			for _, w := range q.terms {
				if w.in(l.words) {
					t.hope += 0.5
				}
			}
			if q.kind == kindAll || q.kind == kindText {
				t.hope += 0.5
			}
			if len(l.words) == 1 && l.conf() >= 85 && fits[l] < 1 {
				t.hope -= 0.3 // the number of a tick
			}
			t.hope += s.speaks(q, i, l.box)
			place(&t)
			out = append(out, t)
		}
		for _, r := range v.regions {
			if r.score < 0.3 || s.looked(i, r.box) {
				continue
			}
			if slices.ContainsFunc(s.lines, func(l *textLine) bool { return l.image == i && overlap(l.box, r.box) > 0.3 }) {
				continue
			}
			t := target{image: i, box: r.box, tall: float64(r.box.Dy()) / 1.27, hope: 0.2 + 0.4*r.score}
			if aspect := r.box.Dx() / max(1, r.box.Dy()); aspect >= 4 {
				t.hope += 0.3
			}
			if t.tall >= legible {
				t.hope -= 0.4 // large enough to be read, had it been text
			}
			t.hope += s.speaks(q, i, r.box)
			place(&t)
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b target) int {
		switch {
		case a.hope > b.hope:
			return -1
		case a.hope < b.hope:
			return 1
		}
		return 0
	})
	return out
}

// speaks says how much what stands around a box has to do with the question.
func (s *scene) speaks(q *question, index int, box image.Rectangle) float64 {
	best := 0.0
	for _, l := range s.lines {
		if l.image != index || l.box == box {
			continue
		}
		r := relation(l.box, box)
		if r <= best {
			continue
		}
		for _, t := range q.terms {
			best = max(best, r*t.share(l.words))
		}
	}
	return best
}

func (s *scene) candidates(q *question) []candidate { return candidates(q, s.lines) }

// wantedTall is the height of a capital, in pixels of the zoom's image, that a zoom
// aims at: well above legible, and not so large that the engine reads worse.
const wantedTall = 26.0

// frameFor returns the region to zoom into for a target: its own shape is the view's,
// so that the zoom fills the image budget, and its size is such that the text comes
// out about wantedTall high.
func frameFor(t target, view image.Point) image.Rectangle {
	// A zoom is about as large as the view: both fill the same budget. A small view
	// (of a small original) is less than that, and then the text comes out larger.
	magnify := wantedTall / max(2, t.tall)
	magnify = max(1.5, min(magnify, 10))
	w := float64(view.X) / magnify
	h := float64(view.Y) / magnify
	need := max(float64(t.box.Dx())*1.25/w, float64(t.box.Dy())*2/h, 1)
	w, h = min(w*need, float64(view.X)), min(h*need, float64(view.Y))
	centre := t.box.Min.Add(t.box.Max).Div(2)
	x := max(0, min(centre.X-int(w/2), view.X-int(w)))
	y := max(0, min(centre.Y-int(h/2), view.Y-int(h)))
	return image.Rect(x, y, x+max(1, int(w)), y+max(1, int(h)))
}

// tiles cuts a view into overlapping parts for a sweep, row by row from the top.
func tiles(view image.Point) []image.Rectangle {
	columns, rows := 4, 3
	if view.Y > view.X {
		columns, rows = 3, 4
	}
	w, h := view.X/columns, view.Y/rows
	var out []image.Rectangle
	for r := range rows {
		for c := range columns {
			tile := image.Rect(c*w, r*h, (c+1)*w, (r+1)*h).Inset(-max(w, h) / 12)
			out = append(out, tile.Intersect(image.Rectangle{Max: view}))
		}
	}
	return out
}
