package x11_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestFaults has a test for each fault that computer toolsets have been seen to have. Where
// the tests of a part cover one in full, the table names theirs instead.
func TestFaults(t *testing.T) {
	for _, f := range []struct {
		fault     string
		test      func(*testing.T)
		elsewhere []string // a file, seen from this folder, and what of it
	}{
		{fault: "CJK garbled", test: faultCJK},
		{fault: "enter ignored with success", test: faultEnter},
		{fault: "less typed as greater", test: faultLess},
		{fault: "newline dropped or Linefeed", test: faultNewline},
		{fault: "modifiers stuck after a kill", elsewhere: []string{
			"../../cmd/loupe/testdata/script/act-ends.txtar", "kill -TERM", "kill -KILL", "hold_key"}},
		{fault: "modifiers stuck after a kill in the middle", elsewhere: []string{"input_test.go", "TestKilled", "TestKilledMeanwhile"}},
		{fault: "stall on a move to the present position", test: faultStall},
		{fault: "double click too fast for Firefox", elsewhere: []string{"apps_test.go", "TestFirefox", `"double_click", "", "dblclick"`}},
		{fault: "one-jump drag ignored by Chromium", elsewhere: []string{"apps_test.go", "TestChromium", `t.Run("dropping"`}},
		{fault: "coordinates clamped silently", test: faultClamp},
		{fault: "scaling checked in the wrong space", test: faultSpace},
		{fault: "zoom of the shrunken screenshot", test: faultZoom},
		{fault: "coordinate as a string", test: faultString},
		{fault: "key text reaching a shell", test: faultShell},
		{fault: "auto-repeat turned off", test: faultRepeat},
		{fault: "screen saver blanking", elsewhere: []string{"saver_test.go", "TestScreenSaver", "TestScreenSaverActive"}},
		{fault: "pointer recentred when the last client leaves", elsewhere: []string{"keep_test.go", "TestKeep"}},
		{fault: "call without an answer after a timeout", test: faultNoAnswer},
	} {
		t.Run(f.fault, func(t *testing.T) {
			if f.test != nil {
				f.test(t)
				return
			}
			text, err := os.ReadFile(f.elsewhere[0])
			if err != nil {
				t.Fatalf("the test of this fault is missing: %v", err)
			}
			for _, what := range f.elsewhere[1:] {
				if strings.HasPrefix(what, "Test") {
					what = "func " + what + "("
				}
				if !bytes.Contains(text, []byte(what)) {
					t.Errorf("%s no longer has %q, the test of this fault", f.elsewhere[0], what)
				}
			}
		})
	}
}

// symbols returns what the presses that a window has seen make.
func symbols(w *desktest.XWindow) []uint32 {
	var all []uint32
	for _, e := range w.Events() {
		if e.Kind == desktest.KeyPress {
			all = append(all, e.Symbol)
		}
	}
	return all
}

func faultCJK(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	// The text has more characters than the keyboard has spare keys, and its reader is slow.
	const text = "漢字かな交じり文。日本語の入力、中文简体字輸入測試，한국어 입력 시험: 가나다라마바사아자차카타파하 いろはにほへとちりぬるを わかよたれそつねならむ"
	g.Slow(t, 5*time.Millisecond)
	h.do("type", "text", text)
	gtkBecomes(t, g, "the text is in the entry", func(state desktest.GTKState) bool { return state.Entry == text })
}

func faultEnter(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	w := s.Window(t, desktest.WindowOptions{})
	const keyReturn = 0xff0d
	for _, name := range []string{"enter", "Enter", "ENTER", "return", "Return", "\n"} {
		w.Clear()
		h.do("key", "text", name)
		desktest.Eventually(t, fmt.Sprintf("%q is Return", name), func() bool { return slices.Equal(symbols(w), []uint32{keyReturn}) })
	}
	w.Clear()
	for _, name := range []string{"entr", "ctrl+entr", "Retrun", ""} {
		if text := h.refuse("key", "text", name); !strings.Contains(text, name[strings.LastIndex(name, "+")+1:]) {
			t.Errorf("the refusal of the key %q does not name it: %s", name, text)
		}
	}
	h.do("key", "text", "x")
	desktest.Eventually(t, "the next key is all that comes", func() bool { return slices.Equal(symbols(w), []uint32{'x'}) })
}

