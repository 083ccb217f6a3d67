//go:build linux

package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// held is what a process that holds a group says of it.
type held struct {
	Dirs           []string
	Sweeper, Child int
}

// holdAGroup is another loupe: it makes a group with a process in it, says so and waits.
func holdAGroup() {
	g, err := NewGroup("held", small)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	child := exec.Command("/bin/sleep", "inf")
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := g.Add(child.Process.Pid); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(held{g.place.dirs, g.sweeper.command.Process.Pid, child.Process.Pid})
	io.Copy(io.Discard, os.Stdin) // until the test ends
	g.Close()
	child.Wait()
}

// hasGroups tells whether a group can be made here. Where not, the error has to say why, and
// what a group does is tested on the emulated trees alone.
func hasGroups(t *testing.T) bool {
	t.Helper()
	g, err := NewGroup("try", small)
	if errors.Is(err, ErrNoCgroup) {
		if len(err.Error()) <= len(ErrNoCgroup.Error()) {
			t.Errorf("the error does not say what was tried: %v", err)
		}
		t.Logf("without control groups: %v", err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

// end waits for the end of a process that is not a child of this one.
func end(t *testing.T, pidfd int) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 30_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("the process does not end: %v", err)
		}
		return
	}
}

func pidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func another(t *testing.T) (*exec.Cmd, held) {
	t.Helper()
	c := exec.Command("/proc/self/exe", groupRole)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var h held
	if err := json.NewDecoder(out).Decode(&h); err != nil {
		t.Fatal(err)
	}
	return c, h
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return !errors.Is(err, os.ErrNotExist)
}

func TestKilledLoupeLeavesNoGroup(t *testing.T) {
	if !hasGroups(t) {
		return
	}
	loupe, h := another(t)
	sweeper, child := pidfd(t, h.Sweeper), pidfd(t, h.Child)
	for _, d := range h.Dirs {
		if !exists(d) {
			t.Fatalf("%s is not there", d)
		}
	}
	loupe.Process.Kill()
	loupe.Wait()
	end(t, child)
	end(t, sweeper)
	for _, d := range h.Dirs {
		if exists(d) {
			t.Errorf("%s is left", d)
		}
	}
}

func TestNextGroupRemovesWhatIsLeft(t *testing.T) {
	if !hasGroups(t) {
		return
	}
	living, alive := another(t)
	killed, h := another(t)
	sweeper, child := pidfd(t, h.Sweeper), pidfd(t, h.Child)
	unix.Kill(h.Sweeper, unix.SIGKILL)
	killed.Process.Kill()
	killed.Wait()
	unix.Kill(h.Child, unix.SIGKILL) // as the processes of a desktop end with their loupe
	end(t, sweeper)
	end(t, child)
	g, err := NewGroup("next", small)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range h.Dirs {
		if exists(d) {
			t.Errorf("%s is left", d)
		}
	}
	for _, d := range alive.Dirs {
		if !exists(d) {
			t.Errorf("%s of a living process is gone", d)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	living.Process.Kill()
	living.Wait()
}

func TestGroupHoldsAndCloses(t *testing.T) {
	if !hasGroups(t) {
		return
	}
	// A process that has already started another.
	c := exec.Command("/bin/sh", "-c", "sleep inf & echo started; wait")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	g, err := NewGroup("full", small)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	for _, d := range g.place.dirs {
		text, err := os.ReadFile(path.Join(d, "cgroup.procs"))
		if n := len(pids(string(text))); err != nil || n != 2 {
			t.Errorf("%s has %d processes, want 2: %v", d, n, err)
		}
	}
	done := make(chan struct{})
	go func() {
		g.Watch(t.Context(), func(e Event) { t.Errorf("event %+v", e) })
		close(done)
	}()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error("closing again:", err)
	}
	<-done // Watch ends with the group
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("the process in the group: %v, want that it was killed", err)
	}
	for _, d := range g.place.dirs {
		if exists(d) {
			t.Errorf("%s is left", d)
		}
	}
	if err := g.Add(os.Getpid()); err == nil {
		t.Error("a process was added to a closed group")
	}
}

func TestGroupNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "-x", "a b", "a\nb", strings.Repeat("a", 65), "ä"} {
		if g, err := NewGroup(name, small); err == nil {
			g.Close()
			t.Errorf("%q was accepted", name)
		}
	}
}

// emulated is a tree of control groups with the kernel's rules, as far as they matter.
type emulated struct {
	mountinfo, cgroup string
	dirs              map[string]*dir
}

type dir struct {
	controllers, enabled string
	owned                bool // we may write
	busy                 bool // it has processes of its own
	top                  bool // the root of the hierarchy
	settings             map[string]string
}

func (e *emulated) Read(p string) (string, error) {
	switch p {
	case "/proc/self/mountinfo":
		return e.mountinfo, nil
	case "/proc/self/cgroup":
		return e.cgroup, nil
	}
	d := e.dirs[path.Dir(p)]
	if d == nil {
		return "", unix.ENOENT
	}
	switch path.Base(p) {
	case "cgroup.controllers":
		return d.controllers + "\n", nil
	case "cgroup.subtree_control":
		return d.enabled + "\n", nil
	}
	v, ok := d.settings[path.Base(p)]
	if !ok {
		return "", unix.ENOENT
	}
	return v, nil
}

func (e *emulated) Write(p, value string) error {
	d, file := e.dirs[path.Dir(p)], path.Base(p)
	if d == nil {
		return unix.ENOENT
	}
	if !d.owned {
		return unix.EACCES
	}
	if file == "cgroup.subtree_control" {
		c := strings.TrimPrefix(value, "+")
		switch {
		case !strings.Contains(d.controllers, c):
			return unix.ENOENT
		case d.busy && !d.top:
			return unix.EBUSY
		}
		d.enabled = strings.TrimSpace(d.enabled + " " + c)
		return nil
	}
	if c, _, _ := strings.Cut(file, "."); !strings.Contains(d.controllers, c) || file == "memory.memsw.limit_in_bytes" {
		return unix.ENOENT
	}
	d.settings[file] = value
	return nil
}

func (e *emulated) Mkdir(p string) error {
	parent := e.dirs[path.Dir(p)]
	switch {
	case parent == nil:
		return unix.ENOENT
	case !parent.owned:
		return unix.EACCES
	}
	controllers := parent.enabled
	if parent.enabled == "" {
		controllers = parent.controllers // version 1 in these tests
	}
	e.dirs[p] = &dir{controllers: controllers, owned: true, settings: map[string]string{}}
	return nil
}

func (e *emulated) Rmdir(p string) error {
	if e.dirs[p] == nil {
		return unix.ENOENT
	}
	delete(e.dirs, p)
	return nil
}

func (e *emulated) List(string) ([]string, error) { return nil, nil }

func (e *emulated) Writable(p string) bool {
	d := e.dirs[path.Dir(p)]
	return d != nil && d.owned
}

const (
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"32 30 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
)

