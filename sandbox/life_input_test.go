//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/sandbox"
)

// refused checks that a start failed as it should, in one sentence, and left nothing running.
func refused(t *testing.T, d *sandbox.Desktop, err, kind error, says string) {
	t.Helper()
	if err == nil {
		_ = d.Close()
		t.Fatal("the desktop started")
	}
	if d != nil {
		t.Error("there is a desktop beside the error")
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("the error %q is not of the kind %q", err, kind)
	}
	if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error says %q, and should say %q in one sentence", err, says)
	}
	until(t, "nothing runs any more", func() bool { return len(descendants(listProc(), os.Getpid())) == 0 })
}

func TestBadOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		options sandbox.Options
		kind    error
		says    string
	}{
		{"no height", sandbox.Options{Size: image.Pt(1280, 0)}, sandbox.ErrInvalid, "1280x0"},
		{"negative", sandbox.Options{Size: image.Pt(-1280, -800)}, sandbox.ErrInvalid, "-1280x-800"},
		{"small", sandbox.Options{Size: image.Pt(319, 200)}, sandbox.ErrInvalid, "at least 320x200"},
		{"large", sandbox.Options{Size: image.Pt(3841, 2160)}, sandbox.ErrInvalid, "at most 3840x2160"},
		{"huge", sandbox.Options{Size: image.Pt(1<<40, 1<<40)}, sandbox.ErrInvalid, "at most 3840x2160"},
		{"name with a slash", sandbox.Options{Name: "a/b"}, sandbox.ErrInvalid, `"a/b"`},
		{"name that is a folder", sandbox.Options{Name: ".."}, sandbox.ErrInvalid, `".."`},
		{"name with a zero", sandbox.Options{Name: "a\x00b"}, sandbox.ErrInvalid, `"a\x00b"`},
		{"name too long", sandbox.Options{Name: strings.Repeat("n", 65)}, sandbox.ErrInvalid, "64 at most"},
		{"name of a space", sandbox.Options{Name: " "}, sandbox.ErrInvalid, `" "`},
		{"unknown application", sandbox.Options{Apps: []string{"no-such-application"}}, nil, "no-such-application"},
		{"application by a path", sandbox.Options{Apps: []string{"../bin/true"}}, nil, "../bin/true"},
		{"application twice", sandbox.Options{Apps: []string{"xterm", "xterm"}}, sandbox.ErrInvalid, "xterm"},
		{"time zone", sandbox.Options{TimeZone: "../../etc/passwd"}, sandbox.ErrInvalid, "../../etc/passwd"},
		{"scale", sandbox.Options{Scale: 0.1}, sandbox.ErrInvalid, "0.1"},
		{"rule", sandbox.Options{Allow: []string{"http://example.org/"}}, sandbox.ErrInvalid, "example.org"},
		{"little memory", sandbox.Options{Limits: sandbox.Limits{Memory: 1}}, sandbox.ErrInvalid, "memory"},
		{"few processes", sandbox.Options{Limits: sandbox.Limits{Processes: -1}}, sandbox.ErrInvalid, "processes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := sandbox.Start(t.Context(), &test.options)
			refused(t, d, err, test.kind, test.says)
		})
	}
}

func TestExtremeSizes(t *testing.T) {
	for _, size := range []image.Point{{320, 200}, {3840, 2160}} {
		d := start(t, &sandbox.Options{Size: size})
		if got, err := d.Display().Size(t.Context()); err != nil || got != size {
			t.Errorf("the display has %v, %v, and was to have %v", got, err, size)
		}
		if shot, err := d.Display().Capture(t.Context(), image.Rectangle{Max: size}); err != nil || shot.Rect.Size() != size {
			t.Errorf("a screenshot of %v: %v", size, err)
		}
	}
}

func TestBadApplications(t *testing.T) {
	d, err := sandbox.Start(t.Context(), &sandbox.Options{Apps: []string{"false"}})
	refused(t, d, err, sandbox.ErrEnded, "false ended with status 1 before it had shown a window")
	d, err = sandbox.StartChanged(t.Context(), &sandbox.Options{Apps: []string{"dbus-monitor"}}, sandbox.Changes{WindowsIn: time.Second})
	refused(t, d, err, sandbox.ErrEnded, "dbus-monitor has not shown a window within 1s")
}

func TestManagers(t *testing.T) {
	d, err := sandbox.StartChanged(context.WithoutCancel(t.Context()), nil,
		sandbox.Changes{Managers: [][]string{{"no-such-manager"}, {"openbox"}}})
	if err != nil {
		t.Fatal(err)
	}
	if names := named(descendants(listProc(), os.Getpid()), "openbox"); len(names) != 1 {
		t.Errorf("openbox runs %d times", len(names))
	}
	_ = d.Close()
	d, err = sandbox.StartChanged(t.Context(), nil, sandbox.Changes{Managers: [][]string{{"no-such-manager"}}})
	refused(t, d, err, nil, "there is no window manager; install mutter or openbox")
	d, err = sandbox.StartChanged(t.Context(), nil, sandbox.Changes{Managers: [][]string{{"false"}}, Within: 2 * time.Second})
	refused(t, d, err, nil, "the desktop did not come up within 2s")
}

