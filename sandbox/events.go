//go:build linux

package sandbox

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/loupe-tools/loupe/sandbox/internal/egress"
)

// eventQueue calls back with events, one at a time and in their order, without holding up
// those that add them.
type eventQueue struct {
	mu      sync.Mutex
	waiting []Event
	lost    int // that there was no room for

	second   int64 // of the newest attempt to reach the network
	attempts int   // within it

	calling bool
	wake    chan struct{}
	stopped bool
	done    chan struct{} // closed when all have been told, after stop
}

// maxAttempts bounds the attempts to reach the network that are told of a second. What runs
// inside can make thousands, and somebody may keep what is told.
const maxAttempts = 200

// maxEvents bounds those that wait.
const maxEvents = 10_000

// start starts calling back. A nil call drops what is added.
func (q *eventQueue) start(call func(Event)) {
	if call == nil {
		call = func(Event) {}
	}
	q.wake, q.done = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(q.done)
		for range q.wake {
			for q.tell(call) {
			}
			if q.over() {
				return
			}
		}
	}()
}

// tell calls back with what waits, and reports whether there was anything.
func (q *eventQueue) tell(call func(Event)) bool {
	q.mu.Lock()
	batch := q.waiting
	if q.lost > 0 {
		batch = append(batch, Event{Time: time.Now(), Kind: EventLimit, Limit: "events",
			Text: fmt.Sprintf("%d events were lost: more happened than could be told.", q.lost)})
	}
	q.waiting, q.lost, q.calling = nil, 0, len(batch) > 0
	q.mu.Unlock()
	for _, e := range batch {
		call(e)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calling = false
	return len(batch) > 0
}

func (q *eventQueue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped && len(q.waiting) == 0
}

// isCalling reports whether a call back is under way.
func (q *eventQueue) isCalling() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calling
}

// add adds an event, as that of now. After stop it does nothing.
func (q *eventQueue) add(e Event) {
	e.Time = time.Now()
	q.mu.Lock()
	if e.Kind == EventNetwork {
		if second := e.Time.Unix(); second != q.second {
			q.second, q.attempts = second, 0
		}
		q.attempts++
	}
	switch {
	case q.stopped:
	case e.Kind == EventNetwork && q.attempts > maxAttempts:
		q.lost++
	case len(q.waiting) < maxEvents || e.Kind == EventEnd:
		q.waiting = append(q.waiting, e)
	default:
		q.lost++
	}
	q.mu.Unlock()
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// stop takes no more. Done is closed when those that were added have been told.
func (q *eventQueue) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	q.signal()
}

func networkEvent(a Attempt) Event {
	verdict := "was refused"
	if a.Allowed {
		verdict = "was allowed"
	}
	text := fmt.Sprintf("a connection to %s %s", net.JoinHostPort(a.Host, strconv.Itoa(a.Port)), verdict)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	if a.Reason == egress.ReasonAddress && a.Detail != "" {
		text += ", since " + a.Detail + "; name the address itself to allow it"
	}
	return Event{Kind: EventNetwork, Text: text + ".", Attempt: &a}
}
