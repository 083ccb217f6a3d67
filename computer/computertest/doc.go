// Package computertest has what tests of drivers need: [Run], the suite that every driver of
// [computer.Desktop] must pass, and [Fake], a driver whose display is in memory, for tests of
// programs that use a Desktop.
//
// The suite does not rely on what a driver says. It lets the driver act on a [Subject], a
// display with an application on it, and then asks the application what it was given. The
// example of Run shows a Subject and a test that runs the suite on it.
package computertest
