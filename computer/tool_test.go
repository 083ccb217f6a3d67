package computer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/vision"
)

var _ agent.Tool = (*computer.Toolset)(nil)

func TestDeclare(t *testing.T) {
	for _, test := range []struct {
		disabled []string
		want     string
	}{
		{nil, `[{"type":"computer_toolset_20260801"}]`},
		{[]string{"zoom", "hold_key"}, `[{"configs":{"hold_key":{"enabled":false},"zoom":{"enabled":false}},"type":"computer_toolset_20260801"}]`},
		{computer.Members(), ""},
	} {
		tools := toolset(t, computertest.NewFake(80, 60), &computer.Options{Disabled: test.disabled})
		got, err := json.Marshal(tools.Declare())
		if err != nil {
			t.Fatal(err)
		}
		if test.want != "" && string(got) != test.want {
			t.Errorf("declared as %s, want %s", got, test.want)
		}
		if n := strings.Count(string(got), `{"enabled":false}`); n != len(test.disabled) {
			t.Errorf("%d members are declared off, want %d", n, len(test.disabled))
		}
		if again, _ := json.Marshal(tools.Declare()); string(again) != string(got) {
			t.Errorf("declared first as %s, then as %s", got, again)
		}
	}
}

// calls are blocks as the SDK has them.
func calls(t testing.TB, uses []computer.ToolUse) []anthropic.BetaToolUseBlock {
	t.Helper()
	blocks := []anthropic.BetaToolUseBlock{}
	for _, use := range uses {
		data, err := json.Marshal(use)
		if err != nil {
			t.Fatal(err)
		}
		var block anthropic.BetaToolUseBlock
		if err := json.Unmarshal(data, &block); err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// Answer says in the SDK's types what Run says in ours.
func TestAnswerIsRun(t *testing.T) {
	uses := turn("left_click", `{"coordinate":[1,2]}`, "screenshot", `{}`, "zoom", `{"region":[0,0,20,10]}`, "left_click", `{"coordinate":[-1,2]}`, "wait", `{"duration":0}`)
	results := toolset(t, computertest.NewFake(80, 60), nil).Run(t.Context(), uses)
	answers := toolset(t, computertest.NewFake(80, 60), nil).Answer(t.Context(), calls(t, uses), vision.Allowance{Images: 9})
	if len(answers) != len(results) {
		t.Fatalf("%d answers, %d results", len(answers), len(results))
	}
	for i := range results {
		want, err := json.Marshal(results[i])
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(answers[i])
		if err != nil || !sameJSON(t, got, want) {
			t.Errorf("%.300s, want %.300s (%v)", got, want, err)
		}
	}
}

// Every call that is handed in is answered, also one that is not ours.
func TestAnswerForeignCalls(t *testing.T) {
	uses := turn("left_click", `{}`, "bash", `{}`, "screenshot", `{}`)
	uses[1].ToolsetName = ""
	uses = append(uses, computer.ToolUse{ID: "page", Name: "screenshot", ToolsetName: "browser", Input: json.RawMessage(`{}`)})
	answers := toolset(t, computertest.NewFake(80, 60), nil).Answer(t.Context(), calls(t, uses), vision.Allowance{Images: 9})
	if len(answers) != 4 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		if a.ToolUseID != uses[i].ID || a.ToolsetName.Value != uses[i].ToolsetName || a.IsError.Value != (i == 1 || i == 3) {
			t.Errorf("answer %d is %+v", i, a)
		}
	}
}

// What a conversation has room for is kept to.
func TestAllowance(t *testing.T) {
	fake := computertest.NewFake(240, 180)
	fake.Paint(noise)
	shots := turn("screenshot", `{}`, "zoom", `{"region":[0,0,80,60]}`, "screenshot", `{}`)
	for _, test := range []struct {
		room     vision.Allowance
		appended bool
		uses     []computer.ToolUse
		want     []string // of each result: "" for an image, or a part of the text
	}{
		{vision.Allowance{Images: 3}, false, shots, []string{"", "", ""}},
		{vision.Allowance{Images: 2}, false, shots, []string{"", "", "There are too many images in this turn"}},
		{vision.Allowance{Images: 0}, false, shots, []string{"There is no room for another image in this conversation", halted, halted}},
		{vision.Allowance{Images: 5, MaxEdge: 200}, false, shots, []string{"A screenshot has 240x180 pixels, and this conversation has room for 200 an edge", halted, halted}},
		{vision.Allowance{Images: 5, MaxEdge: 200}, false, shots[1:2], []string{""}},
		{vision.Allowance{Images: 3, MaxBytes: 90_000}, false, shots, []string{"", "", ""}},
		{vision.Allowance{Images: 1}, true, turn("left_click", `{}`), []string{""}},
		{vision.Allowance{Images: 0}, true, turn("left_click", `{}`), []string{"There is no room"}},
	} {
		tools := toolset(t, fake, &computer.Options{Limits: small(), AppendScreenshot: test.appended})
		answers := tools.Answer(t.Context(), calls(t, test.uses), test.room)
		images, size := 0, 0
		for i, a := range answers {
			text, hasImage := "", false
			for _, c := range a.Content {
				if c.OfImage == nil {
					text += c.OfText.Text
					continue
				}
				hasImage = true
				images++
				size += len(c.OfImage.Source.OfBase64.Data)
				if c.OfImage.Transformations.OversizedImage != "error" {
					t.Error("the API may scale an image down")
				}
			}
			if hasImage != (test.want[i] == "") || !strings.Contains(text, test.want[i]) {
				t.Errorf("with room for %+v block %d is answered with an image: %v, text %q; want %q", test.room, i, hasImage, text, test.want[i])
			}
			if a.IsError.Value && len(a.Content) != 1 {
				t.Errorf("an error with %d blocks", len(a.Content))
			}
		}
		if images > test.room.Images || test.room.MaxBytes > 0 && size > test.room.MaxBytes {
			t.Errorf("%d images of %d bytes, room for %+v", images, size, test.room)
		}
	}
}

// An agent drives the toolset over many turns, and the strict double of the API, which
// refuses what the API refuses, takes every request.
func TestAgentDrives(t *testing.T) {
	var script []claudetest.Turn
	for i := range 24 {
		script = append(script, claudetest.Say(
			claudetest.Member("computer", "left_click", fmt.Sprintf(`{"coordinate":[%d,20]}`, 9*i)),
			claudetest.Member("computer", "key", `{"text":"a"}`),
			claudetest.Member("computer", []string{"screenshot", "wait", "zoom"}[i%3], []string{`{}`, `{}`, `{"region":[0,0,50,30]}`}[i%3])))
	}
	script = append(script, claudetest.Answer("Done."))
	server := claudetest.New(t, nil, script...)
	fake := computertest.NewFake(640, 400)
	a := agent.New(server.Client(), &agent.Options{Model: "claude-opus-4-8", MaxTurns: 40})
	tools := toolset(t, fake, &computer.Options{Limits: small(), AppendScreenshot: true})
	answer, err := a.Ask(t.Context(), "Press all of them.", tools)
	if err != nil || answer.Text != "Done." {
		t.Fatalf("%+v, %v", answer, err)
	}
	if clicks := len(fake.Clicks()); clicks != 24 || fake.Text() != strings.Repeat("a", 24) {
		t.Errorf("%d clicks and the text %q", clicks, fake.Text())
	}
}

// Random turns, valid and not, on a desktop that fails now and then: each block of ours is
// answered once and in order, errors hold text alone, the rest of a failed turn is not
// run, and after a failure nothing is held.
func TestTurnsProperties(t *testing.T) { synctest.Test(t, testTurnsProperties) }

// bubble is a test in a synctest bubble, where the time for tests cannot be asked for.
type bubble struct{ *testing.T }

func (bubble) Deadline() (time.Time, bool) { return time.Time{}, false }

func testTurnsProperties(t *testing.T) {
	rapid.Check(bubble{t}, func(rt *rapid.T) {
		fake := computertest.NewFake(200, 150)
		fault := rapid.SampledFrom([]string{"", "", "error", "panic", "input", "closed", "cancel"}).Draw(rt, "fault")
		after := rapid.IntRange(0, 40).Draw(rt, "after")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		fake.Intercept(func(_ context.Context, method string) error {
			if method == "Release" {
				return nil
			}
			if calls++; calls <= after {
				return nil
			}
			switch fault {
			case "error":
				return errors.New("a secret of the driver")
			case "panic":
				panic("a secret of the driver")
			case "input":
				return &computer.InputError{Text: "this cannot be done"}
			case "closed":
				return fmt.Errorf("a secret of the driver: %w", computer.ErrClosed)
			case "cancel":
				cancel()
			}
			return nil
		})
		refuse := rapid.IntRange(0, 30).Draw(rt, "refused")
		tools := toolset(t, fake, &computer.Options{
			AppendScreenshot: rapid.Bool().Draw(rt, "append"),
			Disabled:         []string{"middle_click"},
			MaxText:          10,
			Limits:           small(),
			Confirm: func(context.Context, computer.Action) computer.Decision {
				refuse--
				return computer.Decision{Approved: refuse != 0}
			},
		})
		for range rapid.IntRange(1, 3).Draw(rt, "turns") {
			uses := rapid.SliceOfN(anyUse(), 0, 6).Draw(rt, "turn")
			checkTurn(rt, fake, uses, tools.Run(ctx, uses))
		}
	})
}

func checkTurn(t *rapid.T, fake *computertest.Fake, uses []computer.ToolUse, results []computer.ToolResult) {
	failed := false
	for _, use := range uses {
		if use.ToolsetName != computer.ToolsetName {
			continue
		}
		if len(results) == 0 {
			t.Fatalf("%+v has no result", use)
		}
		r := results[0]
		results = results[1:]
		if r.ToolUseID != use.ID || r.ToolsetName != "computer" || len(r.Content) == 0 {
			t.Fatalf("%+v is answered with %+v", use, r)
		}
		if failed && (!r.IsError || textOf(r) != halted) || !failed && textOf(r) == halted {
			t.Fatalf("after a failure (%v) %+v is answered with %+v", failed, use, r)
		}
		failed = failed || r.IsError
		for _, c := range r.Content {
			if c.Image != nil && (r.IsError || !looks(use, results)) {
				t.Fatalf("%+v is answered with an image", use)
			}
			if strings.Contains(c.Text, "secret") || c.Image == nil && c.Text == "" || computer.Escape(c.Text) != c.Text && !strings.Contains(c.Text, `\u{`) {
				t.Fatalf("%+v is answered with %q", use, c.Text)
			}
		}
	}
	if len(results) > 0 {
		t.Fatalf("results too many: %+v", results)
	}
	keys, buttons := fake.Held()
	buttons = slices.DeleteFunc(buttons, func(b computer.Button) bool { return !failed && b == computer.LeftButton })
	if len(keys)+len(buttons) > 0 {
		t.Fatalf("the keys %v and the buttons %v are still down", keys, buttons)
	}
}

// looks says whether a result may have an image: of a member that looks, or the last one.
func looks(use computer.ToolUse, rest []computer.ToolResult) bool {
	return use.Name == "screenshot" || use.Name == "zoom" || len(rest) == 0
}

// anyUse draws a block, mostly a good one.
func anyUse() *rapid.Generator[computer.ToolUse] {
	return rapid.Custom(func(t *rapid.T) computer.ToolUse {
		point := func(name string) string {
			return fmt.Sprintf("[%d,%d]", rapid.IntRange(-1, 210).Draw(t, name+" x"), rapid.IntRange(0, 149).Draw(t, name+" y"))
		}
		use := computer.ToolUse{
			ID:          rapid.StringMatching("[a-h]").Draw(t, "id"),
			Name:        rapid.SampledFrom(append(computer.Members(), "drag", "")).Draw(t, "name"),
			ToolsetName: rapid.SampledFrom([]string{"computer", "computer", "computer", "computer", "browser", ""}).Draw(t, "toolset"),
		}
		input := `{}`
		switch use.Name {
		case "zoom":
			input = fmt.Sprintf(`{"region":[%d,3,%d,90]}`, rapid.IntRange(0, 60).Draw(t, "x0"), rapid.IntRange(50, 210).Draw(t, "x1"))
		case "left_click", "right_click", "double_click":
			input = rapid.SampledFrom([]string{`{}`, `{"text":"shift+ctrl"}`, `{"coordinate":` + point("at") + `}`, `{"coordinate":"` + point("at") + `","text":"alt"}`, `{"text":"banana"}`}).Draw(t, "input")
		case "left_click_drag":
			start := image.Pt(rapid.IntRange(0, 199).Draw(t, "sx"), rapid.IntRange(0, 149).Draw(t, "sy"))
			input = fmt.Sprintf(`{"start_coordinate":[%d,%d],"coordinate":[%d,%d],"text":"shift"}`, start.X, start.Y, min(start.X+1, 199), start.Y)
		case "mouse_move":
			input = `{"coordinate":` + point("at") + `}`
		case "scroll":
			input = fmt.Sprintf(`{"scroll_direction":"down","scroll_amount":%d}`, rapid.IntRange(-1, 2).Draw(t, "amount"))
		case "type":
			input = rapid.SampledFrom([]string{`{"text":"a漢"}`, `{"text":"\u0007"}`, `{"text":"01234567890"}`, `{"text":""}`}).Draw(t, "text")
		case "key":
			input = rapid.SampledFrom([]string{`{"text":"ctrl+s"}`, `{"text":"a","repeat":3}`, `{"text":"nokey\u202e"}`, `{"text":"a","repeat":0}`}).Draw(t, "key")
		case "hold_key":
			input = rapid.SampledFrom([]string{`{"text":"a","duration":0}`, `{"text":"a","duration":301}`}).Draw(t, "hold")
		case "wait":
			input = rapid.SampledFrom([]string{`{"duration":0}`, `{"duration":1e400}`, `null`}).Draw(t, "wait")
		}
		use.Input = json.RawMessage(input)
		return use
	})
}
