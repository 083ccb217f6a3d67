package reader

import (
	"context"
	"image"
	"math"
	"slices"
	"strings"

	"github.com/loupe-tools/loupe/picture"
)

// A page is everything that was found in one image of a request: a view or the result
// of a zoom. It holds no pixels. Pages are kept and shared, and never changed.
type page struct {
	size    image.Point
	lines   []pageLine
	regions []region
}

// A pageLine is one line as read, in the pixels of the page.
type pageLine struct {
	words []seenWord
	box   image.Rectangle
	tall  float64
}

// How an image is read.
const (
	widest       = 1568 // pixels; the engine reads larger print worse, not better
	rowHeight    = 34   // of a line on the sheet, in pixels
	maxRows      = 120
	likelyText   = 0.5 // least score of a region that is read
	plausible    = 45  // least mean confidence of a line that is kept
	certainWords = 80
	surely       = 75 // a line read with this confidence on the sheet stays
)

// readPage reads an image twice: as a whole, where the engine itself decides where
// text is, and then, line by line on a sheet, the regions that look like text and that
// the first reading passed over or was not sure of.
func (e *engine) readPage(ctx context.Context, m *image.RGBA) (*page, error) {
	ink := inkOf(m)
	p := &page{size: m.Rect.Size(), regions: ink.findRegions()}
	whole, err := e.readWhole(ctx, ink.withoutRules())
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range p.regions {
		if r.score >= likelyText && len(rows) < maxRows && !wellRead(r.box, whole) {
			rows = append(rows, row{r.box, rowHeight, r.layer})
		}
	}
	lines, err := e.readRows(ctx, ink, rows)
	if err != nil {
		return nil, err
	}
	if err := e.retry(ctx, ink, rows, lines); err != nil {
		return nil, err
	}
	p.merge(lines, whole)
	return p, nil
}

// retry reads the rows again, smaller and larger, that are large enough to be legible
// and shaped like words and that the engine was not sure of: codes above all, which are
// no words that it knows. The surest reading of each stays.
func (e *engine) retry(ctx context.Context, ink *inkMap, rows []row, lines [][]word) error {
	const most = 8
	var again []row
	var which []int
	for i, r := range rows {
		l := newLine(lines[i])
		if len(which) < most && float64(r.box.Dy()) >= legible && r.box.Dx() >= 5*r.box.Dy()/2 && l.conf() < 60 {
			small, large := r, r
			small.height, large.height = rowHeight*7/10, rowHeight*14/10
			again = append(again, small, large)
			which = append(which, i)
		}
	}
	if len(again) == 0 {
		return nil
	}
	more, err := e.readRows(ctx, ink, again)
	if err != nil {
		return err
	}
	for n, i := range which {
		for _, words := range more[2*n : 2*n+2] {
			a, b := newLine(words), newLine(lines[i])
			if a.conf() > b.conf() {
				lines[i] = words
			}
		}
	}
	return nil
}

// wellRead reports whether sure words cover most of the box.
func wellRead(box image.Rectangle, words []word) bool {
	width := 0
	left, right := box.Max.X, box.Min.X
	for _, w := range words {
		c := w.box.Intersect(box)
		if c.Empty() || 3*c.Dy() < 2*min(w.box.Dy(), box.Dy()) {
			continue
		}
		if w.conf < 85 || len(w.text) < 2 && !isAlnum(rune(w.text[0])) {
			return false
		}
		// What looks like a value is worth a second reading, large enough to be one.
		if float64(box.Dy()) >= legible && strings.ContainsAny(w.text, "0123456789") {
			return false
		}
		width += c.Dx()
		left, right = min(left, c.Min.X), max(right, c.Max.X)
	}
	margin := max(1, box.Dy()/3) // less than a letter
	return 10*width >= 7*box.Dx() && left <= box.Min.X+margin && right >= box.Max.X-margin
}

// readWhole reads all of m, made smaller when it is wider than the engine likes.
func (e *engine) readWhole(ctx context.Context, m *image.RGBA) ([]word, error) {
	size := m.Rect.Size()
	small := m
	if size.X > widest {
		target := image.Pt(widest, max(1, size.Y*widest/size.X))
		small = picture.Resample(m, m.Rect, target)
	}
	words, err := e.read(ctx, gray(small), sparse)
	if err != nil {
		return nil, err
	}
	if small != m {
		for i := range words {
			words[i].box = mapBox(words[i].box, small.Rect, m.Rect)
		}
	}
	return words, nil
}

