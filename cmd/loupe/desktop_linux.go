package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/loupe-tools/loupe/sandbox"
)

type desktopCmd struct {
	Start desktopStartCmd `cmd:"" default:"withargs" help:"Start a desktop and keep it until Ctrl-C or stop. This is what loupe desktop does without a verb."`
	List  desktopListCmd  `cmd:"" help:"List the desktops that are running."`
	Stop  desktopStopCmd  `cmd:"" help:"End desktops, and wait until nothing is left of them."`
	Run   desktopRunCmd   `cmd:"" help:"Run a command on a desktop; its input, output and exit status are passed through."`
	In    desktopInCmd    `cmd:"" help:"Copy files and folders into a desktop's home folder."`
	Out   desktopOutCmd   `cmd:"" help:"Copy files out of a desktop's home folder."`
}

// Help is the longer text of desktop --help.
func (c *desktopCmd) Help() string {
	return "Makes a virtual desktop from nothing: a display, a window manager, a panel and applications, isolated from this machine. " +
		"Of the machine there is /usr inside, read-only; no network but what --allow opens; a fresh home folder, which is gone with the desktop.\n\n" +
		"It ends with Ctrl-C, with loupe desktop stop, and with the process; nothing is left.\n\n" +
		"The flags of a start are listed by loupe desktop start --help; start may be left out.\n\n" +
		"Exit status: 0 it ended as you wanted, 1 it did not start or ended by itself, 2 wrong usage."
}

type desktopStartCmd struct {
	Name     *string  `placeholder:"NAME" help:"What the other commands call it (desk1, desk2, ...)."`
	Size     string   `placeholder:"WxH" default:"1280x800" help:"The display's size in pixels, 320x200 to 3840x2160 (1280x800)."`
	Scale    float64  `placeholder:"F" default:"1" help:"Device scale factor of the applications, 0.5 to 4 in steps of 0.25 (1)."`
	Apps     []string `placeholder:"NAME,..." help:"Applications to start: ${applications}, or a program of /usr/bin."`
	Allow    []string `placeholder:"HOST[:PORT]" help:"Open the network to a host, *.SUFFIX, an address or a range of addresses; to ports 80 and 443 unless it names one. Repeat it for more. Without it there is no network."`
	In       []string `sep:"none" placeholder:"FILE" help:"Copy a file or folder into the home folder. Repeat it for more."`
	Watch    *string  `placeholder:"ADDR" help:"Serve a page here that shows the desktop and takes the mouse and keyboard, such as 127.0.0.1:6080; port 0 is any that is free."`
	TimeZone string   `placeholder:"TZ" help:"Time zone, such as Europe/Berlin (UTC)."`

	Memory    byteSize `placeholder:"SIZE" help:"Memory of everything inside, such as 2G (4G, or 3/4 of the machine's)."`
	Disk      byteSize `placeholder:"SIZE" help:"Size of the home folder, which is in memory too (1G)."`
	Processes *int     `placeholder:"N" help:"Processes and threads (3000)."`

	NoSandbox bool `help:"Do without isolation, where this machine cannot isolate: what runs on the desktop can read your files and use your network."`
	JSON      bool `name:"json" help:"Print one JSON object a line: kind started, then watch, network, limit, window, exit, end, stopped as they happen."`
	Verbose   bool `short:"v" help:"Say on standard error what happens inside."`
}

// Help is the longer text of desktop start --help.
func (c *desktopStartCmd) Help() string {
	return "Prints what was started, then a line for each thing that happens: an attempt to reach the network and its verdict, " +
		"a limit that was reached, an application's first window or end.\n\n" +
		"With --json each line is an object with kind, time and text. started has name, size ([w, h]), home, apps, allow, sandbox, watch and took_ns; " +
		"watch tells of the live view, and may have url, a link with a new one-time password; network has attempt (host, port, allowed, reason, sent, received, duration_ns, ...); limit has limit; " +
		"window has app and took_ns; exit has app; end says why the desktop ended by itself, and stopped that it was ended. " +
		"A window may come before started.\n\n" +
		"Exit status: 0 ended by Ctrl-C, a signal or loupe desktop stop once it could be used; 1 it did not get there, or ended by itself; 2 wrong usage."
}

// byteSize is a number of bytes on the command line: 512M, 2G, 1.5GiB.
type byteSize int64

var sizePattern = regexp.MustCompile(`(?i)^([0-9]+(?:\.[0-9]+)?)([kmgt]?)(?:i?b)?$`)

// UnmarshalText reads a size; units are powers of 1024.
func (b *byteSize) UnmarshalText(text []byte) error {
	match := sizePattern.FindStringSubmatch(string(text))
	if match == nil {
		return fmt.Errorf("%q is not a size such as 512M or 2G", text)
	}
	n, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 512M or 2G", text)
	}
	if unit := strings.ToLower(match[2]); unit != "" {
		n *= math.Pow(1024, float64(1+strings.Index("kmgt", unit)))
	}
	if n < 1 || n >= 1<<62 {
		return fmt.Errorf("%q is not a size such as 512M or 2G", text)
	}
	*b = byteSize(n)
	return nil
}

