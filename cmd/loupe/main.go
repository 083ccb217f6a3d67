// Command loupe looks closely, and acts: it asks a vision model about images and lets it
// zoom into the originals, it makes isolated desktops, and it drives a display with the
// computer toolset. Run "loupe --help" for its verbs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line. Each verb has a file of its own.
type cli struct {
	Ask     askCmd     `cmd:"" help:"Ask a question about one or more images."`
	View    viewCmd    `cmd:"" help:"Make the copy of an image that a model sees."`
	Zoom    zoomCmd    `cmd:"" help:"Cut a region from an image and magnify it, as a model's zoom does."`
	Act     actCmd     `cmd:"" help:"Act on a display as the computer toolset does: one turn of tool_use blocks, or one member."`
	Desktop desktopCmd `cmd:"" help:"Start an isolated desktop to act on; list, stop or use those that run."`
	Doctor  doctorCmd  `cmd:"" help:"Say what is missing on this machine and the command that installs it."`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// environment is all that a verb touches of the process it runs in.
type environment struct {
	ctx    context.Context
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
}

// printJSON writes the one object that --json promises.
func (env *environment) printJSON(value any) error {
	encoder := json.NewEncoder(env.stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// warn writes a line that is neither the result nor the end of the command.
func (env *environment) warn(format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	_, _ = fmt.Fprintf(env.stderr, "loupe: %s\n", text) // standard error is gone when this fails
}

// errUsage marks an error of the command line: exit status 2.
var errUsage = errors.New("wrong usage")

type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errReported ends a command with status 1 when everything that there is to say was said.
var errReported = errors.New("already reported")

// exitStatus ends loupe with the status of a command, which has said what there is to say.
type exitStatus struct{ code int }

func (e *exitStatus) Error() string { return fmt.Sprintf("exit status %d", e.code) }

func main() {
	runGuest() // before anything else: the guest of a desktop is this program too
	// Large pictures leave large garbage; near this much, collecting it is worth the time.
	debug.SetMemoryLimit(600 << 20)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() { // a second Ctrl-C ends the process at once
		<-ctx.Done()
		stop()
	}()
	status := run(&environment{ctx: ctx, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(status)
}

// run parses the arguments, runs a verb and returns the exit status.
func run(env *environment, args []string) int {
	exited := -1 // set by --help and --version, which end the command in the parser
	parser, err := kong.New(&cli{},
		kong.Name("loupe"),
		kong.Description("Eyes and hands for vision models: ask about an image, and let the model zoom into the original; "+
			"act on a display, or on an isolated desktop made from nothing, as the computer toolset does.\n\n"+
			"Exit status: 0 done, 1 the work failed, 2 wrong usage."),
		kong.Writers(env.stdout, env.stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.Vars{"version": version(), "applications": applications()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		env.warn("%v", err)
		return exitFailed
	}
	command, err := parser.Parse(joinValues(protectNegatives(args)))
	if exited >= 0 {
		return exited
	}
	if err != nil {
		env.warn("%v; see loupe --help", err)
		return exitUsage
	}
	var inside *exitStatus
	switch err := command.Run(env); {
	case err == nil:
		return exitDone
	case errors.As(err, &inside):
		return inside.code
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, errUsage):
		env.warn("%v", err)
		return exitUsage
	case env.ctx.Err() != nil:
		env.warn("stopped before it was done.")
		return exitFailed
	default:
		env.warn("%v", err)
		return exitFailed
	}
}
