// Package zoom is the zoom tool: it shows a model an image at the size that the model
// can see, and lets it ask for regions, which are cut from the full-resolution original
// and magnified to fill the model's image budget.
//
// A model only ever deals in view pixels, those of the copy that it was shown, and the
// tool maps them to the original. The package promises that what it sends fits: views
// and zooms stay within the model's limits and within what a request may carry. Where a
// zoom has to be smaller for that, it loses size before quality, and the text beside it
// says so.
package zoom

import (
	"fmt"
	"image"
	"math"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
)

// View is the copy of an image that a model sees under the given limits, and the frame
// that ties the two together. The copy is the image itself when that fits.
func View(original *image.RGBA, limits vision.Limits) (*image.RGBA, vision.Frame) {
	frame := vision.NewFrame(original.Rect.Size(), limits)
	if frame.View == frame.Original {
		return original, frame
	}
	return picture.Resample(original, original.Rect, frame.View), frame
}

// Region is a part of an image, magnified.
type Region struct {
	Applied image.Rectangle // view pixels: the region asked for, clamped to the view
	Crop    image.Rectangle // original pixels
	Size    image.Point     // of the magnified image, in its own pixels
}

// Cut cuts a region, in view pixels, from the full-resolution original and scales it to
// fill the limits. It returns vision.ErrEmptyRegion for a region with nothing in it.
// The image is new.
func Cut(original *image.RGBA, frame vision.Frame, region image.Rectangle, limits vision.Limits) (*image.RGBA, Region, error) {
	r, err := locate(frame, region, limits)
	if err != nil {
		return nil, Region{}, err
	}
	return picture.Resample(original, r.Crop, r.Size), r, nil
}

// locate works out where a region lies and how large it will be shown.
func locate(frame vision.Frame, region image.Rectangle, limits vision.Limits) (Region, error) {
	applied, err := frame.Clamp(region)
	if err != nil {
		return Region{}, err
	}
	crop, err := frame.Crop(applied)
	if err != nil {
		return Region{}, err
	}
	w, h := limits.Fill(crop.Dx(), crop.Dy())
	return Region{Applied: applied, Crop: crop, Size: image.Pt(w, h)}, nil
}

// shrinkBy is how far a size is reduced below what would just fit by area, since JPEG
// does not shrink quite as fast as its pixels do.
const shrinkBy = 0.92

// encodeWithin encodes the crop of an original at the given size, or at as much smaller
// a size as fits into maxBase64 bytes after base64. It returns the size it used.
func encodeWithin(original *image.RGBA, crop image.Rectangle, size image.Point, maxBase64 int, limits vision.Limits) (picture.Encoded, error) {
	for {
		encoded, err := picture.EncodeZoom(picture.Resample(original, crop, size))
		if err != nil {
			return picture.Encoded{}, fmt.Errorf("encode a zoom: %w", err)
		}
		if maxBase64 <= 0 || encoded.Base64Len() <= maxBase64 {
			return encoded, nil
		}
		smaller := shrink(size, float64(maxBase64)/float64(encoded.Base64Len()), limits)
		if smaller == size {
			return picture.Encoded{}, fmt.Errorf("encode a zoom: no size of it is under %d bytes", maxBase64)
		}
		size = smaller
	}
}

// shrink scales a size down so that its area is about ratio of what it was. The result
// is smaller in at least one direction unless the size is already 1x1.
func shrink(size image.Point, ratio float64, limits vision.Limits) image.Point {
	long := max(size.X, size.Y)
	edge := int(float64(long) * math.Sqrt(ratio) * shrinkBy)
	edge = min(max(edge, 1), long-1)
	scaled := func(v int) int { return max(int(float64(v)*float64(edge)/float64(long)+0.5), 1) }
	if long <= 1 {
		return size
	}
	w, h := limits.Fit(scaled(size.X), scaled(size.Y))
	return image.Pt(w, h)
}
