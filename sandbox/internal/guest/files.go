package guest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// put writes a file below the home folder.
func (g *guest) put(p *Put, files []*os.File) error {
	if len(files) != 1 {
		return errors.New("a file comes with its contents")
	}
	root, err := os.OpenRoot(g.booted().Home)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if dir := path.Dir(p.Path); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// Whatever is there under the name is replaced, not written into.
	if err := root.Remove(p.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(p.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, p.Mode.Perm()|0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, files[0])
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("the desktop's disk is full; %s of %d bytes does not fit", path.Base(p.Path), p.Size)
	case err == nil && n != p.Size:
		err = fmt.Errorf("%s changed while it was copied", path.Base(p.Path))
	}
	if err != nil {
		_ = root.Remove(p.Path)
	}
	return err
}

// get writes an archive of the files that a pattern names. Only regular files go into it:
// no link is followed, not even within the home folder.
func (g *guest) get(ctx context.Context, q *Get, files []*os.File) (any, []*os.File, error) {
	if len(files) != 1 {
		return nil, nil, errors.New("an archive needs a file to go to")
	}
	home := g.booted().Home
	pattern := strings.TrimPrefix(path.Clean(strings.TrimPrefix(strings.TrimPrefix(q.Pattern, "~/"), home+"/")), "/")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, nil, fmt.Errorf("%q is not a pattern that names files", q.Pattern)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = root.Close() }()
	a := &archive{root: root, tar: tar.NewWriter(files[0]), limit: *q}
	names, err := fs.Glob(root.FS(), pattern)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		// A walk begins with what a link leads to, and a pattern goes through links on the way.
		if throughLink(root, name) {
			_ = a.skip(name, "it is a symbolic link, or behind one")
			continue
		}
		err := fs.WalkDir(root.FS(), name, func(name string, entry fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return a.add(name, entry, err)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if err := a.tar.Close(); err != nil {
		return nil, nil, err
	}
	return Got{Skipped: a.skipped}, nil, nil
}

// throughLink reports whether a name, or a folder on the way to it, is a symbolic link.
func throughLink(root *os.Root, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if info, err := root.Lstat(name); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// archive is what get collects.
type archive struct {
	root    *os.Root
	tar     *tar.Writer
	limit   Get
	files   int
	bytes   int64
	skipped []string
}

const maxSkipped = 100 // sentences; there may be any number of links

func (a *archive) skip(name, why string) error {
	if len(a.skipped) < maxSkipped {
		a.skipped = append(a.skipped, fmt.Sprintf("%s was left out: %s.", filepath.Base(name), why))
	}
	return nil
}

func (a *archive) add(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return a.skip(name, "it cannot be read")
	case entry.IsDir():
		return nil
	case entry.Type()&fs.ModeSymlink != 0:
		return a.skip(name, "it is a symbolic link")
	case !entry.Type().IsRegular():
		return a.skip(name, "it is no regular file")
	}
	file, err := a.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return a.skip(name, "it cannot be read")
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return a.skip(name, "it is no regular file")
	}
	a.files++
	a.bytes += info.Size()
	if a.files > a.limit.MaxFiles {
		return fmt.Errorf("the pattern names more than %d files", a.limit.MaxFiles)
	}
	if a.bytes > a.limit.MaxBytes {
		return fmt.Errorf("the files that the pattern names are larger than %d bytes together", a.limit.MaxBytes)
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	if n, err := io.CopyN(a.tar, file, info.Size()); err != nil {
		return fmt.Errorf("%s became shorter while it was copied, after %d bytes", filepath.Base(name), n)
	}
	return nil
}
