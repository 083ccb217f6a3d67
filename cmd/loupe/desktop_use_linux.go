package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/sandbox"
)

// These commands work on a desktop that another process has started.

// answerTime bounds the time that a desktop has to answer.
const answerTime = 10 * time.Second

// openDesktop connects to a desktop.
func openDesktop(ctx context.Context, name string, o *x11.Options) (*sandbox.Desktop, error) {
	opening, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	desk, err := sandbox.Open(opening, name, o)
	if err != nil && opening.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("the desktop %s does not answer, for %v now", name, answerTime)
	}
	return desk, desktopError(err)
}

type desktopListCmd struct {
	JSON bool `name:"json" help:"Print one JSON object: desktops."`
}

// listedDesktop is one desktop of list --json.
type listedDesktop struct {
	Name    string    `json:"name"`
	Size    [2]int    `json:"size"`
	Apps    []string  `json:"apps"`
	Allow   []string  `json:"allow"`
	Sandbox bool      `json:"sandbox"`
	Process int       `json:"process"`
	Started time.Time `json:"started"`
}

// Run lists the desktops of this user.
func (c *desktopListCmd) Run(env *environment) error {
	ctx, cancel := context.WithTimeout(env.ctx, answerTime)
	defer cancel()
	found, err := sandbox.List(ctx)
	if err != nil {
		return err
	}
	listed := []listedDesktop{}
	for _, d := range found {
		listed = append(listed, listedDesktop{Name: d.Name, Size: [2]int{d.Size.X, d.Size.Y}, Apps: d.Apps, Allow: d.Allow,
			Sandbox: d.Sandbox, Process: d.Process, Started: d.Started})
	}
	if c.JSON {
		return env.printJSON(struct {
			Desktops []listedDesktop `json:"desktops"`
		}{listed})
	}
	if len(listed) == 0 {
		env.warn("no desktop is running.")
		return nil
	}
	table := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tSIZE\tSTARTED\tAPPS\tNETWORK") // Flush says whether it could be written
	for _, d := range listed {
		network := strings.Join(d.Allow, ",")
		switch {
		case !d.Sandbox:
			network = "not isolated"
		case network == "":
			network = "none"
		}
		_, _ = fmt.Fprintf(table, "%s\t%dx%d\t%s\t%s\t%s\n", d.Name, d.Size[0], d.Size[1],
			d.Started.Local().Format(time.DateTime), oneLine(strings.Join(d.Apps, ",")), oneLine(network))
	}
	return table.Flush()
}

type desktopStopCmd struct {
	Names []string `arg:"" name:"NAME" help:"The desktops to end."`
}

// Run ends desktops, all that can be.
func (c *desktopStopCmd) Run(env *environment) error {
	var failed error
	for _, name := range c.Names {
		ctx, cancel := context.WithTimeout(env.ctx, answerTime)
		err := sandbox.Stop(ctx, name)
		cancel()
		if err == nil {
			continue
		}
		if failed != nil {
			env.warn("%v", failed)
		}
		failed = desktopError(err)
	}
	return failed
}

type desktopInCmd struct {
	Name  string   `arg:"" name:"NAME" help:"The desktop."`
	Files []string `arg:"" name:"FILE" help:"Files and folders of this machine."`
}

// Run copies files in.
func (c *desktopInCmd) Run(env *environment) error {
	desk, err := openDesktop(env.ctx, c.Name, nil)
	if err != nil {
		return err
	}
	defer func() { _ = desk.Close() }()
	return desk.CopyIn(env.ctx, c.Files...)
}

type desktopOutCmd struct {
	Name     string   `arg:"" name:"NAME" help:"The desktop."`
	Patterns []string `arg:"" name:"PATTERN" help:"Files and folders of its home folder, such as report.odt or 'Downloads/*.pdf'."`
	Output   string   `short:"o" placeholder:"DIR" default:"." help:"Write them below this folder."`
}

// Help is the longer text of desktop out --help.
func (c *desktopOutCmd) Help() string {
	return "Prints the files that it wrote. They keep their folders below the home folder, and replace what is there under their names. " +
		"Links are never followed and not copied. All that a pattern names may have 1 GiB and be 10,000 files.\n\n" +
		"Exit status: 0 each pattern named a file that was copied, 1 one did not or something failed, 2 wrong usage."
}

// Run copies files out.
func (c *desktopOutCmd) Run(env *environment) error {
	desk, err := openDesktop(env.ctx, c.Name, nil)
	if err != nil {
		return err
	}
	defer func() { _ = desk.Close() }()
	for _, pattern := range c.Patterns {
		written, skipped, err := desk.CopyOut(env.ctx, pattern, c.Output)
		for _, sentence := range skipped {
			env.warn("%s", oneLine(sentence))
		}
		for _, path := range written {
			if _, err := fmt.Fprintln(env.stdout, oneLine(path)); err != nil {
				return err
			}
		}
		if err == nil && len(written) == 0 {
			err = fmt.Errorf("%s names no file that can be copied from the desktop %s", pattern, c.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type desktopRunCmd struct {
	Name    string   `arg:"" name:"NAME" help:"The desktop."`
	Command []string `arg:"" name:"COMMAND" passthrough:"" help:"The command and its arguments, after --."`
}

// Help is the longer text of desktop run --help.
func (c *desktopRunCmd) Help() string {
	return "The command has the environment of the desktop's applications and begins in the home folder. It ends with loupe.\n\n" +
		"Exit status: the command's, or 128 and the number of the signal that ended it. " +
		"When loupe itself fails it is 1, or 2 for wrong usage, with a sentence on standard error that begins with loupe:."
}

// Run runs a command on the desktop.
func (c *desktopRunCmd) Run(env *environment) error {
	words := c.Command
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return usagef("name a command: loupe desktop run %s -- COMMAND", c.Name)
	}
	desk, err := openDesktop(env.ctx, c.Name, nil)
	if err != nil {
		return err
	}
	defer func() { _ = desk.Close() }()
	command := desk.Command(words[0], words[1:]...)
	command.Stdin, command.Stdout, command.Stderr = env.stdin, env.stdout, env.stderr
	err = command.Run(env.ctx)
	var ended *sandbox.ExitError
	if errors.As(err, &ended) {
		if ended.Code < 0 {
			return &exitStatus{128 + int(ended.Signal)}
		}
		return &exitStatus{ended.Code}
	}
	return err
}
