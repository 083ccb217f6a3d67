//go:build linux

package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// get writes an archive of the files that a pattern names. Only regular files go into it:
// no link is followed, not even within the home folder.
func (g *guest) get(ctx context.Context, q *Get, files []*os.File) (any, []*os.File, error) {
	if len(files) != 1 {
		return nil, nil, errors.New("an archive needs a file to go to")
	}
	home := g.booted().Home
	pattern, err := ParsePattern(string(q.Pattern), home)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = root.Close() }()
	defer interrupt(ctx, files[0])()
	a := &archive{ctx: ctx, root: root, tar: tar.NewWriter(files[0]), limit: *q}
	if err := a.folder(".", pattern.parts, 0); err != nil {
		return nil, nil, err
	}
	if err := a.tar.Close(); err != nil {
		return nil, nil, err
	}
	if a.more > 0 {
		a.skipped = append(a.skipped, fmt.Sprintf("%d more were left out.", a.more))
	}
	return Got{Skipped: a.skipped}, nil, nil
}

// archive is what get collects.
type archive struct {
	ctx     context.Context
	root    *os.Root
	tar     *tar.Writer
	limit   Get
	files   int
	bytes   int64
	looked  int // at names
	skipped []string
	more    int // skipped without a sentence
}

// Bounds of what get does beside copying.
const (
	maxSkipped = 100 // sentences; there may be any number of links
	maxSaid    = 32 << 10
	maxDeep    = 256     // folders in folders
	maxLooked  = 1 << 20 // names
	maxHeld    = 1 << 20 // bytes; a smaller file is read before it is announced
)

func (a *archive) skip(name, why string) {
	sentence := fmt.Sprintf("%s was left out: %s.", strings.ToValidUTF8(name, "\ufffd"), why)
	said := len(sentence)
	for _, s := range a.skipped {
		said += len(s)
	}
	if len(a.skipped) >= maxSkipped || said > maxSaid {
		a.more++
		return
	}
	a.skipped = append(a.skipped, sentence)
}

// folder adds what a pattern names in a folder: everything when it has come to its end.
func (a *archive) folder(dir string, pattern []string, deep int) error {
	if deep > maxDeep {
		a.skip(dir, "it is too deep in folders")
		return nil
	}
	entries, err := a.read(dir)
	if err != nil {
		a.skip(dir, "it cannot be read")
	}
	for _, entry := range entries {
		if a.looked++; a.looked > maxLooked {
			return fmt.Errorf("there are more than %d names to look at; name less at once", maxLooked)
		}
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if len(pattern) > 0 && !matchName(pattern[0], entry.Name()) {
			continue
		}
		name, rest := path.Join(dir, entry.Name()), pattern[min(1, len(pattern)):]
		switch {
		case entry.IsDir():
			err = a.folder(name, rest, deep+1)
		case len(rest) > 0: // a folder was meant
			if entry.Type()&fs.ModeSymlink != 0 {
				a.skip(name, "it is a symbolic link")
			}
		default:
			err = a.file(name, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) read(dir string) ([]fs.DirEntry, error) {
	return fs.ReadDir(a.root.FS(), dir) // in the order of names
}

func (a *archive) file(name string, entry fs.DirEntry) error {
	switch {
	case entry.Type()&fs.ModeSymlink != 0:
		a.skip(name, "it is a symbolic link")
		return nil
	case !entry.Type().IsRegular():
		a.skip(name, "it is no regular file")
		return nil
	}
	file, err := a.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place would block
	if err != nil {
		a.skip(name, "it cannot be read")
		return nil
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		a.skip(name, "it is no regular file")
		return nil
	}
	if is, err := a.root.Lstat(name); err != nil || !os.SameFile(is, info) {
		a.skip(name, "it was replaced while it was copied")
		return nil
	}
	size, contents := info.Size(), io.Reader(file)
	if size <= maxHeld {
		// So that one that is written to meanwhile is taken as it is.
		data, err := io.ReadAll(io.LimitReader(file, maxHeld))
		if err != nil {
			a.skip(name, "it cannot be read")
			return nil
		}
		size, contents = int64(len(data)), bytes.NewReader(data)
	}
	a.files++
	a.bytes += size
	if a.files > a.limit.MaxFiles {
		return fmt.Errorf("the pattern names more than %d files; name fewer at once", a.limit.MaxFiles)
	}
	if a.bytes > a.limit.MaxBytes {
		return fmt.Errorf("the files that the pattern names are larger than %d bytes together; name fewer at once", a.limit.MaxBytes)
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("announcing %s: %w", name, err)
	}
	switch n, err := io.CopyN(a.tar, contents, size); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s became shorter while it was copied, after %d bytes; try again", name, n)
	case err != nil:
		return fmt.Errorf("copying %s: %w", name, err)
	}
	return nil
}
