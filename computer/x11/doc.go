// Package x11 drives an X display in process: input through the XTEST extension, capture
// through shared memory, settling by damage events. It runs no other program.
//
// [Open] connects to a display. [Display.Close] ends the connection and its goroutines, and
// undoes everything that was changed on the display. The extension XTEST is required. Without
// MIT-SHM the pixels come through the socket, without XFIXES the pointer is not drawn into
// captures, and without DAMAGE settling is a short fixed wait. [Display.Missing] says which
// of the three are missing.
//
// All points, rectangles and sizes are in display pixels, with the origin at the top left of
// the screen that the display's name chooses.
//
// When the display has ended or the Display was closed, the errors of all methods wrap
// [computer.ErrClosed].
package x11
