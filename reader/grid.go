package reader

import (
	"context"
	"image"
	"slices"
	"strings"
	"unicode"
)

// A cell is a run of words of a line that stand close together: one cell of a table, one
// name on an axis, one entry of a legend.
type cell struct {
	line     *textLine
	from, to int // words of the line, [from, to)
	box      image.Rectangle
}

func (c *cell) words() []seenWord { return c.line.words[c.from:c.to] }

func (c *cell) text() string { return (&textLine{words: c.words()}).text() }

// number returns the number that the whole cell is, or false.
func (c *cell) number() (candidate, bool) {
	alone := *c.line
	alone.words = c.words()
	v, ok := numberAt(&alone, 0)
	if !ok || len(strings.Fields(v.value)) < len(alone.words) && v.to < len(alone.words) {
		return candidate{}, false
	}
	v.line, v.from, v.to = c.line, c.from+v.from, c.from+v.to
	return v, true
}

// cellsOf cuts lines where the gap between words is wider than a space.
func cellsOf(q *question, lines []*textLine) []cell {
	var out []cell
	for _, l := range lines {
		if q.image >= 0 && l.image != q.image || l.conf() < 70 {
			continue
		}
		from := 0
		for i := 1; i <= len(l.words); i++ {
			if i < len(l.words) && l.words[i].box.Min.X-l.words[i-1].box.Max.X <= max(3, l.box.Dy()*4/5) {
				continue
			}
			c := cell{line: l, from: from, to: i}
			for _, w := range c.words() {
				c.box = c.box.Union(w.box)
			}
			if squeeze(c.text()) != "" {
				out = append(out, c)
			}
			from = i
		}
	}
	return out
}

func inOneRow(a, b image.Rectangle) bool {
	return 2*(min(a.Max.Y, b.Max.Y)-max(a.Min.Y, b.Min.Y)) > min(a.Dy(), b.Dy())
}

func inOneColumn(a, b image.Rectangle) bool {
	return min(a.Max.X, b.Max.X) > max(a.Min.X, b.Min.X)
}

// crossing returns the cell where the row and the column meet that the question names,
// or nil when it does not name one of each, or when more than one cell fits.
func crossing(q *question, lines []*textLine) *cell {
	var asked []string
	for _, t := range q.terms {
		asked = append(asked, t.parts...)
	}
	if len(asked) < 2 {
		return nil
	}
	cells := cellsOf(q, lines)
	exact := make([]bool, len(asked))
	for _, c := range cells {
		for _, w := range c.words() {
			for i, a := range asked {
				exact[i] = exact[i] || clean(w.text) == a
			}
		}
	}
	// named says which words of the question a cell has, or nil when it has others too.
	named := func(c *cell) []bool {
		has := make([]bool, len(asked))
		some := false
		for _, w := range c.words() {
			text := clean(w.text)
			if text == "" || emptyWords[text] {
				continue
			}
			known := false
			for i, a := range asked {
				if text == a || !exact[i] && similar(a, text) {
					has[i], known, some = true, true, true
				}
			}
			if !known {
				return nil
			}
		}
		if !some {
			return nil
		}
		return has
	}
	labels := map[int][]bool{}
	for i := range cells {
		if has := named(&cells[i]); has != nil {
			labels[i] = has
		}
	}
	var found *cell
	for i, inRow := range labels {
		for j, inColumn := range labels {
			row, heading := &cells[i], &cells[j]
			if i == j || row.line.image != heading.line.image || !heads(cells, heading, row) {
				continue
			}
			if !covers(inRow, inColumn) || !covers(inColumn, inRow) {
				continue
			}
			// A word of the question that is in neither must stand over the table or
			// over the column of the names.
			all := true
			for k, a := range asked {
				all = all && (inRow[k] || inColumn[k] || slices.ContainsFunc(cells, func(c cell) bool {
					over := c.box.Max.Y <= heading.box.Min.Y || inOneRow(c.box, heading.box) && inOneColumn(c.box, row.box)
					return c.line.image == row.line.image && over && contains(c.words(), a)
				}))
			}
			if !all {
				continue
			}
			at := meeting(cells, row, heading)
			if at == nil || labels[slices.Index(cells, *at)] != nil {
				continue
			}
			if found != nil && (found.line != at.line || found.from != at.from) {
				return nil
			}
			found = at
		}
	}
	return found
}

// covers reports whether a has something that b has not.
func covers(a, b []bool) bool {
	for i := range a {
		if a[i] && !b[i] {
			return true
		}
	}
	return false
}

// heads reports whether the heading stands over the row, beside a heading of another
// column of it: a title over everything stands alone.
func heads(cells []cell, heading, row *cell) bool {
	if heading.box.Max.Y > row.box.Min.Y || heading.box.Min.X < row.box.Max.X {
		return false
	}
	return slices.ContainsFunc(cells, func(c cell) bool {
		return c.line.image == row.line.image && c.box != heading.box && inOneRow(c.box, heading.box) && !inOneColumn(c.box, heading.box) &&
			slices.ContainsFunc(cells, func(v cell) bool {
				return v.line.image == row.line.image && inOneRow(v.box, row.box) && inOneColumn(v.box, c.box) && !inOneColumn(v.box, heading.box)
			})
	})
}

