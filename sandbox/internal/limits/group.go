//go:build linux

package limits

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lookEvery  = 500 * time.Millisecond // at what the kernel counts
	emptyEvery = 5 * time.Millisecond   // while a group is being emptied
	emptyBound = 10 * time.Second
)

// Group is the control group of one desktop, seen from outside: one folder in the tree of
// version 2, or one in each tree of version 1. Its methods may be called from several
// goroutines.
//
// When the memory is used up, the kernel ends the largest process in the group and not all
// of them (memory.oom.group stays off): a page that takes too much does not take the
// desktop with it.
type Group struct {
	kernel  kernel
	limits  Limits
	place   place
	sweeper *sweeper

	closing sync.Once
	closed  chan struct{} // Close has begun
	err     error         // of Close
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// NewGroup makes a group for the desktop called name (letters, digits, '.', '_', '-'; for
// people who look at the tree), in the group of this process or the nearest one above it
// where that can be done, and removes groups that killed processes have left there.
//
// A small process of its own session removes the group should this process be killed; it
// waits for a pipe to close and does nothing else. Close ends it.
//
// The error is ErrNoCgroup where no group can be made; then nothing has been left behind.
func NewGroup(name string, l Limits) (*Group, error) {
	return newGroup(theKernel{}, name, l)
}

func newGroup(k kernel, name string, l Limits) (*Group, error) {
	if !names.MatchString(name) {
		return nil, fmt.Errorf("a control group cannot be called %q: use up to 64 letters, digits, '.', '_' and '-'", name)
	}
	owner, err := self()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	s, err := startSweeper()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	unique := make([]byte, 4)
	_, _ = rand.Read(unique) // never fails
	m := maker{
		kernel:   k,
		name:     owner.prefix() + "-" + hex.EncodeToString(unique) + "-" + name,
		limits:   l,
		announce: s.announce,
		tidy:     func(parent string) { removeStale(k, parent, owner) },
	}
	p, err := m.make()
	if err != nil {
		return nil, errors.Join(err, s.end())
	}
	return &Group{kernel: k, limits: l, place: p, sweeper: s, closed: make(chan struct{})}, nil
}

// Add moves a process into the group with all that it has started so far. It should have
// started nothing of weight yet: memory that is in use stays counted where it was.
func (g *Group) Add(pid int) error {
	moved := map[int]bool{}
	for {
		news := false
		for _, p := range descendants(pid) {
			if moved[p] {
				continue
			}
			for _, d := range g.place.dirs {
				err := g.kernel.Write(path.Join(d, "cgroup.procs"), strconv.Itoa(p))
				if errors.Is(err, unix.ESRCH) && p != pid {
					break // it has ended
				}
				if err != nil {
					return fmt.Errorf("moving process %d into the desktop's control group: %w", p, err)
				}
			}
			moved[p], news = true, true
		}
		if !news { // whatever the moved ones start now is in the group
			return nil
		}
	}
}

// descendants are a process and those below it.
func descendants(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, l := range lists {
			b, _ := os.ReadFile(l)
			all = append(all, pids(string(b))...)
		}
	}
	return all
}

// Watch calls f for each limit that is reached, until the context ends or the group is
// closed; f is called from the goroutine that called Watch. It looks twice a second.
//
// Processes that were ended for want of memory are one event while that goes on, fatal when
// nothing is left or when it does not stop. The limit of processes is one event while it
// lasts, and a fatal one follows when nearly all of them stay taken for 2.5 s while more
// are being tried: a fork bomb.
func (g *Group) Watch(ctx context.Context, f func(Event)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	t := tally{limits: g.limits}
	for {
		if s, err := g.sample(); err == nil {
			for _, e := range t.observe(s) {
				f(e)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-g.closed:
			return
		case <-tick.C:
		}
	}
}

func (g *Group) sample() (s sample, err error) {
	read := func(dir, file, name string) int64 {
		text, e := g.kernel.Read(path.Join(dir, file))
		if e != nil {
			err = e
			return 0
		}
		n, _ := value(text, name)
		return n
	}
	if g.place.v2 {
		s.kills = read(g.place.memory, "memory.events", "oom_kill")
	} else {
		s.kills = read(g.place.memory, "memory.oom_control", "oom_kill")
	}
	s.refused = read(g.place.pids, "pids.events", "max")
	text, e := g.kernel.Read(path.Join(g.place.pids, "pids.current"))
	if e != nil {
		return s, e
	}
	s.processes, _ = strconv.Atoi(strings.TrimSpace(text))
	return s, err
}

// Close ends every process in the group, waits until they are gone, and removes it. It may
// be called again; the result is the same. After an error a later NewGroup, in another
// process, removes what is left.
func (g *Group) Close() error {
	g.closing.Do(func() {
		close(g.closed)
		var errs []error
		for _, d := range g.place.dirs {
			errs = append(errs, empty(g.kernel, d))
		}
		g.err = errors.Join(append(errs, g.sweeper.end())...)
	})
	return g.err
}

// empty ends what is in the group of dir and removes it.
func empty(k kernel, dir string) error {
	_ = k.Write(path.Join(dir, "pids.max"), "0") // nothing starts any more
	tick := time.NewTicker(emptyEvery)
	defer tick.Stop()
	bound := time.NewTimer(emptyBound)
	defer bound.Stop()
	for {
		err := k.Rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		kill(k, dir)
		select {
		case <-tick.C:
		case <-bound.C:
			return fmt.Errorf("the control group %s cannot be removed: %w", dir, err)
		}
	}
}

func kill(k kernel, dir string) {
	if k.Write(path.Join(dir, "cgroup.kill"), "1") == nil {
		return
	}
	text, _ := k.Read(path.Join(dir, "cgroup.procs"))
	for _, p := range pids(text) {
		_ = unix.Kill(p, unix.SIGKILL)
	}
}

// owner is a process as it stands in the name of its groups: its namespace of processes,
// number and time of start (in ticks since the machine started) are together unique.
type owner struct {
	namespace  uint64
	pid, start int
}

func (o owner) prefix() string { return fmt.Sprintf("loupe-%d-%d-%d", o.namespace, o.pid, o.start) }

func self() (owner, error) {
	st, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return owner{}, err
	}
	start, err := startOf("self")
	return owner{namespace: st.Sys().(*syscall.Stat_t).Ino, pid: os.Getpid(), start: start}, err
}

// startOf is field 22 of /proc/PID/stat (proc(5)); it is not found by counting from the
// left, since the name of the program in field 2 may hold anything.
func startOf(pid string) (int, error) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0, fmt.Errorf("process %s has ended", pid)
	}
	return strconv.Atoi(f[19])
}

// removeStale removes the empty groups in parent whose owner is no more. Those of another
// namespace of processes are left alone: from here all of their owners look dead.
func removeStale(k kernel, parent string, by owner) {
	all, _ := k.List(parent)
	for _, name := range all {
		var o owner
		if n, _ := fmt.Sscanf(name, "loupe-%d-%d-%d-", &o.namespace, &o.pid, &o.start); n != 3 || o.namespace != by.namespace {
			continue
		}
		if start, err := startOf(strconv.Itoa(o.pid)); err == nil && start == o.start {
			continue
		}
		// One that still has processes is about to end, and its sweeper sees to that.
		_ = k.Rmdir(path.Join(parent, name))
	}
}
