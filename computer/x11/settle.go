package x11

import "context"

type settler struct{}

func (d *Display) newSettler(ctx context.Context) (*settler, error) { return &settler{}, nil }

func (s *settler) close(ctx context.Context) {}

// Settle returns when the screen has come to rest.
func (d *Display) Settle(ctx context.Context) error { return nil }
