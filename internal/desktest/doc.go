// Package desktest gives tests a desktop of their own: an X display without a screen,
// window managers and keyboard layouts on it, and applications that say what happened to
// them. A test of a driver asks the application, never the driver.
//
// Everything that is started belongs to the test that started it and has ended, with its
// whole process group, when that test has. A program that is missing fails the test with
// the command that installs it. Functions that take a [testing.TB] end the test when they
// fail, and so belong on the test's goroutine.
//
// Points and rectangles are in display pixels, the origin at the top left.
package desktest
