// Package lanczos resamples 8-bit RGBX pixels with the Lanczos filter exactly
// as Pillow does: radius 3, support widened by the factor when shrinking,
// weights rounded to 22 fractional bits, a horizontal and then a vertical pass
// with each pass rounded to 8 bits.
//
// The two kernels (one pair of output rows of the horizontal pass, one output
// row of the vertical pass) sit behind the unexported kernel type, so that
// faster ones can be put beneath without touching the rest. Any kernel must
// produce the same bytes.
package lanczos

import (
	"image"
	"math"
	"sync"
)

// precision is the number of fractional bits of a weight. Two bits of the 32
// are left for the overshoot of the filter and eight for the sample.
const precision = 32 - 8 - 2

// half is what is added before the final shift, so that it rounds.
const half = 1 << (precision - 1)

// radius is the a of the Lanczos window, in source pixels at scale 1.
const radius = 3.0

// axis holds the weights of one direction.
type axis struct {
	first   []int32 // first source index of each output index
	count   []int32 // number of weights of each output index
	weights []int32 // stride weights for each output index
	stride  int
}

func (a *axis) at(i int) (first int, weights []int32) {
	return int(a.first[i]), a.weights[i*a.stride : i*a.stride+int(a.count[i])]
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

func window(x float64) float64 {
	if x < -radius || x >= radius {
		return 0
	}
	return sinc(x) * sinc(x/radius)
}

// newAxis computes the weights that turn in samples into out samples. Products
// are converted explicitly, which forbids a fused multiply-add on machines that
// have one: it would round differently.
func newAxis(in, out int) *axis {
	scale := float64(in) / float64(out)
	widen := max(scale, 1)
	support := float64(radius * widen)
	stride := int(math.Ceil(support))*2 + 1
	stride = min(stride, in)
	a := &axis{
		first:   make([]int32, out),
		count:   make([]int32, out),
		weights: make([]int32, out*stride),
		stride:  stride,
	}
	inverse := 1 / widen
	raw := make([]float64, stride)
	for i := range out {
		center := float64((float64(i) + 0.5) * scale)
		lo := max(int(center-support+0.5), 0)
		hi := min(int(center+support+0.5), in)
		sum := 0.0
		for x := lo; x < hi; x++ {
			w := window(float64((float64(x) - center + 0.5) * inverse))
			raw[x-lo] = w
			sum += w
		}
		dst := a.weights[i*stride:]
		for k, w := range raw[:hi-lo] {
			if sum != 0 {
				w /= sum
			}
			// Half away from zero, by truncation.
			w = float64(w * (1 << precision))
			if w < 0 {
				dst[k] = int32(w - 0.5)
			} else {
				dst[k] = int32(w + 0.5)
			}
		}
		a.first[i], a.count[i] = int32(lo), int32(hi-lo)
	}
	return a
}

// kernel is the seam under which faster code can be put.
type kernel struct {
	// horizontal filters two source rows into two destination rows of
	// len(a.first) pixels. The rows may be the same.
	horizontal func(dst0, dst1, src0, src1 []byte, a *axis)
	// vertical filters rows (one per weight, each at least len(dst) bytes)
	// into dst.
	vertical func(dst []byte, rows [][]byte, weights []int32)
}

// Resample returns the part box of src scaled to width x height. Samples
// outside box never contribute, as if the box had been cut out first. The
// fourth channel is ignored and comes back as 255. The box must lie in the
// bounds of src and must not be empty; width and height must be positive.
//
// At most workers goroutines share the output rows; all have ended when
// Resample returns, and their number does not change the result.
func Resample(src *image.RGBA, box image.Rectangle, width, height, workers int) *image.RGBA {
	return resample(src, box, width, height, workers, kernel{horizontal: horizontalGo, vertical: verticalGo})
}

func resample(src *image.RGBA, box image.Rectangle, width, height, workers int, k kernel) *image.RGBA {
	dst := image.NewRGBA(image.Rect(0, 0, width, height))
	j := &job{src: src, box: box, dst: dst, kernel: k}
	// A direction whose size does not change needs no pass.
	if box.Dx() != width {
		j.h = newAxis(box.Dx(), width)
	}
	if box.Dy() != height {
		j.v = newAxis(box.Dy(), height)
	}
	workers = max(1, min(workers, height/16))
	if workers == 1 {
		j.rows(0, height)
		return dst
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { j.rows(height*i/workers, height*(i+1)/workers) })
	}
	wg.Wait()
	return dst
}

type job struct {
	src    *image.RGBA
	box    image.Rectangle
	dst    *image.RGBA
	h, v   *axis // nil: no pass in that direction
	kernel kernel
}

func (j *job) source(y int) []byte {
	o := j.src.PixOffset(j.box.Min.X, j.box.Min.Y+y)
	return j.src.Pix[o : o+j.box.Dx()*4]
}

func (j *job) target(y int) []byte {
	o := y * j.dst.Stride
	return j.dst.Pix[o : o+j.dst.Rect.Dx()*4]
}

// rows computes the output rows from lo to hi. The horizontal pass runs over
// just the source rows that they need, each once, into a ring of as many rows
// as one output row can need.
func (j *job) rows(lo, hi int) {
	if j.v == nil {
		j.horizontalOnly(lo, hi)
		return
	}
	most := 0
	for y := lo; y < hi; y++ {
		most = max(most, int(j.v.count[y]))
	}
	rows := make([][]byte, 0, most)
	if j.h == nil {
		for y := lo; y < hi; y++ {
			first, weights := j.v.at(y)
			rows = rows[:0]
			for i := range weights {
				rows = append(rows, j.source(first+i))
			}
			j.kernel.vertical(j.target(y), rows, weights)
			opaque(j.target(y))
		}
		return
	}
	// The fourth channel is 255 after the horizontal pass and stays so unless
	// there are so many weights that their rounding adds up.
	size := most + 1 // one more, because rows are made two at a time
	width := j.dst.Rect.Dx() * 4
	ring := make([]byte, size*width)
	slot := func(y int) []byte {
		o := (y % size) * width
		return ring[o : o+width]
	}
	made, _ := j.v.at(lo)
	bottom := j.box.Dy()
	for y := lo; y < hi; y++ {
		first, weights := j.v.at(y)
		for made < first+len(weights) {
			next := min(made+1, bottom-1)
			j.kernel.horizontal(slot(made), slot(next), j.source(made), j.source(next), j.h)
			made += 2
		}
		rows = rows[:0]
		for i := range weights {
			rows = append(rows, slot(first+i))
		}
		j.kernel.vertical(j.target(y), rows, weights)
		if len(weights) > 1<<12 {
			opaque(j.target(y))
		}
	}
}

func (j *job) horizontalOnly(lo, hi int) {
	if j.h == nil {
		for y := lo; y < hi; y++ {
			copy(j.target(y), j.source(y))
			opaque(j.target(y))
		}
		return
	}
	for y := lo; y < hi; y += 2 {
		next := min(y+1, hi-1)
		j.kernel.horizontal(j.target(y), j.target(next), j.source(y), j.source(next), j.h)
	}
}

func opaque(row []byte) {
	for i := 3; i < len(row); i += 4 {
		row[i] = 255
	}
}
