package picture

import (
	"errors"

	"github.com/loupe-tools/loupe/picture/internal/bmpio"
)

func decodeBMP(data []byte, o *DecodeOptions) (*Picture, error) {
	f, err := bmpio.Parse(data)
	if err != nil {
		return nil, bmpError(err)
	}
	if err := o.check(BMP, f.Width, f.Height); err != nil {
		return nil, err
	}
	m, err := f.Decode()
	if err != nil {
		return nil, bmpError(err)
	}
	return &Picture{Image: m}, nil
}

func bmpError(err error) error {
	switch {
	case errors.Is(err, bmpio.ErrTruncated):
		return truncated(BMP, err)
	case errors.Is(err, bmpio.ErrUnsupported):
		return unsupported(BMP, "of a rare variant ("+err.Error()+")")
	}
	return corrupt(BMP, err)
}
