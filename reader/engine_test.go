package reader

import (
	"context"
	"errors"
	"image"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestAMissingEngineSaysWhatToInstall(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"no program", "", "apt-get install tesseract-ocr"},
		{"no English", "echo 'List of available languages (1):'; echo osd", "apt-get install tesseract-ocr-eng"},
		{"it does not run", "exit 3", "does not run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "tesseract")
			if test.script != "" {
				writeScript(t, program, test.script)
			}
			_, err := New(&Options{Tesseract: program})
			if !errors.Is(err, ErrNoEngine) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func writeScript(t *testing.T, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// stuck is an engine that tells a pipe its process and then never ends.
func stuck(t *testing.T) (program, pipe string) {
	dir := t.TempDir()
	pipe = filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "tesseract")
	writeScript(t, program, `case $1 in --list-langs) echo eng; exit ;; esac
echo $$ > '`+pipe+`'
exec sleep 3600`)
	return program, pipe
}

func TestCancellingEndsTheEngine(t *testing.T) {
	defer goleak.VerifyNone(t)
	program, pipe := stuck(t)
	e, err := newEngine(program, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error)
	go func() {
		_, err := e.read(ctx, image.NewGray(image.Rect(0, 0, 40, 20)), sparse)
		result <- err
	}()
	said, err := os.ReadFile(pipe) // returns when the engine runs
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(said))); err == nil {
		t.Error("the engine's process is still there")
	}
}

func TestWaitingForAnEngineEndsWithTheContext(t *testing.T) {
	e := &engine{path: "/bin/false", slots: make(chan struct{}, 1)}
	e.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := e.read(ctx, image.NewGray(image.Rect(0, 0, 4, 4)), sparse); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAnEngineThatFailsIsNamed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tesseract")
	writeScript(t, program, `case $1 in --list-langs) echo eng; exit ;; esac
echo 'out of memory' >&2; exit 1`)
	e, err := newEngine(program, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.read(t.Context(), image.NewGray(image.Rect(0, 0, 4, 4)), sparse)
	if err == nil || !strings.Contains(err.Error(), "tesseract failed") || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("got %v", err)
	}
}

const table = `level	page_num	block_num	par_num	line_num	word_num	left	top	width	height	conf	text
1	1	0	0	0	0	0	0	400	100	-1	
5	1	1	1	1	1	10	20	60	12	96.5	peak:
5	1	1	1	1	2	75	20	55	14	91.25	6,053
5	1	1	1	1	3	135	20	40	12	-1	
5	1	1	1	1	4	x	20	40	12	90	bad
5	1	1	1	1	5	1	2	3
`

func TestTheEnginesTableIsRead(t *testing.T) {
	want := []word{
		{"peak:", 96.5, image.Rect(10, 20, 70, 32)},
		{"6,053", 91.25, image.Rect(75, 20, 130, 34)},
	}
	if diff := cmp.Diff(want, parseTSV(table), cmp.AllowUnexported(word{})); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseTSV(f *testing.F) {
	f.Add(table)
	f.Add("5\t1\t1\t1\t1\t1\t99999999999\t20\t60\t12\tNaN\tx")
	f.Add("5\t1\t1\t1\t1\t1\t-1\t20\t60\t12\t96\tx\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range parseTSV(text) {
			if w.text == "" || !(w.conf >= 0 && w.conf <= 100) || w.box.Min.X < 0 || w.box.Min.Y < 0 || w.box.Dx() < 0 || w.box.Dy() < 0 {
				t.Errorf("%+v", w)
			}
		}
	})
}
