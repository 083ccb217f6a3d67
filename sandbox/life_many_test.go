//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/sandbox"
)

const many = 8

// TestManyInOneProcess has desktops at once that differ in everything, and ends them one after the
// other.
func TestManyInOneProcess(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var desktops [many]*sandbox.Desktop
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			var err error
			desktops[i], err = sandbox.Start(context.Background(), &sandbox.Options{
				Name: fmt.Sprintf("many-%d-%d", os.Getpid(), i), Size: image.Pt(800+10*i, 600), Allow: []string{fmt.Sprintf("host%d.example", i)}})
			if err != nil {
				t.Error(err)
				return
			}
			output(t, desktops[i], fmt.Sprintf("echo %d > mine; cd /tmp; echo %d > mine; xprop -root -f MINE 32c -set MINE %d", i, i, i))
		})
	}
	all.Wait()
	if t.Failed() {
		for _, d := range desktops {
			if d != nil {
				_ = d.Close()
			}
		}
		return
	}
	for i, d := range desktops {
		if got, want := output(t, d, "cat mine; cd /tmp; cat mine; xprop -root MINE"), fmt.Sprintf("%d\n%d\nMINE(CARDINAL) = %d", i, i, i); got != want {
			t.Errorf("on desktop %d there is %q, and should be %q", i, got, want)
		}
		if size, err := d.Display().Size(t.Context()); err != nil || size != image.Pt(800+10*i, 600) {
			t.Errorf("display %d has %v, %v", i, size, err)
		}
	}
	listed, err := sandbox.List(t.Context())
	if err != nil {
		t.Error(err)
	}
	for i, d := range desktops {
		at := slices.IndexFunc(listed, func(info sandbox.Info) bool { return info.Name == d.Name() })
		if at < 0 || listed[at].Size != d.Size() || !slices.Equal(listed[at].Allow, []string{fmt.Sprintf("host%d.example", i)}) || listed[at].Process != os.Getpid() {
			t.Errorf("desktop %d is not listed as it is: %+v", i, listed)
		}
	}
	for i, d := range desktops {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		for j, other := range desktops[i+1:] {
			if got := output(t, other, "cat mine"); got != fmt.Sprint(i+1+j) {
				t.Errorf("after the end of desktop %d, on desktop %d: %q", i, i+1+j, got)
			}
		}
	}
	until(t, "nothing runs any more", func() bool { return len(descendants(listProc(), os.Getpid())) == 0 })
}

// TestManyProcesses has desktops of several processes, of which some are killed.
func TestManyProcesses(t *testing.T) {
	var lives [many]*life
	for i := range lives {
		lives[i] = born(t, lifePlan{Name: fmt.Sprintf("process-%d-%d", os.Getpid(), i)}, nil, os.Args[0])
	}
	for _, l := range lives {
		l.ready()
	}
	for i, l := range lives {
		switch i % 3 {
		case 0:
			l.kill(syscall.SIGKILL)
		case 1:
			if err := sandbox.Stop(t.Context(), l.name); err != nil {
				t.Error(err)
			}
			if news := l.next(); !news.Ended || news.Error != sandbox.ErrStopped.Error() {
				t.Errorf("the owner of the desktop that was stopped says %+v", news)
			}
		case 2:
			_ = l.stdin.Close()
		}
		l.over()
		listed, err := sandbox.List(t.Context())
		if err != nil {
			t.Error(err)
		}
		for j, other := range lives {
			if there := slices.ContainsFunc(listed, func(info sandbox.Info) bool { return info.Name == other.name }); there != (j > i) {
				t.Errorf("after the end of desktop %d, desktop %d is listed: %t", i, j, there)
			}
		}
		if i+1 < many {
			d, err := sandbox.Open(t.Context(), lives[i+1].name, nil)
			if err != nil {
				t.Fatal(err)
			}
			output(t, d, "true")
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestUsedByMany uses one desktop from many goroutines.
func TestUsedByMany(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d, err := sandbox.Start(context.Background(), &sandbox.Options{Name: fmt.Sprintf("used-%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range many {
		folder := t.TempDir()
		all.Go(func() {
			for n := range 5 {
				name := fmt.Sprintf("file-%d-%d", i, n)
				want := bytes.Repeat([]byte(name), 1000)
				if err := os.WriteFile(filepath.Join(folder, name), want, 0o600); err != nil {
					t.Error(err)
				}
				if err := d.CopyIn(t.Context(), filepath.Join(folder, name)); err != nil {
					t.Error(err)
				}
				if got := output(t, d, "cat "+name); got != string(want) {
					t.Errorf("%s has %d bytes inside", name, len(got))
				}
				if _, _, err := d.CopyOut(t.Context(), name, filepath.Join(folder, "out")); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(filepath.Join(folder, "out", name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s came back with %d bytes, %v", name, len(got), err)
				}
			}
		})
		all.Go(func() {
			other, err := sandbox.Open(t.Context(), d.Name(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := other.Display().Capture(t.Context(), image.Rect(0, 0, 50, 50)); err != nil {
				t.Error(err)
			}
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range many { // to close is for several at once, too
		all.Go(func() { _ = d.Close() })
	}
	all.Wait()
	<-d.Done()
}

// TestEndsWhileOpened ends a desktop while others connect to it and list it: each of them gets
// a desktop or an error, and what was opened ends.
func TestEndsWhileOpened(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for round := range 4 {
		name := fmt.Sprintf("opened-%d-%d", os.Getpid(), round)
		d, err := sandbox.Start(context.Background(), &sandbox.Options{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		begun := make(chan struct{}, 100)
		for range 3 {
			all.Go(func() {
				for {
					other, err := sandbox.Open(context.Background(), name, nil)
					if err != nil {
						if !errors.Is(err, sandbox.ErrNoDesktop) || !strings.Contains(err.Error(), name) {
							t.Errorf("opening a desktop that ends: %v", err)
						}
						return
					}
					begun <- struct{}{}
					for other.Command("true").Run(context.Background()) == nil && len(begun) < 6 {
					}
					if len(begun) >= 6 { // to the end of the owner's
						<-other.Done()
						if err := other.Err(); !errors.Is(err, sandbox.ErrEnded) {
							t.Errorf("the opened desktop ended with %v", err)
						}
					}
					if err := other.Close(); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				for there := true; there; {
					listed, err := sandbox.List(context.Background())
					if err != nil {
						t.Error(err)
					}
					there = slices.ContainsFunc(listed, func(info sandbox.Info) bool { return info.Name == name })
				}
			})
		}
		for range 3 {
			<-begun
		}
		if round%2 == 0 {
			err = d.Close()
		} else {
			var stops sync.WaitGroup
			for range 2 {
				stops.Go(func() {
					if err := sandbox.Stop(context.Background(), name); err != nil && !errors.Is(err, sandbox.ErrNoDesktop) && !strings.Contains(err.Error(), "ended") {
						t.Errorf("stopping twice at once: %v", err)
					}
				})
			}
			stops.Wait()
			<-d.Done()
		}
		if err != nil {
			t.Error(err)
		}
		all.Wait()
	}
	until(t, "nothing runs any more", func() bool { return len(descendants(listProc(), os.Getpid())) == 0 })
}
