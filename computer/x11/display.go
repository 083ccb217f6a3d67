package x11

import (
	"context"
	"errors"
	"fmt"
	"image"
	"net"
	"os"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// Options set up a Display. The zero value is right. A duration that is zero or negative
// stands for its default.
type Options struct {
	// Quiet is how long the screen must be still to have settled. The default is 50 ms.
	Quiet time.Duration

	// Bound is how long Settle waits at most. The default is 2 s.
	Bound time.Duration

	// NoSharedMemory makes captures come through the socket, as they do on a display
	// without MIT-SHM or on another machine.
	NoSharedMemory bool

	// Dial, when set, makes each connection to the server: the first, and further ones
	// while the Display is open. The name that Open is given is then only what messages
	// call the display. It may be called by several goroutines at once.
	Dial func(context.Context) (net.Conn, error)

	// Cookie is the MIT-MAGIC-COOKIE-1 to show to a server reached by Dial. Without Dial
	// it is not used.
	Cookie []byte
}

// Display is an X display. It is a [computer.Desktop] and a [computer.Settler]. It is used
// from one goroutine at a time, except that Release and Close may be called at any time.
type Display struct {
	*link
	locker  *locker
	rescuer *rescuer
	options Options
	missing []string
	awake   bool // the screen saver is held off

	keyboard *keyboard
	input    *input
	capturer *capturer
	settler  *settler
}

var (
	_ computer.Desktop = (*Display)(nil)
	_ computer.Settler = (*Display)(nil)
)

// Open connects to the display of the given name, such as ":1". When the name is empty it
// connects to the display that the environment variable DISPLAY names. The authority, a
// MIT-MAGIC-COOKIE-1, is looked up in the file that the environment variable XAUTHORITY
// names, or in .Xauthority in the home directory when XAUTHORITY is not set. Where the file
// has none for the display, Open tries to connect without one.
//
// The context bounds only the opening. A nil o is the zero Options. The options are copied.
//
// The error is one sentence for a person that says what to do. It wraps [ErrNoDisplay] when
// no server was found, [ErrRefused] when there is one that lets nobody in without another
// authority, and the context's error when the context ended first. Other errors, such as that
// of a name that is not the name of a display, of a server without XTEST or of one that hangs
// up at once, wrap neither.
func Open(ctx context.Context, name string, o *Options) (*Display, error) {
	d := &Display{}
	if o != nil {
		d.options = *o
	}
	if d.options.Quiet <= 0 {
		d.options.Quiet = 50 * time.Millisecond
	}
	if d.options.Bound <= 0 {
		d.options.Bound = 2 * time.Second
	}
	a, err := d.options.address(name)
	if err != nil {
		return nil, err
	}
	if d.link, err = a.connect(ctx, os.Getenv); err != nil {
		return nil, err
	}
	another := aside{main: d.link, dial: func(ctx context.Context) (*link, error) { return a.connect(ctx, os.Getenv) }}
	d.locker, d.rescuer = &locker{aside: another}, &rescuer{aside: another}
	if err := d.prepare(ctx); err != nil {
		d.locker.close()
		d.rescuer.close()
		d.breakOff()
		return nil, fmt.Errorf("preparing display %s: %w", a.name, err)
	}
	return d, nil
}

// address is where the display of a name is, or of an empty one.
func (o *Options) address(name string) (address, error) {
	if o.Dial != nil {
		return address{name: name, given: o}, nil
	}
	if name == "" {
		name = os.Getenv("DISPLAY")
	}
	if name == "" {
		return address{}, &connectError{kind: ErrNoDisplay, sentence: "no display is named and DISPLAY is not set; name one, such as :1"}
	}
	return parseName(name)
}

// prepare sets up the parts of a connected display, in the order of their dependence.
func (d *Display) prepare(ctx context.Context) (err error) {
	if err := d.removeKept(ctx); err != nil {
		return err
	}
	if err := d.keepAwake(ctx); err != nil {
		return err
	}
	if err := d.readyXTEST(ctx); err != nil {
		return err
	}
	if d.keyboard, err = newKeyboard(ctx, d.link, d.locker); err != nil {
		return err
	}
	if d.capturer, err = d.newCapturer(ctx); err != nil {
		return err
	}
	if d.settler, err = d.newSettler(ctx); err != nil {
		return err
	}
	d.listen() // the handlers are all there now
	d.input, err = d.newInput(ctx)
	return err
}

// Missing names the optional extensions that the display lacks: "MIT-SHM", "XFIXES" and
// "DAMAGE". With Options.NoSharedMemory, MIT-SHM is not asked for and never missing. The
// slice must not be changed.
func (d *Display) Missing() []string { return d.missing }

// Size returns the display's size in pixels, as it is now.
func (d *Display) Size(ctx context.Context) (image.Point, error) {
	reply, err := await(ctx, d.link, func() (*xproto.GetGeometryReply, error) {
		return xproto.GetGeometry(d.x, xproto.Drawable(d.root)).Reply()
	})
	if err != nil {
		return image.Point{}, fmt.Errorf("asking for the display's size: %w", err)
	}
	return image.Pt(int(reply.Width), int(reply.Height)), nil
}

// Close releases what is held, restores what was changed and ends the connection. Closing
// again does nothing.
//
// When characters were typed or pressed that the layout lacks (see [Display.Type]), Close
// waits until applications have read them. One that answers window managers (_NET_WM_PING)
// and has not read them is waited for up to 30 seconds, and then the error wraps
// [ErrUnread]. One that does not answer them is waited for until it has redrawn something
// since, or for 6 seconds after the last character. From the moment that the server does
// not answer, Close takes no longer than some seconds.
func (d *Display) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := d.Release(ctx)
	if d.input != nil {
		d.input.watch.Stop()
	}
	d.keyboard.stop()
	if ctx.Err() == nil { // else the server does not answer
		unread := d.keyboard.close(closeTime)
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if errors.Is(unread, ErrUnread) {
			err = errors.Join(err, unread)
		} else if errors.Is(unread, context.DeadlineExceeded) {
			cancel()
		}
	}
	d.settler.close(ctx)
	d.closeCapturer(ctx)
	d.letSleep(ctx)
	d.locker.close()
	d.rescuer.close()
	d.keep(ctx) // the last: nothing else may be left
	d.breakOff()
	<-d.done
	return err
}

// closeTime bounds each wait of Close for the server.
const closeTime = 5 * time.Second
