package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/picture"
)

type actCmd struct {
	Member string `arg:"" optional:"" help:"One member of the toolset, such as screenshot or left_click. Without it a turn is read from standard input."`
	Input  string `arg:"" optional:"" name:"JSON" help:"The member's arguments as a JSON object, in place of the flags for them."`

	Coordinate      *string `group:"Arguments of the member" placeholder:"X,Y" help:"Where, in pixels of the screenshot."`
	StartCoordinate *string `group:"Arguments of the member" placeholder:"X,Y" help:"Where a drag begins."`
	Region          *string `group:"Arguments of the member" placeholder:"X0,Y0,X1,Y1" help:"What zoom shows."`
	Text            *string `group:"Arguments of the member" placeholder:"TEXT" help:"What to type, the keys to press, or the keys to hold during a click."`
	Repeat          *string `group:"Arguments of the member" placeholder:"N" help:"How often to press the keys."`
	Duration        *string `group:"Arguments of the member" placeholder:"SECONDS" help:"How long to wait or to hold the keys."`
	ScrollDirection *string `group:"Arguments of the member" placeholder:"WHERE" help:"up, down, left or right."`
	ScrollAmount    *string `group:"Arguments of the member" placeholder:"N" help:"Clicks of the wheel."`
	Output          string  `short:"o" placeholder:"FILE" help:"Write the member's image here, as .png or .jpg; - for standard output."`
	JSON            bool    `name:"json" help:"Print the member's tool_result block; a turn's are always printed."`

	Display          string        `placeholder:":N" xor:"where" help:"The display to act on, in place of $$DISPLAY."`
	Desktop          *string       `placeholder:"NAME" xor:"where" help:"The desktop to act on, one of loupe desktop list."`
	Confirm          string        `placeholder:"WHEN" help:"Ask before each action (always), before those that reach the keyboard (risky), or not at all (never)."`
	Off              []string      `placeholder:"MEMBER" help:"Switch a member off: it is refused."`
	AppendScreenshot bool          `help:"End a turn that does not end in a screenshot with one, in its last result."`
	Timeout          time.Duration `placeholder:"TIME" help:"Stop the turn after this time, such as 90s (none)."`
	SettleQuiet      time.Duration `placeholder:"TIME" default:"50ms" help:"How long the screen must be still before it is captured; 0 captures at once."`
	SettleBound      time.Duration `placeholder:"TIME" default:"2s" help:"How long to wait for that at most."`
	Verbose          bool          `short:"v" help:"Say on standard error what failed, in the display's words."`
	limitFlags

	missing []string // optional extensions that the display lacks
}

// Help is the longer text of act --help.
func (c *actCmd) Help() string {
	return "Acts on an X display, or on a desktop that loupe desktop has started, as the computer toolset of the Messages API " +
		"(computer_toolset_20260801) does, with no model.\n\n" +
		"A turn, on standard input, is a JSON array of tool_use blocks, such as " +
		`[{"type": "tool_use", "id": "1", "toolset_name": "computer", "name": "left_click", "input": {"coordinate": [10, 20]}}]` + ". They run in order and stop at the first failure; " +
		"the array of their tool_result blocks goes to standard output. Blocks of other toolsets are left alone, with a line on standard error.\n\n" +
		"Coordinates are pixels of the screenshot, which is sized for the model (--model, by default " + defaultModel + ", or --tier) and, unless --max-edge says otherwise, to 2000 pixels at most. " +
		"When the command ends, all keys and buttons are released.\n\n" +
		"The members and their arguments, those that may be left out in [ ]:\n\n" +
		"screenshot, cursor_position, left_mouse_down, left_mouse_up: none.\n\n" +
		"zoom: region.\n\n" +
		"left_click, right_click, middle_click, double_click, triple_click: [coordinate], [text], the modifiers to hold.\n\n" +
		"left_click_drag: start_coordinate, coordinate, [text].\n\n" +
		"mouse_move: coordinate.\n\n" +
		"scroll: scroll_direction, scroll_amount (0 to 100), [coordinate], [text].\n\n" +
		"type: text.\n\n" +
		"key: text, [repeat] (1 to 100). hold_key: text, duration. wait: duration (0 to 300 seconds).\n\n" +
		"Keys are named as in Return, ctrl+s, alt+Tab, Page_Up, F5, KP_Enter, XF86AudioMute, in any case, with the usual aliases " +
		"(enter, esc, del, pgup, cmd, win, plus); a single character is its own name.\n\n" +
		"Confirmation: a turn is what a model wants, so by default you are asked on the terminal before type, key and hold_key (risky). " +
		"Where there is no terminal, what would be asked about is refused. One member on the command line is your own word, so nothing is asked (never).\n\n" +
		"Exit status: 0 every block succeeded; 1 one failed, or there is no display to act on; " +
		"2 wrong usage, which includes a turn that is no JSON array of tool_use blocks: nothing of it is run."
}

