//go:build linux

package sandbox_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.RunGuest()
	playRole()
	os.Exit(m.Run())
}

// start starts a desktop that ends with the test.
func start(t testing.TB, o *sandbox.Options) *sandbox.Desktop {
	t.Helper()
	d, err := sandbox.Start(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the desktop: %v", err)
		}
		<-d.Done()
	})
	return d
}

// output runs a shell line on the desktop and returns what it prints.
func output(t testing.TB, d *sandbox.Desktop, line string) string {
	t.Helper()
	out, err := d.Command("sh", "-c", line).Output(t.Context())
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestStart(t *testing.T) {
	d := start(t, nil)
	if got := output(t, d, "id -un; id -u; pwd; hostname"); got != "user\n1000\n/home/user\ndesktop" {
		t.Errorf("inside it is %q", got)
	}
	if size, err := d.Display().Size(t.Context()); err != nil || size != d.Size() {
		t.Errorf("the display's size is %v, %v; want %v", size, err, d.Size())
	}
}
