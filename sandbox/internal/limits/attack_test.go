//go:build linux

package limits

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// small are limits under which an attack is over soon and does no harm while it lasts.
var small = Limits{Memory: 256 << 20, Disk: 96 << 20, Processes: 100, Files: 512}

// Roles in which this test binary runs itself.
const (
	guestRole = "be-the-guest"
	hogRole   = "be-a-hog"
	groupRole = "hold-a-group"
	applyRole = "apply-the-limits"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guestRole:
			beTheGuest(os.Args[2] == "cgroup", os.Args[3:])
			return
		case hogRole:
			beAHog(os.Args[2])
			return
		case applyRole:
			applyAndShow()
			return
		case groupRole:
			holdAGroup()
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// beTheGuest applies the limits, starts the attack and says what Watch reports, one JSON
// object a line, until it is ended.
func beTheGuest(cgroup bool, attack []string) {
	if err := Apply(small); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := exec.Command(attack[0], attack[1:]...)
	c.Stdout, c.Stderr = io.Discard, io.Discard
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go c.Wait() // ends with this process
	out := json.NewEncoder(os.Stdout)
	Watch(context.Background(), small, cgroup, func(e Event) { out.Encode(e) })
}

// beAHog takes one thing until there is no more, eight times the limit of memory at most,
// and keeps it.
func beAHog(what string) {
	const piece = 8 << 20
	touch := func(b []byte) {
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	for range 8 * small.Memory / piece {
		switch what {
		case "private memory":
			b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err == nil {
				touch(b)
			}
		case "files in memory":
			fd, err := unix.MemfdCreate("hog", 0)
			if err == nil {
				unix.Write(fd, make([]byte, piece))
			}
		case "shared memory":
			b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
			if err == nil {
				touch(b)
			}
		case "segments":
			if id, err := unix.SysvShmGet(unix.IPC_PRIVATE, piece, 0o600); err == nil {
				if b, err := unix.SysvShmAttach(id, 0, 0); err == nil {
					touch(b)
					unix.SysvShmDetach(b)
				}
			}
		case "files":
			for err := error(nil); err == nil; {
				_, err = unix.Open("/dev/null", unix.O_RDONLY, 0)
			}
			unix.Pause()
		}
	}
	unix.Pause()
}

// desk is a desktop under attack.
type desk struct {
	t      *testing.T
	cmd    *exec.Cmd
	group  *Group
	events chan Event
	stderr *strings.Builder
	cancel context.CancelFunc
	ended  chan struct{}
}

// start runs attack inside of bubblewrap as an ordinary user.
func start(t *testing.T, cgroup bool, attack ...string) *desk {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	mode := "alone"
	if cgroup {
		mode = "cgroup"
	}
	disk := fmt.Sprint(small.Disk)
	// The shell waits until it has been put into the group.
	args := []string{"-c", `read go; exec "$@"`, "sh", "bwrap", "--unshare-all", "--die-with-parent",
		"--new-session", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
		"--setenv", "GORACE", "atexit_sleep_ms=0",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev",
		"--size", disk, "--tmpfs", "/dev/shm", "--size", disk, "--tmpfs", "/tmp", "--size", disk, "--tmpfs", "/home/user",
		"--perms", "0555", "--ro-bind-data", "3", "/loupe", "--remount-ro", "/", "--remount-ro", "/dev",
		"--uid", "1000", "--gid", "1000", "/loupe", guestRole, mode}
	d := &desk{t: t, events: make(chan Event, 100), stderr: &strings.Builder{}, ended: make(chan struct{})}
	d.cmd = exec.Command("/bin/sh", append(args, attack...)...)
	d.cmd.ExtraFiles = []*os.File{self}
	d.cmd.Dir = "/"
	d.cmd.Stderr = d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		id := uint32(61100 + os.Getpid()%1000)
		d.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	gate, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cgroup {
		d.group, err = NewGroup("attack", small)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	watched := make(chan struct{})
	if cgroup {
		if err := d.group.Add(d.cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		go func() {
			d.group.Watch(ctx, func(e Event) { d.events <- e })
			close(watched)
		}()
	} else {
		close(watched)
	}
	fmt.Fprintln(gate)
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			var e Event
			if err := json.Unmarshal(in.Bytes(), &e); err != nil {
				t.Errorf("the guest said %q", in.Text())
			}
			d.events <- e
		}
		if !cgroup { // with one, the host has the last word
			close(d.events)
		}
		<-watched
		close(d.ended)
	}()
	t.Cleanup(d.stop)
	return d
}

func (d *desk) stop() {
	d.cancel()
	d.cmd.Process.Kill()
	d.cmd.Wait()
	if d.group != nil {
		if err := d.group.Close(); err != nil {
			d.t.Error(err)
		}
		for _, dir := range d.group.place.dirs {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				d.t.Errorf("%s is left", dir)
			}
		}
	}
	<-d.ended
}

// wait waits for an event about limit, which is fatal or not, and returns all up to it.
func (d *desk) wait(limit string, fatal bool) []Event {
	d.t.Helper()
	return d.until(fmt.Sprintf("of %s (fatal: %v)", limit, fatal),
		func(e Event) bool { return e.Limit == limit && e.Fatal == fatal })
}

func (d *desk) until(what string, wanted func(Event) bool) (seen []Event) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case e, ok := <-d.events:
			if !ok {
				d.t.Fatalf("ended without an event %s; there were %+v; %s", what, seen, d.stderr)
			}
			seen = append(seen, e)
			if wanted(e) {
				return seen
			}
		case <-ctx.Done():
			d.t.Fatalf("no event %s came; there were %+v; %s", what, seen, d.stderr)
		}
	}
}

