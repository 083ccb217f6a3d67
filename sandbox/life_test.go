//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox"
)

// The tests of how desktops end need processes that can be killed. Each is this program once
// more, in a role that the environment names:
//
//   - an owner starts a desktop, says so, and keeps it until SIGTERM, SIGINT, or the end of its
//     input, which is Close;
//   - a reaper starts an owner and becomes the parent of everything that the owner leaves
//     behind, waits for all of it, and ends when there is nothing more. So its end says
//     that no process is left, and no zombie.

const (
	roleVariable = "LOUPE_TEST_ROLE"
	planVariable = "LOUPE_TEST_PLAN"
)

// lifePlan is what an owner starts.
type lifePlan struct {
	Name      string
	Apps      []string
	NoSandbox bool
	Inside    string // a shell line to run inside, whose end is not waited for
	Processes int    // the limit
}

// lifeNews is what an owner or a reaper says, one line each.
type lifeNews struct {
	Owner int    // the reaper: the owner's process number
	Ready bool   // the owner: the desktop can be used
	Error string // the owner: it cannot, or it ended
	Ended bool   // the owner: Done is closed
}

// playRole does not return in a process that has a role.
func playRole() {
	plan := &lifePlan{}
	role := os.Getenv(roleVariable)
	if role == "" {
		return
	}
	if err := json.Unmarshal([]byte(os.Getenv(planVariable)), plan); err != nil {
		tell(lifeNews{Error: err.Error()})
		os.Exit(2)
	}
	_ = os.Unsetenv(roleVariable)
	switch role {
	case "reaper":
		os.Exit(reap())
	case "owner":
		os.Exit(own(plan))
	}
	os.Exit(2)
}

func tell(news lifeNews) {
	line, _ := json.Marshal(news)              // of strings and numbers
	_, _ = os.Stdout.Write(append(line, '\n')) // a reader that has gone wants no more
}

func reap() int {
	runtime.LockOSThread() // the owner is to end with this thread
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		tell(lifeNews{Error: err.Error()})
		return 1
	}
	owner := &exec.Cmd{Path: "/proc/self/exe", Args: os.Args[:1], Env: append(os.Environ(), roleVariable+"=owner"),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if err := owner.Start(); err != nil {
		tell(lifeNews{Error: err.Error()})
		return 1
	}
	tell(lifeNews{Owner: owner.Process.Pid})
	for {
		switch _, err := syscall.Wait4(-1, nil, 0, nil); {
		case errors.Is(err, syscall.ECHILD):
			return 0
		case err != nil && !errors.Is(err, syscall.EINTR):
			tell(lifeNews{Error: err.Error()})
			return 1
		}
	}
}

func own(plan *lifePlan) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d, err := sandbox.Start(ctx, &sandbox.Options{Name: plan.Name, Apps: plan.Apps, NoSandbox: plan.NoSandbox,
		Limits: sandbox.Limits{Processes: plan.Processes}})
	if err != nil {
		tell(lifeNews{Error: err.Error()})
		return 1
	}
	tell(lifeNews{Ready: true})
	if plan.Inside != "" {
		go func() { _ = d.Command("sh", "-c", plan.Inside).Run(ctx) }() // how it ends is all the same
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = d.Close()
	}()
	<-d.Done()
	news := lifeNews{Ended: true}
	if err := d.Err(); err != nil {
		news.Error = err.Error()
	}
	tell(news)
	return 0
}

// life is one owner, and all that hangs on it.
type life struct {
	t      testing.TB
	reaper *exec.Cmd
	owner  int
	name   string        // of the desktop
	user   int           // of the owner
	news   chan lifeNews // closed when nobody is left to say something
	stdin  io.Closer
	temp   string // TMPDIR of the owner
	stderr bytes.Buffer

	segments map[string]bool // shared memory that there was before
	files    map[string]bool // likewise, paths
	seen     map[int]string  // start times of processes
	users    map[int]bool    // that this program is not
}

// places are where files of a desktop could be.
var places = []string{"/tmp", "/tmp/.X11-unix", "/dev/shm", "/var/tmp", "/run/user"}

// newLife notes what there is before a desktop starts.
func newLife(t testing.TB, temp string) *life {
	l := &life{t: t, news: make(chan lifeNews, 8), temp: temp, user: os.Geteuid(),
		segments: map[string]bool{}, files: map[string]bool{}, seen: map[int]string{}, users: map[int]bool{}}
	for _, line := range fileLines(t, "/proc/sysvipc/shm") {
		l.segments[strings.Fields(line)[1]] = true
	}
	for _, dir := range places {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			l.files[filepath.Join(dir, e.Name())] = true
		}
	}
	return l
}

// lifeTime bounds a wait for something that must come: it is for a test that fails.
const lifeTime = 60 * time.Second

// born starts an owner. As says which user it is; nil is the user of this process.
func born(t testing.TB, plan lifePlan, as *syscall.Credential, program string) *life {
	t.Helper()
	// The paths of sockets are short, and the names of tests are not.
	temp, err := os.MkdirTemp("", "life")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	l := newLife(t, temp)
	l.name = plan.Name
	if as != nil {
		l.user = int(as.Uid)
	}
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	// A desktop without a sandbox has its folder there, and is another user.
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lifeTime)
	t.Cleanup(cancel)
	l.reaper = exec.CommandContext(ctx, program)
	l.reaper.Env = append(os.Environ(), roleVariable+"=reaper", planVariable+"="+string(data), "TMPDIR="+l.temp)
	l.reaper.Stderr = &l.stderr
	l.reaper.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if l.stdin, err = l.reaper.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := l.reaper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.reaper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.stdin.Close() })
	go func() {
		defer close(l.news)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var news lifeNews
			if err := json.Unmarshal(lines.Bytes(), &news); err != nil {
				news.Error = lines.Text()
			}
			l.news <- news
		}
	}()
	if l.owner = l.next().Owner; l.owner == 0 {
		t.Fatalf("the owner was not started: %s", l.stderr.String())
	}
	return l
}

