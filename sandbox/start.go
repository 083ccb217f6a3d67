//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/sandbox/internal/apps"
	"github.com/loupe-tools/loupe/sandbox/internal/bwrap"
	"github.com/loupe-tools/loupe/sandbox/internal/egress"
	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/limits"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// proxyPort is where programs inside look for their proxy.
const proxyPort = 3128

// Bounds of bringing a desktop up.
const (
	startTime  = 30 * time.Second // until it can be used
	windowTime = 60 * time.Second // until the applications show their windows
)

// Start starts a desktop and returns when it can be used and each application has shown its
// first window. The desktop ends with the context, so the context must live as long as the
// desktop is wanted.
//
// A nil o is the zero Options, which are copied. The error is one sentence for a person; it
// wraps [ErrInvalid], [ErrNoSandbox], [ErrMissing], [ErrNameTaken] or [ErrEnded] where that is
// what happened. An application that ends before it has shown a window is an error.
func Start(ctx context.Context, o *Options) (*Desktop, error) {
	p, err := o.resolve()
	if err != nil {
		return nil, err
	}
	return start(ctx, p)
}

// owner is what only the process has that started the desktop.
type owner struct {
	plan     *plan
	process  *process
	scratch  string        // without a sandbox
	group    *limits.Group // nil where none can be made
	proxy    *egress.Proxy
	control  net.Listener // of a published desktop
	end      context.CancelFunc
	ignore   func() bool    // the end of the context
	tasks    sync.WaitGroup // everything that ends with the desktop
	events   eventQueue
	ready    chan struct{}
	windows  chan guest.Window
	early    chan guest.Exit
	failed   chan error // why the desktop cannot go on; the first counts
	released sync.Once
	freed    chan struct{} // closed when everything is gone
	usable   chan struct{} // closed when it can be used
	brought  chan struct{} // closed when start has come to its end, well or not
	started  time.Time
}

func start(ctx context.Context, p *plan) (_ *Desktop, err error) {
	own := &owner{plan: p, started: time.Now(),
		ready: make(chan struct{}, 1), windows: make(chan guest.Window, 64),
		early: make(chan guest.Exit, 64), failed: make(chan error, 1), brought: make(chan struct{}), usable: make(chan struct{}), freed: make(chan struct{})}
	d := &Desktop{name: p.Name, size: p.Size, log: p.Log, own: own, done: make(chan struct{}),
		at: place{Home: bwrap.Home, Runtime: bwrap.Runtime, Cookie: make([]byte, 16), Open: p.NoSandbox}}
	_, _ = rand.Read(d.at.Cookie) // never fails
	if p.Name != "" {
		if own.control, err = reserve(p.Name); err != nil { //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
			return nil, err
		}
	}
	// Not the caller's: when that ends, fail is told why before anything else ends.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	own.end = end
	if own.control != nil {
		go d.serveControl() //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
	}
	defer func() { //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
		if err != nil {
			d.fail(err)
			d.release()
		}
		close(own.brought)
	}()
	own.events.start(p.Event)
	if p.NoSandbox {
		if own.scratch, err = scratchFolder(); err != nil {
			return nil, err
		}
		d.at.Home, d.at.Runtime = filepath.Join(own.scratch, homeFolder), filepath.Join(own.scratch, runtimeFolder)
	}
	if err := d.makeGroup(); err != nil {
		return nil, err
	}
	own.proxy = egress.New(&egress.Options{Allow: p.rules, Log: p.Log, Resolver: p.network.Resolver, Dial: p.network.Dial,
		RefuseECH: true, // the browsers are told to send none, so one that comes hides something
		Attempt:   func(a egress.Attempt) { own.events.add(networkEvent(a)) }})
	listener, err := d.proxyWithoutSandbox()
	if err != nil {
		return nil, err
	}
	near, far, err := link.Pair()
	if err != nil {
		return nil, err
	}
	own.process, err = launch(p, far, own.scratch)
	_ = far.Close()
	if err != nil {
		_ = near.Close()
		return nil, err
	}
	d.peer = link.Serve(near, nil, d.hear) //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
	context.AfterFunc(life, func() { _ = d.peer.Break() })
	own.ignore = context.AfterFunc(ctx, func() { d.fail(&byContext{context.Cause(ctx)}) })
	own.tasks.Go(d.supervise)
	if own.group != nil {
		own.tasks.Go(func() { own.group.Watch(life, d.limited) })
	}

	bringing, cancel := context.WithTimeout(life, p.startTime)
	defer cancel()
	inside, err := d.boot(bringing)
	if err != nil {
		return nil, d.startError(ctx, err)
	}
	if inside != nil {
		listener = inside
	}
	own.tasks.Go(func() {
		if err := own.proxy.Serve(life, listener); err != nil && life.Err() == nil {
			d.fail(fmt.Errorf("the proxy has ended: %w", err))
		}
	})
	if d.display, err = x11.Open(bringing, d.label(), &x11.Options{Dial: d.dialDisplay, Cookie: d.at.Cookie}); err != nil {
		return nil, d.startError(ctx, err)
	}
	if size, err := d.display.Size(bringing); err != nil || size != d.size {
		return nil, d.startError(ctx, errors.Join(fmt.Errorf("the display's size is %v, and not %v", size, d.size), err))
	}
	if err := d.awaitReady(bringing); err != nil {
		return nil, d.startError(ctx, err)
	}
	if err := d.awaitWindows(life); err != nil {
		return nil, d.startError(ctx, err)
	}
	close(own.usable)
	return d, nil
}

// label is what messages call the desktop's display.
func (d *Desktop) label() string {
	if d.name == "" {
		return "of the desktop"
	}
	return d.name
}

