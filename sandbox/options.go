//go:build linux

package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/apps"
	"github.com/loupe-tools/loupe/sandbox/internal/egress"
)

// Options say what a desktop is like. The zero value is right: an empty desktop of 1280x800
// pixels without a network.
type Options struct {
	// Name, when set, publishes the desktop: [Open] and [List] of the same user find it.
	// Letters, digits, '.', '_' and '-', 64 at most, beginning with a letter or digit.
	Name string

	// Size is the display's, in pixels: 1280x800 by default, at least 320x200 and at most
	// 3840x2160.
	Size image.Point

	// Scale is the device scale factor of the applications: 1 by default, 0.5 to 4 in steps
	// of a quarter.
	Scale float64

	// Apps are the applications to start, by the names that [Apps] lists, or of programs in
	// /usr/bin. Each must be installed.
	Apps []string

	// Allow is what may be reached over the network: HOST, HOST:PORT, *.SUFFIX, an address
	// or a range of addresses. Without a port it is 80 and 443. Private, loopback,
	// link-local and metadata addresses are refused unless they are themselves named here.
	Allow []string

	// TimeZone is a name of the time zone database; UTC by default.
	TimeZone string

	// Limits are those of the whole desktop.
	Limits Limits

	// NoSandbox starts the desktop without isolation, as an ordinary process of the
	// caller's machine: what runs on it can read the caller's files and reach the whole
	// network. It is for machines without bubblewrap, and for nothing else.
	NoSandbox bool

	// Event, when set, is told what happens. It is called by one goroutine at a time and
	// must return soon.
	Event func(Event)

	Log *slog.Logger // slog.DiscardHandler's when nil
}

// Limits bound what a desktop uses. A field that is zero stands for its default.
type Limits struct {
	Memory    int64 // bytes, all processes and their files in memory together; 4 GiB, or 3/4 of the machine's
	Disk      int64 // bytes of the home folder, which is in memory too; 1 GiB
	Processes int   // processes and threads; 3000
	Files     int   // open files of each process; 8192, or the caller's own hard limit where that is lower
}

// Bounds of a display.
var (
	minSize = image.Pt(320, 200)
	maxSize = image.Pt(3840, 2160)
)

// Apps lists the names of the applications that [Options.Apps] knows, installed or not.
func Apps() []string { return apps.Names() }

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	EventNetwork EventKind = "network" // something inside tried to reach the network
	EventLimit   EventKind = "limit"   // a limit was reached
	EventWindow  EventKind = "window"  // an application has shown its first window
	EventExit    EventKind = "exit"    // an application, or a part of the desktop, has ended
	EventEnd     EventKind = "end"     // the desktop has ended by itself
)

// Event is something that happened on a desktop.
type Event struct {
	Time time.Time `json:"time"`
	Kind EventKind `json:"kind"`
	Text string    `json:"text"` // one sentence for a person

	App     string        `json:"app,omitempty"`     // of EventWindow and EventExit
	Took    time.Duration `json:"took_ns,omitempty"` // of EventWindow: since the application was started
	Limit   string        `json:"limit,omitempty"`   // of EventLimit: "memory", "processes", "disk" or "files"
	Attempt *Attempt      `json:"attempt,omitempty"` // of EventNetwork
}

// Attempt is one try to reach the network.
type Attempt = egress.Attempt

// What errors wrap, to be told apart.
var (
	// ErrInvalid says that the options make no sense.
	ErrInvalid = errors.New("the options of the desktop are wrong")

	// ErrNoSandbox says that this machine cannot isolate a desktop. The error's text says
	// why, and what to do.
	ErrNoSandbox = errors.New("this machine cannot isolate a desktop")

	// ErrMissing says that a program is not installed that the desktop needs.
	ErrMissing = errors.New("a program is not installed")

	// ErrNameTaken says that a desktop of that name is running.
	ErrNameTaken = errors.New("the name of the desktop is taken")

	// ErrNoDesktop says that no desktop of that name is running.
	ErrNoDesktop = errors.New("there is no such desktop")

	// ErrEnded says that the desktop has ended.
	ErrEnded = errors.New("the desktop has ended")

	// ErrStopped says that the desktop was ended by [Stop].
	ErrStopped = errors.New("the desktop was stopped")

	// ErrLimit says that the desktop was ended since it had reached a limit.
	ErrLimit = errors.New("the desktop has reached a limit")
)

// sentence is an error of one sentence that is of a kind, with a cause for a log.
type sentence struct {
	kind  error
	text  string
	cause error
}

