package x11_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// hands works on a display as a model does: with tool_use blocks.
type hands struct {
	t     *testing.T
	tools *computer.Toolset
	last  int
}

// newHands opens a display for a toolset, until the test ends.
func newHands(t *testing.T, s *desktest.Server, o computer.Options) *hands {
	t.Helper()
	d, err := x11.Open(t.Context(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Confirm == nil {
		o.Confirm = computer.ApproveAll
	}
	tools, err := computer.New(d, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the display: %v", err)
		}
	})
	return &hands{t: t, tools: tools}
}

// with returns the same hands for a subtest.
func (h *hands) with(t *testing.T) *hands { return &hands{t, h.tools, h.last + 1000} }

// block makes a tool_use block; arguments are pairs of a name and a value.
func (h *hands) block(member string, arguments ...any) computer.ToolUse {
	h.t.Helper()
	input := map[string]any{}
	for i := 0; i < len(arguments); i += 2 {
		value := arguments[i+1]
		if p, ok := value.(image.Point); ok {
			value = [2]int{p.X, p.Y}
		}
		input[arguments[i].(string)] = value
	}
	data, err := json.Marshal(input)
	if err != nil {
		h.t.Fatal(err)
	}
	h.last++
	return computer.ToolUse{ID: fmt.Sprintf("toolu_%d", h.last), Name: member, ToolsetName: computer.ToolsetName, Input: data}
}

// run runs a turn and returns its results, which answer its blocks one by one.
func (h *hands) run(blocks ...computer.ToolUse) []computer.ToolResult {
	h.t.Helper()
	return h.runIn(h.t.Context(), blocks...)
}

func (h *hands) runIn(ctx context.Context, blocks ...computer.ToolUse) []computer.ToolResult {
	h.t.Helper()
	results := h.tools.Run(ctx, blocks)
	if len(results) != len(blocks) {
		h.t.Fatalf("%d blocks have %d results", len(blocks), len(results))
	}
	for i, r := range results {
		if r.ToolUseID != blocks[i].ID || r.ToolsetName != computer.ToolsetName || len(r.Content) == 0 {
			h.t.Fatalf("block %d, %s, is answered by %+v", i, blocks[i].ID, r)
		}
	}
	return results
}

// do runs one block as a turn of its own, which must succeed, and returns its text.
func (h *hands) do(member string, arguments ...any) string {
	h.t.Helper()
	r := h.run(h.block(member, arguments...))[0]
	if r.IsError {
		h.t.Fatalf("%s%v failed: %s", member, arguments, r.Content[0].Text)
	}
	return r.Content[0].Text
}

// refuse runs one block as a turn of its own, which must fail, and returns what the model
// is told.
func (h *hands) refuse(member string, arguments ...any) string {
	h.t.Helper()
	r := h.run(h.block(member, arguments...))[0]
	if !r.IsError {
		h.t.Fatalf("%s%v succeeded: %s", member, arguments, r.Content[0].Text)
	}
	if len(r.Content) != 1 || r.Content[0].Image != nil {
		h.t.Errorf("%s%v is refused with more than a text: %+v", member, arguments, r.Content)
	}
	return r.Content[0].Text
}

// released checks that nothing is held on the display. Events wait in the server while a
// window manager looks at a click, so it may take a moment.
func released(t *testing.T, s *desktest.Server) {
	t.Helper()
	desktest.Eventually(t, "no key and no button is down", func() bool {
		_, buttons := s.Pointer(t)
		return len(buttons) == 0 && len(s.KeysDown(t)) == 0
	})
}

// gtkBecomes waits until a GTK program's state is as wanted.
func gtkBecomes(t *testing.T, g *desktest.GTK, what string, wanted func(desktest.GTKState) bool) {
	t.Helper()
	var state desktest.GTKState
	defer func() {
		if t.Failed() {
			t.Logf("the state of the GTK program is %+v", state)
		}
	}()
	desktest.Eventually(t, what, func() bool {
		state = g.State(t)
		return wanted(state)
	})
}

