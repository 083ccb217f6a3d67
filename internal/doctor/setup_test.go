package doctor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/internal/doctor"
)

// bareMachine is a PATH on which no Debian package is installed. What apt-get is asked
// for is written to the file returned, one line a call; its first calls fail.
func bareMachine(t *testing.T, failures string) (path, asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	for name, script := range map[string]string{
		"dpkg-query": "exit 1",
		"id":         "echo 0",
		"sleep":      "exit 0",
		"apt-get": `echo "$@" >> "$ASKED"
			[ "$(wc -l < "$ASKED")" -gt ` + failures + ` ] || { echo "E: no network"; exit 100; }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH"), asked
}

func setup(t *testing.T, path, asked string, args ...string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "../../scripts/setup", args...)
	command.Env = append(os.Environ(), "PATH="+path, "ASKED="+asked)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestSetupAgrees: what doctor would have installed, scripts/setup installs. Make is
// apart, since without it nobody runs the script.
func TestSetupAgrees(t *testing.T) {
	path, asked := bareMachine(t, "0")
	out, err := setup(t, path, asked, "-n", "test")
	if err != nil {
		t.Fatal(err, out)
	}
	installs := strings.Fields(out)
	for _, f := range doctor.Check(t.Context(), machine{}.env()) {
		for _, p := range f.Packages {
			if p != "make" && !slices.Contains(installs, p) {
				t.Errorf("%s needs %s, which scripts/setup does not install", f.Name, p)
			}
		}
	}
}

// TestSetupInstalls: on a bare machine, and past a network that fails at first.
func TestSetupInstalls(t *testing.T) {
	for failures, want := range map[string]struct {
		ok    bool
		calls int
	}{"0": {true, 2}, "3": {true, 4}, "100": {false, 6}} {
		path, asked := bareMachine(t, failures)
		out, err := setup(t, path, asked, "build", "demo")
		if ok := err == nil; ok != want.ok {
			t.Errorf("%s failures: %v\n%s", failures, err, out)
		}
		log, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		if len(lines) != want.calls {
			t.Errorf("%s failures: %d calls of apt-get, want %d:\n%s", failures, len(lines), want.calls, log)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "install -y --no-install-recommends gcc ") || !strings.Contains(last, " tesseract-ocr ") {
			t.Errorf("%s failures: the last call is %q", failures, last)
		}
		if !want.ok && !strings.Contains(out, "E: no network") {
			t.Errorf("what apt-get said is not shown:\n%s", out)
		}
	}
}
