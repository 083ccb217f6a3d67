package x11

import "context"

// Type types text at the keyboard focus.
func (d *Display) Type(ctx context.Context, text string) (int, error) { return 0, nil }