func faultLess(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	x := s.Xterm(t, desktest.XtermOptions{})
	for _, layout := range append(layouts, "us(intl)", "gb") {
		name, variant, _ := strings.Cut(strings.TrimSuffix(layout, ")"), "(")
		if variant != "" {
			name += " -variant " + variant
		}
		arguments := append([]string{"-display", s.Name(), "-layout"}, strings.Fields(name)...)
		if out, err := exec.Command("setxkbmap", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("setxkbmap: %v: %s", err, out)
		}
		before := len(x.Typed(t))
		h.do("type", "text", "a<b>c<>")
		h.do("key", "text", "<")
		h.do("key", "text", "greater")
		const want = "a<b>c<><>"
		desktest.Eventually(t, "all is typed", func() bool { return len(x.Typed(t)) >= before+len(want) })
		if got := x.Typed(t)[before:]; got != want {
			t.Errorf("%s: %q arrives as %q", layout, want, got)
		}
	}
}

func faultNewline(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	w := s.Window(t, desktest.WindowOptions{})
	h.do("type", "text", "a\nb\r\nc\td\n")
	const keyReturn, keyTab = 0xff0d, 0xff09
	want := []uint32{'a', keyReturn, 'b', keyReturn, 'c', keyTab, 'd', keyReturn}
	desktest.Eventually(t, "all has come", func() bool { return len(symbols(w)) >= len(want) })
	if got := symbols(w); !slices.Equal(got, want) {
		t.Errorf("the keys are %#x, want %#x", got, want)
	}
}

func faultStall(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	// A stall would be cut off and be an error.
	h := newHands(t, s, computer.Options{BlockTime: 5 * time.Second})
	w := s.Window(t, desktest.WindowOptions{})
	for _, p := range []image.Point{{}, {0, 799}, {1279, 0}, {333, 444}} {
		for range 3 {
			h.do("mouse_move", "coordinate", p)
			h.do("left_click", "coordinate", p)
		}
		if at, _ := s.Pointer(t); at != p {
			t.Errorf("the pointer is at %v, want %v", at, p)
		}
	}
	desktest.Eventually(t, "all clicks have come", func() bool {
		n := 0
		for _, e := range w.Events() {
			if e.Kind == desktest.ButtonPress {
				n++
			}
		}
		return n == 12
	})
}

func faultClamp(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	w := s.Window(t, desktest.WindowOptions{})
	h.do("mouse_move", "coordinate", image.Pt(100, 100))
	w.Sync(t)
	w.Clear()
	for _, p := range []image.Point{{1280, 10}, {10, 800}, {-1, 10}, {10, -1}, {1 << 40, 0}} {
		for _, member := range []string{"left_click", "mouse_move", "double_click"} {
			if text := h.refuse(member, "coordinate", p); !strings.Contains(text, "1280") || !strings.Contains(text, "800") {
				t.Errorf("%s at %v is refused without the bounds: %s", member, p, text)
			}
		}
		h.refuse("left_click_drag", "start_coordinate", image.Pt(5, 5), "coordinate", p)
		h.refuse("scroll", "coordinate", p, "scroll_direction", "up", "scroll_amount", 1)
	}
	if at, _ := s.Pointer(t); at != image.Pt(100, 100) {
		t.Errorf("the pointer has gone to %v", at)
	}
	w.Sync(t)
	if events := w.Events(); len(events) > 0 {
		t.Errorf("the window saw %v", events)
	}
}

