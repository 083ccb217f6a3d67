//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/apps"
	"github.com/loupe-tools/loupe/sandbox/internal/bwrap"
	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/seccomp"
)

// process is the process that a desktop hangs on: bubblewrap, or the guest itself where
// there is no sandbox.
type process struct {
	cmd    *exec.Cmd
	said   *guest.Tail
	user   *user
	first  atomic.Pointer[os.Process] // the sandbox's first process, once it is known
	done   chan struct{}              // closed when it has ended and been waited for
	err    error                      // how, set before done is closed
	killed sync.Once

	runtime string                 // without a sandbox, the folder by which its processes are known
	display atomic.Pointer[string] // then, the display's name, once that is known
}

// launch starts the guest in a sandbox, or alone.
func launch(p *plan, far *os.File, scratch string) (*process, error) {
	if !readied.Load() {
		return nil, errors.New("this program must call sandbox.RunGuest first thing in main")
	}
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("opening the program to run as guest: %w", err)
	}
	files := &inherited{}
	defer files.close()
	link := files.add(far)
	self := files.own(program)
	pr := &process{said: &guest.Tail{}, done: make(chan struct{})}
	if os.Geteuid() == 0 {
		if pr.user, err = newUser(); err != nil {
			return nil, err
		}
	}
	if p.NoSandbox {
		pr.cmd = &exec.Cmd{Path: fmt.Sprintf("/proc/self/fd/%d", self), Args: []string{"loupe-guest"},
			Env: []string{guestVariable + "=" + strconv.Itoa(link)}, Dir: "/"}
		pr.runtime = filepath.Join(scratch, runtimeFolder)
	} else if pr.cmd, err = wrapped(p, files, link, self); err != nil {
		pr.user.free()
		return nil, err
	}
	pr.cmd.Stdout, pr.cmd.Stderr = pr.said, pr.said
	pr.cmd.WaitDelay = time.Second
	pr.cmd.ExtraFiles = files.files
	pr.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.NoSandbox { // one that is stopped would not see the end of its link
		pr.cmd.SysProcAttr.Pdeathsig = syscall.SIGCONT
	}
	if pr.user != nil {
		pr.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(pr.user.id), Gid: uint32(pr.user.id)}
	}
	started := make(chan error)
	go func() {
		// bubblewrap is killed when the thread ends that started it, so the thread stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := pr.cmd.Start()
		started <- err
		if err == nil {
			pr.err = pr.cmd.Wait()
			pr.sweep()
		}
		pr.user.free()
		close(pr.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", pr.cmd.Path, err)
	}
	return pr, nil
}

// wrapped is the command that runs the guest under bubblewrap.
func wrapped(p *plan, files *inherited, link, self int) (*exec.Cmd, error) {
	path, err := findBubblewrap()
	if err != nil {
		return nil, noSandbox("bubblewrap is not installed", err)
	}
	s := &bwrap.Sandbox{
		ReadOnly: apps.HostPaths(),
		Disk:     p.Limits.Disk, Temporary: max(p.Limits.Disk/2, 64<<20), Shared: p.Limits.Memory / 4,
		Env: map[string]string{guestVariable: strconv.Itoa(link)},
	}
	// A file that its user could write must not be reached through a descriptor: the
	// link to it under /proc would lead around the read-only mount. One of root's can be
	// where the user inside cannot go.
	if s.GuestFD = self; os.Geteuid() != 0 {
		if s.Guest, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding the program to run as guest: %w", err)
		}
	}
	for _, f := range p.setup.Files() {
		if strings.HasPrefix(f.Path, "/etc/") {
			fd, err := files.data(f.Data)
			if err != nil {
				return nil, err
			}
			s.Files = append(s.Files, bwrap.File{Path: f.Path, FD: fd, Mode: f.Mode})
		}
	}
	filter, err := seccomp.Filter()
	if err != nil {
		return nil, noSandbox("there is no filter of system calls for this kind of machine", err)
	}
	if s.Seccomp, err = files.data(filter); err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: append([]string{"bwrap"}, s.Arguments()...), Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}, nil
}

func noSandbox(why string, cause error) error {
	return &sentence{kind: ErrNoSandbox, cause: cause,
		text: why + ", so the desktop cannot be isolated; loupe doctor says what to install, and --no-sandbox does without"}
}

// telling is the line that says why a program ended: the first of a crash of Go's runtime,
// and the last of anything else.
func telling(said string) string {
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "runtime: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "panic: ") {
			return strings.TrimSpace(line)
		}
	}
	return guest.LastLine(said)
}

// findBubblewrap finds bubblewrap, also for a caller whose PATH is empty.
func findBubblewrap() (string, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil && os.Getenv("PATH") == "" {
		return exec.LookPath("/usr/bin/bwrap")
	}
	return path, err
}

