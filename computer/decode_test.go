package computer

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"reflect"
	"strings"
	"testing"
)

// What models really send is taken, and re-encoded as what was meant.
func TestDecodeKindly(t *testing.T) {
	for _, test := range []struct{ member, input, want string }{
		{"screenshot", `{}`, `{}`},
		{"screenshot", ` { } `, `{}`},
		{"left_click", `{"coordinate":[10,20]}`, `{"coordinate":[10,20]}`},
		{"left_click", `{"coordinate":[10.0,2e1]}`, `{"coordinate":[10,20]}`},
		{"left_click", `{"coordinate":["10"," 20.0 "]}`, `{"coordinate":[10,20]}`},
		{"left_click", `{"coordinate":"[10,20]"}`, `{"coordinate":[10,20]}`},
		{"left_click", `{"coordinate":" [ \"10\", 20 ] "}`, `{"coordinate":[10,20]}`},
		{"left_click", `{"coordinate":{"y":20,"x":"10"}}`, `{"coordinate":[10,20]}`},
		{"left_click", `{"coordinate":[-0.0,-0]}`, `{"coordinate":[0,0]}`},
		{"left_click", `{"coordinate":null,"text":null}`, `{}`},
		{"left_click", `{"text":""}`, `{}`},
		{"left_click", `{"text":"ctrl+shift"}`, `{"text":"ctrl+shift"}`},
		{"mouse_move", `{"coordinate":[0,0]}`, `{"coordinate":[0,0]}`},
		{"left_click_drag", `{"coordinate":[3,4],"start_coordinate":"[1,2]"}`, `{"start_coordinate":[1,2],"coordinate":[3,4]}`},
		{"zoom", `{"region":"[1,2,3.0,\"4\"]"}`, `{"region":[1,2,3,4]}`},
		{"scroll", `{"scroll_direction":" Down","scroll_amount":"3"}`, `{"scroll_direction":"down","scroll_amount":3}`},
		{"scroll", `{"scroll_direction":"up","scroll_amount":0,"coordinate":[0,1],"text":"shift"}`, `{"coordinate":[0,1],"scroll_direction":"up","scroll_amount":0,"text":"shift"}`},
		{"type", `{"text":"a\r\nb\rc\n\td <&>"}`, `{"text":"a\nb\nc\n\td <&>"}`},
		{"type", `{"text":""}`, `{"text":""}`},
		{"type", `{"text":"[10,20]"}`, `{"text":"[10,20]"}`},
		{"key", `{"text":"Return"}`, `{"text":"Return"}`},
		{"key", `{"text":"Return","repeat":100}`, `{"text":"Return","repeat":100}`},
		{"hold_key", `{"text":"a","duration":"0.5"}`, `{"text":"a","duration":0.5}`},
		{"wait", `{"duration":300}`, `{"duration":300}`},
		{"wait", `{"duration":-0.0}`, `{"duration":0}`},
	} {
		in, err := decode(test.member, json.RawMessage(test.input), 100)
		if err != nil {
			t.Errorf("%s %s: %v", test.member, test.input, err)
			continue
		}
		if got, err := encode(in); err != nil || string(got) != test.want {
			t.Errorf("%s %s becomes %s, want %s (%v)", test.member, test.input, got, test.want, err)
		}
	}
}

