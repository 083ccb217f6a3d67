package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
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
			ready := round < 15
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
