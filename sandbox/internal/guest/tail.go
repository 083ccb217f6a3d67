//go:build linux

package guest

import (
	"bytes"
	"strings"
	"sync"
)

// Tail keeps the end of what is written to it, for a message about what went wrong. The zero
// value is ready. It may be used by several goroutines at once.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10 // bytes

// Write keeps what fits, and never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String is what is kept, without space around it.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.text)), "\ufffd")
}

// LastLine is what a program said last, which is mostly why it ended.
func LastLine(output string) string {
	output = strings.TrimSpace(output)
	return strings.TrimSpace(output[strings.LastIndexByte(output, '\n')+1:])
}
