package x11

import (
	"context"
	"fmt"
	"image"
	"os"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// Options set up a Display. The zero value is right.
type Options struct {
	// Quiet is how long the screen must be still to have settled. 50 ms when zero.
	Quiet time.Duration

	// Bound is how long Settle waits at most. 2 s when zero.
	Bound time.Duration

	// NoSharedMemory makes captures come through the socket, as they do on a display
	// without MIT-SHM or on another machine.
	NoSharedMemory bool
}

// Display is an X display. It is a [computer.Desktop] and a [computer.Settler]. Apart from
// Release and Close, which may come at any time, it is used from one goroutine at a time.
type Display struct {
	*link
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

// Open connects to the display of the given name, such as ":1", or to that of the
// environment variable DISPLAY when the name is empty. Authority comes from the file that
// XAUTHORITY names. The context bounds the opening alone. A nil o is the zero Options.
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
	if name == "" {
		name = os.Getenv("DISPLAY")
	}
	if name == "" {
		return nil, &connectError{kind: ErrNoDisplay, sentence: "no display is named and DISPLAY is not set; name one, such as :1"}
	}
	var err error
	if d.link, err = connect(ctx, name, os.Getenv); err != nil {
		return nil, err
	}
	if err := d.prepare(ctx); err != nil {
		d.breakOff()
		return nil, fmt.Errorf("preparing display %s: %w", name, err)
	}
	return d, nil
}

// prepare sets up the parts of a connected display, in the order of their dependence.
func (d *Display) prepare(ctx context.Context) (err error) {
	if err := d.removeKept(ctx); err != nil {
		return err
	}
	if err := d.keepAwake(ctx); err != nil {
		return err
	}
	if d.keyboard, err = newKeyboard(ctx, d.link); err != nil {
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

// Missing names the optional extensions that the display lacks, such as "MIT-SHM".
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

// Close releases what is held, restores what was changed and ends the connection. It
// returns within some seconds even when the server does not answer. Closing again does
// nothing.
func (d *Display) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := d.Release(ctx)
	d.keyboard.close(ctx)
	d.settler.close(ctx)
	d.closeCapturer(ctx)
	d.letSleep(ctx)
	d.keep(ctx) // the last: nothing else may be left
	d.breakOff()
	<-d.done
	return err
}

const closeTime = 5 * time.Second
