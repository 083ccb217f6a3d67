//go:build cgo

package turbo

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ljpeg
#include "turbo.h"
*/
import "C"

import (
	"fmt"
	"image"
	"unsafe"
)

// Available says whether the library is part of this build.
const Available = true

// Header reads the size and kind of the JPEG file in data.
func Header(data []byte) (Info, error) {
	if len(data) == 0 {
		return Info{}, ErrTruncated
	}
	var info C.turbo_info
	var e C.turbo_error
	if C.turbo_header((*C.uint8_t)(unsafe.SliceData(data)), C.size_t(len(data)), &info, &e) != C.TURBO_OK {
		return Info{}, failure(&e)
	}
	return Info{
		Width:      int(info.width),
		Height:     int(info.height),
		Components: int(info.components),
		CMYK:       info.cmyk != 0,
	}, nil
}

// Decode decodes the JPEG file in data. For a file whose Info says CMYK the
// four bytes of a pixel are the stored inks, else they are R, G, B and 255.
// coarse says that a progressive file leaves out some of the detail. A file
// with more than maxScans scans is refused as corrupt.
func Decode(data []byte, info Info, maxScans int) (m *image.RGBA, coarse bool, err error) {
	if len(data) == 0 || info.Width <= 0 || info.Height <= 0 {
		return nil, false, ErrCorrupt
	}
	m = image.NewRGBA(image.Rect(0, 0, info.Width, info.Height))
	var left C.int
	var e C.turbo_error
	// The buffers are used by C during the call only.
	if C.turbo_decode((*C.uint8_t)(unsafe.SliceData(data)), C.size_t(len(data)),
		C.int(info.Width), C.int(info.Height), C.int(maxScans),
		(*C.uint8_t)(unsafe.SliceData(m.Pix)), &left, &e) != C.TURBO_OK {
		return nil, false, failure(&e)
	}
	return m, left != 0, nil
}

// Encode returns m as a baseline JPEG file with full chroma resolution, with
// the quantisation tables that libjpeg has for quality. Alpha is ignored.
// Each side must be from 1 to MaxEdge.
func Encode(m *image.RGBA, quality int) ([]byte, error) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	if width <= 0 || height <= 0 || width > MaxEdge || height > MaxEdge {
		return nil, fmt.Errorf("%w: a JPEG cannot be %d x %d pixels", ErrUnsupported, width, height)
	}
	// The last byte that C reads must be there.
	_ = m.Pix[(height-1)*m.Stride+width*4-1]
	var out *C.uint8_t
	var size C.size_t
	var e C.turbo_error
	code := C.turbo_encode((*C.uint8_t)(unsafe.SliceData(m.Pix)), C.int(width), C.int(height),
		C.size_t(m.Stride), C.int(quality), &out, &size, &e)
	if code != C.TURBO_OK {
		return nil, failure(&e)
	}
	defer C.turbo_free(out)
	return C.GoBytes(unsafe.Pointer(out), C.int(size)), nil
}

func failure(e *C.turbo_error) error {
	kind := ErrCorrupt
	switch e.code {
	case C.TURBO_TRUNCATED:
		kind = ErrTruncated
	case C.TURBO_UNSUPPORTED:
		kind = ErrUnsupported
	case C.TURBO_MEMORY:
		kind = ErrMemory
	}
	return fmt.Errorf("%w: %s", kind, C.GoString(&e.message[0]))
}
