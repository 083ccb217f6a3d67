// Package sandbox makes a virtual desktop from nothing: a display, a window manager, a panel
// and applications, isolated from the machine, with exactly the network that it was given.
//
// It needs Linux; elsewhere the package is empty.
//
// # What runs where
//
// [Start] runs bubblewrap, and in it this very program once more, as the guest: the process
// that starts everything else inside. So a program that uses the package calls [RunGuest]
// first thing in main (and tests in TestMain); it returns at once in every process but a
// guest.
//
// # What is promised
//
// Inside, everything is an ordinary user without privileges, and no privileges can be
// gained, also when the caller is root. Of the host there is /usr and a few tables below /etc,
// read-only; a fresh home; no process, socket, device or environment variable; nothing of it
// can be written. The only way to the network is a proxy in the caller's process, which opens
// the hosts and ports of [Options.Allow] and nothing else. Memory, processes, open files and
// disk are limited.
//
// A desktop ends with its context, with [Desktop.Close], and with the caller's process, also
// one that is killed. Nothing is left then: there is nothing of a desktop on the host's disk at
// any time, and what the kernel keeps ends with the processes.
//
// # What is not promised
//
// The kernel is the host's, and a fault in it may let somebody out. The screen shows what
// web pages put there, so what a model reads from it is not to be trusted. Applications inside
// share one display, and can watch and drive each other.
package sandbox
