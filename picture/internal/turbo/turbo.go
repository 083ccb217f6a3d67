// Package turbo is a small wrapper over libjpeg-turbo: header, decode, encode,
// each one call into C that keeps nothing afterwards. Without cgo it is empty
// and [Available] is false.
//
// The library itself goes on after damage, with grey pixels and a warning.
// Here every warning that means wrong pixels is an error. Tolerated are bytes
// of padding before a marker, an odd JFIF version or Adobe transform number,
// and a damaged colour profile.
package turbo

import "errors"

// MaxEdge is the largest width or height of a JPEG file that the library
// handles, in pixels.
const MaxEdge = 65500

// Errors that the functions of this package wrap.
var (
	ErrCorrupt     = errors.New("corrupt JPEG data")
	ErrTruncated   = errors.New("the JPEG data ends too early")
	ErrUnsupported = errors.New("a kind of JPEG that is not supported")
	ErrMemory      = errors.New("out of memory")
)

// Info is what the header of a JPEG file says.
type Info struct {
	Width, Height int // pixels
	Components    int // 1, 3 or 4 in practice
	CMYK          bool
}
