//go:build linux

package sandbox_test

import (
	"errors"
	"testing"

	"github.com/loupe-tools/loupe/sandbox"
)

// TestCanIsolate: on the machines that the tests run on it can be done, and not without
// bubblewrap.
func TestCanIsolate(t *testing.T) {
	if err := sandbox.CanIsolate(t.Context()); err != nil {
		t.Errorf("this machine cannot isolate a desktop, so the tests of this package cannot work: %v; run: go run ./cmd/loupe doctor", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := sandbox.CanIsolate(t.Context()); !errors.Is(err, sandbox.ErrNoSandbox) || err.Error() != "bubblewrap is not installed" {
		t.Errorf("without bubblewrap: %v", err)
	}
}