// next waits for what is said next.
func (l *life) next() lifeNews {
	l.t.Helper()
	news, ok := <-l.news
	if !ok {
		l.t.Fatalf("the owner ended without a word: %s", l.stderr.String())
	}
	return news
}

// ready waits until the desktop can be used.
func (l *life) ready() {
	l.t.Helper()
	if news := l.next(); !news.Ready {
		l.t.Fatalf("the desktop did not start: %s", news.Error)
	}
	l.look()
}

// look remembers what runs, and returns it: the reaper's descendants.
func (l *life) look() []inProc {
	all := listProc()
	below := descendants(all, l.reaper.Process.Pid)
	for _, p := range below {
		l.seen[p.pid] = p.start
		if p.uid != l.user && p.uid != os.Geteuid() {
			l.users[p.uid] = true
		}
	}
	return below
}

// kill kills the owner.
func (l *life) kill(s syscall.Signal) {
	l.t.Helper()
	if err := syscall.Kill(l.owner, s); err != nil {
		l.t.Fatal(err)
	}
}

// over waits until nothing runs any more and looks for what is left.
func (l *life) over() {
	l.t.Helper()
	for range l.news { // to its end
	}
	if err := l.reaper.Wait(); err != nil {
		var still []string
		for _, p := range listProc() {
			if l.seen[p.pid] == p.start || l.users[p.uid] {
				still = append(still, p.String())
			}
		}
		l.t.Errorf("processes are left: %v %s\n%s", err, l.stderr.String(), strings.Join(still, "\n"))
	}
	for _, what := range l.left() {
		l.t.Errorf("left behind: %s", what)
	}
}

// left lists what is left of a desktop that has ended.
func (l *life) left() (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, p := range listProc() {
		if start, ok := l.seen[p.pid]; ok && start == p.start || l.users[p.uid] {
			add("process %v", p)
		}
	}
	for _, dir := range append(slices.Clone(places), l.temp) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.t.Error(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || l.files[filepath.Join(dir, e.Name())] { // another test's, that has just ended
				continue
			}
			if l.users[int(info.Sys().(*syscall.Stat_t).Uid)] || dir == l.temp {
				add("file %s", filepath.Join(dir, e.Name()))
			}
		}
	}
	// An X server's lock holds its process number.
	locks, _ := filepath.Glob("/tmp/.X*-lock")
	for _, lock := range locks {
		text, err := os.ReadFile(lock)
		if err != nil {
			continue
		}
		if pid, _ := strconv.Atoi(strings.TrimSpace(string(text))); l.seen[pid] != "" {
			add("lock %s of process %d", lock, pid)
		}
	}
	for _, line := range fileLines(l.t, "/proc/net/unix") {
		for user := range l.users {
			if strings.HasSuffix(line, fmt.Sprintf(" @loupe/user/%d", user)) {
				add("socket %s", line)
			}
		}
		if strings.Contains(line, " "+l.temp) || l.name != "" && strings.HasSuffix(line, "/"+l.name) {
			add("socket %s", line)
		}
	}
	for _, line := range fileLines(l.t, "/proc/sysvipc/shm") { // key shmid perms size cpid lpid nattch uid
		f := strings.Fields(line)
		creator, _ := strconv.Atoi(f[4])
		user, _ := strconv.Atoi(f[7])
		if !l.segments[f[1]] && (l.users[user] || l.seen[creator] != "" && user == l.user) {
			add("shared memory %s", line)
		}
	}
	for _, line := range fileLines(l.t, "/proc/self/mounts") {
		if strings.Contains(line, l.temp) || strings.Contains(line, "loupe") {
			add("mount %s", line)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // another test's, that has just ended
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), "loupe") && strings.Contains(e.Name(), fmt.Sprintf("-%d-", l.owner)) {
			add("control group %s", path)
		}
		return nil
	})
	return found
}

func fileLines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if strings.HasPrefix(name, "/proc/sysvipc/") || strings.HasPrefix(name, "/proc/net/") {
		lines = lines[1:]
	}
	return lines
}

// inProc is a process as /proc shows it.
type inProc struct {
	pid, parent, uid int
	name             string
	state            string // Z is a zombie
	start            string // with the process number unique
}

func (p inProc) String() string {
	return fmt.Sprintf("%d (%s), state %s, user %d, parent %d", p.pid, p.name, p.state, p.uid, p.parent)
}

func listProc() (all []inProc) {
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
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		// The owner of the folder may be root, of a process that is closed to others.
		var user int
		_, rest, _ := strings.Cut(string(status), "\nUid:\t")
		_, _ = fmt.Sscan(rest, &user)
		text := string(stat)
		open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		f := strings.Fields(text[end+1:])
		parent, _ := strconv.Atoi(f[1])
		all = append(all, inProc{pid: pid, parent: parent, uid: user,
			name: text[open+1 : end], state: f[0], start: f[19]})
	}
	return all
}

// descendants are the processes below one.
func descendants(all []inProc, of int) (below []inProc) {
	parents := map[int]bool{of: true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if parents[p.parent] && !parents[p.pid] {
				parents[p.pid], more = true, true
				below = append(below, p)
			}
		}
	}
	return below
}

// until waits for a condition, looking again and again.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lifeTime)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("this does not come: %s", what)
		}
	}
}

// named are those of some processes that have a name.
func named(all []inProc, name string) []inProc {
	return slices.DeleteFunc(slices.Clone(all), func(p inProc) bool { return p.name != name })
}
