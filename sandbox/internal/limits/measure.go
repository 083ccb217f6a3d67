//go:build linux

package limits

import (
	"os"
	"path/filepath"
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
	inMemory  int64 // bytes in files that have no name
}

func (m measured) threads() (n int) {
	for _, p := range m.processes {
		n += p.threads
	}
	return n
}

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
	n := m.segments + m.inMemory
	for _, f := range m.mounts {
		n += f.used()
	}
	return n
}

// meter measures from the inside. It is used by one goroutine.
type meter struct {
	proc string // "/proc"
}

func (m meter) processes() (all []process) {
	entries, _ := os.ReadDir(m.proc)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(m.proc, e.Name(), "status"))
		if err == nil {
			all = append(all, parseStatus(pid, string(b)))
		}
	}
	return all
}

func parseStatus(pid int, text string) process {
	p := process{pid: pid, threads: 1}
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		if key == "Name" {
			p.name = rest
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, _ := strconv.ParseInt(number, 10, 64)
		switch key {
		case "Threads":
			p.threads = int(n)
		case "FDSize":
			p.slots = int(n)
		case "RssAnon", "VmSwap", "VmPTE":
			p.own += n << 10
		case "RssShmem":
			p.shared = n << 10
		}
	}
	return p
}

// mounts are the file systems in memory that this process may write to.
func (m meter) mounts() (all []mount) {
	b, _ := os.ReadFile(filepath.Join(m.proc, "self/mountinfo"))
	seen := map[uint64]bool{}
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 6 || len(g) < 1 || g[0] != "tmpfs" || !hasOption(f[5], "rw") {
			continue
		}
		p := unescape(f[4])
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Statfs(p, &fs) != nil || unix.Stat(p, &st) != nil || seen[st.Dev] {
			continue
		}
		seen[st.Dev] = true
		block := int64(fs.Bsize)
		all = append(all, mount{path: p, device: st.Dev,
			size: int64(fs.Blocks) * block, free: int64(fs.Bavail) * block,
			nodes: int64(fs.Files), spare: int64(fs.Ffree)})
	}
	return all
}

func hasOption(options, want string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == want {
			return true
		}
	}
	return false
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

// unnamed is what lies in files in memory that have no name (memfd_create): files that are
// open in some process and lie on none of the mounts. Of processes that do not let
// themselves be looked into it knows nothing.
func (m meter) unnamed(mounts []mount) (n int64) {
	on := map[uint64]bool{}
	for _, f := range mounts {
		on[f.device] = true
	}
	type file struct{ device, node uint64 }
	seen := map[file]bool{}
	lists, _ := filepath.Glob(filepath.Join(m.proc, "[0-9]*/fd"))
	for _, dir := range lists {
		for _, name := range openFiles(dir) {
			p := filepath.Join(dir, name)
			target, err := os.Readlink(p)
			if err != nil || !strings.HasPrefix(target, "/memfd:") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(p, &st) != nil || on[st.Dev] || seen[file{st.Dev, st.Ino}] {
				continue
			}
			seen[file{st.Dev, st.Ino}] = true
			n += st.Blocks * 512
		}
	}
	return n
}

func openFiles(dir string) []string {
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
func (m meter) exact(all []process) []process {
	out := make([]process, len(all))
	for i, p := range all {
		out[i] = p
		b, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(p.pid), "smaps_rollup"))
		if err != nil {
			continue
		}
		text := strings.ReplaceAll(string(b), ":", " ")
		anon, ok := value(strings.ReplaceAll(text, " kB", ""), "Pss_Anon")
		shmem, there := value(strings.ReplaceAll(text, " kB", ""), "Pss_Shmem")
		if ok && there {
			swap, _ := value(strings.ReplaceAll(text, " kB", ""), "SwapPss")
			out[i].own, out[i].shared = (anon+swap)<<10, shmem<<10
		}
	}
	return out
}

// shmem is the shared memory of the whole machine, in bytes.
func (m meter) shmem() int64 {
	b, _ := os.ReadFile(filepath.Join(m.proc, "meminfo"))
	n, _ := value(strings.ReplaceAll(string(b), " kB", ""), "Shmem:")
	return n << 10
}
