package picture

import (
	"errors"
	"image"

	"github.com/loupe-tools/loupe/picture/internal/exif"
	"github.com/loupe-tools/loupe/picture/internal/tiffio"
)

func decodeTIFF(data []byte, o *DecodeOptions) (*Picture, error) {
	f, err := tiffio.Parse(data)
	if err != nil {
		return nil, tiffError(err)
	}
	if err := o.check(TIFF, f.Width, f.Height); err != nil {
		return nil, err
	}
	part := func(file []byte, maxPixels int64) (*image.RGBA, error) {
		pixels, err := readJPEG(file, &DecodeOptions{MaxPixels: maxPixels})
		if err != nil {
			return nil, err
		}
		return pixels.image, nil
	}
	m, err := f.Decode(part)
	if err != nil {
		return nil, tiffError(err)
	}
	return &Picture{
		Image:       m,
		Orientation: exif.Orientation(data),
		Frames:      f.Pages,
		Notes:       firstOf(f.Pages, "pages"),
	}, nil
}

func tiffError(err error) error {
	var told *failure // by the JPEG decoder
	switch {
	case errors.As(err, &told):
		return &failure{kind: told.kind, sentence: "in this TIFF file: " + told.sentence, cause: err}
	case errors.Is(err, tiffio.ErrTruncated):
		return truncated(TIFF, err)
	case errors.Is(err, tiffio.ErrUnsupported):
		return unsupported(TIFF, "of a rare variant ("+err.Error()+")")
	}
	return corrupt(TIFF, err)
}
