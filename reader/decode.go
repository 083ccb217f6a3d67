package reader

import (
	"bytes"
	"image"

	"github.com/loupe-tools/loupe/picture"
)

// decodeImage reads the pixels of an image as it was sent.
func decodeImage(data []byte) (*image.RGBA, error) {
	p, err := picture.Decode(bytes.NewReader(data), nil)
	if err != nil {
		return nil, err
	}
	return p.Image, nil
}
