package claudetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-tools/loupe/internal/wire"
)

// Parse reads a script. A script is a list of lines, each a keyword and what follows
// it; a colon after the keyword is optional. Empty lines and lines that start with #
// are skipped.
//
//	turn                      starts an answer; the lines that follow belong to it
//	thinking: TEXT            a thinking block
//	redacted: DATA            a redacted_thinking block
//	text: TEXT                a text block
//	| TEXT                    one more line of the text or thinking above
//	zoom X1 Y1 X2 Y2 [image N]  a call of zoom
//	tool NAME [JSON]          a call of any tool
//	member TOOLSET NAME [JSON]  a call of a toolset's member
//	cut NAME JSON-PREFIX      a call that broke off at the token cap; the turn's last block
//	stop: REASON              the stop reason
//	repeat N                  the turn is answered N times
//	drop N                    the connection is closed after N events
//	hang N                    nothing more comes after N events
//	break N [TYPE]            an error event of TYPE (overloaded_error) after N events
//	expect CONDITION          what the turn's request must meet, see below
//	error: STATUS [retry-after SECONDS] [MESSAGE]  an HTTP error in place of an answer
//
// Conditions, where "result" is the last tool result of the newest user turn:
//
//	expect result ok | result error
//	expect result contains TEXT | result lacks TEXT
//	expect results N          tool results in the newest user turn
//	expect contains TEXT      text in the newest user turn, results included
//	expect images N           images in the whole request
//	expect messages N
//	expect tools NAME...      the names of the declared tools that may be called; none for no tool
//
// An error names the file and the line.
func Parse(file, text string) ([]Turn, error) {
	p := parser{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p.turns, nil
}

// maxRepeat bounds what one line of a script can ask for.
const maxRepeat = 1000

type parser struct {
	turns  []Turn
	open   bool // a turn is being read
	turn   Turn
	repeat int
}

func (p *parser) line(line string) error {
	keyword, rest, _ := strings.Cut(line, " ")
	keyword = strings.TrimSuffix(keyword, ":")
	rest = strings.TrimSpace(rest)
	switch keyword {
	case "turn":
		if rest != "" {
			return fmt.Errorf("turn takes nothing after it, not %q", rest)
		}
		if err := p.finish(); err != nil {
			return err
		}
		p.open, p.turn, p.repeat = true, Turn{}, 1
		return nil
	case "error":
		if err := p.finish(); err != nil {
			return err
		}
		turn, err := parseFault(rest)
		if err != nil {
			return err
		}
		p.open, p.turn, p.repeat = true, turn, 1
		return nil
	}
	if !p.open {
		return fmt.Errorf("%s stands before the first turn; write a line \"turn\" first", keyword)
	}
	return p.directive(keyword, rest)
}

// finish closes the turn that is being read.
func (p *parser) finish() error {
	if !p.open {
		return nil
	}
	if err := p.turn.check(); err != nil {
		return fmt.Errorf("the turn above: %w", err)
	}
	for range p.repeat {
		p.turns = append(p.turns, p.turn)
	}
	p.open = false
	return nil
}

func (p *parser) directive(keyword, rest string) error {
	t := &p.turn
	if t.Status != 0 && keyword != "expect" && keyword != "repeat" {
		return fmt.Errorf("%s cannot follow an error; only expect and repeat can", keyword)
	}
	if t.Cut && slices.Contains([]string{"thinking", "redacted", "text", "zoom", "tool", "member", "cut", "|"}, keyword) {
		return errors.New("nothing can follow the call that was cut")
	}
	switch keyword {
	case "thinking":
		t.Blocks = append(t.Blocks, Thinking(rest))
	case "redacted":
		t.Blocks = append(t.Blocks, RedactedThinking(rest))
	case "text":
		t.Blocks = append(t.Blocks, Text(rest))
	case "|":
		return t.more(rest)
	case "zoom":
		call, err := parseZoom(rest)
		if err != nil {
			return err
		}
		t.Blocks = append(t.Blocks, call)
	case "tool":
		return t.call("", rest)
	case "member":
		toolset, call, _ := strings.Cut(rest, " ")
		return t.call(toolset, strings.TrimSpace(call))
	case "cut":
		name, prefix, _ := strings.Cut(rest, " ")
		if name == "" {
			return errors.New("cut needs the name of a tool")
		}
		if json.Valid([]byte(prefix)) {
			return errors.New("cut needs JSON that breaks off; this is whole, so write tool")
		}
		t.Blocks = append(t.Blocks, wire.Block{Type: "tool_use", Name: name, Input: json.RawMessage(prefix)})
		t.Cut = true
	case "stop":
		t.Stop = rest
		return t.checkStop()
	case "repeat":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 1 || n > maxRepeat {
			return fmt.Errorf("repeat needs a number from 1 to %d, not %q", maxRepeat, rest)
		}
		p.repeat = n
	case "drop", "hang", "break":
		return t.breakAt(keyword, rest)
	case "expect":
		condition, err := parseCondition(rest)
		if err != nil {
			return err
		}
		t.Expect = append(t.Expect, condition)
	default:
		return fmt.Errorf("unknown keyword %q", keyword)
	}
	return nil
}

// checkStop refuses an unknown stop reason where it is written.
func (t *Turn) checkStop() error {
	if t.Stop == "" {
		return errors.New("stop needs a reason")
	}
	return Turn{Stop: t.Stop}.check()
}

// more adds a line to the last block's text.
func (t *Turn) more(line string) error {
	if len(t.Blocks) > 0 {
		switch b := &t.Blocks[len(t.Blocks)-1]; b.Type {
		case "text":
			b.Text += "\n" + line
			return nil
		case "thinking":
			b.Thinking += "\n" + line
			return nil
		}
	}
	return errors.New("| goes on with a text or thinking, and neither stands above it")
}

func (t *Turn) call(toolset, rest string) error {
	name, input, _ := strings.Cut(rest, " ")
	if name == "" {
		return errors.New("a call needs the name of a tool")
	}
	input = strings.TrimSpace(input)
	if input == "" {
		input = "{}"
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(input), &object); err != nil || object == nil {
		return fmt.Errorf("the input of %s is not a JSON object: %s", name, input)
	}
	t.Blocks = append(t.Blocks, Member(toolset, name, input))
	return nil
}

func (t *Turn) breakAt(keyword, rest string) error {
	count, kind, _ := strings.Cut(rest, " ")
	after, err := strconv.Atoi(count)
	if rest == "" {
		after, err = 0, nil
	}
	if err != nil || after < 0 {
		return fmt.Errorf("%s needs the number of events before it, not %q", keyword, count)
	}
	if t.Break.Kind != NoBreak {
		return errors.New("a turn breaks once; there is a drop, hang or break above")
	}
	kinds := map[string]BreakKind{"drop": BreakDrop, "hang": BreakHang, "break": BreakError}
	if kind != "" && keyword != "break" {
		return fmt.Errorf("%s takes a number alone, not %q", keyword, rest)
	}
	t.Break = Break{Kind: kinds[keyword], After: after, Error: strings.TrimSpace(kind)}
	return nil
}

func parseZoom(rest string) (wire.Block, error) {
	const usage = "zoom needs X1 Y1 X2 Y2 and may end in \"image N\""
	words := strings.Fields(rest)
	index := 0
	if len(words) == 6 && words[4] == "image" {
		n, err := strconv.Atoi(words[5])
		if err != nil {
			return wire.Block{}, fmt.Errorf("%s, not %q", usage, rest)
		}
		index, words = n, words[:4]
	}
	if len(words) != 4 {
		return wire.Block{}, fmt.Errorf("%s, not %q", usage, rest)
	}
	var edges [4]int
	for i, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil {
			return wire.Block{}, fmt.Errorf("%s, not %q", usage, rest)
		}
		edges[i] = n
	}
	return Zoom(edges[0], edges[1], edges[2], edges[3], index), nil
}

