package picture_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/picture"
)

// A 48-megapixel picture, from file to encoded view and zoom, stays under 700 MB
// of resident memory, whatever kind of file it is.
func TestMemory(t *testing.T) {
	const limit = 700_000_000 / 1024 // KiB
	dir := t.TempDir()
	program := filepath.Join(dir, "memory")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/memory").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	kinds := []string{"png", "interlaced"}
	if picture.JPEGAvailable {
		kinds = append(kinds, "jpeg")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), kind)
			if out, err := exec.Command(program, "make", kind, file).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := exec.Command(program, "use", file).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			peak, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d MB", peak*1024/1_000_000)
			if peak < 192_000_000/1024 || peak > limit {
				t.Errorf("the peak is %d KiB, the limit %d", peak, limit)
			}
		})
	}
}