// find finds the sandbox's first process: bubblewrap's only child.
func (pr *process) find() {
	tree := guest.Descendants(pr.cmd.Process.Pid)
	if len(tree) == 0 || pr.runtime != "" {
		return
	}
	if first, err := os.FindProcess(tree[0]); err == nil {
		pr.first.Store(first)
	}
}

// killTime is how long the parts of a desktop may take to end.
const killTime = 3 * time.Second

// end ends the process and everything in the sandbox, and returns when it has ended.
func (pr *process) end() {
	pr.killed.Do(func() {
		first := pr.first.Load()
		switch {
		case first != nil:
			// All others end with the first, and bubblewrap collects it.
			_ = first.Kill()
		case pr.cmd.Args[0] == "bwrap":
			_ = pr.cmd.Process.Kill()
		}
		// Who has been stopped could not end.
		_ = pr.cmd.Process.Signal(syscall.SIGCONT)
	})
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	select {
	case <-pr.done:
	case <-timer.C:
		_ = pr.cmd.Process.Kill()
		<-pr.done
	}
}

// sweep waits for what may outlive bubblewrap where that was killed, and ends and removes what a
// guest without a sandbox has left, as one that was killed does.
func (pr *process) sweep() {
	if first := pr.first.Load(); first != nil {
		for deadline := time.Now().Add(killTime); first.Kill() == nil && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_ = first.Release()
	}
	if pr.runtime == "" {
		return
	}
	var display string
	if name := pr.display.Load(); name != nil {
		display = *name
	}
	guest.EndAll(display, func() []int {
		if pr.user != nil {
			return guest.OfUser(pr.user.id)
		}
		return guest.WithEnvironment("XDG_RUNTIME_DIR=" + pr.runtime)
	})
}

// why says why the process ended at once.
func (pr *process) why() error {
	<-pr.done
	last := strings.TrimPrefix(telling(pr.said.String()), "bwrap: ")
	if pr.cmd.Args[0] == "bwrap" && (strings.Contains(last, "namespace") || strings.Contains(last, "uid map") || strings.Contains(last, "Operation not permitted")) {
		return noSandbox("this machine lets no ordinary user make namespaces ("+last+")", pr.err)
	}
	if last == "" {
		last = fmt.Sprint(pr.err)
	}
	return &sentence{kind: ErrEnded, text: "the sandbox did not start: " + last, cause: pr.err}
}

// inherited are descriptors for a child.
type inherited struct {
	files []*os.File
	owned []*os.File
}

// add adds a file that stays the caller's, and returns its descriptor in the child.
func (in *inherited) add(f *os.File) int {
	in.files = append(in.files, f)
	return 2 + len(in.files)
}

// own adds a file that close closes.
func (in *inherited) own(f *os.File) int {
	in.owned = append(in.owned, f)
	return in.add(f)
}

// data adds a file in memory.
func (in *inherited) data(data []byte) (int, error) {
	f, err := memoryFile(data)
	if err != nil {
		return 0, err
	}
	return in.own(f), nil
}

func (in *inherited) close() {
	for _, f := range in.owned {
		_ = f.Close()
	}
}

// memoryFile makes a file that is on no disk, to be read from its beginning.
func memoryFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("loupe", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	return f, nil
}

// user is a user of the machine that nobody else is, for one desktop of root's.
type user struct {
	id   int
	held net.Listener
}

// The range that systemd keeps for users that are made up as they are needed.
const firstUser, lastUser = 61184, 65519

// newUser finds a user number that no process has, and holds it as long as this process
// lives: a name of the abstract namespace is gone with its socket.
func newUser() (*user, error) {
	taken := map[int]bool{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for a free user: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				taken[int(stat.Uid)] = true
			}
		}
	}
	for range 1000 {
		id := firstUser + rand.IntN(lastUser-firstUser+1)
		if taken[id] {
			continue
		}
		if held, err := net.Listen("unix", "@loupe/user/"+strconv.Itoa(id)); err == nil {
			return &user{id: id, held: held}, nil
		}
	}
	return nil, errors.New("there is no free user to run the desktop as; too many desktops are running")
}

// free gives the number back. A nil user has none.
func (u *user) free() {
	if u != nil {
		_ = u.held.Close()
	}
}

// Folders below the one of a desktop without a sandbox.
const homeFolder, runtimeFolder = "home", "run"

// scratchFolder chooses the folder in which a desktop without a sandbox lives. The guest makes
// and removes it: it outlives this process where that is killed.
func scratchFolder() (string, error) {
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("loupe-%016x", rand.Uint64()))
	if len(folder) > maxScratch {
		return "", fmt.Errorf("the folder for temporary files, %s, has too long a name; set TMPDIR to another", os.TempDir())
	}
	return folder, nil
}

// maxScratch leaves room in the path of a socket, 107 bytes, for what is below the folder.
const maxScratch = 107 - len("/home/.cache/") - len("/p11-kit/pkcs11-12345")
