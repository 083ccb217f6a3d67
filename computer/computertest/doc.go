// Package computertest has what tests of desktops need: [Run], the suite that every driver
// passes, and [Fake], a desktop in memory.
//
// The suite believes no driver. It lets the driver act on a [Subject], a desktop with an
// application on it, and then asks the application what it was given.
package computertest