// maxTurn bounds standard input, in bytes. No request of the API is larger.
const maxTurn = 32_000_000

// openTime bounds the connecting to a display.
const openTime = 10 * time.Second

// Run runs a turn, or one member, and prints the results.
func (c *actCmd) Run(env *environment) error {
	options, err := c.options(env)
	if err != nil {
		return err
	}
	turn, err := c.turn(env)
	if err != nil {
		return err
	}
	ctx := env.ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	asked := &gate{mode: c.confirmation()}
	options.Confirm = asked.confirm
	var said bytes.Buffer
	options.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	results, err := c.perform(ctx, options, turn)

	// Nothing is written before the display is as it was: where nobody reads, writing ends
	// the process.
	if c.Verbose {
		_, _ = env.stderr.Write([]byte(printable(said.String()))) // standard error is gone when this fails
	}
	asked.close(env)
	if len(c.missing) > 0 {
		env.warn("the display lacks %s, so %s.", strings.Join(c.missing, ", "), without(c.missing))
	}
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		return err
	case env.ctx.Err() != nil:
		env.warn("stopped before the turn was done.")
	case ctx.Err() != nil:
		env.warn("stopped after %v (--timeout), before the turn was done.", c.Timeout)
	default:
		env.warn("%v", err)
	}
	if results != nil && (err == nil || c.Member == "" || c.JSON) {
		if err := c.print(env, results); err != nil {
			return err
		}
	}
	if err != nil || failed(results) {
		return errReported
	}
	return nil
}

// without says what a display that lacks optional extensions is used without.
func without(missing []string) string {
	effects := map[string]string{
		"MIT-SHM": "screenshots are slower", "XFIXES": "the pointer is not in screenshots", "DAMAGE": "settling is a fixed wait",
	}
	var said []string
	for _, name := range missing {
		said = append(said, effects[name])
	}
	return strings.Join(said, ", ")
}

func failed(results []computer.ToolResult) bool {
	return slices.ContainsFunc(results, func(r computer.ToolResult) bool { return r.IsError })
}

// perform runs the turn on the display, and leaves nothing held there. Results beside an
// error are good all the same.
func (c *actCmd) perform(ctx context.Context, options *computer.Options, turn []computer.ToolUse) (results []computer.ToolResult, err error) {
	if len(turn) == 0 {
		return []computer.ToolResult{}, nil
	}
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	display, disconnect, err := c.open(opening)
	switch {
	case err != nil && opening.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("the display does not answer, for %v now", openTime)
	case err != nil:
		return nil, err
	}
	defer func() { //nolint:contextcheck // closing must work after the context has ended
		// On a display that is gone nothing is held.
		closeErr := display.Close()
		disconnect()
		switch {
		case closeErr == nil || err != nil || errors.Is(closeErr, computer.ErrClosed):
		case errors.Is(closeErr, x11.ErrUnread):
			err = closeErr
		default:
			err = fmt.Errorf("the display may be left with keys or buttons held: %w", closeErr)
		}
	}()
	c.missing = display.Missing()
	tools, err := computer.New(display, options)
	if err != nil {
		return nil, err
	}
	results = tools.Run(ctx, turn)
	if failed(results) {
		err = ctx.Err()
	}
	return results, err
}

// open connects to the display, or to the desktop's. What is returned with it ends the rest of
// the connection, after the display was closed.
func (c *actCmd) open(ctx context.Context) (display *x11.Display, disconnect func(), err error) {
	settling := &x11.Options{
		Quiet: max(c.SettleQuiet, time.Nanosecond), Bound: max(c.SettleBound, time.Nanosecond), // zero is the default there
	}
	if c.Desktop == nil {
		display, err = x11.Open(ctx, c.Display, settling)
		return display, func() {}, err
	}
	return openDesktopDisplay(ctx, *c.Desktop, settling)
}

// confirmation is when to ask, with its default.
func (c *actCmd) confirmation() string {
	switch {
	case c.Confirm != "":
		return c.Confirm
	case c.Member == "":
		return confirmRisky
	}
	return confirmNever
}

