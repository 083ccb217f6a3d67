//go:build linux

package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestLiveView(t *testing.T) {
	d := start(t, nil)
	v, err := d.LiveView(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(v.URL(), "#")
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a password: %s", response.Status)
	}
	if err := v.Close(); err != nil {
		t.Errorf("closing the live view: %v", err)
	}
	if _, err := http.Get(address); err == nil {
		t.Error("the live view is served after it was closed")
	}
	if got := output(t, d, "ps -e -o comm= | grep -c x11vnc || true"); got != "0" {
		t.Errorf("%s VNC servers are left", got)
	}
}
