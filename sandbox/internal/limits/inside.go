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
		events, victim := w.look(time.Now())
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

	next time.Duration // until the next look
	slow time.Time     // when everything is due to be looked at, and not only the memory

	full   map[string]bool // mounts
	greedy map[int]bool    // processes with all files open

	crowded time.Time // since when there has been nearly no room for a process
	refused int       // attempts to start one since
	bomb    bool      // said

	shmem    int64 // of the machine, when files without a name were last counted
	unnamed  map[int]int64
	over     time.Time // since when there has been too much memory in use
	hopeless bool      // said
}

// How long a state has to last until it is fatal.
const (
	bombAfter = 2500 * time.Millisecond
	overAfter = time.Second // of ending the largest process again and again
)

// look measures once. The victim is the process to end; 0 is none.
func (w *watcher) look(now time.Time) (events []Event, victim int) {
	w.next = slowest
	m := measured{mounts: w.meter.mounts(), processes: w.meter.processes()}
	if !now.Before(w.slow) { // a little early will do, since looks are never quite on time
		w.slow = now.Add(slowest - fastest)
		events = append(w.disk(m.mounts), w.files(m.processes)...)
		if !w.cgroup {
			events = append(events, w.room(now, m.threads())...)
		}
	}
	if !w.cgroup && w.limits.Memory > 0 {
		m.segments = w.meter.segments()
		e, v := w.memory(now, m)
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

// room tells of the limit of processes, where the kernel counts nothing for us to read: it
// tries to start one when nearly all are taken.
func (w *watcher) room(now time.Time, threads int) (events []Event) {
	limit := w.limits.Processes
	if limit == 0 || threads < limit-limit/16 {
		w.crowded, w.refused, w.bomb = time.Time{}, 0, false
		return nil
	}
	if w.crowded.IsZero() {
		w.crowded = now
	}
	if threads > limit || !w.canStart() {
		w.refused++
		if w.refused == 1 {
			events = append(events, Event{processes, fmt.Sprintf("The desktop has reached its limit of %d processes, and no more can be started.", limit), false})
		}
	}
	if now.Sub(w.crowded) >= bombAfter && w.refused >= 3 && !w.bomb {
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
		open := len(namesIn(filepath.Join(w.meter.proc, strconv.Itoa(p.pid), "fd")))
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
func (w *watcher) memory(now time.Time, m measured) (events []Event, victim int) {
	// Counting files without a name is slow, so it is done when the shared memory of the
	// whole machine has changed.
	limit := w.limits.Memory
	if s := w.meter.shmem(); max(s-w.shmem, w.shmem-s) > limit/16 {
		w.shmem, w.unnamed = s, w.meter.unnamed()
	}
	m.hold(w.unnamed)
	if m.memory() > limit {
		w.unnamed = w.meter.unnamed()
		m.hold(w.unnamed)
		w.meter.exact(m.processes)
	}
	left := limit - m.memory()
	w.next = min(slowest, max(fastest, time.Duration(float64(left)/hunger*float64(time.Second))))
	if left >= 0 {
		if left > limit/16 {
			w.over, w.hopeless = time.Time{}, false
		}
		return nil, 0
	}
	if w.hopeless {
		return nil, 0
	}
	first := w.over.IsZero()
	if first {
		w.over = now
	}
	var largest process
	for _, p := range m.processes {
		if p.pid != w.self && p.pid != 1 && p.blame() > largest.blame() {
			largest = p
		}
	}
	if now.Sub(w.over) >= overAfter || largest.blame() < limit/16 {
		w.hopeless = true
		return []Event{{memory, fmt.Sprintf("The desktop uses more than its limit of %s of memory, and no single program is to blame: it lies in files and shared memory, or in too many programs.",
			size(limit)), true}}, 0
	}
	if first {
		events = []Event{{memory, fmt.Sprintf("The desktop has reached its limit of %s of memory, and the largest program in it, %q, has been ended.",
			size(limit), largest.name), false}}
	}
	return events, largest.pid
}
