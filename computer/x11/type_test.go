package x11

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// mixed returns n characters of many kinds, on one line.
func mixed(n int) string {
	kinds := []string{
		"The quick brown fox JUMPS over the lazy dog 0123456789 ",
		"{}@#~<>[]|\\/^`'\"$%&*()=+;:!?,._- ",
		"漢字仮名交じり文を打つ中文한국어𠮷",
		"😀🎉👩\u200d💻🇩🇪👍🏽",
		"Съешь же ещё этих МЯГКИХ булок ",
		"ąéîõüßÆøñçŁž€£¥ẞ ",
		"e\u0301a\u0308n\u0303",
		"שלום مرحبا ",
		"\ue000\uf8ff\U000f0000\u00a0",
	}
	var runes []rune
	for i := 0; len(runes) < n; i++ {
		runes = append(runes, []rune(kinds[i%len(kinds)])...)
	}
	return string(runes[:n])
}

// ideographs returns n different characters that no layout has, from the first one on.
func ideographs(first rune, n int) string {
	runes := make([]rune, n)
	for i := range runes {
		runes[i] = first + rune(i)
	}
	return string(runes)
}

// keymap returns the display's whole keyboard map, types and all, as xkbcomp writes it.
func keymap(t testing.TB, s *desktest.Server) string {
	t.Helper()
	out, err := exec.Command("xkbcomp", "-w0", s.Name(), "-").Output()
	if err != nil {
		t.Fatalf("xkbcomp (make setup installs it): %v", err)
	}
	return string(out)
}

// openAnother opens a display that has been opened before in the test.
func openAnother(t testing.TB, s *desktest.Server) *Display {
	t.Helper()
	d, err := Open(t.Context(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// typeAll types a text, which must succeed.
func typeAll(t testing.TB, d *Display, text string) {
	t.Helper()
	n, err := d.Type(t.Context(), text)
	if want := len([]rune(text)); err != nil || n != want {
		t.Fatalf("typed %d of %d characters, %v", n, want, err)
	}
}

// shows waits until an application has as much text as is wanted, which must then be that.
func shows(t testing.TB, want string, text func() string) {
	t.Helper()
	got := ""
	desktest.Eventually(t, "the application has the text", func() bool { got = text(); return len(got) >= len(want) })
	same(t, got, want)
}

// same compares two texts and shows where they part.
func same(t testing.TB, got, want string) {
	t.Helper()
	g, w := []rune(got), []rune(want)
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("the application has %d characters, want %d; from the %dth on it has %q, want %q",
				len(g), len(w), i, string(g[min(i, len(g)):min(i+20, len(g))]), string(w[min(i, len(w)):min(i+20, len(w))]))
		}
	}
}

// layouts are those that texts are typed under.
var layouts = []string{"us", "de", "fr", "ru", "us,ru"}

// setLayout sets a layout. Of several it puts the last in force.
func setLayout(t testing.TB, s *desktest.Server, layout string) {
	t.Helper()
	s.Layout(t, layout)
	groups := strings.Count(layout, ",")
	if groups == 0 {
		return
	}
	d := openDisplay(t, s, nil)
	lockGroup(t, d, byte(groups))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// lockGroup puts a layout of several in force, as a key or a menu for it does.
func lockGroup(t testing.TB, d *Display, group byte) {
	t.Helper()
	k := d.keyboard.xkb
	if err := k.tell(t.Context(), k.message(5, append(u16(nil, xkbCoreKbd), 0, 0, 1, group, 0, 0, 0, 0, 0, 0)...)); err != nil {
		t.Fatal(err)
	}
}

func TestTypeGTK(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			setLayout(t, s, layout)
			before := keymap(t, s)
			d := openDisplay(t, s, nil)
			g.Clear(t)
			g.Focus(t, desktest.Text)
			text := mixed(990) + "\nline\t2\n\n"
			typeAll(t, d, text)
			shows(t, text, func() string { return g.State(t).Text })
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			same(t, keymap(t, s), before)
			nothingDown(t, s)
		})
	}
}

func TestTypeXterm(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			setLayout(t, s, layout)
			before := keymap(t, s)
			x := s.Xterm(t, desktest.XtermOptions{})
			defer x.Stop()
			d := openDisplay(t, s, nil)
			text := mixed(990) + "\nline\t2\n\n"
			typeAll(t, d, text)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			shows(t, text, func() string { return x.Typed(t) })
			same(t, keymap(t, s), before)
		})
	}
}

