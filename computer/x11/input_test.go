package x11

import (
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jezek/xgb/xproto"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// witness is a display with a window of another client that covers it, and a driver on it.
type witness struct {
	t       testing.TB
	server  *desktest.Server
	window  *desktest.XWindow
	display *Display
}

func newWitness(t testing.TB, o desktest.Options) *witness {
	s := desktest.Xvfb(t, o)
	return &witness{t, s, s.Window(t, desktest.WindowOptions{}), openDisplay(t, s, nil)}
}

// another opens the display once more.
func (w *witness) another() *Display {
	w.t.Helper()
	d, err := Open(w.t.Context(), w.server.Name(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// open opens the display once more and closes it.
func (w *witness) open() {
	w.t.Helper()
	if err := w.another().Close(); err != nil {
		w.t.Error(err)
	}
}

// send sends events, which must succeed.
func (w *witness) send(events ...computer.Event) {
	w.t.Helper()
	if err := w.display.Send(w.t.Context(), events...); err != nil {
		w.t.Fatal(err)
	}
}

// chord sends a chord as the toolset does: pressed in order, released in reverse.
func (w *witness) chord(text string) {
	w.t.Helper()
	keys, err := computer.ParseKeys(text)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(append(press(keys...), letGo(keys...)...)...)
}

func press(keys ...computer.Key) (events []computer.Event) {
	for _, k := range keys {
		events = append(events, computer.Event{Kind: computer.KeyDown, Key: k})
	}
	return events
}

func letGo(keys ...computer.Key) (events []computer.Event) {
	for _, k := range slices.Backward(keys) {
		events = append(events, computer.Event{Kind: computer.KeyUp, Key: k})
	}
	return events
}

func moveTo(x, y int) computer.Event {
	return computer.Event{Kind: computer.Move, Point: image.Pt(x, y)}
}

func click(b computer.Button) []computer.Event {
	return []computer.Event{{Kind: computer.ButtonDown, Button: b}, {Kind: computer.ButtonUp, Button: b}}
}

var states = []string{"shift", "lock", "ctrl", "alt", "num", "mod3", "super", "mod5"}

// got returns what the window's client has been sent since the last call, one word an
// event: +shift is a press, -a a release, with the modifiers in effect before it.
func (w *witness) got() string {
	w.t.Helper()
	const last = 9 // a button that no test uses, pressed to mark the end
	w.send(click(last)...)
	var words []string
	desktest.Eventually(w.t, "the window has had its events", func() bool {
		words = nil
		for _, e := range w.window.Events() {
			word := "+"
			if e.Kind == desktest.KeyRelease || e.Kind == desktest.ButtonRelease {
				word = "-"
			}
			switch {
			case e.Kind == desktest.Motion:
				word = fmt.Sprintf("(%d,%d)", e.Point.X, e.Point.Y)
			case e.Kind == desktest.ButtonRelease && e.Code == last:
				return true
			case e.Code == last && e.Kind == desktest.ButtonPress:
				continue
			case e.Kind == desktest.KeyPress || e.Kind == desktest.KeyRelease:
				word += computer.Key(e.Symbol).String()
			default:
				word += fmt.Sprint(e.Code)
			}
			for i, name := range states {
				if e.State>>i&1 == 1 {
					word += "/" + name
				}
			}
			words = append(words, word)
		}
		return false
	})
	w.window.Clear()
	return strings.Join(words, " ")
}

// nothingDown holds that no key and no button is down.
func nothingDown(t testing.TB, s *desktest.Server) {
	t.Helper()
	_, buttons := s.Pointer(t)
	if keys := s.KeysDown(t); len(keys) > 0 || len(buttons) > 0 {
		t.Errorf("down are the keys %v and the buttons %v", keys, buttons)
	}
}

func TestSendChords(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	for _, c := range []struct{ text, want string }{
		{"a", "+a -a"},
		{"A", "+Shift_L +A/shift -A/shift -Shift_L/shift"},
		{"<", "+Shift_L +less/shift -less/shift -Shift_L/shift"},
		{">", "+Shift_L +greater/shift -greater/shift -Shift_L/shift"},
		{"Return", "+Return -Return"},
		{"enter", "+Return -Return"},
		{"ctrl+c", "+Control_L +c/ctrl -c/ctrl -Control_L/ctrl"},
		{"Ctrl+C", "+Control_L +c/ctrl -c/ctrl -Control_L/ctrl"},
		{"ctrl+shift+T", "+Control_L +Shift_L/ctrl +T/shift/ctrl -T/shift/ctrl -Shift_L/shift/ctrl -Control_L/ctrl"},
		{"shift+a", "+Shift_L +A/shift -A/shift -Shift_L/shift"},
		{"shift+A", "+Shift_L +A/shift -A/shift -Shift_L/shift"},
		{"shift+1", "+Shift_L +exclam/shift -exclam/shift -Shift_L/shift"},
		{"ctrl++", "+Control_L +Shift_L/ctrl +plus/shift/ctrl -plus/shift/ctrl -Shift_L/shift/ctrl -Control_L/ctrl"},
		{"ctrl+-", "+Control_L +minus/ctrl -minus/ctrl -Control_L/ctrl"},
		{"alt+Tab", "+Alt_L +Tab/alt -Tab/alt -Alt_L/alt"},
		{"super", "+Super_L -Super_L/super"},
		{"meta+d", "+Super_L +d/super -d/super -Super_L/super"},
		{"ctrl+alt+Delete", "+Control_L +Alt_L/ctrl +Delete/ctrl/alt -Delete/ctrl/alt -Alt_L/ctrl/alt -Control_L/ctrl"},
		{"F5", "+F5 -F5"},
		{"Page_Up", "+Prior -Prior"},
		{"BackSpace", "+BackSpace -BackSpace"},
		{"kp_enter", "+KP_Enter -KP_Enter"},
		{"Print", "+Print -Print"},
		{"Menu", "+Menu -Menu"},
		// Hyper and Meta are on the second level of keys that make nothing without Shift.
		{"hyper+a", "+Shift_L +Hyper_L/shift -Shift_L/shift/super +a/super -a/super -0x0/super"},
		{"shift+hyper+a", "+Shift_L +Hyper_L/shift +A/shift/super -A/shift/super -Hyper_L/shift/super -Shift_L/shift"},
		{"Meta_L+x", "+Shift_L +Meta_L/shift -Shift_L/shift/alt +x/alt -x/alt -0x0/alt"},
	} {
		w.chord(c.text)
		if got := w.got(); got != c.want {
			t.Errorf("%s: the window got\n%s\nwant\n%s", c.text, got, c.want)
		}
		nothingDown(t, w.server)
	}
}

// TestSendCapsLock holds that a lock that somebody left on changes no chord, stays on, and
// can be switched by its key.
func TestSendCapsLock(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	w.chord("Caps_Lock")
	w.got()
	for _, c := range []struct{ text, want string }{
		{"a", "+a -a"},
		{"A", "+Shift_L +A/shift -A/shift -Shift_L/shift"},
		{"ctrl+a", "+Control_L/lock +a/ctrl -a/ctrl -Control_L/lock/ctrl"},
		{"Return", "+Return/lock -Return/lock"},
	} {
		w.chord(c.text)
		if got := w.got(); got != c.want {
			t.Errorf("%s: the window got\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
	w.send(press('a')...)
	w.send(letGo('a')...)
	if got, want := w.got(), "+a -a"; got != want {
		t.Errorf("a, held: the window got %s, want %s", got, want)
	}
	w.send(press('a')...)
	if err := w.display.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.got()
	w.chord("Tab")
	if got, want := w.got(), "+Tab/lock -Tab/lock"; got != want {
		t.Errorf("after a release the window got %s, want %s", got, want)
	}
	w.chord("Caps_Lock")
	w.got()
	w.chord("Tab")
	if got, want := w.got(), "+Tab -Tab"; got != want {
		t.Errorf("after switching the lock off the window got %s, want %s", got, want)
	}
}

func TestSendPointer(t *testing.T) {
	w := newWitness(t, desktest.Options{Width: 2560, Height: 1600})
	w.send(moveTo(100, 100))
	w.got()
	for _, p := range []image.Point{{0, 0}, {2559, 0}, {0, 1599}, {2559, 1599}, {0, 700}, {700, 0}, {1280, 800}} {
		// The second time it is there already.
		for range 2 {
			w.send(append([]computer.Event{moveTo(p.X, p.Y)}, click(computer.LeftButton)...)...)
			if at, err := w.display.Pointer(t.Context()); err != nil || at != p {
				t.Errorf("the pointer is at %v, %v, want %v", at, err, p)
			}
			if at, _ := w.server.Pointer(t); at != p {
				t.Errorf("the server has the pointer at %v, want %v", at, p)
			}
		}
		for _, e := range w.window.Events() {
			if e.Point != p {
				t.Errorf("an event happened at %v, want %v", e.Point, p)
			}
		}
		if got, want := w.got(), fmt.Sprintf("(%d,%d) +1 -1 (%[1]d,%[2]d) +1 -1", p.X, p.Y); got != want {
			t.Errorf("the window got %s, want %s", got, want)
		}
	}
	for _, p := range []image.Point{{-1, 0}, {0, -1}, {2560, 0}, {0, 1600}, {1 << 16, 0}, {1<<32 + 5, 5}} {
		err := w.display.Send(t.Context(), append([]computer.Event{moveTo(p.X, p.Y)}, click(computer.LeftButton)...)...)
		if err == nil || !strings.Contains(err.Error(), "outside the display, which is 2560 x 1600 pixels") {
			t.Errorf("moving to %v: %v", p, err)
		}
		if got := w.got(); got != "" {
			t.Errorf("a refused move to %v sent %s", p, got)
		}
	}
}

func TestSendButtons(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	for b := computer.LeftButton; b <= computer.WheelRight; b++ {
		w.send(click(b)...)
		// The state names buttons 1 to 5 from bit 8 on, which got leaves out.
		if got, want := w.got(), fmt.Sprintf("+%d -%d", b, b); got != want {
			t.Errorf("button %d: the window got %s, want %s", b, got, want)
		}
	}
	w.send(append(append(press(computer.KeyControl), click(computer.WheelDown)...), letGo(computer.KeyControl)...)...)
	if got, want := w.got(), "+Control_L +5/ctrl -5/ctrl -Control_L/ctrl"; got != want {
		t.Errorf("the window got %s, want %s", got, want)
	}
	var input *computer.InputError
	for _, b := range []computer.Button{-1, 0, 200, 256, 257} {
		if err := w.display.Send(t.Context(), click(b)...); !errors.As(err, &input) || !strings.Contains(err.Error(), "no button") {
			t.Errorf("button %d: %v", b, err)
		}
	}
	if got := w.got(); got != "" {
		t.Errorf("buttons that do not exist sent %s", got)
	}
}

// TestSendLeftHanded holds that the left button is the one that applications take for it.
func TestSendLeftHanded(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	order := []byte{3, 2, 1, 4, 5, 6, 7, 8, 9, 10}
	if _, err := xproto.SetPointerMapping(w.display.x, byte(len(order)), order).Reply(); err != nil {
		t.Fatal(err)
	}
	w.send(click(computer.LeftButton)...)
	w.send(computer.Event{Kind: computer.ButtonDown, Button: computer.RightButton})
	if got, want := w.got(), "+1 -1 +3"; got != want {
		t.Errorf("the window got %s, want %s", got, want)
	}
	if err := w.display.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothingDown(t, w.server)
}

// TestSendHeld holds that what is pressed in one Send stays down until it is released.
func TestSendHeld(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	w.send(moveTo(10, 10))
	w.send(press(computer.KeyControl)...)
	w.send(computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton})
	w.send(moveTo(20, 20))
	if _, down := w.server.Pointer(t); !slices.Equal(down, []int{1}) {
		t.Errorf("down are the buttons %v, want the first", down)
	}
	var input *computer.InputError
	for _, events := range [][]computer.Event{click(computer.LeftButton), press(computer.KeyControl), press('x', computer.KeyControl)} {
		if err := w.display.Send(t.Context(), events...); !errors.As(err, &input) || !strings.Contains(err.Error(), "held down already") {
			t.Errorf("pressing again: %v", err)
		}
	}
	w.chord("x")
	w.send(computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
	w.send(letGo(computer.KeyControl)...)
	want := "(10,10) +Control_L +1/ctrl (20,20)/ctrl +x/ctrl -x/ctrl -1/ctrl -Control_L/ctrl"
	if got := w.got(); got != want {
		t.Errorf("the window got\n%s\nwant\n%s", got, want)
	}
	nothingDown(t, w.server)

	// A modifier that two keys need goes up with the last of them.
	w.send(press('A')...)
	w.send(press(computer.KeyShift)...)
	w.send(letGo('A')...)
	w.chord("b")
	w.send(letGo(computer.KeyShift)...)
	want = "+Shift_L +A/shift -A/shift +B/shift -B/shift -Shift_L/shift"
	if got := w.got(); got != want {
		t.Errorf("the window got\n%s\nwant\n%s", got, want)
	}
	nothingDown(t, w.server)

	// Letting go of what is not held does nothing.
	w.send(letGo('z')...)
	w.send(computer.Event{Kind: computer.ButtonUp, Button: computer.RightButton})
	if got := w.got(); got != "" {
		t.Errorf("the window got %s", got)
	}
}

func TestRelease(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"in time": t.Context(), "after a cancelled context": ended} {
		w.send(press(computer.KeyControl, computer.KeyAlt, 'Q')...)
		w.send(computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}, computer.Event{Kind: computer.ButtonDown, Button: computer.RightButton})
		w.got()
		for range 3 {
			if err := w.display.Release(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			nothingDown(t, w.server)
		}
		want := "-3/shift/ctrl/alt -1/shift/ctrl/alt -Q/shift/ctrl/alt -Shift_L/shift/ctrl/alt -Alt_L/ctrl/alt -Control_L/ctrl"
		if got := w.got(); got != want {
			t.Errorf("%s the window got\n%s\nwant\n%s", name, got, want)
		}
	}

	// What a Send pressed of which the display refused a part is released, too.
	w.display.input.mu.Lock()
	next := heldState{holds: []hold{{key: 1, things: []thing{{heldKey, 50}, {heldKey, 1}}}}} // there is no keycode 1
	written := w.display.input.carryOut([]action{{press: true, thing: thing{heldKey, 50}}, {press: true, thing: thing{heldKey, 1}}}, next)
	w.display.input.mu.Unlock()
	if _, err := w.display.input.confirm(written); err == nil || !strings.Contains(err.Error(), "the display refused it") {
		t.Errorf("pressing a key that does not exist: %v", err)
	}
	if keys := w.server.KeysDown(t); !slices.Equal(keys, []byte{50}) {
		t.Errorf("down are the keys %v", keys)
	}
	if err := w.display.Release(t.Context()); err != nil {
		t.Error(err)
	}
	nothingDown(t, w.server)

	// Nothing is sent once the context has ended.
	w.got()
	if err := w.display.Send(ended, press('a')...); !errors.Is(err, context.Canceled) {
		t.Errorf("sending with a cancelled context: %v", err)
	}
	if got := w.got(); got != "" {
		t.Errorf("sending with a cancelled context sent %s", got)
	}
}

// TestReleaseMeanwhile holds that nothing is down after a Release, whatever Send does in
// another goroutine, when that Send has been told to end.
func TestReleaseMeanwhile(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		started, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ctx.Err() == nil; i++ {
				_ = w.display.Send(ctx, press(computer.KeyControl, 'X')...)
				if i == 0 {
					close(started)
				}
				_ = w.display.Send(ctx, letGo(computer.KeyControl, 'X')...)
			}
		}()
		<-started
		cancel()
		if err := w.display.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
		nothingDown(t, w.server)
	}
}

// TestCloseReleases holds that closing a display releases what it holds and takes back its mark.
func TestCloseReleases(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	d := w.another()
	if err := d.Send(t.Context(), append(press(computer.KeyShift), computer.Event{Kind: computer.ButtonDown, Button: 3})...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	nothingDown(t, w.server)
	if found, err := marks(t.Context(), w.display.link); err != nil || len(found) > 0 {
		t.Errorf("left on the root window: %v, %v", found, err)
	}
}

func TestSendClosed(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	d := w.another()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Send(t.Context(), click(1)...); !errors.Is(err, computer.ErrClosed) {
		t.Errorf("sending after closing: %v", err)
	}
	if err := d.Release(t.Context()); err != nil {
		t.Errorf("releasing after closing: %v", err)
	}
}

// TestSendScreens holds that a display's points are those of its own screen.
func TestSendScreens(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Args: []string{"-screen", "1", "800x600x24"}})
	second, err := Open(t.Context(), s.Name()+".1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	var input *computer.InputError
	if _, err := second.Pointer(t.Context()); !errors.As(err, &input) || !strings.Contains(err.Error(), "another screen") {
		t.Errorf("where the pointer is, which is on another screen: %v", err)
	}
	if err := second.Send(t.Context(), moveTo(799, 599)); err != nil {
		t.Fatal(err)
	}
	if at, err := second.Pointer(t.Context()); err != nil || at != image.Pt(799, 599) {
		t.Errorf("the pointer is at %v, %v", at, err)
	}
	if err := second.Send(t.Context(), moveTo(800, 0)); err == nil {
		t.Error("a point outside the second screen is taken")
	}
}

// TestHeldState holds, whatever is pressed and let go, that exactly what is held is down,
// that nothing is pressed or released twice, and that Caps Lock is as it was in the end.
func TestHeldState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s heldState
		locked, down := rapid.Bool().Draw(t, "locked"), map[thing]bool{}
		check := func(actions []action) {
			for _, a := range actions {
				if down[a.thing] == a.press {
					t.Fatalf("%v is pressed or released twice", a.thing)
				}
				down[a.thing] = a.press
			}
			all := s.all()
			for one := range down {
				if down[one] != slices.Contains(all, one) {
					t.Fatalf("held is %v, down is %v", all, down)
				}
			}
		}
		const hyper = 0xffed
		keys := rapid.SampledFrom([]computer.Key{'a', 'A', 'b', computer.KeyShift, computer.KeyAltGr, 'Ä', hyper})
		strokes := map[computer.Key]stroke{
			'a': {code: 38}, 'A': {code: 38, mods: []xproto.Keycode{50}}, 'b': {code: 56}, 'Ä': {code: 48, mods: []xproto.Keycode{50, 108}},
			hyper:             {code: 207, mods: []xproto.Keycode{50}, brief: true},
			computer.KeyShift: {code: 50}, computer.KeyAltGr: {code: 108},
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			key := keys.Draw(t, "key")
			e := step{Event: computer.Event{Kind: computer.KeyUp, Key: key}}
			if rapid.Bool().Draw(t, "down") {
				e.Kind, e.stroke = computer.KeyDown, strokes[key]
			}
			before := s.clone()
			actions, err := s.apply([]step{e}, locked)
			if err != nil {
				s = before
				continue
			}
			check(actions)
			if typed := slices.ContainsFunc(s.holds, func(h hold) bool { return h.character }); s.lockOff != (locked && typed) {
				t.Fatalf("Caps Lock is held off: %v, while held are %v", s.lockOff, s.holds)
			}
		}
		actions := s.releaseAll()
		s = heldState{}
		check(actions)
	})
}

// TestTwoDisplays holds that connections do not release what others hold that live.
func TestTwoDisplays(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	w.send(append(press(computer.KeyControl), computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton})...)
	other := w.another()
	defer func() { _ = other.Close() }()
	if err := other.Send(t.Context(), press('x')...); err != nil {
		t.Fatal(err)
	}
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := w.server.KeysDown(t); len(keys) != 1 {
		t.Errorf("down are the keys %v, want Control alone", keys)
	}
	if _, buttons := w.server.Pointer(t); !slices.Equal(buttons, []int{1}) {
		t.Errorf("down are the buttons %v, want the first", buttons)
	}
	if err := w.display.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothingDown(t, w.server)
}

