//go:build linux

package sandbox

import (
	"context"
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

// CopyIn copies files and folders of the machine into the desktop's home folder, under
// their own names. A file that is there is replaced when the new one is whole; a folder that
// is there is added to. A name that is given may be a symbolic link, and stands for what it leads
// to. Within a folder, what is neither a regular file nor a folder is left out: links, pipes,
// devices. The files are readable and writable for their user inside.
//
// What was copied before an error stays. The error is one sentence for a person.
func (d *Desktop) CopyIn(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := d.copyIn(ctx, name); err != nil {
			return d.ended(fmt.Errorf("copying %s to the desktop: %w", name, plain(err)))
		}
	}
	return nil
}

// plain takes from an error of a file what the sentence around it says already.
func plain(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func (d *Desktop) copyIn(ctx context.Context, name string) error {
	base := filepath.Base(filepath.Clean(name))
	if base == "/" || base == "." || base == ".." {
		return errors.New("it has no name of its own to have there; name the folder in full")
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		// Nothing is opened that is no file: to open a device may do something.
		if !info.Mode().IsRegular() {
			return errors.New("it is neither a file nor a folder")
		}
		file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe in its place would block
		if err != nil {
			return err
		}
		return d.putFile(ctx, file, info, base)
	}
	// Whatever becomes of the folder meanwhile, no link leads out of it.
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(within string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = d.putEntry(ctx, root, entry, within, path.Join(base, within))
		}
		if err != nil && within != "." {
			err = fmt.Errorf("%s in it: %w", within, plain(err))
		}
		return err
	})
}

// putEntry copies what a walk has come to.
func (d *Desktop) putEntry(ctx context.Context, root *os.Root, entry fs.DirEntry, within, inside string) error {
	if entry.IsDir() {
		return d.peer.Call(ctx, guest.OpPut, guest.Put{Path: []byte(inside), Folder: true}, nil)
	}
	if !entry.Type().IsRegular() {
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	file, err := root.OpenFile(within, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return d.putFile(ctx, file, info, inside)
}

// putFile copies a file, which it closes, and which is still the one that was seen before.
func (d *Desktop) putFile(ctx context.Context, file *os.File, seen fs.FileInfo, inside string) error {
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || !os.SameFile(info, seen) {
		return errors.New("it was replaced while it was copied")
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	put := guest.Put{Path: []byte(inside), Mode: info.Mode().Perm(), Size: info.Size()}
	contents := io.LimitReader(file, info.Size()) // one that grows is copied as it was
	if put.Size == 0 {
		put.Size, contents = -1, file // those of the kernel do not know their size
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(writer, contents)
		copied <- errors.Join(err, writer.Close())
	}()
	err = d.peer.Call(ctx, guest.OpPut, put, nil, reader)
	if err != nil {
		_ = writer.SetWriteDeadline(time.Unix(1, 0)) // whoever reads or does not
	}
	_ = reader.Close()
	if copyErr := <-copied; err == nil {
		err = copyErr
	}
	return err
}