// parseSize reads the size of a display.
func parseSize(text string) (image.Point, error) {
	w, h, ok := strings.Cut(strings.ToLower(text), "x")
	width, err := strconv.ParseUint(w, 10, 31)
	height, heightErr := strconv.ParseUint(h, 10, 31)
	if !ok || err != nil || heightErr != nil {
		return image.Point{}, usagef("--size is such as 1280x800, not %q", text)
	}
	if width == 0 || height == 0 { // which would stand for the default
		return image.Point{}, usagef("a display cannot be %dx%d", width, height)
	}
	return image.Pt(int(width), int(height)), nil
}

// checkWatch says what is wrong with the address of --watch before anything is started.
func checkWatch(address string) error {
	host, port, err := net.SplitHostPort(address)
	_, portErr := strconv.ParseUint(port, 10, 16)
	ip, ipErr := netip.ParseAddr(host)
	if err != nil || portErr != nil || host != "" && host != "localhost" && (ipErr != nil || !ip.Unmap().IsLoopback()) {
		return usagef("--watch is an address that only this machine reaches, such as 127.0.0.1:6080, not %q; from another machine come by ssh -L", address)
	}
	return nil
}

// desktopError is an error of package sandbox as the command ends with it.
func desktopError(err error) error {
	if errors.Is(err, sandbox.ErrInvalid) {
		return &usageError{err.Error()}
	}
	return err
}

// Run starts a desktop, tells what happens on it, and returns when it has ended.
func (c *desktopStartCmd) Run(env *environment) error {
	size, err := parseSize(c.Size)
	switch {
	case err != nil:
		return err
	case c.Scale == 0: // which would stand for the default
		return usagef("a scale of 0 is not possible")
	case c.Processes != nil && *c.Processes <= 0: // 0 would stand for the default
		return usagef("--processes is at least 64")
	case c.Name != nil && *c.Name == "":
		return usagef("--name is empty; leave it out for a name of its own")
	}
	if c.Watch != nil {
		if err := checkWatch(*c.Watch); err != nil {
			return err
		}
	}
	for _, file := range c.In {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("--in: %w", err)
		}
	}
	out := &desktopOutput{env: env, json: c.JSON}
	options := &sandbox.Options{
		Size: size, Scale: c.Scale, Apps: c.Apps, Allow: c.Allow, TimeZone: c.TimeZone,
		Limits:    sandbox.Limits{Memory: int64(c.Memory), Disk: int64(c.Disk)},
		NoSandbox: c.NoSandbox, Event: out.event, Log: verboseLog(env, c.Verbose),
	}
	if c.Processes != nil {
		options.Limits.Processes = *c.Processes
	}
	if c.Name != nil {
		options.Name = *c.Name
	}
	if c.NoSandbox {
		env.warn("--no-sandbox: nothing is isolated; what runs on this desktop can read your files, reach your network and see your processes.")
	}
	desk, took, err := startNamed(env.ctx, options)
	if err != nil {
		return desktopError(err)
	}
	defer func() { _ = desk.Close() }()
	if err := c.fill(env, desk, out, took); err != nil {
		return err
	}
	<-desk.Done()
	switch err := desk.Err(); {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, sandbox.ErrStopped):
		out.stopped(desk.Name())
		return nil
	default:
		if c.JSON { // the event says it
			return errReported
		}
		return err
	}
}

// startNamed starts the desktop under its name, or the first one that is free.
func startNamed(ctx context.Context, o *sandbox.Options) (_ *sandbox.Desktop, took time.Duration, err error) {
	start := func() (*sandbox.Desktop, time.Duration, error) {
		began := time.Now()
		desk, err := sandbox.Start(ctx, o)
		return desk, time.Since(began), err
	}
	if o.Name != "" {
		return start()
	}
	for n := 1; ; n++ {
		o.Name = fmt.Sprintf("desk%d", n)
		desk, took, err := start()
		if !errors.Is(err, sandbox.ErrNameTaken) {
			return desk, took, err
		}
	}
}

// fill makes the desktop what the flags ask for, and says what there is.
func (c *desktopStartCmd) fill(env *environment, desk *sandbox.Desktop, out *desktopOutput, took time.Duration) error {
	started := startedLine{
		Name: desk.Name(), Size: [2]int{desk.Size().X, desk.Size().Y}, Home: desk.Home(),
		Apps: append([]string{}, c.Apps...), Allow: append([]string{}, c.Allow...), Sandbox: !c.NoSandbox, Took: took,
	}
	if len(c.In) > 0 {
		if err := desk.CopyIn(env.ctx, c.In...); err != nil {
			return err
		}
	}
	if c.Watch != nil {
		view, err := c.watch(env, desk, out)
		if err != nil {
			return err
		}
		started.Watch = view.URL()
	}
	return out.started(started)
}

