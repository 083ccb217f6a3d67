//go:build linux

package guest

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Pattern names files and folders below the home folder, and with a folder everything in it.
// Host and guest use it: one to find them, the other to take nothing else.
type Pattern struct {
	parts []string
}

// ParsePattern reads a pattern: a path as [path.Match] understands it, from the home folder,
// with or without "~/" or the home folder's own path before it. As in a shell, a '*', '?' or
// '[' does not stand for the dot of a hidden name. A name that looks like a pattern, also like
// one that makes no sense, is found by itself.
func ParsePattern(pattern, home string) (Pattern, error) {
	rest := pattern
	switch {
	case rest == "":
		return Pattern{}, errors.New("an empty pattern names no files; ~ names all of the home folder")
	case rest == "~" || rest == home:
		rest = "."
	case strings.HasPrefix(rest, "~/"):
		rest = rest[len("~/"):]
	case strings.HasPrefix(rest, home+"/"):
		rest = rest[len(home)+1:]
	}
	if path.IsAbs(rest) {
		return Pattern{}, fmt.Errorf("%q is not below the desktop's home folder, %s", pattern, home)
	}
	rest = path.Clean(rest)
	if rest == "." {
		return Pattern{}, nil
	}
	parts := strings.Split(rest, "/")
	if slices.Contains(parts, "..") {
		return Pattern{}, fmt.Errorf("%q is not below the desktop's home folder, %s", pattern, home)
	}
	return Pattern{parts: parts}, nil
}

// String is the pattern as [ParsePattern] reads it.
func (p Pattern) String() string {
	if len(p.parts) == 0 {
		return "~"
	}
	return "~/" + strings.Join(p.parts, "/")
}

// Matches reports whether a file, by its path from the home folder, is named by the pattern, or is
// below a folder that is.
func (p Pattern) Matches(name string) bool {
	names := strings.Split(name, "/")
	if len(names) < len(p.parts) {
		return false
	}
	for i, part := range p.parts {
		if !matchName(part, names[i]) {
			return false
		}
	}
	return true
}

// matchName reports whether a part of a pattern stands for a name.
func matchName(part, name string) bool {
	if part == name {
		return true
	}
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".") {
		return false
	}
	matched, err := path.Match(part, name)
	return err == nil && matched
}
