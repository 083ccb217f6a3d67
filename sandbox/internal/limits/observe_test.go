//go:build linux

package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// short writes events as people who compare them like them: memory, memory!, processes.
func short(events []Event) string {
	var all []string
	for _, e := range events {
		mark := ""
		if e.Fatal {
			mark = "!"
		}
		all = append(all, e.Limit+mark)
	}
	return strings.Join(all, " ")
}

func TestTally(t *testing.T) {
	l := Limits{Memory: 1 << 30, Processes: 100}
	steady := func(n int, s sample) (all []sample) {
		for range n {
			all = append(all, s)
		}
		return all
	}
	growing := func(n int, s, by sample) (all []sample) {
		for range n {
			all = append(all, s)
			s.kills += by.kills
			s.refused += by.refused
		}
		return all
	}
	for _, c := range []struct {
		name    string
		samples []sample
		want    string
	}{
		{"nothing", steady(20, sample{processes: 99}), ""},
		{"one process ended", steady(20, sample{kills: 1, processes: 50}), "memory"},
		{"two, far apart", append(steady(6, sample{kills: 1, processes: 50}), steady(6, sample{kills: 2, processes: 50})...), "memory memory"},
		{"several, close together", growing(4, sample{kills: 1, processes: 50}, sample{kills: 1}), "memory"},
		{"again and again", growing(30, sample{kills: 1, processes: 50}, sample{kills: 3}), "memory memory!"},
		{"everything ended", steady(3, sample{kills: 7}), "memory memory!"},
		{"everything ended, later", append(steady(2, sample{kills: 7, processes: 3}), steady(3, sample{kills: 7})...), "memory memory!"},
		{"emptied long after", append(steady(9, sample{kills: 1, processes: 3}), steady(9, sample{kills: 1})...), "memory"},
		{"the limit met once", steady(20, sample{refused: 1, processes: 60}), "processes"},
		{"met once, and nearly full from then on", steady(20, sample{refused: 3, processes: 95}), "processes"},
		{"met by one stubborn program", growing(20, sample{refused: 1, processes: 97}, sample{refused: 1}), "processes"},
		{"a fork bomb", growing(20, sample{refused: 500, processes: 100}, sample{refused: 900}), "processes processes!"},
		{"a fork bomb that sleeps between", steady(20, sample{refused: 200, processes: 100}), "processes processes!"},
		{"a short one", append(steady(4, sample{refused: 500, processes: 100}), steady(20, sample{refused: 500, processes: 20})...), "processes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := tally{limits: l}
			var all []Event
			for _, s := range c.samples {
				all = append(all, y.observe(s)...)
			}
			if got := short(all); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Whatever is counted: without anything ended or refused there is no event, and never is
// there a fatal one that no other of its limit has announced.
func TestTallyIsSensible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := tally{limits: Limits{Memory: 1 << 30, Processes: rapid.IntRange(0, 200).Draw(t, "limit")}}
		var s sample
		announced := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			kills, refused := rapid.Int64Range(0, 3).Draw(t, "kills"), rapid.Int64Range(0, 50).Draw(t, "refused")
			s.kills += kills
			s.refused += refused
			s.processes = rapid.IntRange(0, 200).Draw(t, "processes")
			for _, e := range y.observe(s) {
				if e.Fatal && !announced[e.Limit] {
					t.Fatalf("%+v came first", e)
				}
				if !e.Fatal && (e.Limit == memory && kills == 0 || e.Limit == processes && refused == 0) {
					t.Fatalf("%+v without a reason", e)
				}
				announced[e.Limit] = true
				if strings.ContainsAny(e.Text, "\n%") {
					t.Fatalf("%q", e.Text)
				}
			}
		}
	})
}

