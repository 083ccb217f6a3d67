//go:build linux

package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/sandbox"
)

func TestPublished(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	name := fmt.Sprintf("core-%d", os.Getpid())
	d, err := sandbox.Start(context.WithoutCancel(t.Context()), &sandbox.Options{Name: name, Allow: []string{"example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	infos, err := sandbox.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed := false
	for _, info := range infos {
		if info.Name == name {
			listed = info.Size == d.Size() && info.Process == os.Getpid() && info.Sandbox && fmt.Sprint(info.Allow) == "[example.org]"
		}
	}
	if !listed {
		t.Errorf("the list is %+v", infos)
	}
	if _, err := sandbox.Start(t.Context(), &sandbox.Options{Name: name}); !errors.Is(err, sandbox.ErrNameTaken) || !strings.Contains(err.Error(), "loupe desktop stop "+name) {
		t.Errorf("the same name again: %v", err)
	}

	// Many at once, each with its own connection; one that gives up in the middle of a call
	// harms nobody.
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() {
			other, err := sandbox.Open(t.Context(), name, nil)
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			if out, err := other.Command("echo", fmt.Sprint(i)).Output(t.Context()); string(out) != fmt.Sprintln(i) || err != nil {
				t.Errorf("client %d: %q, %v", i, out, err)
			}
			if i%2 == 0 {
				begun := make(chan struct{})
				c := other.Command("sh", "-c", "echo; sleep 1003")
				c.Stdout = writer(func(p []byte) (int, error) { close(begun); return len(p), nil })
				ended := make(chan error, 1)
				go func() { ended <- c.Run(context.Background()) }()
				<-begun
				_ = other.Close()
				if err := <-ended; !errors.Is(err, sandbox.ErrEnded) {
					t.Errorf("a command of a client that has gone: %v", err)
				}
			}
			_ = other.Close()
			<-other.Done()
			if other.Err() != nil {
				t.Errorf("client %d: it ended with %v", i, other.Err())
			}
		})
	}
	clients.Wait()
	until(t, "the end of what those who have gone had started", func() bool { return output(t, d, "pgrep -f 'sleep 100[3]' || true") == "" })

	other, err := sandbox.Open(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.Stop(t.Context(), name); err != nil {
		t.Errorf("stopping it: %v", err)
	}
	<-d.Done()
	if !errors.Is(d.Err(), sandbox.ErrStopped) {
		t.Errorf("it ended with %v", d.Err())
	}
	<-other.Done()
	if !errors.Is(other.Err(), sandbox.ErrEnded) {
		t.Errorf("for a client it ended with %v", other.Err())
	}
	_ = other.Close()
	for what, err := range map[string]error{
		"open": func() error { _, err := sandbox.Open(t.Context(), name, nil); return err }(),
		"stop": sandbox.Stop(t.Context(), name),
	} {
		if !errors.Is(err, sandbox.ErrNoDesktop) {
			t.Errorf("%s when it has ended: %v", what, err)
		}
	}
	if err := sandbox.Stop(t.Context(), "a/b"); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("a name with a slash: %v", err)
	}
}

// asNobody runs a program as another user of the machine, until the test ends.
func asNobody(t *testing.T, program string, arguments ...string) *bufio.Reader {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/usr/bin/python3", append([]string{"-c", program}, arguments...)...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61183, Gid: 61183}}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatalf("%v; install it with: apt-get install python3-minimal", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	return bufio.NewReader(out)
}

// Another user can neither use a desktop nor pass for one.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can be another user; TestPublished is the rest
	}
	name := fmt.Sprintf("core-other-%d", os.Getpid())
	socket := fmt.Sprintf("loupe/desktop/%d/%s", os.Geteuid(), name)
	t.Run("dials", func(t *testing.T) {
		start(t, &sandbox.Options{Name: name})
		for _, op := range []string{"info", "attach", "stop"} {
			said := asNobody(t, `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect("\0" + sys.argv[1])
try:
    s.send(b'{"id":1,"op":"%s"}' % sys.argv[2].encode())
    print(repr(s.recv(1000)), flush=True)
except OSError as e:
    print("b''", flush=True)
`, socket, op)
			if got, err := said.ReadString('\n'); got != "b''\n" || err != nil {
				t.Errorf("%s: another user is told %q, %v", op, got, err)
			}
		}
	})
	t.Run("was first", func(t *testing.T) {
		said := asNobody(t, `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\0" + sys.argv[1])
s.listen()
print("listening", flush=True)
sys.stdin.read()
`, socket)
		if got, err := said.ReadString('\n'); got != "listening\n" {
			t.Fatalf("%q, %v", got, err)
		}
		const want = "belongs to another user of this machine"
		if _, err := sandbox.Start(t.Context(), &sandbox.Options{Name: name}); !errors.Is(err, sandbox.ErrNameTaken) || !strings.Contains(err.Error(), want) {
			t.Errorf("starting one of that name: %v", err)
		}
		if _, err := sandbox.Open(t.Context(), name, nil); !errors.Is(err, sandbox.ErrNoDesktop) || !strings.Contains(err.Error(), want) {
			t.Errorf("opening it: %v", err)
		}
		if err := sandbox.Stop(t.Context(), name); !errors.Is(err, sandbox.ErrNoDesktop) || !strings.Contains(err.Error(), want) {
			t.Errorf("stopping it: %v", err)
		}
		infos, err := sandbox.List(t.Context())
		for _, info := range infos {
			if info.Name == name {
				t.Errorf("it is listed: %+v", info)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// Who answers a desktop's name as its user does, and then says nonsense or nothing, holds up
// nobody longer than the context.
func TestPublishedNonsense(t *testing.T) {
	for what, say := range map[string]string{"nonsense": "nonsense", "another answer": `{"id":1,"body":[]}`, "no link": `{"id":1,"body":{}}`, "a refusal": `{"id":1,"error":"\u001bno"}`} {
		name := fmt.Sprintf("core-odd-%d", os.Getpid())
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fmt.Sprintf("@loupe/desktop/%d/%s", os.Geteuid(), name), Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 1000))
				_, _ = io.WriteString(c, say)
				_ = c.Close()
			}
		})
		if _, err := sandbox.Open(t.Context(), name, nil); err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: opening ends with %v", what, err)
		}
		if _, err := sandbox.List(t.Context()); err != nil {
			t.Errorf("%s: listing ends with %v", what, err)
		}
		_ = l.Close()
		serving.Wait()
	}
}
