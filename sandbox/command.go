//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// Command is a command to run on the desktop, with the environment of its applications. Its
// fields are set before Run and not changed after; it is run once.
//
// For a shell that is kept and written to, run it in a goroutine of its own with an
// [io.PipeReader] as Stdin: the end of that is the shell's end of input, and the end of Run's
// context kills it. Close the reader when Run has returned, or a writer waits for ever.
type Command struct {
	Args []string // the program's name or path inside, and its arguments
	Dir  string   // the home folder when empty, and meant from there
	Env  []string // NAME=VALUE, beside the desktop's

	// Stdin is read as fast as the program takes it; nil is none. One Read may be under way
	// when Run returns, and what it gets is lost.
	Stdin io.Reader

	// Stdout and Stderr are written to by one goroutine each, both by the same one after the
	// other if they are equal; nil drops. Run does not return before they do.
	Stdout, Stderr io.Writer

	desktop *Desktop
}

// Command makes a command for the desktop.
func (d *Desktop) Command(name string, args ...string) *Command {
	return &Command{Args: append([]string{name}, args...), desktop: d}
}

// ExitError says that a command ran, and failed.
type ExitError struct {
	Name   string
	Code   int            // exit status, or -1 when a signal ended it
	Signal syscall.Signal // then
}

func (e *ExitError) Error() string {
	if e.Code >= 0 {
		return fmt.Sprintf("%s ended with status %d", e.Name, e.Code)
	}
	if name := unix.SignalName(e.Signal); name != "" {
		return fmt.Sprintf("%s was ended by signal %s", e.Name, name)
	}
	return fmt.Sprintf("%s was ended by signal %d", e.Name, int(e.Signal))
}

// Run runs the command to its end, and returns when its output has been written. What it has
// left running in the background goes on, and what that writes is dropped once the command
// has ended and a quarter of a second has passed.
//
// The error is an [*ExitError] when the command failed. It wraps [ErrMissing] when there is no
// such program, and [ErrEnded] when the desktop ended first. When the context ends, the command
// is killed with its process group and everything that descends from it, and the error is the
// context's; only a process that has left the group and whose parent has ended goes on.
func (c *Command) Run(ctx context.Context) error {
	request, err := c.request()
	if err != nil {
		return err
	}
	pipes, err := c.pipes()
	if err != nil {
		return fmt.Errorf("running %s: %w", c.Args[0], err)
	}
	var ran guest.Ran
	err = c.desktop.peer.Call(ctx, guest.OpRun, request, &ran, pipes.theirs...)
	pipes.finish()
	switch {
	case err == nil && ran.Missing:
		return &sentence{kind: ErrMissing, text: fmt.Sprintf("there is no program %s on the desktop", c.Args[0])}
	case err == nil && ran.Code != 0:
		return &ExitError{Name: c.Args[0], Code: ran.Code, Signal: syscall.Signal(ran.Signal)}
	case errors.Is(err, link.ErrTooLarge):
		return fmt.Errorf("running %s: its arguments are too long; give long text to its standard input", c.Args[0])
	case err != nil:
		return c.desktop.ended(fmt.Errorf("running %s: %w", c.Args[0], err))
	}
	return nil
}

// request is what the guest is asked.
func (c *Command) request() (*guest.Run, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, errors.New("a command needs the name of a program")
	}
	for _, text := range append(append([]string{c.Dir}, c.Args...), c.Env...) {
		if strings.Contains(text, "\x00") {
			return nil, fmt.Errorf("running %s: %.100q has a zero byte in it, which no argument can have", c.Args[0], text)
		}
	}
	for _, variable := range c.Env {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return nil, fmt.Errorf("running %s: %.100q is no NAME=VALUE for its environment", c.Args[0], variable)
		}
	}
	return &guest.Run{Command: raw(c.Args), Dir: []byte(c.Dir), Env: raw(c.Env)}, nil
}

func raw(texts []string) [][]byte {
	made := make([][]byte, len(texts))
	for i, text := range texts {
		made[i] = []byte(text)
	}
	return made
}

// Output runs the command and returns what it writes to its standard output, which must not
// be set, 64 MiB at most. What it writes to standard error, unless that is set, ends the error's text when it
// fails: the last line of it.
func (c *Command) Output(ctx context.Context) ([]byte, error) {
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &capped{most: maxKept, full: cancel}
	said := &guest.Tail{}
	c.Stdout = out
	if c.Stderr == nil {
		c.Stderr = said
	}
	err := c.Run(ctx)
	if text := link.Printable(guest.LastLine(said.String()), maxText); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if out.over && asked.Err() == nil {
		err = fmt.Errorf("%s wrote more than %d MiB", c.Args[0], maxKept>>20)
	}
	return out.kept, err
}

// maxKept bounds what Output keeps: the memory is the caller's, and no limit of the desktop
// holds there.
const maxKept = 64 << 20

// capped is a buffer that takes no more than so much.
type capped struct {
	kept []byte
	most int
	over bool
	full func()
}

func (b *capped) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > b.most {
		b.over = true
		b.full()
		return 0, io.ErrShortBuffer
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

// pipes are a command's input and output.
type pipes struct {
	theirs []*os.File
	input  *os.File
	output []*drain
}

// pipes makes the pipes of a command, and starts to copy.
func (c *Command) pipes() (*pipes, error) {
	var readers, writers [3]*os.File
	for i := range 3 {
		var err error
		if readers[i], writers[i], err = os.Pipe(); err == nil {
			theirs := writers[i]
			if i == 0 {
				theirs = readers[i]
			}
			// A program expects to wait for its input and output, and to be able to open them
			// by name (/dev/stdout), whose user it may not be.
			err = errors.Join(blocking(theirs), theirs.Chmod(0o666))
		}
		if err != nil {
			closeAll(readers[:])
			closeAll(writers[:])
			return nil, err
		}
	}
	p := &pipes{theirs: []*os.File{readers[0], writers[1], writers[2]}, input: writers[0]}
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(p.input, c.Stdin) // the program may not want it all
		}
		_ = p.input.Close()
	}()
	stdout, stderr := c.Stdout, c.Stderr
	if same(stdout, stderr) {
		stdout = &oneAtATime{to: stdout}
		stderr = stdout
	}
	for i, to := range []io.Writer{stdout, stderr} {
		if to == nil {
			to = io.Discard
		}
		p.output = append(p.output, startDrain(readers[i+1], to))
	}
	return p, nil
}

// finish ends the input, and the output when it has all been copied.
func (p *pipes) finish() {
	closeAll(p.theirs)
	_ = p.input.Close()
	for _, d := range p.output {
		d.end()
	}
	for _, d := range p.output {
		<-d.done
	}
}