// meeting returns the one cell in the row and under the heading, or nil. What stands
// between it and the heading is of its sort and evenly spaced, or else another heading
// may be nearer.
func meeting(cells []cell, row, heading *cell) *cell {
	var at *cell
	for i := range cells {
		c := &cells[i]
		if c.line.image != row.line.image || !inOneRow(c.box, row.box) || c.box.Min.X < row.box.Max.X || !inOneColumn(c.box, heading.box) {
			continue
		}
		if at != nil {
			return nil
		}
		at = c
	}
	if at == nil {
		return nil
	}
	_, numeric := at.number()
	tops := []int{heading.box.Min.Y, at.box.Min.Y}
	for i := range cells {
		c := &cells[i]
		if c.line.image != row.line.image || !inOneColumn(c.box, at.box) {
			continue
		}
		// Another heading over the same cell.
		if inOneRow(c.box, heading.box) && c.box != heading.box {
			return nil
		}
		if c.box.Min.Y < heading.box.Max.Y || c.box.Max.Y > at.box.Min.Y {
			continue
		}
		if _, n := c.number(); n != numeric {
			return nil
		}
		tops = append(tops, c.box.Min.Y)
	}
	slices.Sort(tops)
	least, most := 1<<30, 0
	for i := 1; i < len(tops); i++ {
		least, most = min(least, tops[i]-tops[i-1]), max(most, tops[i]-tops[i-1])
	}
	if 10*most > 22*least+10*at.box.Dy() {
		return nil
	}
	return at
}

// answerOf reads a cell again and returns its text, or "" when the readings differ or
// it is too small to be sure of.
func answerOf(ctx context.Context, q *question, c *cell, again rereader) (string, error) {
	if !c.line.trusted() {
		return "", nil
	}
	if v, ok := c.number(); ok {
		asNumber := *q
		asNumber.kind = kindNumber
		if v.conf() < 40 {
			return "", nil
		}
		sure, err := confirm(ctx, &asNumber, &v, again)
		if err != nil || sure == nil {
			return "", err
		}
		return sure.value, nil
	}
	return sureText(ctx, c.line, c.text(), again)
}

// sureText returns the text, which is a part of the line, when it has no digits or when
// most of several readings of the line agree on it; else "".
func sureText(ctx context.Context, l *textLine, text string, again rereader) (string, error) {
	if !strings.ContainsFunc(text, unicode.IsDigit) {
		return text, nil
	}
	readings, err := again(ctx, l.page, l.inset)
	if err != nil {
		return "", err
	}
	votes := 0
	for _, words := range readings {
		joined := ""
		for _, w := range words {
			joined += squeeze(w.text)
		}
		if strings.Contains(joined, squeeze(text)) {
			votes++
		}
	}
	if votes < 2 {
		return "", nil
	}
	return text, nil
}

// pair reports whether the line beside a key is its value. Beside a heading stands
// another heading, beside a name on an axis or in a legend another name: so the row
// must be of two cells, one of at least three such rows, and not the first of them.
func pair(q *question, lines []*textLine, key, value *textLine) bool {
	rows := func(l *textLine) (beside int) {
		for _, o := range lines {
			if o != l && o.image == l.image && inOneRow(o.box, l.box) {
				beside++
			}
		}
		return beside
	}
	if rows(key) != 1 {
		return false
	}
	above, below := 0, 0
	for _, l := range lines {
		h := key.box.Dy()
		if l.image != key.image || l == key || abs(l.box.Min.X-key.box.Min.X) > h && abs(l.box.Max.X-key.box.Max.X) > h {
			continue
		}
		if rows(l) != 1 || !slices.ContainsFunc(lines, func(o *textLine) bool {
			return o != l && o.image == l.image && inOneRow(o.box, l.box) && o.box.Min.X >= l.box.Max.X && inOneColumn(o.box, value.box)
		}) {
			continue
		}
		if l.box.Min.Y < key.box.Min.Y {
			above++
		} else {
			below++
		}
	}
	if above == 0 || above+below < 2 {
		return false
	}
	// What else was asked stands in the key or over it; "costs of Bath" is not found
	// beside "Bath" in a list of sales.
	return !slices.ContainsFunc(q.terms, func(t term) bool {
		return !t.in(key.words) && !standsOver(&t, lines, key)
	})
}

// standsOver reports whether a line above has the term.
func standsOver(t *term, lines []*textLine, l *textLine) bool {
	return slices.ContainsFunc(lines, func(o *textLine) bool {
		return o.image == l.image && o.box.Max.Y <= l.box.Min.Y && t.in(o.words)
	})
}