func TestDiskIsToldOnceWhileItIsFull(t *testing.T) {
	w := &watcher{}
	at := func(free, spare int64) string {
		return short(w.disk([]mount{
			{path: "/home/user", size: 6400, free: free, nodes: 640, spare: spare},
			{path: "/unlimited"},
		}))
	}
	for i, step := range []struct {
		free, spare int64
		want        string
	}{
		{6400, 640, ""}, {100, 640, ""}, {99, 640, "disk"}, {0, 640, ""}, {200, 640, ""}, {99, 640, ""},
		{400, 640, ""}, {0, 640, "disk"}, {6400, 640, ""}, {6400, 9, "disk"}, {6400, 0, ""},
	} {
		if got := at(step.free, step.spare); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// A desktop without a control group, whose use the test writes into a /proc of its own.
func TestWatcherWithoutControlGroup(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process := func(pid int, name string, anon, shmem, threads int) {
		write(fmt.Sprintf("%d/status", pid), fmt.Sprintf("Name:\t%s\nFDSize:\t64\nRssAnon:\t%8d kB\nRssShmem:\t%8d kB\nVmSwap:\t       0 kB\nThreads:\t%d\n",
			name, anon<<10, shmem<<10, threads))
	}
	full := false
	w := &watcher{limits: Limits{Memory: 100 << 20, Processes: 50}, meter: meter{proc}, self: 2,
		canStart: func() bool { return !full }}
	now := time.Unix(1000, 0)
	look := func() (string, int) {
		now = now.Add(slowest)
		events, victim := w.look(now)
		return short(events), victim
	}
	expect := func(step, want string, victim int) {
		t.Helper()
		if got, v := look(); got != want || v != victim {
			t.Errorf("%s: %q and %d to end, want %q and %d", step, got, v, want, victim)
		}
	}
	process(1, "bwrap", 1, 0, 1)
	process(2, "loupe", 30, 0, 9)
	process(3, "small", 10, 5, 1)
	expect("little", "", 0)
	process(4, "large", 40, 0, 1)
	expect("more", "", 0)
	if w.next >= 50*time.Millisecond {
		t.Errorf("the next look is in %v although only 14 MiB are left", w.next)
	}
	process(5, "hog \"\x1b[31m", 70, 0, 1)
	expect("too much", "memory", 5)
	expect("still there", "", 5)
	if err := os.RemoveAll(filepath.Join(proc, "5")); err != nil {
		t.Fatal(err)
	}
	process(4, "large", 20, 0, 1)
	expect("ended", "", 0)

	write("sysvipc/shm", "key shmid size rss swap\n0 1 99 62914560 0\n0 2 99 31457280 0\n")
	expect("segments and a process of some size", "memory", 4)
	process(4, "large", 1, 0, 1)
	process(3, "small", 1, 0, 1)
	expect("segments alone", "memory!", 0)
	expect("said once", "", 0)
	write("sysvipc/shm", "key shmid size rss swap\n")
	expect("gone", "", 0)

	process(3, "many", 1, 0, 36)
	expect("nearly no room", "", 0)
	full = true
	expect("none", "processes", 0)
	for range 4 {
		if got, _ := look(); strings.Contains(got, "processes ") {
			t.Errorf("said again: %q", got)
		}
	}
	if !w.bomb {
		t.Error("not fatal after 2.5 s")
	}
	process(3, "many", 1, 0, 2)
	expect("room again", "", 0)
	if w.bomb || w.refused != 0 {
		t.Error("the episode has not ended")
	}
}

func TestNamesFromInsideAreQuoted(t *testing.T) {
	w := &watcher{limits: Limits{Memory: 1 << 20}, meter: meter{t.TempDir()}, self: 2}
	m := measured{processes: []process{{pid: 7, name: "a\n\x1b]0;b", own: 2 << 20}}}
	events, victim := w.memory(time.Unix(1, 0), m)
	if len(events) != 1 || victim != 7 || strings.ContainsAny(events[0].Text, "\n\x1b") {
		t.Errorf("%+v, %d", events, victim)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add(mountV2+mountV1, "0::/a/b\n4:memory:/x\n1:cpu,cpuacct:/\n")
	f.Add("1 2 0:3 /\\040 /a\\134b rw - cgroup2 x\n", "0::/../y")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, h := range hierarchies(a, b) {
			dirs := h.parents()
			if len(dirs) == 0 || dirs[len(dirs)-1] != filepath.Join(h.mount, "/") {
				t.Errorf("%+v: parents %q do not end at the mount", h, dirs)
			}
			for _, d := range dirs {
				if rel, err := filepath.Rel(filepath.Join(h.mount, "/"), d); err == nil && strings.HasPrefix(rel, "..") {
					t.Errorf("%+v: %q is outside of the mount", h, d)
				}
			}
		}
		for _, p := range pids(a) {
			if p <= 1 {
				t.Errorf("process %d would be ended", p)
			}
		}
		parseStatus(7, a)
		value(a, b)
	})
}

// What one look costs, on this machine's processes.
func BenchmarkLook(b *testing.B) {
	for _, c := range []struct {
		name   string
		cgroup bool
	}{{"control group", true}, {"alone", false}} {
		b.Run(c.name, func(b *testing.B) {
			w := &watcher{limits: Limits{Memory: 1 << 50, Files: 1 << 20}, cgroup: c.cgroup, meter: meter{"/proc"}, self: os.Getpid()}
			for b.Loop() {
				w.slow = time.Time{}
				w.look(time.Now())
			}
			b.ReportMetric(float64(len(w.meter.processes())), "processes")
		})
	}
}
