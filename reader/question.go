package reader

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// kind is the sort of answer that a question asks for.
type kind int

const (
	kindNumber  kind = iota // a number, with its unit or sign where it has one
	kindMoney               // a number with a currency
	kindPercent             // a number with a percent sign
	kindDate                // a day, a month or a year
	kindClock               // a time of day
	kindCode                // a serial, an identifier, an address: letters and digits in one piece
	kindText                // words
	kindAll                 // everything that is written
	kindBeyond              // no reading of text answers it
)

// A question is what the reader makes of the words that it was asked.
type question struct {
	text    string
	kind    kind
	beyond  string   // for kindBeyond: what it would take
	terms   []term   // what may stand near the answer
	extreme []string // the extremes and sums asked for, by the first word of their row: "peak", "total"
	units   []string // nouns that may be the unit: "orders" of "how many orders"
	marked  bool     // it speaks of an annotation, a label, a note
	title   bool     // it asks for a title or a heading
	place   place
	image   int // the image it speaks of, -1 when it names none
}

// A term is a word of the question, or a name of several words, that may stand near the
// answer.
type term struct {
	text    string   // as it is written in the question
	parts   []string // in lower case; a name of several words has several
	concept string   // the first word of its row of concepts, or ""
	name    bool     // it names one thing among several: "Widget-C", "Bolt M8"
	weight  float64
}

// place is where in the picture the answer is said to be; zero is anywhere. Each is
// -1, 0 or 1, to the left or top and to the right or bottom.
type place struct{ x, y int }

// concepts are words that mean the same on a chart or a form. The first names the row.
var concepts = [][]string{
	{"peak", "max", "maximum", "maximal", "high", "highest", "record", "top", "best", "crest", "summit", "largest", "greatest", "biggest", "peaks", "peaked"},
	{"low", "min", "minimum", "minimal", "lowest", "trough", "smallest", "worst", "bottom", "least", "dip"},
	{"total", "sum", "overall", "altogether"},
	{"average", "avg", "mean"},
	{"median"},
	{"target", "goal", "quota"},
	{"price", "cost", "fee"},
	{"date", "dated"},
	{"telephone", "phone", "tel"},
	{"email", "mail", "e-mail"},
}

// extremes are the concepts without which a number is not the one asked for.
const extremes = 6 // the first rows of concepts

// emptyWords say nothing about where an answer stands.
var emptyWords = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`a an the of in on at to for from by with and or is are was were be been being do does did has have had
		it its this that these those there here what which who whom whose when where why how much many value values exact exactly precise
		precisely figure annotated annotation labelled labeled label labels marked mark noted note callout given shown show shows written
		write says say said read reads reading printed print chart image picture graph plot diagram figure photo screenshot page view line lines
		curve series please tell me give us as you can see find out answer only your next near beside above below under over point
		reached reach reaches attained level text word words tiny small print number numbers amount count quantity name called
		titled title heading headline caption according about into after before i than then stated state indicated
		time percent percentage share map table form sign poster document drawing displayed display appear appears entry listed list column row cell table first second third fourth image's between during
		s t d one`) {
		m[w] = true
	}
	return m
}()

