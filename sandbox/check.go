//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/loupe-tools/loupe/sandbox/internal/apps"
	"github.com/loupe-tools/loupe/sandbox/internal/bwrap"
	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/limits"
	"github.com/loupe-tools/loupe/sandbox/internal/seccomp"
)

// CanIsolate says whether this machine can isolate a desktop: it runs a program that does
// nothing in the sandbox that [Start] makes. The error wraps [ErrNoSandbox]; its text is what
// stands in the way.
func CanIsolate(ctx context.Context) error {
	cannot := func(text string, cause error) error { return &sentence{kind: ErrNoSandbox, text: text, cause: cause} }
	path, err := findBubblewrap()
	if err != nil {
		return cannot("bubblewrap is not installed", err)
	}
	filter, err := seccomp.Filter()
	if err != nil {
		return cannot("there is no filter of system calls for this kind of machine", err)
	}
	files := &inherited{}
	defer files.close()
	fd, err := files.data(filter)
	if err != nil {
		return cannot(err.Error(), err)
	}
	s := &bwrap.Sandbox{ReadOnly: apps.HostPaths(), Disk: 1 << 20, Temporary: 1 << 20, Shared: 1 << 20, Seccomp: fd, Guest: "/usr/bin/true"}
	cmd := exec.CommandContext(ctx, path, s.Arguments()...)
	cmd.Args[0] = "bwrap"
	said := &guest.Tail{}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.Dir = said, said, files.files, "/"
	cmd.Env, cmd.WaitDelay = []string{"PATH=/usr/bin:/bin"}, time.Second
	if os.Geteuid() == 0 {
		user, err := newUser()
		if err != nil {
			return cannot(err.Error(), err)
		}
		defer user.free()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user.id), Gid: uint32(user.id)}}
	}
	runtime.LockOSThread() // bubblewrap is killed when the thread ends that started it
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		why := strings.TrimPrefix(guest.LastLine(said.String()), "bwrap: ")
		if why == "" {
			why = err.Error()
		}
		return cannot("bubblewrap says: "+why, err)
	}
	return nil
}

// CanLimit says whether this process can make a control group, with which the kernel holds a
// desktop to its memory and processes. Without one they are measured from inside, and a
// desktop that takes too much is ended.
func CanLimit() error {
	var l Limits
	if err := l.resolve(); err != nil {
		return err
	}
	group, err := limits.NewGroup("check", l.inside())
	if errors.Is(err, limits.ErrNoCgroup) {
		return fmt.Errorf("no control group can be made here: %w", err)
	}
	if err != nil {
		return err
	}
	return group.Close()
}
