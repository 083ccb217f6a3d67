package liveview

import "crypto/rand"

// VNCOptions say how x11vnc is to run. Paths are those that it sees itself.
type VNCOptions struct {
	Display  string // such as ":0"
	Auth     string // the X authority file; empty when the display needs none
	Socket   string // the Unix socket to listen on; its folder is there and private
	Password string // the file whose first line is the VNC password, readable to its user alone

	// ViewOnly makes x11vnc itself drop all input, beside what Options.ViewOnly does.
	ViewOnly bool

	// NoSharedMemory makes x11vnc read the display through its socket. Its segments of
	// System V memory outlive it when it is killed, wherever no IPC namespace ends with it.
	NoSharedMemory bool
}

// VNCArgs returns the arguments of x11vnc (0.9.16) for a server that listens on a Unix
// socket alone, wants the password, serves until it is ended, and leaves the display's
// settings as they are. The program's name is not among them.
//
// x11vnc reads the environment too: give it HOME, and neither DISPLAY nor XAUTHORITY is
// needed. It removes the socket when it ends by a signal that it can catch.
func VNCArgs(o VNCOptions) []string {
	args := []string{
		"-norc", // no file of settings
		"-display", o.Display,
		"-unixsock", o.Socket,
		// Without a TCP port: 0 switches IPv4's off, and -1 IPv6's, where -no6 and -noipv6
		// do not. Nor is -localhost right: it refuses whoever comes by a Unix socket.
		"-rfbport", "0", "-rfbportv6", "-1",
		"-passwdfile", o.Password,
		"-forever", "-shared",
		"-safer", "-nocmds", // no remote control by X properties, no programs started; file transfer is off already
		"-quiet",

		// By default x11vnc switches the display's auto-repeat off while a viewer is
		// connected, for everybody on it; -repeat leaves the setting alone.
		"-repeat",
		// Keys are found by what they make, in whatever layout is in force, and a symbol
		// that no key makes is given one for a while.
		"-xkb", "-add_keysyms",

		// The pointer is part of the picture, so that who watches sees where somebody else
		// moves it.
		"-nocursorshape",
		// The picture is sent as it is: no outline of windows that are dragged, and no
		// guesses at scrolling, which need the RECORD extension.
		"-nowireframe", "-noscrollcopyrect", "-noxrecord",
		"-xrandr", // follow the display's size
		// Milliseconds between looks, and before an update goes out; no longer pauses where
		// little happens. With DAMAGE an idle display costs nothing all the same.
		"-wait", "10", "-defer", "5", "-nonap", "-sb", "0",
		"-nosel", // the clipboard has a way of its own, and is not looked at for nothing
		"-nobell",
	}
	if o.Auth != "" {
		args = append(args, "-auth", o.Auth)
	}
	if o.NoSharedMemory {
		args = append(args, "-noshm")
	}
	if o.ViewOnly {
		args = append(args, "-viewonly")
	}
	return args
}

// NewVNCPassword returns a random password for x11vnc. VNC looks at 8 characters of a
// password and no more: 40 bits here, for a socket that only the desktop's own user reaches.
func NewVNCPassword() string { return rand.Text()[:8] }
