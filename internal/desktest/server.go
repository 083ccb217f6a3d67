package desktest

import (
	"bufio"
	"fmt"
	"image"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options set up a display. The zero value is 1280x800 with 24 bits a pixel.
type Options struct {
	Width, Height int
	Depth         int // bits a pixel: 8, 16, 24; others as the server has them

	// Reset makes the server start afresh when its last client leaves, as it does by
	// default. The package itself then stays away from the display: a Server's methods
	// that ask it or draw on it do not work.
	Reset bool

	// Args are more arguments for the server, such as "-extension", "DAMAGE".
	Args []string
}

// Server is an X display without a screen (Xvfb).
type Server struct {
	process *process
	name    string
	probe   *client // asks, and draws for windows
}

// Xvfb starts a display, with a number that the server chooses, and returns when it takes
// connections. It ends with the test.
func Xvfb(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Width == 0 {
		o.Width, o.Height = 1280, 800
	}
	if o.Depth == 0 {
		o.Depth = 24
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	args := []string{"-displayfd", "3", "-screen", "0", fmt.Sprintf("%dx%dx%d", o.Width, o.Height, o.Depth), "-nolisten", "tcp"}
	if !o.Reset {
		args = append(args, "-noreset")
	}
	cmd := exec.Command(program(t, "Xvfb"), append(args, o.Args...)...)
	cmd.ExtraFiles = []*os.File{w}
	s := &Server{process: launch(t, cmd)}
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(r).ReadString('\n')
	number, numberErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || numberErr != nil {
		t.Fatalf("Xvfb did not start (it said %q, %v): %s", line, err, s.process.output)
	}
	s.name = ":" + strconv.Itoa(number)
	if o.Reset {
		return s // a connection here would count as a client
	}
	if s.probe, err = dial(s.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.probe.conn.Close() })
	return s
}

// Name returns the display's name, such as ":1".
func (s *Server) Name() string { return s.name }

// Env returns the environment of the test with DISPLAY naming this display.
func (s *Server) Env() []string { return append(os.Environ(), "DISPLAY="+s.name, "WAYLAND_DISPLAY=") }

// Stop asks the server to end, and returns when it has.
func (s *Server) Stop() { s.process.stop() }

// Kill ends the server at once, and returns when it is gone.
func (s *Server) Kill() { s.process.kill() }

// Pause makes the server stop answering, with its connections open, until Resume.
func (s *Server) Pause() { s.process.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.process.signal(syscall.SIGCONT) }

// Layout sets the keyboard layout, such as "de", or several with the first in force, such
// as "us,ru".
func (s *Server) Layout(t testing.TB, layout string) {
	t.Helper()
	run(t, nil, "setxkbmap", "-display", s.name, "-layout", layout)
}

// Resize changes the size of the display, as a user does with xrandr. It can be no larger
// than the display was at first.
func (s *Server) Resize(t testing.TB, size image.Point) {
	t.Helper()
	const output = "screen" // the server's name for its only one
	w, h := strconv.Itoa(size.X), strconv.Itoa(size.Y)
	mode := w + "x" + h
	if modes := run(t, nil, "xrandr", "-display", s.name); !strings.Contains(modes, " "+mode+" ") {
		run(t, nil, "xrandr", "-display", s.name, "--newmode", mode, "0", w, "0", "0", w, h, "0", "0", h)
		run(t, nil, "xrandr", "-display", s.name, "--addmode", output, mode)
	}
	run(t, nil, "xrandr", "-display", s.name, "--output", output, "--mode", mode)
	Eventually(t, "the display is "+mode, func() bool { return s.Size(t) == size })
}