// faultSpace works on a display that is larger than its screenshot, by no whole factor.
func faultSpace(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{MaxEdge: 900})
	w := s.Window(t, desktest.WindowOptions{Background: color.Gray{90}})
	r := h.run(h.block("screenshot"))[0]
	view, _ := decoded(t, r)
	size := view.Bounds().Size()
	if size.X > 900 || size.Y > 600 {
		t.Fatalf("the screenshot has the size %v", size)
	}

	// The last pixel of the screenshot is a point, and stands for its centre.
	last := size.Sub(image.Pt(1, 1))
	h.do("left_click", "coordinate", last)
	want := image.Pt(int((float64(last.X)+0.5)*1280/float64(size.X)), int((float64(last.Y)+0.5)*800/float64(size.Y)))
	if at, _ := s.Pointer(t); at != want {
		t.Errorf("a click at %v of the screenshot is at %v of the display, want %v", last, at, want)
	}
	if text := h.do("cursor_position"); text != fmt.Sprintf("X=%d, Y=%d", last.X, last.Y) {
		t.Errorf("the pointer is said to be at %s, want %v", text, last)
	}

	// What lies outside the screenshot is no point, though the display has it.
	w.Sync(t)
	w.Clear()
	for _, p := range []image.Point{{size.X, 0}, {0, size.Y}, {1000, 600}, {1279, 799}} {
		if text := h.refuse("left_click", "coordinate", p); !strings.Contains(text, fmt.Sprint(size.X)) {
			t.Errorf("a click at %v is refused without the screenshot's size: %s", p, text)
		}
	}
	h.refuse("zoom", "region", []int{0, 0, 1280, 800})
	w.Sync(t)
	if events := w.Events(); len(events) > 0 {
		t.Errorf("the window saw %v", events)
	}
}

// decoded returns the image of a result and its media type.
func decoded(t *testing.T, r computer.ToolResult) (image.Image, string) {
	t.Helper()
	if r.IsError {
		t.Fatalf("there is no image: %s", r.Content[0].Text)
	}
	for _, c := range r.Content {
		if c.Image != nil {
			m, _, err := image.Decode(bytes.NewReader(c.Image.Data))
			if err != nil {
				t.Fatal(err)
			}
			return m, c.Image.MediaType
		}
	}
	t.Fatal("there is no image")
	return nil, ""
}

// faultZoom shows lines of one pixel, which a smaller screenshot blends into grey.
func faultZoom(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{MaxEdge: 600})
	w := s.Window(t, desktest.WindowOptions{})
	stripes := image.NewGray(image.Rect(600, 400, 800, 525))
	for y := stripes.Rect.Min.Y; y < stripes.Rect.Max.Y; y++ {
		for x := stripes.Rect.Min.X; x < stripes.Rect.Max.X; x++ {
			stripes.SetGray(x, y, color.Gray{uint8(x % 2 * 255)})
		}
	}
	w.Draw(t, stripes)
	r := h.run(h.block("screenshot"))[0]
	view, _ := decoded(t, r)
	factor := 1280 / float64(view.Bounds().Dx())
	// A region well within the stripes, in pixels of the screenshot.
	left, top := int(620/factor), int(420/factor)
	const side = 40
	r = h.run(h.block("zoom", "region", []int{left, top, left + side, top + side}))[0]
	m, _ := decoded(t, r)
	changes, dark := 0, false
	y := m.Bounds().Dy() / 2
	for x := range m.Bounds().Dx() {
		switch v := color.GrayModel.Convert(m.At(x, y)).(color.Gray).Y; {
		case v < 64 && !dark:
			changes, dark = changes+1, true
		case v > 192 && dark:
			changes, dark = changes+1, false
		}
	}
	if want := int(side*factor) - 3; changes < want {
		t.Errorf("the zoom shows %d changes from black to white, of %d", changes, want)
	}
}

