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
	view, frame := zoom.View(p.Image, limits)
	if c.Output != "" {
		encoded, err := picture.EncodeView(view, vision.DefaultRequestLimits().MaxImageBytes)
		if err != nil {
			return err
		}
		if err := writeImage(env, c.Output, view, encoded); err != nil {
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
	_, err = fmt.Fprintf(env.stdout, "original %dx%d, view %dx%d, %d visual tokens\n",
		frame.Original.X, frame.Original.Y, frame.View.X, frame.View.Y, tokens)
	return err
}
