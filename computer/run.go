package computer

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/loupe-tools/loupe/vision"
)

// halted answers every block after the one that failed. The wording is the API's.
const halted = "Not executed: an earlier computer action in this turn failed."

// Run runs the blocks of one assistant turn in order, one at a time, and stops at the first
// that fails. It returns one result for each block of this toolset, in order. A block of
// another toolset is left alone and has no result. Whatever goes wrong becomes a result with
// is_error and one sentence for the model. After a failure Run releases every key and every
// button.
//
// Where the driver is a [Settler], Run waits for the screen to come to rest before it
// captures it: for a screenshot block, for a zoom block, and for the screenshot that
// [Options.AppendScreenshot] adds. It does not wait after other blocks.
//
// When the context ends, the block that runs is answered with an error, and so are the
// rest.
//
// Run does not change turn. The results, with the data of their images, belong to the
// caller.
func (t *Toolset) Run(ctx context.Context, turn []ToolUse) []ToolResult {
	return t.run(ctx, turn, vision.Allowance{Images: math.MaxInt})
}

// run is Run within an allowance of images.
func (t *Toolset) run(ctx context.Context, turn []ToolUse, room vision.Allowance) []ToolResult {
	results := []ToolResult{}
	t.shown = t.taken // what was taken in an earlier turn has been seen by now
	turn = slices.DeleteFunc(slices.Clone(turn), func(use ToolUse) bool { return use.ToolsetName != ToolsetName })
	budget := newBudget(room, turn, t.options.AppendScreenshot)
	answered := map[string]bool{}
	failed := false
	for _, use := range turn {
		content := []Content{{Text: halted}}
		if !failed {
			var err error
			if answered[use.ID] {
				err = inputErrorf("This id was already used by an earlier block of the turn, so the action was not run again.")
			} else {
				content, err = t.block(ctx, use, budget)
			}
			if err != nil {
				failed = true
				content = []Content{{Text: t.failure(ctx, use, err)}}
			}
		}
		answered[use.ID] = true
		results = append(results, ToolResult{ToolUseID: use.ID, ToolsetName: ToolsetName, IsError: failed, Content: content})
	}
	if last := len(turn) - 1; t.options.AppendScreenshot && last >= 0 && !failed && turn[last].Name != "screenshot" && t.enabled("screenshot") {
		results[last].Content = append(results[last].Content, t.closing(ctx, turn[last], budget)...)
	}
	return results
}

// command is a block that is ready to run.
type command struct {
	member    string
	input     *input
	frame     vision.Frame // the display and the screenshot, when the input or the answer names places
	from, at  *image.Point // of StartCoordinate and Coordinate, in display pixels
	keys      []Key        // of key and hold_key
	modifiers []Key        // held during a click, a drag or a scroll
}

