//go:build linux

package sandbox

import (
	"context"

	"github.com/loupe-tools/loupe/sandbox/internal/egress"
)

// StartOn is Start with a network that the test makes: of n the Resolver and Dial count.
func StartOn(ctx context.Context, o *Options, n egress.Options) (*Desktop, error) {
	p, err := o.resolve()
	if err != nil {
		return nil, err
	}
	p.network = n
	return start(ctx, p)
}
