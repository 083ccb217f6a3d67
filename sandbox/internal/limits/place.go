//go:build linux

package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ErrNoCgroup says that no control group can be made. The error that wraps it says what was
// tried and why each of it failed.
var ErrNoCgroup = errors.New("no control group can be made here, so memory is only measured; " +
	"start loupe as root, or with: systemd-run --user --scope loupe")

// hierarchy is a mounted tree of control groups and where this process is in it.
type hierarchy struct {
	mount       string   // where it is mounted
	root        string   // the group that is seen there
	own         string   // the group of this process
	controllers []string // version 1: those of this tree
	v2          bool
}

// hierarchies reads /proc/self/mountinfo and /proc/self/cgroup (proc(5), cgroups(7)).
func hierarchies(mountinfo, cgroup string) (all []hierarchy) {
	own := map[string]string{} // by controller; version 2 has none
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		h := hierarchy{root: unescape(f[3]), mount: unescape(f[4]), v2: g[0] == "cgroup2"}
		switch {
		case h.v2:
			h.own, ok = own[""]
		case g[0] == "cgroup":
			ok = false
			for o := range strings.SplitSeq(g[2], ",") {
				if p, there := own[o]; there && o != "" {
					h.controllers = append(h.controllers, o)
					h.own, ok = p, true
				}
			}
		default:
			ok = false
		}
		if ok {
			all = append(all, h)
		}
	}
	return all
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// parents are the folders in which a group could be made: that of this process, then those
// above it, up to the top of what is mounted.
func (h hierarchy) parents() (dirs []string) {
	below := strings.TrimPrefix(h.own, strings.TrimSuffix(h.root, "/"))
	if !strings.HasPrefix(h.own, strings.TrimSuffix(h.root, "/")+"/") && h.own != h.root || slices.Contains(strings.Split(h.own, "/"), "..") {
		below = "/" // this process is outside of what is mounted
	}
	for d := path.Clean("/" + below); ; d = path.Dir(d) {
		dirs = append(dirs, path.Join(h.mount, d))
		if d == "/" {
			return dirs
		}
	}
}

// maker makes the folders of one group.
type maker struct {
	kernel   kernel
	name     string // of the folders
	limits   Limits
	announce func(dir string) error // is called before a folder is made
	tidy     func(parent string)    // removes what dead processes left in parent
}

// place is where a group's files are.
type place struct {
	dirs   []string // every folder of the group, each with a cgroup.procs
	memory string   // that with the memory controller
	pids   string   // that with the pids controller
	v2     bool
}

// make finds a place and makes the group there. On an error nothing is left behind.
func (m *maker) make() (place, error) {
	mountinfo, err := m.kernel.Read("/proc/self/mountinfo")
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	cgroup, err := m.kernel.Read("/proc/self/cgroup")
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	all := hierarchies(mountinfo, cgroup)
	var tried attempts
	for _, h := range all {
		if !h.v2 {
			continue
		}
		for _, parent := range h.parents() {
			dir, err := m.second(parent)
			if err == nil {
				return place{dirs: []string{dir}, memory: dir, pids: dir, v2: true}, nil
			}
			tried.add(parent, err)
		}
	}
	p, err := m.first(all)
	if err == nil {
		return p, nil
	}
	return place{}, fmt.Errorf("%w (tried: %w)", ErrNoCgroup, append(tried, err))
}

// attempts are what was tried and has failed, as one error on one line.
type attempts []error

func (a *attempts) add(parent string, err error) {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("%s: %w", at.Op, at.Err) // its path is below parent and has a long name
	}
	*a = append(*a, fmt.Errorf("%s: %w", parent, err))
}