// block runs one block and returns its answer.
func (t *Toolset) block(ctx context.Context, use ToolUse, b *budget) (content []Content, err error) {
	defer func() {
		if p := recover(); p != nil {
			content, err = nil, newPanicError(p)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t.stuck {
		if err := t.release(ctx); err != nil {
			return nil, err
		}
	}
	c, err := t.prepare(ctx, use)
	if err != nil {
		return nil, err
	}
	if err := t.confirm(ctx, c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.options.BlockTime+c.allowed(), errTooLong)
	defer cancel()
	defer func() { err = withCause(ctx, err) }()
	if c.frame != (vision.Frame{}) && t.options.Confirm != nil { // which may have taken its time
		if now, err := t.frame(ctx); err != nil {
			return nil, err
		} else if now != c.frame {
			return nil, errStale
		}
	}
	return t.perform(ctx, c, b)
}

// prepare decodes a block and finds its places on the display.
func (t *Toolset) prepare(ctx context.Context, use ToolUse) (c *command, err error) {
	if _, known := fieldsOf(use.Name); !known {
		return nil, unknownMember(use.Name)
	}
	if !t.enabled(use.Name) {
		return nil, inputErrorf("The member %s is switched off.", use.Name)
	}
	in, err := decode(use.Name, use.Input, t.options.MaxText)
	if err != nil {
		return nil, err
	}
	c = &command{member: use.Name, input: in}
	if in.Text != nil {
		switch c.member {
		case "type":
		case "key", "hold_key":
			c.keys, err = ParseKeys(*in.Text)
		default:
			c.modifiers, err = ParseModifiers(*in.Text)
		}
		if err != nil {
			return nil, err
		}
	}
	if !in.needsView() && c.member != "cursor_position" {
		return c, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.options.BlockTime, errTooLong)
	defer cancel()
	defer func() { err = withCause(ctx, err) }()
	if c.frame, err = t.frame(ctx); err != nil {
		return nil, err
	}
	if err := in.place(c.frame.View); err != nil {
		return nil, err
	}
	onDisplay := func(p *[2]int) *image.Point {
		if p == nil {
			return nil
		}
		at := c.frame.ToOriginal(image.Pt(p[0], p[1]))
		return &at
	}
	c.from, c.at = onDisplay(in.StartCoordinate), onDisplay(in.Coordinate)
	return c, nil
}

// errTooLong is why a block ended that took longer than it may.
var errTooLong = errors.New("the block took longer than it may")

// withCause says why a context ended, beside an error that may come from that.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
}

// errStale refuses a place that was chosen on a screenshot of another size.
var errStale = inputErrorf("The display has changed its size since the last screenshot that you saw. " +
	"Take a new screenshot, and choose the place from it in your next turn.")

// frame is the display as it is now and the screenshot of it. It is errStale when the model
// has not seen the display at that size.
func (t *Toolset) frame(ctx context.Context) (vision.Frame, error) {
	size, err := t.size(ctx)
	if err != nil {
		return vision.Frame{}, err
	}
	known := t.shown
	if known == (image.Point{}) {
		known = t.taken
	}
	if known != (image.Point{}) && known != size {
		return vision.Frame{}, errStale
	}
	return vision.NewFrame(size, t.limits), nil
}

// size is the display's, in pixels.
func (t *Toolset) size(ctx context.Context) (image.Point, error) {
	size, err := t.desktop.Size(ctx)
	if err == nil && (size.X <= 0 || size.Y <= 0) {
		err = fmt.Errorf("the driver reports a display of %dx%d pixels", size.X, size.Y)
	}
	return size, err
}

// perform runs a command.
func (t *Toolset) perform(ctx context.Context, c *command, b *budget) ([]Content, error) {
	switch c.member {
	case "screenshot":
		return t.screenshot(ctx, b)
	case "zoom":
		return t.zoom(ctx, c, b)
	}
	text, err := t.act(ctx, c)
	if err != nil {
		return nil, err
	}
	return []Content{{Text: text}}, nil
}

// failure ends a turn: it lets go of what is held, tells the log what happened, and returns
// what the model is told.
func (t *Toolset) failure(ctx context.Context, use ToolUse, err error) string {
	text := phrase(ctx, err) + t.letGo(ctx)
	t.report(use, err)
	return text
}

// letGo releases what is held, and returns what to tell the model about it.
func (t *Toolset) letGo(ctx context.Context) string {
	held := t.down
	if t.release(ctx) == nil && held {
		return " The left button, which was held, has been released."
	}
	return ""
}

// report tells the log what happened.
func (t *Toolset) report(use ToolUse, err error) {
	defer func() { _ = recover() }() // a log that panics costs the log alone
	level := t.log.Warn
	if shown := (*InputError)(nil); errors.As(err, &shown) {
		level = t.log.Info
	}
	level("a computer action failed", "member", shorten(use.Name), "id", shorten(use.ID), "error", err)
}

// phrase is what the model is told of an error, with how much was typed before it.
func phrase(ctx context.Context, err error) string {
	text := reason(ctx, err)
	// A driver may have said so itself.
	if part := (*typedError)(nil); errors.As(err, &part) && !strings.Contains(text, fmt.Sprintf("typed %d of %d", part.typed, part.of)) {
		text += fmt.Sprintf(" Of %d characters %d were typed.", part.of, part.typed)
	}
	return text
}

// reason is the text of an InputError, and a fixed phrase for any other error.
func reason(ctx context.Context, err error) string {
	var shown *InputError
	var panicked *panicError
	switch {
	case errors.As(err, &shown):
		return sentence(shown.Text)
	case errors.Is(err, ErrClosed):
		return "The display cannot be reached any more."
	case ctx.Err() != nil:
		return "The action was stopped before it was done."
	case errors.Is(err, errTooLong):
		return "The action took too long and was stopped."
	case errors.As(err, &panicked):
		return "The action failed: there is a fault in the display's driver."
	}
	return "The action failed: the display did not carry it out."
}

// sentence makes one of what a driver says, with nothing invisible in it.
func sentence(text string) string {
	text = strings.TrimSpace(escape(text, false))
	if text == "" {
		return "The action failed."
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// panicError is a panic of a driver.
type panicError struct {
	value any
	stack []byte
}

func newPanicError(value any) *panicError { return &panicError{value, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// pause waits, or returns the context's error as soon as it ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// enabled says whether a member is on.
func (t *Toolset) enabled(member string) bool { return !slices.Contains(t.options.Disabled, member) }