// manyKinds returns a text of n characters of many kinds, always the same ones.
func manyKinds(n int) string {
	kinds := [][]rune{
		[]rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
		[]rune(`{}@#~<>[]\|^"'$%&/()=?+*-_.:,;!` + "`"),
		[]rune("äöüßÄÖÜéèêàçñåøæœŁłżšč€£§°µ¿¡«»"),
		[]rune("漢字仮名交文日本語中國简体한국어조선말ひらがなカタカナ"),
		[]rune("привет мир ЁЖЩЪЫЭ αβγδεζηθ שלום مرحبا"),
		[]rune("😀🎉🚀🐧👍🏽👩\u200d💻❤\ufe0f🇩🇪𝔸𝕫"),
		[]rune("  "),
	}
	text := make([]rune, 0, n)
	for i := 0; len(text) < n; i++ {
		kind := kinds[i*5%len(kinds)]
		// Runs of one to three of a kind, as in words, then another.
		for j := 0; j <= i%3 && len(text) < n; j++ {
			text = append(text, kind[(i*7+j*3)%len(kind)])
		}
	}
	return string(text)
}

// sameText checks that a text arrived intact, and shows where it first differs.
func sameText(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := []rune(got), []rune(want)
	wrong, first := 0, -1
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			if wrong++; first < 0 {
				first = i
			}
		}
	}
	cut := func(r []rune) string { return string(r[min(first, len(r)):min(first+20, len(r))]) }
	t.Errorf("%d characters arrived, %d were typed, %d differ; from the %d. on got %+q, want %+q",
		len(g), len(w), wrong, first, cut(g), cut(w))
}

var layouts = []string{"us", "de", "fr", "ru"}

func TestXterm(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	hands := newHands(t, s, computer.Options{})
	x := s.Xterm(t, desktest.XtermOptions{Show: "alpha bravo charlie\ndelta echo foxtrot\n"})
	typed := func(n int) string { // what has been typed since the first n bytes, once that is something
		t.Helper()
		desktest.Eventually(t, "something is typed", func() bool { return len(x.Typed(t)) > n })
		return x.Typed(t)[n:]
	}
	// Both lines are at the top of the terminal, which has 24.
	area := x.Rect(t)
	row := area.Dy() / 24
	word := area.Min.Add(image.Pt(area.Dx()*8/80+2, row/2+2))

	t.Run("clicks", func(t *testing.T) {
		hands := hands.with(t)
		for _, click := range []struct{ member, selects string }{
			{"double_click", "bravo"},
			{"triple_click", "alpha bravo charlie\n"},
		} {
			before := len(x.Typed(t))
			hands.do(click.member, "coordinate", word)
			hands.do("middle_click") // pastes what is selected
			want := strings.TrimSuffix(click.selects, "\n")
			if got := typed(before); strings.TrimSuffix(got, "\n") != want {
				t.Errorf("%s selects %q, want %q", click.member, got, want)
			}
		}
	})
	t.Run("drag", func(t *testing.T) {
		hands := hands.with(t)
		before := len(x.Typed(t))
		start := area.Min.Add(image.Pt(area.Dx()*6/80+2, row/2+2))
		end := area.Min.Add(image.Pt(area.Dx()*19/80-1, row/2+2)) // in the right half of the last letter
		hands.do("left_click_drag", "start_coordinate", start, "coordinate", end)
		hands.do("middle_click")
		if got := typed(before); got != "bravo charlie" {
			t.Errorf("the drag selects %q", got)
		}
	})
	t.Run("keys", func(t *testing.T) {
		hands := hands.with(t)
		before := len(x.Typed(t))
		for _, chord := range []string{"ctrl+c", "ctrl+d", "alt+b", "Escape", "Tab", "Up", "ENTER", "x"} {
			hands.do("key", "text", chord)
		}
		const want = "\x03\x04\xc3\xa2\x1b\t\x1b[A\nx"
		desktest.Eventually(t, "the last key has arrived", func() bool { return strings.HasSuffix(x.Typed(t), "x") })
		if got := x.Typed(t)[before:]; got != want && got != strings.Replace(want, "\xc3\xa2", "\x1bb", 1) {
			t.Errorf("the keys arrive as %q, want %q", got, want)
		}
	})
	for _, layout := range layouts {
		t.Run("typing "+layout, func(t *testing.T) {
			hands := hands.with(t)
			s.Layout(t, layout)
			text := manyKinds(997) + "\n\t."
			before := len(x.Typed(t))
			hands.do("type", "text", text)
			desktest.Eventually(t, "all has arrived", func() bool { return len(x.Typed(t))-before >= len(text) })
			sameText(t, x.Typed(t)[before:], text)
			released(t, s)
		})
	}
}

