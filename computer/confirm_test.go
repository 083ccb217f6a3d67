package computer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
)

// What is asked is the whole of what would run: decoded, in one line, nothing invisible.
func TestConfirmSees(t *testing.T) {
	fake := computertest.NewFake(560, 280) // shown at 280x140
	var seen []computer.Action
	tools := toolset(t, fake, &computer.Options{Limits: small(), Confirm: func(_ context.Context, a computer.Action) computer.Decision {
		seen = append(seen, a)
		return computer.Decision{Approved: true}
	}})
	for _, test := range []struct {
		member, input, wantInput, description string
		point                                 *image.Point
	}{
		{"screenshot", `{}`, `{}`, "Take a screenshot", nil},
		{"zoom", `{"region":"[0,0,30,20]"}`, `{"region":[0,0,30,20]}`, "Zoom into (0, 0)-(30, 20)", nil},
		{"left_click", `{"coordinate":"[10,\"20\"]","text":"ctrl"}`, `{"coordinate":[10,20],"text":"ctrl"}`, `Left click at (10, 20) holding "ctrl"`, &image.Point{21, 41}},
		{"triple_click", `{}`, `{}`, "Triple click at the pointer", nil},
		{"left_click_drag", `{"start_coordinate":[1,2],"coordinate":[3,4]}`, `{"start_coordinate":[1,2],"coordinate":[3,4]}`, "Drag from (1, 2) to (3, 4)", &image.Point{7, 9}},
		{"left_mouse_down", `{}`, `{}`, "Press the left button at the pointer and hold it", nil},
		{"left_mouse_up", `{}`, `{}`, "Release the left button at the pointer", nil},
		{"mouse_move", `{"coordinate":[5.0,5]}`, `{"coordinate":[5,5]}`, "Move the pointer to (5, 5)", &image.Point{11, 11}},
		{"cursor_position", `{}`, `{}`, "Read the position of the pointer", nil},
		{"scroll", `{"scroll_direction":"Up","scroll_amount":2}`, `{"scroll_direction":"up","scroll_amount":2}`, "Scroll up by 2 at the pointer", nil},
		{"type", `{"text":"rm\u202e -rf\r\n\"x\""}`, "{\"text\":\"rm\u202e -rf\\n\\\"x\\\"\"}", `Type "rm\u{202e} -rf\u{a}\"x\""`, nil},
		{"key", `{"text":"ctrl+s"}`, `{"text":"ctrl+s"}`, `Press "ctrl+s"`, nil},
		{"key", `{"text":"Tab","repeat":"4"}`, `{"text":"Tab","repeat":4}`, `Press "Tab" 4 times`, nil},
		{"hold_key", `{"text":"a","duration":0.01}`, `{"text":"a","duration":0.01}`, `Hold "a" for 0.01 s`, nil},
		{"wait", `{"duration":0}`, `{"duration":0}`, "Wait for 0 s", nil},
	} {
		seen = nil
		ok(t, tools, test.member, test.input)
		if len(seen) != 1 {
			t.Fatalf("%s: asked %d times", test.member, len(seen))
		}
		a := seen[0]
		if a.Member != test.member || string(a.Input) != test.wantInput || a.Description != test.description || fmt.Sprint(a.Point) != fmt.Sprint(test.point) {
			t.Errorf("%s %s is shown as\n%s %s\n%s\n%v, want\n%s\n%s\n%v", test.member, test.input, a.Member, a.Input, a.Description, a.Point,
				test.wantInput, test.description, test.point)
		}
	}
}

// Anything but yes refuses the block and ends the turn.
func TestConfirmRefuses(t *testing.T) {
	const refused = "Refused: this action was not confirmed."
	for name, test := range map[string]struct {
		confirm func(context.Context, computer.Action) computer.Decision
		want    string
	}{
		"no": {func(context.Context, computer.Action) computer.Decision { return computer.Decision{} }, refused},
		"reason": {func(context.Context, computer.Action) computer.Decision {
			return computer.Decision{Reason: "not\u200bnow"}
		}, refused + ` The reason given: not\u{200b}now.`},
		"panic": {func(context.Context, computer.Action) computer.Decision { panic("at the prompt") }, refused},
	} {
		t.Run(name, func(t *testing.T) {
			fake := computertest.NewFake(800, 600)
			asked := 0
			tools := toolset(t, fake, &computer.Options{Confirm: func(ctx context.Context, a computer.Action) computer.Decision {
				if asked++; asked == 2 {
					return test.confirm(ctx, a)
				}
				return computer.Decision{Approved: true}
			}})
			results := tools.Run(t.Context(), turn("left_mouse_down", `{}`, "left_mouse_up", `{}`, "wait", `{"duration":0}`))
			if results[0].IsError || !results[1].IsError || !strings.HasPrefix(textOf(results[1]), test.want) || textOf(results[2]) != halted || asked != 2 {
				t.Errorf("asked %d times: %+v", asked, results)
			}
			wantNothingHeld(t, fake)
			if clicks := len(fake.Clicks()); clicks != 0 {
				t.Error("what was refused has happened")
			}
		})
	}
}

