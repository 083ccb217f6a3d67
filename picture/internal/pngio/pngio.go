// Package pngio reads PNG files straight into opaque 8-bit RGBA and writes
// such images as RGB. Reading needs one row of memory beside the result for
// every kind of file, interlaced and 16-bit ones too.
package pngio

import "errors"

// Errors that Decode wraps.
var (
	ErrCorrupt   = errors.New("corrupt PNG data")
	ErrTruncated = errors.New("the PNG data ends too early")
)

// Signature is what every PNG file begins with.
const Signature = "\x89PNG\r\n\x1a\n"

// Colour types, as numbered in IHDR.
const (
	grey      = 0
	rgb       = 2
	palette   = 3
	greyAlpha = 4
	rgbAlpha  = 6
)

// Row filters, as numbered in front of each row.
const (
	filterNone    = 0
	filterSub     = 1
	filterUp      = 2
	filterAverage = 3
	filterPaeth   = 4
)

// Low seven bits and top bit of each of eight bytes, for arithmetic on eight
// bytes in one word.
const (
	low7 = 0x7F7F7F7F7F7F7F7F
	top1 = 0x8080808080808080
)

// paeth is the predictor of the PNG specification, section 9.4: of left, up and
// corner the one nearest to left+up-corner, the first of these where two are
// as near. A corner far above both neighbours makes that the smaller one, far
// below both the larger one, else the corner itself. Put this way it compiles
// to code without branches and is short enough to be inlined.
func paeth(left, up, corner int) int {
	turn := 3*corner - (left + up)
	lo, hi := min(left, up), max(left, up)
	p := corner
	if hi <= turn {
		p = lo
	}
	if turn <= lo {
		p = hi
	}
	return p
}

func abs(v int) int {
	s := v >> 63
	return (v ^ s) - s
}
