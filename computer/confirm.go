package computer

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"strconv"
	"strings"
)

// Action is a block that is about to run, as the one who confirms it sees it. It belongs to
// the function that is given it, with all that it refers to: changing it changes nothing in
// the block.
type Action struct {
	Member string

	// Input is what runs: the block's input after decoding, in view pixels.
	Input json.RawMessage

	// Description is the action in one line for a person, with every invisible and every
	// control character escaped as [Escape] does it.
	Description string

	// Point is where on the display the action happens, in display pixels. It is the
	// coordinate of the input; that of a drag is where the drag ends. It is nil when the
	// input has no coordinate, as for a click at the pointer.
	Point *image.Point
}

// Decision is an answer to a confirmation. The zero value refuses.
type Decision struct {
	Approved bool
	Reason   string // shown to the model on refusal; may be empty
}

// ApproveAll is an [Options.Confirm] that approves everything, for a desktop where nothing
// can be harmed.
func ApproveAll(context.Context, Action) Decision { return Decision{Approved: true} }

// confirm asks whether a command may run. Anything but yes is an error.
func (t *Toolset) confirm(ctx context.Context, c *command) (err error) {
	if t.options.Confirm == nil {
		if ReachesKeyboard(c.member) {
			t.log.Warn("refused for want of somebody to ask; set Options.Confirm", "member", c.member)
			return inputErrorf("Refused: there is nobody to confirm what goes to the keyboard.")
		}
		return nil
	}
	action, err := c.action()
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("the confirmation panicked, which refuses the action", "member", c.member, "error", newPanicError(p))
			err = inputErrorf("%s", refused)
		}
	}()
	decision := t.options.Confirm(ctx, action)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case decision.Approved:
		return nil
	case decision.Reason != "":
		return inputErrorf("%s The reason given: %s", refused, Escape(decision.Reason))
	}
	return inputErrorf("%s", refused)
}

const refused = "Refused: this action was not confirmed."

// action is the command as it is shown.
func (c *command) action() (Action, error) {
	data, err := encode(c.input)
	if err != nil {
		return Action{}, fmt.Errorf("writing the input of %s: %w", c.member, err)
	}
	a := Action{Member: c.member, Input: data, Description: c.describe()}
	if c.at != nil {
		p := *c.at
		a.Point = &p
	}
	return a, nil
}

// describe says in one line what a command does, in view pixels.
func (c *command) describe() string {
	in := c.input
	at := "at the pointer"
	if p := in.Coordinate; p != nil {
		at = fmt.Sprintf("at (%d, %d)", p[0], p[1])
	}
	text := ""
	if in.Text != nil {
		text = inQuotes(*in.Text)
	}
	with := ""
	if in.Text != nil {
		with = " holding " + text
	}
	seconds := ""
	if in.Duration != nil {
		seconds = strconv.FormatFloat(*in.Duration, 'g', -1, 64) + " s"
	}
	switch c.member {
	case "screenshot":
		return "Take a screenshot"
	case "zoom":
		return fmt.Sprintf("Zoom into (%d, %d)-(%d, %d)", in.Region[0], in.Region[1], in.Region[2], in.Region[3])
	case "left_click_drag":
		return fmt.Sprintf("Drag from (%d, %d) to (%d, %d)", in.StartCoordinate[0], in.StartCoordinate[1], in.Coordinate[0], in.Coordinate[1]) + with
	case "left_mouse_down":
		return "Press the left button at the pointer and hold it"
	case "left_mouse_up":
		return "Release the left button at the pointer"
	case "mouse_move":
		return fmt.Sprintf("Move the pointer to (%d, %d)", in.Coordinate[0], in.Coordinate[1])
	case "cursor_position":
		return "Read the position of the pointer"
	case "scroll":
		return fmt.Sprintf("Scroll %s by %d %s", *in.ScrollDirection, *in.ScrollAmount, at) + with
	case "type":
		return "Type " + text
	case "key":
		if in.Repeat != nil && *in.Repeat > 1 {
			return fmt.Sprintf("Press %s %d times", text, *in.Repeat)
		}
		return "Press " + text
	case "hold_key":
		return "Hold " + text + " for " + seconds
	case "wait":
		return "Wait for " + seconds
	}
	name := strings.ReplaceAll(c.member, "_", " ")
	return strings.ToUpper(name[:1]) + name[1:] + " " + at + with
}

// inQuotes puts a text in quotation marks, so that its own end is not taken for the line's.
func inQuotes(text string) string { return `"` + Escape(strings.ReplaceAll(text, `"`, `\"`)) + `"` }
