//go:build linux

package sandbox

import (
	"context"
	"errors"
	"strings"

	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

// clipboard is the desktop's, for the live view.
type clipboard struct{ desktop *Desktop }

var _ liveview.Clipboard = clipboard{}

// Read returns the text, or "" where there is none.
func (c clipboard) Read(ctx context.Context) (string, error) {
	out, err := c.desktop.Command("xclip", "-out", "-selection", "clipboard", "-target", "UTF8_STRING").Output(ctx)
	var exit *ExitError
	if errors.As(err, &exit) { // nobody has anything, or it is no text
		return "", nil
	}
	return string(out), err
}

// Write puts text there. The program stays, since who has put something on the clipboard of
// an X display hands it out, until something else is put there.
func (c clipboard) Write(ctx context.Context, text string) error {
	command := c.desktop.Command("xclip", "-in", "-selection", "clipboard")
	command.Stdin = strings.NewReader(text)
	return command.Run(ctx)
}