func TestGTK(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	s.WindowManager(t, "openbox")
	hands := newHands(t, s, computer.Options{})
	g := s.GTK(t, desktest.GTKOptions{})

	t.Run("clicks", func(t *testing.T) {
		hands := hands.with(t)
		at := g.Center(t, desktest.Button)
		for _, click := range []struct {
			member, modifiers string
			want              []string
		}{
			{"left_click", "", []string{"single 1 []"}},
			{"right_click", "", []string{"single 3 []"}},
			{"middle_click", "", []string{"single 2 []"}},
			{"double_click", "", []string{"single 1 []", "single 1 []", "double 1 []"}},
			{"triple_click", "", []string{"single 1 []", "single 1 []", "double 1 []", "single 1 []", "triple 1 []"}},
			{"left_click", "shift", []string{"single 1 [shift]"}},
			{"left_click", "ctrl+alt", []string{"single 1 [ctrl alt]"}},
		} {
			g.Clear(t)
			// A click of the same button shortly before would make this one a second.
			hands.do("middle_click", "coordinate", g.Center(t, desktest.Text))
			arguments := []any{"coordinate", at}
			if click.modifiers != "" {
				arguments = append(arguments, "text", click.modifiers)
			}
			hands.do(click.member, arguments...)
			gtkBecomes(t, g, fmt.Sprintf("%s with %q is %q", click.member, click.modifiers, click.want), func(state desktest.GTKState) bool {
				var got []string
				for _, c := range state.Clicks {
					if c.Kind != "release" {
						got = append(got, fmt.Sprint(c.Kind, " ", c.Button, " ", c.Modifiers))
					}
					if p := image.Pt(c.X, c.Y); p != at {
						t.Errorf("%s at %v arrives at %v", click.member, at, p)
					}
				}
				return slices.Equal(got, click.want)
			})
			released(t, s)
		}
	})
	t.Run("selecting", func(t *testing.T) {
		hands := hands.with(t)
		g.Clear(t)
		g.Fill(t, desktest.Entry, "alpha bravo charlie")
		r := g.Rect(t, desktest.Entry)
		word := image.Pt(r.Min.X+70, (r.Min.Y+r.Max.Y)/2)
		hands.do("double_click", "coordinate", word)
		selects := func(want string) {
			t.Helper()
			gtkBecomes(t, g, "the click selects "+want, func(state desktest.GTKState) bool { return state.EntrySelection == want })
		}
		selects("bravo")
		// Later, or these clicks would be the third to the fifth.
		hands.do("wait", "duration", 0.6)
		hands.do("triple_click", "coordinate", word)
		selects("alpha bravo charlie")
	})
	t.Run("slider", func(t *testing.T) {
		hands := hands.with(t)
		for _, way := range []string{"at once", "across turns"} {
			g.Clear(t)
			r := g.Rect(t, desktest.Scale)
			from := image.Pt(r.Min.X+12, r.Max.Y-14)
			to := image.Pt(r.Min.X+r.Dx()*3/4, from.Y)
			if way == "at once" {
				hands.do("left_click_drag", "start_coordinate", from, "coordinate", to)
			} else {
				hands.do("mouse_move", "coordinate", from)
				// A long time here would make GTK move the slider in finer steps.
				hands.do("left_mouse_down")
				hands.do("mouse_move", "coordinate", to)
				_, down := s.Pointer(t)
				if !slices.Equal(down, []int{1}) {
					t.Errorf("between the turns the buttons %v are down", down)
				}
				hands.do("left_mouse_up")
			}
			gtkBecomes(t, g, "the slider stands at about 75", func(state desktest.GTKState) bool { return math.Abs(state.Scale-75) < 4 })
			released(t, s)
		}
	})
	t.Run("scrolling", func(t *testing.T) {
		hands := hands.with(t)
		g.Clear(t)
		at := g.Center(t, desktest.List)
		for amount, direction := range []string{"up", "down", "left", "right"} {
			amount += 3
			hands.do("scroll", "coordinate", at, "scroll_direction", direction, "scroll_amount", amount)
			gtkBecomes(t, g, fmt.Sprint(amount, " clicks of the wheel ", direction), func(state desktest.GTKState) bool {
				return state.Scrolls[direction] == amount
			})
		}
	})
	t.Run("chords", func(t *testing.T) {
		for _, layout := range []string{"us", "ru"} {
			hands := hands.with(t)
			s.Layout(t, layout)
			g.Clear(t)
			g.Fill(t, desktest.Entry, "alpha bravo")
			g.Focus(t, desktest.Entry)
			hands.do("key", "text", "End")
			hands.do("key", "text", "ctrl+shift+Left")
			gtkBecomes(t, g, "a word is selected", func(state desktest.GTKState) bool { return state.EntrySelection == "bravo" })
			hands.do("key", "text", "ctrl+a")
			hands.do("key", "text", "ctrl+c")
			hands.do("key", "text", "End")
			hands.do("key", "text", "CTRL+V")
			gtkBecomes(t, g, "the text is there twice", func(state desktest.GTKState) bool { return state.Entry == "alpha bravoalpha bravo" })
			hands.do("key", "text", "Tab")
			gtkBecomes(t, g, "the button has the focus", func(state desktest.GTKState) bool { return state.Focus == desktest.Button })
			hands.do("key", "text", "shift+Tab")
			gtkBecomes(t, g, "the entry has the focus", func(state desktest.GTKState) bool { return state.Focus == desktest.Entry })
			hands.do("key", "text", "end")
			hands.do("key", "text", "backspace", "repeat", 6)
			hands.do("key", "text", "exclam")
			gtkBecomes(t, g, "the end is replaced", func(state desktest.GTKState) bool { return state.Entry == "alpha bravoalpha!" })
			released(t, s)
		}
		s.Layout(t, "us")
	})
	t.Run("holding a key", func(t *testing.T) {
		hands := hands.with(t)
		g.Clear(t)
		g.Focus(t, desktest.Entry)
		hands.do("hold_key", "text", "a", "duration", 1.2)
		gtkBecomes(t, g, "several letters are typed", func(state desktest.GTKState) bool {
			return len(state.Entry) >= 3 && strings.Trim(state.Entry, "a") == ""
		})
		released(t, s)
	})
	for _, layout := range layouts {
		t.Run("typing "+layout, func(t *testing.T) {
			hands := hands.with(t)
			s.Layout(t, layout)
			g.Clear(t)
			g.Focus(t, desktest.Entry)
			text := manyKinds(1000)
			hands.do("type", "text", text)
			n := utf8.RuneCountInString(text)
			desktest.Eventually(t, "all has arrived", func() bool { return utf8.RuneCountInString(g.State(t).Entry) >= n })
			sameText(t, g.State(t).Entry, text)
			released(t, s)
		})
	}
	t.Run("closing", func(t *testing.T) {
		s.Layout(t, "us")
		g.Focus(t, desktest.Entry)
		// The window manager takes its time to claim its keys anew after a change of layout.
		desktest.Eventually(t, "the program has ended", func() bool {
			if !g.Ended() {
				hands.with(t).do("key", "text", "alt+F4")
			}
			return g.Ended()
		})
	})
}

