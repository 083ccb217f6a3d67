package desktest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs beside the test, with all that it starts.
type process struct {
	cmd    *exec.Cmd
	output *tail // standard error, and standard output unless it goes elsewhere
	done   chan struct{}
	err    error // how it ended; set before done is closed
}

// launch starts a program in a process group of its own, which ends with the test. The
// command's path, environment and pipes are the caller's.
func launch(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, output: &tail{}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	cmd.Stderr = p.output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	endWithParent(cmd.SysProcAttr)
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the output open
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			if text := p.output.String(); text != "" {
				t.Logf("%s said:\n%s", cmd.Path, text)
			}
		}
	})
	return p
}

// signal sends a signal to the whole group.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// stop asks the program to end, and returns when it has.
func (p *process) stop() {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
	}
	p.kill()
}

// kill ends the group at once, and returns when it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// program finds a program, or fails the test with the command that installs it.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing; install it with: make setup", name)
	}
	return path
}

// run runs a program to its end and returns its output.
func run(t testing.TB, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, name), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 4 << 10
	w.text = append(w.text, p...)
	if extra := len(w.text) - most; extra > 0 {
		w.text = append(w.text[:0], w.text[extra:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(bytes.TrimSpace(w.text))
}

// patience is how long anything on a desktop may take before a test gives up on it. A busy
// machine with the race detector is slow.
const patience = 30 * time.Second

// Eventually waits until a condition holds, looking often, and fails the test when it does
// not within half a minute.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if err := wait(nil, func() error {
		if condition() {
			return nil
		}
		return errNotYet
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

var errNotYet = errors.New("it has not happened")

// wait looks until there is no error, the program has ended, or patience is over. The
// program may be nil.
func wait(p *process, look func() error) error {
	deadline := time.Now().Add(patience)
	pause := time.NewTimer(0)
	defer pause.Stop()
	var ended <-chan struct{}
	if p != nil {
		ended = p.done
	}
	for {
		err := look()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", patience, err)
		}
		pause.Reset(5 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ended:
			return fmt.Errorf("%s has ended (%v): %s", p.cmd.Path, p.err, p.output)
		}
	}
}
