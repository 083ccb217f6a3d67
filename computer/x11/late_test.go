package x11

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// lateness is how long an application in a test reads nothing. It is longer than keys stay
// lent to one that seems to have read what was typed.
const lateness = 4 * time.Second

// typeAndClose opens a display, types a text and closes it, as a command does. The result is
// that of closing, which must not come before the application reads.
func typeAndClose(t testing.TB, s *desktest.Server, text string) <-chan error {
	t.Helper()
	d := openDisplay(t, s, nil)
	typeAll(t, d, text)
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	late := time.NewTimer(lateness)
	defer late.Stop()
	select {
	case err := <-closed:
		t.Errorf("closed before the text was read, %v", err)
		closed <- err
	case <-late.C:
	}
	return closed
}

// TestTypeLateAtClose types into applications that read nothing until some time after the
// display was closed.
func TestTypeLateAtClose(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	text := "漢字 Ж " + mixed(200)
	closes := func(t *testing.T, closed <-chan error) {
		t.Helper()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		same(t, keymap(t, s), before)
	}
	t.Run("GTK", func(t *testing.T) {
		g := s.GTK(t, desktest.GTKOptions{})
		defer g.Stop()
		g.Pause()
		closed := typeAndClose(t, s, text)
		g.Resume()
		closes(t, closed)
		shows(t, text, func() string { return g.State(t).Entry })
	})
	t.Run("xterm", func(t *testing.T) {
		x := s.Xterm(t, desktest.XtermOptions{})
		defer x.Stop()
		x.Pause()
		closed := typeAndClose(t, s, text)
		x.Resume()
		closes(t, closed)
		shows(t, text, func() string { return x.Typed(t) })
	})
	t.Run("xterm beside a clock", func(t *testing.T) {
		x := s.Xterm(t, desktest.XtermOptions{})
		defer x.Stop()
		p := newPainter(t, s)
		clock := p.window(p.bounds().Add(p.bounds().Size().Div(2)))
		x.Focus(t)
		x.Pause()
		ticking, stop := context.WithCancel(t.Context())
		ticked := make(chan struct{})
		go func() {
			defer close(ticked)
			tick := time.NewTicker(700 * time.Millisecond)
			defer tick.Stop()
			for colour := uint32(0); ; colour += 50 {
				select {
				case <-tick.C:
					p.fillWindow(clock, p.bounds(), colour)
				case <-ticking.Done():
					return
				}
			}
		}()
		closed := typeAndClose(t, s, text)
		stop()
		<-ticked
		x.Resume()
		closes(t, closed)
		shows(t, text, func() string { return x.Typed(t) })
	})
	t.Run("Xlib", func(t *testing.T) { // shows nothing either
		late := newLateReader(t, s)
		closed := typeAndClose(t, s, text+"\n")
		same(t, late.read(), text+"\n")
		closes(t, closed)
	})
}

// TestTypeManyLate types more than there are spare keys for into an xterm that hangs at
// first.
func TestTypeManyLate(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	d := openDisplay(t, s, nil)
	x := s.Xterm(t, desktest.XtermOptions{})
	x.Pause()
	text := ideographs('一', 400)
	typed := make(chan error, 1)
	go func() {
		_, err := d.Type(t.Context(), text)
		typed <- err
	}()
	late := time.NewTimer(lateness)
	defer late.Stop()
	select {
	case err := <-typed:
		t.Fatalf("typed it all before any was read, %v", err)
	case <-late.C:
	}
	x.Resume()
	if err := <-typed; err != nil {
		t.Fatal(err)
	}
	shows(t, text, func() string { return x.Typed(t) })
}

// TestTypeNeverRead closes a display while an application does not read what was typed.
func TestTypeNeverRead(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	before := keymap(t, s)
	g := s.GTK(t, desktest.GTKOptions{})
	d, err := Open(t.Context(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d.keyboard.closePatience = time.Second
	g.Pause()
	typeAll(t, d, "漢")
	if err := d.Close(); !errors.Is(err, ErrUnread) {
		t.Errorf("closing: %v, want %v", err, ErrUnread)
	}
	same(t, keymap(t, s), before)
	if err := d.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// TestTypeLateOnHungDisplay closes a display whose server stops answering while closing
// waits for an application.
func TestTypeLateOnHungDisplay(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	d := openDisplay(t, s, nil)
	g.Pause()
	typeAll(t, d, "漢")
	s.Pause()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	s.Resume()
}

// TestTypeKilledWithCapsLock kills a process while it types, which is done without Caps
// Lock. The next connection puts it on again.
func TestTypeKilledWithCapsLock(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	s.Xterm(t, desktest.XtermOptions{})
	watch := openDisplay(t, s, nil)
	locked := func(d *Display) byte {
		state, err := d.keyboard.xkb.state(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state.locked
	}
	if err := watch.keyboard.xkb.lock(t.Context(), modLock, modLock); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTypeUntilKilled$")
		cmd.Env = append(os.Environ(), typeOn+"="+s.Name())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		desktest.Eventually(t, "Caps Lock is off", func() bool { return locked(watch) == 0 })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		desktest.Eventually(t, "the next connection puts Caps Lock on", func() bool {
			d, err := Open(t.Context(), s.Name(), nil)
			if err != nil {
				t.Fatal(err)
			}
			on := locked(d) == modLock
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			return on
		})
	}
}
