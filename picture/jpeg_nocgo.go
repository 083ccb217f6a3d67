//go:build !cgo

package picture

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"io"
	"strings"
)

// adobe is a marker segment that says that four components are inks.
const adobe = "\xFF\xEE\x00\x0EAdobe\x00\x64\x00\x00\x00\x00\x00"

// readJPEG stands in for libjpeg-turbo with the standard library, which repeats
// colour samples instead of interpolating them.
func readJPEG(data []byte, o *DecodeOptions) (*jpegPixels, error) {
	config, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, jpegError(err)
	}
	if err := o.check(JPEG, config.Width, config.Height); err != nil {
		return nil, err
	}
	var file io.Reader = bytes.NewReader(data)
	if config.ColorModel == color.CMYKModel && !bytes.Contains(data, []byte(adobe[2:9])) {
		// Inks without the Adobe marker: the library wants it.
		file = io.MultiReader(bytes.NewReader(data[:2]), strings.NewReader(adobe), bytes.NewReader(data[2:]))
	}
	src, err := jpeg.Decode(file)
	if err != nil {
		return nil, jpegError(err)
	}
	m := image.NewRGBA(image.Rect(0, 0, config.Width, config.Height))
	if cmyk, ok := src.(*image.CMYK); ok {
		for y := range config.Height {
			row := cmyk.Pix[y*cmyk.Stride : y*cmyk.Stride+m.Stride]
			for i, v := range row {
				m.Pix[y*m.Stride+i] = 255 - v // back to how the file has them
			}
		}
		return &jpegPixels{image: m, inks: true}, nil
	}
	draw.Draw(m, m.Rect, src, src.Bounds().Min, draw.Src)
	return &jpegPixels{image: m}, nil
}

func jpegError(err error) error {
	var rare jpeg.UnsupportedError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return truncated(JPEG, err)
	case errors.As(err, &rare):
		return unsupported(JPEG, "of a rare variant ("+err.Error()+")")
	}
	return corrupt(JPEG, err)
}