// holdOn, an environment variable, makes TestHoldUntilKilled the program that
// TestKilled kills: it names the display, after the way to use it.
const holdOn = "LOUPE_TEST_HOLD_ON"

// TestHoldUntilKilled is the part of TestKilled that runs in a process of its own.
func TestHoldUntilKilled(t *testing.T) {
	way, name, run := strings.Cut(os.Getenv(holdOn), " ")
	if !run {
		return
	}
	d, err := Open(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(events ...computer.Event) {
		if err := d.Send(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	if way == "hold" {
		send(press(computer.KeyControl, 'A')...)
		send(computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton})
		fmt.Println("ready")
		select {}
	}
	fmt.Println("ready")
	for {
		if way == "type" {
			if _, err := d.Type(t.Context(), "The Quick Brown Fox: {JUMPS}!"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		send(append(press(computer.KeyControl, computer.KeyShift, 'b'), letGo(computer.KeyControl, computer.KeyShift, 'b')...)...)
		send(click(computer.LeftButton)...)
	}
}

// hold starts a process that holds or keeps pressing keys and a button, and returns what
// kills it.
func (w *witness) hold(way string) (kill func()) {
	w.t.Helper()
	program, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), program, "-test.run=^TestHoldUntilKilled$")
	cmd.Env = append(os.Environ(), holdOn+"="+way+" "+w.server.Name())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	w.t.Cleanup(kill)
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil || line != "ready" {
		w.t.Fatalf("the process said %q, %v", line, err)
	}
	return kill
}

// gone waits until the server has noticed that all clients but the test's own have gone.
func (w *witness) gone(owner xproto.Window) {
	w.t.Helper()
	desktest.Eventually(w.t, "the server has noticed the death of a client", func() bool {
		_, err := xproto.GetWindowAttributes(w.display.x, owner).Reply()
		return err != nil
	})
}

// TestKilled holds that what a killed process held is released when the next one opens the
// display, and not before: nobody else knows.
func TestKilled(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	w.chord("Caps_Lock")
	kill := w.hold("hold")
	if keys := w.server.KeysDown(t); len(keys) != 3 {
		t.Errorf("the process holds %v, want Control, Shift and a", keys)
	}
	found, err := marks(t.Context(), w.display.link)
	if err != nil || len(found) != 1 {
		t.Fatalf("the root window has %v, %v; want one mark", found, err)
	}
	// While the process lives, nobody releases what it holds.
	w.open()
	if keys := w.server.KeysDown(t); len(keys) != 3 {
		t.Errorf("after another opened the display, down are %v", keys)
	}
	kill()
	w.gone(found[0].owner.window)
	// Somebody else may be given the numbers of the dead client's windows.
	desktest.Eventually(t, "the keys are released", func() bool {
		w.open()
		return len(w.server.KeysDown(t)) == 0
	})
	nothingDown(t, w.server)
	if found, err := marks(t.Context(), w.display.link); err != nil || len(found) > 0 {
		t.Errorf("left on the root window: %v, %v", found, err)
	}
	w.got()
	w.chord("Tab")
	if got, want := w.got(), "+Tab/lock -Tab/lock"; got != want {
		t.Errorf("Caps Lock is not as it was: the window got %s, want %s", got, want)
	}
}

// TestKilledMeanwhile kills a process in the midst of chords and clicks.
func TestKilledMeanwhile(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	w.send(computer.Event{Kind: computer.ButtonDown, Button: computer.RightButton}) // a living one's
	for i := range 20 {
		kill := w.hold([]string{"press", "type"}[i%2])
		desktest.Eventually(t, "some events have come", func() bool { return len(w.window.Events()) > 7*i })
		kill()
		if err := w.display.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.open()
		_, buttons := w.server.Pointer(t)
		if keys := w.server.KeysDown(t); len(keys) != 0 || !slices.Equal(buttons, []int{3}) {
			t.Fatalf("down are the keys %v and the buttons %v, want the right button alone", keys, buttons)
		}
		w.window.Clear()
	}
}

// TestMarkOfAnother holds that a mark whose window's number belongs to somebody else now is
// known for stale, and that other properties of such a name are left alone.
func TestMarkOfAnother(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	set := func(name string, values ...uint32) {
		t.Helper()
		atom, err := xproto.InternAtom(w.display.x, false, uint16(len(name)), name).Reply()
		if err != nil {
			t.Fatal(err)
		}
		err = xproto.ChangePropertyChecked(w.display.x, xproto.PropModeReplace, w.display.root, atom.Atom, xproto.AtomCardinal, 32,
			uint32(len(values)), u32(nil, values...)).Check()
		if err != nil {
			t.Fatal(err)
		}
	}
	const codeA = 38
	w.send(press('a')...)
	w.display.input.state = heldState{} // as if another had pressed it
	w.display.input.mark.announce(nil)
	set(markPrefix+"1", uint32(w.display.keyboard.owner.window), 1, codeA)
	set(markPrefix+"2", uint32(w.display.root))
	set(markPrefix+"3", 77, 1, 3, 0xffffffff, 0x1ff, 0x200, 0)
	w.open()
	nothingDown(t, w.server)
}

func TestSendWithoutXTEST(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Args: []string{"-extension", "XTEST"}})
	before := goleak.IgnoreCurrent()
	d, err := Open(t.Context(), s.Name(), nil)
	if err == nil {
		_ = d.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "XTEST") {
		t.Errorf("opening a display without XTEST: %v", err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestSendDead holds that a display that ends is known for it, at once.
func TestSendDead(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	d := openDisplay(t, s, nil)
	if err := d.Send(t.Context(), press(computer.KeyControl)...); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for {
			if err := d.Send(t.Context(), append(click(1), moveTo(5, 5))...); err != nil {
				done <- err
				return
			}
		}
	}()
	s.Kill()
	if err := <-done; !errors.Is(err, computer.ErrClosed) {
		t.Errorf("sending to a dead display: %v", err)
	}
	if _, err := d.Pointer(t.Context()); !errors.Is(err, computer.ErrClosed) {
		t.Errorf("asking a dead display: %v", err)
	}
	if err := d.Release(t.Context()); !errors.Is(err, computer.ErrClosed) {
		t.Errorf("releasing on a dead display: %v", err)
	}
}

// TestSendStopped holds that a server that does not answer holds nobody up.
func TestSendStopped(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	w.got()
	w.server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.display.Send(ctx, click(1)...) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("sending to a server that does not answer: %v", err)
	}
	w.server.Resume()
	if err := w.display.Release(t.Context()); err != nil {
		t.Error(err)
	}
	nothingDown(t, w.server)
}

// TestSendDuringGrab holds that input reaches a display that another client has grabbed.
func TestSendDuringGrab(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	p := newPainter(t, w.server)
	if err := xproto.GrabServerChecked(p.x).Check(); err != nil {
		t.Fatal(err)
	}
	w.send(moveTo(33, 44))
	if err := xproto.UngrabServerChecked(p.x).Check(); err != nil {
		t.Fatal(err)
	}
	if at, _ := w.server.Pointer(t); at != image.Pt(33, 44) {
		t.Errorf("the pointer is at %v", at)
	}
}

func BenchmarkSend(b *testing.B) {
	s := desktest.Xvfb(b, desktest.Options{Width: 1920, Height: 1080})
	d := openDisplay(b, s, nil)
	for name, events := range map[string][]computer.Event{
		"move":      {moveTo(0, 0)},
		"moveClick": append([]computer.Event{moveTo(0, 0)}, click(1)...),
		"chord":     append(press(computer.KeyControl, 's'), letGo(computer.KeyControl, 's')...),
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				events[0].Point = image.Pt(100+i%1000, 100+i%800)
				if err := d.Send(b.Context(), events...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestSendLayouts holds that a key is its symbol whatever the layout: with AltGr where it
// takes that, on a spare key where the layout has none.
func TestSendLayouts(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	for _, c := range []struct{ layout, text, want string }{
		{"de", "z", "+z -z"},
		{"de", "ctrl+z", "+Control_L +z/ctrl -z/ctrl -Control_L/ctrl"},
		{"de", "ß", "+ssharp -ssharp"},
		{"de", "<", "+less -less"},
		{"de", ">", "+Shift_L +greater/shift -greater/shift -Shift_L/shift"},
		{"de", "@", "+ISO_Level3_Shift +at/mod5 -at/mod5 -0x0/mod5"}, // nothing is on AltGr's own third level
		{"de", "ctrl++", "+Control_L +plus/ctrl -plus/ctrl -Control_L/ctrl"},
		{"fr", "1", "+Shift_L +1/shift -1/shift -Shift_L/shift"},
		{"fr", "ctrl+a", "+Control_L +a/ctrl -a/ctrl -Control_L/ctrl"},
		{"ru", "ф", "+Cyrillic_ef -Cyrillic_ef"},
		{"ru", "Ф", "+Shift_L +Cyrillic_EF/shift -Cyrillic_EF/shift -Shift_L/shift"},
		{"ru", "ctrl+c", "+Control_L +c/ctrl -c/ctrl -Control_L/ctrl"},
		{"ru", "Return", "+Return -Return"},
		{"us", "漢", "+U+6F22 -U+6F22"},
		{"us", "ctrl+é", "+Control_L +eacute/ctrl -eacute/ctrl -Control_L/ctrl"},
		{"us", "XF86AudioPlay", "+XF86AudioPlay -XF86AudioPlay"},
		{"us", "F20", "+F20 -F20"},
		{"us", "kp_5", "+KP_5 -KP_5"},
	} {
		w.server.Layout(t, c.layout)
		w.window.Clear()
		w.chord(c.text)
		if got := w.got(); got != c.want {
			t.Errorf("%s under %s: the window got\n%s\nwant\n%s", c.text, c.layout, got, c.want)
		}
		nothingDown(t, w.server)
	}
}

// TestSendAbsent holds that a modifier or lock that is on no key is refused by name, before
// anything is pressed: a spare key would make the rest of the chord come without it.
func TestSendAbsent(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	for _, text := range []string{"Hyper_R+b", "Shift_Lock", "ISO_Level5_Shift+c", "ISO_Next_Group", "Kana_Lock", "Pointer_EnableKeys", "ctrl+Hyper_R+d"} {
		keys, err := computer.ParseKeys(text)
		if err != nil {
			t.Fatal(err)
		}
		var input *computer.InputError
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "ctrl+"), "+")
		err = w.display.Send(t.Context(), press(keys...)...)
		if !errors.As(err, &input) || !strings.Contains(input.Text, name) {
			t.Errorf("%s: %v, want an error that names %s", text, err, name)
		}
	}
	if got := w.got(); got != "" {
		t.Errorf("the window got %s", got)
	}
	nothingDown(t, w.server)
}

// TestSendRepeats holds that a key that is held repeats, as those of a real keyboard do: one
// of the layout and a spare one.
func TestSendRepeats(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	for _, r := range []rune{'a', '漢'} {
		key, _ := computer.KeyOf(r)
		w.send(press(key)...)
		desktest.Eventually(t, "the key repeats", func() bool {
			presses := 0
			for _, e := range w.window.Events() {
				if e.Kind == desktest.KeyPress {
					presses++
				}
			}
			return presses >= 3
		})
		w.send(letGo(key)...)
		w.got()
	}
}

// TestSendLeavesSettings holds that the settings of keyboard and pointer are those of
// whoever set them, while they are used and afterwards.
func TestSendLeavesSettings(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	settings := func() string {
		x := w.display.x
		keyboard, err := xproto.GetKeyboardControl(x).Reply()
		if err != nil {
			t.Fatal(err)
		}
		pointer, err := xproto.GetPointerControl(x).Reply()
		if err != nil {
			t.Fatal(err)
		}
		modifiers, err := xproto.GetModifierMapping(x).Reply()
		if err != nil {
			t.Fatal(err)
		}
		keyboard.Sequence, pointer.Sequence, modifiers.Sequence = 0, 0, 0
		return fmt.Sprint(*keyboard, *pointer, *modifiers)
	}
	before := settings()
	w.chord("ctrl+shift+T")
	w.chord("漢")
	w.send(press('x', '語')...)
	w.send(append([]computer.Event{moveTo(3, 4)}, click(computer.LeftButton)...)...)
	if now := settings(); now != before {
		t.Errorf("the settings while keys are held are\n%s\nwere\n%s", now, before)
	}
	if err := w.display.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := settings(); now != before {
		t.Errorf("the settings are\n%s\nwere\n%s", now, before)
	}
}

// TestSendArrives holds that what follows a click comes after it, also where a window
// manager looks at each press before the application gets it, and takes its time.
func TestSendArrives(t *testing.T) {
	w := newWitness(t, desktest.Options{})
	manager, err := connect(t.Context(), w.server.Name(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	pressed := make(chan struct{}, 10)
	manager.handlers[xproto.ButtonPress] = func([]byte) { pressed <- struct{}{} }
	manager.listen()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range pressed {
			for range 200 {
				if manager.sync(context.Background()) != nil {
					return
				}
			}
			xproto.AllowEvents(manager.x, xproto.AllowReplayPointer, xproto.TimeCurrentTime)
		}
	}()
	t.Cleanup(func() {
		manager.breakOff()
		<-manager.done
		close(pressed)
		<-ended
	})
	err = xproto.GrabButtonChecked(manager.x, false, manager.root, xproto.EventMaskButtonPress, xproto.GrabModeSync,
		xproto.GrabModeAsync, 0, 0, xproto.ButtonIndex1, xproto.ModMaskAny).Check()
	if err != nil {
		t.Fatal(err)
	}
	w.send(moveTo(50, 50))
	w.got()
	w.send(append(append(press(computer.KeyControl), append([]computer.Event{moveTo(70, 70)}, click(computer.LeftButton)...)...), letGo(computer.KeyControl)...)...)
	w.chord("a")
	w.send(computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton})
	w.send(moveTo(90, 90))
	w.send(computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
	w.chord("b")
	want := "+Control_L (70,70)/ctrl +1/ctrl -1/ctrl -Control_L/ctrl +a -a +1 (90,90) -1 +b -b"
	if got := w.got(); got != want {
		t.Errorf("the window got\n%s\nwant\n%s", got, want)
	}
}
