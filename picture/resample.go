package picture

import (
	"image"
	"runtime"

	"github.com/loupe-tools/loupe/picture/internal/lanczos"
)

// maxResampled is the largest result of [Resample] in pixels: 1 GiB.
const maxResampled = 1 << 28

// Resample returns the part box of src scaled to size with the Lanczos filter.
// The bytes are those of Pillow's
//
//	image.crop(box).resize(size, Image.LANCZOS)
//
// for an RGB image: three lobes, support widened by the factor when shrinking,
// a horizontal and then a vertical pass in 8-bit fixed point, no sample from
// outside the box, and no pass in a direction whose size does not change.
//
// The box is in the coordinates of src. The result is new, has its origin at
// (0,0) and is opaque: the alpha of src is ignored.
//
// A box that is empty or not wholly within src, a size that is not positive,
// and a size of more than 2^28 pixels have no meaning here; the result is then
// an empty image (0 by 0), never one with made-up pixels. Callers that take
// boxes from outside check them first.
//
// Resample may be called from several goroutines at once. It uses two
// goroutines of its own on large results and ends them before it returns.
func Resample(src *image.RGBA, box image.Rectangle, size image.Point) *image.RGBA {
	if src == nil || box.Empty() || !box.In(src.Rect) || size.X <= 0 || size.Y <= 0 ||
		size.X > maxResampled/size.Y {
		return image.NewRGBA(image.Rectangle{})
	}
	workers := 1
	if size.X*size.Y >= 1<<16 || box.Dx()*box.Dy() >= 1<<18 {
		workers = min(2, runtime.GOMAXPROCS(0))
	}
	return lanczos.Resample(src, box, size.X, size.Y, workers)
}
