package computer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of arguments.
const (
	maxDuration = 300 // seconds
	maxRepeat   = 100
	maxScroll   = 100 // wheel clicks: several screens of any page
)

// input is a block's input after decoding: what runs, and, marshalled, what the one who
// confirms is shown. Fields that the member does not take or that were not given are nil.
type input struct {
	StartCoordinate *[2]int  `json:"start_coordinate,omitempty"` // view pixels
	Coordinate      *[2]int  `json:"coordinate,omitempty"`       // view pixels
	Region          *[4]int  `json:"region,omitempty"`           // view pixels: x0, y0, x1, y1
	ScrollDirection *string  `json:"scroll_direction,omitempty"` // in lower case
	ScrollAmount    *int     `json:"scroll_amount,omitempty"`    // wheel clicks
	Text            *string  `json:"text,omitempty"`             // of type: with newlines alone
	Repeat          *int     `json:"repeat,omitempty"`
	Duration        *float64 `json:"duration,omitempty"` // seconds

	given map[string]string // places as they came, for errors
}

// typeTime is what typing a character may take at the slowest, when each needs a key of its
// own to be made for it.
const typeTime = 10 * time.Millisecond

// needsView says whether the input names places on the screenshot.
func (in *input) needsView() bool {
	return in.StartCoordinate != nil || in.Coordinate != nil || in.Region != nil
}

// time is the duration that the block asks for.
func (in *input) time() time.Duration {
	if in.Duration == nil {
		return 0
	}
	return time.Duration(*in.Duration * float64(time.Second))
}

// allowed is how long a block may take beyond the time that any has.
func (c *command) allowed() time.Duration {
	if c.member == "type" {
		return time.Duration(utf8.RuneCountInString(*c.input.Text)) * typeTime
	}
	return c.input.time()
}

