package vision_test

import (
	"fmt"
	"image"

	"github.com/loupe-tools/loupe/vision"
)

func ExampleLimits_Fit() {
	w, h := vision.Standard.Fit(4000, 3000)
	fmt.Println(w, h, vision.Tokens(w, h))
	// Output: 1270 952 1564
}

func ExampleLimits_Fill() {
	w, h := vision.HighResolution.Fill(400, 300)
	fmt.Println(w, h)
	// Output: 2212 1659
}

func ExampleFrame_Crop() {
	frame := vision.NewFrame(image.Pt(8000, 6000), vision.Standard)
	crop, err := frame.Crop(image.Rect(100, 40, 300, 120))
	fmt.Println(frame.View, crop, err)
	// Output: (1270,952) (630,252)-(1890,756) <nil>
}

func ExampleLimitsFor() {
	limits, known := vision.LimitsFor("claude-opus-4-7")
	fmt.Println(limits.MaxEdge, limits.MaxTokens, known)
	// Output: 2576 4784 true
}
