package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
)

// Command is a command to run on the desktop, with the environment of its applications. Its
// fields are set before Run and not changed after; it is run once.
type Command struct {
	Args []string // the program's name or path inside, and its arguments
	Dir  string   // the home folder when empty
	Env  []string // NAME=VALUE, beside the desktop's

	Stdin          io.Reader // nothing when nil
	Stdout, Stderr io.Writer // dropped when nil

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
	if e.Code < 0 {
		return fmt.Sprintf("%s was ended by signal %s", e.Name, unix.SignalName(e.Signal))
	}
	return fmt.Sprintf("%s ended with status %d", e.Name, e.Code)
}

// outputGrace is how long the output of a command is read after its end: what it has started
// in the background may hold it open.
const outputGrace = 250 * time.Millisecond

// Run runs the command to its end. The error is an [*ExitError] when it failed, and wraps
// [ErrEnded] when the desktop ended first. When the context ends, the command's process group
// is killed, and the error is the context's.
func (c *Command) Run(ctx context.Context) error {
	if len(c.Args) == 0 {
		return errors.New("a command has a name")
	}
	var theirs, ours [3]*os.File
	defer func() { closeAll(ours[:]); closeAll(theirs[:]) }()
	for i := range 3 {
		reader, writer, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("running %s: %w", c.Args[0], err)
		}
		if theirs[i], ours[i] = writer, reader; i == 0 {
			theirs[i], ours[i] = reader, writer
		}
		// A program expects to wait for its input and output.
		if err := unix.SetNonblock(int(theirs[i].Fd()), false); err != nil {
			return fmt.Errorf("running %s: %w", c.Args[0], err)
		}
	}
	output := c.stream(ours)
	token := rand.Text()
	stop := context.AfterFunc(ctx, func() {
		killing, cancel := context.WithTimeout(context.Background(), killTime)
		defer cancel()
		kill := guest.Signal{Token: token, Signal: int(syscall.SIGKILL)}
		// It may not have been started yet when the context ends, which Call sees too.
		_, _ = c.desktop.peer.Call(killing, guest.OpSignal, kill, nil)
	})
	defer stop()
	var ran guest.Ran
	_, err := c.desktop.peer.Call(ctx, guest.OpRun,
		guest.Run{Token: token, Command: c.Args, Dir: c.Dir, Env: c.Env}, &ran, theirs[:]...)
	for i, f := range theirs {
		_ = f.Close()
		theirs[i] = nil
	}
	if err == nil {
		waitFor(output, outputGrace)
	}
	closeAll(ours[:])
	output.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("running %s: %w", c.Args[0], ctx.Err())
	case err != nil:
		return c.desktop.ended(fmt.Errorf("running %s: %w", c.Args[0], err))
	case ran.Code != 0:
		return &ExitError{Name: c.Args[0], Code: ran.Code, Signal: syscall.Signal(ran.Signal)}
	}
	return nil
}

// Output runs the command and returns what it writes to its standard output, which must not
// be set. What it writes to standard error is part of the error's text when it fails.
func (c *Command) Output(ctx context.Context) ([]byte, error) {
	var out, said bytes.Buffer
	c.Stdout = &out
	if c.Stderr == nil {
		c.Stderr = &said
	}
	err := c.Run(ctx)
	if text := lastLine(said.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return out.Bytes(), err
}

// stream copies between the command's fields and the pipes. The group is done when both
// outputs have ended; the input's goroutine ends with its reader's next return, as that of
// os/exec does.
func (c *Command) stream(ours [3]*os.File) *sync.WaitGroup {
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(ours[0], c.Stdin) // the program may not want it all
		}
		_ = ours[0].Close()
	}()
	output := &sync.WaitGroup{}
	for i, to := range []io.Writer{c.Stdout, c.Stderr} {
		if to == nil {
			to = io.Discard
		}
		output.Go(func() { _, _ = io.Copy(to, ours[i+1]) })
	}
	return output
}

// waitFor waits for a group, but not for long.
func waitFor(group *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// ended says of an error that came since the desktop has ended that it has, and why.
func (d *Desktop) ended(err error) error {
	select {
	case <-d.peer.Done():
	default:
		return err
	}
	if reason := d.Err(); reason != nil {
		return &sentence{kind: ErrEnded, text: reason.Error(), cause: err}
	}
	return &sentence{kind: ErrEnded, text: ErrEnded.Error(), cause: err}
}
