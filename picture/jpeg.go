package picture

import (
	"bytes"
	"encoding/binary"
	"image"

	"github.com/loupe-tools/loupe/picture/internal/exif"
)

// maxScans is the most passes over the picture that a progressive JPEG file
// may make. Encoders use about ten; each costs a walk over all coefficients
// and may be a few bytes of file.
const maxScans = 100

// jpegPixels is a decoded JPEG file.
type jpegPixels struct {
	image  *image.RGBA // RGB and 255 in each pixel
	inks   bool        // or the four inks as stored
	coarse bool        // some of the detail is not in the file
}

func decodeJPEG(data []byte, o *DecodeOptions) (*Picture, error) {
	pixels, err := readJPEG(data, o)
	if err != nil {
		return nil, err
	}
	if pixels.inks {
		inksToRGB(pixels.image)
	}
	p := &Picture{Image: pixels.image, Orientation: exif.Orientation(jpegEXIF(data))}
	if pixels.coarse {
		p.Notes = []string{"this progressive JPEG lacks its finest detail, perhaps because it was cut short; small print in it may be blurred"}
	}
	return p, nil
}

// jpegEXIF returns the content of the first EXIF segment in front of the
// pixels, or nil.
func jpegEXIF(data []byte) []byte {
	rest := data[2:]
	for len(rest) >= 4 && rest[0] == 0xFF {
		marker := rest[1]
		switch {
		case marker == 0xFF: // fill
			rest = rest[1:]
			continue
		case marker == 0xDA, marker == 0xD9: // pixels, end
			return nil
		case marker == 0x01, marker >= 0xD0 && marker <= 0xD7: // without content
			rest = rest[2:]
			continue
		}
		n := int(binary.BigEndian.Uint16(rest[2:]))
		if n < 2 || len(rest) < 2+n {
			return nil
		}
		if body := rest[4 : 2+n]; marker == 0xE1 && bytes.HasPrefix(body, []byte("Exif\x00\x00")) {
			return body
		}
		rest = rest[2+n:]
	}
	return nil
}

// inksToRGB turns the four stored inks of a CMYK picture into RGB in place.
//
// JPEG files hold inks inverted (255 is no ink): Adobe's programs began it,
// and other writers and the readers that people use (browsers, Pillow) followed,
// whether the file says Adobe or not. The conversion is Pillow's: the paper
// left by a colour ink times that left by the black one, without a profile.
func inksToRGB(m *image.RGBA) {
	for p := m.Pix; len(p) >= 4; p = p[4:] {
		k := uint32(p[3])
		for c := range 3 {
			// Pillow multiplies the ink, not the paper, and rounds that.
			t := uint32(255-p[c])*k + 128
			p[c] = byte(k - (t+t>>8)>>8)
		}
		p[3] = 255
	}
}