// TestTypeManyDistinct types more different characters than there are spare keys.
func TestTypeManyDistinct(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	d := openDisplay(t, s, nil)
	text := ideographs('一', 500)
	t.Run("GTK", func(t *testing.T) {
		g := s.GTK(t, desktest.GTKOptions{})
		defer g.Stop()
		typeAll(t, d, text)
		shows(t, text, func() string { return g.State(t).Entry })
		same(t, keymap(t, s), before) // at once, since GTK says that it has read it all
	})
	t.Run("xterm", func(t *testing.T) {
		x := s.Xterm(t, desktest.XtermOptions{})
		defer x.Stop()
		typeAll(t, d, text)
		shows(t, text, func() string { return x.Typed(t) })
		desktest.Eventually(t, "the keys are given back", func() bool { return keymap(t, s) == before })
	})
}

// TestTypeLate types into applications that read nothing before all is typed.
func TestTypeLate(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	d := openDisplay(t, s, nil)
	text := mixed(200)
	t.Run("GTK", func(t *testing.T) {
		g := s.GTK(t, desktest.GTKOptions{})
		defer g.Stop()
		g.Pause()
		more := ideographs('丁', 20)
		typeAll(t, d, text)
		typeAll(t, d, more)
		g.Resume()
		shows(t, text+more, func() string { return g.State(t).Entry })
		desktest.Eventually(t, "the keys are given back", func() bool { return keymap(t, s) == before })
	})
	t.Run("xterm", func(t *testing.T) {
		x := s.Xterm(t, desktest.XtermOptions{})
		defer x.Stop()
		x.Pause()
		typeAll(t, d, text)
		x.Resume()
		shows(t, text, func() string { return x.Typed(t) })
		desktest.Eventually(t, "the keys are given back", func() bool { return keymap(t, s) == before })
	})
	t.Run("Xlib", func(t *testing.T) {
		late := newLateReader(t, s)
		typeAll(t, d, text+"\n")
		same(t, late.read(), text+"\n")
	})
}

// TestTypeWaitsForSpareKeys types more than there are spare keys for into an application
// that hangs at first: the keys must not get other symbols before it has read the text.
func TestTypeWaitsForSpareKeys(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	d := openDisplay(t, s, nil)
	g := s.GTK(t, desktest.GTKOptions{})
	g.Pause()
	text := ideographs('一', 400)
	done := make(chan error, 1)
	go func() {
		_, err := d.Type(t.Context(), text)
		done <- err
	}()
	other := openAnother(t, s)
	desktest.Eventually(t, "spare keys are lent", func() bool {
		others, _, err := other.keyboard.records(t.Context())
		return err == nil && len(others) > 50
	})
	g.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	shows(t, text, func() string { return g.State(t).Entry })
}

// TestTypeIntoTwo types into an application that hangs and then into another that does not:
// that the second has read its text says nothing about the first.
func TestTypeIntoTwo(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	d := openDisplay(t, s, nil)
	first := s.GTK(t, desktest.GTKOptions{})
	first.Pause()
	typeAll(t, d, "中文 abc")
	second := s.GTK(t, desktest.GTKOptions{}) // gets the focus
	typeAll(t, d, "日本 xyz")
	shows(t, "日本 xyz", func() string { return second.State(t).Entry })
	first.Resume()
	shows(t, "中文 abc", func() string { return first.State(t).Entry })
	desktest.Eventually(t, "the keys are given back", func() bool { return keymap(t, s) == before })
}

// lateReader is a program on bare Xlib that reads its events when it is told to.
type lateReader struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Scanner
}

func newLateReader(t testing.TB, s *desktest.Server) *lateReader {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", "testdata/late.py")
	cmd.Env = append(s.Env(), "LC_ALL=C.UTF-8")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a program on Xlib (make setup installs what it needs): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := &lateReader{t: t, in: in, out: bufio.NewScanner(out)}
	if !r.out.Scan() {
		t.Fatal("the program on Xlib did not start")
	}
	return r
}

// read makes the program read its events and returns the text up to the end of a line.
func (r *lateReader) read() string {
	r.t.Helper()
	if _, err := io.WriteString(r.in, "\n"); err != nil {
		r.t.Fatal(err)
	}
	if !r.out.Scan() {
		r.t.Fatal("the program on Xlib has ended")
	}
	var text strings.Builder
	for word := range strings.FieldsSeq(r.out.Text()) {
		symbol, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			r.t.Fatal(err)
		}
		if char, ok := computer.Key(symbol).Rune(); ok {
			text.WriteRune(char)
		} else {
			fmt.Fprintf(&text, "<%x>", symbol)
		}
	}
	return text.String()
}

