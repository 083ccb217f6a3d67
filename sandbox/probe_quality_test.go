package sandbox_test

import (
	"image"

	"github.com/loupe-tools/loupe/sandbox"
)

// rectangle is all of a desktop's display.
func rectangle(d *sandbox.Desktop) image.Rectangle { return image.Rectangle{Max: d.Size()} }
