package zoom

import "math"

// The rules of verl's ImageZoomInTool for a box, as trained policies know them.
const (
	minBoxSide   = 28  // pixels
	maxBoxAspect = 100 // long side to short side
)

// RepairBox brings a bounding box [x1, y1, x2, y2], in pixels of an image of width by
// height, into the form in which verl's ImageZoomInTool cuts it. The box is clamped to
// the image; when a side is under 28 pixels it grows about its centre, keeping its
// aspect, until the shorter side has 28, is scaled down where it then overflows the
// image, shifted inside, and rounded outwards to whole pixels. ok is false, and the box
// of no meaning, when it is empty or reversed, has an aspect over 100, or stays under 28
// pixels. A box that needs no growth keeps its fractions.
func RepairBox(box [4]float64, width, height int) (repaired [4]float64, ok bool) {
	w, h := float64(width), float64(height)
	left, top := math.Max(0, box[0]), math.Max(0, box[1])
	right, bottom := math.Min(w, box[2]), math.Min(h, box[3])
	if !validBox(left, top, right, bottom) {
		return [4]float64{}, false
	}
	if boxW, boxH := right-left, bottom-top; boxW < minBoxSide || boxH < minBoxSide {
		centerX, centerY := (left+right)/2, (top+bottom)/2
		grow := minBoxSide / math.Min(boxW, boxH)
		boxW, boxH = boxW*grow, boxH*grow
		if boxW > w || boxH > h {
			fit := math.Min(w/boxW, h/boxH)
			boxW, boxH = boxW*fit, boxH*fit
		}
		left = math.Max(0, math.Min(centerX-boxW/2, w-boxW))
		top = math.Max(0, math.Min(centerY-boxH/2, h-boxH))
		right, bottom = math.Ceil(left+boxW), math.Ceil(top+boxH)
		left, top = math.Floor(left), math.Floor(top)
	}
	if !validBox(left, top, right, bottom) ||
		math.Floor(right-left) < minBoxSide || math.Floor(bottom-top) < minBoxSide {
		return [4]float64{}, false
	}
	return [4]float64{left, top, right, bottom}, true
}

// validBox is also false for coordinates that are not numbers, which compare as false.
func validBox(left, top, right, bottom float64) bool {
	if !(left < right && top < bottom) {
		return false
	}
	long, short := math.Max(right-left, bottom-top), math.Min(right-left, bottom-top)
	return short > 0 && long/short <= maxBoxAspect
}
