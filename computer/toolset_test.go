package computer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
	"github.com/loupe-tools/loupe/vision"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small are limits that keep images small where their size does not matter.
func small() vision.Limits { return vision.Limits{MaxEdge: 280, MaxTokens: 100} }

const halted = "Not executed: an earlier computer action in this turn failed."

// toolset is one on a desktop where everything is approved, unless the options say more.
func toolset(t testing.TB, d computer.Desktop, o *computer.Options) *computer.Toolset {
	t.Helper()
	options := computer.Options{}
	if o != nil {
		options = *o
	}
	if options.Confirm == nil {
		options.Confirm = computer.ApproveAll
	}
	tools, err := computer.New(d, &options)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// turn makes blocks of pairs of a member and its input.
func turn(pairs ...string) []computer.ToolUse {
	var uses []computer.ToolUse
	for i := 0; i < len(pairs); i += 2 {
		uses = append(uses, computer.ToolUse{
			ID: fmt.Sprintf("toolu_%d", i/2), Name: pairs[i], ToolsetName: "computer", Input: json.RawMessage(pairs[i+1]),
		})
	}
	return uses
}

// one runs one block and returns its result.
func one(t testing.TB, tools *computer.Toolset, member, input string) computer.ToolResult {
	t.Helper()
	results := tools.Run(t.Context(), turn(member, input))
	if len(results) != 1 {
		t.Fatalf("%d results for one block", len(results))
	}
	return results[0]
}

// textOf joins the texts of a result.
func textOf(r computer.ToolResult) string {
	var texts []string
	for _, c := range r.Content {
		if c.Image == nil {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// ok runs blocks that must all work, and returns their texts.
func ok(t testing.TB, tools *computer.Toolset, pairs ...string) []string {
	t.Helper()
	var texts []string
	for i, r := range tools.Run(t.Context(), turn(pairs...)) {
		if r.IsError {
			t.Fatalf("%s %s: %s", pairs[2*i], pairs[2*i+1], textOf(r))
		}
		texts = append(texts, textOf(r))
	}
	return texts
}

// pictureOf decodes the only image of a result.
func pictureOf(t testing.TB, r computer.ToolResult) image.Image {
	t.Helper()
	var found image.Image
	for _, c := range r.Content {
		if c.Image == nil {
			continue
		}
		if found != nil {
			t.Fatal("more than one image in a result")
		}
		var err error
		switch c.Image.MediaType {
		case "image/png":
			found, err = png.Decode(bytes.NewReader(c.Image.Data))
		case "image/jpeg":
			found, err = jpeg.Decode(bytes.NewReader(c.Image.Data))
		default:
			err = fmt.Errorf("media type %q", c.Image.MediaType)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == nil {
		t.Fatalf("no image in the result: %s", textOf(r))
	}
	return found
}

// wantNothingHeld fails when a key or a button is down.
func wantNothingHeld(t testing.TB, fake *computertest.Fake) {
	t.Helper()
	if keys, buttons := fake.Held(); len(keys)+len(buttons) > 0 {
		t.Errorf("the keys %v and the buttons %v are still down", keys, buttons)
	}
}

// A turn stops at its first failure, and every block is answered once and in order.
func TestStopsAtFirstFailure(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	uses := turn(
		"left_click", `{"coordinate":[10,20]}`,
		"left_click", `{"coordinate":[800,20]}`,
		"left_click", `{"coordinate":[30,40]}`,
		"screenshot", `{}`,
	)
	other := computer.ToolUse{ID: "shell", Name: "bash", Input: json.RawMessage(`{}`)}
	sibling := computer.ToolUse{ID: "page", Name: "screenshot", ToolsetName: "browser", Input: json.RawMessage(`{}`)}
	uses = []computer.ToolUse{other, uses[0], sibling, uses[1], uses[2], other, uses[3]}
	results := toolset(t, fake, nil).Run(t.Context(), uses)
	want := []struct {
		id, text string
		isError  bool
	}{
		{"toolu_0", "Clicked at (10, 20).", false},
		{"toolu_1", "The coordinate (800, 20) is outside the screenshot of 800x600 pixels: x goes from 0 to 799 and y from 0 to 599.", true},
		{"toolu_2", halted, true},
		{"toolu_3", halted, true},
	}
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d", len(results), len(want))
	}
	for i, w := range want {
		r := results[i]
		if r.ToolUseID != w.id || r.ToolsetName != "computer" || r.IsError != w.isError || textOf(r) != w.text || len(r.Content) != 1 {
			t.Errorf("result %d is %+v, want %+v", i, r, w)
		}
	}
	if clicks := fake.Clicks(); len(clicks) != 1 || clicks[0].Point != image.Pt(10, 20) {
		t.Errorf("the application saw %+v", clicks)
	}
}

func TestDuplicateID(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	uses := turn("type", `{"text":"a"}`, "type", `{"text":"b"}`, "type", `{"text":"c"}`)
	uses[1].ID = uses[0].ID
	results := toolset(t, fake, nil).Run(t.Context(), uses)
	if len(results) != 3 || results[0].IsError || !results[1].IsError || !results[2].IsError {
		t.Errorf("results %+v", results)
	}
	if fake.Text() != "a" {
		t.Errorf("typed %q", fake.Text())
	}
}

func TestUnknownAndDisabledMembers(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, &computer.Options{Disabled: []string{"zoom", "wait"}})
	for member, want := range map[string]string{
		"zoom": "The member zoom is switched off.", "drag": `There is no member "drag"; the members are screenshot,`,
	} {
		if r := one(t, tools, member, `{}`); !r.IsError || !strings.HasPrefix(textOf(r), want) {
			t.Errorf("%s: %q", member, textOf(r))
		}
	}
	if _, err := computer.New(fake, &computer.Options{Disabled: []string{"drag"}}); err == nil {
		t.Error("an unknown member can be switched off")
	}
	if _, err := computer.New(nil, nil); err == nil {
		t.Error("a toolset on nothing")
	}
	if _, err := computer.New(fake, &computer.Options{MaxEdge: 20}); err == nil {
		t.Error("a toolset that can show nothing")
	}
}

// Every member, as the application sees it.
func TestMembers(t *testing.T) { synctest.Test(t, testMembers) }

func testMembers(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, nil)
	shift, control := computer.KeyShift, computer.KeyControl
	click := func(x, y int, b computer.Button, count int, held ...computer.Key) computertest.Click {
		return computertest.Click{Point: image.Pt(x, y), Button: b, Count: count, Held: held}
	}
	for _, test := range []struct {
		member, input, text string
		want                []computertest.Click
	}{
		{"left_click", `{"coordinate":[0,0]}`, "Clicked at (0, 0).", []computertest.Click{click(0, 0, 1, 1)}},
		{"right_click", `{"coordinate":[799,599]}`, "Clicked at (799, 599).", []computertest.Click{click(799, 599, 3, 1)}},
		{"middle_click", `{}`, "Clicked at the pointer.", []computertest.Click{click(799, 599, 2, 1)}},
		{"left_click", `{"coordinate":[20,0],"text":"ctrl+shift"}`, "Clicked at (20, 0).", []computertest.Click{click(20, 0, 1, 1, control, shift)}},
		{"left_click", `{"coordinate":null,"text":""}`, "Clicked at the pointer.", nil},
		{"double_click", `{"coordinate":[100,50]}`, "Clicked at (100, 50).", []computertest.Click{click(100, 50, 1, 1), click(100, 50, 1, 2)}},
		{"triple_click", `{"coordinate":[200,50],"text":"shift"}`, "Clicked at (200, 50).", []computertest.Click{
			click(200, 50, 1, 1, shift), click(200, 50, 1, 2, shift), click(200, 50, 1, 3, shift)}},
	} {
		before := len(fake.Clicks())
		if got := ok(t, tools, test.member, test.input); got[0] != test.text {
			t.Errorf("%s %s: %q, want %q", test.member, test.input, got[0], test.text)
		}
		if got := fake.Clicks()[before:]; test.want != nil && fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s %s: the application saw %v, want %v", test.member, test.input, got, test.want)
		}
		wantNothingHeld(t, fake)
	}
	ok(t, tools, "mouse_move", `{"coordinate":[512,384]}`)
	if got := ok(t, tools, "cursor_position", `{}`); got[0] != "X=512, Y=384" {
		t.Errorf("the pointer is said to be at %q", got[0])
	}
	ok(t, tools,
		"scroll", `{"scroll_direction":"down","scroll_amount":3,"coordinate":[5,6]}`,
		"scroll", `{"scroll_direction":"UP","scroll_amount":1}`,
		"scroll", `{"scroll_direction":"left","scroll_amount":2,"text":"shift"}`,
		"scroll", `{"scroll_direction":"right","scroll_amount":"4"}`,
		"scroll", `{"scroll_direction":"right","scroll_amount":0,"coordinate":[7,8]}`)
	if got, want := fake.Wheel(), (map[computer.Button]int{4: 1, 5: 3, 6: 2, 7: 4}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the wheel was turned %v, want %v", got, want)
	}
	if got := ok(t, tools, "cursor_position", `{}`); got[0] != "X=7, Y=8" {
		t.Errorf("after a scroll by nothing the pointer is at %q", got[0])
	}
	texts := ok(t, tools, "type", `{"text":"né\r\nw\t漢😀"}`, "key", `{"text":"x","repeat":3}`, "key", `{"text":"Return"}`,
		"hold_key", `{"text":"y","duration":0.01}`, "wait", `{"duration":0}`)
	if want := "né\nw\t漢😀xxx\ny"; fake.Text() != want {
		t.Errorf("the text is %q, want %q", fake.Text(), want)
	}
	if got, want := fmt.Sprintf("%q", texts), `["Typed 7 characters." "Pressed x 3 times." "Pressed Return." "Held y for 10ms." "Waited for 0s."]`; got != want {
		t.Errorf("texts %s, want %s", got, want)
	}
	wantNothingHeld(t, fake)
}

// The clicks of one member are not counted together with those of another before it.
func TestClicksApart(t *testing.T) { synctest.Test(t, testClicksApart) }

func testClicksApart(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, nil)
	ok(t, tools, "left_click", `{"coordinate":[50,50]}`, "double_click", `{"coordinate":[52,50]}`, "left_click", `{}`, "triple_click", `{}`)
	ok(t, tools, "left_click_drag", `{"start_coordinate":[50,50],"coordinate":[50,50]}`)
	var counts []int
	for _, c := range fake.Clicks() {
		counts = append(counts, c.Count)
	}
	if got, want := fmt.Sprint(counts), "[1 1 2 1 1 2 3 1]"; got != want {
		t.Errorf("the application counts %s, want %s", got, want)
	}
}

// The keys of a chord go down in order and come up in reverse, in one sequence.
func TestChord(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	sends := 0
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Send" {
			sends++
		}
		return nil
	})
	ok(t, toolset(t, fake, nil), "key", `{"text":"ctrl+shift+T"}`)
	var got []string
	for _, e := range fake.Events() {
		got = append(got, fmt.Sprint(e.Kind, e.Key))
	}
	down, up := computer.KeyDown, computer.KeyUp
	want := []string{
		fmt.Sprint(down, computer.KeyControl), fmt.Sprint(down, computer.KeyShift), fmt.Sprint(down, computer.Key('t')),
		fmt.Sprint(up, computer.Key('t')), fmt.Sprint(up, computer.KeyShift), fmt.Sprint(up, computer.KeyControl),
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || sends != 1 {
		t.Errorf("%d sequences: %v, want one: %v", sends, got, want)
	}
	if fake.Text() != "" {
		t.Errorf("the chord left %q", fake.Text())
	}
}

