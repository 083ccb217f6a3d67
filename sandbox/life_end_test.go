//go:build linux

package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestKilled kills the owner of a desktop with SIGKILL, which it cannot do anything about, 50
// times: when the desktop can be used, with an application on it, and at any moment of its
// start.
func TestKilled(t *testing.T) {
	mounts := fileLines(t, "/proc/self/mounts")
	t.Run("rounds", func(t *testing.T) {
		for round := range 50 {
			plan := lifePlan{NoSandbox: round%5 == 4}
			ready := round < 10
			moment := rand.IntN(120)
			name := fmt.Sprintf("%d at moment %d", round, moment)
			if ready {
				name = fmt.Sprintf("%d when ready", round)
				plan.Apps = []string{"xterm"}
				plan.Name = fmt.Sprintf("killed-%d-%d", os.Getpid(), round)
			}
			if plan.NoSandbox {
				name += " without a sandbox"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := born(t, plan, nil, os.Args[0])
				if ready {
					l.ready()
				} else {
					looks := 0
					until(t, "the moment", func() bool {
						select {
						case news := <-l.news: // it was faster
							if !news.Ready {
								t.Fatalf("the desktop did not start: %q\n%s", news.Error, l.stderr.String())
							}
							return true
						default:
						}
						if len(l.look()) > 1 {
							looks++
						}
						return looks > moment
					})
				}
				l.kill(syscall.SIGKILL)
				l.over()
			})
		}
	})
	if now := fileLines(t, "/proc/self/mounts"); len(now) != len(mounts) {
		t.Errorf("there are %d mounts, and were %d:\n%q", len(now), len(mounts), now)
	}
}

// TestEnded ends desktops in each way, also such whose processes do not want to end.
func TestEnded(t *testing.T) {
	ends := map[string]func(l *life){
		"killed":      func(l *life) { l.kill(syscall.SIGKILL) },
		"terminated":  func(l *life) { l.kill(syscall.SIGTERM) },
		"interrupted": func(l *life) { l.kill(syscall.SIGINT) },
		"closed":      func(l *life) { _ = l.stdin.Close() },
	}
	states := []struct {
		name   string
		inside string
		holds  func(below []inProc) bool
	}{
		{"idle", "", func([]inProc) bool { return true }},
		{"ignoring signals", `trap "" HUP INT QUIT TERM; for n in 1 2 3; do setsid sleep 1001 & done; wait`,
			func(below []inProc) bool { return len(named(below, "sleep")) == 3 }},
		{"stopped", "kill -STOP -1", func(below []inProc) bool {
			x := named(below, "Xvfb")
			return len(x) == 1 && x[0].state == "T"
		}},
		{"forking", `f() { f & f & sleep 1001; }; f`, func(below []inProc) bool { return len(named(below, "sleep")) > 20 }},
	}
	for _, state := range states {
		for how, end := range ends {
			if state.name != "idle" && how != "killed" && how != "closed" {
				continue
			}
			for _, noSandbox := range []bool{false, true} {
				name := state.name + " " + how
				if noSandbox {
					name += " without a sandbox"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					l := born(t, lifePlan{NoSandbox: noSandbox, Inside: state.inside, Processes: 300}, nil, os.Args[0])
					l.ready()
					until(t, state.name, func() bool { return state.holds(l.look()) })
					end(l)
					if how != "killed" {
						news := l.next()
						if !news.Ended {
							t.Errorf("the owner says %+v", news)
						}
						if how == "closed" && news.Error != "" || how != "closed" && !strings.HasSuffix(news.Error, " signal received") {
							t.Errorf("the desktop ended with %q", news.Error)
						}
					}
					l.over()
				})
			}
		}
	}
}
