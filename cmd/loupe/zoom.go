package main

import (
	"errors"
	"fmt"
	"image"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

type zoomCmd struct {
	Image  string     `arg:"" help:"A path, - for standard input, a data URI, or a URL with --allow-url."`
	X1     coordinate `arg:"" name:"X1" help:"Left edge, in pixels of the view."`
	Y1     coordinate `arg:"" name:"Y1" help:"Top edge."`
	X2     coordinate `arg:"" name:"X2" help:"Right edge, greater than X1."`
	Y2     coordinate `arg:"" name:"Y2" help:"Bottom edge, greater than Y1."`
	Output string     `short:"o" placeholder:"FILE" help:"Write the zoom here, as .jpg or .png; - for standard output."`
	JSON   bool       `name:"json" help:"Print one JSON object: view and returned as [w, h], region and crop as [x0, y0, x1, y1]."`
	limitFlags
	sourceFlags
}

// coordinate is a pixel of the view. It may be negative, which the parser of the command
// line would take for a flag; protectNegatives writes it with a minus sign proper.
type coordinate int

const minusSign = "\u2212"

// UnmarshalText reads a coordinate.
func (c *coordinate) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(strings.Replace(string(text), minusSign, "-", 1))
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	*c = coordinate(n)
	return nil
}

// protectNegatives marks the negative numbers among the arguments of the zoom verb.
func protectNegatives(args []string) []string {
	if len(args) == 0 || args[0] != "zoom" {
		return args
	}
	protected := slices.Clone(args)
	for i, arg := range protected {
		if _, err := strconv.Atoi(arg); err == nil {
			protected[i] = strings.Replace(arg, "-", minusSign, 1)
		}
	}
	return protected
}

// region is the rectangle asked for. Its corners are kept as they were given.
func (c *zoomCmd) region() image.Rectangle {
	return image.Rectangle{Min: image.Pt(int(c.X1), int(c.Y1)), Max: image.Pt(int(c.X2), int(c.Y2))}
}

// Run cuts one region, given in pixels of the view, and writes it magnified.
func (c *zoomCmd) Run(env *environment) error {
	limits, err := c.limits(env)
	if err != nil {
		return err
	}
	switch {
	case c.X2 <= c.X1 || c.Y2 <= c.Y1:
		return usagef("the region %d %d %d %d is empty: X2 must be greater than X1 and Y2 greater than Y1", c.X1, c.Y1, c.X2, c.Y2)
	case c.JSON && c.Output == "-":
		return usagef("--json and -o - both write to standard output; choose one")
	}
	p, err := c.load(env, c.Image)
	if err != nil {
		return err
	}
	tool, err := zoom.New(limits, p) // whose frame is that of the view as it is sent
	if err != nil {
		return err
	}
	frame := tool.Frame(0)
	magnified, region, err := zoom.Cut(p.Image, frame, c.region(), limits)
	if errors.Is(err, vision.ErrEmptyRegion) {
		return fmt.Errorf("the region %d %d %d %d lies outside the image, which is %dx%d pixels as a model sees it",
			c.X1, c.Y1, c.X2, c.Y2, frame.View.X, frame.View.Y)
	}
	if err != nil {
		return err
	}
	if c.Output != "" {
		encoded, err := picture.EncodeZoom(magnified)
		if err != nil {
			return err
		}
		if err := writeImage(env, c.Output, magnified, encoded); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		return env.printJSON(struct {
			View     [2]int `json:"view"`
			Region   [4]int `json:"region"`
			Crop     [4]int `json:"crop"`
			Returned [2]int `json:"returned"`
		}{sizeOf(frame.View), boxOf(region.Applied), boxOf(region.Crop), sizeOf(region.Size)})
	case c.Output == "-":
		return nil
	}
	_, err = fmt.Fprintf(env.stdout, "region (%d,%d)-(%d,%d) of the %dx%d view, crop (%d,%d)-(%d,%d) of the original, shown at %dx%d\n",
		region.Applied.Min.X, region.Applied.Min.Y, region.Applied.Max.X, region.Applied.Max.Y, frame.View.X, frame.View.Y,
		region.Crop.Min.X, region.Crop.Min.Y, region.Crop.Max.X, region.Crop.Max.Y, region.Size.X, region.Size.Y)
	return err
}
