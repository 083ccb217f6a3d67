//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

// LiveView is a web page on which people see a desktop and take its mouse and keyboard. It
// ends with its context, with Close, and with the desktop. Its methods may be called by several
// goroutines at once.
type LiveView struct {
	view   *liveview.View
	gate   *liveview.Gate
	listen net.Listener
	life   context.Context
	end    context.CancelFunc
	tasks  sync.WaitGroup

	mu  sync.Mutex
	err error
}

// ErrAddress is what the error of [Desktop.LiveView] wraps when another address would do.
var ErrAddress = liveview.ErrAddress

// viewTime bounds the start of the VNC server.
const viewTime = 10 * time.Second

// LiveView serves the live view on an address of the loopback interface, HOST:PORT, where
// port 0 is any that is free. It needs x11vnc and novnc; without them the error wraps
// [ErrMissing].
//
// The page is behind a one-time password; see [LiveView.URL]. used, when not nil, is called
// after one was used.
func (d *Desktop) LiveView(ctx context.Context, address string, used func()) (*LiveView, error) {
	l, err := liveview.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	v := &LiveView{listen: l, life: life, end: end}
	password := liveview.NewVNCPassword()
	socket := d.at.Runtime + "/vnc"
	log := d.log
	v.gate = liveview.NewGate(&liveview.GateOptions{Title: d.label(), Spent: used, Log: log})
	v.view, err = liveview.New(&liveview.Options{
		Dial:        func(ctx context.Context) (net.Conn, error) { return d.dial(ctx, socket) },
		VNCPassword: password, Name: d.label(), Clipboard: clipboard{d}, Gate: v.gate, Log: log,
	})
	if err != nil {
		end()
		_ = l.Close()
		var missing *liveview.MissingError
		if errors.As(err, &missing) {
			err = &sentence{kind: ErrMissing, text: err.Error(), cause: err}
		}
		return nil, err
	}
	stopped := make(chan error, 1)
	v.tasks.Go(func() { stopped <- d.serveVNC(life, socket, password) })
	if err := d.awaitVNC(life, socket, stopped); err != nil {
		end()
		_ = l.Close()
		v.tasks.Wait()
		v.view.Close()
		return nil, err
	}
	context.AfterFunc(life, func() { _ = l.Close() })
	v.tasks.Go(func() {
		select {
		case <-d.peer.Done():
			v.fail(ErrEnded)
		case <-life.Done():
		}
	})
	v.tasks.Go(func() {
		select {
		case err := <-stopped:
			v.fail(err)
		case <-life.Done():
		}
	})
	v.tasks.Go(func() { v.fail(liveview.Serve(life, l, v.view)) })
	return v, nil
}

// serveVNC runs the VNC server inside until the context ends.
func (d *Desktop) serveVNC(ctx context.Context, socket, password string) error {
	file := socket + "-password"
	// The server removes the file when it has read it.
	args := liveview.VNCArgs(liveview.VNCOptions{Display: d.at.Display, Socket: socket, Password: "rm:" + file, NoSharedMemory: d.at.Open})
	c := d.Command("sh", append([]string{"-c", `umask 077; rm -f "$1"; cat >"$1" && shift && exec x11vnc "$@"`, "sh", file}, args...)...)
	c.Stdin = strings.NewReader(password + "\n")
	said := &guest.Tail{}
	c.Stdout, c.Stderr = said, said
	err := c.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == 127 {
		return &sentence{kind: ErrMissing, cause: err,
			text: "x11vnc is not installed, which shows the desktop; loupe doctor says how to install it"}
	}
	return fmt.Errorf("the VNC server (x11vnc) has ended (%v): %s", err, guest.LastLine(said.String()))
}

// awaitVNC waits until the VNC server takes connections.
func (d *Desktop) awaitVNC(ctx context.Context, socket string, stopped <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		conn, err := d.dial(ctx, socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-look.C:
		case err := <-stopped:
			return d.ended(err)
		case <-ctx.Done():
			return d.ended(fmt.Errorf("the VNC server (x11vnc) did not start: %w", ctx.Err()))
		}
	}
}

// fail ends the live view. The first reason counts.
func (v *LiveView) fail(reason error) {
	v.mu.Lock()
	if v.err == nil {
		v.err = reason
	}
	v.mu.Unlock()
	v.end()
}

// URL returns a link that lets one browser in, once: it has a new one-time password in its
// fragment. Who has used it stays signed in until the live view ends.
func (v *LiveView) URL() string { return v.gate.URL(v.listen.Addr()) }

// LastInput is when a person last used mouse or keyboard through the page, zero if never.
func (v *LiveView) LastInput() time.Time { return v.view.LastInput() }

// Holding reports whether a person holds a button or a key down through the page.
func (v *LiveView) Holding() bool { return v.view.Holding() }

// Done is closed when the live view ends; Close then says why it ended by itself.
func (v *LiveView) Done() <-chan struct{} { return v.life.Done() }

// Close ends the live view and returns when all viewers have gone. The error is why it had
// ended by itself, if it had.
func (v *LiveView) Close() error {
	v.end()
	v.tasks.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}
