package x11

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"image"
	"sync"

	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
)

// capturer takes pictures of the display.
type capturer struct {
	format  pixelFormat
	colours colours // of a TrueColor display, where they never change
	cursor  bool    // the pointer can be drawn in
	shared  bool    // shared memory may be tried; of the goroutine that captures

	mu      sync.Mutex // Close may come while pixels are being read from the segment
	segment shm.Seg
	memory  []byte // nil without a segment; reused from capture to capture
	closed  bool
}

func (d *Display) newCapturer(ctx context.Context) (*capturer, error) {
	c := &capturer{}
	var known bool
	if c.format, known = rootFormat(d.setup, d.screen); !known {
		return nil, fmt.Errorf("the display lays out its pixels in a way that is not known here: visual class %d with %d bits in %d",
			c.format.class, c.format.depth, c.format.bits)
	}
	if c.format.class == xproto.VisualClassTrueColor {
		c.colours = c.format.trueColours()
	}
	if !d.options.NoSharedMemory {
		_, present, err := d.extension(ctx, "MIT-SHM")
		if err != nil {
			return nil, err
		}
		if c.shared = present; !present {
			d.missing = append(d.missing, "MIT-SHM")
		}
	}
	var err error
	c.cursor, err = d.prepareCursor(ctx)
	return c, err
}

// closeCapturer gives the shared memory back, here and in the server.
func (d *Display) closeCapturer(ctx context.Context) {
	c := d.capturer
	c.mu.Lock()
	attached := c.memory != nil
	c.closed = true
	c.free()
	c.mu.Unlock()
	if attached {
		_, _ = await(ctx, d.link, func() (struct{}, error) {
			return struct{}{}, shm.DetachChecked(d.x, c.segment).Check()
		})
	}
}

// free gives the shared memory back; mu is held.
func (c *capturer) free() {
	if c.memory != nil {
		freeSegment(c.memory)
		c.memory = nil
	}
}

// Capture returns the pixels of a region of the display, in display pixels, with the pointer
// drawn in where the display has XFIXES. The image belongs to the caller. Only the region is
// transferred, through shared memory where possible. A region that is empty, or that does not
// lie within the display as it is now, is an error.
//
// The colours are those that the screen itself has. On a display with a palette they are
// looked up in the palette that is installed at the moment. What an application shows with
// another palette or another pixel format than the screen's may have wrong colours.
func (d *Display) Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	m, err := d.capture(ctx, region)
	if err != nil {
		return nil, fmt.Errorf("capturing the display: %w", err)
	}
	return m, nil
}

func (d *Display) capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	// Coordinates are 16 bits in the protocol.
	if region.Empty() || !region.In(image.Rect(0, 0, 1<<15, 1<<15)) {
		return nil, fmt.Errorf("there is no region %v on a display", region)
	}
	d.wake()
	m, err := d.transfer(ctx, region)
	var mismatch xproto.MatchError
	if errors.As(err, &mismatch) {
		// The server refuses a region that leaves the display: it has become smaller.
		size, sizeErr := d.Size(ctx)
		if sizeErr != nil {
			return nil, sizeErr
		}
		if !region.In(image.Rectangle{Max: size}) {
			return nil, fmt.Errorf("the display is %d x %d pixels now and does not contain the region %v", size.X, size.Y, region)
		}
		m, err = d.transfer(ctx, region) // it has grown again since
	}
	return m, err
}

// transfer brings the region's pixels here.
func (d *Display) transfer(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	c := d.capturer
	colours := c.colours
	if c.format.class != xproto.VisualClassTrueColor {
		var err error
		if colours, err = d.palette(ctx); err != nil {
			return nil, err
		}
	}
	if c.shared {
		m, err := d.transferShared(ctx, region, colours)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, computer.ErrClosed):
			return m, err
		case errors.As(err, new(xproto.MatchError)):
			return nil, err
		}
		// The server is on another machine, in another namespace or of another user, or
		// memory is short: do without from now on.
		c.shared = false
		c.mu.Lock()
		c.free()
		c.mu.Unlock()
	}
	return d.transferSocket(ctx, region, colours)
}

