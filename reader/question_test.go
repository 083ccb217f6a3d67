package reader

import (
	"slices"
	"strings"
	"testing"
)

func TestQuestionsAreUnderstood(t *testing.T) {
	for _, test := range []struct {
		text    string
		kind    kind
		terms   string // parts joined by a space, terms by a comma
		extreme string
	}{
		{"What exact value is annotated at the peak of Widget-C?", kindNumber, "peak,widget-c", "peak"},
		{"What is the maximum of Plant 2, according to the note?", kindNumber, "maximum,plant 2", "peak"},
		{"How many orders did Lisbon reach at its highest point?", kindNumber, "orders,highest,lisbon", "peak"},
		{"How many Bolt M8 are in stock in the North warehouse?", kindNumber, "bolt m8,stock,north,warehouse", ""},
		{"How high is Kite Law, as written on the map?", kindNumber, "kite law", ""},
		{"What figure is marked at the top of the Widget-D curve?", kindNumber, "top,widget-d", "peak"},
		{"What number is printed at the top of the page?", kindNumber, "", ""},
		{"What is the lowest reading?", kindNumber, "lowest", "low"},
		{"What was the total in 2021?", kindNumber, "total,2021", "total"},
		{"What does a ticket cost?", kindMoney, "ticket,cost", ""},
		{"How much is the Amount due?", kindMoney, "due", ""},
		{"What percentage of voters turned out?", kindPercent, "", ""},
		{"When was the bridge opened?", kindDate, "bridge,opened", ""},
		{"What is the payment date?", kindDate, "payment,date", ""},
		{"What time does the train leave?", kindClock, "train,leave", ""},
		{"What is the serial number?", kindCode, "serial", ""},
		{"What is the title of the chart?", kindText, "", ""},
		{"Who signed the letter?", kindText, "signed,letter", ""},
		{"What is written in the bottom left corner?", kindText, "", ""},
		{"Read all the text.", kindAll, "", ""},
		{"What does the sign say?", kindAll, "", ""},
		{"Which has more categories?", kindBeyond, "", ""},
		{"Which line is higher at month 48?", kindBeyond, "", ""},
		{"How many bars are there?", kindBeyond, "", ""},
		{"How many people can you see in the photo?", kindBeyond, "", ""},
		{"What colour is the line of Widget-B?", kindBeyond, "", ""},
		{"Is Widget-A above Widget-B?", kindBeyond, "", ""},
		{"Describe the chart.", kindBeyond, "", ""},
	} {
		q := understand(test.text)
		if q.kind != test.kind {
			t.Errorf("%q: kind %d, want %d", test.text, q.kind, test.kind)
		}
		if (q.kind == kindBeyond) != (q.beyond != "") {
			t.Errorf("%q: beyond is %q", test.text, q.beyond)
		}
		for _, want := range strings.Split(test.terms, ",") {
			if want != "" && !slices.ContainsFunc(q.terms, func(t term) bool { return strings.Join(t.parts, " ") == want }) {
				t.Errorf("%q: no term %q in %v", test.text, want, q.terms)
			}
		}
		if got := strings.Join(q.extreme, ","); got != test.extreme {
			t.Errorf("%q: extreme %q, want %q", test.text, got, test.extreme)
		}
	}
}

func TestPlacesAndImagesAreRead(t *testing.T) {
	if q := understand("What is written in the bottom right corner?"); q.place != (place{1, 1}) {
		t.Errorf("place %v", q.place)
	}
	if q := understand("What is the title of the second image?"); q.image != 1 || !q.title {
		t.Errorf("image %d", q.image)
	}
	if q := understand("What is the title of image 2?"); q.image != 2 {
		t.Errorf("image %d", q.image)
	}
	if q := understand("What is the title?"); q.image != -1 {
		t.Errorf("image %d", q.image)
	}
}

func TestTheQuestionIsFoundInThePrompt(t *testing.T) {
	for _, test := range []struct {
		texts []string
		want  string
	}{
		{[]string{"Image 0 (10x10 pixels):", "Use the tool.", "Question: What is it?"}, "What is it?"},
		{[]string{"Image 0 (10x10 pixels):", "Coordinates are pixels.\n\nQuestion: What\nis it?\n"}, "What\nis it?"},
		{[]string{"Question: an example. Question: the real one?"}, "the real one?"},
		{[]string{"Image 0 (10x10 pixels):", "What is it?"}, "What is it?"},
		{[]string{"What is it?", " "}, "What is it?"},
		{nil, ""},
	} {
		if got := questionIn(test.texts); got != test.want {
			t.Errorf("%q: got %q, want %q", test.texts, got, test.want)
		}
	}
}

func FuzzUnderstand(f *testing.F) {
	for _, seed := range []string{"What exact value is annotated at the peak of Widget-C?", "How many Bolt M8 are there?", "", "\xff\xfe", "'s 's", "“", "Plant 1 2 3 4 5 6"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q := understand(questionIn([]string{text}))
		for _, term := range q.terms {
			if len(term.parts) == 0 || term.weight <= 0 || slices.Contains(term.parts, "") {
				t.Errorf("%q: term %+v", text, term)
			}
		}
		if len(q.terms) > 24 {
			t.Errorf("%d terms", len(q.terms))
		}
	})
}