// decode reads the input of a known member. Whole numbers may come as floats or as strings,
// and lists of them inside a string; an optional argument that is null counts as not
// given. Everything else that is not as documented is an InputError. Places are checked
// against the screenshot later.
func decode(member string, data json.RawMessage, maxText int) (*input, error) {
	fields, known := fieldsOf(member)
	if !known {
		return nil, unknownMember(member)
	}
	if len(data) == 0 && len(fields) == 0 { // left out where there is nothing to say
		data = json.RawMessage("{}")
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(data, &arguments); err != nil || arguments == nil {
		what := kindOf(data)
		if err != nil && what == "an object" {
			what = "broken JSON"
		}
		return nil, inputErrorf("The input of %s must be an object with %s, not %s.", member, listed(fields), what)
	}
	for _, name := range sorted(arguments) {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			return nil, inputErrorf("The member %s has no argument \"%s\"; it takes %s.", member, shorten(name), listed(fields))
		}
	}
	in := &input{given: map[string]string{}}
	for _, f := range fields {
		value := bytes.TrimSpace(arguments[f.name])
		if len(value) == 0 || string(value) == "null" {
			if f.required {
				return nil, inputErrorf("The member %s needs the argument %s, %s.", member, f.name, expected(member, f.name))
			}
			continue
		}
		if err := in.set(member, f.name, value, maxText); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// set decodes one argument that is there.
func (in *input) set(member, name string, value json.RawMessage, maxText int) error {
	wrong := inputErrorf("The argument %s of %s must be %s, not %s.", name, member, expected(member, name), shown(value))
	switch name {
	case "start_coordinate", "coordinate":
		point, ok := point(value)
		if !ok {
			return wrong
		}
		in.given[name] = shown(value)
		if name == "coordinate" {
			in.Coordinate = point
		} else {
			in.StartCoordinate = point
		}
	case "region":
		edges, ok := wholes(value, 4)
		if !ok {
			return wrong
		}
		in.Region, in.given[name] = (*[4]int)(edges), shown(value)
	case "scroll_direction":
		direction, ok := str(value)
		direction = strings.ToLower(strings.TrimSpace(direction))
		if !ok || !slices.Contains([]string{"up", "down", "left", "right"}, direction) {
			return wrong
		}
		in.ScrollDirection = &direction
	case "scroll_amount":
		amount, ok := whole(value)
		if !ok || amount < 0 || amount > maxScroll {
			return wrong
		}
		in.ScrollAmount = &amount
	case "repeat":
		repeat, ok := whole(value)
		if !ok || repeat < 1 || repeat > maxRepeat {
			return wrong
		}
		in.Repeat = &repeat
	case "duration":
		seconds, ok := number(value)
		if !ok || seconds < 0 || seconds > maxDuration {
			return wrong
		}
		seconds = math.Abs(seconds) // a 0 may have come as -0
		in.Duration = &seconds
	case "text":
		text, ok := str(value)
		if !ok {
			return wrong
		}
		if member == "type" {
			var err error
			if text, err = typeable(text, maxText); err != nil {
				return err
			}
		} else if _, count := clickOf(member); (count > 0 || member == "left_click_drag" || member == "scroll") && strings.TrimSpace(text) == "" {
			return nil // no modifiers
		}
		in.Text = &text
	}
	return nil
}

// expected says what an argument should be.
func expected(member, name string) string {
	switch name {
	case "start_coordinate", "coordinate":
		return "a point [x, y] in whole pixels of the screenshot"
	case "region":
		return "a region [x0, y0, x1, y1] in whole pixels of the screenshot"
	case "scroll_direction":
		return "one of up, down, left and right"
	case "scroll_amount":
		return fmt.Sprintf("a whole number of wheel clicks from 0 to %d", maxScroll)
	case "repeat":
		return fmt.Sprintf("a whole number from 1 to %d", maxRepeat)
	case "duration":
		return fmt.Sprintf("a number of seconds from 0 to %d", maxDuration)
	}
	switch member {
	case "type":
		return "a string to be typed"
	case "key", "hold_key":
		return "a string that names keys, such as Return or ctrl+s"
	}
	return "a string that names modifiers, such as shift or ctrl+alt"
}

// listed names a member's arguments in a sentence.
func listed(fields []field) string {
	if len(fields) == 0 {
		return "no arguments"
	}
	var names []string
	for _, f := range fields {
		name := f.name
		if !f.required {
			name += " (optional)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func sorted(arguments map[string]json.RawMessage) []string {
	var names []string
	for name := range arguments {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// str reads a JSON string.
func str(value json.RawMessage) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(value, &s) == nil
}

// unquote returns the JSON inside a string, or the value itself when it is no string.
func unquote(value json.RawMessage) json.RawMessage {
	if s, ok := str(value); ok {
		return bytes.TrimSpace([]byte(s))
	}
	return value
}

// number reads a finite number, written as one or inside a string.
func number(value json.RawMessage) (float64, bool) {
	value = unquote(value)
	if !json.Valid(value) { // ParseFloat alone takes NaN, Inf, hexadecimal and underscores
		return 0, false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// wholeBound is the largest number up to which a float has every whole one.
const wholeBound = min(1<<53, math.MaxInt)

// whole reads a number without a fraction, limited to wholeBound.
func whole(value json.RawMessage) (int, bool) {
	f, ok := number(value)
	if !ok || f != math.Trunc(f) {
		return 0, false
	}
	return int(math.Max(-wholeBound, math.Min(f, wholeBound))), true
}

// huge says whether one of the numbers was limited, so that it is not what was given.
func huge(numbers ...int) bool {
	return slices.ContainsFunc(numbers, func(n int) bool { return n <= -wholeBound || n >= wholeBound })
}

// wholes reads a list of n whole numbers, also when it comes inside a string.
func wholes(value json.RawMessage, n int) ([]int, bool) {
	var items []json.RawMessage
	if json.Unmarshal(unquote(value), &items) != nil || len(items) != n {
		return nil, false
	}
	numbers := make([]int, n)
	for i, item := range items {
		var ok bool
		if numbers[i], ok = whole(item); !ok {
			return nil, false
		}
	}
	return numbers, true
}

// point reads [x, y], or an object with x and y, which some models send.
func point(value json.RawMessage) (*[2]int, bool) {
	if numbers, ok := wholes(value, 2); ok {
		return (*[2]int)(numbers), true
	}
	var axes map[string]json.RawMessage
	if json.Unmarshal(unquote(value), &axes) != nil || len(axes) != 2 {
		return nil, false
	}
	x, okX := whole(axes["x"])
	y, okY := whole(axes["y"])
	return &[2]int{x, y}, okX && okY
}

// typeable checks a text that is to be typed and makes each line end in a newline alone.
func typeable(text string, maxText int) (string, error) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if n := utf8.RuneCountInString(text); n > maxText {
		return "", inputErrorf("The text has %d characters, and one call types at most %d; type it in parts.", n, maxText)
	}
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return "", inputErrorf("The text has the control character U+%04X, which cannot be typed; use key for keys such as Escape.", r)
		case r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef:
			return "", inputErrorf("The text has U+%04X, which is no character and cannot be typed.", r)
		case r == utf8.RuneError:
			return "", inputErrorf("The text has the character U+FFFD, which stands for one that was lost; send the text again.")
		}
	}
	return text, nil
}

// errorValue is how many characters of an offending value an error shows.
const errorValue = 40

// shorten makes a value fit for an error: short, and with nothing invisible in it.
func shorten(text string) string {
	var out strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > errorValue {
			out.WriteString("…")
			break
		}
		out.WriteRune(r)
	}
	return Escape(out.String())
}

func shown(value json.RawMessage) string { return shorten(string(value)) }

func unknownMember(name string) error {
	return inputErrorf("There is no member \"%s\"; the members are %s.", shorten(name), strings.Join(Members(), ", "))
}

// within checks that a point lies within the view.
func (in *input) within(name string, p *[2]int, view image.Point) error {
	if p == nil || image.Pt(p[0], p[1]).In(image.Rectangle{Max: view}) {
		return nil
	}
	place := fmt.Sprintf("(%d, %d)", p[0], p[1])
	if huge(p[:]...) {
		place = in.given[name]
	}
	return inputErrorf("The %s %s is outside the screenshot of %dx%d pixels: x goes from 0 to %d and y from 0 to %d.",
		name, place, view.X, view.Y, view.X-1, view.Y-1)
}

// place checks all places that an input names against the view, in view pixels.
func (in *input) place(view image.Point) error {
	if err := in.within("start_coordinate", in.StartCoordinate, view); err != nil {
		return err
	}
	if err := in.within("coordinate", in.Coordinate, view); err != nil {
		return err
	}
	if r := in.Region; r != nil {
		place := fmt.Sprintf("[%d, %d, %d, %d]", r[0], r[1], r[2], r[3])
		if huge(r[:]...) {
			place = in.given["region"]
		}
		outside := min(r[0], r[1], r[2], r[3]) < 0 || max(r[0], r[2]) > view.X || max(r[1], r[3]) > view.Y
		switch {
		case outside:
			return inputErrorf("The region %s is outside the screenshot of %dx%d pixels: x goes from 0 to %d and y from 0 to %d.",
				place, view.X, view.Y, view.X, view.Y)
		case r[0] >= r[2] || r[1] >= r[3]:
			return inputErrorf("The region %s is empty: x0 must be less than x1 and y0 less than y1.", place)
		}
	}
	return nil
}
