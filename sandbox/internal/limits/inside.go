//go:build linux

package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	slowest = 500 * time.Millisecond
	fastest = 25 * time.Millisecond
	hunger  = 8 << 30 // bytes that a machine can fill in a second, at most
)

// Watch measures from the inside of a desktop what no limit of the kernel reports, and
// calls f for each limit that is reached, once while it lasts, until the context ends; f is
// called from the goroutine that called Watch. It runs as the desktop's user, in its
// namespaces.
//
// Always: a place for files that is full, and a process with all the files open that it may
// have. When there is no control group for the desktop: the limit of processes, and memory.
// The largest process is ended (never this one) when all of them together use more than the
// limit; when that does not help, because files or shared memory take it, the event is
// fatal.
//
// Memory in files without a name (memfd_create) is not seen when only processes that cannot
// be looked into have it open, which a browser's pages are; nor is what the kernel keeps for
// pipes and sockets.
//
// It looks twice a second, and up to 40 times as memory runs short.
func Watch(ctx context.Context, l Limits, hasCgroup bool, f func(Event)) {
	w := &watcher{limits: l, cgroup: hasCgroup, meter: meter{"/proc"}, self: os.Getpid(), canStart: canStart}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		events, victim := w.look()
		if victim > 0 {
			_ = unix.Kill(victim, unix.SIGKILL)
		}
		for _, e := range events {
			f(e)
		}
		timer.Reset(w.next)
	}
}

// canStart tries to start a process, which is what somebody who meets the limit would do.
func canStart() bool {
	err := exec.Command("/bin/true").Run()
	return !errors.Is(err, unix.EAGAIN)
}

type watcher struct {
	limits   Limits
	cgroup   bool
	meter    meter
	self     int
	canStart func() bool

	next time.Duration

	shmem    int64 // of the machine, when files without a name were last counted
	unnamed  int64 // those
	full     map[string]bool
	nearly   int // looks in a row with nearly no room for a process
	refused  int // of those, with none
	bomb     bool
	over     int // looks in a row with too much memory
	hopeless bool
	greedy   map[int]bool // processes with all files open
	turn     int
}

func (w *watcher) look() (events []Event, victim int) {
	w.next = slowest
	m := measured{mounts: w.meter.mounts()}
	events = w.disk(m.mounts)
	w.turn++
	watchMemory := !w.cgroup && w.limits.Memory > 0
	if !watchMemory && w.turn%2 == 0 {
		return events, 0
	}
	m.processes = w.meter.processes()
	events = append(events, w.files(m.processes)...)
	if !w.cgroup {
		events = append(events, w.room(m.threads())...)
	}
	if watchMemory {
		m.segments = w.meter.segments()
		e, v := w.memory(m)
		return append(events, e...), v
	}
	return events, 0
}

// disk tells of mounts that have become full: less than a 64th left, and until there is a
// 16th again.
func (w *watcher) disk(mounts []mount) (events []Event) {
	if w.full == nil {
		w.full = map[string]bool{}
	}
	for _, m := range mounts {
		if m.size == 0 || m.nodes == 0 {
			continue
		}
		noBytes, noFiles := m.free < m.size/64, m.spare < m.nodes/64
		switch {
		case w.full[m.path]:
			w.full[m.path] = m.free < m.size/16 || m.spare < m.nodes/16
		case noBytes:
			w.full[m.path] = true
			events = append(events, Event{disk, fmt.Sprintf("The desktop's disk is full: %s has all of its %s in use.", m.path, size(m.size)), false})
		case noFiles:
			w.full[m.path] = true
			events = append(events, Event{disk, fmt.Sprintf("The desktop's disk is full: %s has all of its %d files in use.", m.path, m.nodes), false})
		}
	}
	return events
}

// room tells of the limit of processes, where the kernel counts nothing for us to read.
func (w *watcher) room(threads int) (events []Event) {
	limit := w.limits.Processes
	if limit == 0 || threads < limit-limit/16 {
		w.nearly, w.refused, w.bomb = 0, 0, false
		return nil
	}
	w.nearly++
	if threads > limit || !w.canStart() {
		w.refused++
		if w.refused == 1 {
			events = append(events, Event{processes, fmt.Sprintf("The desktop has reached its limit of %d processes, and no more can be started.", limit), false})
		}
	}
	if w.nearly > lasting && w.refused > lasting/2 && !w.bomb {
		w.bomb = true
		events = append(events, Event{processes, fmt.Sprintf("The desktop stays at its limit of %d processes.", limit), true})
	}
	return events
}

// files tells of processes that have as many files open as they may.
func (w *watcher) files(all []process) (events []Event) {
	now := map[int]bool{}
	for _, p := range all {
		var most unix.Rlimit
		// Reading what each may have for each would be more than the rest together.
		if w.limits.Files == 0 || p.slots < 256 && p.slots < w.limits.Files/2 {
			continue
		}
		if unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, nil, &most) != nil {
			continue
		}
		if uint64(p.slots) < most.Cur {
			continue
		}
		open := len(openFiles(filepath.Join(w.meter.proc, strconv.Itoa(p.pid), "fd")))
		if uint64(open) < most.Cur {
			continue
		}
		now[p.pid] = true
		if !w.greedy[p.pid] {
			events = append(events, Event{files, fmt.Sprintf("The program %q has %d files open and may not open more.", p.name, open), false})
		}
	}
	w.greedy = now
	return events
}

// memory decides who has to go when there is too much in use.
func (w *watcher) memory(m measured) (events []Event, victim int) {
	// Counting files without a name is slow, so only when there is more shared memory on
	// the machine than last time.
	if s := w.meter.shmem(); s-w.shmem > w.limits.Memory/16 || w.shmem-s > w.limits.Memory/16 {
		w.shmem, w.unnamed = s, w.meter.unnamed(m.mounts)
	}
	m.inMemory = w.unnamed
	used := m.memory()
	if used > w.limits.Memory {
		m.inMemory = w.meter.unnamed(m.mounts)
		m.processes = w.meter.exact(m.processes)
		used = m.memory()
	}
	left := w.limits.Memory - used
	w.next = min(slowest, max(fastest, time.Duration(float64(left)/hunger*float64(time.Second))))
	if left >= 0 {
		if left > w.limits.Memory/16 {
			w.over, w.hopeless = 0, false
		}
		return nil, 0
	}
	if w.hopeless {
		return nil, 0
	}
	w.over++
	var largest process
	for _, p := range m.processes {
		if p.pid != w.self && p.pid != 1 && p.own+p.shared > largest.own+largest.shared {
			largest = p
		}
	}
	// One that is being ended takes a while to give its memory back, and is then gone.
	const tries = 40
	if w.over > tries || largest.own+largest.shared < w.limits.Memory/16 {
		w.hopeless = true
		return []Event{{memory, fmt.Sprintf("The desktop uses more than its limit of %s of memory, and no single program is to blame: it lies in files and shared memory, or in too many programs.",
			size(w.limits.Memory)), true}}, 0
	}
	if w.over == 1 {
		events = []Event{{memory, fmt.Sprintf("The desktop has reached its limit of %s of memory, and the largest program in it, %q, has been ended.",
			size(w.limits.Memory), largest.name), false}}
	}
	return events, largest.pid
}
