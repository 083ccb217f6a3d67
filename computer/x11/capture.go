package x11

import (
	"context"
	"image"
)

type capturer struct{}

func (d *Display) newCapturer(ctx context.Context) (*capturer, error) { return &capturer{}, nil }

func (c *capturer) close(ctx context.Context) {}

// Capture returns the pixels of a region.
func (d *Display) Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	return nil, nil
}