func faultString(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	for i, value := range []any{"[10,20]", " [10, 20] ", []string{"10", "20"}, []float64{10, 20}} {
		h.do("mouse_move", "coordinate", image.Pt(500+i, 500))
		h.do("left_click", "coordinate", value)
		if at, _ := s.Pointer(t); at != image.Pt(10, 20) {
			t.Errorf("a click at %#v is at %v", value, at)
		}
	}
	for _, value := range []any{"[10]", "[10,20,30]", "10;20", "[[10,20]]", 10, nil, []float64{1.5, 2}, map[string]int{"x": 1}} {
		if text := h.refuse("mouse_move", "coordinate", value); !strings.Contains(strings.ToLower(text), "coordinate of mouse_move") && !strings.Contains(text, "argument coordinate") {
			t.Errorf("%#v is refused with: %s", value, text)
		}
	}
	released(t, s)
}

func faultShell(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := desktest.Xvfb(t, desktest.Options{})
	h := newHands(t, s, computer.Options{})
	x := s.Xterm(t, desktest.XtermOptions{})
	touch := filepath.Join(dir, "touched")
	attempts := []string{"$(touch " + touch + ")", "; touch " + touch, "`touch " + touch + "`", "a; touch " + touch,
		"| touch " + touch, "&& touch " + touch, "a\ntouch " + touch, "--help", "-h", "--window 1 a", "a --clearmodifiers"}
	for _, text := range attempts {
		h.refuse("key", "text", text)
		h.refuse("hold_key", "text", text, "duration", 0)
		h.refuse("left_click", "coordinate", image.Pt(5, 5), "text", text)
		before := len(x.Typed(t))
		h.do("type", "text", text)
		desktest.Eventually(t, "the text is typed as it is", func() bool { return x.Typed(t)[before:] == text })
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) > 0 {
		t.Errorf("a command has run: there is %v (%v)", found, err)
	}
}

// repeats asks the server, with a program of its own, which keys repeat.
func repeats(t *testing.T, s *desktest.Server) string {
	t.Helper()
	out, err := exec.Command("xset", "-display", s.Name(), "q").Output()
	if err != nil {
		t.Fatalf("xset (install it with: make setup): %v", err)
	}
	var lines []string
	keep := false
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "auto repeat") || strings.Contains(line, "auto repeating keys") || keep {
			lines = append(lines, line)
		}
		keep = strings.Contains(line, "auto repeating keys") || keep && strings.HasPrefix(line, "             ")
	}
	return strings.Join(lines, "")
}

func faultRepeat(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	w := s.Window(t, desktest.WindowOptions{})
	before := repeats(t, s)
	if !strings.Contains(before, "auto repeat:  on") {
		t.Fatalf("keys do not repeat to begin with:\n%s", before)
	}
	t.Run("driving", func(t *testing.T) {
		h := newHands(t, s, computer.Options{})
		h.do("type", "text", "plain, 漢字 and 😀")
		h.do("key", "text", "ctrl+a")
		w.Sync(t)
		w.Clear()
		h.do("hold_key", "text", "b", "duration", 1.2)
		presses := 0
		for _, symbol := range symbols(w) {
			if symbol == 'b' {
				presses++
			}
		}
		if presses < 3 {
			t.Errorf("a key that is held for 1.2 s comes %d times", presses)
		}
		if now := repeats(t, s); now != before {
			t.Errorf("what repeats is now\n%s\nand was\n%s", now, before)
		}
	})
	if now := repeats(t, s); now != before {
		t.Errorf("afterwards, what repeats is\n%s\nand was\n%s", now, before)
	}
}

