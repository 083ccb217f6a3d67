//go:build cgo

package picture

import (
	"errors"

	"github.com/loupe-tools/loupe/picture/internal/turbo"
)

func readJPEG(data []byte, o *DecodeOptions) (*jpegPixels, error) {
	info, err := turbo.Header(data)
	if err != nil {
		return nil, jpegError(err)
	}
	if err := o.check(JPEG, info.Width, info.Height); err != nil {
		return nil, err
	}
	m, coarse, err := turbo.Decode(data, info, maxScans)
	if err != nil {
		return nil, jpegError(err)
	}
	return &jpegPixels{image: m, inks: info.CMYK, coarse: coarse}, nil
}

func jpegError(err error) error {
	switch {
	case errors.Is(err, turbo.ErrTruncated):
		return truncated(JPEG, err)
	case errors.Is(err, turbo.ErrUnsupported):
		return unsupported(JPEG, "of a rare variant ("+err.Error()+")")
	case errors.Is(err, turbo.ErrMemory):
		return &failure{kind: ErrTooLarge, sentence: "there is not enough memory to decode this JPEG file; give a smaller picture", cause: err}
	}
	return corrupt(JPEG, err)
}