var (
	questionMark = regexp.MustCompile(`(?i)\bquestion:\s*`)
	wordPattern  = regexp.MustCompile(`[\p{L}\p{N}]+(?:[-_./'’&][\p{L}\p{N}]+)*%?`)

	askHowMany  = regexp.MustCompile(`\bhow many ([\p{L}-]+)(?: ([\p{L}-]+))?`)
	askCounting = regexp.MustCompile(`\bhow many\b.*\b((shown|visible|drawn|plotted) (here|in (the|this))|can you (see|count)|do you see|(are|is) (visible|drawn|plotted)|different|distinct|(in|on) (the|this) (chart|image|picture|graph|figure|photo|plot))\b|\bhow many (bars?|lines?|curves?|categories|series|colou?rs|people|persons|objects|slices|rows|columns|words|letters|peaks|things|images|pictures|charts)\b|\b(number|count) of (bars|lines|curves|categories|series|colou?rs|people|objects|rows|columns|slices)\b|^(please )?count\b`)
	askCompare  = regexp.MustCompile(`\b(compare|comparison|difference between|(which|who|what)\b.*\b(more|fewer|less|higher|lower|larger|smaller|greater|bigger|taller|longer|shorter|older|newer|faster|slower) (\p{L}+ )*?(than|\?|categories|at|in)|ratio (of|between)|how much (more|less|higher|lower)|sum of all|add up)\b`)
	askWhichOf  = regexp.MustCompile(`^(which|who|what) (line|bar|series|colou?r|curve|image|picture|chart|category|slice|of)\b.*\b(more|most|fewest|least|higher|highest|lower|lowest|larger|largest|smaller|smallest|bigger|biggest|taller|tallest|longer|longest|steepest|above|below)\b`)
	askColour   = regexp.MustCompile(`\b(what|which) colou?rs?\b|\bcolou?r of\b`)
	askYesNo    = regexp.MustCompile(`^(is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b`)
	askWhy      = regexp.MustCompile(`^(why|describe|explain|summari[sz]e)\b|\b(trend|what kind of|what type of|what is happening|what does (the|this) (chart|image|picture|graph) (show|depict))\b`)

	askMoney   = regexp.MustCompile(`\b(price|cost|costs|fee|how much (money|does|did|is|was)|dollars?|euros?|pounds?|salary|balance|amount due)\b|[$€£]`)
	askPercent = regexp.MustCompile(`\b(percent|percentage|per cent|what share|proportion)\b|%`)
	askDate    = regexp.MustCompile(`^(when|on (what|which) (date|day))\b|\b(what|which) (date|day|year|month)\b|\bdate of\b|\bdate\b.*\?|\bdeadline\b|\b(due|expiry|expiration|birth) date\b`)
	askClock   = regexp.MustCompile(`\b(what|which|at what) time\b`)
	askCode    = regexp.MustCompile(`\b(serial|code|identifier|id|reference|invoice|order|part|model|version|licen[cs]e|tracking|account|phone|telephone|room|flight) ?(number|no|nr|code|id)?\b|\b(e-?mail|url|web ?site|web address|hash|password|key)\b`)
	askCodeOf  = regexp.MustCompile(`\b(serial|code|identifier|id|reference|tracking|part number|invoice number|order number|model number|version|phone|telephone|e-?mail|url|web ?site|password|flight number)\b`)
	askAll     = regexp.MustCompile(`\b(transcribe|read (all|everything|the (whole )?(text|page|image|picture))|all (the )?text|what does (it|the (text|page|image|picture|sign|note|document)) say|what (text )?is written( (here|in (the|this) (image|picture|page)))?\s*\??$|what text\b)`)
	askText    = regexp.MustCompile(`\b(what (is|was) (written|printed)|what does .* (say|read)|(which|what) (word|words|name|text|phrase|city|town|river|street|country|company|person|author|label)|who|title|heading|headline|caption|name of|named|called|signed|axis label|where)\b`)
	askNumber  = regexp.MustCompile(`\b(value|number|figure|amount|quantity|how many|how much|how high|how tall|how far|how long|reading|score|count|height|weight|length|total|average|maximum|minimum|units?)\b`)
	askTitle   = regexp.MustCompile(`\b(title|heading|headline)\b`)
	askMarked  = regexp.MustCompile(`\b(annotat\w*|label\w*|mark(ed|s)?|note[ds]?|callout|caption\w*|printed|written|print|tag(ged)?|says?)\b`)
	ordinals   = map[string]int{"first": 0, "second": 1, "third": 2, "fourth": 3, "1st": 0, "2nd": 1, "3rd": 2, "4th": 3}
	askImage   = regexp.MustCompile(`\b(?:image|picture|chart|photo|page) (?:number |no\.? |#)?(\d)\b|\b(first|second|third|fourth|1st|2nd|3rd|4th) (?:image|picture|chart|photo|page)\b`)
)

// questionIn finds the question in the text blocks of the first user turn: what
// follows the last "Question:", or else the last block whole.
func questionIn(texts []string) string {
	for i := len(texts) - 1; i >= 0; i-- {
		if all := questionMark.FindAllStringIndex(texts[i], -1); all != nil {
			if q := strings.TrimSpace(texts[i][all[len(all)-1][1]:]); q != "" {
				return q
			}
		}
	}
	for i := len(texts) - 1; i >= 0; i-- {
		if q := strings.TrimSpace(texts[i]); q != "" {
			return q
		}
	}
	return ""
}

// understand sorts a question by the kind of answer it wants and picks out the words
// that may stand near the answer.
func understand(text string) question {
	const longest = 2000
	text = strings.ToValidUTF8(text, "")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	lower := strings.ToLower(text)
	q := question{text: text, image: -1}
	q.kind, q.beyond = kindOf(lower)
	q.title = askTitle.MatchString(lower)
	q.marked = askMarked.MatchString(lower)
	q.place = placeIn(lower)
	if m := askImage.FindStringSubmatch(lower); m != nil {
		if m[1] != "" {
			q.image = int(m[1][0] - '0')
		} else {
			q.image = ordinals[m[2]]
		}
	}
	// "How high" asks for a height and "top left" for a place, not for a maximum.
	q.addTerms(placePattern.ReplaceAllString(howPattern.ReplaceAllString(text, "how"), " "))
	if m := askHowMany.FindStringSubmatch(lower); m != nil {
		for _, u := range m[1:] {
			if u != "" && !emptyWords[u] {
				q.units = append(q.units, u)
			}
		}
	}
	return q
}