func TestDrag(t *testing.T) { synctest.Test(t, testDrag) }

func testDrag(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, nil)
	ok(t, tools, "left_click_drag", `{"start_coordinate":[100,100],"coordinate":[400,250],"text":"alt"}`)
	drags := fake.Drags()
	if len(drags) != 1 {
		t.Fatalf("the application saw the drags %+v", drags)
	}
	d := drags[0]
	if d.From != image.Pt(100, 100) || d.To != image.Pt(400, 250) || fmt.Sprint(d.Held) != fmt.Sprint([]computer.Key{computer.KeyAlt}) {
		t.Errorf("the application saw the drag %+v", d)
	}
	last := d.From
	for i, p := range d.Path {
		step := p.Sub(last)
		if p == last || i == 0 && step.X*step.X+step.Y*step.Y > 9 || step.X > 30 {
			t.Errorf("step %d goes from %v to %v", i, last, p)
		}
		last = p
	}
	// The same by hand, in three calls of two turns.
	ok(t, tools, "mouse_move", `{"coordinate":[50,50]}`, "left_mouse_down", `{}`)
	if _, buttons := fake.Held(); len(buttons) != 1 {
		t.Errorf("after left_mouse_down the buttons %v are down", buttons)
	}
	ok(t, tools, "left_mouse_down", `{}`, "mouse_move", `{"coordinate":[50,350]}`, "left_mouse_up", `{}`)
	if drags := fake.Drags(); len(drags) != 2 || drags[1].From != image.Pt(50, 50) || drags[1].To != image.Pt(50, 350) {
		t.Errorf("the application saw the drags %+v", drags)
	}
	wantNothingHeld(t, fake)
	// Going nowhere is a click.
	ok(t, tools, "left_click_drag", `{"start_coordinate":[9,9],"coordinate":[9,9]}`)
	if clicks := fake.Clicks(); len(clicks) != 1 {
		t.Errorf("the application saw the clicks %+v", clicks)
	}
}

