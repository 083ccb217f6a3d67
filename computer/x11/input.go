package x11

import (
	"context"
	"image"

	"github.com/loupe-tools/loupe/computer"
)

type input struct{}

func (d *Display) newInput(ctx context.Context) (*input, error) { return &input{}, nil }

// Send makes the events happen.
func (d *Display) Send(ctx context.Context, events ...computer.Event) error { return nil }

// Pointer returns where the pointer is.
func (d *Display) Pointer(ctx context.Context) (image.Point, error) { return image.Point{}, nil }

// Release lets go of every key and button that is held.
func (d *Display) Release(ctx context.Context) error { return nil }
