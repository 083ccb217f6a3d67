package picture

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"io"

	"github.com/loupe-tools/loupe/picture/internal/pngio"
	"github.com/loupe-tools/loupe/picture/internal/turbo"
)

// JPEGQuality is the quality of every JPEG file written here, on the scale of
// libjpeg.
const JPEGQuality = 92

// JPEGAvailable says whether this build can write JPEG files: it can with cgo.
// Where it is false zooms go out as PNG.
const JPEGAvailable = turbo.Available

// DefaultMaxBase64 is the documented limit of the Messages API on one image,
// in bytes after base64.
const DefaultMaxBase64 = 5 << 20

// EncodeJPEG writes m as a baseline JPEG file of quality 92 without chroma
// subsampling (4:4:4), so that coloured lines of one pixel stay sharp. Alpha is
// ignored. An image without pixels, or with an edge over 65500 pixels, is an
// error; so is any image in a build without cgo, where [JPEGAvailable] is
// false and the error wraps [ErrUnsupported].
func EncodeJPEG(w io.Writer, m *image.RGBA) error {
	data, err := encodeJPEG(m)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func encodeJPEG(m *image.RGBA) ([]byte, error) {
	if !turbo.Available {
		return nil, &failure{
			kind:     ErrUnsupported,
			sentence: "this build cannot write JPEG files; build it with cgo and libjpeg, or write PNG",
		}
	}
	data, err := turbo.Encode(m, JPEGQuality)
	if err != nil {
		return nil, fmt.Errorf("the image cannot be written as JPEG: %w", err)
	}
	return data, nil
}

// EncodePNG writes m as an RGB PNG file with eight bits a sample. Alpha is
// ignored: reading it back gives the same colours, opaque. An image without
// pixels is an error.
func EncodePNG(w io.Writer, m *image.RGBA) error {
	return pngio.Encode(w, m, pngio.Small)
}

// Encoded is an image as it goes into a request.
type Encoded struct {
	Data      []byte
	MediaType string      // "image/png" or "image/jpeg"
	Size      image.Point // in pixels
}

// Base64Len is the length of Data after base64 with padding, in bytes: what
// the API's limit on one image counts.
func (e Encoded) Base64Len() int { return base64.StdEncoding.EncodedLen(len(e.Data)) }

// EncodeView encodes m as PNG or, where that would exceed maxBase64 bytes after
// base64, as JPEG. It returns an error that wraps [ErrEncodedTooLarge] when
// neither fits. A maxBase64 of 0 means [DefaultMaxBase64].
func EncodeView(m *image.RGBA, maxBase64 int) (Encoded, error) {
	maxBase64 = limitOr(maxBase64)
	if e, fits, err := encodePNG(m, maxBase64, pngio.Small); fits || err != nil {
		return e, err
	}
	if JPEGAvailable {
		e, err := EncodeZoom(m)
		if err != nil {
			return Encoded{}, err
		}
		if e.Base64Len() <= maxBase64 {
			return e, nil
		}
	}
	return Encoded{}, &failure{
		kind: ErrEncodedTooLarge,
		sentence: fmt.Sprintf("an image of %d x %d pixels takes more than %d bytes in a request; use a smaller size",
			m.Rect.Dx(), m.Rect.Dy(), maxBase64),
	}
}

// EncodeScreen is EncodeView for the picture of a screen, which somebody waits for: its
// PNG files are about a quarter larger and take a third of the time.
func EncodeScreen(m *image.RGBA, maxBase64 int) (Encoded, error) {
	if e, fits, err := encodePNG(m, limitOr(maxBase64), pngio.Quick); fits || err != nil {
		return e, err
	}
	return EncodeView(m, maxBase64) // may fit where the larger one does not
}

func limitOr(maxBase64 int) int {
	if maxBase64 <= 0 {
		return DefaultMaxBase64
	}
	return maxBase64
}

// encodePNG encodes m as PNG, and reports whether it fits.
func encodePNG(m *image.RGBA, maxBase64 int, effort pngio.Effort) (e Encoded, fits bool, err error) {
	data := &bounded{limit: base64.StdEncoding.DecodedLen(maxBase64)}
	if err := pngio.Encode(data, m, effort); errors.Is(err, errFull) {
		return Encoded{}, false, nil
	} else if err != nil {
		return Encoded{}, false, err
	}
	e = Encoded{Data: data.Bytes(), MediaType: PNG.MediaType(), Size: m.Rect.Size()}
	return e, e.Base64Len() <= maxBase64, nil
}

// EncodeZoom encodes m as JPEG, or as PNG in a build that cannot write JPEG.
// There is no limit: the caller looks at Base64Len and, where it is too much,
// makes the image smaller (size is given up before quality).
func EncodeZoom(m *image.RGBA) (Encoded, error) {
	if !JPEGAvailable {
		var data bytes.Buffer
		err := EncodePNG(&data, m)
		return Encoded{Data: data.Bytes(), MediaType: PNG.MediaType(), Size: m.Rect.Size()}, err
	}
	data, err := encodeJPEG(m)
	return Encoded{Data: data, MediaType: JPEG.MediaType(), Size: m.Rect.Size()}, err
}

var errFull = errors.New("the limit is reached")

// bounded is a buffer that refuses to grow beyond limit bytes, so that an
// encoding which is going to be thrown away ends early.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, errFull
	}
	return b.Buffer.Write(p)
}
