//go:build linux

package guest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// children are the processes that os/exec waits for. All others that the guest becomes the
// parent of are orphans, which nobody waits for but it.
//
// In a sandbox the guest is the first process, so that nothing inside can stop or kill it: the
// kernel keeps signals from the first process of a namespace that come from within, as far as
// it has no handler for them.
type children struct {
	mu  sync.Mutex // held while one is started, so that it is known before it can be looked at
	own map[int]bool
	end bool // nothing is started any more
}

// start starts a command and waits for it in the background. Ended, when it has been waited for,
// is called.
func (c *children) start(cmd *exec.Cmd, ended func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end {
		return errors.New("the desktop is ending")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.own == nil {
		c.own = map[int]bool{}
	}
	pid := cmd.Process.Pid
	c.own[pid] = true
	go func() {
		_ = cmd.Wait()
		c.mu.Lock()
		delete(c.own, pid)
		c.mu.Unlock()
		ended()
	}()
	return nil
}

// close lets nothing be started any more.
func (c *children) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = true
}

// reapPause is the least time between two looks for orphans that have ended, so that a
// program that makes many costs little.
const reapPause = 50 * time.Millisecond

// reap collects orphans that have ended until the context ends.
func (c *children) reap(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	if os.Getpid() == 1 {
		defer beDeaf()()
	}
	for {
		c.reapNow()
		pause := time.NewTimer(reapPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		select {
		case <-died:
		case <-ctx.Done():
			return
		}
	}
}

// beDeaf keeps the signals from ending the guest for which the runtime has handlers. They go to
// a channel that nobody reads; to ignore them would be inherited by all that is started.
func beDeaf() (stop func()) {
	var signals []os.Signal
	for s := syscall.Signal(1); s <= 64; s++ {
		switch s {
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF: // used by this program itself
		default:
			signals = append(signals, s)
		}
	}
	nobody := make(chan os.Signal, 1)
	signal.Notify(nobody, signals...)
	return func() { signal.Stop(nobody) }
}

func (c *children) reapNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid, p := range processes() {
		if p.parent == os.Getpid() && !p.runs && !c.own[pid] {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
