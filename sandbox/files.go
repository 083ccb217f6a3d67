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
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
)

// Bounds of what CopyOut takes at once.
const (
	maxCopyBytes = 1 << 30
	maxCopyFiles = 10_000
)

// CopyIn copies files and folders of the machine into the desktop's home folder, under
// their own names. A file that is there is replaced. Within a folder, what is neither a
// regular file nor a folder is left out.
func (d *Desktop) CopyIn(ctx context.Context, names ...string) error {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		base := filepath.Base(filepath.Clean(name))
		if base == "/" || base == "." || base == ".." {
			return fmt.Errorf("%s has no name of its own to have on the desktop", name)
		}
		if !info.IsDir() {
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is no regular file", name)
			}
			if err := d.copyIn(ctx, name, base); err != nil {
				return err
			}
			continue
		}
		err = filepath.WalkDir(name, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			inside, err := filepath.Rel(name, file)
			if err != nil {
				return err
			}
			return d.copyIn(ctx, file, path.Join(base, filepath.ToSlash(inside)))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyIn copies one file.
func (d *Desktop) copyIn(ctx context.Context, name, inside string) error {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe in its place would block
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", name)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(writer, io.LimitReader(file, info.Size()))
		copied <- errors.Join(err, writer.Close())
	}()
	_, err = d.peer.Call(ctx, guest.OpPut, guest.Put{Path: inside, Mode: info.Mode().Perm(), Size: info.Size()}, nil, reader)
	_ = reader.Close() // or, where nobody reads, the writer would wait
	if copyErr := <-copied; err == nil && copyErr != nil {
		err = fmt.Errorf("reading %s: %w", name, copyErr)
	}
	if err != nil {
		return d.ended(fmt.Errorf("copying %s to the desktop: %w", name, err))
	}
	return nil
}

// CopyOut copies the files that a pattern names, as [path.Match] understands it, from the
// desktop's home folder to a folder of the machine, which is made where it is missing. A
// folder that is named is copied whole. It returns the paths of the files that it wrote, and
// sentences on what it left out: links are never followed, and only regular files copied.
//
// A file that is there is replaced, as is a link: nothing is written through it. All files
// together may have 1 GiB, and be 10,000.
func (d *Desktop) CopyOut(ctx context.Context, pattern, to string) (written, skipped []string, err error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = root.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = reader.Close() }()
	unpacked := make(chan error, 1)
	go func() {
		names, err := unpack(root, tar.NewReader(reader))
		for _, name := range names {
			written = append(written, filepath.Join(to, name))
		}
		// The guest must not wait for a reader that has had enough.
		_, _ = io.Copy(io.Discard, io.LimitReader(reader, 2*maxCopyBytes))
		unpacked <- err
	}()
	var got guest.Got
	_, err = d.peer.Call(ctx, guest.OpGet, guest.Get{Pattern: pattern, MaxBytes: maxCopyBytes, MaxFiles: maxCopyFiles}, &got, writer)
	_ = writer.Close()
	if err != nil {
		_ = reader.SetReadDeadline(time.Now())
	}
	unpackErr := <-unpacked
	if err == nil {
		err = unpackErr
	}
	if err != nil {
		return written, got.Skipped, d.ended(fmt.Errorf("copying %s from the desktop: %w", pattern, err))
	}
	return written, got.Skipped, nil
}

// unpack writes the files of an archive that came from inside, where anything can be said.
func unpack(root *os.Root, archive *tar.Reader) (written []string, err error) {
	var total int64
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, fmt.Errorf("reading what the desktop sent: %w", err)
		}
		name := filepath.FromSlash(path.Clean(header.Name))
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || name == "." {
			return written, fmt.Errorf("the desktop sent %q, which is no file below its home folder", header.Name)
		}
		if total += header.Size; total > maxCopyBytes || len(written) >= maxCopyFiles {
			return written, errors.New("the desktop sent more than is taken")
		}
		if err := writeFile(root, name, fs.FileMode(header.Mode)&0o755|0o600, archive); err != nil {
			return written, err
		}
		written = append(written, name)
	}
}

// writeFile writes a file beside its place and moves it there, so that it is whole or is not,
// and nothing is written through a link.
func writeFile(root *os.Root, name string, mode fs.FileMode, contents io.Reader) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	beside := filepath.Join(filepath.Dir(name), "."+rand.Text()+".part")
	file, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, contents)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(beside, name)
	}
	if err != nil {
		_ = root.Remove(beside)
	}
	return err
}
