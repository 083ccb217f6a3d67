package zoom_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

// One zoom by hand: what a model would get for a region of the view.
func ExampleCut() {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 2000, 1500))); err != nil {
		panic(err)
	}
	p, err := picture.Decode(&file, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	view, frame := zoom.View(p.Image, vision.Standard)
	fmt.Println("the model sees", view.Rect.Size())

	_, region, err := zoom.Cut(p.Image, frame, image.Rect(100, 40, 300, 120), vision.Standard)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the region covers", region.Crop, "of the original and is shown at", region.Size)
	// Output:
	// the model sees (1270,952)
	// the region covers (157,63)-(472,189) of the original and is shown at (1568,627)
}
