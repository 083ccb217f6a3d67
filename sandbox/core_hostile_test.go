//go:build linux

package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/sandbox/internal/apps"
	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// taken is a desktop whose guest somebody has taken over: answer is what he does.
func taken(t testing.TB, answer link.Handler) *Desktop {
	t.Helper()
	near, far, err := link.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := link.FromFile(far)
	if err != nil {
		t.Fatal(err)
	}
	hostile := link.Serve(conn, answer, nil)
	d := &Desktop{peer: link.Serve(near, nil, nil), at: place{Home: "/home/user"}}
	t.Cleanup(func() {
		hostile.Close()
		d.peer.Close()
	})
	return d
}

// sends is a guest that answers a call for files with these bytes.
func sends(t testing.TB, archive []byte, last error) *Desktop {
	return taken(t, func(ctx context.Context, _ string, _ json.RawMessage, files []*os.File) (any, []*os.File, error) {
		defer closeAll(files)
		stop := context.AfterFunc(ctx, func() { _ = files[0].SetDeadline(time.Unix(1, 0)) })
		defer stop()
		_, _ = files[0].Write(archive)
		return guest.Got{Skipped: []string{"\x1b[2Jwiped"}}, nil, last
	})
}

func archived(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, min(h.Size, 1<<20)); err != nil && h.Size <= 1<<20 && h.Typeflag == tar.TypeReg {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err == nil {
		_ = w.Close()
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestHostileArchives(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // the last of all
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 3, Mode: 0o644}
	}
	good := archived(t, file("a/good"))
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"another name":   {archived(t, file("a/good"), file("b/evil")), `"b/evil", which nobody has asked`},
		"up":             {archived(t, file("a/good"), file("a/../../evil")), "nobody has asked"},
		"up within":      {archived(t, file("a/good"), file("a/x/../evil")), "nobody has asked"},
		"absolute":       {archived(t, file("a/good"), file("/a/evil")), "nobody has asked"},
		"the folder":     {archived(t, file("a/good"), file("a")), "nothing"},
		"twice slashed":  {archived(t, file("a/good"), file("a//evil")), "nobody has asked"},
		"link":           {archived(t, file("a/good"), tar.Header{Typeflag: tar.TypeSymlink, Name: "a/evil", Linkname: "/etc"}), "nobody has asked"},
		"hard link":      {archived(t, file("a/good"), tar.Header{Typeflag: tar.TypeLink, Name: "a/evil", Linkname: "/etc/passwd"}), "nobody has asked"},
		"device":         {archived(t, file("a/good"), tar.Header{Typeflag: tar.TypeChar, Name: "a/evil", Devmajor: 1}), "nobody has asked"},
		"pipe":           {archived(t, file("a/good"), tar.Header{Typeflag: tar.TypeFifo, Name: "a/evil"}), "nobody has asked"},
		"folder":         {archived(t, file("a/good"), tar.Header{Typeflag: tar.TypeDir, Name: "a/evil/"}), "nobody has asked"},
		"huge":           {archived(t, file("a/good"), tar.Header{Typeflag: tar.TypeReg, Name: "a/evil", Size: 1 << 40}), "more than is taken"},
		"cut":            {good[:513], "unexpected EOF"},
		"noise":          {bytes.Repeat([]byte("noise"), 1000), "reading what the desktop sent"},
		"noise at last":  {append(good[:1024:1024], bytes.Repeat([]byte("\xff"), 5000)...), "reading what the desktop sent"},
		"long name":      {archived(t, file("a/good"), file("a/"+strings.Repeat("n", 300))), "file name too long"},
		"control":        {archived(t, file("a/good"), file("\x1b[2J")), `"\x1b[2J"`},
		"endless header": {archived(t, file("a/good"), file(strings.Repeat("n/", 100_000)+"x")), "nobody has asked"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			written, skipped, err := sends(t, c.archive, nil).CopyOut(t.Context(), "a", to)
			if c.want == "nothing" {
				if err == nil {
					t.Error("a file in the place of its folder was taken")
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error is %v, not %s", err, c.want)
			}
			if len(skipped) > 0 && strings.Contains(skipped[0], "\x1b") {
				t.Errorf("left out: %q", skipped)
			}
			var found []string
			_ = filepath.WalkDir(to, func(name string, e fs.DirEntry, _ error) error {
				if !e.IsDir() {
					found = append(found, name)
				}
				return nil
			})
			if len(found) != len(written) || len(found) > 1 || len(found) == 1 && !strings.HasSuffix(found[0], "/a/good") {
				t.Errorf("it left %q and says %q", found, written)
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		var all []tar.Header
		for i := range 3 {
			all = append(all, tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("a/%d", i), Size: 400 << 20})
		}
		// Their contents never come.
		var b bytes.Buffer
		_ = tar.NewWriter(&b).WriteHeader(&all[0])
		ctx, cancel := context.WithCancel(t.Context())
		d := taken(t, func(ctx context.Context, _ string, _ json.RawMessage, files []*os.File) (any, []*os.File, error) {
			_, _ = files[0].Write(b.Bytes())
			cancel()
			<-ctx.Done()
			closeAll(files)
			return nil, nil, nil
		})
		to := t.TempDir()
		if _, _, err := d.CopyOut(ctx, "a", to); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if left, _ := filepath.Glob(to + "/a/*"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		if left, _ := filepath.Glob(to + "/a/.*.part"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
	t.Run("endless", func(t *testing.T) {
		d := taken(t, func(_ context.Context, _ string, _ json.RawMessage, files []*os.File) (any, []*os.File, error) {
			defer closeAll(files)
			for i := 0; ; i++ { // until nobody reads
				if _, err := files[0].Write(archived(t, file(fmt.Sprintf("a/%d", i)))[:1024]); err != nil {
					return nil, nil, err
				}
			}
		})
		written, _, err := d.CopyOut(t.Context(), "a", t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "more than is taken at once") || len(written) != maxCopyFiles {
			t.Errorf("%d files, %v", len(written), err)
		}
	})
}

// A guest that neither reads nor answers holds nothing up longer than the context, also where
// it keeps the descriptors.
func TestHostileSilence(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // the last of all
	begun := make(chan struct{}, 4)
	over := make(chan struct{})
	var mu sync.Mutex
	var kept []*os.File
	d := taken(t, func(_ context.Context, _ string, _ json.RawMessage, files []*os.File) (any, []*os.File, error) {
		mu.Lock()
		kept = append(kept, files...)
		mu.Unlock()
		begun <- struct{}{}
		<-over // whatever it is told
		return nil, nil, nil
	})
	t.Cleanup(func() { closeAll(kept) })
	t.Cleanup(func() { close(over) })
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for name, do := range map[string]func(context.Context) error{
		"copy in":  func(ctx context.Context) error { return d.CopyIn(ctx, large) },
		"copy out": func(ctx context.Context) error { _, _, err := d.CopyOut(ctx, "x", t.TempDir()); return err },
		"run": func(ctx context.Context) error {
			c := d.Command("x")
			c.Stdin = zeros{}
			return c.Run(ctx)
		},
		"dial": func(ctx context.Context) error { _, err := d.dialDisplay(ctx); return err },
	} {
		running.Go(func() {
			if err := do(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: it ended with %v", name, err)
			}
		})
	}
	for range 4 {
		<-begun
	}
	cancel()
	running.Wait()
}

func TestHostileAnswers(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // the last of all
	pipe := func(t testing.TB) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		return r
	}
	socket := func(t testing.TB, network, address string) *os.File {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		f, err := c.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, files := range map[string][]*os.File{
		"none": {}, "pipe": {pipe(t)}, "two": {pipe(t), pipe(t)}, "tcp": {socket(t, "tcp", "127.0.0.1:0")},
		"packets": {socket(t, "unixpacket", "@loupe/test/"+t.Name())},
	} {
		d := taken(t, func(_ context.Context, _ string, _ json.RawMessage, got []*os.File) (any, []*os.File, error) {
			closeAll(got)
			return struct{}{}, files, nil
		})
		if conn, err := d.dialDisplay(t.Context()); err == nil {
			_ = conn.Close()
			t.Errorf("%s: it was taken for a connection", name)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ran := range map[string]any{
		"odd signal": guest.Ran{Code: -1, Signal: 12345}, "no answer": nil, "another": []int{1}, "negative": guest.Ran{Code: -77, Signal: -1},
	} {
		d := taken(t, func(_ context.Context, _ string, _ json.RawMessage, got []*os.File) (any, []*os.File, error) {
			closeAll(got)
			return ran, nil, nil
		})
		err := d.Command("x").Run(t.Context())
		if name != "no answer" && (err == nil || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	d := taken(t, func(_ context.Context, _ string, _ json.RawMessage, got []*os.File) (any, []*os.File, error) {
		_, _ = got[1].WriteString(strings.Repeat("x", 100) + "\n\x1b]0;owned\x07")
		_, _ = got[2].WriteString("said \x1b]0;owned\x07\n")
		closeAll(got)
		return guest.Ran{Code: 1}, nil, nil
	})
	if _, err := d.Command("x").Output(t.Context()); err == nil || strings.ContainsAny(err.Error(), "\x1b\x07") {
		t.Errorf("the error is %q", err)
	}
}

// Whatever a guest says in events reaches nobody's terminal, and nobody's memory.
func TestHostileEvents(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // the last of all
	var events []Event
	entered, leave := make(chan struct{}), make(chan struct{})
	p := &plan{setup: apps.Setup{Apps: []apps.App{{Name: "xterm"}}}}
	d := &Desktop{own: &owner{plan: p, ready: make(chan struct{}, 1), windows: make(chan guest.Window, 64),
		early: make(chan guest.Exit, 64), failed: make(chan error, 1), end: func() {}}}
	d.log = slog.New(slog.DiscardHandler)
	first := true
	d.own.events.start(func(e Event) {
		if first {
			first = false
			close(entered)
			<-leave
		}
		events = append(events, e)
	})
	hear := func(op string, body any) {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		d.hear(op, data)
	}
	long := strings.Repeat("x\x1b[31m\n", 1000)
	d.hear(guest.EventWindow, json.RawMessage(`[1]`))
	hear(guest.EventWindow, guest.Window{App: "unknown"})
	hear(guest.EventWindow, guest.Window{App: "xterm", Took: -5})
	hear(guest.EventExit, guest.Exit{Name: long, Text: long, Output: long})
	<-entered
	d.hear("unknown", nil)
	d.hear(guest.EventExit, nil)
	hear(guest.EventExit, guest.Exit{Name: "not ours", App: true, Early: true})
	for range maxEvents {
		hear(guest.EventReady, struct{}{})
		hear(guest.EventWindow, guest.Window{App: "xterm"})
	}
	for range 100 {
		hear(guest.EventExit, guest.Exit{Name: long, Text: long, Output: long})
	}
	close(leave)
	d.own.events.stop()
	<-d.own.events.done
	if len(events) > maxEvents+10 {
		t.Errorf("%d events were kept", len(events))
	}
	if last := events[len(events)-1]; last.Limit != "events" || !strings.HasSuffix(last.Text, "events were lost: more happened than could be told.") {
		t.Errorf("the last event is %+v", last)
	}
	for _, e := range events {
		if len(e.Text) > maxText+100 || len(e.App) > maxName || strings.ContainsAny(e.Text+e.App+e.Limit, "\x1b\n") || e.Took < 0 {
			t.Fatalf("an event is %.200q", e.Text)
		}
	}
	if len(d.own.early) > 0 {
		t.Error("the end of what is no application of ours was taken for one")
	}
	hear(guest.EventFailed, guest.Failed{Text: long})
	if err := d.Err(); !errors.Is(err, ErrEnded) || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("it ended with %.200q", err)
	}
}
