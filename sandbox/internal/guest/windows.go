//go:build linux

package guest

import (
	"image"
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// discard is where the protocol library's own words go.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// property reads a property of a window, up to 64 KiB of it. One that is gone has none.
func (d *desk) property(window xproto.Window, name xproto.Atom) []byte {
	reply, err := xproto.GetProperty(d.x, false, window, name, xproto.GetPropertyTypeAny, 0, 16<<10).Reply()
	if err != nil {
		return nil
	}
	return reply.Value
}

// windows reads a property that lists windows.
func (d *desk) windows(window xproto.Window, name string) []xproto.Window {
	value := d.property(window, d.atoms[name])
	var found []xproto.Window
	for ; len(value) >= 4; value = value[4:] {
		found = append(found, xproto.Window(xgb.Get32(value)))
	}
	return found
}

func (d *desk) cardinal(window xproto.Window, name string) int {
	value := d.property(window, d.atoms[name])
	if len(value) < 4 {
		return 0
	}
	return int(xgb.Get32(value))
}

// class returns a window's WM_CLASS.
func (d *desk) class(window xproto.Window) (instance, class string) {
	instance, rest, _ := strings.Cut(string(d.property(window, xproto.AtomWmClass)), "\x00")
	class, _, _ = strings.Cut(rest, "\x00")
	return instance, class
}

// hasManager reports whether a window manager has announced itself: the root window names a
// window that names itself.
func (d *desk) hasManager() bool {
	check := d.windows(d.root, "_NET_SUPPORTING_WM_CHECK")
	if len(check) != 1 {
		return false
	}
	itself := d.windows(check[0], "_NET_SUPPORTING_WM_CHECK")
	return len(itself) == 1 && itself[0] == check[0]
}

// hasPanel reports whether a panel is shown and can be seen.
func (d *desk) hasPanel() bool {
	for _, window := range d.windows(d.root, "_NET_CLIENT_LIST") {
		if d.isDrawnDock(window) {
			return true
		}
	}
	tree, err := xproto.QueryTree(d.x, d.root).Reply()
	if err != nil {
		return false
	}
	for _, window := range tree.Children {
		if d.isDrawnDock(window) {
			return true
		}
	}
	return false
}

// isDock reports whether a window is a panel's.
func (d *desk) isDock(window xproto.Window) bool {
	kinds := d.windows(window, "_NET_WM_WINDOW_TYPE")
	return len(kinds) > 0 && xproto.Atom(kinds[0]) == d.atoms["_NET_WM_WINDOW_TYPE_DOCK"]
}

func (d *desk) isDrawnDock(window xproto.Window) bool {
	return d.isDock(window) && d.isViewable(window) && d.isDrawn(window, true)
}

// isViewable reports whether a window is mapped, with all those that it is in.
func (d *desk) isViewable(window xproto.Window) bool {
	attributes, err := xproto.GetWindowAttributes(d.x, window).Reply()
	return err == nil && attributes.MapState == xproto.MapStateViewable
}

// isDrawn reports whether the pixels of a window are not all the same, and, where it should
// be seen, whether they are on the screen too: a window manager that composes the screen does
// so some time after a window has been drawn. The window's upper part stands for all of it.
func (d *desk) isDrawn(window xproto.Window, seen bool) bool {
	geometry, err := xproto.GetGeometry(d.x, xproto.Drawable(window)).Reply()
	if err != nil {
		return false
	}
	at, err := xproto.TranslateCoordinates(d.x, window, d.root, 0, 0).Reply()
	if err != nil {
		return false
	}
	origin := image.Pt(int(at.DstX), int(at.DstY))
	part := image.Rect(0, 0, int(geometry.Width), min(int(geometry.Height), 64)).Add(origin).
		Intersect(image.Rectangle{Max: d.config.Size})
	own := d.pixels(window, part.Sub(origin))
	if len(own) < 8 || uniform(own) {
		return false
	}
	return !seen || alike(own, d.pixels(d.root, part))
}

// pixels reads a part of a window, four bytes a pixel, or nothing.
func (d *desk) pixels(window xproto.Window, part image.Rectangle) []byte {
	if part.Empty() {
		return nil
	}
	reply, err := xproto.GetImage(d.x, xproto.ImageFormatZPixmap, xproto.Drawable(window),
		int16(part.Min.X), int16(part.Min.Y), uint16(part.Dx()), uint16(part.Dy()), ^uint32(0)).Reply()
	if err != nil {
		return nil
	}
	return reply.Data
}

// uniform reports whether all pixels are the same.
func uniform(pixels []byte) bool {
	for rest := pixels; len(rest) >= 4; rest = rest[4:] {
		if xgb.Get32(rest) != xgb.Get32(pixels) {
			return false
		}
	}
	return true
}

// alike reports whether most pixels have the same colour: a corner may be round, a pointer in
// between, a caret blink.
func alike(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	same := 0
	for i := 0; i+4 <= len(a); i += 4 {
		if a[i] == b[i] && a[i+1] == b[i+1] && a[i+2] == b[i+2] {
			same++
		}
	}
	return same*4 >= len(a)/4*3
}

// active returns the window to which the window manager has given the keyboard, or 0.
func (d *desk) active() xproto.Window {
	active := d.windows(d.root, "_NET_ACTIVE_WINDOW")
	if len(active) == 0 {
		return 0
	}
	return active[0]
}

// activate asks the window manager to bring a window to the front and give it the keyboard.
func (d *desk) activate(window xproto.Window) {
	const bySomebodyElse = 2 // than the application itself, which might be refused
	message := xproto.ClientMessageEvent{
		Format: 32, Window: window, Type: d.atoms["_NET_ACTIVE_WINDOW"],
		Data: xproto.ClientMessageDataUnionData32New([]uint32{bySomebodyElse, xproto.TimeCurrentTime, 0, 0, 0}),
	}
	xproto.SendEvent(d.x, false, d.root, xproto.EventMaskSubstructureRedirect|xproto.EventMaskSubstructureNotify, string(message.Bytes()))
}
