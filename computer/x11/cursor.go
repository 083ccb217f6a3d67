package x11

import (
	"context"
	"image"

	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
)

// prepareCursor finds out whether the server shows clients the pointer's image: XFIXES,
// whose requests work only once a version has been agreed on.
func (d *Display) prepareCursor(ctx context.Context) (bool, error) {
	_, present, err := d.extension(ctx, "XFIXES")
	if err != nil {
		return false, err
	}
	if !present {
		d.missing = append(d.missing, "XFIXES")
		return false, nil
	}
	_, err = await(ctx, d.link, func() (*xfixes.QueryVersionReply, error) {
		return xfixes.QueryVersion(d.x, 2, 0).Reply()
	})
	return err == nil, err
}

// askCursor asks for the pointer's image, and returns the function that waits for it. That
// returns nil when the pointer has none, is on another screen or is not to be had.
func (d *Display) askCursor() func() *xfixes.GetCursorImageReply {
	if !d.capturer.cursor {
		return func() *xfixes.GetCursorImageReply { return nil }
	}
	cookie := xfixes.GetCursorImage(d.x)
	here := func() bool { return true }
	if len(d.setup.Roots) > 1 {
		pointer := xproto.QueryPointer(d.x, d.root)
		here = func() bool {
			reply, err := pointer.Reply()
			return err == nil && reply.SameScreen
		}
	}
	return func() *xfixes.GetCursorImageReply {
		reply, err := cookie.Reply()
		if !here() || err != nil {
			return nil
		}
		return reply
	}
}

// drawCursor draws the pointer's image over m, which shows the display from origin on. Its
// pixels are alpha << 24 | red << 16 | green << 8 | blue, the colours multiplied by alpha
// already. What lies outside m is left out.
func drawCursor(m *image.RGBA, origin image.Point, c *xfixes.GetCursorImageReply) {
	width := int(c.Width)
	corner := image.Pt(int(c.X)-int(c.Xhot), int(c.Y)-int(c.Yhot)).Sub(origin)
	box := image.Rect(0, 0, width, int(c.Height)).Add(corner)
	visible := box.Intersect(m.Rect)
	if len(c.CursorImage) < width*int(c.Height) {
		return
	}
	for y := visible.Min.Y; y < visible.Max.Y; y++ {
		row := c.CursorImage[(y-box.Min.Y)*width:][:width]
		for x := visible.Min.X; x < visible.Max.X; x++ {
			v := row[x-box.Min.X]
			under := m.Pix[m.PixOffset(x, y):][:4]
			left := 255 - v>>24
			for i, shift := range [...]int{16, 8, 0} {
				mixed := v>>shift&255 + (uint32(under[i])*left+127)/255
				under[i] = uint8(min(mixed, 255))
			}
		}
	}
}