func TestChromium(t *testing.T) { testBrowser(t, (*desktest.Server).Chromium) }

func TestFirefox(t *testing.T) { testBrowser(t, (*desktest.Server).Firefox) }

func testBrowser(t *testing.T, start func(*desktest.Server, testing.TB, desktest.BrowserOptions) *desktest.Browser) {
	s := desktest.Xvfb(t, desktest.Options{})
	s.WindowManager(t, "mutter")
	own := newHands(t, s, computer.Options{})
	b := start(s, t, desktest.BrowserOptions{})
	page := b.Page(t)
	at := page.Center

	// fresh clears the page after a click elsewhere, so that no click counts as one more
	// of those before.
	fresh := func(t *testing.T) *hands {
		t.Helper()
		h := own.with(t)
		h.do("left_click", "coordinate", at("link"))
		b.Wait(t, "a click", func(p desktest.Page) bool {
			clicks := p.Events("click")
			return len(clicks) > 0 && clicks[len(clicks)-1].Target == "link"
		})
		b.Clear(t)
		return h
	}

	t.Run("points", func(t *testing.T) {
		h := fresh(t)
		for i, id := range []string{"dot0", "dot1", "dot2"} {
			h.do("left_click", "coordinate", at(id))
			p := b.Wait(t, "a click", func(p desktest.Page) bool { return len(p.Events("click")) == i+1 })
			if got := p.Events("click")[i].Target; got != id {
				t.Errorf("a click on the pixel %s arrives at %q", id, got)
			}
		}
	})
	t.Run("clicks", func(t *testing.T) {
		for _, click := range []struct {
			member, modifiers, event string
			want                     desktest.PageMouse
		}{
			{"left_click", "", "click", desktest.PageMouse{Count: 1}},
			{"middle_click", "", "auxclick", desktest.PageMouse{Button: 1, Count: 1}},
			{"right_click", "", "contextmenu", desktest.PageMouse{Button: 2}},
			{"double_click", "", "dblclick", desktest.PageMouse{Count: 2}},
			{"triple_click", "", "click", desktest.PageMouse{Count: 3}},
			{"left_click", "shift", "click", desktest.PageMouse{Count: 1, Modifiers: "shift"}},
			{"left_click", "ctrl+shift", "click", desktest.PageMouse{Count: 1, Modifiers: "shift+ctrl"}},
			{"left_click", "alt", "click", desktest.PageMouse{Count: 1, Modifiers: "alt"}},
			{"double_click", "ctrl", "dblclick", desktest.PageMouse{Count: 2, Modifiers: "ctrl"}},
		} {
			h := fresh(t)
			arguments := []any{"coordinate", at("button")}
			if click.modifiers != "" {
				arguments = append(arguments, "text", click.modifiers)
			}
			h.do(click.member, arguments...)
			want := click.want
			want.Type, want.Target = click.event, "button"
			b.Wait(t, fmt.Sprintf("%s as %+v", click.member, want), func(p desktest.Page) bool {
				return slices.ContainsFunc(p.Mouse, func(m desktest.PageMouse) bool {
					m.X, m.Y = 0, 0
					if m.Type == "contextmenu" {
						m.Count = 0 // browsers differ
					}
					return m == want
				})
			})
		}
	})
	t.Run("selecting", func(t *testing.T) {
		for member, want := range map[string]string{
			"double_click": "bravo", "triple_click": "alpha bravo charlie delta echo foxtrot",
		} {
			h := fresh(t)
			r := page.Rect("words")
			h.do(member, "coordinate", image.Pt(r.Min.X+60, (r.Min.Y+r.Max.Y)/2))
			b.Wait(t, member+" selecting "+want, func(p desktest.Page) bool { return strings.TrimSpace(p.Selected) == want })
		}
	})
	t.Run("hovering", func(t *testing.T) {
		h := fresh(t)
		h.do("mouse_move", "coordinate", at("hover"))
		b.Wait(t, "the pointer", func(p desktest.Page) bool { return p.Hovered })
		h.do("mouse_move", "coordinate", at("canvas"))
		b.Wait(t, "no pointer", func(p desktest.Page) bool { return !p.Hovered })
	})
	t.Run("dropping", func(t *testing.T) {
		for _, way := range []string{"at once", "just inside", "in one turn", "across turns"} {
			h := fresh(t)
			from, to := at("card"), at("box")
			if way == "just inside" { // of the border, which no step but the last ones reaches
				to = page.Rect("box").Min.Add(image.Pt(8, 50))
			}
			blocks := []computer.ToolUse{
				h.block("mouse_move", "coordinate", from), h.block("left_mouse_down"),
				h.block("mouse_move", "coordinate", to), h.block("left_mouse_up"),
			}
			switch way {
			case "at once", "just inside":
				h.do("left_click_drag", "start_coordinate", from, "coordinate", to)
			case "in one turn":
				h.run(blocks...)
			case "across turns":
				for i, block := range blocks {
					h.run(block)
					if i == 1 {
						h.do("screenshot")
					}
				}
			}
			b.Wait(t, "the card in the box, "+way, func(p desktest.Page) bool {
				return p.Dropped == "card" && len(p.Drag) > 0 && p.Drag[len(p.Drag)-1] == "dragend"
			})
			released(t, s)
		}
	})
	t.Run("slider", func(t *testing.T) {
		h := fresh(t)
		r := page.Rect("slider")
		from := image.Pt(r.Min.X+8, (r.Min.Y+r.Max.Y)/2)
		h.do("left_click_drag", "start_coordinate", from, "coordinate", image.Pt(r.Min.X+r.Dx()*3/4, from.Y))
		b.Wait(t, "the slider at about 75", func(p desktest.Page) bool { return p.Slider >= 72 && p.Slider <= 78 })
	})
	t.Run("drawing", func(t *testing.T) {
		h := fresh(t)
		r := page.Rect("canvas")
		from, to := r.Min.Add(image.Pt(20, 30)), r.Min.Add(image.Pt(320, 130))
		h.do("left_click_drag", "start_coordinate", from, "coordinate", to)
		p := b.Wait(t, "the end of the stroke", func(p desktest.Page) bool {
			return len(p.Path) > 0 && p.Path[len(p.Path)-1].Type == "mouseup"
		})
		first, last := p.Path[0], p.Path[len(p.Path)-1]
		if first.Type != "mousedown" || first.X != 20 || first.Y != 30 || last.X != 320 || last.Y != 130 {
			t.Errorf("the stroke goes from %+v to %+v", first, last)
		}
		if len(p.Path) < 8 {
			t.Errorf("the stroke has only %d points", len(p.Path))
		}
		for _, q := range p.Path {
			if off := math.Abs(float64(q.Y-30) - float64(q.X-20)/3); off > 1 {
				t.Errorf("the point %+v is off the line", q)
			}
		}
	})
	t.Run("scrolling", func(t *testing.T) {
		for direction, want := range map[string]desktest.PageWheel{
			"up": {Y: -1}, "down": {Y: 1}, "left": {X: -1}, "right": {X: 1},
		} {
			h := fresh(t)
			h.do("scroll", "coordinate", at("scroll"), "scroll_direction", direction, "scroll_amount", 3)
			want.Target = "scroll"
			b.Wait(t, "the wheel "+direction, func(p desktest.Page) bool {
				moved := image.Pt(int(p.Scroll.X)-2000, int(p.Scroll.Y)-2000)
				return len(p.Wheel) > 0 && p.Wheel[0] == want &&
					moved.X*want.X >= 0 && moved.Y*want.Y >= 0 && (moved.X != 0) == (want.X != 0) && (moved.Y != 0) == (want.Y != 0)
			})
		}
		h := fresh(t)
		h.do("scroll", "coordinate", at("scroll"), "scroll_direction", "down", "scroll_amount", 1, "text", "shift")
		b.Wait(t, "the wheel with shift", func(p desktest.Page) bool { return len(p.Wheel) > 0 && p.Wheel[0].Modifiers == "shift" })
	})
	t.Run("chords", func(t *testing.T) {
		for _, layout := range []string{"us", "ru"} {
			s.Layout(t, layout)
			h := fresh(t)
			text := func(what, want string) {
				t.Helper()
				b.Wait(t, layout+": "+what, func(p desktest.Page) bool { return p.Text == want && p.Focus == "text" })
			}
			h.do("left_click", "coordinate", at("text"))
			h.do("type", "text", "alpha bravo")
			h.do("key", "text", "ctrl+shift+Left")
			b.Wait(t, "a word selected", func(p desktest.Page) bool { return p.Selected == "bravo" })
			h.do("key", "text", "ctrl+a")
			b.Wait(t, "all selected", func(p desktest.Page) bool { return p.Selected == "alpha bravo" })
			h.do("key", "text", "ctrl+c")
			h.do("key", "text", "Right")
			h.do("key", "text", "enter")
			h.do("key", "text", "ctrl+v")
			text("the text twice", "alpha bravo\nalpha bravo")
			h.do("key", "text", "ctrl+z")
			h.do("key", "text", "shift+a")
			h.do("key", "text", "B")
			h.do("key", "text", "plus")
			text("the paste undone and three keys", "alpha bravo\nAB+")
			h.do("key", "text", "Tab")
			b.Wait(t, "the focus on the button", func(p desktest.Page) bool { return p.Focus == "button" })
			h.do("key", "text", "shift+Tab")
			text("the focus back", "alpha bravo\nAB+")
			h.do("key", "text", "ctrl+plus")
			b.Wait(t, "a larger page", func(p desktest.Page) bool { return p.Ratio > 1 })
			h.do("key", "text", "ctrl+0")
			b.Wait(t, "the page as before", func(p desktest.Page) bool { return p.Ratio == 1 })
			text("no stray character", "alpha bravo\nAB+")
			released(t, s)
		}
		s.Layout(t, "us")
	})
	t.Run("holding a key", func(t *testing.T) {
		h := fresh(t)
		h.do("left_click", "coordinate", at("text"))
		h.do("hold_key", "text", "a", "duration", 1.2)
		b.Wait(t, "repeats and a release", func(p desktest.Page) bool {
			n := len(p.Keys)
			return n > 3 && p.Keys[n-1].Type == "keyup" && p.Keys[n-2].Repeat && len(p.Text) >= 3 && strings.Trim(p.Text, "a") == ""
		})
	})
	for _, layout := range layouts {
		t.Run("typing "+layout, func(t *testing.T) {
			s.Layout(t, layout)
			h := fresh(t)
			h.do("left_click", "coordinate", at("text"))
			text := manyKinds(500) + "\n" + manyKinds(499)
			h.do("type", "text", text)
			n := utf8.RuneCountInString(text)
			p := b.Wait(t, "all of the text", func(p desktest.Page) bool { return utf8.RuneCountInString(p.Text) >= n })
			sameText(t, p.Text, text)
			released(t, s)
		})
	}
}