// options checks the flags and returns those of the toolset.
func (c *actCmd) options(env *environment) (*computer.Options, error) {
	sized := c.limitFlags
	if sized.Model == "" {
		// The same for everybody, whether there is a key or not: coordinates depend on it.
		sized.Model = defaultModel
	}
	limits, err := sized.limits(env)
	if err != nil {
		return nil, err
	}
	switch c.Confirm {
	case "", confirmAlways, confirmRisky, confirmNever:
	default:
		return nil, usagef("--confirm is always, risky or never, not %q", c.Confirm)
	}
	if c.Timeout < 0 || c.SettleQuiet < 0 || c.SettleBound < 0 {
		return nil, usagef("--timeout, --settle-quiet and --settle-bound must not be negative")
	}
	if max(c.SettleQuiet, c.SettleBound) > time.Hour {
		return nil, usagef("--settle-quiet and --settle-bound must be an hour at most")
	}
	for _, name := range c.Off {
		if err := checkMember(name); err != nil {
			return nil, err
		}
	}
	return &computer.Options{Limits: limits, MaxEdge: c.MaxEdge, Disabled: c.Off, AppendScreenshot: c.AppendScreenshot}, nil
}

// turn is what to run: the member of the command line, or the blocks on standard input.
func (c *actCmd) turn(env *environment) ([]computer.ToolUse, error) {
	input, err := c.arguments()
	switch {
	case err != nil:
		return nil, err
	case c.Member != "":
		return c.single(input)
	case input != nil:
		return nil, usagef("arguments need a member: loupe act MEMBER")
	case c.Output != "":
		return nil, usagef("-o writes the image of one member: loupe act screenshot -o FILE")
	}
	data, err := readTurn(env)
	if err != nil {
		return nil, err
	}
	blocks, err := computer.ParseTurn(data)
	if err != nil {
		return nil, usagef("%v", err)
	}
	var turn []computer.ToolUse
	for _, block := range blocks {
		if block.ToolsetName != computer.ToolsetName {
			hint := ""
			if block.ToolsetName == "" && slices.Contains(computer.Members(), block.Name) {
				hint = `; a call of the toolset has "toolset_name": "computer"`
			}
			env.warn("block %s, %s, is not of the computer toolset and is left alone%s.", block.ID, block.Name, hint)
			continue
		}
		turn = append(turn, block)
	}
	return turn, nil
}

func checkMember(name string) error {
	if members := computer.Members(); !slices.Contains(members, name) {
		if _, err := os.Stat(name); err == nil {
			return usagef("there is no member %q; a file with a turn goes to standard input: loupe act < %s", name, name)
		}
		return usagef("there is no member %q; the members are %s", name, strings.Join(members, ", "))
	}
	return nil
}

// single is the turn of one member.
func (c *actCmd) single(input json.RawMessage) ([]computer.ToolUse, error) {
	if err := checkMember(c.Member); err != nil {
		return nil, err
	}
	switch {
	case c.Output != "" && c.Member != "screenshot" && c.Member != "zoom" && !c.AppendScreenshot:
		return nil, usagef("%s returns no image for -o; --append-screenshot adds one", c.Member)
	case c.Output == "-" && c.JSON:
		return nil, usagef("--json and -o - both write to standard output; choose one")
	}
	if c.Output != "" {
		if err := checkImageName(c.Output); err != nil { // before anything is done
			return nil, err
		}
	}
	if input == nil {
		input = json.RawMessage("{}")
	}
	return []computer.ToolUse{{ID: "toolu_loupe_act", Name: c.Member, ToolsetName: computer.ToolsetName, Input: input}}, nil
}

// arguments returns the member's input, or nil when none is given.
func (c *actCmd) arguments() (json.RawMessage, error) {
	fields := map[string]any{}
	for name, value := range map[string]*string{"text": c.Text, "scroll_direction": c.ScrollDirection} {
		if value != nil {
			fields[name] = *value
		}
	}
	for _, f := range []struct {
		name, flag string
		value      *string
		count      int // of a list's numbers, or 0 for a single number
	}{
		{"coordinate", "--coordinate", c.Coordinate, 2},
		{"start_coordinate", "--start-coordinate", c.StartCoordinate, 2},
		{"region", "--region", c.Region, 4},
		{"repeat", "--repeat", c.Repeat, 0},
		{"duration", "--duration", c.Duration, 0},
		{"scroll_amount", "--scroll-amount", c.ScrollAmount, 0},
	} {
		if f.value == nil {
			continue
		}
		parts := strings.Split(*f.value, ",")
		if len(parts) != max(f.count, 1) {
			if f.count == 0 {
				return nil, usagef("%s must be one number, not %q", f.flag, *f.value)
			}
			return nil, usagef("%s must be %d numbers with commas between them, not %q", f.flag, f.count, *f.value)
		}
		var numbers []json.Number
		for _, part := range parts {
			number := json.Number(strings.TrimSpace(part))
			if _, err := json.Marshal(number); err != nil || number == "" {
				return nil, usagef("%s: %q is not a number", f.flag, part)
			}
			numbers = append(numbers, number)
		}
		if f.count == 0 {
			fields[f.name] = numbers[0]
		} else {
			fields[f.name] = numbers
		}
	}
	if c.Input == "" {
		if len(fields) == 0 {
			return nil, nil
		}
		return json.Marshal(fields)
	}
	if len(fields) > 0 {
		return nil, usagef("give the arguments as JSON or as flags, not both")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.Input), &object); err != nil || object == nil {
		return nil, usagef(`the arguments must be a JSON object such as {"coordinate": [10, 20]}, or flags such as --coordinate 10,20`)
	}
	return json.RawMessage(c.Input), nil
}