// shot is what the server answers to one capture.
type shot struct {
	strips [][]byte // through the socket
	cursor *xfixes.GetCursorImageReply
}

// transferShared lets the server write the pixels into shared memory.
func (d *Display) transferShared(ctx context.Context, region image.Rectangle, colours colours) (*image.RGBA, error) {
	m := image.NewRGBA(image.Rectangle{Max: region.Size()})
	cursor, err := d.readShared(ctx, region, true, func(data []byte) {
		d.capturer.format.decode(m, 0, data, colours)
	})
	if err != nil {
		return nil, err
	}
	if cursor != nil {
		drawCursor(m, region.Min, cursor)
	}
	return m, nil
}

// readShared lets the server write a region's pixels into shared memory and has them read
// there, in the server's format. The memory must not be touched after read has returned.
func (d *Display) readShared(ctx context.Context, region image.Rectangle, pointer bool, read func(data []byte)) (*xfixes.GetCursorImageReply, error) {
	c := d.capturer
	size := c.format.stride(region.Dx()) * region.Dy()
	if err := d.provideSegment(ctx, size); err != nil {
		return nil, err
	}
	s, err := await(ctx, d.link, func() (s shot, err error) {
		pixels := shm.GetImage(d.x, xproto.Drawable(d.root), int16(region.Min.X), int16(region.Min.Y),
			uint16(region.Dx()), uint16(region.Dy()), allPlanes, xproto.ImageFormatZPixmap, c.segment, 0)
		if pointer {
			// Asked for in the same breath, so that the pointer is where it was.
			cursor := d.askCursor()
			defer func() { s.cursor = cursor() }()
		}
		_, err = pixels.Reply()
		return s, err
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.memory) < size {
		return nil, computer.ErrClosed
	}
	read(c.memory[:size])
	return s.cursor, nil
}

const allPlanes = 0xffffffff

// transferSocket lets the server send the pixels through the connection, a strip of rows at
// a time: a reply is a single piece of memory on both sides, and the largest displays would
// ask much of it. All strips are asked for before the first is read, so that the server
// answers them in one go and they show one moment.
func (d *Display) transferSocket(ctx context.Context, region image.Rectangle, colours colours) (*image.RGBA, error) {
	c := d.capturer
	stride := c.format.stride(region.Dx())
	rows := max(1, stripSize/stride)
	s, err := await(ctx, d.link, func() (s shot, err error) {
		var cookies []xproto.GetImageCookie
		for y := region.Min.Y; y < region.Max.Y; y += rows {
			cookies = append(cookies, xproto.GetImage(d.x, xproto.ImageFormatZPixmap, xproto.Drawable(d.root),
				int16(region.Min.X), int16(y), uint16(region.Dx()), uint16(min(rows, region.Max.Y-y)), allPlanes))
		}
		cursor := d.askCursor()
		for _, cookie := range cookies {
			reply, replyErr := cookie.Reply()
			if replyErr != nil {
				err = errors.Join(err, replyErr)
				continue
			}
			s.strips = append(s.strips, reply.Data)
		}
		s.cursor = cursor()
		return s, err
	})
	if err != nil {
		return nil, err
	}
	m := image.NewRGBA(image.Rectangle{Max: region.Size()})
	for i, strip := range s.strips {
		want := stride * min(rows, region.Dy()-i*rows)
		if len(strip) < want {
			return nil, fmt.Errorf("the display sent %d bytes of a picture where %d were due", len(strip), want)
		}
		c.format.decode(m, i*rows, strip[:want], colours)
	}
	if s.cursor != nil {
		drawCursor(m, region.Min, s.cursor)
	}
	return m, nil
}

const stripSize = 16 << 20

// palette asks for the colours of a display whose pixels go by a colormap: the one that is
// installed, or else the screen's own.
func (d *Display) palette(ctx context.Context) (colours, error) {
	f := d.capturer.format
	entries, err := await(ctx, d.link, func() ([]xproto.Rgb, error) {
		maps := []xproto.Colormap{d.screen.DefaultColormap}
		if installed, err := xproto.ListInstalledColormaps(d.x, d.root).Reply(); err == nil && len(installed.Cmaps) > 0 {
			maps = append([]xproto.Colormap{installed.Cmaps[0]}, maps...)
		}
		pixels := make([]uint32, f.paletteSize())
		for i := range pixels {
			pixels[i] = f.palettePixel(i)
		}
		var err error
		for _, m := range maps {
			var reply *xproto.QueryColorsReply
			// One that is installed for another visual may have too few entries.
			if reply, err = xproto.QueryColors(d.x, m, pixels).Reply(); err == nil {
				return reply.Colors, nil
			}
		}
		return nil, err
	})
	if err != nil {
		return colours{}, fmt.Errorf("asking for the palette: %w", err)
	}
	return f.paletteColours(entries), nil
}

// provideSegment sees to it that the server shares memory of at least so many bytes with us.
func (d *Display) provideSegment(ctx context.Context, size int) error {
	c := d.capturer
	if len(c.memory) >= size {
		return nil
	}
	display, err := d.Size(ctx)
	if err != nil {
		return err
	}
	// Enough for the whole display: the next region may be larger.
	size = max(size, c.format.stride(display.X)*display.Y, len(nonce{}))
	id, memory, err := newSegment(size)
	if err != nil {
		return err
	}
	var mark nonce
	_, _ = rand.Read(mark[:]) // it never fails
	copy(memory, mark[:])
	segment, err := await(ctx, d.link, func() (shm.Seg, error) {
		// Nothing in here touches the memory: it is gone when the context ends first.
		segment, err := shm.NewSegId(d.x)
		if err != nil {
			return 0, err
		}
		if err := shm.AttachChecked(d.x, segment, uint32(id), false).Check(); err != nil {
			return 0, fmt.Errorf("the display does not attach shared memory: %w", err)
		}
		if err := d.proveShared(segment, mark); err != nil {
			return 0, errors.Join(err, shm.DetachChecked(d.x, segment).Check())
		}
		return segment, nil
	})
	if err != nil {
		freeSegment(memory)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		freeSegment(memory)
		return computer.ErrClosed
	}
	if c.memory != nil {
		shm.Detach(d.x, c.segment)
		c.free()
	}
	c.segment, c.memory = segment, memory
	return nil
}

// nonce is a mark by which shared memory is recognised.
type nonce [32]byte

// proveShared makes sure that the memory that the server has attached is ours. The numbers
// of shared memory are local to an IPC namespace: a server in another one can have attached
// what has the same number there, and would overwrite it with pixels. So the server first
// only reads: the random mark at the start of our memory has to arrive in a bitmap.
func (d *Display) proveShared(segment shm.Seg, mark nonce) error {
	id, err := xproto.NewPixmapId(d.x)
	if err != nil {
		return err
	}
	context, err := xproto.NewGcontextId(d.x)
	if err != nil {
		return err
	}
	bits := uint16(8 * len(mark))
	xproto.CreatePixmap(d.x, 1, id, xproto.Drawable(d.root), bits, 1)
	xproto.CreateGC(d.x, context, xproto.Drawable(id), 0, nil)
	put := shm.PutImageChecked(d.x, xproto.Drawable(id), context, bits, 1, 0, 0, bits, 1, 0, 0, 1, xproto.ImageFormatZPixmap, 0, segment, 0)
	reply, err := xproto.GetImage(d.x, xproto.ImageFormatZPixmap, xproto.Drawable(id), 0, 0, bits, 1, allPlanes).Reply()
	xproto.FreeGC(d.x, context)
	xproto.FreePixmap(d.x, id)
	if err := errors.Join(put.Check(), err); err != nil {
		return fmt.Errorf("trying out shared memory: %w", err)
	}
	if !bytes.HasPrefix(reply.Data, mark[:]) {
		return errors.New("the display has attached shared memory that is not ours; it is in another namespace")
	}
	return nil
}
