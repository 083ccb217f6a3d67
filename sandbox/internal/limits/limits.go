//go:build linux

// Package limits keeps what runs on a desktop from taking the machine: memory, processes,
// open files and disk.
//
// On the outside a control group holds one desktop's memory and processes where the system
// lets us make one (Group). On the inside, resource limits that nothing can raise again are
// set before anything starts (Apply), and what no such limit covers is measured (Watch):
// without a control group the memory, and always the disk, which is memory too.
//
// Both sides tell of a limit that was reached as an Event.
package limits

import "fmt"

// Limits of one desktop. Zero of any of them is no limit.
type Limits struct {
	Memory    int64 // bytes, of everything together, files on its disk included
	Disk      int64 // bytes, of each place that can be written to
	Processes int   // and threads
	Files     int   // that one process has open
}

// Event tells that a limit was reached.
type Event struct {
	Limit string `json:"limit"` // memory, processes, disk, files
	Text  string `json:"text"`  // one sentence for a person
	Fatal bool   `json:"fatal"` // the desktop is no longer of use and has to be ended
}

const (
	memory    = "memory"
	processes = "processes"
	disk      = "disk"
	files     = "files"
)

// size writes bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
