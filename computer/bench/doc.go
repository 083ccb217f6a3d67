// Package bench measures how fast the computer toolset acts on an X display, beside the
// programs that are commonly run for it: xdotool and scrot.
//
//	make bench-computer
//
// Both take turns on one display, with the same windows on it, so that a busy machine
// slows both alike. What is compared is what a user of each waits for, which for xdotool
// and scrot includes the start of a process.
package bench
