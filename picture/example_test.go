package picture_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"log"
	"strings"

	"github.com/loupe-tools/loupe/picture"
)

// A half-transparent PNG comes out opaque, on white.
func ExampleDecode() {
	m := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	m.SetNRGBA(0, 0, color.NRGBA{255, 0, 0, 255})
	m.SetNRGBA(1, 0, color.NRGBA{255, 0, 0, 51})
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		log.Fatal(err)
	}

	p, err := picture.Decode(&file, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Format, p.Image.Rect.Size(), p.Image.At(0, 0), p.Image.At(1, 0))
	// Output:
	// png (2,1) {255 0 0 255} {255 204 204 255}
}

// Errors say in a sentence what is wrong, and of which kind it is.
func ExampleDecode_error() {
	_, err := picture.Decode(strings.NewReader("Dear Sir"), nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, picture.ErrUnknownFormat))

	_, err = picture.Decode(strings.NewReader("GIF89a\xff\xff\xff\xff\x00\x00\x00\x3b"), nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, picture.ErrTooLarge))
	// Output:
	// this is a text file, not a picture; give a PNG, JPEG, GIF, WebP, TIFF or BMP file
	// true
	// this GIF file claims 65535 x 65535 pixels, the limit is 100000000 in all; give a smaller picture or raise the limit
	// true
}

// A region, magnified: no pixel from outside it has a say.
func ExampleResample() {
	m := image.NewRGBA(image.Rect(0, 0, 100, 100))
	draw.Draw(m, m.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(m, image.Rect(40, 40, 60, 60), image.NewUniform(color.RGBA{0, 0, 200, 255}), image.Point{}, draw.Src)

	zoom := picture.Resample(m, image.Rect(40, 40, 60, 60), image.Pt(400, 400))
	fmt.Println(zoom.Rect.Size(), zoom.At(0, 0), zoom.At(399, 399))
	// Output:
	// (400,400) {0 0 200 255} {0 0 200 255}
}

// A view goes out as PNG while that fits into a request.
func ExampleEncodeView() {
	m := image.NewRGBA(image.Rect(0, 0, 640, 480))
	draw.Draw(m, m.Rect, image.White, image.Point{}, draw.Src)
	e, err := picture.EncodeView(m, picture.DefaultMaxBase64)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.MediaType, e.Size, e.Base64Len() <= picture.DefaultMaxBase64)
	// Output:
	// image/png (640,480) true
}

func ExampleSniff() {
	format, err := picture.Sniff([]byte("\x89PNG\r\n\x1a\n and so on"))
	fmt.Println(format, err)
	_, err = picture.Sniff([]byte("%PDF-1.7"))
	fmt.Println(err)
	// Output:
	// png <nil>
	// this is a PDF document, which cannot be read as a picture here; convert it to PNG or JPEG first
}
