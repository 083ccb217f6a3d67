//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/loupe-tools/loupe/sandbox"
)

func TestCommand(t *testing.T) {
	d := start(t, nil)
	shell := func(line string) *sandbox.Command { return d.Command("sh", "-c", line) }

	t.Run("exit", func(t *testing.T) {
		for line, want := range map[string]string{
			"exit 3":                         "sh ended with status 3",
			"kill -9 $$":                     "sh was ended by signal SIGKILL",
			"kill -40 $$":                    "sh was ended by signal 40",
			"echo one >&2; echo two; exit 1": "sh ended with status 1: one",
		} {
			_, err := shell(line).Output(t.Context())
			var exit *sandbox.ExitError
			if !errors.As(err, &exit) || err.Error() != want {
				t.Errorf("%s: the error is %v, not %s", line, err, want)
			}
		}
	})
	t.Run("wrong", func(t *testing.T) {
		for name, c := range map[string]struct {
			command *sandbox.Command
			missing bool
			want    string
		}{
			"no name":        {d.Command(""), false, "needs the name of a program"},
			"unknown":        {d.Command("no-such-program"), true, "no program no-such-program on the desktop"},
			"unknown path":   {d.Command("/usr/bin/no-such"), true, "no program /usr/bin/no-such on the desktop"},
			"a folder":       {d.Command("/usr/bin"), false, "permission denied"},
			"zero byte":      {d.Command("echo", "a\x00b"), false, `"a\x00b" has a zero byte in it`},
			"too long":       {d.Command("echo", strings.Repeat("x", 1<<20)), false, "too long"},
			"no such folder": {&sandbox.Command{}, false, "a command needs the name of a program"},
		} {
			err := c.command.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, sandbox.ErrMissing) != c.missing || errors.Is(err, sandbox.ErrEnded) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		c := d.Command("pwd")
		c.Dir = "nowhere"
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no folder /home/user/nowhere") {
			t.Errorf("a folder that is not there: %v", err)
		}
		c = d.Command("env")
		c.Env = []string{"NAMELESS"}
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no NAME=VALUE") {
			t.Errorf("an odd environment: %v", err)
		}
	})
	t.Run("folder and environment", func(t *testing.T) {
		output(t, d, "mkdir -p 'a folder'")
		c := shell(`pwd; printf %s "$ODD"; echo; echo "$LANG"; test -n "$DISPLAY" && echo display`)
		c.Dir, c.Env = "a folder", []string{"ODD=a=b\n\xff c", "LANG=C"}
		out, err := c.Output(t.Context())
		if want := "/home/user/a folder\na=b\n\xff c\nC\ndisplay\n"; string(out) != want || err != nil {
			t.Errorf("it is %q, %v; not %q", out, err, want)
		}
	})
	t.Run("odd arguments", func(t *testing.T) {
		out, err := d.Command("printf", "[%s]", "", " ", "-n", "\xff\xfe", "a\nb", "'\"$(x)`").Output(t.Context())
		if want := "[][ ][-n][\xff\xfe][a\nb]['\"$(x)`]"; string(out) != want || err != nil {
			t.Errorf("the arguments are %q, %v", out, err)
		}
	})
	t.Run("large", func(t *testing.T) {
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		var out, said bytes.Buffer
		c := shell("tee /dev/stderr")
		// A slow reader of standard input and of the output loses nothing.
		c.Stdin, c.Stdout, c.Stderr = iotest.HalfReader(bytes.NewReader(want)), &out, &said
		if err := c.Run(t.Context()); err != nil || !bytes.Equal(out.Bytes(), want) || !bytes.Equal(said.Bytes(), want) {
			t.Errorf("of %d bytes came %d and %d, %v", len(want), out.Len(), said.Len(), err)
		}
	})
	t.Run("slow writer", func(t *testing.T) {
		// The command is over long before its output has been taken.
		taken := make(chan struct{})
		var got int
		c := shell("head -c 60000 /dev/zero; sleep 100 & exit 0")
		c.Stdout = writer(func(p []byte) (int, error) {
			<-taken
			got += len(p)
			return len(p), nil
		})
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		until(t, "the end of the shell", func() bool { return output(t, d, "pgrep -x sh | wc -l; true") == "1" })
		close(taken)
		if err := <-ended; err != nil || got != 60000 {
			t.Errorf("of 60000 bytes came %d, %v", got, err)
		}
		output(t, d, "pkill sleep")
	})
	t.Run("background", func(t *testing.T) {
		out, err := shell("sleep 1000 & echo done").Output(t.Context())
		if string(out) != "done\n" || err != nil {
			t.Errorf("the output is %q, %v", out, err)
		}
		if out, err := shell("yes & echo done").Output(t.Context()); !strings.Contains(string(out), "done\n") || err != nil {
			t.Errorf("something in the background that writes for ever: %v", err)
		}
		if got := output(t, d, "pkill -x sleep && echo it goes on; pkill -x yes; true"); got != "it goes on" {
			t.Errorf("of what was left in the background: %q", got)
		}
	})
	t.Run("same writer", func(t *testing.T) {
		var all bytes.Buffer
		c := shell("for i in $(seq 500); do echo x; echo y >&2; done")
		c.Stdout, c.Stderr = &all, &all
		if err := c.Run(t.Context()); err != nil || all.Len() != 2000 {
			t.Errorf("%d bytes, %v", all.Len(), err)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		for _, line := range []string{
			"sleep 1001",
			"sleep 1001 & sleep 1001 & wait",
			"trap '' TERM INT HUP; sleep 1001 & sleep 1001; sleep 1001",
			"setsid sleep 1001 & wait",
			"setsid sh -c 'setsid sleep 1001 & sleep 1001 & wait' & wait",
			"sleep 1001 | sleep 1001 | cat",
			"kill -STOP $$; sleep 1001",
		} {
			ctx, cancel := context.WithCancel(t.Context())
			var out bytes.Buffer
			c := shell("echo begun; " + line)
			c.Stdout = writer(func(p []byte) (int, error) { cancel(); return out.Write(p) })
			if err := c.Run(ctx); !errors.Is(err, context.Canceled) || out.String() != "begun\n" {
				t.Errorf("%s: it ended with %v and %q", line, err, out.String())
			}
			until(t, "the end of "+line, func() bool { return output(t, d, "pgrep -f 'sleep 100[1]' || true") == "" })
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := shell("touch ran").Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		if got := output(t, d, "ls ran 2>&1 || true"); !strings.Contains(got, "No such file") {
			t.Errorf("with a context that has ended it ran: %s", got)
		}
	})
	t.Run("many", func(t *testing.T) {
		var running sync.WaitGroup
		for i := range 64 {
			running.Go(func() {
				c := d.Command("cat")
				c.Stdin = strings.NewReader(fmt.Sprint(i))
				if out, err := c.Output(t.Context()); string(out) != fmt.Sprint(i) || err != nil {
					t.Errorf("command %d: %q, %v", i, out, err)
				}
			})
		}
		running.Wait()
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A shell that is started once and written to, as a tool for shell commands keeps it.
func TestShellOverPipes(t *testing.T) {
	d := start(t, nil)
	begin := func(ctx context.Context) (say io.WriteCloser, said *bufio.Reader, ended chan error) {
		in, say := io.Pipe()
		out, write := io.Pipe()
		c := d.Command("bash", "--norc")
		c.Stdin, c.Stdout, c.Stderr = in, write, write
		ended = make(chan error, 1)
		go func() {
			err := c.Run(ctx)
			_ = in.Close()
			_ = write.CloseWithError(io.EOF)
			ended <- err
		}()
		return say, bufio.NewReader(out), ended
	}
	say, said, ended := begin(t.Context())
	for _, exchange := range [][2]string{{"x=41; cd /tmp", ""}, {"echo $((x + 1)) in $PWD", "42 in /tmp\n"}, {"no-such 2>&1 | wc -l", "1\n"}} {
		if _, err := io.WriteString(say, exchange[0]+"\n"); err != nil {
			t.Fatal(err)
		}
		if exchange[1] == "" {
			continue
		}
		if got, err := said.ReadString('\n'); got != exchange[1] || err != nil {
			t.Errorf("%s: it said %q, %v", exchange[0], got, err)
		}
	}
	_, _ = io.WriteString(say, "exit 7\n")
	var exit *sandbox.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("the shell ended with %v", err)
	}
	if _, err := io.WriteString(say, "echo too late\n"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to a shell that has ended: %v", err)
	}

	// One that hangs is killed, and the next begins afresh.
	ctx, cancel := context.WithCancel(t.Context())
	say, said, ended = begin(ctx)
	_, _ = io.WriteString(say, "echo hanging; sleep 1002\n")
	if got, err := said.ReadString('\n'); got != "hanging\n" || err != nil {
		t.Fatalf("it said %q, %v", got, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the shell that was killed ended with %v", err)
	}
	say, said, ended = begin(t.Context())
	_, _ = io.WriteString(say, "pgrep -c -f 'sleep 100[2]'; echo x=$x\n")
	first, _ := said.ReadString('\n')
	if second, err := said.ReadString('\n'); first+second != "0\nx=\n" || err != nil {
		t.Errorf("the next shell says %q", first+second)
	}
	_ = say.Close() // the end of its input
	if err := <-ended; err != nil {
		t.Errorf("the next shell ended with %v", err)
	}
}

// What runs when the desktop ends says so.
func TestCommandAtTheEnd(t *testing.T) {
	d := start(t, nil)
	begun := make(chan struct{})
	c := d.Command("sh", "-c", "echo; sleep 1000")
	c.Stdout = writer(func(p []byte) (int, error) { close(begun); return len(p), nil })
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	<-begun
	_ = d.Close()
	if err := <-ended; !errors.Is(err, sandbox.ErrEnded) || err.Error() != "the desktop has ended" {
		t.Errorf("it ended with %v", err)
	}
	if err := d.Command("true").Run(t.Context()); !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("a command after the end: %v", err)
	}
	if err := d.CopyIn(t.Context(), "/etc/hostname"); !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("copying after the end: %v", err)
	}
	if _, err := d.Command("x").Output(t.Context()); !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("output after the end: %v", err)
	}
}

// TestOutputBounded keeps no more of a command's output than is promised.
func TestOutputBounded(t *testing.T) {
	d := start(t, nil)
	if out, err := d.Command("sh", "-c", "head -c 100000000 /dev/zero; sleep 60").Output(t.Context()); err == nil || len(out) > 64<<20 {
		t.Errorf("%d bytes were kept, %v", len(out), err)
	}
}
