package x11

import (
	"context"
	"slices"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"
)

// An X server that is not told otherwise (-noreset) starts afresh when its last client
// leaves: the pointer goes to the middle, and keyboard layout, properties and background
// are lost. A series of short programs on such a display would lose all of that between any
// two. So a Display that leaves as the last client leaves a window behind, which is never
// shown and counts as a client: RetainPermanent, in the terms of the protocol. The next
// Display removes it, so that there is never more than one.

// keptName names the property that the window is found by: the root window has it, with
// the window as its value, and so has the window itself. A number that has come to mean
// something else since cannot pass for it.
const keptName = "_LOUPE_KEPT"

// removeKept removes the window that an earlier Display left behind, and with it the client
// that it counts as.
func (d *Display) removeKept(ctx context.Context) error {
	_, err := await(ctx, d.link, func() (struct{}, error) {
		atom, err := xproto.InternAtom(d.x, true, uint16(len(keptName)), keptName).Reply()
		if err != nil || atom.Atom == xproto.AtomNone {
			return struct{}{}, err
		}
		kept, ok := d.keptBy(d.root, atom.Atom)
		if !ok {
			return struct{}{}, nil
		}
		if itself, ok := d.keptBy(kept, atom.Atom); ok && itself == kept && kept != d.root {
			xproto.KillClient(d.x, uint32(kept))
		}
		return struct{}{}, xproto.DeletePropertyChecked(d.x, d.root, atom.Atom).Check()
	})
	return err
}

// keptBy reads the property of a window. A window that is gone has none.
func (d *Display) keptBy(window xproto.Window, property xproto.Atom) (xproto.Window, bool) {
	reply, err := xproto.GetProperty(d.x, false, window, property, xproto.AtomWindow, 0, 1).Reply()
	if err != nil || reply.Format != 32 || len(reply.Value) != 4 {
		return 0, false
	}
	return xproto.Window(xgb.Get32(reply.Value)), true
}

// keep leaves a window behind when the server would otherwise start afresh. It must be the
// last that is done on the connection: whatever else is left would stay for good. Any
// failure means that nothing is left.
//
// A server that was started with -noreset needs none of it, and one with -terminate should
// end with its last client; both are told by the server's command line, where that can be
// seen. Where it cannot, a server with -terminate is kept from ending until another
// program's connection to it ends after the next Display has been closed, or it is killed.
func (d *Display) keep(ctx context.Context) {
	arguments := peerArguments(d.socket)
	if slices.Contains(arguments, "-noreset") || slices.Contains(arguments, "-terminate") {
		return
	}
	_, counts, err := d.extension(ctx, "X-Resource")
	if err != nil {
		return
	}
	_, _ = await(ctx, d.link, func() (struct{}, error) {
		if counts {
			clients, err := res.QueryClients(d.x).Reply()
			if err != nil || len(clients.Clients) > 2 { // the server itself and this one
				return struct{}{}, err
			}
		}
		atom, err := xproto.InternAtom(d.x, false, uint16(len(keptName)), keptName).Reply()
		if err != nil {
			return struct{}{}, err
		}
		// Windows by which others would take this connection for alive.
		tree, err := xproto.QueryTree(d.x, d.root).Reply()
		if err != nil {
			return struct{}{}, err
		}
		for _, w := range tree.Children {
			if uint32(w)&^d.setup.ResourceIdMask == d.setup.ResourceIdBase {
				xproto.DestroyWindow(d.x, w)
			}
		}
		window, err := xproto.NewWindowId(d.x)
		if err != nil {
			return struct{}{}, err
		}
		value := make([]byte, 4)
		xgb.Put32(value, uint32(window))
		xproto.CreateWindow(d.x, 0, window, d.root, -1, -1, 1, 1, 0, xproto.WindowClassInputOnly, 0,
			xproto.CwOverrideRedirect, []uint32{1})
		for _, w := range [...]xproto.Window{window, d.root} {
			err := xproto.ChangePropertyChecked(d.x, xproto.PropModeReplace, w, atom.Atom, xproto.AtomWindow, 32, 1, value).Check()
			if err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, xproto.SetCloseDownModeChecked(d.x, xproto.CloseDownRetainPermanent).Check()
	})
}
