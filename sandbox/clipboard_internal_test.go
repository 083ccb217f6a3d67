//go:build linux

package sandbox

import (
	"testing"
)

// TestClipboard carries text to the desktop's clipboard and back, as the live view does.
func TestClipboard(t *testing.T) {
	d, err := Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := clipboard{d}
	if text, err := c.Read(t.Context()); text != "" || err != nil {
		t.Errorf("a new desktop's clipboard has %q, %v", text, err)
	}
	for _, want := range []string{"Grüße – 東京 👋\n", "another"} {
		if err := c.Write(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if text, err := c.Read(t.Context()); text != want || err != nil {
			t.Errorf("the clipboard has %q, %v; want %q", text, err, want)
		}
	}
}
