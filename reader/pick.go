package reader

import (
	"image"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// A textLine is one line of text somewhere in a view.
type textLine struct {
	words []seenWord
	box   image.Rectangle // pixels of the view
	image int             // which view, from 0
	tall  float64         // height of a capital as it was read, in pixels of the image read
	page  *page           // the image it was read in
	inset image.Rectangle // the line in the pixels of that image
	other []string        // sure readings of the same spot elsewhere, smaller
}

// A seenWord is a word with what a second reading made of it.
type seenWord struct {
	word
	agreed   bool // a second reading gave the same characters
	disputed bool // a second reading gave others
}

// legible is the height of a capital in pixels from which a reading is taken for what
// is written. The engine reads much of what is smaller, but with single digits wrong;
// such a reading says only where to look closer.
const legible = 13.0

func (l *textLine) trusted() bool { return l.tall >= legible }

func (l *textLine) text() string {
	parts := make([]string, len(l.words))
	for i, w := range l.words {
		parts[i] = w.text
	}
	return strings.Join(parts, " ")
}

func (l *textLine) conf() float64 {
	if len(l.words) == 0 {
		return 0
	}
	sum := 0.0
	for _, w := range l.words {
		sum += w.conf
	}
	return sum / float64(len(l.words))
}

// A candidate is a piece of a line that may be the answer.
type candidate struct {
	value  string // as an answer gives it: with its unit or sign
	core   string // the value alone
	line   *textLine
	from   int // words of the line that hold the value itself, [from, to)
	to     int
	score  float64
	direct bool // the line itself holds words of the question
	alone  bool // nothing near it holds a name that the question has
}

// accepted is the least score of an answer: evidence of one strong kind, or of two
// weak ones.
const accepted = 3.0

var (
	grouped     = regexp.MustCompile(`^\d{1,3}(,\d{3})+(\.\d+)?$`)
	plainNumber = regexp.MustCompile(`^\d+(\.\d+)?$`)
	number      = regexp.MustCompile(`^([-+−–~≈±]?)([$€£¥]?)([-−]?)(\d[\d,.]*)(%?)([\p{L}°µ²³/]*)$`)
	unitWord    = regexp.MustCompile(`^[\p{L}°µ%/²³·.-]{1,16}$`)
	dateForms   = regexp.MustCompile(`(?i)\b(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|(?:\d{1,2}(?:st|nd|rd|th)? )?(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?(?: \d{1,2}(?:st|nd|rd|th)?)?(?:,? \d{4})?|(?:1[5-9]|20)\d{2})\b`)
	clockForm   = regexp.MustCompile(`(?i)\b(?:[01]?\d|2[0-3])(?::[0-5]\d(?::[0-5]\d)?\b(?: ?[ap]\.?m\b\.?)?|\.[0-5]\d ?[ap]\.?m\b\.?)`) // with a point alone it may be a price
	codeForm    = regexp.MustCompile(`^(?:[\p{L}\p{N}]+(?:[-_/.:@+#][\p{L}\p{N}]+)+|\p{L}+\d[\p{L}\p{N}]*|\d+\p{L}[\p{L}\p{N}]*|\d{4,})$`)
)

// candidates lists what in the lines is of the kind asked for, best first.
func candidates(q *question, lines []*textLine) []candidate {
	if q.kind == kindText || q.kind == kindAll || q.kind == kindBeyond {
		return nil
	}
	var out []candidate
	axis := ticks(lines)
	for _, l := range lines {
		if q.image >= 0 && l.image != q.image || axis[l] && q.kind != kindDate {
			continue
		}
		for _, c := range valuesIn(q, l) {
			if c.partOfName(q) {
				continue
			}
			c.weigh(q, lines)
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	return out
}

// valuesIn finds the values of the kind asked for in one line.
func valuesIn(q *question, l *textLine) []candidate {
	var out []candidate
	switch q.kind {
	case kindDate, kindClock:
		form := dateForms
		if q.kind == kindClock {
			form = clockForm
		}
		text, starts := l.mended()
		wordAt := func(offset int) int {
			return sort.Search(len(starts), func(i int) bool { return starts[i] > offset }) - 1
		}
		for _, at := range form.FindAllStringIndex(text, -1) {
			if q.kind == kindDate && !q.dated(text, at[0], at[1]) {
				continue
			}
			value := text[at[0]:at[1]]
			out = append(out, candidate{value: value, core: value, line: l, from: max(0, wordAt(at[0])), to: wordAt(at[1]-1) + 1})
		}
	case kindCode:
		for i, w := range l.words {
			t := strings.Trim(w.text, ",;:.()[]\"'“”‘’")
			if codeForm.MatchString(t) && strings.ContainsFunc(t, func(r rune) bool { return unicode.IsDigit(r) || r == '@' || r == '.' || r == '-' }) {
				out = append(out, candidate{value: t, core: t, line: l, from: i, to: i + 1})
			}
		}
	default:
		for i := range l.words {
			if c, ok := numberAt(l, i); ok && q.takes(c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// mended is the line's text with what the engine cut at a hyphen put together, "2025-03-"
// and "-14", and the offset in it at which each word starts.
func (l *textLine) mended() (string, []int) {
	var text strings.Builder
	starts := make([]int, len(l.words))
	for i, w := range l.words {
		piece := w.text
		if i > 0 {
			before := l.words[i-1]
			cut := strings.HasSuffix(before.text, "-") && w.box.Min.X-before.box.Max.X <= max(2, w.box.Dy()/4)
			if rest := strings.TrimPrefix(piece, "-"); cut && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
				piece = rest
			} else {
				text.WriteByte(' ')
			}
		}
		starts[i] = text.Len()
		text.WriteString(piece)
	}
	return text.String(), starts
}

var (
	joinedBehind = regexp.MustCompile(`^(?:[-–—/]| ?[-–—/.] ?\d)`)
	joinedBefore = regexp.MustCompile(`(?:[-–—/]|\d ?[-–—/.] ?)$`)
)

// dated reports whether text[from:to] is a date as the question wants it: not the year
// that was left of "2025-03-14" by a bad reading, a year alone only when no day was
// asked for, and a month alone only when a month was.
func (q *question) dated(text string, from, to int) bool {
	value, lower := text[from:to], strings.ToLower(q.text)
	hasDigit := strings.ContainsFunc(value, unicode.IsDigit)
	if joinedBehind.MatchString(text[to:]) || joinedBefore.MatchString(text[:from]) {
		return false
	}
	if !hasDigit {
		return strings.Contains(lower, "month")
	}
	return !plainNumber.MatchString(value) || !wantsDay.MatchString(lower)
}

var wantsDay = regexp.MustCompile(`\b(date|day|month)\b`)

// numberAt reads a number that starts at word i, with the sign before it and the unit
// behind it.
func numberAt(l *textLine, i int) (candidate, bool) {
	text := strings.Trim(l.words[i].text, ";:()[]{}\"'“”‘’|*")
	text = strings.TrimRight(text, ".,!?")
	to := i + 1
	// The engine may see a gap behind the comma of a group.
	if strings.HasSuffix(l.words[i].text, ",") && to < len(l.words) {
		next := strings.TrimRight(l.words[to].text, ".,;:)")
		if len(next) == 3 && plainNumber.MatchString(next) && number.MatchString(text) && nearby(l.words[i].box, l.words[to].box) {
			text += "," + next
			to++
		}
	}
	m := number.FindStringSubmatch(text)
	if m == nil {
		return candidate{}, false
	}
	core := m[4]
	if !grouped.MatchString(core) && !plainNumber.MatchString(core) {
		return candidate{}, false
	}
	value := m[1] + m[2] + m[3] + core + m[5]
	if m[1] == "–" {
		value = m[2] + m[3] + core + m[5]
	}
	if m[6] != "" {
		if len([]rune(m[6])) > 4 {
			return candidate{}, false
		}
		value += m[6]
	}
	if m[2] == "" && i > 0 && strings.ContainsAny(l.words[i-1].text, "$€£¥") && len([]rune(l.words[i-1].text)) == 1 {
		value = l.words[i-1].text + value
	}
	if m[5] == "" && m[6] == "" && to < len(l.words) {
		next := l.words[to]
		unit := strings.TrimRight(next.text, ".,;:)!")
		if next.conf >= 50 && unitWord.MatchString(unit) && nearby(l.words[to-1].box, next.box) && !emptyWords[strings.ToLower(unit)] && conceptOf(strings.ToLower(unit)) == "" {
			value += " " + unit
		}
	}
	return candidate{value: value, core: core, line: l, from: i, to: to}, true
}

// nearby reports whether b follows a with no more than a wide space between them.
func nearby(a, b image.Rectangle) bool {
	return b.Min.X-a.Max.X <= max(3, max(a.Dy(), b.Dy())*5/4)
}

// takes reports whether the number is of the kind asked for.
func (q *question) takes(c candidate) bool {
	lower := strings.ToLower(c.line.text())
	switch q.kind {
	case kindPercent:
		return strings.Contains(c.value, "%") || strings.Contains(lower, "percent") || strings.Contains(lower, "per cent") || strings.Contains(lower, "%")
	case kindMoney:
		return true
	}
	return true
}

// weigh scores a candidate by where the terms of the question stand.
func (c *candidate) weigh(q *question, lines []*textLine) {
	l := c.line
	rest := slices.Concat(l.words[:c.from], l.words[c.to:])
	extremeSeen := len(q.extreme) == 0
	nameMissing := false
	covered, all := 0.0, 0.0
	for _, t := range q.terms {
		best := c.inLine(&t)
		// Words are read well where digits are not: what a smaller reading of the same
		// line has beside the value counts too.
		if best == 0 && slices.ContainsFunc(l.other, func(text string) bool { return t.in(seenWords(text)) }) {
			best = 1
		}
		c.direct = c.direct || best > 0
		for _, other := range lines {
			if other == l || other.image != l.image {
				continue
			}
			r := relation(other.box, c.box())
			if r > best && t.in(other.words) {
				// A line with a value of its own speaks for that.
				if ownValue(q, other) {
					r *= 0.4
				}
				best = max(best, r)
			}
		}
		all += t.weight
		covered += t.weight * best
		extremeSeen = extremeSeen || best >= 0.5 && slices.Contains(q.extreme, t.concept)
		nameMissing = nameMissing || t.name && best < 0.5
	}
	c.score += covered
	if covered > 0.75*all {
		c.score += 2
	}
	for _, u := range q.units {
		if similar(u, lastWord(c.value)) {
			c.score += 1.5
		}
	}
	note := c.isNote()
	if note && q.marked {
		c.score += 0.5
	}
	if !extremeSeen {
		c.score -= 1.5
		if !note || !q.marked {
			c.score -= 1.5
		}
	}
	// One of several things was named, and nothing near the value names it: good
	// enough only for a note that says itself what it is ("peak: 6,053 units").
	c.alone = nameMissing
	if nameMissing && !(note && c.direct && len(q.extreme) > 0 && extremeSeen) {
		c.score -= 2
	}
	if rivalName(q, rest) || slices.ContainsFunc(lines, func(o *textLine) bool {
		return o != l && o.image == l.image && relation(o.box, c.box()) >= 0.8 && rivalName(q, o.words)
	}) {
		c.score -= 5
	}
	switch q.kind {
	case kindMoney:
		if strings.ContainsAny(c.value, "$€£¥") {
			c.score++
		} else if !strings.Contains(c.core, ".") {
			c.score -= 0.5
		}
	case kindPercent:
		if strings.Contains(c.value, "%") {
			c.score++
		}
	}
}

// ownValue reports whether a line has words and a value of the kind asked for.
func ownValue(q *question, l *textLine) bool {
	return slices.ContainsFunc(valuesIn(q, l), func(c candidate) bool { return c.isNote() && !c.partOfName(q) })
}

// inLine says how strongly the candidate's own line speaks for it with a term: 1 for a
// term right before the value, a little less elsewhere, less when another number stands
// between.
func (c *candidate) inLine(t *term) float64 {
	words := c.line.words
	if t.in(words[:c.from]) {
		for i := c.from - 1; i >= 0; i-- {
			if t.in(words[i:c.from]) {
				return 1
			}
			if _, isNumber := numberAt(c.line, i); isNumber {
				return 0.7
			}
		}
	}
	if t.in(words[c.to:]) {
		return 0.9
	}
	if t.in(slices.Concat(words[:c.from], words[c.to:])) {
		return 0.7
	}
	return 0
}

// box is where the value itself stands, in pixels of the view.
func (c *candidate) box() image.Rectangle {
	var b image.Rectangle
	for _, w := range c.line.words[c.from:c.to] {
		b = b.Union(w.box)
	}
	return b
}

// partOfName reports whether the value is a part of a name: the 2 of "Plant 2", or of a
// name of its sort.
func (c *candidate) partOfName(q *question) bool {
	own := squeeze(c.core)
	for _, t := range q.terms {
		if slices.ContainsFunc(t.parts, func(p string) bool { return squeeze(p) == own }) {
			return true
		}
		if !t.name {
			continue
		}
		name := squeeze(strings.Join(t.parts, ""))
		from := max(0, c.from-len(t.parts)+1)
		joined := ""
		for _, w := range c.line.words[from:c.to] {
			joined += squeeze(w.text)
		}
		if joined != own && sibling(name, joined) {
			return true
		}
	}
	return false
}

// isNote reports whether the value stands in a short line with words of its own, as a
// note in a chart does and a number on an axis does not.
func (c *candidate) isNote() bool {
	letters := 0
	for i, w := range c.line.words {
		if i >= c.from && i < c.to {
			continue
		}
		n := 0
		for _, r := range w.text {
			if unicode.IsLetter(r) {
				n++
			}
		}
		if n >= 3 {
			letters++
		}
	}
	return letters > 0 && len(c.line.words) <= 8
}

// relation says how strongly a line at other speaks for a value: 1 beside it in its
// row, less above it in its column, less again close by; 0 elsewhere.
func relation(other, value image.Rectangle) float64 {
	h := max(1, value.Dy())
	sameRow := min(other.Max.Y, value.Max.Y)-max(other.Min.Y, value.Min.Y) > min(other.Dy(), h)/2
	if sameRow && other.Max.X <= value.Min.X+h {
		return 0.9
	}
	sharesColumn := min(other.Max.X, value.Max.X) > max(other.Min.X, value.Min.X)
	if sharesColumn && other.Max.Y <= value.Min.Y+h/2 {
		gap := value.Min.Y - other.Max.Y
		if gap <= 2*h {
			return 0.8
		}
		// A heading of a column is about as wide as what stands under it; a title over
		// everything is not one.
		if other.Dx() <= 6*max(value.Dx(), 2*h) {
			return 0.6
		}
		return 0
	}
	if sharesColumn && other.Min.Y-value.Max.Y >= -h/2 && other.Min.Y-value.Max.Y <= h {
		return 0.4
	}
	return 0
}

// in reports whether the term is among the words: each of its parts, or all of them
// written as one.
func (t *term) in(words []seenWord) bool {
	if t.concept != "" {
		return slices.ContainsFunc(words, func(w seenWord) bool { return nearConcept(clean(w.text)) == t.concept })
	}
	for _, part := range t.parts {
		if !contains(words, part) {
			joined := squeeze(strings.Join(t.parts, ""))
			return joined != "" && slices.ContainsFunc(windows(words, len(t.parts)+1), func(w string) bool { return w == joined })
		}
	}
	return true
}

// share is the part of the term that is among the words; a name may be half covered.
func (t *term) share(words []seenWord) float64 {
	if t.in(words) {
		return 1
	}
	n := 0
	for _, part := range t.parts {
		if len(part) >= 3 && contains(words, part) {
			n++
		}
	}
	return float64(n) / float64(len(t.parts)+1)
}

// contains reports whether one of the words is w.
func contains(words []seenWord, w string) bool {
	return slices.ContainsFunc(words, func(s seenWord) bool {
		got := clean(s.text)
		if got == "" {
			return false
		}
		if similar(w, got) {
			return true
		}
		// "stock:Bolt" and "a/b" are several words to the engine's one.
		return slices.ContainsFunc(strings.FieldsFunc(got, func(r rune) bool { return strings.ContainsRune(":/=()", r) }), func(part string) bool {
			return part != got && similar(w, part)
		})
	})
}

// windows returns the words squeezed, one by one, and each run of up to n of them as one.
func windows(words []seenWord, n int) []string {
	var out []string
	for i := range words {
		joined := ""
		for j := i; j < min(len(words), i+n); j++ {
			joined += squeeze(words[j].text)
			out = append(out, joined)
		}
	}
	return out
}

func clean(s string) string {
	return strings.ToLower(strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '%' }))
}

func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// similar reports whether two words in lower case are one, give or take a plural and,
// in a long word of letters alone, one letter that the engine may have got wrong.
func similar(a, b string) bool {
	if a == b {
		return true
	}
	if squeeze(a) == squeeze(b) && squeeze(a) != "" {
		return true
	}
	ra, rb := []rune(a), []rune(b)
	if strings.TrimSuffix(a, "s") == strings.TrimSuffix(b, "s") && len(ra) > 3 {
		return true
	}
	letters := func(s []rune) bool {
		return !slices.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	}
	return len(ra) >= 5 && len(ra) < 40 && len(rb) < 40 && letters(ra) && letters(rb) && distance(ra, rb) <= 1
}

// distance is the number of letters to change, add or drop to make b of a.
func distance(a, b []rune) int {
	if d := len(a) - len(b); d > 1 || d < -1 {
		return 2
	}
	before := make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := range a {
		now := make([]int, len(b)+1)
		now[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			now[j+1] = min(before[j]+cost, before[j+1]+1, now[j]+1)
		}
		before = now
	}
	return before[len(b)]
}

func lastWord(s string) string {
	f := strings.Fields(s)
	if len(f) == 0 {
		return ""
	}
	return strings.ToLower(f[len(f)-1])
}

// rivalName reports whether the words name a thing of the same sort as the one asked
// for, but another: "Widget-D" where "Widget-C" was asked for.
func rivalName(q *question, words []seenWord) bool {
	for _, t := range q.terms {
		if !t.name || t.in(words) {
			continue
		}
		name := squeeze(strings.Join(t.parts, ""))
		if slices.ContainsFunc(windows(words, len(t.parts)), func(w string) bool { return sibling(name, w) }) {
			return true
		}
	}
	return false
}

// absent looks for the names of the question among all lines of an image. It returns
// the first one that stands nowhere although others of its sort do, with the lines that
// hold those. A name in the midst of the others, or next to them, may stand where the
// engine failed; one well past the last of them does not.
func absent(q *question, lines []*textLine, index int) (name *term, others []*textLine) {
	for i := range q.terms {
		t := &q.terms[i]
		if !t.name {
			continue
		}
		others = nil
		there, last := false, 0
		own := squeeze(strings.Join(t.parts, ""))
		for _, l := range lines {
			if l.image != index {
				continue
			}
			there = there || t.in(l.words) || slices.ContainsFunc(windows(l.words, len(t.parts)), func(w string) bool { return blurred(own, w) })
			if l.conf() < 70 {
				continue
			}
			for _, w := range windows(l.words, len(t.parts)) {
				if sibling(own, w) {
					others = append(others, l)
					last = max(last, ordinal(w))
					break
				}
			}
		}
		if !there && len(others) >= 3 && ordinal(own) >= last+2 {
			return t, others
		}
	}
	return nil, nil
}

// ordinal is the number or the letter that a squeezed name ends in.
func ordinal(name string) int {
	end := len(name)
	for end > 0 && name[end-1] >= '0' && name[end-1] <= '9' && len(name)-end < 6 {
		end--
	}
	if n, err := strconv.Atoi(name[end:]); err == nil {
		return n
	}
	if name == "" {
		return 0
	}
	return int(name[len(name)-1])
}

// blurred reports whether a name may have been read with one letter wrong before its
// telling end: "Vidget-C" for "Widget-C".
func blurred(name, read string) bool {
	n := len(name)
	return n >= 4 && len(read) >= n-1 && len(read) <= n+1 && strings.HasSuffix(read, name[n-2:]) && distance([]rune(name), []rune(read)) <= 1
}

// sibling reports whether two names differ only in a short ending: "Widget-C" and
// "Widget-F", "M8" and "M10".
func sibling(a, b string) bool {
	if a == b || len(a) < 2 || len(b) < 2 || math.Abs(float64(len(a)-len(b))) > 1 {
		return false
	}
	if unicode.IsDigit(rune(a[len(a)-1])) != unicode.IsDigit(rune(b[len(b)-1])) {
		return false
	}
	shared := 0
	for shared < min(len(a), len(b)) && a[shared] == b[shared] {
		shared++
	}
	return shared >= max(1, max(len(a), len(b))-2) && (shared >= 3 || unicode.IsDigit(rune(a[len(a)-1])) && unicode.IsDigit(rune(b[len(b)-1])))
}