// Everything else is refused in one sentence that says what was wrong.
func TestDecodeStrictly(t *testing.T) {
	const point = "must be a point [x, y] in whole pixels of the screenshot, not "
	for _, test := range []struct{ member, input, want string }{
		{"left_click", `null`, "The input of left_click must be an object with coordinate (optional), text (optional), not null."},
		{"left_click", ``, "not nothing."},
		{"screenshot", `null`, "not null."},
		{"left_click", `[10,20]`, "not a list."},
		{"left_click", `"{}"`, "not a string."},
		{"left_click", `7`, "not a number."},
		{"left_click", `{"coordinate":`, "not broken JSON."},
		{"wait", `{"duration":NaN}`, "not broken JSON."},
		{"screenshot", `{"full":true}`, `The member screenshot has no argument "full"; it takes no arguments.`},
		{"left_click", `{"x":1,"y":2}`, `The member left_click has no argument "x"; it takes coordinate (optional), text (optional).`},
		{"left_click", `{"co\u202eordinate":1}`, `no argument "co\u{202e}ordinate"`},
		{"mouse_move", `{}`, "The member mouse_move needs the argument coordinate, a point [x, y] in whole pixels of the screenshot."},
		{"mouse_move", `{"coordinate":null}`, "The member mouse_move needs the argument coordinate"},
		{"mouse_move", `{"coordinate":[1.5,2]}`, point + "[1.5,2]."},
		{"mouse_move", `{"coordinate":[1]}`, point + "[1]."},
		{"mouse_move", `{"coordinate":[1,2,3]}`, point + "[1,2,3]."},
		{"mouse_move", `{"coordinate":["NaN",2]}`, point + `["NaN",2].`},
		{"mouse_move", `{"coordinate":["0x10",2]}`, point},
		{"mouse_move", `{"coordinate":["1_0",2]}`, point},
		{"mouse_move", `{"coordinate":["Infinity",2]}`, point},
		{"mouse_move", `{"coordinate":[1e400,2]}`, point + "[1e400,2]."},
		{"mouse_move", `{"coordinate":[true,2]}`, point},
		{"mouse_move", `{"coordinate":[null,2]}`, point},
		{"mouse_move", `{"coordinate":[[1],2]}`, point},
		{"mouse_move", `{"coordinate":"10,20"}`, point + `"10,20".`},
		{"mouse_move", `{"coordinate":"\"[1,2]\""}`, point},
		{"mouse_move", `{"coordinate":{"x":1}}`, point},
		{"mouse_move", `{"coordinate":{"x":1,"y":2,"z":3}}`, point},
		{"mouse_move", `{"coordinate":{"x":1,"z":3}}`, point},
		{"mouse_move", `{"coordinate":"` + strings.Repeat("9", 1000) + `"}`, point + `"` + strings.Repeat("9", 39) + "…."},
		{"left_click", `{"coordinate":true}`, point + "true."},
		{"left_click", `{"text":5}`, "The argument text of left_click must be a string that names modifiers, such as shift or ctrl+alt, not 5."},
		{"zoom", `{"region":[1,2,3]}`, "must be a region [x0, y0, x1, y1] in whole pixels of the screenshot, not [1,2,3]."},
		{"zoom", `{}`, "The member zoom needs the argument region"},
		{"scroll", `{"scroll_direction":"north","scroll_amount":1}`, `must be one of up, down, left and right, not "north".`},
		{"scroll", `{"scroll_direction":4,"scroll_amount":1}`, "must be one of up, down, left and right, not 4."},
		{"scroll", `{"scroll_direction":"up","scroll_amount":-1}`, "must be a whole number of wheel clicks from 0 to 100, not -1."},
		{"scroll", `{"scroll_direction":"up","scroll_amount":101}`, "not 101."},
		{"scroll", `{"scroll_direction":"up","scroll_amount":1.5}`, "not 1.5."},
		{"scroll", `{"scroll_direction":"up"}`, "The member scroll needs the argument scroll_amount"},
		{"key", `{"text":"a","repeat":0}`, "must be a whole number from 1 to 100, not 0."},
		{"key", `{"text":"a","repeat":101}`, "not 101."},
		{"key", `{"text":["a"]}`, `must be a string that names keys, such as Return or ctrl+s, not ["a"].`},
		{"wait", `{"duration":301}`, "must be a number of seconds from 0 to 300, not 301."},
		{"wait", `{"duration":-1}`, "not -1."},
		{"wait", `{"duration":"NaN"}`, `not "NaN".`},
		{"wait", `{"duration":1e999}`, "not 1e999."},
		{"wait", `{}`, "The member wait needs the argument duration"},
		{"hold_key", `{"duration":1}`, "The member hold_key needs the argument text"},
		{"type", `{}`, "The member type needs the argument text, a string to be typed."},
		{"type", `{"text":42}`, "must be a string to be typed, not 42."},
		{"type", `{"text":"` + strings.Repeat("漢", 101) + `"}`, "The text has 101 characters, and one call types at most 100; type it in parts."},
		{"type", `{"text":"a\u001bb"}`, "The text has the control character U+001B, which cannot be typed; use key for keys such as Escape."},
		{"type", `{"text":"a\u0000"}`, "U+0000"},
		{"type", `{"text":"a\u007f"}`, "U+007F"},
		{"type", `{"text":"a\u0085"}`, "U+0085"},
		{"type", `{"text":"a\uffff"}`, "U+FFFF, which is no character"},
		{"type", `{"text":"a\ud800b"}`, "U+FFFD"},
		{"drag", `{}`, `There is no member "drag"`},
	} {
		in, err := decode(test.member, json.RawMessage(test.input), 100)
		var refused *InputError
		if err == nil {
			got, _ := encode(in)
			t.Errorf("%s %.60s is taken as %s", test.member, test.input, got)
		} else if !strings.Contains(err.Error(), test.want) || !strings.HasSuffix(err.Error(), ".") || len(err.Error()) > 400 {
			t.Errorf("%s %.60s: %q, want %q", test.member, test.input, err, test.want)
		} else if !errors.As(err, &refused) {
			t.Errorf("%s %.60s: %T is not for the model", test.member, test.input, err)
		}
	}
}

