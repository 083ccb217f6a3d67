// Package vision is the arithmetic of how a Claude model sees an image: what size
// fits its budget, and how coordinates of the copy that it sees map onto the
// full-resolution original.
//
// A model sees an image as square patches of 28 by 28 pixels; one patch is one
// visual token. Two limits hold at once: the longest edge and the number of
// tokens, both of the size padded up to whole patches.
//
// Three coordinate spaces occur in this module. Original pixels are those of the
// image as decoded and turned upright. View pixels are those of the copy that the
// model sees, and the only ones that a model is ever told about. Display pixels are
// those of a screen. All have their origin at the top left, x to the right and y
// down.
//
// The package does arithmetic only: no pixels, no input or output, no state. All of
// it is safe for concurrent use. Sizes that are zero or negative are answered as
// the nearest size that exists, 1, and never cause a panic.
package vision

import (
	"errors"
	"image"
	"math"
	"math/bits"
)

// Patch is the edge, in pixels, of the square that a model sees as one visual token.
const Patch = 28

// Limits are the two bounds on one image: the longest edge in pixels and the number
// of visual tokens. Both apply to the size padded up to whole patches.
type Limits struct {
	MaxEdge   int // pixels
	MaxTokens int // patches
}

// The two tiers of models. See LimitsFor for which model has which.
var (
	// Standard is the tier of Claude models before Opus 4.7.
	Standard = Limits{MaxEdge: 1568, MaxTokens: 1568}
	// HighResolution is the tier of Claude Opus 4.7 and later models.
	HighResolution = Limits{MaxEdge: 2576, MaxTokens: 4784}
)

// Tokens is the number of visual tokens that an image of width by height pixels
// costs: its patches, counting every begun one. Sizes that are not positive cost
// nothing.
func Tokens(width, height int) int {
	if width <= 0 || height <= 0 {
		return 0
	}
	across, down := patches(width), patches(height)
	if across > math.MaxInt/down {
		return math.MaxInt
	}
	return across * down
}

// patches is ceil(pixels / Patch) without overflow, for positive pixels.
func patches(pixels int) int { return (pixels-1)/Patch + 1 }

// Fits reports whether an image of width by height pixels is seen as it is, without
// being scaled down.
func (l Limits) Fits(width, height int) bool {
	// Compared in patches, since a padded size can overflow where a patch count cannot.
	return patches(width) <= l.MaxEdge/Patch && patches(height) <= l.MaxEdge/Patch &&
		Tokens(width, height) <= l.MaxTokens
}

// Fit is the size at which a model sees an image of width by height pixels: the same
// size when it fits, otherwise the largest one of the same aspect that does. The
// shorter edge is rounded half to even and is at least 1. The rule is the public
// reference for resizing an image before it is uploaded.
func (l Limits) Fit(width, height int) (w, h int) {
	width, height = max(width, 1), max(height, 1)
	if l.Fits(width, height) {
		return width, height
	}
	if height > width {
		h, w = l.Fit(height, width)
		return w, h
	}
	aspect := float64(width) / float64(height)
	short := func(long int) int { return max(int(math.RoundToEven(float64(long)/aspect)), 1) }
	// A length of 1 is taken to fit; the full width is known not to.
	fits, tooLong := 1, width
	for fits+1 < tooLong {
		middle := fits + (tooLong-fits)/2
		if l.Fits(middle, short(middle)) {
			fits = middle
		} else {
			tooLong = middle
		}
	}
	return fits, short(fits)
}

// fillFactor scales a size far past every budget, so that Fit comes down to the
// largest size inside it.
const fillFactor = 10_000

// Fill is the largest size of the same aspect within the limits: what a crop of
// width by height pixels is magnified to, so that each element of it is seen by as
// many patches as the budget allows.
func (l Limits) Fill(width, height int) (w, h int) {
	return l.Fit(scaleUp(width), scaleUp(height))
}

func scaleUp(length int) int {
	length = max(length, 1)
	if high, low := bits.Mul64(uint64(length), fillFactor); high == 0 && low <= math.MaxInt {
		return int(low)
	}
	return math.MaxInt
}

// CapEdge returns the limits with the longest edge at most edge pixels, for a request
// that carries so many images that a smaller bound holds. A cap that is not positive
// is no cap.
func (l Limits) CapEdge(edge int) Limits {
	if edge > 0 {
		l.MaxEdge = min(l.MaxEdge, edge)
	}
	return l
}

// Frame ties an original to the view of it that a model sees. Both are sizes in
// pixels of their own space.
type Frame struct{ Original, View image.Point }

// NewFrame is the frame of an original of the given size, in original pixels, seen
// under the given limits.
func NewFrame(original image.Point, l Limits) Frame {
	original.X, original.Y = max(original.X, 1), max(original.Y, 1)
	w, h := l.Fit(original.X, original.Y)
	return Frame{Original: original, View: image.Pt(w, h)}
}

