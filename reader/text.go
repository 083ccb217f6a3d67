package reader

import (
	"context"
	"slices"
	"strings"
	"unicode"
)

// nextText decides the next move for a question whose answer is words.
func nextText(ctx context.Context, q *question, s *scene, canZoom bool, again rereader) (move, error) {
	var doubtful []*textLine
	if q.kind != kindAll {
		found, line, err := "", (*textLine)(nil), error(nil)
		if at := crossing(q, s.lines); at != nil && !q.title {
			line = at.line
			found, err = answerOf(ctx, q, at, again)
		} else if text, l := textAnswer(q, s); text != "" {
			line = l
			found, err = sureText(ctx, l, text, again)
		}
		if err != nil {
			return move{}, err
		}
		if found != "" {
			return move{say: found}, nil
		}
		if line != nil {
			doubtful = append(doubtful, line)
		}
	}
	if canZoom {
		if zooms := s.nextZooms(q, doubtful); len(zooms) > 0 {
			return move{say: looking(q, s, zooms), zooms: zooms}, nil
		}
	}
	if q.kind == kindAll {
		if text := s.everything(q); text != "" {
			return move{say: text}, nil
		}
	}
	return move{say: notFound(q, s, doubtful)}, nil
}

// readable returns the lines that may be quoted, top to bottom and left to right.
func (s *scene) readable(q *question) []*textLine {
	var out []*textLine
	for _, l := range s.lines {
		if q.image >= 0 && l.image != q.image {
			continue
		}
		if l.trusted() && l.conf() >= 70 && strings.ContainsFunc(l.text(), isAlnum) {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b *textLine) int {
		if a.image != b.image {
			return a.image - b.image
		}
		shared := min(a.box.Max.Y, b.box.Max.Y) - max(a.box.Min.Y, b.box.Min.Y)
		if 2*shared > min(a.box.Dy(), b.box.Dy()) {
			return a.box.Min.X - b.box.Min.X
		}
		return a.box.Min.Y - b.box.Min.Y
	})
	return out
}

func (s *scene) everything(q *question) string {
	var b strings.Builder
	for _, l := range s.readable(q) {
		b.WriteString(l.text())
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

// textAnswer finds the words that a question asks for, and the line they stand in: a
// title; what follows a key and a colon; the neighbour of a key; the one line at a named
// place.
func textAnswer(q *question, s *scene) (string, *textLine) {
	lines := s.readable(q)
	if q.title {
		return quoted(titleOf(s, lines))
	}
	best, value, in := 0.0, "", (*textLine)(nil)
	tie := false
	for _, l := range lines {
		text := l.text()
		key, rest, colon := strings.Cut(text, ":")
		if colon {
			// "Adoption: all teams" says nothing of the one team that was asked about.
			if slices.ContainsFunc(q.terms, func(t term) bool {
				return t.name && !t.in(l.words) && !standsOver(&t, lines, l)
			}) {
				continue
			}
			if score := keyScore(q, key); score > 0 {
				rest = strings.TrimSpace(rest)
				from := l
				if rest == "" {
					from = neighbour(lines, l)
					if from == nil || strings.HasSuffix(from.text(), ":") {
						continue
					}
					rest = from.text()
				}
				switch {
				case score > best:
					best, value, in, tie = score, rest, from, false
				case score == best && rest != value:
					tie = true
				}
			}
			continue
		}
		if score := keyScore(q, text); score > 0 && keyShare(q, text) >= 0.6 {
			beside := neighbour(lines, l)
			if beside == nil || !pair(q, lines, l, beside) {
				continue
			}
			switch rest := beside.text(); {
			case score > best:
				best, value, in, tie = score, rest, beside, false
			case score == best && rest != value:
				tie = true
			}
		}
	}
	if best >= 1 && !tie {
		return value, in
	}
	if q.place != (place{}) {
		return quoted(atPlace(q, s, lines))
	}
	return "", nil
}

func quoted(l *textLine) (string, *textLine) {
	if l == nil {
		return "", nil
	}
	return l.text(), l
}

// keyScore counts the words of the question in a key, and is zero when the key names
// another thing than the one asked for.
func keyScore(q *question, key string) float64 {
	words := seenWords(key)
	if rivalName(q, words) {
		return 0
	}
	n := 0.0
	for _, t := range q.terms {
		if t.in(words) {
			n++
		}
	}
	return n
}

// keyShare is the part of the key's words that the question has too.
func keyShare(q *question, key string) float64 {
	words := seenWords(key)
	if len(words) == 0 {
		return 0
	}
	n := 0
	for _, w := range words {
		if slices.ContainsFunc(q.terms, func(t term) bool {
			return t.concept != "" && t.in([]seenWord{w}) || slices.ContainsFunc(t.parts, func(p string) bool { return contains([]seenWord{w}, p) })
		}) {
			n++
		}
	}
	return float64(n) / float64(len(words))
}

func seenWords(text string) []seenWord {
	var out []seenWord
	for f := range strings.FieldsSeq(text) {
		out = append(out, seenWord{word: word{text: f}})
	}
	return out
}

// neighbour returns the line next to the right in the same row, close by, or nil.
func neighbour(lines []*textLine, key *textLine) *textLine {
	var best *textLine
	for _, l := range lines {
		if l == key || l.image != key.image || l.box.Min.X < key.box.Max.X-key.box.Dy()/2 {
			continue
		}
		shared := min(l.box.Max.Y, key.box.Max.Y) - max(l.box.Min.Y, key.box.Min.Y)
		if 2*shared < min(l.box.Dy(), key.box.Dy()) || l.box.Min.X-key.box.Max.X > 25*key.box.Dy() {
			continue
		}
		if best == nil || l.box.Min.X < best.box.Min.X {
			best = l
		}
	}
	return best
}

// titleOf returns the largest line of words in the upper part of a view.
func titleOf(s *scene, lines []*textLine) *textLine {
	var best, second *textLine
	for _, l := range lines {
		letters := 0
		for _, r := range l.text() {
			if unicode.IsLetter(r) {
				letters++
			}
		}
		if letters < 3 || l.box.Min.Y > s.views[l.image].size.Y/4 {
			continue
		}
		switch {
		case best == nil || height(l) > height(best):
			best, second = l, best
		case second == nil || height(l) > height(second):
			second = l
		}
	}
	if best == nil || second != nil && best.image != second.image {
		return nil
	}
	return best
}

// height is that of a capital in the view.
func height(l *textLine) float64 {
	return l.tall * float64(l.box.Dy()) / float64(max(1, l.inset.Dy()))
}

// atPlace returns the one line at the place that the question names.
func atPlace(q *question, s *scene, lines []*textLine) *textLine {
	var found *textLine
	for _, l := range lines {
		size := s.views[l.image].size
		x := float64(l.box.Min.X+l.box.Max.X) / 2 / float64(size.X)
		y := float64(l.box.Min.Y+l.box.Max.Y) / 2 / float64(size.Y)
		if q.place.x < 0 && x > 0.34 || q.place.x > 0 && x < 0.66 || q.place.y < 0 && y > 0.34 || q.place.y > 0 && y < 0.66 {
			continue
		}
		if found != nil {
			return nil
		}
		found = l
	}
	return found
}
