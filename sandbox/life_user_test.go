//go:build linux

package sandbox_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOrdinaryUser starts and ends desktops as a user who is not root, which on a machine of
// root's is one that is made up.
func TestOrdinaryUser(t *testing.T) {
	program := os.Args[0]
	if os.Getuid() == 0 { // it must be where others can read it
		dir, err := os.MkdirTemp("", "life")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		program = filepath.Join(dir, "test")
		if err := copyProgram(program); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	user := uint32(60100) // below those that desktops of root's have
	t.Run("rounds", func(t *testing.T) {
		for _, how := range []string{"killed", "killed at the start", "terminated", "closed"} {
			for _, noSandbox := range []bool{false, true} {
				name := how
				if noSandbox {
					name += " without a sandbox"
				}
				var as *syscall.Credential
				if os.Getuid() == 0 {
					user++
					as = &syscall.Credential{Uid: user, Gid: user}
				}
				plan := lifePlan{NoSandbox: noSandbox, Apps: []string{"xterm"}, Name: fmt.Sprintf("user-%d-%d", os.Getpid(), user)}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					l := born(t, plan, as, program)
					if as != nil {
						l.users[int(as.Uid)] = true
					}
					switch how {
					case "killed at the start":
						until(t, "the display's server runs", func() bool { return len(named(l.look(), "Xvfb")) == 1 })
						l.kill(syscall.SIGKILL)
					case "killed":
						l.ready()
						l.kill(syscall.SIGKILL)
					case "terminated":
						l.ready()
						l.kill(syscall.SIGTERM)
					case "closed":
						l.ready()
						_ = l.stdin.Close()
					}
					l.over()
				})
			}
		}
	})
}

func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
