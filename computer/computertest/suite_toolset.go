package computertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // a zoom may come as JPEG
	_ "image/png"  // as a screenshot does
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/computer"
)

// testToolset tests each member of the toolset by what the application sees of it.
func (s *suite) testToolset(t *testing.T) {
	tests := []namedTest{
		{"screenshot", testScreenshot},
		{"zoom", testZoom},
		{"clicks", testClicks},
		{"click at the pointer", testClickAtPointer},
		{"click twice at one point", testClickTwice},
		{"modifiers", testModifiers},
		{"left_click_drag", testDrag},
		{"button held across calls", testHeldButton},
		{"mouse_move and cursor_position", testCursorPosition},
		{"scroll", testScroll},
		{"type", testType},
		{"type line ends and tabs", testTypeLines},
		{"key", testKey},
		{"chords", testChords},
		{"hold_key", testHoldKey},
		{"hold_key that is cancelled", testHoldKeyCancelled},
		{"wait that is cancelled", testWaitCancelled},
		{"failure amid a turn", testFailure},
		{"out of bounds", testOutOfBounds},
		{"exact targets", testTargets},
	}
	tests = append(tests, when(s.resizes, namedTest{"size change", testResize})...)
	s.run(t, tests)
}

// hands is a toolset on the subject, with what is needed to ask it.
type hands struct {
	*test
	tools *computer.Toolset
	view  image.Point // size of its screenshots
}

// hands returns the suite's toolset, which has taken a screenshot.
func (t *test) hands() *hands {
	t.Helper()
	if t.s.shared == nil {
		t.s.shared = t.newHands()
	}
	h := *t.s.shared
	h.test = t
	return &h
}

// newHands returns a toolset that has taken a screenshot, which takes a while.
func (t *test) newHands() *hands {
	t.Helper()
	tools, err := computer.New(t.d, &computer.Options{Confirm: computer.ApproveAll})
	if err != nil {
		t.Fatal(err)
	}
	h := &hands{test: t, tools: tools}
	h.view = h.image(call{"screenshot", nil}).Bounds().Size()
	return h
}

// call is one block of a turn.
type call struct {
	member string
	input  map[string]any
}

// turn runs one assistant turn and returns the results, having looked at their form.
func (h *hands) turn(ctx context.Context, calls ...call) []computer.ToolResult {
	h.Helper()
	turn := make([]computer.ToolUse, len(calls))
	for i, c := range calls {
		input, err := json.Marshal(c.input)
		if err != nil {
			h.Error(err)
		}
		if c.input == nil {
			input = []byte("{}")
		}
		turn[i] = computer.ToolUse{ID: fmt.Sprintf("call_%d", i), Name: c.member, ToolsetName: computer.ToolsetName, Input: input}
	}
	results := h.tools.Run(ctx, turn)
	if len(results) != len(turn) {
		h.Errorf("%d blocks got %d results", len(turn), len(results))
		return make([]computer.ToolResult, len(turn)) // it may not be the test's goroutine
	}
	for i, r := range results {
		if r.ToolUseID != turn[i].ID || r.ToolsetName != computer.ToolsetName || len(r.Content) == 0 {
			h.Errorf("the answer to block %q of %q is one to %q of %q with %d parts", turn[i].ID, computer.ToolsetName, r.ToolUseID, r.ToolsetName, len(r.Content))
		}
		for _, c := range r.Content {
			if r.IsError && c.Image != nil {
				h.Errorf("the error result of %s has an image", turn[i].Name)
			}
		}
	}
	return results
}

// do runs a turn that must succeed, and returns the text of its last result.
func (h *hands) do(calls ...call) string {
	h.Helper()
	results := h.turn(h.Context(), calls...)
	for i, r := range results {
		if r.IsError {
			h.Fatalf("%s %v failed: %s", calls[i].member, calls[i].input, text(r))
		}
	}
	return text(results[len(results)-1])
}

