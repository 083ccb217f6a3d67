//go:build cgo

package picture

import (
	"errors"
	"image"

	"github.com/loupe-tools/loupe/picture/internal/turbo"
)

func decodeJPEGPixels(data []byte, o *DecodeOptions) (*image.RGBA, error) {
	info, err := turbo.Header(data)
	if err != nil {
		return nil, jpegError(err)
	}
	if err := o.check(JPEG, info.Width, info.Height); err != nil {
		return nil, err
	}
	m, err := turbo.Decode(data, info, maxScans)
	if err != nil {
		return nil, jpegError(err)
	}
	if info.CMYK {
		inksToRGB(m)
	}
	return m, nil
}

func jpegError(err error) error {
	switch {
	case errors.Is(err, turbo.ErrTruncated):
		return truncated(JPEG, err)
	case errors.Is(err, turbo.ErrUnsupported):
		return unsupported(JPEG, "of a rare variant ("+err.Error()+")")
	}
	return corrupt(JPEG, err)
}
