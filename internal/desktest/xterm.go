package desktest

import (
	"fmt"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// XtermOptions set up a terminal. The zero value is right.
type XtermOptions struct {
	At     image.Point // of its top left corner; a window manager may put it elsewhere
	Locale string      // C.UTF-8 when empty
	Show   string      // printed at first, for the pointer to select
	Mouse  bool        // the terminal reports the mouse (1002, SGR) rather than select
	Args   []string    // more arguments for xterm
}

// Xterm is a terminal whose program keeps every byte that it is given.
type Xterm struct {
	server  *Server
	process *process
	dir     string
	window  uint32
}

// Xterm starts a terminal, and returns when it takes input and has the focus.
func (s *Server) Xterm(t testing.TB, o XtermOptions) *Xterm {
	t.Helper()
	if o.Locale == "" {
		o.Locale = "C.UTF-8"
	}
	x := &Xterm{server: s, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(x.dir, "show"), []byte(o.Show), 0o600); err != nil {
		t.Fatal(err)
	}
	mouse := ""
	if o.Mouse {
		mouse = `printf '\033[?1002h\033[?1006h'; `
	}
	// Every byte comes through as it is, except that Return's becomes a newline.
	const keep = `stty -icanon -iexten -isig -ixon min 1 && cat show && : >typed && printf %s "$WINDOWID" >window.new && mv window.new window && exec cat >typed`
	args := []string{"-geometry", fmt.Sprintf("80x24+%d+%d", o.At.X, o.At.Y), "-bg", "white", "-fg", "black", "+sb"}
	cmd := exec.Command(program(t, "xterm"), append(append(args, o.Args...), "-e", "sh", "-c", mouse+keep)...)
	cmd.Dir = x.dir
	cmd.Env = append(s.Env(), "HOME="+x.dir, "LANG="+o.Locale, "LC_ALL="+o.Locale, "XMODIFIERS=")
	x.process = launch(t, cmd)
	if err := wait(x.process, func() error {
		text, err := os.ReadFile(filepath.Join(x.dir, "window"))
		if err != nil {
			return err
		}
		id, err := strconv.ParseUint(string(text), 10, 32)
		x.window = uint32(id)
		return err
	}); err != nil {
		t.Fatalf("xterm did not start: %v", err)
	}
	x.Focus(t)
	return x
}

// Focus gives the keyboard focus to the terminal.
func (x *Xterm) Focus(t testing.TB) {
	t.Helper()
	const toParent = 2
	if err := wait(x.process, func() error { // the server refuses while the window is not mapped
		return x.server.probe.do(request(opSetInputFocus, toParent, x.window, uint32(currentTime)))
	}); err != nil {
		t.Fatalf("giving the focus to xterm: %v", err)
	}
}

// Typed returns all that the terminal's program has read.
func (x *Xterm) Typed(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(x.dir, "typed"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Rect returns the rectangle of the terminal's text on the display. What Show printed
// starts at its top left, some pixels in.
func (x *Xterm) Rect(t testing.TB) image.Rectangle {
	t.Helper()
	return x.server.rect(t, x.window)
}

// Pause stops the terminal, as if it hung, until Resume.
func (x *Xterm) Pause() { x.process.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (x *Xterm) Resume() { x.process.signal(syscall.SIGCONT) }

// Stop ends the terminal, and returns when it has ended.
func (x *Xterm) Stop() { x.process.stop() }