// A yes that comes after the context has ended is none.
func TestConfirmTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, &computer.Options{Confirm: func(context.Context, computer.Action) computer.Decision {
		cancel()
		return computer.Decision{Approved: true}
	}})
	if r := tools.Run(ctx, turn("left_click", `{}`)); !r[0].IsError || len(fake.Events()) > 0 {
		t.Errorf("%+v, events %v", r, fake.Events())
	}
}

// With nobody to ask, what reaches the keyboard is refused and the rest is not.
func TestNobodyToAsk(t *testing.T) {
	inputs := map[string]string{
		"zoom": `{"region":[0,0,9,9]}`, "left_click_drag": `{"start_coordinate":[1,1],"coordinate":[9,9]}`, "mouse_move": `{"coordinate":[9,9]}`,
		"scroll": `{"scroll_direction":"up","scroll_amount":1}`, "type": `{"text":"a"}`, "key": `{"text":"a"}`, "hold_key": `{"text":"a","duration":0}`, "wait": `{"duration":0}`,
	}
	for _, member := range computer.Members() {
		fake := computertest.NewFake(800, 600)
		tools, err := computer.New(fake, &computer.Options{Limits: small()})
		if err != nil {
			t.Fatal(err)
		}
		input := inputs[member]
		if input == "" {
			input = `{}`
		}
		r := one(t, tools, member, input)
		if want := slices.Contains([]string{"type", "key", "hold_key"}, member); r.IsError != want {
			t.Errorf("%s: %+v", member, r)
		} else if want && !strings.Contains(textOf(r), "there is nobody to confirm") || fake.Text() != "" || len(fake.Keys()) > 0 {
			t.Errorf("%s: %q, text %q", member, textOf(r), fake.Text())
		}
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, née 漢字 😀 →":  "plain text, née 漢字 😀 →",
		"a\nb\tc\x00\x7f\u0085":   `a\u{a}b\u{9}c\u{0}\u{7f}\u{85}`,
		"\u202eabc\u2066":         `\u{202e}abc\u{2066}`,
		"a\u200bb\u00adc\ufeff":   `a\u{200b}b\u{ad}c\u{feff}`,
		"a\u00a0b\u3000c\u2009":   `a\u{a0}b\u{3000}c\u{2009}`,
		"a\u2028b\u2029":          `a\u{2028}b\u{2029}`,
		"\U000e0041\U000e0001x":   `\u{e0041}\u{e0001}x`,
		"❤\ufe0f\U000e0100":       `❤\u{fe0f}\u{e0100}`,
		"e\u0301":                 "e\u0301",
		"\u0301e":                 `\u{301}e`,
		" \u0301":                 ` \u{301}`,
		"\u3164\uffa0\u115f":      `\u{3164}\u{ffa0}\u{115f}`,
		"\u2800\u034f\ue000":      `\u{2800}\u{34f}\u{e000}`,
		"\U0001f468\u200d👩":       "\U0001f468" + `\u{200d}👩`,
		"a\xffb":                  `a\x{ff}b`,
		"\ufffd":                  "\ufffd",
		`C:\users \u{202e} \x{0}`: `C:\users \u{5c}u{202e} \u{5c}x{0}`,
	} {
		if got := computer.Escape(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

// Nothing that cannot be seen is left, and two texts never look the same once escaped.
func TestEscapeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom(nil, unicode.Cf, unicode.Cc, unicode.Zs, unicode.M, unicode.Co)),
			rapid.StringMatching(`[\\ux{}0-9a-f]*`)).Draw(t, "text")
		escaped := computer.Escape(text)
		for _, r := range escaped {
			if r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r) && r != ' ' {
				t.Fatalf("%q becomes %q", text, escaped)
			}
		}
		other := rapid.String().Draw(t, "other")
		if (computer.Escape(other) == escaped) != (other == text) {
			t.Fatalf("%q and %q are both shown as %q", text, other, escaped)
		}
	})
}

// The input that is shown is valid JSON that says the same as what was sent.
func TestConfirmInputIsJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.Zs, unicode.Cf)).Draw(rt, "text")
		data, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			rt.Fatal(err)
		}
		fake := computertest.NewFake(50, 50)
		var seen struct{ Text string }
		tools := toolset(t, fake, &computer.Options{Confirm: func(_ context.Context, a computer.Action) computer.Decision {
			if err := json.Unmarshal(a.Input, &seen); err != nil {
				rt.Error(err)
			}
			return computer.Decision{Approved: true}
		}})
		ok(t, tools, "type", string(data))
		if seen.Text != text || fake.Text() != text {
			rt.Fatalf("%q was shown as %q and typed as %q", text, seen.Text, fake.Text())
		}
	})
}
