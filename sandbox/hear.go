//go:build linux

package sandbox

import (
	"encoding/json"
	"errors"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/limits"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// Bounds of what is taken from the guest, in bytes.
const (
	maxText   = 1 << 10 // a sentence
	maxName   = 64      // of a program
	maxOutput = 8 << 10 // the end of what a program wrote
)

// hear takes the guest's events. What it says is data: at most it ends the desktop.
func (d *Desktop) hear(op string, body json.RawMessage) {
	own := d.own
	switch op {
	case guest.EventReady:
		offer(own.ready, struct{}{})
	case guest.EventWindow:
		w := decode[guest.Window](body)
		if !d.starts(w.App) {
			return
		}
		own.events.add(Event{Kind: EventWindow, App: w.App, Took: max(w.Took, 0), Text: w.App + " has shown its window."})
		offer(own.windows, w)
	case guest.EventExit:
		d.exited(decode[guest.Exit](body))
	case guest.EventLimit:
		e := decode[limits.Event](body)
		e.Limit, e.Text = link.Printable(e.Limit, maxName), link.Printable(e.Text, maxText)
		d.limited(e)
	case guest.EventFailed:
		d.fail(errors.New(link.Printable(decode[guest.Failed](body).Text, maxText)))
	}
}

// starts reports whether the desktop starts an application of that name.
func (d *Desktop) starts(app string) bool {
	for _, a := range d.own.plan.setup.Apps {
		if a.Name == app {
			return true
		}
	}
	return false
}

// exited tells of the end of an application, or of a part of the desktop.
func (d *Desktop) exited(e guest.Exit) {
	if e.App && !d.starts(e.Name) {
		return
	}
	e.Name, e.Text = link.Printable(e.Name, maxName), link.Printable(e.Text, maxText)
	e.Output = e.Output[max(0, len(e.Output)-maxOutput):]
	text := e.Text
	if e.Restart {
		text += " and is started again"
	}
	d.own.events.add(Event{Kind: EventExit, App: e.Name, Text: text + "."})
	if e.Output != "" {
		d.log.Debug("ended", "program", e.Name, "how", e.Text, "output", e.Output)
	}
	if e.App && e.Early {
		offer(d.own.early, e)
	}
}

// decode takes what can be taken of an event.
func decode[T any](body json.RawMessage) T {
	var value T
	_ = json.Unmarshal(body, &value) // the zero value says enough
	return value
}

// offer hands a value over, unless nobody has taken the last ones.
func offer[T any](to chan<- T, value T) {
	select {
	case to <- value:
	default:
	}
}