// A button stays held as long as nothing fails, and the model hears when it was released.
func TestHeldButton(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, nil)
	ok(t, tools, "left_mouse_down", `{}`)
	ok(t, tools, "wait", `{"duration":0}`)
	if _, buttons := fake.Held(); len(buttons) != 1 {
		t.Error("the button is no longer held in the next turn")
	}
	r := one(t, tools, "left_click", `{}`)
	if !r.IsError || !strings.Contains(textOf(r), "held down by left_mouse_down") || !strings.HasSuffix(textOf(r), "The left button, which was held, has been released.") {
		t.Errorf("a click with a held button: %q", textOf(r))
	}
	wantNothingHeld(t, fake)
	ok(t, tools, "left_mouse_down", `{}`)
	if err := tools.Close(); err != nil {
		t.Error(err)
	}
	wantNothingHeld(t, fake)
}

// Whatever ends a block early leaves nothing held, and tells the model a fixed phrase.
func TestFaults(t *testing.T) {
	secret := errors.New("cannot open /home/someone/.Xauthority")
	for _, test := range []struct {
		name  string
		fault func(ctx context.Context, cancel func()) error
		want  string
	}{
		{"error", func(context.Context, func()) error { return secret }, "The action failed: the display did not carry it out."},
		{"input", func(context.Context, func()) error {
			return fmt.Errorf("wrapped: %w", &computer.InputError{Text: "there is no key \u202eX"})
		}, `There is no key \u{202e}X.`},
		{"closed", func(context.Context, func()) error { return fmt.Errorf("%w: %w", computer.ErrClosed, secret) }, "The display cannot be reached any more."},
		{"panic", func(context.Context, func()) error { panic(secret) }, "The action failed: there is a fault in the display's driver."},
		{"timeout", func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }, "The action took too long and was stopped."},
		{"own timeout", func(ctx context.Context, _ func()) error { <-ctx.Done(); return errors.New("context canceled") }, "The action took too long and was stopped."},
		{"cancel", func(ctx context.Context, cancel func()) error { cancel(); <-ctx.Done(); return ctx.Err() }, "The action was stopped before it was done."},
	} {
		for _, block := range [][2]string{
			{"left_click", `{"coordinate":[5,5],"text":"shift"}`}, {"double_click", `{"text":"shift"}`},
			{"left_click_drag", `{"start_coordinate":[5,5],"coordinate":[90,90],"text":"ctrl"}`},
			{"hold_key", `{"text":"ctrl+a","duration":0.001}`}, {"key", `{"text":"a","repeat":5}`},
			{"scroll", `{"scroll_direction":"up","scroll_amount":3,"text":"alt"}`},
		} {
			for after := range 2 {
				t.Run(fmt.Sprint(test.name, " ", block[0], " ", after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						fake := computertest.NewFake(800, 600)
						n := 0
						fake.Intercept(func(ctx context.Context, method string) error {
							if method != "Send" {
								return nil
							}
							if n++; n == 1+1+after { // the first is left_mouse_down
								return test.fault(ctx, cancel)
							}
							return nil
						})
						// Some members are one sequence alone; a second block then meets the fault.
						uses := turn("left_mouse_down", `{}`, "left_mouse_up", `{}`)[:1]
						uses = append(uses, turn("wait", `{"duration":0}`, block[0], block[1], "key", `{"text":"b"}`, "key", `{"text":"c"}`)[1:]...)
						if strings.Contains(block[0], "click") {
							uses[0] = turn("mouse_move", `{"coordinate":[400,300]}`)[0]
						}
						results := toolset(t, fake, &computer.Options{BlockTime: 100 * time.Millisecond}).Run(ctx, uses)
						failed := 0
						for _, r := range results {
							if r.IsError && textOf(r) != halted {
								failed++
								if got := strings.TrimSuffix(textOf(r), " The left button, which was held, has been released."); got != test.want {
									t.Errorf("the model is told %q, want %q", got, test.want)
								}
							}
						}
						if failed != 1 || len(results) != len(uses) {
							t.Errorf("%d failures in %+v", failed, results)
						}
						wantNothingHeld(t, fake)
					})
				})
			}
		}
	}
}

