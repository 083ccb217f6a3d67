package reader

import (
	"context"
	"image"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// at is a line of text at a place of a test's view, as if read from a zoom.
type at struct {
	x, y int
	text string
}

func linesAt(size int, list []at) []*textLine {
	var out []*textLine
	for _, a := range list {
		l := &textLine{tall: 20, page: &page{}}
		x := a.x
		for w := range strings.FieldsSeq(a.text) {
			width := size * 6 / 10 * len([]rune(w))
			box := image.Rect(x, a.y, x+width, a.y+size)
			l.words = append(l.words, seenWord{word: word{text: w, conf: 90, box: box}})
			l.box = l.box.Union(box)
			x += width + size/2
		}
		l.inset = l.box
		out = append(out, l)
	}
	return out
}

// same is a second reading that sees what the first saw.
func same(lines []*textLine) rereader {
	return func(_ context.Context, _ *page, box image.Rectangle) ([][]word, error) {
		for _, l := range lines {
			if l.inset == box {
				var words []word
				for _, w := range l.words {
					words = append(words, w.word)
				}
				return [][]word{words, words, words}, nil
			}
		}
		return nil, nil
	}
}

func TestTheValueThatFitsIsPicked(t *testing.T) {
	axis := []at{{5, 50, "4000"}, {5, 150, "3000"}, {5, 250, "2000"}, {5, 350, "1000"}, {50, 400, "0"}, {150, 400, "100"}, {250, 400, "200"}, {350, 400, "300"}}
	legend := []at{{300, 300, "Widget-A"}, {300, 315, "Widget-B"}, {300, 330, "Widget-C"}}
	stock := []at{{100, 10, "North"}, {200, 10, "South"}, {5, 30, "Bolt M8"}, {100, 30, "4,025"}, {200, 30, "761"}, {5, 50, "Bolt M10"}, {100, 50, "88"}, {200, 50, "1,304"}, {5, 70, "Nut M8"}, {100, 70, "519"}, {200, 70, "20"}}
	noise := []at{{60, 120, "| )"}, {90, 200, "NA\\ 7,"}, {130, 260, "il 1|"}, {170, 90, "4,"}, {210, 180, "\\/\\ 3.3.3"}}
	for _, test := range []struct {
		name, question string
		lines          []at
		want           string // "" for an answer that says that there is none
	}{
		{"a note among axes and noise", "What exact value is annotated at the peak of Widget-C?",
			slices.Concat(axis, legend, noise, []at{{200, 20, "peak: 6,053 units"}}), "6,053 units"},
		{"another word for it", "What is the maximum?", slices.Concat(axis, []at{{200, 20, "top = 1,960 visits"}}), "1,960 visits"},
		{"a letter misread", "What was the record?", slices.Concat(axis, []at{{200, 20, "rccord: 1,960 visits"}}), "1,960 visits"},
		{"a group split by a gap", "What is the peak?", slices.Concat(axis, []at{{200, 20, "peak: 6, 053 units"}}), "6,053 units"},
		{"the right one of two notes", "What is the peak?", slices.Concat(axis, []at{{200, 20, "max: 6,053 units"}, {60, 350, "min: 112 units"}}), "6,053 units"},
		{"the note of the line asked for", "What is the peak of Widget-C?", slices.Concat(axis, []at{{200, 20, "Widget-C peak: 6,053"}, {100, 60, "Widget-D peak: 5,101"}}), "6,053"},
		{"only another line has a note", "What is the peak of Widget-C?", slices.Concat(axis, []at{{100, 60, "Widget-D peak: 5,101"}}), ""},
		{"two notes that fit alike", "What is the peak?", slices.Concat(axis, []at{{200, 20, "peak: 6,053 units"}, {100, 60, "peak: 5,101 units"}}), ""},
		{"a name that is not there", "What exact value is annotated at the peak of Widget-Z?", slices.Concat(axis, legend, []at{{200, 20, "peak: 6,053 units"}}), ""},
		{"a chart without names", "What exact value is annotated at the peak of Widget-Z?", slices.Concat(axis, []at{{200, 20, "peak: 6,053 units"}}), "6,053 units"},
		{"axes alone", "What exact value is annotated at the peak of Widget-C?", slices.Concat(axis, legend), ""},
		{"noise alone", "What is the peak?", noise, ""},
		{"the number of a name", "What value is annotated at the peak of Plant 2?", []at{{300, 300, "Plant 1"}, {300, 320, "Plant 2"}, {300, 340, "Plant 3"}}, ""},
		{"a cell", "How many Bolt M8 are in stock in the South warehouse?", stock, "761"},
		{"another cell", "How many Nut M8 are in stock in the North warehouse?", stock, "519"},
		{"no such row", "How many Nut M10 are in stock in the North warehouse?", stock, ""},
		{"a form", "How many packets were sent?", []at{{5, 10, "Packets sent"}, {200, 10, "2,824"}, {5, 30, "Packets lost"}, {200, 30, "3"}}, "2,824"},
		{"money", "What is the amount due?", []at{{5, 10, "Page 3"}, {5, 50, "Amount due: $1,250.40"}, {5, 90, "Account 4711"}}, "$1,250.40"},
		{"a percentage", "What percentage was recycled?", []at{{5, 10, "Recycled: 41.5%"}, {5, 30, "Buried: 12%"}}, "41.5%"},
		{"a date", "What is the payment date?", []at{{5, 10, "Invoice date: 1 March 2020"}, {5, 30, "Payment date: 24 November 2021"}}, "24 November 2021"},
		{"a time", "What time is the ferry?", []at{{5, 10, "Ferry 07:45"}, {5, 30, "Train 08:10"}}, "07:45"},
		{"a code", "What is the serial number?", []at{{5, 10, "Serial number"}, {200, 10, "Y384-8929"}, {5, 30, "Driver"}, {200, 30, "Generic wired"}}, "Y384-8929"},
		{"a name by its key", "Who is the author?", []at{{5, 10, "Author: Jane Roe"}, {5, 30, "Editor: John Doe"}}, "Jane Roe"},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := linesAt(10, test.lines)
			q := understand(test.question)
			s := &scene{views: []*page{{size: image.Pt(400, 420)}}, lines: lines}
			m, err := next(t.Context(), &q, s, false, same(lines))
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && !strings.HasPrefix(m.say, "I could not") || test.want != "" && m.say != test.want {
				t.Errorf("%q: got %q, want %q", test.question, m.say, test.want)
			}
		})
	}
}

