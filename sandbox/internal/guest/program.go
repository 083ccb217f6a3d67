//go:build linux

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is a process that was started, in a session of its own.
type program struct {
	cmd    *exec.Cmd
	output *Tail
	done   chan struct{} // closed when it has ended and been waited for
}

// start starts a program with the desktop's environment; an entry of env without a value takes
// a variable away. Its output is kept unless the command's fields say otherwise.
func (g *guest) start(cmd *exec.Cmd, env ...string) (*program, error) {
	p := &program{cmd: cmd, output: &Tail{}, done: make(chan struct{})}
	g.mu.Lock()
	cmd.Env = append(cmd.Env, g.env...)
	for _, entry := range env {
		if strings.Contains(entry, "=") {
			cmd.Env = append(cmd.Env, entry)
			continue
		}
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, entry+"=") })
	}
	home, alone := g.config.Home, g.config.Alone
	g.mu.Unlock()
	if cmd.Dir == "" {
		cmd.Dir = home
	}
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.output
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if alone {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // a guest that is killed ends nothing itself
	}
	cmd.WaitDelay = time.Second // what it started may hold the output open
	if filepath.Base(cmd.Path) == cmd.Path || cmd.Err != nil {
		// The path that counts is the desktop's.
		path, err := lookPath(cmd.Args[0], cmd.Env)
		if err != nil {
			return nil, err
		}
		cmd.Path, cmd.Err = path, nil
	}
	if err := g.children.start(cmd, func() { close(p.done) }); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Args[0], err)
	}
	return p, nil
}

// lookPath finds a program as a shell with that environment would.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := "/usr/bin:/bin"
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// kill ends the program with all that can be found of what it has started: its process group,
// and those in other groups that descend from it. Who has left the group and lost his parent
// has nothing that says whose he is, and goes on.
func (p *program) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	pid := p.cmd.Process.Pid
	// Who is stopped makes no more processes.
	_ = syscall.Kill(-pid, syscall.SIGSTOP)
	stopped := map[int]bool{}
	for news := true; news; {
		news = false
		for _, below := range Descendants(pid) {
			if !stopped[below] {
				_ = syscall.Kill(below, syscall.SIGSTOP)
				stopped[below], news = true, true
			}
		}
	}
	for below := range stopped {
		_ = syscall.Kill(below, syscall.SIGKILL)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// code is how the program ended: its exit status, or -1 and a signal.
func (p *program) code() (code int, signal syscall.Signal) {
	<-p.done
	state := p.cmd.ProcessState
	if state == nil {
		return -1, 0
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -1, status.Signal()
	}
	return state.ExitCode(), 0
}

// how says how the program ended.
func (p *program) how() string {
	code, signal := p.code()
	if code < 0 {
		return "was ended by signal " + unix.SignalName(signal)
	}
	return fmt.Sprintf("ended with status %d", code)
}
