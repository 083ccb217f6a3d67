//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"image"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loupe-tools/loupe/sandbox"
)

// notes keeps events.
type notes struct {
	mu  sync.Mutex
	all []sandbox.Event
}

func (n *notes) add(e sandbox.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, e)
}

// of returns the text of the events of a kind, one a line.
func (n *notes) of(kind sandbox.EventKind) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var text strings.Builder
	for _, e := range n.all {
		if e.Kind == kind {
			text.WriteString(e.Text + "\n")
		}
	}
	return text.String()
}

// parts returns the processes of the only desktop that this process has at the time, once
// all of its parts are there.
func parts(t *testing.T) (all []inProc) {
	t.Helper()
	until(t, "the desktop's parts", func() bool {
		all = descendants(listProc(), os.Getpid())
		for _, name := range []string{"loupe-guest", "Xvfb", "dbus-daemon", "mutter", "tint2"} {
			if len(named(all, name)) != 1 {
				return false
			}
		}
		return true
	})
	return all
}

// TestEssentialPartKilled kills what a desktop cannot do without: it ends, says why, and leaves
// nothing.
func TestEssentialPartKilled(t *testing.T) {
	for _, test := range []struct {
		part      string
		noSandbox bool
		says      string
	}{
		{"Xvfb", false, "Xvfb"},
		{"Xvfb", true, "Xvfb"},
		{"loupe-guest", false, "the desktop has ended: "},
		{"loupe-guest", true, "the desktop has ended: "},
		{"bwrap", false, "the desktop has ended: "},
	} {
		name := test.part
		if test.noSandbox {
			name += " without a sandbox"
		}
		t.Run(name, func(t *testing.T) {
			l := newLife(t, t.TempDir())
			l.owner = os.Getpid()
			if test.noSandbox { // another user's folder is made there
				dir, err := os.MkdirTemp("", "life")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				t.Setenv("TMPDIR", dir)
				l.temp = dir
			}
			told := &notes{}
			d := start(t, &sandbox.Options{NoSandbox: test.noSandbox, Event: told.add})
			for _, p := range parts(t) {
				l.seen[p.pid] = p.start
				if p.uid != os.Getuid() {
					l.users[p.uid] = true
				}
			}
			if err := syscall.Kill(named(parts(t), test.part)[0].pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-d.Done()
			err := d.Err()
			if !errors.Is(err, sandbox.ErrEnded) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the desktop ended with: %v", err)
			}
			if got := told.of(sandbox.EventEnd); got != err.Error()+"\n" {
				t.Errorf("the event says %q, and the error %q", got, err)
			}
			if _, err := d.Display().Capture(t.Context(), image.Rect(0, 0, 10, 10)); err == nil {
				t.Error("there is a screenshot of a display that is gone")
			}
			if err := d.Command("true").Run(t.Context()); !errors.Is(err, sandbox.ErrEnded) {
				t.Errorf("a command on a desktop that has ended: %v", err)
			}
			if _, _, err := d.CopyOut(t.Context(), "*", t.TempDir()); !errors.Is(err, sandbox.ErrEnded) {
				t.Errorf("copying from a desktop that has ended: %v", err)
			}
			// What has lost its parent is the first process's to collect.
			until(t, "nothing is left", func() bool { return len(l.left()) == 0 })
		})
	}
}

// TestKilledWhileUsed kills the display's server in the midst of calls: each of them returns, and
// the last ones with an error.
func TestKilledWhileUsed(t *testing.T) {
	d := start(t, nil)
	server := named(parts(t), "Xvfb")[0]
	var using sync.WaitGroup
	begun := make(chan struct{})
	using.Go(func() {
		for n := 0; ; n++ {
			if _, err := d.Display().Capture(context.Background(), image.Rectangle{Max: d.Size()}); err != nil {
				return
			}
			if n == 3 {
				close(begun)
			}
		}
	})
	for range 4 {
		using.Go(func() {
			for d.Command("true").Run(context.Background()) == nil {
			}
		})
	}
	var failed error
	using.Go(func() { failed = d.Command("sleep", "1001").Run(context.Background()) })
	<-begun
	if err := syscall.Kill(server.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	using.Wait()
	<-d.Done()
	if !errors.Is(failed, sandbox.ErrEnded) {
		t.Errorf("the command that ran: %v", failed)
	}
}

// TestPartRestarted kills what can be started again.
func TestPartRestarted(t *testing.T) {
	told := &notes{}
	d := start(t, &sandbox.Options{Event: told.add})
	for _, part := range []string{"mutter", "tint2", "dbus-daemon"} {
		before := named(parts(t), part)[0]
		if err := syscall.Kill(before.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, part+" is started again", func() bool {
			now := named(descendants(listProc(), os.Getpid()), part)
			return len(now) == 1 && now[0].pid != before.pid
		})
		until(t, "an event says so", func() bool {
			return strings.Contains(told.of(sandbox.EventExit), part+" was ended by signal SIGKILL and is started again.\n")
		})
	}
	// They work, too.
	until(t, "a window manager announces itself", func() bool {
		return strings.Contains(output(t, d, "xprop -root _NET_SUPPORTING_WM_CHECK"), "window id")
	})
	until(t, "the bus answers", func() bool {
		return d.Command("dbus-send", "--session", "--dest=org.freedesktop.DBus", "--print-reply", "/", "org.freedesktop.DBus.GetId").Run(t.Context()) == nil
	})
	select {
	case <-d.Done():
		t.Errorf("the desktop has ended: %v", d.Err())
	default:
	}
}
