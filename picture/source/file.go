package source

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

func readFileURL(ctx context.Context, ref string, o *Options) (*Input, error) {
	name := printable(ref)
	u, err := url.Parse(ref)
	if err != nil || u.Opaque != "" {
		return nil, fail(name, ErrInvalid, "%s is not a valid file URL; it looks like file:///folder/picture.png.", name)
	}
	if u.Host != "" && u.Host != "localhost" {
		return nil, fail(name, ErrInvalid, "%s names a file on another host; copy the file here, or write file:/// with three slashes.", name)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, fail(name, ErrInvalid, "%s has a ? or # in it; write %%3F or %%23 if the file's name has one.", name)
	}
	return readFile(ctx, u.Path, o)
}

// How files are opened. Without O_NONBLOCK opening a named pipe would wait for its
// writer; on a regular file the flag does nothing.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

func readFile(ctx context.Context, path string, o *Options) (*Input, error) {
	name := printable(path)
	if err := ctx.Err(); err != nil {
		return nil, interrupted(ctx, name)
	}
	var f *os.File
	var err error
	if len(o.Roots) == 0 {
		f, err = openRegular(os.Stat, os.OpenFile, path)
	} else {
		f, err = openBelow(o.Roots, path)
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(name, err)
	}
	if info.Size() > o.maxBytes() {
		return nil, tooLarge(name, o.maxBytes())
	}
	data, err := readAll(ctx, f, info.Size(), o.maxBytes())
	switch {
	case err == nil:
		return &Input{Name: name, Data: data}, nil
	case errors.Is(err, ErrTooLarge):
		return nil, tooLarge(name, o.maxBytes())
	case ctx.Err() != nil:
		return nil, interrupted(ctx, name)
	}
	return nil, fileError(name, err)
}

// irregular is the mode of something that is not a regular file.
type irregular fs.FileMode

func (m irregular) Error() string { return "not a regular file: " + fs.FileMode(m).Type().String() }

// openRegular opens path if it is a regular file, and else fails with irregular. It
// looks before it opens, since opening some devices does something, and again
// afterwards, since the first look may be out of date.
func openRegular(stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error), path string) (*os.File, error) {
	info, err := stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(info.Mode())
	}
	f, err := open(path, openFlags, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = irregular(info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openBelow opens path if it is a regular file below one of the roots, and else fails
// with ErrForbidden. os.Root holds the boundary against whatever changes meanwhile.
// It refuses every link that leaves the root or is absolute; such a link may still
// lead below a root, so its target gets a try of its own.
//
// Outside the roots the error is the same whether or not there is such a file.
func openBelow(roots []string, path string) (*os.File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := openIn(roots, absolute)
	if !errors.Is(err, ErrForbidden) {
		return f, err
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return nil, ErrForbidden
	}
	if f, err = openIn(roots, resolved); err != nil {
		// Whatever else is wrong with it, it's only known through a link.
		return nil, ErrForbidden
	}
	return f, nil
}

// openIn opens an absolute path in the first root that has it below itself by name.
func openIn(roots []string, path string) (*os.File, error) {
	for _, folder := range roots {
		folder, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		if !below(folder, path) {
			if folder, err = filepath.EvalSymlinks(folder); err != nil || !below(folder, path) {
				continue
			}
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			continue
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, ErrForbidden
		}
		f, err := openRegular(root.Stat, root.OpenFile, relative)
		root.Close()
		if err == nil || known(err) {
			return f, err
		}
		// What remains is chiefly os.Root's own refusal of an escape, which has no
		// sentinel.
		return nil, ErrForbidden
	}
	return nil, ErrForbidden
}

func below(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// known reports whether a path below a root failed for a reason of its own.
func known(err error) bool {
	var mode irregular
	return errors.As(err, &mode) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

func fileError(name string, err error) *Error {
	var mode irregular
	switch {
	case errors.As(err, &mode):
		switch m := fs.FileMode(mode); {
		case m.IsDir():
			return fail(name, ErrInvalid, "%s is a folder; name a picture in it.", name)
		case m&fs.ModeNamedPipe != 0:
			return fail(name, ErrInvalid, "%s is a named pipe; to read from a pipe, connect it to standard input and give -.", name)
		case m&fs.ModeSocket != 0:
			return fail(name, ErrInvalid, "%s is a socket; name a regular file.", name)
		case m&fs.ModeDevice != 0:
			return fail(name, ErrInvalid, "%s is a device; name a regular file.", name)
		}
		return fail(name, ErrInvalid, "%s is not a regular file; name one.", name)
	case errors.Is(err, fs.ErrNotExist):
		return fail(name, err, "There is no file %s; check its name and folder.", name)
	case errors.Is(err, syscall.ENOTDIR):
		return fail(name, errors.Join(fs.ErrNotExist, err), "There is no file %s, since a part of that path is not a folder; check it.", name)
	case errors.Is(err, fs.ErrPermission):
		return fail(name, err, "%s may not be read by this user; change its permissions or use a copy.", name)
	case errors.Is(err, ErrForbidden):
		return fail(name, err, "%s is not below a folder that may be read; move it there, or send the picture itself as a data URI.", name)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL):
		return fail(name, errors.Join(ErrInvalid, err), "%s cannot be the name of a file; check it.", name)
	}
	cause := err
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		cause = pathError.Err
	}
	return fail(name, err, "%s could not be read (%v); check the file.", name, cause)
}
