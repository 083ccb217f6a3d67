package claudetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/internal/wire"
)

func TestParse(t *testing.T) {
	turns, err := claudetest.Parse("s", `
# A script with everything.
turn
thinking: I should
| look closer.
text Looking
|   twice.
zoom 1 2 30 40
zoom -1 2 30 40 image 3
tool bash {"command": "ls"}
tool now
member computer screenshot
expect images 1
repeat 2
turn
cut zoom {"x1": 5, "y
turn
text: Done.
stop: model_context_window_exceeded
hang
turn
text: Done.
break 3 api_error
error: 529 retry-after 2 Come back later
expect result error
error 500
`)
	if err != nil {
		t.Fatal(err)
	}
	first := claudetest.Say(
		claudetest.Thinking("I should\nlook closer."), claudetest.Text("Looking\ntwice."),
		claudetest.Zoom(1, 2, 30, 40, 0), claudetest.Zoom(-1, 2, 30, 40, 3), claudetest.Call("bash", `{"command": "ls"}`),
		claudetest.Call("now", nil), claudetest.Member("computer", "screenshot", nil),
	)
	first.Expect = []claudetest.Condition{{Text: "images 1"}}
	want := []claudetest.Turn{
		first, first,
		claudetest.CutInside(claudetest.Call("zoom", `{"x1": 5, "y`)),
		claudetest.Answer("Done.").WithStop("model_context_window_exceeded").Hanging(0),
		claudetest.Answer("Done.").Failing(3, "api_error"),
		{Status: 529, RetryAfter: 2 * time.Second, Message: "Come back later", Expect: []claudetest.Condition{{Text: "result error"}}},
		{Status: 500},
	}
	ignore := []cmp.Option{cmpopts.IgnoreUnexported(claudetest.Turn{}), cmpopts.IgnoreFields(claudetest.Condition{}, "Check")}
	if diff := cmp.Diff(want, turns, ignore...); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for script, want := range map[string]string{
		"text: hi":                     `s:1: text stands before the first turn`,
		"turn\nsay hi":                 `s:2: unknown keyword "say"`,
		"turn now":                     `s:1: turn takes nothing after it`,
		"turn\n\nzoom 1 2 3":           `s:3: zoom needs X1 Y1 X2 Y2`,
		"turn\nzoom 1 2 3 x":           `s:2: zoom needs X1 Y1 X2 Y2`,
		"turn\nzoom 1 2 3 4 image x":   `s:2: zoom needs X1 Y1 X2 Y2`,
		"turn\ntool":                   `s:2: a call needs the name of a tool`,
		"turn\ntool bash [1]":          `s:2: the input of bash is not a JSON object`,
		"turn\nmember computer":        `s:2: a call needs the name of a tool`,
		"turn\ncut zoom {}":            `s:2: cut needs JSON that breaks off`,
		"turn\ncut zoom {\ntext: hi":   `s:3: nothing can follow the call that was cut`,
		"turn\n| hi":                   `s:2: | goes on with a text or thinking`,
		"turn\nstop: tired":            `s:2: the turn's stop reason "tired" is unknown`,
		"turn\nstop":                   `s:2: stop needs a reason`,
		"turn\nrepeat 0":               `s:2: repeat needs a number from 1 to 1000`,
		"turn\ndrop x":                 `s:2: drop needs the number of events before it`,
		"turn\ndrop 2 now":             `s:2: drop takes a number alone`,
		"turn\ndrop 2\nhang":           `s:3: a turn breaks once`,
		"turn\nexpect luck":            `s:2: unknown condition "luck"`,
		"turn\nexpect images few":      `s:2: expect images needs a number`,
		"turn\nexpect result fine":     `s:2: expect result takes ok, error`,
		"error: 200":                   `s:1: error needs an HTTP status from 400 to 599`,
		"error: 529 retry-after soon":  `s:1: retry-after needs seconds`,
		"# fine\nerror: 529\ntext: hi": `s:3: text cannot follow an error`,
	} {
		if _, err := claudetest.Parse("s", script); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", script, err, want)
		}
	}
}

func TestConditions(t *testing.T) {
	body := request(zoomTool, messages(list(picture(10, 10)), list(call), list(
		strings.Replace(result, `"seen"`, `[{"type":"text","text":"outside the image"}],"is_error":true`, 1), asked)))
	for condition, holds := range map[string]bool{
		"result error": true, "result ok": false, "result contains outside": true, "result contains inside": false,
		"result lacks inside": true, "result lacks outside": false, "results 1": true, "results 2": false,
		"contains Go on": true, "contains outside": true, "contains Stop": false, "images 1": true, "images 0": false,
		"messages 3": true, "messages 2": false, "tools zoom": true, "tools": false, "tools zoom bash": false,
	} {
		turns, err := claudetest.Parse("s", "turn\nexpect "+condition)
		if err != nil {
			t.Fatal(err)
		}
		double := reports(t, turns...)
		if got := post(t, double, body); (got.status == 200) != holds {
			t.Errorf("%s: got %d: %s", condition, got.status, got.message)
		}
	}
}

// Any text either parses into turns that can be served or gives an error with its
// place; a turn that was parsed is answered.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"turn\ntext: hi\nzoom 1 2 3 4 image 5\nstop: pause_turn\nexpect result ok\nrepeat 3",
		"turn\nthinking: a\n| b\nredacted: c\nmember computer key {\"text\":\"a\"}\ncut zoom {\"x\nbreak 2",
		"error: 529 retry-after 3 later\nexpect images 2", "turn\ntool a {\"b\":[1,2]}\ndrop 0", "# nothing\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		turns, err := claudetest.Parse("file", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file:") || turns != nil {
				t.Fatalf("%d turns and error %q", len(turns), err)
			}
			return
		}
		for _, turn := range turns {
			if turn.Status != 0 && (turn.Status < 400 || turn.Status > 599) {
				t.Fatalf("status %d", turn.Status)
			}
			for i, b := range turn.Blocks {
				if b.Type == "tool_use" && b.Name == "" {
					t.Fatal("a call without a name")
				}
				if turn.Cut && i == len(turn.Blocks)-1 {
					continue
				}
				if _, err := (wire.Block{Type: b.Type, Input: b.Input}).MarshalJSON(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
