//go:build linux

package limits

import "fmt"

// sample is what the kernel has counted for a group.
type sample struct {
	kills     int64 // processes ended for want of memory, ever
	refused   int64 // attempts to start one past the limit, ever
	processes int   // there now, threads too
}

// How many looks in a row make a state final, and how many without one end it.
const (
	lasting = 5
	calm    = 4
)

// tally makes events of samples, one each lookEvery.
type tally struct {
	limits Limits
	last   sample

	killing, killed, quiet int   // looks with a kill in this episode, processes, looks since
	full                   int   // looks in a row without room for a process
	before                 int64 // refused when that began
	bomb, gone             bool  // said
}

func (t *tally) observe(s sample) (events []Event) {
	kills, refused := s.kills-t.last.kills, s.refused-t.last.refused
	t.last = s
	events = append(events, t.memory(kills, s.processes)...)
	return append(events, t.room(refused, s)...)
}

func (t *tally) memory(kills int64, left int) (events []Event) {
	if kills == 0 {
		t.quiet++
		if t.quiet == calm {
			t.killing, t.killed, t.gone = 0, 0, false
		}
	} else {
		t.quiet = 0
		t.killing++
		t.killed += int(kills)
		if t.killing == 1 {
			events = append(events, Event{memory, fmt.Sprintf("The desktop has reached its limit of %s of memory, and the system has ended %s in it.",
				size(t.limits.Memory), count(t.killed, "process", "processes")), false})
		}
	}
	if t.killing == 0 || t.gone {
		return events
	}
	switch {
	case left == 0:
		t.gone = true
		events = append(events, Event{memory, fmt.Sprintf("The desktop has reached its limit of %s of memory, and everything in it has been ended.",
			size(t.limits.Memory)), true})
	case t.killing > lasting:
		t.gone = true
		events = append(events, Event{memory, fmt.Sprintf("The desktop stays at its limit of %s of memory although %s have been ended.",
			size(t.limits.Memory), count(t.killed, "process", "processes")), true})
	}
	return events
}

func (t *tally) room(refused int64, s sample) (events []Event) {
	limit := t.limits.Processes
	if limit == 0 {
		return nil
	}
	if refused == 0 && (t.full == 0 || s.processes < limit*7/8) {
		t.full, t.bomb = 0, false
		return nil
	}
	t.full++
	if t.full == 1 {
		t.before = s.refused - refused
		events = append(events, Event{processes, fmt.Sprintf("The desktop has reached its limit of %d processes, and no more can be started.", limit), false})
	}
	// One program that has met the limit a few times is no fork bomb, even if it goes on.
	if t.full > lasting && !t.bomb && s.refused-t.before > int64(limit/4) {
		t.bomb = true
		events = append(events, Event{processes, fmt.Sprintf("The desktop stays at its limit of %d processes while more are being started.", limit), true})
	}
	return events
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