// A turn whose context has ended does nothing, and says so.
func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fake := computertest.NewFake(800, 600)
	results := toolset(t, fake, nil).Run(ctx, turn("left_click", `{}`, "wait", `{"duration":300}`))
	if len(results) != 2 || textOf(results[0]) != "The action was stopped before it was done." || textOf(results[1]) != halted {
		t.Errorf("results %+v", results)
	}
	if len(fake.Events()) > 0 {
		t.Errorf("events %v", fake.Events())
	}
}

// wait and hold_key end with the context, long before they would by themselves.
func TestCancelledDuring(t *testing.T) { synctest.Test(t, testCancelledDuring) }

func testCancelledDuring(t *testing.T) {
	for _, block := range [][2]string{{"wait", `{"duration":300}`}, {"hold_key", `{"text":"a","duration":300}`}} {
		ctx, cancel := context.WithCancel(t.Context())
		fake := computertest.NewFake(800, 600)
		approved := func(context.Context, computer.Action) computer.Decision {
			time.AfterFunc(5*time.Millisecond, cancel)
			return computer.Decision{Approved: true}
		}
		r := toolset(t, fake, &computer.Options{Confirm: approved}).Run(ctx, turn(block[0], block[1]))
		if len(r) != 1 || textOf(r[0]) != "The action was stopped before it was done." {
			t.Errorf("%s: %+v", block[0], r)
		}
		wantNothingHeld(t, fake)
		cancel()
	}
}

