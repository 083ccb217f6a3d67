//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox"
)

// oddNames are such as a file system takes.
var oddNames = []string{
	"plain", " spaces  ", "new\nline", "-rf", "--", "ünïcödé 漢字 \U0001f600", strings.Repeat("n", 255), strings.Repeat("é", 127),
	"*", "[ab]", "a?", `back\slash`, "~", "...", ".hidden", "tab\t", "\x1b[31mred", "\xff\xfe not UTF-8", "'\"$(x)`", "a:b", "#x", "=",
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// tree reads all that is below a folder: files by their text, folders with a slash, links by
// where they lead.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		within, _ := filepath.Rel(dir, name)
		switch {
		case entry.IsDir():
			found[within+"/"] = ""
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			found[within] = "-> " + target
			return err
		case entry.Type().IsRegular():
			text, err := os.ReadFile(name)
			found[within] = string(text)
			return err
		default:
			found[within] = entry.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func sameTree(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if has, ok := got[name]; !ok || has != text {
			t.Errorf("%q is %.80q (%v), want %.80q", name, has, ok, text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q is there too", name)
		}
	}
}

func copyOut(t testing.TB, d *sandbox.Desktop, pattern string) (got map[string]string, skipped []string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "made", "on the way")
	written, skipped, err := d.CopyOut(t.Context(), pattern, to)
	if err != nil {
		t.Fatalf("copying %q: %v", pattern, err)
	}
	got = tree(t, to)
	for _, name := range written {
		within, err := filepath.Rel(to, name)
		if _, ok := got[within]; err != nil || !ok {
			t.Errorf("it says that it wrote %q", name)
		}
	}
	slices.Sort(skipped)
	return got, skipped
}

// files leaves the folders out.
func onlyFiles(all map[string]string) map[string]string {
	found := map[string]string{}
	for name, text := range all {
		if !strings.HasSuffix(name, "/") {
			found[name] = text
		}
	}
	return found
}

func TestCopyOddNames(t *testing.T) {
	d := start(t, nil)
	from := t.TempDir()
	want := map[string]string{}
	var names []string
	for i, name := range oddNames {
		text := fmt.Sprintf("file %d\x00\r\n", i)
		names = append(names, write(t, filepath.Join(from, "odd", name), text))
		want[filepath.Join("odd", name)] = text
		want[filepath.Join("odd", "in", name)] = text
		write(t, filepath.Join(from, "odd", "in", name), text)
	}
	if err := d.CopyIn(t.Context(), filepath.Join(from, "odd")); err != nil {
		t.Fatal(err)
	}
	got, skipped := copyOut(t, d, "odd")
	sameTree(t, onlyFiles(got), want)
	if len(skipped) > 0 {
		t.Errorf("left out: %q", skipped)
	}
	// Each by itself, in and out by its own name.
	if err := d.CopyIn(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
	for i, name := range oddNames {
		if name == "~" || strings.Contains(name, `\`) { // which mean something else in a pattern
			continue
		}
		got, _ := copyOut(t, d, "~/"+name)
		if text := got[name]; text != fmt.Sprintf("file %d\x00\r\n", i) {
			t.Errorf("%q is %q", name, text)
		}
	}
}

func TestCopyIn(t *testing.T) {
	d := start(t, &sandbox.Options{Limits: sandbox.Limits{Disk: 16 << 20}})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	in := func(t *testing.T, want string, names ...string) {
		t.Helper()
		switch err := d.CopyIn(t.Context(), names...); {
		case want == "" && err != nil:
			t.Errorf("it failed: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("the error is %v, not %s", err, want)
		}
		if left := output(t, d, "find . -name '.*.part'"); left != "" {
			t.Errorf("left behind: %s", left)
		}
	}
	has := func(t *testing.T, name, want string) {
		t.Helper()
		if got := output(t, d, "cat '"+name+"'"); got != want {
			t.Errorf("%s is %.80q, not %.80q", name, got, want)
		}
	}
	t.Run("folder", func(t *testing.T) {
		write(t, at("folder/deep/er/file"), "deep")
		write(t, at("folder/.hidden"), "hidden")
		write(t, at("folder/empty"), "")
		write(t, at("secret"), "secret")
		for link, target := range map[string]string{"folder/link": "../secret", "folder/dir": "..", "folder/abs": at("secret"), "folder/none": "nowhere"} {
			if err := os.Symlink(target, at(link)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(at("folder/nothing/in it"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(at("folder/pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(at("folder/socket"), unix.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
		in(t, "", at("folder"))
		in(t, "", at("folder")+"/") // once more, into what is there
		if got, want := output(t, d, "cd folder; find . | sort"), ".\n./.hidden\n./deep\n./deep/er\n./deep/er/file\n./empty\n./nothing\n./nothing/in it"; got != want {
			t.Errorf("inside there is\n%s\nand not\n%s", got, want)
		}
		has(t, "folder/deep/er/file", "deep")
	})
	t.Run("what is no file", func(t *testing.T) {
		in(t, "copying "+at("none")+" to the desktop: no such file or directory", at("none"))
		in(t, "neither a file nor a folder", at("folder/pipe"))
		in(t, "neither a file nor a folder", "/dev/zero")
		in(t, "no name of its own", "/")
		in(t, "no name of its own", ".")
		in(t, "no name of its own", "..")
	})
	t.Run("link that is named", func(t *testing.T) {
		in(t, "", at("folder/abs"))
		has(t, "abs", "secret")
	})
	t.Run("of the kernel", func(t *testing.T) {
		in(t, "", "/proc/version")
		text, err := os.ReadFile("/proc/version")
		if err != nil {
			t.Fatal(err)
		}
		has(t, "version", strings.TrimSpace(string(text)))
	})
	t.Run("modes", func(t *testing.T) {
		for _, mode := range []fs.FileMode{0o755, 0o644, 0o400, 0o4755, 0o777} {
			if err := os.Chmod(write(t, at(fmt.Sprintf("mode%o", mode)), "#!/bin/sh\n"), mode&fs.ModePerm); err != nil {
				t.Fatal(err)
			}
			in(t, "", at(fmt.Sprintf("mode%o", mode)))
		}
		if got := output(t, d, "stat -c %a mode*"); got != "600\n755\n644\n755\n755" {
			t.Errorf("the modes are %q", got)
		}
	})
	t.Run("what is there", func(t *testing.T) {
		write(t, at("there"), "new")
		output(t, d, "echo old >there; chmod 400 there; ln there hard")
		in(t, "", at("there"))
		has(t, "there", "new")
		has(t, "hard", "old")
		output(t, d, "rm -f there; echo keep >target; ln -s target there")
		in(t, "", at("there"))
		has(t, "there", "new")
		has(t, "target", "keep")
		output(t, d, "rm there; ln -s /proc/self/environ there; mkdir -p out; rm -rf folder/deep; ln -s /tmp folder/deep")
		in(t, "", at("there"))
		has(t, "there", "new")
		in(t, "escapes", at("folder")) // a link in the place of a folder
		output(t, d, "rm there; mkdir there")
		in(t, "there is a folder at there on the desktop", at("there"))
		output(t, d, "touch there/x")
		in(t, "there is a folder at there on the desktop", at("there"))
		output(t, d, "rm -r folder; echo x >folder")
		in(t, "there is a file on the desktop where folder needs a folder", at("folder"))
		output(t, d, "rm folder; mkdir -p folder; chmod 500 folder")
		in(t, "permission denied", at("folder"))
		output(t, d, "chmod 700 folder")
	})
	t.Run("too large", func(t *testing.T) {
		output(t, d, "echo old >huge")
		if err := os.WriteFile(at("huge"), make([]byte, 20<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		in(t, "the desktop's disk is full, and huge does not fit", at("huge"))
		has(t, "huge", "old")
		if err := os.Truncate(at("huge"), 1<<40); err != nil { // with nothing in it
			t.Fatal(err)
		}
		in(t, "the desktop's disk is full", at("huge"))
		output(t, d, "cat /dev/zero >full 2>/dev/null || true")
		in(t, "the desktop's disk is full, and plain does not fit", write(t, at("plain"), strings.Repeat("x", 10_000)))
		output(t, d, "rm full")
		in(t, "", at("plain"))
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.CopyIn(ctx, at("plain")); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// What is swapped for a link while it is copied leads nowhere.
func TestCopyRaces(t *testing.T) {
	d := start(t, nil)
	dir := t.TempDir()
	secret := write(t, filepath.Join(dir, "secret"), "secret")
	write(t, filepath.Join(dir, "folder", "a"), "a")
	stop := make(chan struct{})
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		link, file := filepath.Join(dir, "link"), filepath.Join(dir, "folder", "a")
		for {
			_ = os.Symlink(secret, link)
			_ = os.Rename(link, file)
			_ = os.WriteFile(link, []byte("a"), 0o600)
			_ = os.Rename(link, file)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 60 {
		_ = d.CopyIn(t.Context(), filepath.Join(dir, "folder")) // may fail
		if got := output(t, d, "cat folder/a 2>/dev/null || true"); got == "secret" {
			t.Fatal("a link out of the folder was followed")
		}
	}
	close(stop)
	<-swapped

	// And inside.
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{}, 1)
	c := d.Command("sh", "-c", `mkdir -p out; echo secret >secret; echo begun; while :; do
		ln -sfn ../secret out/x; rm -f out/x; echo x >out/x; rm -f out/x; ln -sfn /etc/passwd out/x; rm -f out/x; mkfifo out/x; rm -f out/x; done`)
	c.Stdout = writer(func(p []byte) (int, error) { begun <- struct{}{}; return len(p), nil })
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-begun
	for range 60 {
		to := t.TempDir()
		if _, _, err := d.CopyOut(t.Context(), "out", to); err != nil {
			t.Fatal(err)
		}
		for name, text := range onlyFiles(tree(t, to)) {
			if name != "out/x" || text != "x\n" && text != "" {
				t.Fatalf("%q came out with %q", name, text)
			}
		}
	}
	cancel()
	<-ended
}

func TestCopyOut(t *testing.T) {
	d := start(t, nil)
	output(t, d, `mkdir -p a/b/c .config/x Downloads deep/none
		echo 1 >one.txt; echo 2 >two.txt; echo 3 >a/three.txt; echo 4 >a/b/four.txt; echo 5 >a/b/c/.five; : >a/empty
		echo h >.hidden; echo c >.config/x/y; echo r >'Downloads/a report.pdf'; echo '[' >'x[1].txt'
		ln -s /etc/passwd out1; ln -s one.txt out2; ln -s a linked; ln -s nowhere dangling; mkfifo pipe
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
		chmod 751 one.txt; chmod 0 two.txt`)
	for pattern, want := range map[string]map[string]string{
		"one.txt":              {"one.txt": "1\n"},
		"~/one.txt":            {"one.txt": "1\n"},
		"/home/user/one.txt":   {"one.txt": "1\n"},
		"./a/../one.txt":       {"one.txt": "1\n"},
		"*.txt":                {"one.txt": "1\n", "x[1].txt": "[\n"},
		"x[1].txt":             {"x[1].txt": "[\n"},
		"a":                    {"a/three.txt": "3\n", "a/b/four.txt": "4\n", "a/b/c/.five": "5\n", "a/empty": ""},
		"a/":                   {"a/three.txt": "3\n", "a/b/four.txt": "4\n", "a/b/c/.five": "5\n", "a/empty": ""},
		"a/*":                  {"a/three.txt": "3\n", "a/b/four.txt": "4\n", "a/b/c/.five": "5\n", "a/empty": ""},
		"*/*/four.txt":         {"a/b/four.txt": "4\n"},
		"a/b/c/*":              {},
		"a/b/c/.*":             {"a/b/c/.five": "5\n"},
		".hid*":                {".hidden": "h\n"},
		"*/x":                  {},
		".config/?":            {".config/x/y": "c\n"},
		"Downloads/*.pdf":      {"Downloads/a report.pdf": "r\n"},
		"linked/three.txt":     {},
		"nothing":              {},
		"deep":                 {},
		"one.txt/more":         {},
		"pipe":                 {},
		"socket":               {},
		"two.txt":              {},
		"/home/user/Downloads": {"Downloads/a report.pdf": "r\n"},
		"[a-c]/[^x]*.txt":      {"a/three.txt": "3\n"},
	} {
		got, _ := copyOut(t, d, pattern)
		if got = onlyFiles(got); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s names %q, want %q", pattern, got, want)
		}
	}
	_, skipped := copyOut(t, d, "*")
	want := []string{
		"dangling was left out: it is a symbolic link.", "linked was left out: it is a symbolic link.", "out1 was left out: it is a symbolic link.",
		"out2 was left out: it is a symbolic link.", "pipe was left out: it is no regular file.", "socket was left out: it is no regular file.",
		"two.txt was left out: it cannot be read.",
	}
	if !slices.Equal(skipped, want) {
		t.Errorf("left out: %q\nwant %q", skipped, want)
	}
	for pattern, want := range map[string]string{
		"": "an empty pattern", "..": "not below", "../x": "not below", "a/../../x": "not below", "/etc/passwd": "not below", "/": "not below",
	} {
		if _, _, err := d.CopyOut(t.Context(), pattern, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, not %s", pattern, err, want)
		}
	}

	t.Run("modes", func(t *testing.T) {
		to := t.TempDir()
		output(t, d, "cp one.txt set; chmod 6777 set")
		if _, _, err := d.CopyOut(t.Context(), "*", to); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{"one.txt": 0o751, "set": 0o755, "a/empty": 0o644} {
			if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode() != want {
				t.Errorf("%s has the mode %v, %v; want %v", name, info.Mode(), err, want)
			}
		}
	})
	t.Run("what is there", func(t *testing.T) {
		to, elsewhere := t.TempDir(), t.TempDir()
		outside := write(t, filepath.Join(elsewhere, "outside"), "keep")
		write(t, filepath.Join(to, "one.txt"), "a longer old text")
		for link, target := range map[string]string{"x[1].txt": outside, "a": elsewhere} {
			if err := os.Symlink(target, filepath.Join(to, link)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := d.CopyOut(t.Context(), "*.txt", to); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.CopyOut(t.Context(), "a", to); err == nil || !strings.Contains(err.Error(), "escapes") {
			t.Errorf("a link in the place of a folder: %v", err)
		}
		if _, _, err := d.CopyOut(t.Context(), "Downloads", filepath.Join(to, "one.txt")); err == nil {
			t.Error("a file was taken for a folder")
		}
		sameTree(t, tree(t, to), map[string]string{"one.txt": "1\n", "x[1].txt": "[\n", "a": "-> " + elsewhere})
		sameTree(t, tree(t, elsewhere), map[string]string{"outside": "keep"})
		if err := os.MkdirAll(filepath.Join(to, ".hidden", "in it"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.CopyOut(t.Context(), ".hidden", to); err == nil || !strings.Contains(err.Error(), "a folder of that name") {
			t.Errorf("a folder in the place of a file: %v", err)
		}
		if err := os.Symlink(filepath.Join(elsewhere), filepath.Join(elsewhere, "named")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.CopyOut(t.Context(), "one.txt", filepath.Join(elsewhere, "named")); err != nil {
			t.Errorf("into a link that the caller named: %v", err)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		output(t, d, "head -c 100000000 /dev/zero >large; mkdir -p both; mv large both/b; echo a >both/a")
		to := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			until(t, "the first bytes", func() bool {
				found, _ := filepath.Glob(filepath.Join(to, "both", ".*.part"))
				return len(found) > 0
			})
		}()
		written, _, err := d.CopyOut(ctx, "both", to)
		if err == nil {
			t.Log("it was faster")
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		} else {
			sameTree(t, onlyFiles(tree(t, to)), map[string]string{"both/a": "a\n"})
			if len(written) != 1 {
				t.Errorf("it says that it wrote %q", written)
			}
		}
		output(t, d, "rm -r both")
	})
	t.Run("too much", func(t *testing.T) {
		output(t, d, "mkdir -p big; truncate -s 2G big/sparse")
		if _, _, err := d.CopyOut(t.Context(), "big", t.TempDir()); err == nil || !strings.Contains(err.Error(), "larger than 1073741824 bytes together") {
			t.Errorf("2 GiB: %v", err)
		}
		output(t, d, "rm big/sparse; cd big; seq -f %05g 10000 | xargs touch")
		to := t.TempDir()
		written, _, err := d.CopyOut(t.Context(), "big", to)
		if err != nil || len(written) != 10_000 {
			t.Errorf("10000 files: %d, %v", len(written), err)
		}
		output(t, d, "rm -r big; mkdir links; cd links; for i in $(seq 150); do ln -s x $(printf %0200d $i); done")
		_, skipped, err := d.CopyOut(t.Context(), "links", to)
		if err != nil || len(skipped) != 101 || skipped[100] != "50 more were left out." {
			t.Errorf("150 links: %d sentences, %v", len(skipped), err)
		}
	})
	t.Run("changing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- d.Command("sh", "-c", "mkdir -p c; while :; do echo x >>c/grows; head -c 3000000 /dev/zero >c/shrinks; : >c/shrinks; : >c/comes; rm c/comes; mkdir -p c/d; rmdir c/d; done").Run(ctx)
		}()
		for range 50 {
			to := t.TempDir()
			_, _, err := d.CopyOut(t.Context(), "c", to)
			if err != nil && !strings.Contains(err.Error(), "became shorter") {
				t.Error(err)
			}
			for name, text := range onlyFiles(tree(t, to)) {
				if strings.Trim(text, "x\n\x00") != "" || strings.Contains(name, ".part") {
					t.Errorf("%q came out", name)
				}
			}
		}
		cancel()
		<-ended
	})
}

func TestCopyMany(t *testing.T) {
	d := start(t, nil)
	dir := filepath.Join(t.TempDir(), "many")
	for i := range 500 {
		write(t, filepath.Join(dir, fmt.Sprint(i%50), fmt.Sprint(i)), fmt.Sprint(i))
	}
	if err := d.CopyIn(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := output(t, d, "find many -type f | wc -l; cat many/*/* | wc -c"); got != "500\n1390" {
		t.Errorf("inside are %q", got)
	}
	large := bytes.Repeat([]byte("0123456789"), 1<<20)
	if err := os.WriteFile(filepath.Join(dir, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.CopyIn(t.Context(), filepath.Join(dir, "large")); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, _, err := d.CopyOut(t.Context(), "large", to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "large")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(large), err)
	}
}