// addTerms picks the terms out of the words of a question.
func (q *question) addTerms(text string) {
	const most = 24
	end := 0 // of the name before, in text
	for i, at := range wordPattern.FindAllStringIndex(text, -1) {
		if len(q.terms) == most {
			return
		}
		w := text[at[0]:at[1]]
		w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s")
		l := strings.ToLower(w)
		if c, extreme := conceptOf(l), false; c != "" {
			for _, row := range concepts[:extremes] {
				extreme = extreme || row[0] == c
			}
			if slices.ContainsFunc(q.terms, func(t term) bool { return t.concept == c }) {
				continue
			}
			t := term{text: w, parts: []string{l}, concept: c, weight: 2}
			if extreme {
				q.extreme = append(q.extreme, c)
				t.weight = 3
			}
			q.terms = append(q.terms, t)
			continue
		}
		if emptyWords[l] && !(len(l) == 1 && end > 0) {
			continue
		}
		name := isName(w, i == 0)
		if n := len(q.terms); name && n > 0 && end > 0 && strings.TrimSpace(text[end:at[0]]) == "" && len(q.terms[n-1].parts) < 4 {
			q.terms[n-1].parts = append(q.terms[n-1].parts, l)
			q.terms[n-1].text += " " + w
			end = at[1]
			continue
		}
		end = 0
		if name {
			end = at[1]
		}
		if slices.ContainsFunc(q.terms, func(t term) bool { return slices.Equal(t.parts, []string{l}) }) {
			continue
		}
		t := term{text: w, parts: []string{l}, name: name, weight: 2}
		if name {
			t.weight = 2.5
		}
		q.terms = append(q.terms, t)
	}
}

var howPattern = regexp.MustCompile(`(?i)\bhow (?:high|low|tall|deep|long|far|large|big|small)\b`)

// conceptOf returns the first word of the row of concepts that w is in, or "".
func conceptOf(w string) string {
	for _, row := range concepts {
		if slices.Contains(row, w) {
			return row[0]
		}
	}
	return ""
}

// isName reports whether a word names one thing among several: it holds a digit, a
// capital within a sentence, or a hyphen before a capital.
func isName(w string, first bool) bool {
	digit, upper := false, false
	for i, r := range w {
		digit = digit || unicode.IsDigit(r)
		upper = upper || unicode.IsUpper(r) && (i > 0 || !first)
	}
	return digit || upper
}

// nearConcept is conceptOf for a word as the engine read it: in a longer one a letter may
// be wrong or missing.
func nearConcept(w string) string {
	if c := conceptOf(w); c != "" || len(w) < 5 {
		return c
	}
	for _, row := range concepts {
		for _, v := range row {
			if len(v) >= 6 && similar(v, w) {
				return row[0]
			}
		}
	}
	return ""
}

func kindOf(lower string) (kind, string) {
	switch {
	case askColour.MatchString(lower):
		return kindBeyond, "judging colours"
	case askCounting.MatchString(lower):
		return kindBeyond, "counting things"
	case askCompare.MatchString(lower), askWhichOf.MatchString(lower):
		return kindBeyond, "comparing things"
	case askAll.MatchString(lower):
		return kindAll, ""
	case askWhy.MatchString(lower):
		return kindBeyond, "understanding a picture"
	case askYesNo.MatchString(lower):
		return kindBeyond, "judging whether something is so"
	case askTitle.MatchString(lower):
		return kindText, ""
	case askPercent.MatchString(lower):
		return kindPercent, ""
	case askClock.MatchString(lower):
		return kindClock, ""
	case askDate.MatchString(lower):
		return kindDate, ""
	case askCodeOf.MatchString(lower):
		return kindCode, ""
	case strings.Contains(lower, "value") || strings.Contains(lower, "how many"):
		return kindNumber, ""
	case askMoney.MatchString(lower):
		return kindMoney, ""
	case askText.MatchString(lower) && !askNumber.MatchString(lower):
		return kindText, ""
	case askCode.MatchString(lower) && !askNumber.MatchString(lower):
		return kindCode, ""
	case askNumber.MatchString(lower), hasConcept(lower):
		return kindNumber, ""
	case askText.MatchString(lower):
		return kindText, ""
	}
	return kindText, ""
}

func hasConcept(lower string) bool {
	for _, w := range wordPattern.FindAllString(lower, -1) {
		if conceptOf(w) != "" {
			return true
		}
	}
	return false
}

var placePattern = regexp.MustCompile(`\b(top|upper|bottom|lower)[- ](left|right|centre|center)\b|\b(?:at|in|on|near|to) the (?:very |far |lower |upper )?(top|bottom|left|right)(?: (?:of|in) the (?:image|picture|page|chart|graph|plot|photo|screen|view|figure|sheet|table|map)\b| (?:edge|side|corner|margin)\b)|\b(left|right)-hand\b`)

// placeIn reads a part of the picture out of a question.
func placeIn(lower string) place {
	var p place
	for _, m := range placePattern.FindAllStringSubmatch(lower, -1) {
		for _, w := range m[1:] {
			switch w {
			case "top", "upper":
				p.y = -1
			case "bottom", "lower":
				p.y = 1
			case "left":
				p.x = -1
			case "right":
				p.x = 1
			}
		}
	}
	return p
}