func (s *sentence) Error() string        { return s.text }
func (s *sentence) Unwrap() error        { return s.cause }
func (s *sentence) Is(target error) bool { return target == s.kind }

func invalidf(format string, args ...any) error {
	return &sentence{kind: ErrInvalid, text: fmt.Sprintf(format, args...)}
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkName says what is wrong with the name of a desktop.
func checkName(name string) error {
	if !validName.MatchString(name) {
		return invalidf("%q cannot be the name of a desktop; use letters, digits, '.', '_' and '-', 64 at most, a letter or digit first", name)
	}
	return nil
}

// plan is what the options come to.
type plan struct {
	Options
	rules   []egress.Rule
	setup   apps.Setup
	network egress.Options // how hosts are found and connected to; the zero value but in tests

	managers              [][]string // window managers; nil for the usual ones
	startTime, windowTime time.Duration
}

// resolve checks the options and fills in what they leave open.
func (o *Options) resolve() (*plan, error) {
	p := &plan{startTime: startTime, windowTime: windowTime}
	if o != nil {
		p.Options = *o
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Name != "" {
		if err := checkName(p.Name); err != nil {
			return nil, err
		}
	}
	if p.Size == (image.Point{}) {
		p.Size = image.Pt(1280, 800)
	}
	if p.Size.X < minSize.X || p.Size.Y < minSize.Y || p.Size.X > maxSize.X || p.Size.Y > maxSize.Y {
		return nil, invalidf("a display cannot be %dx%d; it is at least %dx%d and at most %dx%d pixels",
			p.Size.X, p.Size.Y, minSize.X, minSize.Y, maxSize.X, maxSize.Y)
	}
	for _, allowed := range p.Allow {
		rule, err := egress.ParseRule(allowed)
		if err != nil {
			return nil, &sentence{kind: ErrInvalid, text: err.Error(), cause: err}
		}
		p.rules = append(p.rules, rule)
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	p.setup = apps.Setup{Size: p.Size, Scale: p.Scale, TimeZone: p.TimeZone, MachineID: hex.EncodeToString(id)}
	for _, name := range p.Options.Apps {
		a, err := apps.Find(name)
		if err != nil {
			kind := ErrInvalid
			var missing *apps.MissingError
			if errors.As(err, &missing) {
				kind = ErrMissing
			}
			return nil, &sentence{kind: kind, text: err.Error(), cause: err}
		}
		if slices.ContainsFunc(p.setup.Apps, func(b apps.App) bool { return a.Name == b.Name }) {
			return nil, invalidf("the application %s is named twice", a.Name)
		}
		p.setup.Apps = append(p.setup.Apps, a)
	}
	if err := p.setup.Check(); err != nil {
		return nil, &sentence{kind: ErrInvalid, text: err.Error(), cause: err}
	}
	return p, p.Limits.resolve()
}

// resolve fills in the defaults and checks the rest.
func (l *Limits) resolve() error {
	defaults := Limits{Memory: 4 << 30, Disk: 1 << 30, Processes: 3000, Files: 8192}
	machine := machineMemory()
	if machine > 0 {
		defaults.Memory = min(defaults.Memory, machine/4*3)
	}
	var wrong []string
	check := func(what string, value *int64, standard, least int64, in func(int64) string) {
		if *value == 0 {
			*value = max(standard, least)
		} else if *value < least {
			wrong = append(wrong, fmt.Sprintf("%s at least %s", what, in(least)))
		}
	}
	processes, files := int64(l.Processes), int64(l.Files)
	check("memory is", &l.Memory, defaults.Memory, 256<<20, mebibytes)
	check("disk is", &l.Disk, min(defaults.Disk, l.Memory), 16<<20, mebibytes)
	number := func(n int64) string { return fmt.Sprint(n) }
	check("processes are", &processes, int64(defaults.Processes), 64, number)
	check("open files are", &files, int64(defaults.Files), 256, number)
	l.Processes, l.Files = int(processes), int(files)
	switch {
	case len(wrong) > 0:
		return invalidf("limits too low for a desktop: %s", strings.Join(wrong, ", "))
	case machine > 0 && l.Memory > machine:
		return invalidf("a desktop cannot have %s of memory on a machine of %s", mebibytes(l.Memory), mebibytes(machine))
	case l.Disk > l.Memory:
		return invalidf("a desktop's disk is in its memory, so it cannot have %s of disk in %s of memory", mebibytes(l.Disk), mebibytes(l.Memory))
	}
	return nil
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// machineMemory is the machine's memory in bytes, or 0 where it cannot be told.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
