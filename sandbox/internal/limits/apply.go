//go:build linux

package limits

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	politeness  = 5   // added to the nice value
	oomScore    = 200 // of 1000; browsers give their pages 300, which they may only raise
	spare       = 24  // threads that this process has ready
	softFiles   = 1024
	lockedBytes = 8 << 20
	queueBytes  = 800 << 10
	signals     = 4096
)

// Apply sets the limits of this process and so of all that it starts from then on. They are
// hard: nothing without a privilege over the whole system raises them again.
//
// Processes are counted by the kernel for each user in a user namespace (since 5.14), those
// in namespaces further in included, and not at all for the system's root: so the desktop's
// user must be another one, even outside. On older kernels all processes of that user on
// the machine count, and the limit is left to the control group and to Watch.
//
// Memory that one process may ask for is bounded at twice Limits.Memory and 1 GiB more.
// That is for one that asks faster than Watch can look; more exact it cannot be, because
// browsers ask for far more than they use.
//
// Apply also makes everything in the desktop a little less important than the rest of the
// machine, in the use of processors and when the machine as a whole runs out of memory, and
// starts threads for this process to use when none can be started any more.
func Apply(l Limits) error {
	readyThreads(spare)
	var errs []error
	set := func(name string, resource int, soft, hard uint64) {
		if err := lower(resource, soft, hard); err != nil {
			errs = append(errs, fmt.Errorf("limiting %s: %w", name, err))
		}
	}
	// Not 0, which does not count where the machine has a program for core dumps, to be run
	// outside as root (core(5)). One byte is the kernel's sign for no such dump either
	// (fs/coredump.c), and too little for a file.
	if unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil) != nil {
		set("core dumps", unix.RLIMIT_CORE, 0, 0)
	}
	set("locked memory", unix.RLIMIT_MEMLOCK, lockedBytes, lockedBytes)
	set("message queues", unix.RLIMIT_MSGQUEUE, queueBytes, queueBytes)
	set("waiting signals", unix.RLIMIT_SIGPENDING, signals, signals)
	set("real-time priority", unix.RLIMIT_RTPRIO, 0, 0)
	set("the nice value", unix.RLIMIT_NICE, 0, 0)
	if l.Files > 0 {
		// Programs that use select fail with more; others raise it as they need.
		set("open files", unix.RLIMIT_NOFILE, min(softFiles, uint64(l.Files)), uint64(l.Files))
	}
	if l.Processes > 0 && countsByNamespace() {
		set("processes", unix.RLIMIT_NPROC, uint64(l.Processes), uint64(l.Processes))
	}
	if l.Memory > 0 {
		n := 2*uint64(l.Memory) + 1<<30
		set("memory", unix.RLIMIT_DATA, n, n)
	}
	if n := uint64(max(l.Memory, l.Disk)); n > 0 {
		// Also of a file in memory, which lies on no disk that has a size.
		set("the size of a file", unix.RLIMIT_FSIZE, n, n)
	}
	errs = append(errs, beModest())
	return errors.Join(errs...)
}

func lower(resource int, soft, hard uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &now); err != nil {
		return err
	}
	now.Max = min(now.Max, hard)
	now.Cur = min(now.Cur, soft, now.Max)
	return unix.Prlimit(0, resource, &now, nil)
}

// countsByNamespace tells whether the kernel counts processes for each user namespace.
func countsByNamespace() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(u.Release[:]), 5, 14)
}

func atLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

func beModest() error {
	var errs []error
	// The nice value belongs to a thread, and a child gets that of the thread that starts
	// it. A thread that starts meanwhile may have that of one that has not been changed yet,
	// so go on until none is new.
	done := map[string]bool{}
	for news := true; news; {
		news = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[t.Name()] {
				continue
			}
			done[t.Name()], news = true, true
			if err := raiseNice(id); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("lowering the priority: %w", err))
			}
		}
	}
	// Where the kernel groups processes by session, only the nice value of the group counts
	// against other sessions. It is ours to change if the session is.
	if sid, err := unix.Getsid(0); err == nil && sid == os.Getpid() {
		_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(politeness)), 0)
	}
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(score))); err == nil && n < oomScore {
		errs = append(errs, os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(oomScore)), 0))
	}
	return errors.Join(errs...)
}

func raiseNice(thread int) error {
	p, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	if err != nil {
		return err
	}
	// The system call gives 20 minus the nice value, so that it is never negative.
	return unix.Setpriority(unix.PRIO_PROCESS, thread, max(20-p, politeness))
}

// readyThreads makes the runtime start n threads, which it keeps. It cannot go on when it
// needs one and the limit of processes has been reached.
func readyThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	ready.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