func TestRegionBounds(t *testing.T) {
	view := image.Pt(100, 50)
	for region, want := range map[[4]int]string{
		{0, 0, 100, 50}: "", {99, 49, 100, 50}: "",
		{0, 0, 101, 50}:  "The region [0, 0, 101, 50] is outside the screenshot of 100x50 pixels: x goes from 0 to 100 and y from 0 to 50.",
		{-1, 0, 10, 10}:  "outside",
		{0, 0, 0, 10}:    "The region [0, 0, 0, 10] is empty: x0 must be less than x1 and y0 less than y1.",
		{10, 30, 20, 30}: "empty", {20, 0, 10, 10}: "empty",
	} {
		err := (&input{Region: &region}).place(view)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want %q", region, err, want)
		}
	}
}

// Whatever comes is refused in a short sentence, or taken as something that decodes to
// itself again: what the one who confirms reads is what runs.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"coordinate":[10,20]}`, `{"coordinate":"[10,20]","text":"shift"}`, `{"coordinate":{"x":1,"y":2}}`,
		`{"region":[0,0,5,5]}`, `{"start_coordinate":[1,2],"coordinate":["3","4.0"]}`, `{"text":"a\r\n\u202e"}`,
		`{"text":"ctrl+s","repeat":3}`, `{"text":"a","duration":0.25}`, `{"scroll_direction":"UP","scroll_amount":3}`,
		`{"duration":1e400}`, `{"coordinate":[null,1]}`, `null`, `[`,
	} {
		for i := range Members() {
			f.Add(i, seed)
		}
	}
	f.Fuzz(func(t *testing.T, n int, data string) {
		members := Members()
		member := members[((n%len(members))+len(members))%len(members)]
		in, err := decode(member, json.RawMessage(data), 1000)
		if err != nil {
			if text := err.Error(); len(text) > 1000 || Escape(text) != text && !strings.Contains(text, `\u{`) && !strings.Contains(text, `\x{`) {
				t.Fatalf("%s %q: %q", member, data, text)
			}
			return
		}
		written, err := encode(in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(member, written, 1000)
		if err == nil {
			in.given, again.given = nil, nil // it came in another form
		}
		if err != nil || !reflect.DeepEqual(in, again) {
			t.Fatalf("%s %q becomes %s, which becomes %+v (%v)", member, data, written, again, err)
		}
		if in.time() < 0 || in.time().Seconds() > maxDuration {
			t.Fatalf("a duration of %v", in.time())
		}
		if text := (&command{member: member, input: in}).describe(); text == "" || Escape(text) != text && !strings.Contains(text, `\u{`) && !strings.Contains(text, `\x{`) {
			t.Fatalf("%s is described as %q", written, text)
		}
		_ = in.place(image.Pt(100, 100))
	})
}

func TestPath(t *testing.T) {
	for _, to := range []image.Point{{0, 0}, {1, 0}, {3, 3}, {-20, 7}, {1000, -1000}, {0, 5000}} {
		points := path(image.Point{}, to)
		last := image.Point{}
		for i, p := range points {
			if i > 0 && p == last {
				t.Errorf("to %v: step %d stays at %v", to, i, p)
			}
			last = p
		}
		if last != to || len(points) > dragSteps+11 {
			t.Errorf("to %v: %d steps end at %v", to, len(points), last)
		}
	}
	points := path(image.Pt(5, 5), image.Pt(105, 5))
	if got, want := fmt.Sprint(points[:5]), "[(7,5) (10,5) (14,5) (19,5) (25,5)]"; got != want {
		t.Errorf("a drag begins %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(points[len(points)-7:]), "[(93,5) (97,5) (100,5) (102,5) (103,5) (104,5) (105,5)]"; got != want {
		t.Errorf("a drag ends %s, want %s", got, want)
	}
}
