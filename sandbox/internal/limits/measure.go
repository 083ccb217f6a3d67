//go:build linux

package limits

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is what /proc/PID/status says of one (proc(5)). Sizes are in bytes.
type process struct {
	pid     int
	name    string
	threads int
	own     int64 // memory that is its own, in swap too, with the tables for it
	shared  int64 // memory shared with others, as far as it has touched it
	slots   int   // at least as many as it has open files, rounded up to a power of two
	held    int64 // in files without a name that it has open; in two processes it is counted for one
}

// mount is a file system in memory that can be written to.
type mount struct {
	path         string
	device       uint64
	size, free   int64 // bytes; without a size of its own, size is 0
	nodes, spare int64 // files that it can have, and how many more
}

func (m mount) used() int64 {
	const node = 1 << 10 // what the kernel keeps of a file, roughly
	return m.size - m.free + (m.nodes-m.spare)*node
}

// measured is what a desktop uses at one moment.
type measured struct {
	processes []process
	mounts    []mount
	segments  int64 // bytes in System V shared memory
	unnamed   int64 // bytes in files that have no name
}

func (m measured) threads() (n int) {
	for _, p := range m.processes {
		n += p.threads
	}
	return n
}

// hold takes over what files without a name hold.
func (m *measured) hold(unnamed map[int]int64) {
	m.unnamed = 0
	for _, n := range unnamed {
		m.unnamed += n
	}
	for i := range m.processes {
		m.processes[i].held = unnamed[m.processes[i].pid]
	}
}

// blame is how much would be free, at best, if the process ended.
func (p process) blame() int64 { return p.own + max(p.shared, p.held) }

// memory is a quick estimate, rather too high: what processes share by having been forked
// counts for each.
func (m measured) memory() int64 {
	var own, mapped int64
	for _, p := range m.processes {
		own += p.own
		mapped += p.shared
	}
	return own + max(mapped, m.filed())
}

// filed is the shared memory that has a place, whether or not a process has it mapped.
func (m measured) filed() int64 {
	n := m.segments + m.unnamed
	for _, f := range m.mounts {
		n += f.used()
	}
	return n
}

// meter measures from the inside. It is used by one goroutine.
type meter struct {
	proc string // "/proc"
}

func (m meter) pids() (all []int) {
	for _, name := range namesIn(m.proc) {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func (m meter) processes() (all []process) {
	for _, pid := range m.pids() {
		b, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), "status"))
		if err == nil {
			all = append(all, parseStatus(pid, string(b)))
		}
	}
	return all
}

func parseStatus(pid int, text string) process {
	p := process{pid: pid, threads: 1}
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(line, ":\t")
		switch key {
		case "Name":
			p.name = strings.TrimSuffix(rest, "\n")
		case "Threads":
			p.threads = int(leading(rest))
		case "FDSize":
			p.slots = int(leading(rest))
		case "RssAnon", "VmSwap", "VmPTE":
			p.own += leading(rest) << 10
		case "RssShmem":
			p.shared = leading(rest) << 10
		}
	}
	return p
}

// leading is the number that a text begins with, behind spaces.
func leading(s string) int64 {
	number, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}

// mounts are the file systems in memory that this process may write to.
func (m meter) mounts() (all []mount) {
	b, _ := os.ReadFile(filepath.Join(m.proc, "self/mountinfo"))
	seen := map[uint64]bool{}
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 6 || len(g) < 1 || g[0] != "tmpfs" || !slices.Contains(strings.Split(f[5], ","), "rw") {
			continue
		}
		p := unescape(f[4])
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Statfs(p, &fs) != nil || unix.Stat(p, &st) != nil || seen[st.Dev] {
			continue
		}
		seen[st.Dev] = true
		block := fs.Bsize
		all = append(all, mount{path: p, device: st.Dev,
			size: int64(fs.Blocks) * block, free: int64(fs.Bavail) * block,
			nodes: int64(fs.Files), spare: int64(fs.Ffree)})
	}
	return all
}

// segments is the System V shared memory of our namespace: the columns rss and swap, found
// by their headings.
func (m meter) segments() (n int64) {
	b, _ := os.ReadFile(filepath.Join(m.proc, "sysvipc/shm"))
	var columns []int
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if columns == nil {
			for i, h := range f {
				if h == "rss" || h == "swap" {
					columns = append(columns, i)
				}
			}
			continue
		}
		for _, c := range columns {
			if c < len(f) {
				v, _ := strconv.ParseInt(f[c], 10, 64)
				n += v
			}
		}
	}
	return n
}

// unnamed is what lies in files in memory that have no name (memfd_create), in bytes, by the
// process that has them open; the first one if there are several. Of processes that do not
// let themselves be looked into it knows nothing.
func (m meter) unnamed() map[int]int64 {
	type file struct{ device, node uint64 }
	seen := map[file]bool{}
	held := map[int]int64{}
	for _, pid := range m.pids() {
		dir := filepath.Join(m.proc, strconv.Itoa(pid), "fd")
		for _, name := range namesIn(dir) {
			p := filepath.Join(dir, name)
			target, err := os.Readlink(p)
			if err != nil || !strings.HasPrefix(target, "/memfd:") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(p, &st) != nil || seen[file{st.Dev, st.Ino}] {
				continue
			}
			seen[file{st.Dev, st.Ino}] = true
			held[pid] += st.Blocks * 512
		}
	}
	return held
}

// namesIn are the names in a folder, such as those of the files that a process has open.
func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

// exact replaces the estimates of the processes by their proportional shares, where the
// kernel lets us see them.
func (m meter) exact(all []process) {
	for i, p := range all {
		b, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(p.pid), "smaps_rollup"))
		if err != nil {
			continue
		}
		text := strings.ReplaceAll(string(b), " kB", "")
		anon, ok := value(text, "Pss_Anon:")
		shmem, there := value(text, "Pss_Shmem:")
		if ok && there {
			swap, _ := value(text, "SwapPss:")
			all[i].own, all[i].shared = (anon+swap)<<10, shmem<<10
		}
	}
}

// shmem is the shared memory of the whole machine, in bytes.
func (m meter) shmem() int64 {
	b, _ := os.ReadFile(filepath.Join(m.proc, "meminfo"))
	n, _ := value(strings.ReplaceAll(string(b), " kB", ""), "Shmem:")
	return n << 10
}