// readTurn reads standard input to its end, and returns without delay when the command is
// stopped.
func readTurn(env *environment) ([]byte, error) {
	if isTerminal(env.stdin) {
		env.warn("reading a turn, a JSON array of tool_use blocks, from the terminal; end it with Ctrl-D, or see loupe act --help.")
	}
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends with the process at the latest
		data, err := io.ReadAll(io.LimitReader(env.stdin, maxTurn+1))
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		switch {
		case r.err != nil:
			return nil, fmt.Errorf("standard input could not be read to its end: %w", r.err)
		case len(r.data) > maxTurn:
			return nil, usagef("standard input is larger than %d MB, and no turn is", maxTurn/1_000_000)
		}
		return r.data, nil
	case <-env.ctx.Done():
		return nil, env.ctx.Err()
	}
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && info.Mode()&os.ModeCharDevice != 0 && !os.SameFile(info, null)
}

// print writes the results: a turn's as JSON, one member's as text and image.
func (c *actCmd) print(env *environment, results []computer.ToolResult) error {
	if c.Member == "" {
		return env.printJSON(results)
	}
	if len(results) != 1 {
		return fmt.Errorf("%s has %d results", c.Member, len(results))
	}
	result := results[0]
	if c.JSON {
		if err := env.printJSON(result); err != nil {
			return err
		}
	}
	written := false
	for _, content := range result.Content {
		switch {
		case content.Image != nil && c.Output != "" && !written:
			// Of a zoom that a screenshot follows, the zoom: it is what was asked for.
			if err := writeShot(env, c.Output, content.Image); err != nil {
				return err
			}
			written = true
		case c.JSON:
		case content.Image != nil && c.Output == "-":
		case content.Image != nil:
			shown, err := picture.DecodeBytes(content.Image.Data, nil)
			if err != nil {
				return err
			}
			size := shown.Image.Rect.Size()
			if _, err := fmt.Fprintf(env.stdout, "an image of %dx%d pixels; -o FILE writes it\n", size.X, size.Y); err != nil {
				return err
			}
		case result.IsError:
			env.warn("%s", content.Text)
		case c.Output == "-":
			env.warn("%s", content.Text)
		default:
			if _, err := fmt.Fprintln(env.stdout, printable(content.Text)); err != nil {
				return err
			}
		}
	}
	if c.Member == "left_mouse_down" && !result.IsError {
		env.warn("the button was released when the command ended; send a turn to hold it from one action to the next.")
	}
	if c.Output != "" && !written && !result.IsError {
		return fmt.Errorf("there is no image to write to %s", c.Output)
	}
	return nil
}

// writeShot writes an image of a result. One that is of the wanted kind already is written
// as it is.
func writeShot(env *environment, path string, shot *computer.Image) error {
	kind := map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
	if kind[strings.ToLower(filepath.Ext(path))] == shot.MediaType {
		if err := replaceFile(path, shot.Data); err != nil {
			return fmt.Errorf("the image cannot be written: %w", err)
		}
		return nil
	}
	p, err := picture.DecodeBytes(shot.Data, nil)
	if err != nil {
		return err
	}
	return writeImage(env, path, p.Image, picture.Encoded{Data: shot.Data, MediaType: shot.MediaType, Size: p.Image.Rect.Size()})
}

// valueFlags have values that may begin with a minus sign.
var valueFlags = []string{"--coordinate", "--start-coordinate", "--region", "--text", "--repeat", "--duration", "--scroll-amount"}

// joinValues joins such a flag of act and its value, which the parser of the command line
// would take for a flag.
func joinValues(args []string) []string {
	if len(args) == 0 || args[0] != "act" {
		return args
	}
	var joined []string
	for i := 0; i < len(args); i++ {
		if i+1 < len(args) && strings.HasPrefix(args[i+1], "-") && slices.Contains(valueFlags, args[i]) {
			joined = append(joined, args[i]+"="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}
