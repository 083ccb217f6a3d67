package desktest

import (
	"os/exec"
	"testing"
)

// WindowManager starts a window manager, "mutter" or "openbox", and returns when it
// manages the display.
func (s *Server) WindowManager(t testing.TB, name string) {
	t.Helper()
	args := []string{"--sm-disable"}
	if name == "mutter" {
		args = append(args, "--x11")
	}
	home := t.TempDir()
	cmd := exec.Command(program(t, name), args...)
	cmd.Env = append(s.Env(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home,
		"XDG_DATA_HOME="+home, "XDG_SESSION_TYPE=x11", "GSETTINGS_BACKEND=memory", "NO_AT_BRIDGE=1", "DBUS_SESSION_BUS_ADDRESS=disabled:")
	p := launch(t, cmd)
	// The window that the property names has the same property when it is not a leftover.
	if err := wait(p, func() error {
		const check = "_NET_SUPPORTING_WM_CHECK"
		window, err := s.probe.property(s.probe.root, check)
		if err == nil && len(window) == 1 {
			window, err = s.probe.property(window[0], check)
		}
		if err == nil && len(window) != 1 {
			err = errNotYet
		}
		return err
	}); err != nil {
		t.Fatalf("%s does not manage display %s: %v", name, s.name, err)
	}
}
