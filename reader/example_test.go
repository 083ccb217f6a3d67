package reader_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/reader"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

// The loop asks the reader as it would ask a model.
func Example() {
	r, err := reader.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := anthropic.NewClient(
		option.WithAPIKey("none"),
		option.WithHTTPClient(&http.Client{Transport: r.Transport()}),
	)
	tool, err := zoom.New(vision.Standard, &picture.Picture{Image: label()})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := agent.New(client, &agent.Options{Model: reader.Model}).Ask(context.Background(), "What is the net weight?", tool)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text)
	// Output: 4,217 kg
}

// label draws a picture with small print on it.
func label() *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, 3000, 2000))
	draw.Draw(m, m.Rect, image.White, image.Point{}, draw.Src)
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 20, DPI: 72})
	if err != nil {
		panic(err)
	}
	d := font.Drawer{Dst: m, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(1800, 900)}
	d.DrawString("Net weight: 4,217 kg")
	return m
}
