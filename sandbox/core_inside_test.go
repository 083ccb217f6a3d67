//go:build linux

package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/sandbox"
)

// What is mounted inside, and what of it can be written.
func TestInside(t *testing.T) {
	secret := "secret-" + t.Name()
	t.Setenv("LOUPE_TEST_SECRET", secret)
	d := start(t, &sandbox.Options{Apps: []string{"xterm"}})

	t.Run("writable folders", func(t *testing.T) {
		// Below the own /proc there is nothing to be made, whatever its modes say.
		got := strings.Fields(output(t, d, `find / -path /proc -prune -o -type d -writable -print 2>/dev/null | while read -r dir; do
			(: >"$dir/.probe") 2>/dev/null && rm "$dir/.probe" && echo "$dir"; done`))
		for _, dir := range got {
			if !slices.ContainsFunc([]string{"/home/user", "/tmp", "/run/user/1000", "/dev/shm"}, func(below string) bool {
				return dir == below || strings.HasPrefix(dir, below+"/")
			}) {
				t.Errorf("%s can be written", dir)
			}
		}
		for _, dir := range []string{"/home/user", "/tmp", "/run/user/1000", "/dev/shm"} {
			if !slices.Contains(got, dir) {
				t.Errorf("%s cannot be written", dir)
			}
		}
		for _, line := range []string{"echo x >>/etc/passwd", "rm -f /etc/passwd", "mv /etc/hosts /etc/x", "mkdir /x", "mkdir /etc/x", "touch /usr/x",
			"touch /dev/x", "touch /run/x", "touch /home/x", "touch /var/x", "touch /run/loupe/x", "ln -s x /bin/x", "chmod 777 /etc/passwd"} {
			if err := d.Command("sh", "-c", line).Run(t.Context()); err == nil {
				t.Errorf("%s: it could be done", line)
			}
		}
	})
	t.Run("mounts", func(t *testing.T) {
		seen := map[string]bool{}
		for _, line := range strings.Split(output(t, d, "cat /proc/self/mountinfo"), "\n") {
			f := strings.Fields(line) // number, parent, device, root, place, options...
			place, options := f[4], strings.Split(f[5], ",")
			seen[place] = true
			writes := slices.Contains([]string{"/proc", "/dev/pts", "/dev/shm", "/tmp", "/home/user", "/run/user/1000"}, place) ||
				strings.HasPrefix(place, "/dev/") // the devices that everybody has
			if !writes && !slices.Contains(options, "ro") {
				t.Errorf("%s is not read-only: %s", place, line)
			}
			if !slices.Contains(options, "nosuid") {
				t.Errorf("%s is not nosuid: %s", place, line)
			}
			if !strings.HasPrefix(place, "/dev") && !slices.Contains(options, "nodev") {
				t.Errorf("%s is not nodev: %s", place, line)
			}
		}
		for _, place := range []string{"/", "/usr", "/proc", "/dev", "/tmp", "/home/user", "/run/user/1000", "/dev/shm"} {
			if !seen[place] {
				t.Errorf("nothing is mounted at %s", place)
			}
		}
		if seen["/sys"] {
			t.Error("/sys is there")
		}
	})
	t.Run("sizes", func(t *testing.T) {
		if got := output(t, d, "df -B1 --output=size /home/user /tmp /dev/shm /run/user/1000 | tail -n +2 | tr -s ' \n' ' '"); got != "1073741824 536870912 1073741824 67108864" {
			t.Errorf("the sizes are %s", got)
		}
	})
	t.Run("environment", func(t *testing.T) {
		for _, line := range strings.Split(output(t, d, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\n' | sort -u"), "\n") {
			if strings.Contains(line, secret) || strings.HasPrefix(line, "LOUPE_") || strings.HasPrefix(line, "GO") {
				t.Errorf("the environment has %s", line)
			}
		}
	})
	t.Run("orphans", func(t *testing.T) {
		output(t, d, "for i in $(seq 200); do (sleep 0.01 &) ; done")
		until(t, "that orphans are collected", func() bool {
			return output(t, d, `cat /proc/[0-9]*/stat 2>/dev/null | grep -c '(sleep)' || true`) == "0"
		})
	})
}

// The callback of events may end the desktop.
func TestCloseFromEvent(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	ready := make(chan *sandbox.Desktop, 1)
	closed := make(chan struct{})
	d, err := sandbox.Start(t.Context(), &sandbox.Options{Apps: []string{"xterm"}, Event: func(e sandbox.Event) {
		if e.Kind == sandbox.EventExit {
			_ = (<-ready).Close()
			close(closed)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ready <- d
	_ = d.Command("pkill", "xterm").Run(t.Context()) // whose end may come too late to be told
	<-closed
	<-d.Done()
	if d.Err() != nil {
		t.Errorf("it ended with %v", d.Err())
	}
	_ = d.Close()
}

// An application that ends well without a window is noticed.
func TestAppWithoutWindow(t *testing.T) {
	d, err := sandbox.Start(t.Context(), &sandbox.Options{Apps: []string{"true"}})
	if err == nil {
		_ = d.Close()
	}
	if err == nil || err.Error() != "the application true ended with status 0 before it had shown a window" {
		t.Errorf("it started with %v", err)
	}
}