// TestTypeWithLocks types with Caps Lock and Num Lock on.
func TestTypeWithLocks(t *testing.T) {
	const capsLock, numLock = 0xffe5, 0xff7f
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	d := openDisplay(t, s, nil)
	for _, key := range []computer.Key{capsLock, numLock} {
		if err := d.Send(t.Context(), append(press(key), letGo(key)...)...); err != nil {
			t.Fatal(err)
		}
	}
	before, err := d.keyboard.xkb.state(t.Context())
	if err != nil || before.locked == 0 {
		t.Fatalf("the state is %+v, %v", before, err)
	}
	text := "Hello, WORLD 123 éÉ яЯ 中 ß"
	typeAll(t, d, text)
	shows(t, text, func() string { return g.State(t).Entry })
	if after, err := d.keyboard.xkb.state(t.Context()); err != nil || after != before {
		t.Errorf("the state is %+v, %v; want %+v", after, err, before)
	}
}

// TestTypeWithHeldKeys types while keys are held: our own are held again afterwards, and
// those of somebody else, who holds them for too long, do not change the text.
func TestTypeWithHeldKeys(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	d, other := openDisplay(t, s, nil), openAnother(t, s)
	text := "a: Hello, 中文 {1}"
	t.Run("ours", func(t *testing.T) {
		if err := d.Send(t.Context(), press(computer.KeyControl, computer.KeyShift)...); err != nil {
			t.Fatal(err)
		}
		before := s.KeysDown(t)
		typeAll(t, d, text)
		shows(t, text, func() string { return g.State(t).Entry })
		if after := s.KeysDown(t); string(after) != string(before) || len(after) != 2 {
			t.Errorf("down are the keys %v, want %v", after, before)
		}
		if err := d.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		nothingDown(t, s)
	})
	t.Run("another's", func(t *testing.T) {
		g.Clear(t)
		g.Focus(t, desktest.Entry)
		if err := other.Send(t.Context(), press(computer.KeyControl)...); err != nil {
			t.Fatal(err)
		}
		typeAll(t, d, text)
		shows(t, text, func() string { return g.State(t).Entry })
		nothingDown(t, s)
	})
}

