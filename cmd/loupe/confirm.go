package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/loupe-tools/loupe/computer"
)

// When a person is asked before an action.
const (
	confirmAlways = "always"
	confirmRisky  = "risky" // before what reaches the keyboard
	confirmNever  = "never"
)

// gate decides on each action of one turn: by policy, or by asking the person at the
// terminal. Standard input may be the turn, so it is the controlling terminal that is read.
type gate struct {
	mode string

	terminal *os.File // nil until the first question
	lines    *bufio.Reader
	nobody   bool            // there is no terminal to ask at
	always   map[string]bool // members that the person has approved for this turn
	stopped  bool
}

// questions is how often an action is asked about before no answer is taken for a no.
const questions = 5

const question = "  Allow it? yes, no [reason], always (every %s of this turn), stop: "

// confirm is a [computer.Options.Confirm].
func (g *gate) confirm(ctx context.Context, action computer.Action) computer.Decision {
	switch {
	case g.mode == confirmNever, g.mode == confirmRisky && !computer.ReachesKeyboard(action.Member), g.always[action.Member]:
		return computer.Decision{Approved: true}
	case g.stopped:
		return computer.Decision{Reason: "the person stopped this turn"}
	}
	if g.terminal == nil && !g.open() {
		return computer.Decision{Reason: "nobody is there to confirm it"}
	}
	stop := context.AfterFunc(ctx, func() { _ = g.terminal.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// A terminal that is gone answers no question either.
	_, _ = fmt.Fprintf(g.terminal, "loupe: %s\n", printable(action.Description))
	for range questions {
		_, _ = fmt.Fprintf(g.terminal, question, action.Member)
		line, err := g.lines.ReadString('\n')
		if err != nil {
			_, _ = fmt.Fprintln(g.terminal)
			if ctx.Err() == nil {
				g.stopped = true
			}
			return computer.Decision{Reason: "no answer came to the question whether it may run"}
		}
		if decision, ok := g.answer(action.Member, strings.TrimSpace(line)); ok {
			return decision
		}
	}
	return computer.Decision{Reason: "the question whether it may run was not answered"}
}

// answer takes an answer. It is not ok when it is none of those that were offered: a yes is
// the word alone.
func (g *gate) answer(member, line string) (decision computer.Decision, ok bool) {
	switch strings.ToLower(line) {
	case "y", "yes":
		return computer.Decision{Approved: true}, true
	case "a", "always":
		if g.always == nil {
			g.always = map[string]bool{}
		}
		g.always[member] = true
		return computer.Decision{Approved: true}, true
	case "s", "stop":
		g.stopped = true
		return computer.Decision{Reason: "the person stopped this turn"}, true
	}
	word, reason, _ := strings.Cut(line, " ")
	switch strings.ToLower(strings.TrimRight(word, ",.:;")) {
	case "n", "no":
		return computer.Decision{Reason: strings.TrimSpace(printable(reason))}, true
	}
	return computer.Decision{}, false
}

// open opens the controlling terminal, once.
func (g *gate) open() bool {
	if g.nobody {
		return false
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		g.nobody = true
		return false
	}
	g.terminal, g.lines = terminal, bufio.NewReader(terminal)
	return true
}

// close closes the terminal, and says why an action was refused that nobody was asked about.
func (g *gate) close(env *environment) {
	if g.terminal != nil {
		_ = g.terminal.Close()
	}
	if g.nobody {
		env.warn("there is no terminal to ask at, so an action was refused; where nobody has to agree, say --confirm never.")
	}
}
