// Package x11 drives an X display in process: input through the XTEST extension, capture
// through shared memory, settling by damage events. It runs no other program.
//
// [Open] connects; the connection, its goroutines and everything that it changed on the
// display end with [Display.Close]. XTEST is required. Without MIT-SHM the pixels come
// through the socket, without XFIXES the pointer is not drawn into captures, and without
// DAMAGE settling is a short fixed wait; [Display.Missing] says which of them is missing.
package x11
