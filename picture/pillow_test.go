package picture_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// python is Debian's, which sees Debian's modules whatever is first on PATH.
const python = "/usr/bin/python3"

// Where Debian puts pictures that nobody here made.
const (
	exifSamples = "/usr/share/gocode/src/github.com/rwcarlsen/goexif/exif/samples"
	moreSamples = "/usr/share/gocode/src/golang.org/x/image/testdata"
)

// pillow runs testdata/pillow.py and returns what it prints.
func pillow(t testing.TB, args ...string) []byte {
	t.Helper()
	c := exec.Command(python, append([]string{"testdata/pillow.py"}, args...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var missing *os.PathError
	switch {
	case errors.As(err, &missing), bytes.Contains(stderr.Bytes(), []byte("ModuleNotFoundError")):
		t.Fatalf("Pillow and NumPy are needed: apt-get install python3-pil python3-numpy (%v: %s)", err, stderr.Bytes())
	case err != nil:
		t.Fatalf("pillow.py: %v: %s", err, stderr.Bytes())
	}
	return out
}

// reference is what Pillow makes of a file.
type reference struct {
	Size   [2]int
	SHA256 string
	Error  string
}

func pillowRead(t testing.TB, paths ...string) map[string]reference {
	t.Helper()
	var all map[string]reference
	if err := json.Unmarshal(pillow(t, append([]string{"read"}, paths...)...), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// generated returns a folder with pictures of many kinds.
func generated(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	pillow(t, "generate", dir)
	return dir
}

// goroot is where the Go installation keeps its own pictures.
func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src", "image")
}

// list returns the files that a pattern matches; there must be some.
func list(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file matches %s; apt-get install golang-github-rwcarlsen-goexif-dev golang-golang-x-image-dev has the samples", pattern)
	}
	return files
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
