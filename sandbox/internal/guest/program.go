package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is a process that was started, in a session of its own.
type program struct {
	cmd    *exec.Cmd
	output *tail
	done   chan struct{} // closed when it has ended and been waited for
}

// start starts a program with the desktop's environment. Its output is kept unless the
// command's fields say otherwise.
func (g *guest) start(cmd *exec.Cmd, env ...string) (*program, error) {
	p := &program{cmd: cmd, output: &tail{}, done: make(chan struct{})}
	g.mu.Lock()
	cmd.Env = append(append(cmd.Env, g.env...), env...)
	home := g.config.Home
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

// signal sends a signal to the program's process group.
func (p *program) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

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

// run runs a command for the host.
func (g *guest) run(ctx context.Context, r *Run, files []*os.File) (any, []*os.File, error) {
	if len(r.Command) == 0 || r.Token == "" || len(files) != 3 {
		return nil, nil, errors.New("a command needs a name, a token and three files")
	}
	cmd := &exec.Cmd{Path: r.Command[0], Args: r.Command, Dir: r.Dir, Stdin: files[0], Stdout: files[1], Stderr: files[2]}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	g.mu.Lock()
	_, taken := g.running[r.Token]
	if !taken {
		g.running[r.Token] = nil
	}
	g.mu.Unlock()
	if taken {
		return nil, nil, errors.New("the token of a command is in use")
	}
	defer func() {
		g.mu.Lock()
		delete(g.running, r.Token)
		g.mu.Unlock()
	}()
	p, err := g.start(cmd, r.Env...)
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s is not installed on the desktop", r.Command[0])
		}
		return nil, nil, err
	}
	g.mu.Lock()
	g.running[r.Token] = p
	g.mu.Unlock()
	// The ends that the command has must be its alone, or nobody sees when it closes them.
	closeAll(files)
	select {
	case <-p.done:
	case <-ctx.Done(): // the caller has gone
		p.signal(syscall.SIGKILL)
	}
	code, signal := p.code()
	return Ran{Code: code, Signal: int(signal)}, nil, nil
}

// signal sends a signal to a command of run.
func (g *guest) signal(s *Signal) error {
	g.mu.Lock()
	p := g.running[s.Token]
	g.mu.Unlock()
	if p == nil {
		return errors.New("that command is not running")
	}
	p.signal(syscall.Signal(s.Signal))
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.text)), "\ufffd")
}

// endDescendants kills and reaps every process below this one. What is orphaned on the way
// comes here, since this process adopts them (PR_SET_CHILD_SUBREAPER).
func endDescendants() {
	for {
		found := Descendants(os.Getpid())
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		// Those that os/exec waits for may be taken from it: it is over.
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
		time.Sleep(time.Millisecond) // to die takes a moment
	}
}

// Descendants lists the processes below one, which are not zombies.
func Descendants(of int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name is in brackets and may hold anything.
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for queue := []int{of}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return found
}
