// Package bench measures how fast isolated desktops start and end, alone and eight at once,
// how soon their applications show a window, and how much memory each part takes.
//
//	make bench-desktop
//
// Each figure is the median and the worst of ten. A desktop can be used when a click on its
// panel was answered: an xterm's window has been drawn. Memory is the proportional set size
// (PSS in proc(5)), in which what several processes share counts once.
package bench
