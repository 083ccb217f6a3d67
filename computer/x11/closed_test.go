package x11

import (
	"context"
	"errors"
	"image"
	"testing"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestErrClosed: whoever uses a display that is gone is told so, by whatever method.
func TestErrClosed(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, d *Display, s *desktest.Server){
		"closed": func(t *testing.T, d *Display, _ *desktest.Server) {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"ended": func(_ *testing.T, _ *Display, s *desktest.Server) { s.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			s := desktest.Xvfb(t, desktest.Options{})
			d, err := Open(t.Context(), s.Name(), nil)
			if err != nil {
				t.Fatal(err)
			}
			end(t, d, s)
			for method, do := range map[string]func(ctx context.Context) error{
				"Size":    func(ctx context.Context) error { _, err := d.Size(ctx); return err },
				"Capture": func(ctx context.Context) error { _, err := d.Capture(ctx, image.Rect(0, 0, 10, 10)); return err },
				"Pointer": func(ctx context.Context) error { _, err := d.Pointer(ctx); return err },
				"Send":    func(ctx context.Context) error { return d.Send(ctx, computer.Event{Kind: computer.Move}) },
				"Type":    func(ctx context.Context) error { _, err := d.Type(ctx, "x"); return err },
				"Settle":  d.Settle,
			} {
				if err := do(t.Context()); !errors.Is(err, computer.ErrClosed) {
					t.Errorf("%s: %v, want one that wraps ErrClosed", method, err)
				}
			}
			_ = d.Close()
		})
	}
}
