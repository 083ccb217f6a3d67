//go:build linux

package limits

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// sweep reads the folders of a group until its input ends, which it does when our end of
// the pipe closes, however this process ended. Then it removes them, for ten seconds at most,
// and ends what is in them after two seconds, in which a desktop ends by itself and clears
// up behind it. After an orderly Close there is nothing left to remove.
const sweep = `trap '' HUP INT QUIT TERM
while IFS= read -r dir; do set -- "$@" "$dir"; done
tries=0
while [ $tries -lt 200 ]; do
	left=
	for dir; do
		[ -d "$dir" ] || continue
		rmdir "$dir" && continue
		left=1
		[ $tries -lt 40 ] && continue
		[ -e "$dir/pids.max" ] && echo 0 >"$dir/pids.max"
		if [ -e "$dir/cgroup.kill" ]; then
			echo 1 >"$dir/cgroup.kill"
		else
			while read -r pid; do [ "$pid" -gt 1 ] && kill -9 "$pid"; done <"$dir/cgroup.procs"
		fi
	done
	[ "$left" ] || exit 0
	tries=$((tries + 1))
	sleep 0.05
done`

type sweeper struct {
	command *exec.Cmd
	dirs    *os.File // the pipe
}

func startSweeper() (*sweeper, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := exec.Command("/bin/sh", "-c", sweep, "loupe-sweeper")
	c.Stdin = r
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/bin:/bin"}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what is sent to our session misses it
	if err := c.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("the process that removes the group cannot be started: %w", err), w.Close())
	}
	return &sweeper{command: c, dirs: w}, nil
}

// announce tells of a folder before it is made.
func (s *sweeper) announce(dir string) error {
	_, err := fmt.Fprintln(s.dirs, dir)
	return err
}

// end lets the process end and waits for it.
func (s *sweeper) end() error {
	return errors.Join(s.dirs.Close(), s.command.Wait())
}
