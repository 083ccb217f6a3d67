package reader

import (
	"image"
	"strings"
	"testing"
)

// salesTable is a table with its columns flush right, as a spreadsheet prints one.
func salesTable(t testing.TB) *image.RGBA {
	s := newSketch(t, 1100, 330, white)
	s.text(30, 12, 26, black, "Regional sales 2024")
	for r, cells := range [][]string{
		{"Region", "Q1 sales", "Q2 sales", "Q3 sales", "Q4 sales", "Total"},
		{"Westfield", "4,118", "5,872", "7,506", "6,034", "23,530"},
		{"Southport", "3,907", "4,265", "5,119", "4,870", "18,161"},
		{"Lowmoor", "2,241", "2,688", "3,054", "2,913", "10,896"},
	} {
		for c, cell := range cells {
			x := 30
			if c > 0 {
				x = 190 + 170*c - len(cell)*11
			}
			s.text(x, 70+60*r, 22, black, cell)
		}
	}
	return s.RGBA
}

// adoptionChart has bars with a value over each and a name under it.
func adoptionChart(t testing.TB) *image.RGBA {
	s := newSketch(t, 900, 420, white)
	s.text(300, 10, 24, black, "Adoption by team")
	for i, name := range []string{"Alpha", "Bravo", "Charlie", "Delta", "Echo"} {
		x := 80 + 160*i
		top := 300 - 40*[]int{2, 3, 1, 5, 4}[i]
		for y := top; y < 350; y++ {
			for d := range 70 {
				s.Set(x+d, y, blue)
			}
		}
		s.text(x, top-32, 20, black, []string{"34.2%", "51.8%", "18.6%", "77.3%", "62.9%"}[i])
		s.text(x+5, 362, 22, black, name)
	}
	return s.RGBA
}

func receipt(t testing.TB) *image.RGBA {
	s := newSketch(t, 640, 330, white)
	for i, line := range []string{"CORNER BAKERY", "Date: 2025-03-14   18:42", "Rye bread   4.20", "Plum cake   3.75", "TOTAL   7.95"} {
		s.text(40, 20+58*i, 24, black, line)
	}
	return s.RGBA
}

func managerTable(t testing.TB) *image.RGBA {
	s := newSketch(t, 640, 300, white)
	for r, cells := range [][]string{{"Region", "Manager"}, {"Westfield", "Jane Roe"}, {"Southport", "John Doe"}, {"Lowmoor", "Ann Poe"}} {
		for c, cell := range cells {
			s.text(30+300*c, 20+60*r, 24, black, cell)
		}
	}
	return s.RGBA
}

// A label is never the answer to a question about another label.
func TestWhatStandsBesideALabelIsNotItsValue(t *testing.T) {
	r := newReader(t)
	sales, adoption, slip, managers := salesTable(t), adoptionChart(t), receipt(t), managerTable(t)
	for _, test := range []struct {
		picture  *image.RGBA
		question string
		want     string // "" for a text that says that there is none
	}{
		{sales, "What are the Q3 sales of Westfield?", "7,506"},
		{sales, "Westfield Q2 sales", "5,872"},
		{sales, "What were the Q2 sales in Southport?", "4,265"},
		{sales, "Q4 sales of Lowmoor", "2,913"},
		{sales, "How many Q3 sales did Westfield have?", "7,506"},
		{sales, "Which region is in the first row?", ""},
		{sales, "What are the Q3 sales of Eastfield?", ""},
		{sales, "What are the Q5 sales of Westfield?", ""},
		{sales, "Q3 sales", ""},
		{sales, "Westfield", ""},
		{adoption, "Delta", ""},
		{adoption, "Adoption of Alpha", ""},
		{slip, "What is the date?", "2025-03-14"},
		{managers, "Who is the manager of Southport?", "John Doe"},
		{managers, "Which region is listed?", ""},
	} {
		a := send(t, r, ask(t, test.picture, test.question))
		got := a.Content[0].Text
		// A zoom asked for is no answer; what is not found in the end says so.
		none := strings.HasPrefix(got, "I could not") || a.StopReason == "tool_use"
		if test.want == "" && !none || test.want != "" && got != test.want {
			t.Errorf("%q: got %q, want %q", test.question, got, test.want)
		}
	}
}

func TestADateOrTimeIsWhole(t *testing.T) {
	for _, test := range []struct{ question, text, want string }{
		{"What is the date?", "Date: 2025-03-14 18:42", "2025-03-14"},
		{"What is the date?", "Date: 2025- 3.14 18:42", ""},
		{"What is the date?", "Date: 2025 18:42", ""},
		{"What is the date?", "Date: March", ""},
		{"What is the date?", "Date: 14 March 2025", "14 March 2025"},
		{"When was it opened?", "Opened 1932", "1932"},
		{"When was it opened?", "Opened 1932-", ""},
		{"What time is it?", "Apples 3.20", ""},
		{"What time is it?", "Apples 18:42", "18:42"},
		{"What time is it?", "Opens 9.30 am", "9.30 am"},
		{"What year was it opened?", "Opened 1932.", "1932"},
	} {
		q := understand(test.question)
		got := ""
		for _, c := range valuesIn(&q, linesAt(10, []at{{5, 10, test.text}})[0]) {
			got += c.value
		}
		if got != test.want {
			t.Errorf("%q of %q: got %q, want %q", test.question, test.text, got, test.want)
		}
	}
}
