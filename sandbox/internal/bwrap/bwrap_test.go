//go:build linux

package bwrap

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func TestArguments(t *testing.T) {
	merged, apart := t.TempDir(), t.TempDir()
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(merged, dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(apart, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(apart, "lib32"), nil, 0o600); err != nil { // which is no folder
		t.Fatal(err)
	}
	whole := &Sandbox{
		ReadOnly: []string{"/etc/fonts", "/etc/ld.so.cache"},
		Files:    []File{{Path: "/etc/passwd", FD: 5, Mode: 0o644}, {Path: "/etc/machine-id", FD: 6, Mode: 0o444 | os.ModeSetuid}},
		Disk:     1 << 30, Temporary: 512 << 20, Shared: 1 << 30, Seccomp: 7, GuestFD: 4,
		Env: map[string]string{"B": "2 and more", "A": "1"}, Args: []string{"-x"},
	}
	path := *whole
	path.Guest = "/opt/loupe/loupe"
	for name, c := range map[string]struct {
		sandbox *Sandbox
		root    string
	}{
		"merged": {whole, merged}, "apart": {whole, apart}, "path": {&path, merged}, "empty": {&Sandbox{GuestFD: 3}, t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, a := range c.sandbox.arguments(c.root) {
				if strings.HasPrefix(a, "--") && b.Len() > 0 {
					b.WriteByte('\n')
				} else if b.Len() > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(a)
			}
			b.WriteByte('\n')
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("the arguments are\n%s\nand not\n%s", b.String(), want)
			}
		})
	}
}
