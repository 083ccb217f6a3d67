package main

import (
	"fmt"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

type viewCmd struct {
	Image  string `arg:"" help:"A path, - for standard input, a data URI, or a URL with --allow-url."`
	Output string `short:"o" placeholder:"FILE" help:"Write the view here, as .png or .jpg; - for standard output."`
	JSON   bool   `name:"json" help:"Print one JSON object: original, view (each [w, h]), tokens."`
	limitFlags
	sourceFlags
}

// Run prints the size at which a model sees the image and writes that view.
func (c *viewCmd) Run(env *environment) error {
	limits, err := c.limits(env)
	if err != nil {
		return err
	}
	if c.JSON && c.Output == "-" {
		return usagef("--json and -o - both write to standard output; choose one")
	}
	p, err := c.load(env, c.Image)
	if err != nil {
		return err
	}
	tool, err := zoom.New(limits, p) // which makes the view smaller where it would be too heavy to send
	if err != nil {
		return err
	}
	frame := tool.Frame(0)
	if c.Output != "" {
		view := p.Image
		if frame.View != frame.Original {
			view = picture.Resample(p.Image, p.Image.Rect, frame.View)
		}
		if err := writeImage(env, c.Output, view, tool.Encoded(0)); err != nil {
			return err
		}
	}
	tokens := vision.Tokens(frame.View.X, frame.View.Y)
	switch {
	case c.JSON:
		return env.printJSON(struct {
			Original [2]int `json:"original"`
			View     [2]int `json:"view"`
			Tokens   int    `json:"tokens"`
		}{sizeOf(frame.Original), sizeOf(frame.View), tokens})
	case c.Output == "-":
		return nil
	}
	_, err = fmt.Fprintf(env.stdout, "original %dx%d, view %dx%d for %s, visual tokens: %d\n",
		frame.Original.X, frame.Original.Y, frame.View.X, frame.View.Y, c.model(env), tokens)
	return err
}
