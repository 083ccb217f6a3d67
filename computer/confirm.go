package computer

import (
	"encoding/json"
	"image"
)

// Action is a block that is about to run, as the one who confirms it sees it.
type Action struct {
	Member string

	// Input is what runs: the block's input after decoding, in view pixels.
	Input json.RawMessage

	// Description is the action in one line for a person, with every invisible and every
	// control character escaped.
	Description string

	// Point is where on the display it happens, in display pixels, or nil.
	Point *image.Point
}
