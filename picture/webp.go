package picture

import (
	"errors"

	"github.com/loupe-tools/loupe/picture/internal/exif"
	"github.com/loupe-tools/loupe/picture/internal/webpio"
)

func decodeWebP(data []byte, o *DecodeOptions) (*Picture, error) {
	f, err := webpio.Parse(data)
	if err != nil {
		return nil, webpError(err)
	}
	if err := o.check(WebP, f.Width, f.Height); err != nil {
		return nil, err
	}
	m, err := f.Decode()
	if err != nil {
		return nil, webpError(err)
	}
	return &Picture{
		Image:       m,
		Orientation: exif.Orientation(f.EXIF),
		Frames:      f.Frames,
		Notes:       firstOf(f.Frames, "frames of an animation"),
	}, nil
}

func webpError(err error) error {
	if errors.Is(err, webpio.ErrTruncated) {
		return truncated(WebP, err)
	}
	return corrupt(WebP, err)
}