// A release that fails is made up for before anything else is done.
func TestFailedRelease(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, nil)
	ok(t, tools, "left_mouse_down", `{}`)
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Release" {
			return errors.New("not now")
		}
		return nil
	})
	if r := one(t, tools, "wait", `{"duration":301}`); !r.IsError {
		t.Error("a wait of 301 seconds")
	}
	if r := one(t, tools, "wait", `{"duration":0}`); !r.IsError {
		t.Error("the next turn goes on with a button that should have been released")
	}
	fake.Intercept(nil)
	ok(t, tools, "wait", `{"duration":0}`)
	wantNothingHeld(t, fake)
}

// An error of a text says how much of it was typed.
func TestTypeFails(t *testing.T) {
	desktop := untypable{computertest.NewFake(800, 600)}
	r := one(t, toolset(t, desktop, nil), "type", `{"text":"ab§cd"}`)
	if want := "The character U+00A7 cannot be typed. Of 5 characters 2 were typed."; !r.IsError || textOf(r) != want {
		t.Errorf("%q, want %q", textOf(r), want)
	}
	fake := computertest.NewFake(800, 600)
	fake.Intercept(func(ctx context.Context, method string) error {
		if method == "Type" {
			<-ctx.Done()
			return &computer.InputError{Text: "it takes all day; typed 0 of 1 characters"}
		}
		return nil
	})
	r = one(t, toolset(t, fake, &computer.Options{BlockTime: time.Millisecond}), "type", `{"text":"a"}`)
	if want := "It takes all day; typed 0 of 1 characters."; textOf(r) != want {
		t.Errorf("%q, want %q", textOf(r), want)
	}
	// However long it is, a block's own time comes on top.
	fake.Intercept(nil)
	if r := one(t, toolset(t, fake, &computer.Options{BlockTime: math.MaxInt64}), "type", `{"text":"a"}`); r.IsError {
		t.Errorf("%q", textOf(r))
	}
}

