package desktest

import (
	"fmt"
	"strings"
	"testing"
)

func TestGTK(t *testing.T) {
	s := Xvfb(t, Options{})
	g := s.GTK(t, GTKOptions{X: 40, Y: 30})
	do := func(args ...string) {
		t.Helper()
		run(t, []string{"DISPLAY=" + s.Name()}, "xdotool", args...)
	}
	at := func(widget string) []string {
		p := g.Center(t, widget)
		return []string{fmt.Sprint(p.X), fmt.Sprint(p.Y)}
	}
	do("type", "Hello")
	Eventually(t, "the entry has the text", func() bool { return g.State(t).Entry == "Hello" })

	do(append(append([]string{"keydown", "ctrl", "mousemove"}, at(Button)...), "click", "3", "keyup", "ctrl")...)
	Eventually(t, "the button saw a click", func() bool { return len(g.State(t).Clicks) == 2 })
	click, p := g.State(t).Clicks[0], g.Center(t, Button)
	if click.Kind != "single" || click.Button != 3 || strings.Join(click.Modifiers, "+") != "ctrl" || click.X != p.X || click.Y != p.Y {
		t.Errorf("the button saw %+v, want a single click of button 3 with ctrl at %v", click, p)
	}
	do(append(append([]string{"mousemove"}, at(List)...), "click", "5", "click", "5", "click", "7")...)
	Eventually(t, "the list saw the wheel", func() bool {
		scrolls := g.State(t).Scrolls
		return scrolls["down"] == 2 && scrolls["right"] == 1 && scrolls["up"] == 0 && scrolls["left"] == 0
	})
	if list := g.State(t).List; list[0] <= 0 || list[1] <= 0 {
		t.Errorf("the list is scrolled to %v", list)
	}
	g.Focus(t, Text)
	do("key", "a", "Tab", "b", "Return", "c")
	Eventually(t, "the text view has the text", func() bool { return g.State(t).Text == "a\tb\nc" })
	g.Clear(t)
	do(append(append([]string{"mousemove"}, at(Canvas)...), "click", "--repeat", "2", "1", "click", "6", "key", "F5")...)
	Eventually(t, "the log is complete", func() bool {
		kinds := ""
		for _, e := range g.Log(t) {
			if e.Kind != "motion" {
				kinds += fmt.Sprint(e.Kind, e.Button, " ")
			}
		}
		return kinds == "single1 release1 single1 double1 release1 scroll6 key0 key0 "
	})
	g.Clear(t)
	if state := g.State(t); state.Entry+state.Text != "" || len(state.Keys)+len(state.Clicks) != 0 {
		t.Errorf("after Clear: %+v", state)
	}
}