// image runs one block and returns the image of its result.
func (h *hands) image(c call) image.Image {
	h.Helper()
	results := h.turn(h.Context(), c)
	for _, content := range results[0].Content {
		if content.Image == nil {
			continue
		}
		m, format, err := image.Decode(bytes.NewReader(content.Image.Data))
		if err != nil {
			h.Fatalf("the image of %s: %v", c.member, err)
		}
		if "image/"+format != content.Image.MediaType {
			h.Errorf("the image of %s is a %s and is called %s", c.member, format, content.Image.MediaType)
		}
		return m
	}
	h.Fatalf("%s %v has no image: %s", c.member, c.input, text(results[0]))
	return nil
}

func text(r computer.ToolResult) string {
	var parts []string
	for _, c := range r.Content {
		if c.Image == nil {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// onDisplay is the display pixel at the centre of a view pixel.
func (h *hands) onDisplay(v image.Point) image.Point {
	display := h.size()
	scale := func(v, view, display int) int {
		return int(math.Floor((float64(v) + 0.5) * float64(display) / float64(view)))
	}
	return image.Pt(scale(v.X, h.view.X, display.X), scale(v.Y, h.view.Y, display.Y))
}

// inView is the view pixel that a display pixel is in.
func (h *hands) inView(p image.Point) image.Point {
	display := h.size()
	return image.Pt(p.X*h.view.X/display.X, p.Y*h.view.Y/display.Y)
}

// place returns a view pixel within the application's area, some pixels in, and the
// display pixel that it stands for.
func (h *hands) place(dx, dy int) (view, display image.Point) {
	h.Helper()
	view = h.inView(h.s.Area(h).Min.Add(image.Pt(dx, dy)))
	return view, h.onDisplay(view)
}

func coordinate(p image.Point) [2]int { return [2]int{p.X, p.Y} }

func at(p image.Point, more ...any) map[string]any {
	input := map[string]any{"coordinate": coordinate(p)}
	for i := 0; i < len(more); i += 2 {
		input[more[i].(string)] = more[i+1]
	}
	return input
}

func testScreenshot(t *test) {
	h := t.hands()
	display := h.size()
	const patch, edge, tokens = 28, 1568, 1568 // of the standard tier
	across, down := (h.view.X+patch-1)/patch, (h.view.Y+patch-1)/patch
	if across*patch > edge || down*patch > edge || across*down > tokens {
		t.Errorf("a screenshot of %v is over the budget of the model", h.view)
	}
	if h.view.X > display.X || h.view.Y > display.Y {
		t.Errorf("a screenshot of %v is larger than the display, %v", h.view, display)
	}
	if got, want := float64(h.view.X)*float64(display.Y), float64(h.view.Y)*float64(display.X); math.Abs(got-want) > float64(max(display.X, display.Y)) {
		t.Errorf("a screenshot of %v has another shape than the display, %v", h.view, display)
	}
	painter, paints := t.s.Subject.(Painter)
	if !paints {
		return // Run has logged that pixels are not checked
	}
	// Nine fields of different colours: the middle of each is the same at any scale.
	area := t.s.Area(t)
	m := image.NewRGBA(area)
	colour := func(i, j int) [3]uint8 {
		return [3]uint8{uint8(40 + 100*i), uint8(40 + 100*j), uint8(250 - 60*i - 50*j)}
	}
	for i := range 3 {
		for j := range 3 {
			c := colour(i, j)
			field := image.Rect(area.Dx()*i/3, area.Dy()*j/3, area.Dx()*(i+1)/3, area.Dy()*(j+1)/3).Add(area.Min)
			draw.Draw(m, field, image.NewUniform(color.RGBA{c[0], c[1], c[2], 255}), image.Point{}, draw.Src)
		}
	}
	painter.Paint(t, m)
	t.send(move(area.Min)) // out of the way
	shot := h.image(call{"screenshot", nil})
	if shot.Bounds() != (image.Rectangle{Max: h.view}) {
		t.Fatalf("the size of screenshots went from %v to %v", h.view, shot.Bounds())
	}
	for i := range 3 {
		for j := range 3 {
			p := h.inView(area.Min.Add(image.Pt(area.Dx()*(2*i+1)/6, area.Dy()*(2*j+1)/6)))
			r, g, b, a := shot.At(p.X, p.Y).RGBA()
			if got := [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}; got != colour(i, j) || a != 0xffff {
				t.Errorf("pixel %v of the screenshot is %v, want %v", p, got, colour(i, j))
			}
		}
	}
}

// testZoom looks at a board of single black and white pixels: seen through a screenshot
// that is smaller than the display it is grey.
func testZoom(t *test) {
	h := t.hands()
	area := t.s.Area(t)
	painter, paints := t.s.Subject.(Painter)
	if paints {
		painter.Paint(t, checkerboard(area))
	}
	t.send(move(area.Min)) // out of the way
	middle := h.inView(area.Min.Add(area.Max).Div(2))
	region := image.Rect(middle.X-8, middle.Y-6, middle.X+9, middle.Y+7)
	m := h.image(call{"zoom", map[string]any{"region": [4]int{region.Min.X, region.Min.Y, region.Max.X, region.Max.Y}}})
	display := h.size()
	edge := func(v, view, display int) int {
		return int(math.RoundToEven(float64(v) * float64(display) / float64(view)))
	}
	source := image.Rect(edge(region.Min.X, h.view.X, display.X), edge(region.Min.Y, h.view.Y, display.Y),
		edge(region.Max.X, h.view.X, display.X), edge(region.Max.Y, h.view.Y, display.Y))
	size := m.Bounds().Size()
	if size.X < 10*source.Dx() {
		t.Errorf("a zoom into %v, %v of the display, is no larger than %v", region, source, size)
	}
	if !paints {
		return // Run has logged that pixels are not checked
	}
	wrong := 0
	for y := source.Min.Y; y < source.Max.Y; y++ {
		for x := source.Min.X; x < source.Max.X; x++ {
			px := (2*(x-source.Min.X) + 1) * size.X / (2 * source.Dx())
			py := (2*(y-source.Min.Y) + 1) * size.Y / (2 * source.Dy())
			r, _, _, _ := m.At(px, py).RGBA()
			if white := (x+y)%2 == 0; white && r < 0xc000 || !white && r > 0x4000 {
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of the %d pixels in %v of the display cannot be told in the zoom, %v", wrong, source.Dx()*source.Dy(), source, size)
	}
}

// wantButtons says what the application must have seen of the pointer's buttons.
func (h *hands) wantButtons(what string, want ...Seen) {
	h.Helper()
	if got := buttons(h.seen()); !reflect.DeepEqual(got, want) {
		h.Errorf("%s: the application saw\n%v, want\n%v", what, got, want)
	}
}

// click is what an application sees of a click, or of several at once.
func click(button computer.Button, p image.Point, times int, modifiers string) []Seen {
	var all []Seen
	for i := range times {
		all = append(all,
			Seen{Kind: Press, Button: button, Count: i + 1, Point: p, Modifiers: modifiers},
			Seen{Kind: Release, Button: button, Point: p, Modifiers: modifiers})
	}
	return all
}

func testClicks(t *test) {
	h := t.hands()
	for i, one := range []struct {
		member string
		button computer.Button
		times  int
	}{
		{"left_click", computer.LeftButton, 1},
		{"right_click", computer.RightButton, 1},
		{"middle_click", computer.MiddleButton, 1},
		{"double_click", computer.LeftButton, 2},
		{"triple_click", computer.LeftButton, 3},
	} {
		t.s.Reset(t)
		view, p := h.place(15+30*i, 20+5*i)
		h.do(call{one.member, at(view)})
		h.wantButtons(one.member, click(one.button, p, one.times, "")...)
	}
}

func testClickAtPointer(t *test) {
	h := t.hands()
	for i, member := range []string{"left_click", "right_click", "double_click"} {
		t.s.Reset(t)
		view, p := h.place(40+35*i, 33)
		h.do(call{"mouse_move", at(view)}, call{member, nil})
		button, times := computer.LeftButton, 1
		switch member {
		case "right_click":
			button = computer.RightButton
		case "double_click":
			times = 2
		}
		h.wantButtons(member, click(button, p, times, "")...)
	}
}

func testClickTwice(t *test) {
	h := t.hands()
	view, p := h.place(70, 35)
	h.do(call{"left_click", at(view)}, call{"left_click", at(view)})
	got := buttons(h.seen())
	for i := range got {
		got[i].Count = 0 // one double click or two single ones, as fast as they came
	}
	one := click(computer.LeftButton, p, 1, "")
	one[0].Count = 0
	if want := append(append([]Seen(nil), one...), one...); !reflect.DeepEqual(got, want) {
		t.Errorf("the application saw\n%v, want\n%v", got, want)
	}
}

func testModifiers(t *test) {
	h := t.hands()
	reserver, _ := t.s.Subject.(Reserver)
	for i, modifiers := range []string{"shift", "ctrl", "alt", "super", "shift+ctrl", "ctrl+alt"} {
		reserved := false
		for _, name := range strings.Split(modifiers, "+") {
			reserved = reserved || reserver != nil && reserver.Reserved(name)
		}
		if reserved {
			continue
		}
		t.s.Reset(t)
		view, p := h.place(15+25*i, 25)
		h.do(call{"left_click", at(view, "text", modifiers)})
		t.wantNothingHeld()
		h.wantButtons(modifiers, click(computer.LeftButton, p, 1, modifiers)...)

		t.s.Reset(t)
		h.do(call{"scroll", at(view, "scroll_direction", "down", "scroll_amount", 1, "text", modifiers)})
		h.wantButtons("scroll with "+modifiers, Seen{Kind: Press, Button: computer.WheelDown, Count: 1, Point: p, Modifiers: modifiers})
	}
	if got := t.s.Text(t); got != "" {
		t.Errorf("the modifiers of clicks left the text %q", got)
	}
}

func testDrag(t *test) {
	h := t.hands()
	from, start := h.place(20, 30)
	to, end := h.place(170, 60)
	h.do(call{"left_click_drag", map[string]any{"start_coordinate": coordinate(from), "coordinate": coordinate(to)}})
	t.wantNothingHeld()
	all := h.seen()
	want := []Seen{{Kind: Press, Button: computer.LeftButton, Count: 1, Point: start}, {Kind: Release, Button: computer.LeftButton, Point: end}}
	if got := buttons(all); !reflect.DeepEqual(got, want) {
		t.Fatalf("the application saw\n%v, want\n%v", got, want)
	}
	// An application takes it for a drag when the pointer travels while the button is down.
	down, steps, last := false, 0, start
	for _, e := range all {
		switch {
		case e.Kind == Press:
			down = true
		case e.Kind == Release:
			down = false
		case down && e.Kind == Motion && e.Point != last:
			// It may move a little about the end, where some applications need that.
			if !e.Point.In(image.Rectangle{start, end.Add(image.Pt(1, 1))}.Inset(-2)) {
				t.Errorf("the drag from %v to %v went to %v", start, end, e.Point)
			}
			steps++
			last = e.Point
		}
	}
	if steps < 3 || last != end {
		t.Errorf("the application saw the drag go to %v in %d steps, want %v in some", last, steps, end)
	}

	t.s.Reset(t)
	h.do(call{"left_click_drag", map[string]any{"start_coordinate": coordinate(to), "coordinate": coordinate(from), "text": "shift"}})
	want = []Seen{{Kind: Press, Button: computer.LeftButton, Count: 1, Point: end, Modifiers: "shift"}, {Kind: Release, Button: computer.LeftButton, Point: start, Modifiers: "shift"}}
	h.wantButtons("a drag back with shift", want...)
}

func testHeldButton(t *test) {
	h := t.hands()
	from, start := h.place(30, 30)
	over, _ := h.place(90, 40)
	to, end := h.place(150, 60)
	h.do(call{"mouse_move", at(from)}, call{"left_mouse_down", nil})
	for _, view := range []image.Point{over, to} {
		h.do(call{"mouse_move", at(view)})
		if _, buttons := t.s.Held(t); !reflect.DeepEqual(buttons, []computer.Button{computer.LeftButton}) {
			t.Errorf("after moving to %v the buttons %v are down, want the left one", view, buttons)
		}
	}
	h.do(call{"screenshot", nil}, call{"left_mouse_up", nil})
	t.wantNothingHeld()
	h.wantButtons("a drag in several turns", Seen{Kind: Press, Button: computer.LeftButton, Count: 1, Point: start},
		Seen{Kind: Release, Button: computer.LeftButton, Point: end})
}

func testCursorPosition(t *test) {
	h := t.hands()
	view := image.Rectangle{Max: h.view}
	for _, p := range append(corners(view), randomPoints(view, 20)...) {
		got := h.do(call{"mouse_move", at(p)}, call{"cursor_position", nil})
		if want := fmt.Sprintf("X=%d, Y=%d", p.X, p.Y); got != want {
			t.Errorf("after moving to %v the position is %q, want %q", p, got, want)
		}
	}
}

func testScroll(t *test) {
	h := t.hands()
	for i, one := range []struct {
		direction string
		button    computer.Button
	}{{"up", computer.WheelUp}, {"down", computer.WheelDown}, {"left", computer.WheelLeft}, {"right", computer.WheelRight}} {
		t.s.Reset(t)
		view, p := h.place(40+25*i, 35)
		h.do(call{"scroll", at(view, "scroll_direction", one.direction, "scroll_amount", i+2)})
		all := buttons(h.seen())
		for _, e := range all {
			if e.Button != one.button || e.Point != p {
				t.Errorf("scrolling %s at %v: the application saw %v", one.direction, p, e)
			}
		}
		if len(all) != i+2 {
			t.Errorf("scrolling %s by %d: the application saw %d wheel clicks", one.direction, i+2, len(all))
		}
	}
}

func testType(t *test) {
	h := t.hands()
	text := mixedText(1000)
	h.do(call{"type", map[string]any{"text": text}})
	t.wantText(text)
}

func testTypeLines(t *test) {
	h := t.hands()
	const text = "one\ntwo\n\n\tthree\t\tfour\n"
	h.do(call{"type", map[string]any{"text": text}})
	t.wantText(text)
}

func testKey(t *test) {
	h := t.hands()
	for name, want := range map[string]computer.Key{
		"Return": computer.KeyReturn, "enter": computer.KeyReturn, "ESC": computer.KeyEscape, "Tab": computer.KeyTab,
		"Page_Down": 0xff56, "pgup": 0xff55, "F5": 0xffc2, "Home": 0xff50, "Left": 0xff51, "space": ' ',
		"a": 'a', "A": 'A', "@": '@', "<": '<', "plus": '+', "minus": '-', "Delete": computer.KeyDelete,
	} {
		t.s.Reset(t)
		h.do(call{"key", map[string]any{"text": name}})
		t.wantNothingHeld()
		if got := keysPressed(h.seen()); len(got) != 1 || got[0].Key != want {
			t.Errorf("key %q: the application saw the keys %v, want %v", name, got, want)
		}
	}
	t.s.Reset(t)
	h.do(call{"key", map[string]any{"text": "b", "repeat": 7}})
	t.wantText("bbbbbbb")
}

func testChords(t *test) {
	h := t.hands()
	for chord, want := range map[string]Seen{
		"ctrl+s":       {Kind: KeyPress, Key: 's', Modifiers: "ctrl"},
		"Control+l":    {Kind: KeyPress, Key: 'l', Modifiers: "ctrl"},
		"ctrl+shift+F": {Kind: KeyPress, Key: 'F', Modifiers: "shift+ctrl"},
		"shift+F5":     {Kind: KeyPress, Key: 0xffc2, Modifiers: "shift"},
	} {
		t.s.Reset(t)
		h.do(call{"key", map[string]any{"text": chord}})
		t.wantNothingHeld()
		if got := keysPressed(h.seen()); !reflect.DeepEqual(got, []Seen{want}) {
			t.Errorf("key %q: the application saw %v, want %v", chord, got, want)
		}
		t.wantText("")
	}
}

func testHoldKey(t *test) {
	h := t.hands()
	h.do(call{"hold_key", map[string]any{"text": "F6", "duration": 0.2}})
	t.wantNothingHeld()
	var kinds []SeenKind
	for _, e := range only(h.seen(), KeyPress, KeyRelease) {
		// The desktop may repeat a key that is held.
		if len(kinds) == 0 || kinds[len(kinds)-1] != e.Kind {
			kinds = append(kinds, e.Kind)
		}
	}
	if len(kinds) < 2 || kinds[0] != KeyPress || kinds[len(kinds)-1] != KeyRelease {
		t.Errorf("the application saw %v of a key that was held", kinds)
	}
}

// testHoldKeyCancelled ends a turn while a key is held and a button too.
func testHoldKeyCancelled(t *test) {
	h := t.hands()
	view, _ := h.place(50, 40)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan []computer.ToolResult, 1)
	turn := []call{{"mouse_move", at(view)}, {"left_mouse_down", nil}, {"hold_key", map[string]any{"text": "ctrl+F6", "duration": 250}}, {"left_click", at(view)}}
	go func() { results <- h.turn(ctx, turn...) }()
	t.eventually("the application sees the key", func() bool { return len(keysPressed(t.s.Seen(t))) > 0 })
	if keys, buttons := t.s.Held(t); keys != 2 || len(buttons) != 1 {
		t.Errorf("%d keys and the buttons %v are down, want 2 and the left one", keys, buttons)
	}
	cancel()
	got := <-results
	for i, wantError := range []bool{false, false, true, true} {
		if got[i].IsError != wantError {
			t.Errorf("%s of a turn that was cancelled: %q, an error: %v", turn[i].member, text(got[i]), got[i].IsError)
		}
	}
	t.wantNothingHeld()
	if presses := only(h.seen(), Press); len(presses) != 1 {
		t.Errorf("the application saw %v, want one press", presses)
	}
}

func testWaitCancelled(t *test) {
	h := t.hands()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan []computer.ToolResult, 1)
	go func() {
		results <- h.turn(ctx, call{"key", map[string]any{"text": "F7"}}, call{"wait", map[string]any{"duration": 250}})
	}()
	t.eventually("the application sees the key", func() bool { return len(keysPressed(t.s.Seen(t))) > 0 })
	cancel()
	if got := (<-results)[1]; !got.IsError {
		t.Errorf("a wait that was cancelled is no error: %q", text(got))
	}
}

func testFailure(t *test) {
	h := t.hands()
	view, p := h.place(60, 30)
	turn := []call{
		{"mouse_move", at(view)},
		{"left_mouse_down", nil},
		{"key", map[string]any{"text": "NoSuchKey"}},
		{"left_click", at(view)},
		{"type", map[string]any{"text": "stray"}},
		{"screenshot", nil},
	}
	results := h.turn(t.Context(), turn...)
	for i, r := range results {
		if failed := i >= 2; r.IsError != failed {
			t.Errorf("%s is an error: %v, want %v: %s", turn[i].member, r.IsError, failed, text(r))
		}
		const halted = "Not executed: an earlier computer action in this turn failed."
		if i > 2 && text(r) != halted {
			t.Errorf("%s after the failure says %q, want %q", turn[i].member, text(r), halted)
		}
	}
	if got := text(results[2]); !strings.Contains(got, "NoSuchKey") {
		t.Errorf("an unknown key is answered with %q, which does not name it", got)
	}
	t.wantNothingHeld()
	h.wantButtons("a turn that failed", click(computer.LeftButton, p, 1, "")...)
	t.wantText("")
}

func testOutOfBounds(t *test) {
	h := t.hands()
	right, bottom := h.view.X, h.view.Y
	for _, p := range []image.Point{{right, 0}, {0, bottom}, {-1, 5}, {5, -1}, {right + 1000, 5}, {math.MaxInt32, math.MaxInt32}} {
		for _, c := range []call{
			{"left_click", at(p)},
			{"mouse_move", at(p)},
			{"scroll", at(p, "scroll_direction", "down", "scroll_amount", 1)},
			{"left_click_drag", at(p, "start_coordinate", [2]int{5, 5})},
			{"left_click_drag", map[string]any{"start_coordinate": coordinate(p), "coordinate": [2]int{5, 5}}},
		} {
			r := h.turn(t.Context(), c)[0]
			if got := text(r); !r.IsError || !strings.Contains(got, fmt.Sprint(right)) || !strings.Contains(got, fmt.Sprint(bottom)) {
				t.Errorf("%s %v on a screenshot of %v: %q, an error: %v; want an error that names the bounds", c.member, c.input, h.view, got, r.IsError)
			}
		}
	}
	if all := only(h.seen(), Press); len(all) > 0 {
		t.Errorf("the application saw %v", all)
	}
}

// testTargets clicks single pixels of the display: the corners and a hundred others.
func testTargets(t *test) {
	h := t.hands()
	view := image.Rectangle{Max: h.view}
	points := append(corners(view), randomPoints(view, 100)...)
	if area := t.s.Area(t); area != (image.Rectangle{Max: h.size()}) {
		// The others belong to who knows whom.
		within := image.Rectangle{h.inView(area.Min).Add(image.Pt(1, 1)), h.inView(area.Max)}
		points = append(corners(within), randomPoints(within, 20)...)
	}
	var calls []call
	var want []image.Point
	for _, p := range points {
		calls = append(calls, call{"left_click", at(p)})
		want = append(want, h.onDisplay(p))
	}
	h.do(calls...)
	var got []image.Point
	for _, e := range only(h.seen(), Press) {
		got = append(got, e.Point)
	}
	if len(got) != len(want) {
		t.Fatalf("the application saw %d clicks, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("a click at %v of the screenshot came at %v of the display, want %v", points[i], got[i], want[i])
		}
	}
}

func testResize(t *test) {
	resizer := t.s.Subject.(Resizer)
	h := t.newHands()
	before := h.size()
	resizer.Resize(t, before.Sub(before.Div(4)))
	defer resizer.Resize(t, before)
	t.s.Reset(t)
	view, _ := h.place(20, 20)
	r := h.turn(t.Context(), call{"left_click", at(view)})[0]
	if got := text(r); !r.IsError || !strings.Contains(got, "screenshot") {
		t.Errorf("a click after the display has changed its size: %q, an error: %v; want an error that asks for a screenshot", got, r.IsError)
	}
	if all := only(h.seen(), Press); len(all) > 0 {
		t.Errorf("the application saw %v", all)
	}
	t.s.Reset(t)
	h.view = h.image(call{"screenshot", nil}).Bounds().Size()
	view, p := h.place(20, 20)
	h.do(call{"left_click", at(view)})
	h.wantButtons("a click after a new screenshot", click(computer.LeftButton, p, 1, "")...)
}