// hostIsUsable starts a process, and looks how much memory there is for one.
func hostIsUsable(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", "exit 0").CombinedOutput(); err != nil {
		t.Errorf("a process outside cannot be started: %v %s", err, out)
	}
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(b), " kB", "")
	if n, ok := value(text, "MemAvailable:"); !ok || n<<10 < 256<<20 {
		t.Errorf("%d KiB of memory are available outside", n)
	}
}

func TestAttacks(t *testing.T) {
	groups := hasGroups(t)
	hog := func(what string) []string { return []string{"/loupe", hogRole, what} }
	for _, a := range []struct {
		name    string
		command []string
		limit   string
		outside bool // fatal with a control group
		inside  bool // fatal without one
	}{
		{"fork bomb", []string{"/bin/bash", "-c", "bomb() { bomb | bomb & }; bomb"}, processes, true, true},
		{"fork bomb that never waits", []string{"/usr/bin/perl", "-e", "fork while 1"}, processes, true, true},
		{"fork bomb in a namespace", []string{"/usr/bin/unshare", "-U", "-r", "/bin/bash", "-c", "bomb() { bomb | bomb & }; bomb"}, processes, true, true},
		{"private memory", hog("private memory"), memory, false, false},
		{"files in memory", hog("files in memory"), memory, false, false},
		{"shared memory", hog("shared memory"), memory, false, false},
		{"all disks", []string{"/bin/sh", "-c", "for d in /tmp /dev/shm /home/user; do cat /dev/zero >$d/fill; done; sleep inf"}, memory, false, true},
		{"one disk", []string{"/bin/sh", "-c", "cat /dev/zero >/home/user/fill; sleep inf"}, disk, false, false},
		{"open files", hog("files"), files, false, false},
	} {
		for _, cgroup := range []bool{true, false} {
			if cgroup && !groups {
				continue
			}
			name, fatal := a.name+", alone", a.inside
			if cgroup {
				name, fatal = a.name+", control group", a.outside
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := start(t, cgroup, a.command...)
				seen := d.wait(a.limit, fatal)
				if a.limit == processes && (seen[0].Limit != processes || seen[0].Fatal) {
					t.Errorf("the first event is %+v", seen[0])
				}
				for _, e := range seen[:len(seen)-1] {
					if e.Fatal {
						t.Errorf("event %+v", e)
					}
				}
				hostIsUsable(t)
			})
		}
	}
}

// What lies in memory without a program that has it mapped. How large its maker is by then,
// and so whether ending that one is tried, depends on how it was compiled; and how many files
// without content a place can have depends on the machine.
func TestMemoryOfNobody(t *testing.T) {
	groups := hasGroups(t)
	for _, a := range []struct {
		name    string
		command []string
	}{
		{"segments", []string{"/loupe", hogRole, "segments"}},
		{"many empty files", []string{"/bin/sh", "-c", "i=0; while : >/tmp/$i; do i=$((i + 1)); done; sleep inf"}},
	} {
		for _, cgroup := range []bool{false, true} {
			if cgroup && !groups {
				continue
			}
			t.Run(fmt.Sprintf("%s, control group %v", a.name, cgroup), func(t *testing.T) {
				t.Parallel()
				d := start(t, cgroup, a.command...)
				d.until("of memory or disk", func(e Event) bool { return e.Limit == memory || e.Limit == disk })
				hostIsUsable(t)
			})
		}
	}
}
