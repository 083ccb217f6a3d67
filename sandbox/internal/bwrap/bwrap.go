//go:build linux

// Package bwrap writes the command line of bubblewrap for a desktop's sandbox. It starts
// nothing.
package bwrap

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// The user inside, and the places that a desktop has.
const (
	UID     = 1000
	Home    = "/home/user"
	Runtime = "/run/user/1000"
)

// File is a file for the sandbox, whose contents come from a descriptor.
type File struct {
	Path string
	FD   int
	Mode os.FileMode
}

// Sandbox is what bubblewrap is told. Nothing of the host is visible inside but /usr, what
// ReadOnly lists, and the files of Files, and nothing of it can be written.
type Sandbox struct {
	ReadOnly []string // host paths, shown under the same names
	Files    []File

	Disk, Temporary, Shared int64 // bytes of the home folder, of /tmp, of /dev/shm

	Seccomp int    // descriptor of the filter
	Guest   string // path of the program to run on the host; empty: GuestFD
	GuestFD int    // or its descriptor
	Args    []string
	Env     map[string]string
}

// guestPath is where the guest's program is inside.
const guestPath = "/run/loupe/guest"

// Arguments returns bubblewrap's arguments, without its name.
func (s *Sandbox) Arguments() []string { return s.arguments("/") }

// arguments is Arguments on a machine whose file system is below root.
func (s *Sandbox) arguments(root string) []string {
	args := []string{
		// Without --as-pid-1 the first process is one of bubblewrap's, without a filter of
		// system calls, whose memory everything inside could write.
		"--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv",
		"--uid", strconv.Itoa(UID), "--gid", strconv.Itoa(UID), "--hostname", "desktop",
		"--ro-bind", "/usr", "/usr",
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		// On most systems they are links into /usr.
		target, err := os.Readlink(filepath.Join(root, dir))
		switch {
		case err == nil:
			args = append(args, "--symlink", target, dir)
		case isDir(filepath.Join(root, dir)):
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	args = append(args,
		"--proc", "/proc",
		"--dev", "/dev",
		"--perms", "1777", "--size", size(s.Shared), "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--perms", "1777", "--size", size(s.Temporary), "--tmpfs", "/tmp",
		"--perms", "0700", "--size", size(s.Disk), "--tmpfs", Home,
		"--perms", "0700", "--size", size(64<<20), "--tmpfs", Runtime,
		"--dir", "/var", "--symlink", "/tmp", "/var/tmp",
	)
	for _, path := range s.ReadOnly {
		args = append(args, "--ro-bind", path, path)
	}
	for _, f := range s.Files {
		args = append(args, "--perms", fmt.Sprintf("%04o", f.Mode.Perm()), "--ro-bind-data", strconv.Itoa(f.FD), f.Path)
	}
	program := "/proc/self/fd/" + strconv.Itoa(s.GuestFD)
	if s.Guest != "" {
		args = append(args, "--ro-bind", s.Guest, guestPath)
		program = guestPath
	}
	args = append(args, "--remount-ro", "/", "--chdir", Home)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		args = append(args, "--setenv", name, s.Env[name])
	}
	if s.Seccomp > 0 {
		args = append(args, "--seccomp", strconv.Itoa(s.Seccomp))
	}
	return append(append(args, "--", program), s.Args...)
}

func size(bytes int64) string { return strconv.FormatInt(max(bytes, 1<<20), 10) }

func isDir(path string) bool {
	info, err := os.Stat(filepath.Clean(path))
	return err == nil && info.IsDir()
}