func (a attempts) Error() string {
	var texts []string
	for _, err := range a {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (a attempts) Unwrap() []error { return a }

// second makes the group of version 2 below parent.
func (m *maker) second(parent string) (dir string, err error) {
	has, err := m.kernel.Read(path.Join(parent, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	for _, c := range []string{memory, "pids"} {
		if !slices.Contains(strings.Fields(has), c) {
			return "", fmt.Errorf("it has no %s controller", c)
		}
	}
	// A process is moved by who may write to the group that is above both its old and its
	// new one, and that is parent.
	if !m.kernel.Writable(path.Join(parent, "cgroup.procs")) {
		return "", errors.New("processes may not be moved in it")
	}
	enable := path.Join(parent, "cgroup.subtree_control")
	on, err := m.kernel.Read(enable)
	if err != nil {
		return "", err
	}
	for _, c := range []string{memory, "pids", "cpu"} {
		if slices.Contains(strings.Fields(on), c) || c == "cpu" && !slices.Contains(strings.Fields(has), c) {
			continue
		}
		// Refused where the group has processes of its own. It stays switched on, since
		// another desktop may use it by the time that this one ends.
		if err := m.kernel.Write(enable, "+"+c); err != nil && c != "cpu" {
			return "", err
		}
	}
	return m.folder(parent, []setting{
		{"memory.max", m.limits.Memory, true},
		{"memory.swap.max", 0, false}, // not there without swap accounting
		{"pids.max", int64(m.limits.Processes), true},
		{"cpu.weight", 50, false}, // half of what others get when there is not enough
	})
}

// first makes the groups of version 1, one in each tree.
func (m *maker) first(all []hierarchy) (p place, err error) {
	made := map[string]string{} // by controller
	defer func() {
		if err != nil {
			for _, d := range p.dirs {
				_ = m.kernel.Rmdir(d)
			}
			p = place{}
		}
	}()
	for _, want := range []struct {
		controller string
		settings   []setting
	}{
		{memory, []setting{
			{"memory.limit_in_bytes", m.limits.Memory, true},
			{"memory.memsw.limit_in_bytes", m.limits.Memory, false}, // with swap
			{"memory.swappiness", 0, false},
		}},
		{"pids", []setting{{"pids.max", int64(m.limits.Processes), true}}},
		{"cpu", []setting{{"cpu.shares", 512, false}}}, // of 1024
	} {
		dir, err := m.firstOne(all, want.controller, want.settings)
		if err != nil && want.controller != "cpu" {
			return p, err
		}
		if err == nil {
			made[want.controller] = dir
			p.dirs = append(p.dirs, dir)
		}
	}
	p.memory, p.pids = made[memory], made["pids"]
	return p, nil
}

func (m *maker) firstOne(all []hierarchy, controller string, settings []setting) (string, error) {
	tried := attempts{fmt.Errorf("there is no tree of version 1 with the %s controller", controller)}
	for _, h := range all {
		if h.v2 || !slices.Contains(h.controllers, controller) {
			continue
		}
		tried = nil
		for _, parent := range h.parents() {
			dir, err := m.folder(parent, settings)
			if err == nil {
				return dir, nil
			}
			tried.add(parent, err)
		}
	}
	return "", tried
}

type setting struct {
	file  string
	value int64 // 0 in one that is needed is no limit
	need  bool
}

// folder makes the group's folder below parent and sets it up.
func (m *maker) folder(parent string, settings []setting) (dir string, err error) {
	m.tidy(parent)
	dir = path.Join(parent, m.name)
	if err := m.announce(dir); err != nil {
		return "", err
	}
	if err := m.kernel.Mkdir(dir); err != nil {
		return "", err
	}
	for _, s := range settings {
		if s.need && s.value == 0 {
			continue
		}
		if err := m.kernel.Write(path.Join(dir, s.file), fmt.Sprint(s.value)); err != nil && s.need {
			return "", errors.Join(err, m.kernel.Rmdir(dir))
		}
	}
	if !m.kernel.Writable(path.Join(dir, "cgroup.procs")) {
		return "", errors.Join(errors.New("processes may not be moved into it"), m.kernel.Rmdir(dir))
	}
	return dir, nil
}