func TestNotReadied(t *testing.T) {
	d, err := sandbox.StartChanged(t.Context(), nil, sandbox.Changes{NotReadied: true})
	refused(t, d, err, nil, "sandbox.RunGuest")
}

// TestBubblewrap starts desktops where bubblewrap is missing or does not do its work.
func TestBubblewrap(t *testing.T) {
	for _, test := range []struct {
		name, script string
		kind         error
		says         string
	}{
		{"missing", "", sandbox.ErrNoSandbox, "bubblewrap is not installed, so the desktop cannot be isolated; loupe doctor says what to install"},
		{"no namespaces", `echo "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'." >&2; exit 1`,
			sandbox.ErrNoSandbox, "loupe doctor"},
		{"no map of users", `echo "bwrap: setting up uid map: Permission denied" >&2; exit 1`, sandbox.ErrNoSandbox, "setting up uid map: Permission denied"},
		{"old", `echo "bwrap: Unknown option --perms" >&2; exit 1`, sandbox.ErrEnded, "Unknown option --perms"},
		{"silent", `exit 3`, sandbox.ErrEnded, "exit status 3"},
		{"well", `exit 0`, sandbox.ErrEnded, "the sandbox did not start"},
		{"garbage", `printf 'no message' >&3; printf '\377\376 what is this\n'; printf '\377\376\n' >&2; exec sleep 1001`, sandbox.ErrEnded, "the sandbox did not start"},
		{"much", `head -c 10000000 /dev/zero; head -c 10000000 /dev/urandom >&2; exit 1`, sandbox.ErrEnded, "the sandbox did not start"},
		{"hanging", `exec sleep 1001`, sandbox.ErrEnded, "the desktop did not come up within 2s"},
		{"hanging with children", `sleep 1001 & sleep 1001`, sandbox.ErrEnded, "the desktop did not come up within 2s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) { // another user runs it
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if test.script != "" {
				if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			d, err := sandbox.StartChanged(t.Context(), nil, sandbox.Changes{Within: 2 * time.Second})
			refused(t, d, err, test.kind, test.says)
		})
	}
}

func TestNamesAlike(t *testing.T) {
	name := fmt.Sprintf("alike-%d", os.Getpid())
	const many = 4
	var desktops [many]*sandbox.Desktop
	var errs [many]error
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() { desktops[i], errs[i] = sandbox.Start(context.Background(), &sandbox.Options{Name: name}) })
	}
	all.Wait()
	started := 0
	for i, d := range desktops {
		if d != nil {
			started++
			defer func() { _ = d.Close() }()
		} else if !errors.Is(errs[i], sandbox.ErrNameTaken) || !strings.Contains(errs[i].Error(), name) {
			t.Errorf("a name that is taken: %v", errs[i])
		}
	}
	if started != 1 {
		t.Errorf("%d desktops of one name have started", started)
	}
	if err := sandbox.Stop(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	d := start(t, &sandbox.Options{Name: name}) // the name is free again
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d := start(t, nil)
	if _, err := d.LiveView(t.Context(), taken.Addr().String(), nil); !errors.Is(err, sandbox.ErrAddress) || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("a live view where something listens: %v", err)
	}
	output(t, d, "true") // the desktop goes on
}

// TestDiskFull fills the home folder, and uses the desktop then.
func TestDiskFull(t *testing.T) {
	told := &notes{}
	d := start(t, &sandbox.Options{Limits: sandbox.Limits{Disk: 16 << 20}, Event: told.add})
	output(t, d, "echo kept > small; head -c 1000000000 /dev/zero > large 2>/dev/null || echo full")
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.CopyIn(t.Context(), file); err == nil || !strings.Contains(err.Error(), "the desktop's disk is full") {
		t.Errorf("copying to a full disk: %v", err)
	}
	out := t.TempDir()
	if _, _, err := d.CopyOut(t.Context(), "small", out); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(out, "small")); err != nil || string(text) != "kept\n" {
		t.Errorf("the file that was copied out: %q, %v", text, err)
	}
	until(t, "an event of the disk", func() bool { return told.of(sandbox.EventLimit) != "" })
	output(t, d, "rm large")
	if err := d.CopyIn(t.Context(), file); err != nil {
		t.Errorf("copying to a disk that has room again: %v", err)
	}
	if got := output(t, d, "stat -c %s in"); got != "1048576" {
		t.Errorf("the file that was copied in has %s bytes", got)
	}
}

// TestSurroundings starts desktops for callers whose own limits and masks are not those that a
// desktop should have.
func TestSurroundings(t *testing.T) {
	mask := syscall.Umask(0o777)
	defer syscall.Umask(mask)
	t.Setenv("PATH", "")
	d, err := sandbox.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if got := output(t, d, "umask"); got != "0022" {
		t.Errorf("inside, the umask is %q", got)
	}
	for _, o := range []sandbox.Options{
		{Limits: sandbox.Limits{Memory: 1 << 50}},
		{Limits: sandbox.Limits{Memory: 512 << 20, Disk: 1 << 30}},
	} {
		if _, err := sandbox.Start(t.Context(), &o); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("with %+v: %v", o.Limits, err)
		}
	}
}
