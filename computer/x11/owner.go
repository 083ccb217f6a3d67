package x11

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// owner is a window that stands for this connection. What the connection changes on the
// display it notes on the root window with its owner, so that whoever comes later can tell
// whether the one who must undo the change is still there.
//
// A window's number can come again once its client has gone, so an owner also has a
// number that is drawn at random, kept in a property of the window.
type owner struct {
	window xproto.Window
	token  uint32
}

const ownerProperty = "_LOUPE_OWNER"

// newOwner makes the window. It is never shown and ends with the connection.
func newOwner(ctx context.Context, l *link) (owner, error) {
	mark, err := l.atom(ctx, ownerProperty)
	if err != nil {
		return owner{}, err
	}
	var token [4]byte
	_, _ = rand.Read(token[:]) // it never fails
	window, err := await(ctx, l, func() (xproto.Window, error) {
		window, err := xproto.NewWindowId(l.x)
		if err != nil {
			return 0, err
		}
		err = xproto.CreateWindowChecked(l.x, 0, window, l.root, -1, -1, 1, 1, 0, xproto.WindowClassInputOnly,
			xproto.WindowNone, xproto.CwOverrideRedirect, []uint32{1}).Check()
		if err != nil {
			return 0, err
		}
		return window, xproto.ChangePropertyChecked(l.x, xproto.PropModeReplace, window, mark,
			xproto.AtomCardinal, 32, 1, token[:]).Check()
	})
	if err != nil {
		return owner{}, fmt.Errorf("making the window that stands for the connection: %w", err)
	}
	return owner{window: window, token: binary.LittleEndian.Uint32(token[:])}, nil
}

// alive reports whether the connection that an owner stands for still exists.
func (l *link) alive(ctx context.Context, o owner) (bool, error) {
	mark, err := l.atom(ctx, ownerProperty)
	if err != nil {
		return false, err
	}
	values, err := l.numbers(ctx, o.window, mark)
	if isRefusal(err) { // there is no such window
		return false, nil
	}
	return err == nil && len(values) == 1 && values[0] == o.token, err
}

// atom returns the number of a name.
func (l *link) atom(ctx context.Context, name string) (xproto.Atom, error) {
	reply, err := await(ctx, l, func() (*xproto.InternAtomReply, error) {
		return xproto.InternAtom(l.x, false, uint16(len(name)), name).Reply()
	})
	if err != nil {
		return 0, fmt.Errorf("asking for the number of %s: %w", name, err)
	}
	return reply.Atom, nil
}

// numbers returns a property of four-byte numbers; it has none when there is no such
// property.
func (l *link) numbers(ctx context.Context, window xproto.Window, property xproto.Atom) ([]uint32, error) {
	reply, err := await(ctx, l, func() (*xproto.GetPropertyReply, error) {
		return xproto.GetProperty(l.x, false, window, property, xproto.GetPropertyTypeAny, 0, 1<<20).Reply()
	})
	if err != nil || reply.Format != 32 {
		return nil, err
	}
	var values []uint32
	for b := reply.Value; len(b) >= 4; b = b[4:] {
		values = append(values, xgb.Get32(b))
	}
	return values, nil
}

// setNumbers sets a property of four-byte numbers, or deletes it when there are none.
func (l *link) setNumbers(ctx context.Context, window xproto.Window, property xproto.Atom, values []uint32) error {
	_, err := await(ctx, l, func() (struct{}, error) {
		if len(values) == 0 {
			return struct{}{}, xproto.DeletePropertyChecked(l.x, window, property).Check()
		}
		return struct{}{}, xproto.ChangePropertyChecked(l.x, xproto.PropModeReplace, window, property,
			xproto.AtomCardinal, 32, uint32(len(values)), u32(nil, values...)).Check()
	})
	return err
}

// isRefusal reports whether an error is the server's answer to a request that it did not
// fulfil, as against a connection that broke.
func isRefusal(err error) bool {
	_, ok := err.(xgb.Error) //nolint:errorlint // the library returns it as it is
	return ok
}
