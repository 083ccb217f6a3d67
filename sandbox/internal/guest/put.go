//go:build linux

package guest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// put writes a file below the home folder, or makes a folder. It writes beside the place and
// moves the file there when it is whole, so that half a file is never seen and a link that is
// there is replaced, not written through.
func (g *guest) put(ctx context.Context, p *Put, files []*os.File) error {
	if p.Folder != (len(files) == 0) || len(files) > 1 {
		return errors.New("a file comes with its contents")
	}
	root, err := os.OpenRoot(g.booted().Home)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name := string(p.Path)
	if p.Folder {
		return putError(name, root.MkdirAll(name, 0o755))
	}
	dir := path.Dir(name)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return putError(dir, err)
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return fmt.Errorf("there is a folder at %s on the desktop", name)
	}
	beside := path.Join(dir, "."+rand.Text()+".part")
	file, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, p.Mode.Perm()|0o600)
	if err != nil {
		return putError(name, err)
	}
	stop := interrupt(ctx, files[0])
	n, err := io.Copy(file, files[0])
	stop()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && p.Size >= 0 && n != p.Size {
		err = fmt.Errorf("%s changed while it was copied", path.Base(name))
	}
	if err == nil {
		err = root.Rename(beside, name)
	}
	if err != nil {
		_ = root.Remove(beside)
	}
	return putError(name, err)
}

// putError says what went wrong with a file inside.
func putError(name string, err error) error {
	var failed *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the desktop's disk is full, and %s does not fit", path.Base(name))
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("there is a file on the desktop where %s needs a folder", name)
	case errors.As(err, &failed):
		return fmt.Errorf("writing %s on the desktop: %w", name, failed.Err)
	}
	return err
}

// interrupt lets reading from a pipe, and writing to it, fail when the context ends. What it
// returns is called when that is no more wanted.
func interrupt(ctx context.Context, pipe *os.File) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = pipe.SetDeadline(time.Unix(1, 0)) })
}