func parseFault(rest string) (Turn, error) {
	word, rest, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(word)
	if err != nil || status < 400 || status > 599 {
		return Turn{}, fmt.Errorf("error needs an HTTP status from 400 to 599, not %q", word)
	}
	turn := Turn{Status: status}
	rest = strings.TrimSpace(rest)
	if after, ok := strings.CutPrefix(rest, "retry-after "); ok {
		word, rest, _ = strings.Cut(strings.TrimSpace(after), " ")
		seconds, err := strconv.Atoi(word)
		if err != nil || seconds < 0 || seconds > 3600 {
			return Turn{}, fmt.Errorf("retry-after needs seconds from 0 to 3600, not %q", word)
		}
		turn.RetryAfter = time.Duration(seconds) * time.Second
	}
	turn.Message = strings.TrimSpace(rest)
	return turn, nil
}

func parseCondition(text string) (Condition, error) {
	subject, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	count := func(of func(*Request) int) (Condition, error) {
		n, err := strconv.Atoi(rest)
		if err != nil {
			return Condition{}, fmt.Errorf("expect %s needs a number, not %q", subject, rest)
		}
		return Condition{text, func(r *Request) bool { return of(r) == n }}, nil
	}
	switch subject {
	case "result":
		return parseResultCondition(text, rest)
	case "results":
		return count(func(r *Request) int { return len(r.Results()) })
	case "images":
		return count(func(r *Request) int { return len(r.Images) })
	case "messages":
		return count(func(r *Request) int { return len(r.Messages) })
	case "contains":
		return Condition{text, func(r *Request) bool { return strings.Contains(TextOf(r.LastUser()), rest) }}, nil
	case "tools":
		names := strings.Fields(rest)
		return Condition{text, func(r *Request) bool { return slices.Equal(r.ToolNames(), names) }}, nil
	}
	return Condition{}, fmt.Errorf("unknown condition %q", text)
}

func parseResultCondition(text, rest string) (Condition, error) {
	last := func(check func(wire.RequestBlock) bool) (Condition, error) {
		return Condition{text, func(r *Request) bool {
			results := r.Results()
			return len(results) > 0 && check(results[len(results)-1])
		}}, nil
	}
	verb, what, _ := strings.Cut(rest, " ")
	what = strings.TrimSpace(what)
	switch {
	case rest == "error":
		return last(func(b wire.RequestBlock) bool { return b.IsError })
	case rest == "ok":
		return last(func(b wire.RequestBlock) bool { return !b.IsError })
	case verb == "contains" && what != "":
		return last(func(b wire.RequestBlock) bool { return strings.Contains(TextOf(b.Content), what) })
	case verb == "lacks" && what != "":
		return last(func(b wire.RequestBlock) bool { return !strings.Contains(TextOf(b.Content), what) })
	}
	return Condition{}, fmt.Errorf("expect result takes ok, error, contains TEXT or lacks TEXT, not %q", rest)
}
