//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// desk is the desktop on a display that runs: window manager, panel, applications.
type desk struct {
	guest  *guest
	config *Config
	server *program
	bus    *program

	x       *xgb.Conn
	root    xproto.Window
	atoms   map[string]xproto.Atom
	changes chan struct{} // the root window's properties, or a window, have changed

	mu   sync.Mutex
	apps []*app
	seen map[xproto.Window]bool

	coming map[xproto.Window]coming
	raised time.Time // when the last application was brought to the front
}

// app is an application that was started.
type app struct {
	App
	program *program
	began   time.Time
	shown   bool // its first window was
	window  xproto.Window
}

// run brings the desktop up and watches it until the context ends.
func (d *desk) run(ctx context.Context) {
	if err := d.bring(ctx); err != nil {
		if ctx.Err() == nil {
			d.guest.host.Event(EventFailed, Failed{Text: err.Error()})
		}
		return
	}
	d.watch(ctx)
}

func (d *desk) bring(ctx context.Context) error {
	if err := d.connect(); err != nil {
		return err
	}
	context.AfterFunc(ctx, d.x.Close)
	d.keepStarted(ctx, "dbus-daemon", d.bus, func() (*program, error) { return d.guest.startBus(ctx, d.config) })
	if err := d.startManager(ctx); err != nil {
		return err
	}
	if len(d.config.Panel) > 0 {
		d.keep(ctx, d.config.Panel, nil)
		if err := d.until(ctx, "the panel was not drawn", d.hasPanel); err != nil {
			return err
		}
	}
	d.guest.host.Event(EventReady, struct{}{})
	for _, a := range d.config.Apps {
		d.startApp(ctx, a)
	}
	return nil
}

// connect connects to the display as any program, and sets what is the display's own: the
// background, the resources.
func (d *desk) connect() error {
	xgb.Logger.SetOutput(discard{})
	// The library finds the cookie by this process's own environment.
	if err := os.Setenv("XAUTHORITY", authorityPath(d.config)); err != nil {
		return err
	}
	var err error
	if d.x, err = xgb.NewConnDisplay(d.guest.display); err != nil {
		return fmt.Errorf("the display refuses its own user: %w", err)
	}
	d.root = xproto.Setup(d.x).DefaultScreen(d.x).Root
	d.atoms, d.seen, d.coming = map[string]xproto.Atom{}, map[xproto.Window]bool{}, map[xproto.Window]coming{}
	for _, name := range []string{"_NET_SUPPORTING_WM_CHECK", "_NET_CLIENT_LIST", "_NET_ACTIVE_WINDOW", "_NET_WM_WINDOW_TYPE", "_NET_WM_WINDOW_TYPE_DOCK", "_NET_WM_PID"} {
		reply, err := xproto.InternAtom(d.x, false, uint16(len(name)), name).Reply()
		if err != nil {
			return fmt.Errorf("naming %s: %w", name, err)
		}
		d.atoms[name] = reply.Atom
	}
	xproto.ChangeWindowAttributes(d.x, d.root, xproto.CwBackPixel|xproto.CwEventMask,
		[]uint32{d.config.Colour, xproto.EventMaskPropertyChange | xproto.EventMaskSubstructureNotify})
	xproto.ClearArea(d.x, false, d.root, 0, 0, 0, 0)
	if text := d.config.Resources; text != "" {
		xproto.ChangeProperty(d.x, xproto.PropModeReplace, d.root, xproto.AtomResourceManager, xproto.AtomString, 8, uint32(len(text)), []byte(text))
	}
	d.changes = make(chan struct{}, 1)
	d.guest.tasks.Go(func() {
		for {
			event, failure := d.x.WaitForEvent()
			if event == nil && failure == nil { // the connection has ended
				return
			}
			select {
			case d.changes <- struct{}{}:
			default: // one is waiting to be seen
			}
		}
	})
	return nil
}

// bringTime bounds each step of bringing a desktop up.
const bringTime = 30 * time.Second

