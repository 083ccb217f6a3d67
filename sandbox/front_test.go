//go:build linux

package sandbox_test

import (
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/sandbox"
)

// TestFront starts applications of which the last to come up is not always the same: the one
// that was named last is in front, and has the keyboard.
func TestFront(t *testing.T) {
	for _, apps := range []string{"mousepad,xterm", "xterm,pcmanfm,mousepad", "mousepad,pcmanfm,galculator,xterm"} {
		names := strings.Split(apps, ",")
		d := start(t, &sandbox.Options{Apps: names})
		active := output(t, d, `xprop -id "$(xprop -root _NET_ACTIVE_WINDOW | sed 's/.*# //')" WM_CLASS`)
		if last := names[len(names)-1]; !strings.Contains(active, last) {
			t.Errorf("of %s the window in front is %s", apps, active)
		}
	}
}
