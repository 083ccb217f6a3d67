//go:build linux

package limits

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// applyAndShow applies the limits and lets a child show what it has got.
func applyAndShow() {
	if err := Apply(small); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := exec.Command("/bin/bash", "-c", `cat /proc/self/limits /proc/self/oom_score_adj; nice
		ulimit -u 101 2>&1; ulimit -n 513 2>&1; nice -n -1 true 2>&1; ulimit -c 1 2>&1`)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Println(err) // of the last command
	}
}

func TestApply(t *testing.T) {
	c := exec.Command("/proc/self/exe", applyRole)
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "GORACE=atexit_sleep_ms=0"}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		id := uint32(61100 + os.Getpid()%1000)
		c.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	b, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	out := string(b)
	for _, w := range []string{
		`Max core file size +1 +1 `,
		`Max processes +100 +100 `,
		`Max open files +512 +512 `,
		`Max file size +268435456 +268435456 `,
		`Max data size +1610612736 +1610612736 `,
		`Max realtime priority +0 +0 `,
		`Max nice priority +0 +0 `,
		`\n200\n5\n`, // when the machine runs out of memory; the nice value
		`max user processes: cannot modify limit`,
		`open files: cannot modify limit`,
		`nice: cannot set niceness`,
		`core file size: cannot modify limit`,
	} {
		if !countsByNamespace() && strings.Contains(w, "processes") {
			continue
		}
		if !regexp.MustCompile(w).MatchString(out) {
			t.Errorf("no %q in\n%s", w, out)
		}
	}
}

func TestNoLimits(t *testing.T) {
	g, err := newGroup(&emulated{
		mountinfo: mountV1, cgroup: "4:memory:/\n5:pids:/\n",
		dirs: map[string]*dir{
			"/sys/fs/cgroup/memory": {controllers: "memory", owned: true},
			"/sys/fs/cgroup/pids":   {controllers: "pids", owned: true},
		},
	}, "free", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range g.place.dirs {
		set := g.kernel.(*emulated).dirs[d].settings
		if set["memory.limit_in_bytes"] != "" || set["memory.memsw.limit_in_bytes"] != "" || set["pids.max"] != "" {
			t.Errorf("%s has %v", d, set)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestKernelVersions(t *testing.T) {
	for release, want := range map[string]bool{
		"5.14.0-1-amd64": true, "6.1.0": true, "6.18.44-x": true, "10.0": true,
		"5.13.9": false, "5.10.0-30-amd64": false, "4.19": false, "": false, "x": false,
	} {
		if got := atLeast(release, 5, 14); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
