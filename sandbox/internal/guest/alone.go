//go:build linux

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A desktop without a sandbox has to be ended process by process, and leaves files: in a
// sandbox the kernel sees to both.

// emptyLooks is how often nothing is found before it is believed: a list of processes is not of
// one moment, and one whose parent has just ended can be missing once.
const emptyLooks = 3

// closeTime bounds how long a server that was killed may still hold its socket.
const closeTime = time.Second

// EndAll kills the processes that find lists, again and again until it lists none, and removes
// what they leave behind: shared memory, and the files of X servers, those among the processes
// and that of display (such as ":1") unless it is empty.
func EndAll(display string, find func() []int) {
	displays := map[string]bool{}
	if display != "" {
		displays[strings.TrimPrefix(display, ":")] = true
	}
	stopped := map[int]bool{}
	for empty := 0; empty < emptyLooks; time.Sleep(time.Millisecond) { // to die takes a moment
		found := find()
		if len(found) == 0 {
			empty++
			continue
		}
		empty = 0
		news := false
		for _, pid := range found {
			if !stopped[pid] {
				// What is stopped makes no more processes, so this comes to an end also
				// where they are made as fast as they can be found.
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				stopped[pid], news = true, true
			}
		}
		displaysOf(found, displays)
		if news {
			continue
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for number := range displays {
		removeDisplay(number)
	}
	removeSegments(stopped)
}

// removeSegments removes the shared memory that processes have made and nobody uses.
func removeSegments(creators map[int]bool) {
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(table)) {
		var key, id, creator, last, attached int
		var mode, size uint64
		if n, _ := fmt.Sscan(line, &key, &id, &mode, &size, &creator, &last, &attached); n == 7 && attached == 0 && creators[creator] {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}
}

// displaysOf adds the numbers of the displays that processes listen for.
func displaysOf(pids []int, displays map[string]bool) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return
	}
	numbers := map[string]string{} // by inode
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // address, references, protocol, flags, type, state, inode, path
		if len(f) < 8 {
			continue
		}
		if number, ok := strings.CutPrefix(strings.TrimPrefix(f[7], "@"), "/tmp/.X11-unix/X"); ok {
			numbers[f[6]] = number
		}
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			target, _ := os.Readlink(dir + "/" + e.Name())
			inode := strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")
			if number, ok := numbers[inode]; ok {
				displays[number] = true
			}
		}
	}
}

// removeDisplay removes the files of a display whose server is gone.
func removeDisplay(number string) {
	if _, err := strconv.Atoi(number); err != nil {
		return
	}
	socket := "/tmp/.X11-unix/X" + number
	for deadline := time.Now().Add(closeTime); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			_ = conn.Close()
		}
		if err != nil || time.Now().After(deadline) { // there is none, or another's by now
			return
		}
	}
	for _, name := range []string{socket, "/tmp/.X" + number + "-lock", path.Join("/tmp", "server-"+number+".xkm")} {
		_ = os.Remove(name) // one that is another user's stays
	}
}

// WithEnvironment lists the processes, but those that have ended, whose environment has an
// entry.
func WithEnvironment(entry string) (found []int) {
	for pid, p := range processes() {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && p.runs && bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+entry+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// OfUser lists the processes of a user, but those that have ended.
func OfUser(uid int) (found []int) {
	for pid, p := range processes() {
		// The owner of the folder may be root, of a process that is closed to others.
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if p.runs && strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", uid)) {
			found = append(found, pid)
		}
	}
	return found
}

// Descendants lists the processes below one, but those that have ended.
func Descendants(of int) (found []int) {
	all := processes()
	children := map[int][]int{}
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	for queue := []int{of}; len(queue) > 0; queue = queue[1:] {
		for _, pid := range children[queue[0]] {
			queue = append(queue, pid)
			if all[pid].runs {
				found = append(found, pid)
			}
		}
	}
	return found
}

// running is what is known of a process.
type running struct {
	parent  int
	runs    bool // has not ended
	session int
}

// processes lists all processes.
func processes() map[int]running {
	all := map[int]running{}
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
		// The name is in brackets and may hold anything. What follows is the state, the
		// parent, the group, the session, and 14 fields later the number of threads.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 18 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		session, err := strconv.Atoi(fields[3])
		if err != nil {
			continue
		}
		// One whose first thread alone has ended is a zombie too, but can act still.
		ended := (fields[0] == "Z" || fields[0] == "X") && (fields[17] == "1" || fields[17] == "0")
		all[pid] = running{parent: parent, runs: !ended, session: session}
	}
	return all
}

// sessionGoesOn reports whether a process of a session runs.
func sessionGoesOn(session int) bool {
	for _, p := range processes() {
		if p.runs && p.session == session {
			return true
		}
	}
	return false
}