// ErrEmptyRegion is returned for a region that is empty once it is clamped to the
// view: reversed, of no width or height, or wholly outside.
var ErrEmptyRegion = errors.New("the region is empty within the image: x1 must be less than x2 and y1 less than y2, both inside the image")

// Clamp returns the region, in view pixels, limited to the view. It returns
// ErrEmptyRegion when nothing is left. The region is taken as it is given: corners
// that are the wrong way round are not swapped.
func (f Frame) Clamp(region image.Rectangle) (image.Rectangle, error) {
	clamped := image.Rectangle{
		Min: image.Pt(min(max(region.Min.X, 0), f.View.X), min(max(region.Min.Y, 0), f.View.Y)),
		Max: image.Pt(min(max(region.Max.X, 0), f.View.X), min(max(region.Max.Y, 0), f.View.Y)),
	}
	if clamped.Min.X >= clamped.Max.X || clamped.Min.Y >= clamped.Max.Y {
		return image.Rectangle{}, ErrEmptyRegion
	}
	return clamped, nil
}

// Crop maps a region of the view, in view pixels, to the region of the original that
// it shows, in original pixels. The region is clamped to the view first. One factor,
// the ratio of the widths, serves both axes, since the view keeps the aspect; edges
// are rounded half to even, then clamped to the original, which the rounded aspect of
// a thin image could otherwise leave. It returns ErrEmptyRegion when nothing is left.
func (f Frame) Crop(region image.Rectangle) (image.Rectangle, error) {
	if f.View.X <= 0 || f.View.Y <= 0 {
		return image.Rectangle{}, ErrEmptyRegion
	}
	region, err := f.Clamp(region)
	if err != nil {
		return image.Rectangle{}, err
	}
	factor := float64(f.Original.X) / float64(f.View.X)
	edge := func(v, limit int) int {
		return min(int(math.RoundToEven(float64(v)*factor)), limit)
	}
	crop := image.Rect(
		edge(region.Min.X, f.Original.X), edge(region.Min.Y, f.Original.Y),
		edge(region.Max.X, f.Original.X), edge(region.Max.Y, f.Original.Y))
	if crop.Empty() {
		return image.Rectangle{}, ErrEmptyRegion
	}
	return crop, nil
}

// ToOriginal maps a point of the view, in view pixels, to the original, in original
// pixels. A pixel of the view stands for its centre: x becomes the original pixel that
// x + 0.5 falls into, scaled by the ratio of the widths; y by that of the heights. A point
// within the view stays within the original, and comes back from ToView unchanged where
// the view is no larger than the original. A point outside stays outside; nothing is
// clamped. In a frame without a view every point is (0, 0).
func (f Frame) ToOriginal(p image.Point) image.Point {
	return image.Pt(centre(p.X, f.View.X, f.Original.X), centre(p.Y, f.View.Y, f.Original.Y))
}

// ToView maps a point of the original, in original pixels, to the view, in view pixels,
// by the rule of ToOriginal.
func (f Frame) ToView(p image.Point) image.Point {
	return image.Pt(centre(p.X, f.Original.X, f.View.X), centre(p.Y, f.Original.Y, f.View.Y))
}

// centre is floor((v + 0.5) * to / from), in whole numbers so that nothing is rounded
// before the floor.
func centre(v, from, to int) int {
	if from <= 0 || to <= 0 {
		return 0
	}
	n, d := (2*v+1)*to, 2*from
	if n < 0 {
		return -((d - 1 - n) / d)
	}
	return n / d
}

// ToOriginalRegion maps a region of the view, in view pixels, to the original, in original
// pixels: each edge by the ratio of its own axis, rounded half to even. It differs from
// Crop, which fits a zoom of a picture, in having a factor for each axis, as points have,
// and in clamping nothing. A region that is not empty stays so where the view is no larger
// than the original.
func (f Frame) ToOriginalRegion(r image.Rectangle) image.Rectangle {
	return image.Rectangle{
		Min: image.Pt(edge(r.Min.X, f.View.X, f.Original.X), edge(r.Min.Y, f.View.Y, f.Original.Y)),
		Max: image.Pt(edge(r.Max.X, f.View.X, f.Original.X), edge(r.Max.Y, f.View.Y, f.Original.Y)),
	}
}

// edge is v * to / from, rounded half to even, in whole numbers.
func edge(v, from, to int) int {
	if from <= 0 || to <= 0 {
		return 0
	}
	q, rest := v*to/from, v*to%from
	if rest < 0 {
		q, rest = q-1, rest+from
	}
	if 2*rest > from || 2*rest == from && q%2 != 0 {
		q++
	}
	return q
}
