//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// run runs a command for the host. When the context ends, it is killed.
func (g *guest) run(ctx context.Context, r *Run, files []*os.File) (any, []*os.File, error) {
	if len(r.Command) == 0 || len(r.Command[0]) == 0 || len(files) != 3 {
		return nil, nil, errors.New("a command needs a name and three files")
	}
	command := texts(r.Command)
	cmd := &exec.Cmd{Path: command[0], Args: command, Stdin: files[0], Stdout: files[1], Stderr: files[2]}
	if len(r.Dir) > 0 {
		if cmd.Dir = string(r.Dir); !filepath.IsAbs(cmd.Dir) {
			cmd.Dir = filepath.Join(g.booted().Home, cmd.Dir)
		}
		if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
			return nil, nil, fmt.Errorf("there is no folder %s on the desktop to run in", cmd.Dir)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	p, err := g.start(cmd, texts(r.Env)...)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return Ran{Missing: true}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	// The ends that the command has must be its alone, or nobody sees when it closes them.
	closeAll(files)
	select {
	case <-p.done:
	case <-ctx.Done(): // the caller has gone
		p.kill()
	}
	code, signal := p.code()
	return Ran{Code: code, Signal: int(signal)}, nil, nil
}

func texts(values [][]byte) []string {
	made := make([]string, len(values))
	for i, v := range values {
		made[i] = string(v)
	}
	return made
}