// faultNoAnswer stops the server in the middle of a turn.
func faultNoAnswer(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	stop := ""
	h := newHands(t, s, computer.Options{
		BlockTime: 300 * time.Millisecond,
		Confirm: func(_ context.Context, a computer.Action) computer.Decision {
			if a.Member == stop {
				s.Pause()
			}
			return computer.Decision{Approved: true}
		},
	})
	t.Cleanup(s.Resume) // so that the display can be closed
	s.Window(t, desktest.WindowOptions{})
	for _, member := range []struct {
		name      string
		arguments []any
	}{
		{"screenshot", nil}, {"zoom", []any{"region", []int{0, 0, 100, 100}}},
		{"left_click", []any{"coordinate", image.Pt(5, 5)}}, {"triple_click", nil},
		{"left_click_drag", []any{"start_coordinate", image.Pt(5, 5), "coordinate", image.Pt(50, 50)}},
		{"left_mouse_down", nil}, {"left_mouse_up", nil}, {"mouse_move", []any{"coordinate", image.Pt(9, 9)}},
		{"cursor_position", nil}, {"scroll", []any{"scroll_direction", "up", "scroll_amount", 2}},
		{"type", []any{"text", "text 漢字"}}, {"key", []any{"text", "ctrl+x"}}, {"hold_key", []any{"text", "a", "duration", 0.1}},
	} {
		stop = member.name
		results := h.run(h.block("wait", "duration", 0), h.block(member.name, member.arguments...), h.block("wait", "duration", 0))
		stop = ""
		s.Resume()
		if results[0].IsError || !results[1].IsError || !results[2].IsError {
			t.Fatalf("%s on a display that hangs is answered with %+v", member.name, results)
		}
		if text := results[2].Content[0].Text; text != "Not executed: an earlier computer action in this turn failed." {
			t.Errorf("the block after %s is answered with %q", member.name, text)
		}
		// Once the display answers again, all is well and nothing is held.
		desktest.Eventually(t, "the display can be driven after "+member.name, func() bool {
			return !h.run(h.block("mouse_move", "coordinate", image.Pt(640, 400)))[0].IsError
		})
		released(t, s)
	}
}

func TestDisplayDies(t *testing.T) {
	for _, member := range []string{"screenshot", "left_click", "type", "hold_key", "left_click_drag", "wait", "cursor_position"} {
		t.Run(member, func(t *testing.T) {
			s := desktest.Xvfb(t, desktest.Options{})
			s.Window(t, desktest.WindowOptions{})
			kill := func(_ context.Context, a computer.Action) computer.Decision {
				if a.Member == member {
					s.Kill()
				}
				return computer.Decision{Approved: true}
			}
			d, err := x11.Open(t.Context(), s.Name(), nil)
			if err != nil {
				t.Fatal(err)
			}
			tools, err := computer.New(d, &computer.Options{Confirm: kill})
			if err != nil {
				t.Fatal(err)
			}
			h := &hands{t: t, tools: tools}
			arguments := map[string][]any{
				"left_click": {"coordinate", image.Pt(5, 5)}, "type": {"text", strings.Repeat("text 漢字", 50)},
				"hold_key": {"text", "shift", "duration", 30}, "wait": {"duration", 30},
				"left_click_drag": {"start_coordinate", image.Pt(5, 5), "coordinate", image.Pt(50, 50)},
			}
			results := h.run(h.block("left_mouse_down"), h.block("left_mouse_up"), h.block(member, arguments[member]...), h.block("screenshot"))
			if results[0].IsError || results[1].IsError || !results[2].IsError || !results[3].IsError {
				t.Errorf("the turn is answered with %+v", results)
			}
			if text := results[2].Content[0].Text; strings.Contains(text, s.Name()) || strings.Contains(text, "/tmp") || strings.Contains(text, "EOF") {
				t.Errorf("the model is told %q", text)
			}
			if again := h.run(h.block("screenshot"))[0]; !again.IsError {
				t.Error("there is a screenshot of a display that is gone")
			}
			_ = d.Close() // what it says about keys on a display that is gone is all the same
		})
	}
}

func TestNoDisplay(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	s.Stop()
	for _, name := range []string{s.Name(), ":59999", "1", ":x", "nowhere.invalid:1"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		d, err := x11.Open(ctx, name, nil)
		cancel()
		if err == nil {
			d.Close()
			t.Fatalf("display %q is open", name)
		}
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name display %q: %v", name, err)
		}
	}
	t.Setenv("DISPLAY", "")
	if _, err := x11.Open(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), "DISPLAY") {
		t.Errorf("without a display the error is %v", err)
	}
}