// watch serves the live view, which ends with the desktop.
func (c *desktopStartCmd) watch(env *environment, desk *sandbox.Desktop, out *desktopOutput) (*sandbox.LiveView, error) {
	var view *sandbox.LiveView
	set := make(chan struct{})
	view, err := desk.LiveView(env.ctx, *c.Watch, func() {
		<-set
		out.watch("Somebody has signed in to the live view; for the next one there is another link.", view.URL())
	})
	if err != nil {
		return nil, err
	}
	close(set)
	go func() { // ends with the view
		<-view.Done()
		select {
		case <-desk.Done():
			return
		case <-env.ctx.Done():
			return
		default:
		}
		if err := view.Close(); err != nil && !errors.Is(err, sandbox.ErrEnded) {
			out.watch(fmt.Sprintf("The live view has ended, the desktop goes on: %v.", err), "")
		}
	}()
	return view, nil
}

// startedLine is the first of what a desktop's output says with --json.
type startedLine struct {
	Kind    string        `json:"kind"`
	Time    time.Time     `json:"time"`
	Text    string        `json:"text"`
	Name    string        `json:"name"`
	Size    [2]int        `json:"size"`
	Home    string        `json:"home"`
	Apps    []string      `json:"apps"`
	Allow   []string      `json:"allow"`
	Sandbox bool          `json:"sandbox"`
	Watch   string        `json:"watch,omitempty"`
	Took    time.Duration `json:"took_ns"`
}

// desktopOutput writes lines on a desktop, one at a time, to standard output.
type desktopOutput struct {
	env  *environment
	json bool
	mu   sync.Mutex
}

func (o *desktopOutput) printJSON(line any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.env.printJSON(line)
}

func (o *desktopOutput) printf(format string, args ...any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := fmt.Fprintf(o.env.stdout, format, args...)
	return err
}

func (o *desktopOutput) started(s startedLine) error {
	with := ""
	if len(s.Apps) > 0 {
		with = " with " + strings.Join(s.Apps, ", ")
	}
	s.Kind, s.Time = "started", time.Now()
	s.Text = fmt.Sprintf("The desktop %s, %dx%d%s, can be used after %.2f s.", s.Name, s.Size[0], s.Size[1], with, s.Took.Seconds())
	if o.json {
		return o.printJSON(s)
	}
	network := "none"
	switch {
	case !s.Sandbox:
		network = "that of this machine"
	case len(s.Allow) > 0:
		network = strings.Join(s.Allow, ", ")
	}
	text := fmt.Sprintf("%s\n  network  %s\n", s.Text, network)
	if s.Watch != "" {
		text += fmt.Sprintf("  watch    %s (works once)\n", s.Watch)
	}
	text += fmt.Sprintf("  act      loupe act --desktop %s\n  end      Ctrl-C, or loupe desktop stop %[1]s\n", s.Name)
	return o.printf("%s", text)
}

// event tells what happened. Its text may have parts that come from inside.
func (o *desktopOutput) event(e sandbox.Event) {
	// Standard output may be gone; the desktop is not for that.
	if o.json {
		_ = o.printJSON(e)
		return
	}
	text := e.Text
	switch {
	case e.Kind == sandbox.EventEnd:
		return // the command ends with it
	case e.Kind == sandbox.EventWindow && e.Took > 0:
		text = fmt.Sprintf("%s has shown its window after %.2f s.", e.App, e.Took.Seconds())
	case e.Attempt != nil && e.Attempt.Sent+e.Attempt.Received > 0:
		text += fmt.Sprintf(" %d bytes out, %d in.", e.Attempt.Sent, e.Attempt.Received)
	}
	_ = o.printf("%s  %-8s %s\n", e.Time.Format(time.TimeOnly), e.Kind, oneLine(text))
}

// watch tells something of the live view, with a new link to it where that is of use.
func (o *desktopOutput) watch(text, url string) {
	now := time.Now()
	if o.json {
		_ = o.printJSON(struct {
			Kind string    `json:"kind"`
			Time time.Time `json:"time"`
			Text string    `json:"text"`
			URL  string    `json:"url,omitempty"`
		}{"watch", now, text, url})
		return
	}
	line := fmt.Sprintf("%s  %-8s %s\n", now.Format(time.TimeOnly), "watch", oneLine(text))
	if url != "" {
		line += fmt.Sprintf("%19s%s (works once)\n", "", url)
	}
	_ = o.printf("%s", line)
}

func (o *desktopOutput) stopped(name string) {
	text := fmt.Sprintf("The desktop %s has ended, and nothing of it is left.", name)
	if o.json {
		_ = o.printJSON(struct {
			Kind string    `json:"kind"`
			Time time.Time `json:"time"`
			Text string    `json:"text"`
		}{"stopped", time.Now(), text})
		return
	}
	_ = o.printf("%s\n", text)
}

// oneLine is text that cannot pass for more lines than one.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(printable(text))
}

// verboseLog is where a part that speaks to a log does so.
func verboseLog(env *environment, verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(printableWriter{env.stderr}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// printableWriter escapes what could steer a terminal.
type printableWriter struct{ to io.Writer }

func (w printableWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, printable(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
