//go:build linux

package sandbox

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// Bounds of what CopyOut takes at once.
const (
	maxCopyBytes = 1 << 30
	maxCopyFiles = 10_000
	maxSentences = 101
)

// CopyOut copies the files that a pattern names from the desktop's home folder to a folder of
// the machine, which is made where it is missing. The pattern is a path from the home folder, with
// or without "~/" or the home folder's own path before it, as [path.Match] understands it; a
// wildcard does not stand for the dot of a hidden name. A folder that is named is copied whole,
// but empty folders are not made. Files keep their path below the home folder: Downloads/a.pdf
// becomes TO/Downloads/a.pdf.
//
// It returns the paths of the files that it wrote, and a sentence on each thing that it left
// out: links are never followed, and only regular files copied. None of either says that the
// pattern names nothing. The names come from the desktop, and may hold anything that a file's
// name may.
//
// A file that is there is replaced when the new one is whole, as is a link. Nothing is written
// outside of the folder, and in it nothing that the pattern does not name. All files together may
// have 1 GiB, and be 10,000. What was written before an error stays, and is returned with it.
//
// [path.Match]: https://pkg.go.dev/path#Match
func (d *Desktop) CopyOut(ctx context.Context, pattern, to string) (written, skipped []string, err error) {
	names, err := guest.ParsePattern(pattern, d.at.Home)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, nil, fmt.Errorf("making the folder %s: %w", to, plain(err))
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, nil, fmt.Errorf("copying to %s: %w", to, plain(err))
	}
	defer func() { _ = root.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("copying %s from the desktop: %w", pattern, err)
	}
	defer func() { _ = reader.Close() }()
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	from := &untilEnd{from: reader}
	unpacked := make(chan error, 1)
	go func() {
		names, err := unpack(root, tar.NewReader(from), names)
		for _, name := range names {
			written = append(written, filepath.Join(to, name))
		}
		if err != nil && !from.ended {
			cancel() // nobody reads what is still to come
		}
		unpacked <- err
	}()
	var got guest.Got
	request := guest.Get{Pattern: []byte(names.String()), MaxBytes: maxCopyBytes, MaxFiles: maxCopyFiles}
	err = d.peer.Call(calling, guest.OpGet, request, &got, writer)
	_ = writer.Close()
	if err != nil {
		_ = reader.SetReadDeadline(time.Unix(1, 0))
	}
	// Where the archive just ends, the guest has said why.
	if unpackErr := <-unpacked; err == nil || unpackErr != nil && !from.ended && ctx.Err() == nil {
		err = unpackErr
	}
	for _, sentence := range got.Skipped[:min(len(got.Skipped), maxSentences)] {
		skipped = append(skipped, link.Printable(sentence, maxText))
	}
	if err != nil {
		return written, skipped, d.ended(fmt.Errorf("copying %s from the desktop: %w", pattern, err))
	}
	return written, skipped, nil
}

// untilEnd reads, and remembers whether there was no more to be read.
type untilEnd struct {
	from  io.Reader
	ended bool
}

func (u *untilEnd) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	u.ended = u.ended || err != nil
	return n, err
}

// unpack writes the files of an archive that came from inside, where anything can be said.
func unpack(root *os.Root, archive *tar.Reader, pattern guest.Pattern) (written []string, err error) {
	var total int64
	in := &folder{root: root}
	defer in.leave()
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, fmt.Errorf("reading what the desktop sent: %w", err)
		}
		name := filepath.FromSlash(header.Name)
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || filepath.Clean(name) != name || !pattern.Matches(header.Name) {
			return written, fmt.Errorf("the desktop sent %s, which nobody has asked it for", shortQuote(header.Name))
		}
		if total += header.Size; total > maxCopyBytes || len(written) >= maxCopyFiles {
			return written, errors.New("the desktop sent more than is taken at once")
		}
		dir, err := in.enter(filepath.Dir(name))
		if err == nil {
			err = writeFile(dir, filepath.Base(name), fs.FileMode(header.Mode)&0o755|0o600, archive)
		}
		if err != nil {
			return written, fmt.Errorf("writing %s: %w", shortQuote(name), err)
		}
		written = append(written, name)
	}
}

func shortQuote(name string) string { return fmt.Sprintf("%.200q", name) }

// folder is the folder below a root that was used last.
type folder struct {
	root *os.Root
	name string
	dir  *os.Root // nil before the first, and for the root itself
}

// enter opens a folder, which it makes where it is missing. It is open until another is entered.
func (f *folder) enter(name string) (*os.Root, error) {
	if name == "." {
		return f.root, nil
	}
	if f.dir != nil && f.name == name {
		return f.dir, nil
	}
	f.leave()
	err := f.root.MkdirAll(name, 0o755)
	if err == nil {
		f.dir, err = f.root.OpenRoot(name)
	}
	f.name = name
	return f.dir, plain(err)
}

func (f *folder) leave() {
	if f.dir != nil {
		_ = f.dir.Close()
	}
	f.dir = nil
}

// writeFile writes a file beside its place and moves it there, so that it is whole or is not,
// and nothing is written through a link.
func writeFile(dir *os.Root, name string, mode fs.FileMode, contents io.Reader) error {
	beside := "." + rand.Text() + ".part"
	file, err := dir.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return plain(err)
	}
	_, err = io.Copy(file, contents)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		if info, statErr := dir.Lstat(name); statErr == nil && info.IsDir() {
			err = errors.New("there is a folder of that name")
		} else {
			err = dir.Rename(beside, name)
		}
	}
	if err != nil {
		_ = dir.Remove(beside)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return errors.New("the disk is full")
	}
	return err
}