// TestTypeTakesTurns has two connections type at the same time.
func TestTypeTakesTurns(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	g := s.GTK(t, desktest.GTKOptions{})
	texts := []string{"<" + mixed(400) + ">", "(" + ideographs('丁', 200) + mixed(200) + ")"}
	done := make(chan error)
	for _, text := range texts {
		d := openAnother(t, s)
		go func() {
			_, err := d.Type(t.Context(), text)
			done <- err
		}()
	}
	for range texts {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	desktest.Eventually(t, "the application has both texts", func() bool {
		got = g.State(t).Entry
		return len(got) >= len(texts[0])+len(texts[1])
	})
	if got[0] != '<' {
		texts[0], texts[1] = texts[1], texts[0]
	}
	same(t, got, texts[0]+texts[1])
	desktest.Eventually(t, "the keys are given back", func() bool { return keymap(t, s) == before })
}

// TestTypeAcrossLayoutChanges has the layout change between texts whose keys are still lent,
// and while a text is typed. The last layout stays as it was set.
func TestTypeAcrossLayoutChanges(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	d := openDisplay(t, s, nil)
	s.Layout(t, "ru")
	want := keymap(t, s)
	s.Layout(t, "us")
	x := s.Xterm(t, desktest.XtermOptions{})
	text := ""
	for _, layout := range []string{"ru", "de", "us", "fr"} {
		// xterm does not say that it has read the text: the keys stay lent.
		part := "abc xyz QY;{} 中文 абв é"
		text += part
		typeAll(t, d, part)
		shows(t, text, func() string { return x.Typed(t) })
		s.Layout(t, layout)
	}
	typing := make(chan error, 1)
	go func() {
		_, err := d.Type(t.Context(), mixed(3000))
		typing <- err
	}()
	for running := true; running; {
		select {
		case err := <-typing:
			if err != nil {
				t.Error(err)
			}
			running = false
		default:
			s.Layout(t, "us")
			s.Layout(t, "ru")
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	same(t, keymap(t, s), want)
	nothingDown(t, s)
}

// typeOn, an environment variable, makes TestTypeUntilKilled the program that
// TestTypeKilled kills: it names the display.
const typeOn = "LOUPE_TEST_TYPE_ON"

// TestTypeUntilKilled is the part of TestTypeKilled that runs in a process of its own.
func TestTypeUntilKilled(t *testing.T) {
	name, run := os.LookupEnv(typeOn)
	if !run {
		return
	}
	d, err := Open(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := d.Type(t.Context(), mixed(100)+ideographs('一', 300)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTypeKilled kills a process while it types. The next connection restores the map.
func TestTypeKilled(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	s.Xterm(t, desktest.XtermOptions{})
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTypeUntilKilled$")
		cmd.Env = append(os.Environ(), typeOn+"="+s.Name())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := false
		t.Cleanup(func() {
			if !killed {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
		desktest.Eventually(t, "keys are lent", func() bool { return keymap(t, s) != before })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		killed = true
		if keymap(t, s) == before {
			t.Error("the map is as it was although the process was killed")
		}
		desktest.Eventually(t, "the next connection restores the map", func() bool {
			if err := openDisplay(t, s, nil).Close(); err != nil {
				t.Fatal(err)
			}
			return keymap(t, s) == before
		})
	}
}

// TestTypeCancelled ends the context in the middle: the count is that of the characters
// that have arrived, nothing stays pressed and the map is restored.
func TestTypeCancelled(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	x := s.Xterm(t, desktest.XtermOptions{})
	d := openDisplay(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	text := strings.Repeat("Hello, 中文! ", 20000)
	result := make(chan int, 1)
	go func() {
		n, err := d.Type(ctx, text)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		result <- n
	}()
	desktest.Eventually(t, "some has arrived", func() bool { return len(x.Typed(t)) > 1000 })
	cancel()
	n := <-result
	if n == 0 || n == len([]rune(text)) {
		t.Fatalf("typed %d", n)
	}
	shows(t, string([]rune(text)[:n]), func() string { return x.Typed(t) })
	nothingDown(t, s)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	same(t, keymap(t, s), before)
}

// TestTypeStopped holds that typing ends with its context when the server does not answer,
// and goes on when it does.
func TestTypeStopped(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	d := openDisplay(t, s, nil)
	g := s.GTK(t, desktest.GTKOptions{})
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if n, err := d.Type(ctx, "中文"); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("typed %d, %v", n, err)
	}
	s.Resume()
	typeAll(t, d, "中文")
	shows(t, "中文", func() string { return g.State(t).Entry })
	s.Kill()
	if n, err := d.Type(t.Context(), "中文"); n != 0 || !errors.Is(err, computer.ErrClosed) {
		t.Errorf("typed %d, %v", n, err)
	}
}

// TestTypeImpossible holds that what cannot be typed is said before anything is typed.
func TestTypeImpossible(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	d := openDisplay(t, s, nil)
	refuse := func(text, want string) {
		t.Helper()
		n, err := d.Type(t.Context(), text)
		var input *computer.InputError
		if n != 0 || !errors.As(err, &input) || input.Text != want {
			t.Errorf("typing %q: %d, %v; want %s", text, n, err, want)
		}
	}
	refuse("ab\ac", "U+0007 is not a character that can be typed; typed 0 of 4 characters")
	refuse("ab\xffc", "the text is not valid UTF-8 at character 3; typed 0 of 4 characters")

	// A keyboard on which every key makes something.
	l, err := d.keyboard.xkb.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[xproto.Keycode]keyRow{}
	for c := int(l.min); c <= int(l.max); c++ {
		if code := xproto.Keycode(c); l.rows[c].empty() || onlyMedia(l.rows[c]) {
			rows[code] = lentRow('x', 'X')
		}
	}
	if err := d.keyboard.xkb.write(t.Context(), l, rows); err != nil {
		t.Fatal(err)
	}
	refuse("ab中", "there is no key for U+4E2D: the keyboard has no spare key; typed 0 of 3 characters")
	typeAll(t, d, "ok")
	shows(t, "ok", func() string { return g.State(t).Entry })
}

// TestTypeBesideClaims types while another client has claimed most spare keys for itself, in
// the two ways that there are.
func TestTypeBesideClaims(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	d, other := openDisplay(t, s, nil), openAnother(t, s)
	l, _, _, err := other.keyboard.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	codes, err := other.keyboard.spare(t.Context(), l, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, code := range codes {
		switch i % 3 {
		case 0:
			err = xproto.GrabKeyChecked(other.x, false, other.root, xproto.ModMaskAny, code, xproto.GrabModeAsync, xproto.GrabModeAsync).Check()
		case 1:
			cookie := other.x.NewCookie(true, true)
			other.x.NewRequest(other.keyboard.xiGrab(code), cookie)
			_, err = cookie.Reply()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text := ideographs('一', 100)
	typeAll(t, d, text)
	shows(t, text, func() string { return g.State(t).Entry })
}

// BenchmarkType types 1,000 mixed characters into a GTK entry until that has them all.
func BenchmarkType(b *testing.B) {
	s := desktest.Xvfb(b, desktest.Options{})
	g := s.GTK(b, desktest.GTKOptions{})
	d := openDisplay(b, s, nil)
	text := mixed(1000)
	for b.Loop() {
		b.StopTimer()
		g.Clear(b)
		g.Focus(b, desktest.Entry)
		b.StartTimer()
		typeAll(b, d, text)
		shows(b, text, func() string { return g.State(b).Entry })
	}
}