func TestADoubtfulReadingIsNotAnAnswer(t *testing.T) {
	lines := linesAt(10, []at{{200, 20, "peak: 6,053 units"}})
	q := understand("What is the peak?")
	s := &scene{views: []*page{{size: image.Pt(400, 420)}}, lines: lines}
	other := func(texts ...string) rereader {
		return func(context.Context, *page, image.Rectangle) ([][]word, error) {
			var out [][]word
			for _, text := range texts {
				var words []word
				for _, w := range linesAt(10, []at{{200, 20, text}})[0].words {
					words = append(words, w.word)
				}
				out = append(out, words)
			}
			return out, nil
		}
	}
	for _, test := range []struct {
		name  string
		again rereader
		want  string
	}{
		{"all agree", other("peak: 6,053 units", "peak: 6,053 units", "peak: 6,053 units"), "6,053 units"},
		{"one differs", other("peak: 6,053 units", "peak: 6,853 units", "peak: 6,053 units"), "6,053 units"},
		{"the first was wrong", other("peak: 6,058 units", "peak: 6,058 units", "peak: 6,058 units"), "6,058 units"},
		{"split", other("peak: 6,853 units", "peak: 6,853 units", "peak: 6,053 units"), ""},
		{"all differ", other("peak: 6,853 units", "peak: 8,053 units", "peak: 6.053 units"), ""},
		{"nothing", other("peak", "peak", "peak"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := next(t.Context(), &q, s, false, test.again)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && !strings.HasPrefix(m.say, "I could not") || test.want != "" && m.say != test.want {
				t.Errorf("got %q, want %q", m.say, test.want)
			}
		})
	}
}

func TestTextTooSmallToBeSureOfIsZoomedIntoAndNotAnswered(t *testing.T) {
	lines := linesAt(7, []at{{200, 20, "peak: 6,053 units"}})
	lines[0].tall = 6
	q := understand("What is the peak?")
	s := &scene{views: []*page{{size: image.Pt(1456, 854)}}, lines: lines}
	m, err := next(t.Context(), &q, s, true, same(lines))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.zooms) != 1 || !lines[0].box.In(m.zooms[0].region) {
		t.Errorf("zooms %v", m.zooms)
	}
	m, err = next(t.Context(), &q, s, false, same(lines))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.zooms) != 0 || !strings.HasPrefix(m.say, "I could not") {
		t.Errorf("got %q", m.say)
	}
}

// Whatever is on the page, what is answered to a question about a number stands there.
func TestAnAnswerAlwaysStandsOnThePage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`(peak|max|Widget-[A-F]|total)?[:=]? ?[0-9]{0,3}[,.]?[0-9]{0,4} ?(units|%|\|)?`), 0, 12).Draw(t, "texts")
		var list []at
		for i, text := range texts {
			if strings.TrimSpace(text) != "" {
				list = append(list, at{rapid.IntRange(0, 380).Draw(t, "x"), 15 * i, text})
			}
		}
		lines := linesAt(10, list)
		q := understand(rapid.SampledFrom([]string{"What is the peak of Widget-C?", "What is the total?", "What value is annotated?", "What percentage is it?"}).Draw(t, "question"))
		m, err := next(context.Background(), &q, &scene{views: []*page{{size: image.Pt(400, 420)}}, lines: lines}, false, same(lines))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(m.say, "I could not") {
			return
		}
		core := strings.Fields(m.say)[0]
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ReplaceAll(text, " ", ""), core) }) {
			t.Fatalf("%q is nowhere in %q", m.say, texts)
		}
	})
}