// startError is what a caller reads of a start that failed: what the desktop said of its
// end, where it has ended.
func (d *Desktop) startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("starting the desktop: %w", ctx.Err())
	}
	var said *sentence
	if errors.As(err, &said) {
		return err
	}
	select {
	case reason := <-d.own.failed:
		if errors.Is(reason, errSandboxEnded) || errors.Is(reason, errGuestEnded) { // the process may have said more
			return d.own.process.why()
		}
		return &sentence{kind: ErrEnded, text: "the desktop did not start: " + reason.Error(), cause: reason}
	default:
	}
	if errors.Is(err, link.ErrEnded) {
		return d.own.process.why()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &sentence{kind: ErrEnded, text: fmt.Sprintf("the desktop did not come up within %v", d.own.plan.startTime), cause: err}
	}
	return fmt.Errorf("starting the desktop: %w", err)
}

// proxyWithoutSandbox makes the proxy's listener where the desktop shares the machine's
// network.
func (d *Desktop) proxyWithoutSandbox() (net.Listener, error) {
	p := d.own.plan
	if !p.NoSandbox {
		p.setup.Proxy = fmt.Sprintf("127.0.0.1:%d", proxyPort)
		return nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for programs that want the network: %w", err)
	}
	p.setup.Proxy = l.Addr().String()
	return l, nil
}

// boot tells the guest what to start. In a sandbox it returns the listener of the proxy.
func (d *Desktop) boot(ctx context.Context) (net.Listener, error) {
	if err := d.peer.Call(ctx, guest.OpHello, struct{}{}, nil); err != nil {
		return nil, err
	}
	d.own.process.find()
	if err := d.joinGroup(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(d.configuration())
	if err != nil {
		return nil, err
	}
	config, err := memoryFile(data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = config.Close() }()
	var booted guest.Booted
	var listener *os.File
	if d.own.plan.NoSandbox {
		err = d.peer.Call(ctx, guest.OpBoot, struct{}{}, &booted, config)
	} else {
		listener, err = d.peer.CallForFile(ctx, guest.OpBoot, struct{}{}, &booted, config)
	}
	if err != nil {
		return nil, err
	}
	d.at.Display = booted.Display
	d.own.process.display.Store(&booted.Display)
	if listener == nil {
		return nil, nil
	}
	defer func() { _ = listener.Close() }()
	return net.FileListener(listener)
}

// configuration is what the guest is told.
func (d *Desktop) configuration() *guest.Config {
	p := d.own.plan
	home, run := d.at.Home, d.at.Runtime
	p.setup.Home = home
	c := &guest.Config{
		Size: p.Size, DPI: dpi(p.Scale), Cookie: d.at.Cookie, Home: home, Runtime: run,
		Env: p.setup.Env(), Resources: p.setup.Resources(),
		Colour:    uint32(apps.Background.R)<<16 | uint32(apps.Background.G)<<8 | uint32(apps.Background.B),
		BusConfig: p.setup.BusConfig(),
		Managers: [][]string{
			{"mutter", "--x11", "--sm-disable"},
			{"openbox", "--config-file", p.setup.OpenboxConfig()},
		},
		ManagerEnv: p.setup.ManagerEnv(),
		Folders:    p.setup.Folders(),
		Panel:      p.setup.Panel(),
		ProxyPort:  proxyPort,
		Limits:     p.Limits.inside(),
		Grouped:    d.own.group != nil,
	}
	if p.managers != nil {
		c.Managers = p.managers
	}
	for _, f := range p.setup.Files() {
		if strings.HasPrefix(f.Path, home+"/") {
			c.Files = append(c.Files, guest.File{Path: f.Path, Mode: f.Mode, Data: f.Data})
		}
	}
	for _, a := range p.setup.Apps {
		c.Apps = append(c.Apps, guest.App{Name: a.Name, Command: a.Command, Class: a.Class})
	}
	if p.NoSandbox {
		c.ProxyPort, c.Alone, c.Scratch = 0, true, d.own.scratch
		for i, v := range c.Env {
			if strings.HasPrefix(v, "XDG_RUNTIME_DIR=") {
				c.Env[i] = "XDG_RUNTIME_DIR=" + run
			}
		}
	}
	return c
}

func dpi(scale float64) int {
	if scale == 0 {
		scale = 1
	}
	return int(96*scale + 0.5)
}

// awaitReady waits until the desktop can be used.
func (d *Desktop) awaitReady(ctx context.Context) error {
	select {
	case <-d.own.ready:
		return nil
	case <-d.peer.Done():
		return link.ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitWindows waits until every application has a window.
func (d *Desktop) awaitWindows(ctx context.Context) error {
	waiting := map[string]bool{}
	for _, a := range d.own.plan.setup.Apps {
		waiting[a.Name] = true
	}
	timer := time.NewTimer(d.own.plan.windowTime)
	defer timer.Stop()
	for len(waiting) > 0 {
		select {
		case w := <-d.own.windows:
			delete(waiting, w.App)
		case e := <-d.own.early:
			if !waiting[e.Name] {
				continue
			}
			text := "the application " + e.Text + " before it had shown a window"
			if e.Output != "" {
				text += "; it said: " + guest.LastLine(e.Output)
			}
			return &sentence{kind: ErrEnded, text: text}
		case <-timer.C:
			for name := range waiting {
				return &sentence{kind: ErrEnded, text: fmt.Sprintf("the application %s has not shown a window within %v", name, d.own.plan.windowTime)}
			}
		case <-d.peer.Done():
			return link.ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // of a nil file too
	}
}