// until waits until something holds on the display, looking whenever something has changed.
// What changes within a window is not told, so it looks from time to time too.
func (d *desk) until(ctx context.Context, otherwise string, holds func() bool) error {
	deadline := time.NewTimer(bringTime)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-d.changes:
		case <-look.C:
		case <-d.server.done:
			return d.serverEnded()
		case <-deadline.C:
			return fmt.Errorf("%s within %v", otherwise, bringTime)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (d *desk) serverEnded() error {
	text := "the display's server (Xvfb) " + d.server.how()
	if said := LastLine(d.server.output.String()); said != "" {
		text += "; it said: " + said
	}
	return errors.New(text)
}

// startManager starts the first window manager that there is, and waits until it announces
// itself.
func (d *desk) startManager(ctx context.Context) error {
	for _, command := range d.config.Managers {
		if _, err := lookPath(command[0], d.guest.env); err != nil {
			continue
		}
		d.keep(ctx, command, d.config.ManagerEnv)
		return d.until(ctx, command[0]+" did not take the display over", d.hasManager)
	}
	return errors.New("there is no window manager; install mutter or openbox")
}

// Bounds of starting a part of the desktop again: one that ends several times, and each time
// soon, is not started any more.
const (
	quickEnds = 3
	soon      = 10 * time.Second
)

// keep runs a part of the desktop, and starts it again when it ends.
func (d *desk) keep(ctx context.Context, command, env []string) {
	d.keepStarted(ctx, command[0], nil, func() (*program, error) {
		return d.guest.start(&exec.Cmd{Path: command[0], Args: command}, env...)
	})
}

// keepStarted is keep for a part that may run already.
func (d *desk) keepStarted(ctx context.Context, name string, p *program, start func() (*program, error)) {
	d.guest.tasks.Go(func() {
		for quick := 0; ; {
			began := time.Now()
			if p == nil {
				var err error
				if p, err = start(); err != nil {
					if ctx.Err() == nil && !d.ended() {
						d.guest.host.Event(EventExit, Exit{Name: name, Code: -1, Text: err.Error()})
					}
					return
				}
			}
			select {
			case <-p.done:
			case <-ctx.Done():
				return
			}
			if d.ended() || ctx.Err() != nil { // with the display, which says more
				return
			}
			if quick++; time.Since(began) > soon {
				quick = 1
			}
			exit := Exit{Name: name, Text: name + " " + p.how(), Output: p.output.String(), Restart: quick < quickEnds}
			exit.Code, _ = p.code()
			d.guest.host.Event(EventExit, exit)
			if !exit.Restart {
				return
			}
			p = nil
		}
	})
}

// ended reports whether the display has.
func (d *desk) ended() bool {
	select {
	case <-d.server.done:
		return true
	default:
		return false
	}
}

// startApp starts an application and watches for its end.
func (d *desk) startApp(ctx context.Context, a App) {
	running := &app{App: a, began: time.Now()}
	p, err := d.guest.start(&exec.Cmd{Path: a.Command[0], Args: a.Command})
	if err != nil {
		d.guest.host.Event(EventExit, Exit{Name: a.Name, App: true, Early: true, Code: -1, Text: err.Error()})
		return
	}
	running.program = p
	d.mu.Lock()
	d.apps = append(d.apps, running)
	d.mu.Unlock()
	d.guest.tasks.Go(func() {
		select {
		case <-p.done:
		case <-ctx.Done():
			return
		}
		if d.ended() {
			return
		}
		code, _ := p.code()
		d.mu.Lock()
		early := !running.shown
		d.mu.Unlock()
		if early && code == 0 && !d.leftNothing(ctx, running) {
			return // a launcher, whose application goes on
		}
		d.guest.host.Event(EventExit, Exit{Name: a.Name, App: true, Early: early, Code: code, Text: a.Name + " " + p.how(), Output: p.output.String()})
	})
}

// handOver is how long an application that has ended well, and left nothing running, may take
// to show its window all the same: what ran already may do so in its place.
const handOver = 5 * time.Second

// leftNothing waits until an application that has ended has a window, or none will come of it.
func (d *desk) leftNothing(ctx context.Context, a *app) bool {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for last := time.Now(); time.Since(last) < handOver; {
		select {
		case <-look.C:
		case <-d.server.done:
			return false
		case <-ctx.Done():
			return false
		}
		d.mu.Lock()
		shown := a.shown
		d.mu.Unlock()
		if shown {
			return false
		}
		if sessionGoesOn(a.program.cmd.Process.Pid) {
			last = time.Now()
		}
	}
	return true
}

// watch reports first windows, and the end of the display.
func (d *desk) watch(ctx context.Context) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		d.findWindows()
		drawing := look.C // what is drawn in a window is told to nobody else
		if len(d.coming) == 0 {
			drawing = nil
		}
		select {
		case <-d.changes:
		case <-drawing:
		case <-d.server.done:
			d.guest.host.Event(EventFailed, Failed{Text: d.serverEnded().Error()})
			return
		case <-ctx.Done():
			d.server.kill()
			return
		}
	}
}