// merge makes the lines of the page from both readings.
func (p *page) merge(rows [][]word, whole []word) {
	var kept []pageLine
	for _, r := range rows {
		l := newLine(r)
		if len(l.words) == 0 || l.conf() < plausible || l.conf() < surely && confWithin(l.box, whole) > l.conf()+10 {
			continue
		}
		kept = append(kept, l)
	}
	used := make([]bool, len(whole))
	for i := range kept {
		for j := range kept[i].words {
			w := &kept[i].words[j]
			for k, o := range whole {
				if overlap(w.box, o.box) < 0.5 {
					continue
				}
				used[k] = true
				if o.text == w.text {
					w.agreed = true
				} else if o.conf >= certainWords && strings.Trim(o.text, ".,:;|") != strings.Trim(w.text, ".,:;|") {
					w.disputed = true
				}
			}
		}
	}
	// What only the reading of the whole has.
	var left []word
	for k, o := range whole {
		if !used[k] && o.conf >= 60 && o.box.Dy() <= 2*maxTextHeight {
			left = append(left, o)
		}
	}
	for _, words := range rowsOf(left) {
		l := newLine(words)
		if len(l.words) > 0 && l.conf() >= plausible && strings.ContainsFunc(l.text(), isAlnum) {
			kept = append(kept, l)
		}
	}
	p.lines = joinLines(kept)
}

// joinLines puts together what stands side by side in one row, as parts of a line that
// the two readings saw apart.
func joinLines(lines []pageLine) []pageLine {
	slices.SortStableFunc(lines, func(a, b pageLine) int { return a.box.Min.X - b.box.Min.X })
	var out []pageLine
	for _, l := range lines {
		best := -1
		for i := range out {
			o := &out[i]
			h := max(o.tall, l.tall)
			gap := float64(l.box.Min.X - o.box.Max.X)
			shared := min(o.box.Max.Y, l.box.Max.Y) - max(o.box.Min.Y, l.box.Min.Y)
			alike := min(o.tall, l.tall) >= 0.7*h
			if alike && gap >= -h/3 && gap <= 1.3*h+2 && 10*shared >= 6*min(o.box.Dy(), l.box.Dy()) {
				best = i
			}
		}
		if best < 0 {
			out = append(out, l)
			continue
		}
		o := &out[best]
		n, m := float64(len(o.words)), float64(len(l.words))
		o.tall = (o.tall*n + l.tall*m) / (n + m)
		o.words = slices.Concat(o.words, l.words)
		o.box = o.box.Union(l.box)
	}
	return out
}

// confWithin is the mean confidence of the words inside the box, or 0.
func confWithin(box image.Rectangle, words []word) float64 {
	sum, n := 0.0, 0.0
	for _, w := range words {
		if overlap(w.box, box) > 0.5 {
			sum += w.conf
			n++
		}
	}
	return sum / max(1, n)
}

func isAlnum(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

func newLine(words []word) pageLine {
	var l pageLine
	for _, w := range words {
		// A tick mark or a stroke of a curve beside the text.
		if len([]rune(w.text)) == 1 && !isAlnum([]rune(w.text)[0]) && !strings.ContainsAny(w.text, "$€£¥%&+-=") {
			continue
		}
		l.words = append(l.words, seenWord{word: w})
		l.box = l.box.Union(w.box)
	}
	var tall []float64
	for _, w := range l.words {
		tall = append(tall, capital(w.text, w.box.Dy()))
	}
	if len(tall) > 0 {
		slices.Sort(tall)
		l.tall = tall[len(tall)/2]
	}
	return l
}

func (l *pageLine) text() string  { return (&textLine{words: l.words}).text() }
func (l *pageLine) conf() float64 { return (&textLine{words: l.words}).conf() }

// capital estimates the height of a capital letter from the height of a word's ink.
func capital(text string, height int) float64 {
	h := float64(height)
	up := strings.ContainsFunc(text, func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || strings.ContainsRune("bdfhklt%$€£()[]/|", r)
	})
	down := strings.ContainsAny(text, "gjpqy,;()[]|Q$/")
	switch {
	case up && down:
		return h / 1.27
	case up:
		return h
	case down:
		return h
	}
	return h * 1.35
}

// rowsOf groups words into lines: side by side, with no more than a wide space between.
func rowsOf(words []word) [][]word {
	words = slices.Clone(words)
	slices.SortStableFunc(words, func(a, b word) int { return a.box.Min.X - b.box.Min.X })
	var rows [][]word
	for _, w := range words {
		best, gap := -1, math.MaxInt
		for i, r := range rows {
			last := r[len(r)-1].box
			h := max(last.Dy(), w.box.Dy())
			shared := min(last.Max.Y, w.box.Max.Y) - max(last.Min.Y, w.box.Min.Y)
			space := w.box.Min.X - last.Max.X
			if 2*shared >= min(last.Dy(), w.box.Dy()) && space <= h*5/4+2 && space >= -h && space < gap {
				best, gap = i, space
			}
		}
		if best < 0 {
			rows = append(rows, []word{w})
		} else {
			rows[best] = append(rows[best], w)
		}
	}
	return rows
}