// A text that is too long is refused at once, and nothing of it is typed.
func TestTypeTooLong(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	r := one(t, toolset(t, fake, nil), "type", `{"text":"`+strings.Repeat("a", 1<<20)+`"}`)
	if want := "The text has 1048576 characters, and one call types at most 100000; type it in parts."; textOf(r) != want || fake.Text() != "" {
		t.Errorf("%.200q, want %q", textOf(r), want)
	}
}

// The log has what the model is not told, and nothing of what was typed.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	fake := computertest.NewFake(800, 600)
	fake.Intercept(func(_ context.Context, method string) error {
		switch method {
		case "Type":
			return errors.New("the socket is gone")
		case "Release":
			panic("no release")
		}
		return nil
	})
	tools := toolset(t, fake, &computer.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	r := one(t, tools, "type", `{"text":"hunter2"}`)
	if strings.Contains(textOf(r), "socket") || !strings.Contains(log.String(), "the socket is gone") || !strings.Contains(log.String(), "no release") ||
		strings.Contains(log.String(), "hunter2") {
		t.Errorf("the model is told %q and the log\n%s", textOf(r), log.String())
	}
}

// untypable is a desktop whose keyboard lacks a character.
type untypable struct{ *computertest.Fake }

func (u untypable) Type(ctx context.Context, text string) (int, error) {
	before, _, cut := strings.Cut(text, "§")
	n, err := u.Fake.Type(ctx, before)
	if err == nil && cut {
		err = &computer.InputError{Text: "the character U+00A7 cannot be typed"}
	}
	return n, err
}

// On a display that is scaled down, the middle of each pixel that a model can name is hit
// exactly, corners included.
func TestPoints(t *testing.T) {
	for _, limits := range []vision.Limits{vision.Standard, vision.HighResolution} {
		fake := computertest.NewFake(2560, 1600)
		tools := toolset(t, fake, &computer.Options{Limits: limits})
		view := pictureOf(t, one(t, tools, "screenshot", `{}`)).Bounds().Size()
		frame := vision.Frame{Original: image.Pt(2560, 1600), View: view}
		if w, h := limits.CapEdge(2000).Fit(2560, 1600); view != image.Pt(w, h) {
			t.Fatalf("the screenshot has %v pixels, want %dx%d", view, w, h)
		}
		for _, corner := range []image.Point{{0, 0}, {view.X - 1, 0}, {0, view.Y - 1}, {view.X - 1, view.Y - 1}, {view.X / 3, view.Y / 7}} {
			texts := ok(t, tools, "left_click", fmt.Sprintf(`{"coordinate":[%d,%d]}`, corner.X, corner.Y), "cursor_position", `{}`)
			if want := fmt.Sprintf("X=%d, Y=%d", corner.X, corner.Y); texts[1] != want {
				t.Errorf("the pointer is said to be at %q, want %q", texts[1], want)
			}
			clicks := fake.Clicks()
			got := clicks[len(clicks)-1].Point
			if got != frame.ToOriginal(corner) {
				t.Errorf("%v of the screenshot was clicked at %v, want %v", corner, got, frame.ToOriginal(corner))
			}
		}
		for _, outside := range []string{"[-1,0]", "[0,-1]", fmt.Sprintf("[%d,0]", view.X), fmt.Sprintf("[0,%d]", view.Y), "[1e12,0]"} {
			r := one(t, tools, "mouse_move", `{"coordinate":`+outside+`}`)
			if want := fmt.Sprintf("outside the screenshot of %dx%d pixels: x goes from 0 to %d and y from 0 to %d.", view.X, view.Y, view.X-1, view.Y-1); !r.IsError || !strings.HasSuffix(textOf(r), want) {
				t.Errorf("%s: %q", outside, textOf(r))
			}
		}
	}
}

