package picture

import (
	"errors"

	"github.com/loupe-tools/loupe/picture/internal/exif"
	"github.com/loupe-tools/loupe/picture/internal/pngio"
)

func decodePNG(data []byte, o *DecodeOptions) (*Picture, error) {
	h, err := pngio.ParseHeader(data)
	if err != nil {
		return nil, pngError(err)
	}
	if err := o.check(PNG, h.Width, h.Height); err != nil {
		return nil, err
	}
	f, err := pngio.Parse(data)
	if err != nil {
		return nil, pngError(err)
	}
	m, err := f.Decode()
	if err != nil {
		return nil, pngError(err)
	}
	return &Picture{
		Image:       m,
		Orientation: exif.Orientation(f.EXIF),
		Frames:      f.Frames,
		Notes:       firstOf(f.Frames, "frames of an animation"),
	}, nil
}

func pngError(err error) error {
	if errors.Is(err, pngio.ErrTruncated) {
		return truncated(PNG, err)
	}
	return corrupt(PNG, err)
}
