package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrNoEngine is wrapped by the error of [New] when tesseract or its English data is
// missing.
var ErrNoEngine = errors.New("no OCR engine")

// A word is one word as the engine read it.
type word struct {
	text string
	conf float64         // 0 to 100, the engine's own
	box  image.Rectangle // pixels of the image that was read
}

// engine runs tesseract, one process a reading, and at most cap(slots) at once.
type engine struct {
	path  string
	slots chan struct{}
}

// newEngine looks for tesseract and asks it for its languages.
func newEngine(path string, workers int) (*engine, error) {
	if path == "" {
		path = "tesseract"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s was not found; install it with: apt-get install tesseract-ocr tesseract-ocr-eng", ErrNoEngine, path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	list := exec.CommandContext(ctx, found, "--list-langs")
	list.WaitDelay = time.Second
	out, err := list.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not run: %v", ErrNoEngine, found, err)
	}
	hasEnglish := false
	for line := range strings.Lines(string(out)) {
		hasEnglish = hasEnglish || strings.TrimSpace(line) == "eng"
	}
	if !hasEnglish {
		return nil, fmt.Errorf("%w: tesseract has no English data; install it with: apt-get install tesseract-ocr-eng", ErrNoEngine)
	}
	return &engine{path: found, slots: make(chan struct{}, max(1, workers))}, nil
}

// The page segmentation modes in use: text anywhere, and one block of lines.
const (
	sparse  = 11
	oneText = 6
)

// maxTSV bounds what is kept of one reading.
const maxTSV = 8 << 20

// read returns the words that tesseract sees on the page, in its order. The process
// is killed when ctx ends, and has ended when read returns.
func (e *engine) read(ctx context.Context, page *image.Gray, mode int) ([]word, error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	cmd := exec.CommandContext(ctx, e.path, "stdin", "stdout", "-l", "eng", "--oem", "1",
		"--psm", strconv.Itoa(mode), "--dpi", "300", "tsv")
	// More threads make a small page slower, not faster.
	cmd.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1")
	cmd.Stdin = io.MultiReader(
		strings.NewReader(fmt.Sprintf("P5\n%d %d\n255\n", page.Rect.Dx(), page.Rect.Dy())),
		bytes.NewReader(page.Pix))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{buffer: &out, left: maxTSV}, &limited{buffer: &complaint, left: 4096}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("tesseract failed: %w: %s", err, firstLine(complaint.String()))
	}
	return parseTSV(out.String()), nil
}

// limited keeps the first bytes written to it and drops the rest.
type limited struct {
	buffer *bytes.Buffer
	left   int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.buffer.Write(p[:n])
	l.left -= n
	return len(p), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// parseTSV reads tesseract's table: level, page, block, paragraph, line, word, left,
// top, width, height, confidence, text. Only rows of level 5 are words; whatever is not
// such a row is passed over.
func parseTSV(table string) []word {
	var words []word
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(fields) != 12 || fields[0] != "5" {
			continue
		}
		var n [4]int
		bad := false
		for i := range n {
			v, err := strconv.Atoi(fields[6+i])
			bad = bad || err != nil || v < 0 || v > 1<<20
			n[i] = v
		}
		conf, err := strconv.ParseFloat(fields[10], 64)
		text := strings.TrimSpace(fields[11])
		if bad || err != nil || !(conf >= 0 && conf <= 100) || text == "" {
			continue
		}
		words = append(words, word{text: text, conf: conf, box: image.Rect(n[0], n[1], n[0]+n[2], n[1]+n[3])})
	}
	return words
}