// A change of the display's size is noticed at the first place that is named after it.
func TestSizeChange(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, nil)
	ok(t, tools, "left_click", `{"coordinate":[799,599]}`) // before any screenshot: the size as it is
	fake.Resize(1000, 700)
	ok(t, tools, "left_click", `{"coordinate":[999,699]}`, "screenshot", `{}`)
	fake.Resize(640, 480)
	const stale = "The display has changed its size since the last screenshot that you saw. Take a new screenshot, and choose the place from it in your next turn."
	for _, block := range [][2]string{
		{"left_click", `{"coordinate":[5,5]}`}, {"mouse_move", `{"coordinate":[5,5]}`}, {"cursor_position", `{}`}, {"zoom", `{"region":[0,0,9,9]}`},
		{"scroll", `{"coordinate":[5,5],"scroll_direction":"up","scroll_amount":1}`}, {"left_click_drag", `{"start_coordinate":[5,5],"coordinate":[6,6]}`},
	} {
		if r := one(t, tools, block[0], block[1]); !r.IsError || textOf(r) != stale {
			t.Errorf("%s after a change of size: %q", block[0], textOf(r))
		}
	}
	ok(t, tools, "type", `{"text":"no place in it"}`, "left_click", `{}`)
	results := tools.Run(t.Context(), turn("screenshot", `{}`, "left_click", `{"coordinate":[5,5]}`, "wait", `{"duration":0}`))
	if results[0].IsError || !results[1].IsError || textOf(results[1]) != stale || textOf(results[2]) != halted {
		t.Errorf("a place that was chosen before the new screenshot was seen: %+v", results[1:])
	}
	ok(t, tools, "left_click", `{"coordinate":[639,479]}`)
}

// A size that changes while somebody is asked is noticed as well.
func TestSizeChangeDuringConfirmation(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, &computer.Options{Confirm: func(_ context.Context, a computer.Action) computer.Decision {
		if a.Member == "left_click" {
			fake.Resize(400, 300)
		}
		return computer.Decision{Approved: true}
	}})
	if r := one(t, tools, "left_click", `{"coordinate":[700,500]}`); !r.IsError || len(fake.Events()) > 0 {
		t.Errorf("%+v, events %v", r, fake.Events())
	}
}

func TestScreenshot(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	red := color.RGBA{200, 10, 20, 255}
	fake.Paint(func(screen *image.RGBA) { screen.SetRGBA(799, 599, red) })
	settled := 0
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Settle" {
			settled++
		}
		return nil
	})
	r := one(t, toolset(t, fake, nil), "screenshot", `{}`)
	m := pictureOf(t, r)
	if m.Bounds() != image.Rect(0, 0, 800, 600) || m.At(799, 599) != color.Color(red) || len(r.Content) != 1 {
		t.Errorf("a screenshot of %v with %v at the corner, %d blocks", m.Bounds(), m.At(799, 599), len(r.Content))
	}
	if m.At(401, 304) != (color.Color(color.RGBA{0, 0, 0, 255})) {
		t.Error("the pointer is not drawn in")
	}
	if settled != 1 {
		t.Errorf("the screen was left to settle %d times", settled)
	}
}
