package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// sandboxed is the desktop that a script has started last.
type sandboxed struct {
	t      testing.TB
	cmd    *exec.Cmd
	output *output
	done   chan struct{}
}

// output keeps what a process prints, in a file too.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	file io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	return o.file.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var desktopNumber atomic.Int64

func startDesktop(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: desktop [FLAG...]")
	}
	name := fmt.Sprintf("script-%d-%d", os.Getpid(), desktopNumber.Add(1))
	ts.Setenv("DESK", name)
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	d := ts.Value("sandbox").(*sandboxed)
	d.output, d.done = &output{file: out}, make(chan struct{})
	d.cmd = exec.Command(filepath.Join(ts.Getenv("LOUPE_BIN"), "loupe"), append([]string{"desktop", "--name", name}, args...)...)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = ts.MkAbs("."), d.output, errs
	d.cmd.Env = append(os.Environ(), "SECRET_OF_THE_HOST=sesame")
	ts.Check(d.cmd.Start())
	cmd, done := d.cmd, d.done
	go func() {
		defer close(done)
		_ = cmd.Wait()
		_ = out.Close()
		_ = errs.Close()
	}()
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-done
	})
	if !d.said(`can be used`) {
		said, _ := os.ReadFile(errs.Name())
		ts.Fatalf("the desktop did not start: %s", said)
	}
}

// said waits until the output matches, or the process has ended.
func (d *sandboxed) said(pattern string) bool {
	wanted := regexp.MustCompile("(?m)" + pattern)
	desktest.Eventually(d.t, "the desktop says "+pattern, func() bool {
		select {
		case <-d.done:
			return true
		default:
			return wanted.MatchString(d.output.String())
		}
	})
	return wanted.MatchString(d.output.String())
}

func waitSaid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: said TEXT")
	}
	if d := ts.Value("sandbox").(*sandboxed); !d.said(args[0]) {
		ts.Fatalf("the desktop has ended, and said:\n%s", d.output.String())
	}
}

func signalDesktop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || unix.SignalNum("SIG"+args[0]) == 0 {
		ts.Fatalf("usage: signal NAME")
	}
	ts.Check(ts.Value("sandbox").(*sandboxed).cmd.Process.Signal(unix.SignalNum("SIG" + args[0])))
}

func waitEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ended STATUS")
	}
	d := ts.Value("sandbox").(*sandboxed)
	desktest.Eventually(d.t, "the desktop's process ends", func() bool {
		select {
		case <-d.done:
			return true
		default:
			return false
		}
	})
	if got := d.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != args[0] {
		ts.Fatalf("the desktop's process has ended with status %d, want %s; it said:\n%s", got, args[0], d.output.String())
	}
}

func waitGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone TEXT")
	}
	desktest.Eventually(ts.Value("sandbox").(*sandboxed).t, "no process has "+args[0], func() bool {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		ts.Check(err)
		for _, file := range lines {
			if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), args[0]) {
				return false
			}
		}
		return true
	})
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{
		"1": 1, "4096": 4096, "4096B": 4096, "512M": 512 << 20, "2g": 2 << 30, "1.5GiB": 3 << 29, "1T": 1 << 40, "64kb": 64 << 10,
		"": 0, "0": 0, "-1": 0, "M": 0, "1e9": 0, "1,5G": 0, "1 G": 0, "9999999T": 0, "0x10": 0, "NaN": 0, "1P": 0,
	} {
		var got byteSize
		err := got.UnmarshalText([]byte(text))
		if (err == nil) != (want > 0) || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
}