func TestWhereAGroupIsMade(t *testing.T) {
	const top = "/sys/fs/cgroup"
	user := top + "/user.slice/user-1000.slice"
	for _, c := range []struct {
		name   string
		kernel emulated
		want   []string // parents
		why    []string // parts of the error
	}{
		{
			name: "a terminal of a user whose systemd has been handed a tree",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-xterm.scope\n", dirs: map[string]*dir{
				top:                                   {controllers: "cpuset cpu io memory pids", enabled: "cpu memory pids", top: true},
				top + "/user.slice":                   {controllers: "cpu memory pids", enabled: "cpu memory pids"},
				user:                                  {controllers: "cpu memory pids", enabled: "cpu memory pids"},
				user + "/user@1000.service":           {controllers: "cpu memory pids", enabled: "cpu memory pids", owned: true},
				user + "/user@1000.service/app.slice": {controllers: "cpu memory pids", enabled: "memory pids", owned: true},
				user + "/user@1000.service/app.slice/" + "app-xterm.scope": {controllers: "memory pids", owned: true, busy: true},
			}},
			want: []string{user + "/user@1000.service/app.slice"},
		},
		{
			name: "the same where the controllers are not switched on",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-xterm.scope\n", dirs: map[string]*dir{
				user + "/user@1000.service":                                {controllers: "memory pids", enabled: "memory pids", owned: true},
				user + "/user@1000.service/app.slice":                      {controllers: "memory pids", owned: true},
				user + "/user@1000.service/app.slice/" + "app-xterm.scope": {owned: true, busy: true},
			}},
			want: []string{user + "/user@1000.service/app.slice"},
		},
		{
			name: "a session over the network",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/user.slice/user-1000.slice/session-3.scope\n", dirs: map[string]*dir{
				top:                       {controllers: "cpu memory pids", enabled: "cpu memory pids", top: true},
				top + "/user.slice":       {controllers: "cpu memory pids", enabled: "cpu memory pids"},
				user:                      {controllers: "cpu memory pids", enabled: "cpu memory pids"},
				user + "/session-3.scope": {controllers: "cpu memory pids", busy: true},
			}},
			why: []string{user + "/session-3.scope: processes may not be moved in it", "no tree of version 1"},
		},
		{
			name: "root in a session",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/user.slice/user-0.slice/session-3.scope\n", dirs: map[string]*dir{
				top + "/user.slice/user-0.slice":                 {controllers: "cpu memory pids", enabled: "cpu memory pids", owned: true},
				top + "/user.slice/user-0.slice/session-3.scope": {controllers: "cpu memory pids", owned: true, busy: true},
			}},
			want: []string{top + "/user.slice/user-0.slice"},
		},
		{
			name: "root of a container that sees nothing above it",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/\n", dirs: map[string]*dir{
				top: {controllers: "cpu memory pids", owned: true, busy: true},
			}},
			why: []string{top + ": device or resource busy"},
		},
		{
			name: "root where everything is at the top",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/\n", dirs: map[string]*dir{
				top: {controllers: "cpu memory pids", owned: true, busy: true, top: true},
			}},
			want: []string{top},
		},
		{
			name: "a group outside of what is mounted",
			kernel: emulated{mountinfo: mountV2, cgroup: "0::/../other\n", dirs: map[string]*dir{
				top: {controllers: "cpu memory pids", enabled: "memory pids", owned: true, busy: true},
			}},
			want: []string{top},
		},
		{
			name: "version 1 beside an empty version 2",
			kernel: emulated{mountinfo: strings.Replace(mountV2, "/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1) + mountV1,
				cgroup: "9:name=systemd:/\n8:pids:/a\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n", dirs: map[string]*dir{
					top + "/unified":     {owned: true, top: true},
					top + "/memory/a/b":  {controllers: "memory", owned: true},
					top + "/pids/a":      {controllers: "pids", owned: true},
					top + "/cpu,cpuacct": {controllers: "cpu", owned: true},
				}},
			want: []string{top + "/memory/a/b", top + "/pids/a", top + "/cpu,cpuacct"},
		},
		{
			name: "version 1 without processes",
			kernel: emulated{mountinfo: mountV1, cgroup: "4:memory:/\n1:cpu,cpuacct:/\n", dirs: map[string]*dir{
				top + "/memory":      {controllers: "memory", owned: true},
				top + "/cpu,cpuacct": {controllers: "cpu", owned: true},
			}},
			why: []string{"no tree of version 1 with the pids controller"},
		},
		{name: "no control groups at all", why: []string{"no tree of version 1 with the memory controller"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.kernel.dirs)
			g, err := newGroup(&c.kernel, "x", small)
			if c.want == nil {
				if !errors.Is(err, ErrNoCgroup) {
					t.Fatalf("%v, want ErrNoCgroup", err)
				}
				for _, w := range c.why {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%v does not say %q", err, w)
					}
				}
				if len(c.kernel.dirs) != before {
					t.Error("something is left")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			set := map[string]string{}
			for _, d := range g.place.dirs {
				got = append(got, path.Dir(d))
				for k, v := range c.kernel.dirs[d].settings {
					set[k] = v
				}
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("made in %q, want %q", got, c.want)
			}
			if m := set["memory.max"] + set["memory.limit_in_bytes"]; m != "268435456" || set["pids.max"] != "100" {
				t.Errorf("settings %v", set)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			if len(c.kernel.dirs) != before {
				t.Error("something is left")
			}
		})
	}
}