// coming is the first window of an application, which is not yet there for a user.
type coming struct {
	app   *app
	since time.Time
}

// shownTime is how long a window may be empty, or without the focus, until it counts as
// shown all the same: it may be meant so.
const shownTime = 2 * time.Second

// findWindows tells of the first windows of applications, when each can be used: it is on
// the screen, has been drawn, and the keyboard goes somewhere.
func (d *desk) findWindows() {
	list := d.windows(d.root, "_NET_CLIENT_LIST")
	for _, window := range list {
		if d.seen[window] {
			continue
		}
		instance, class := d.class(window)
		if instance == "" && class == "" {
			continue // it has just been made
		}
		d.seen[window] = true
		if d.isDock(window) {
			continue
		}
		if a := d.owner(instance, class, d.cardinal(window, "_NET_WM_PID")); a != nil {
			a.window = window
			d.coming[window] = coming{app: a, since: time.Now()}
		}
	}
	for window, c := range d.coming {
		if !slices.Contains(list, window) { // it has gone, as a splash screen does
			delete(d.coming, window)
			delete(d.seen, window)
			d.mu.Lock()
			c.app.shown = false
			d.mu.Unlock()
			continue
		}
		active := d.active()
		there := active != 0 && d.isDrawn(window, window == active) // others may be covered
		if !d.isViewable(window) || !there && time.Since(c.since) < shownTime {
			continue
		}
		if len(d.coming) == 1 && !d.arranged() {
			continue
		}
		delete(d.coming, window)
		d.guest.host.Event(EventWindow, Window{App: c.app.Name, Took: time.Since(c.app.began)})
	}
}

// arranged reports whether the application that was named last is in front and has the
// keyboard. Which one comes up last is chance, so that one is brought there when the first
// windows of all are there.
func (d *desk) arranged() bool {
	d.mu.Lock()
	all := len(d.apps) == len(d.config.Apps) && len(d.apps) > 1
	var last xproto.Window
	for _, a := range d.apps {
		all, last = all && a.shown && a.window != 0, a.window
	}
	d.mu.Unlock()
	if !all {
		return true
	}
	if d.raised.IsZero() {
		d.raised = time.Now()
		d.activate(last)
	}
	return time.Since(d.raised) > shownTime || d.active() == last && d.isDrawn(last, true)
}

// owner finds the application that has no window yet and whose window this is, and marks it.
func (d *desk) owner(instance, class string, pid int) *app {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found *app
	for _, a := range d.apps {
		if a.shown {
			continue
		}
		for _, c := range a.Class {
			if strings.EqualFold(c, instance) || strings.EqualFold(c, class) {
				a.shown = true
				return a
			}
		}
		if found == nil && pid > 0 && (a.program.cmd.Process.Pid == pid || slices.Contains(Descendants(a.program.cmd.Process.Pid), pid)) {
			found = a
		}
	}
	if found == nil { // an application whose class nobody knows takes what nobody else has
		for _, a := range d.apps {
			if !a.shown && len(a.Class) == 0 {
				found = a
				break
			}
		}
	}
	if found != nil {
		found.shown = true
	}
	return found
}
