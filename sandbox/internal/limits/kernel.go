//go:build linux

package limits

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel is the file systems through which control groups are made.
type kernel interface {
	Read(path string) (string, error)
	Write(path, value string) error // to a file that exists
	Mkdir(path string) error
	Rmdir(path string) error
	List(path string) ([]string, error) // the folders in it
	Writable(path string) bool
}

type theKernel struct{}

func (theKernel) Read(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

func (theKernel) Write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (theKernel) Mkdir(path string) error { return os.Mkdir(path, 0o755) }

func (theKernel) Rmdir(path string) error {
	if err := unix.Rmdir(path); err != nil {
		return &os.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

func (theKernel) List(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (theKernel) Writable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

// value finds a number behind its name in a file of lines "name number".
func value(text, name string) (n int64, ok bool) {
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == name {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// pids are the process numbers of a cgroup.procs. A process that has no number in our
// namespace is listed as 0, and is left out: 0 means oneself to most calls.
func pids(text string) (all []int) {
	for _, field := range strings.Fields(text) {
		if n, err := strconv.Atoi(field); err == nil && n > 1 {
			all = append(all, n)
		}
	}
	return all
}
