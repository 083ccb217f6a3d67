package x11

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// heldMark announces on the display what this connection holds down. A key that is held
// through XTEST stays down when its client is killed, and nothing tells the server to
// release it; so the next connection does.
//
// While anything is held, the root window has a property that belongs to this connection
// alone: its name ends in the number of a window of this connection. The value is that
// window, two random numbers, and what is held. The window has the same property with
// the same numbers; it goes with the connection, and with it the sign that the owner lives.
// The number of a window is given to another one after that, the random numbers are not.
type heldMark struct {
	*link
	owner     xproto.Window
	name      xproto.Atom
	token     [2]uint32
	announced []thing
}

const markPrefix = "_LOUPE_HELD_"

// newHeldMark releases what connections that are gone have left held, and readies the mark
// of this one.
func newHeldMark(ctx context.Context, k *keyboard) (*heldMark, error) {
	l := k.link
	return await(ctx, l, func() (*heldMark, error) {
		if err := releaseStale(k); err != nil {
			return nil, fmt.Errorf("looking for keys that were left held: %w", err)
		}
		m := &heldMark{link: l}
		var random [8]byte
		_, _ = rand.Read(random[:]) // it never fails
		m.token = [2]uint32{binary.LittleEndian.Uint32(random[:]), binary.LittleEndian.Uint32(random[4:])}
		var err error
		if m.owner, err = xproto.NewWindowId(l.x); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s%X", markPrefix, m.owner)
		atom := xproto.InternAtom(l.x, false, uint16(len(name)), name)
		created := xproto.CreateWindowChecked(l.x, 0, m.owner, l.root, -1, -1, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil)
		reply, err := atom.Reply()
		if err != nil {
			return nil, err
		}
		m.name = reply.Atom
		m.write(m.owner, nil)
		return m, created.Check()
	})
}

// announce says what is held from now on. It does not wait.
func (m *heldMark) announce(things []thing) {
	if slices.Equal(things, m.announced) {
		return
	}
	m.announced = slices.Clone(things)
	if len(things) == 0 {
		xproto.DeleteProperty(m.x, m.root, m.name)
		return
	}
	m.write(m.root, things)
}

// write writes the property to a window.
func (m *heldMark) write(window xproto.Window, things []thing) {
	values := []uint32{uint32(m.owner), m.token[0], m.token[1]}
	for _, t := range things {
		values = append(values, uint32(t.kind)<<8|uint32(t.code))
	}
	xproto.ChangeProperty(m.x, xproto.PropModeReplace, window, m.name, xproto.AtomCardinal, 32, uint32(len(values)), u32(nil, values...))
}

// foundMark is a property as it was found.
type foundMark struct {
	name   xproto.Atom
	head   []byte // owner and token
	owner  xproto.Window
	things []thing
}

// releaseStale releases what connections that are gone have left held, except what a
// living one holds as well.
func releaseStale(k *keyboard) error {
	found, err := marks(k.link)
	if err != nil || len(found) == 0 {
		return err
	}
	// Nobody else may press in between what has just been seen to be left over.
	xproto.GrabServer(k.x)
	err = releaseStaleGrabbed(k)
	return errors.Join(err, xproto.UngrabServerChecked(k.x).Check())
}

func releaseStaleGrabbed(k *keyboard) error {
	l := k.link
	found, err := marks(l)
	if err != nil {
		return err
	}
	var living []thing
	found = slices.DeleteFunc(found, func(m foundMark) bool {
		reply, err := property(l, m.owner, m.name)
		alive := err == nil && slices.Equal(reply, m.head)
		if alive {
			living = append(living, m.things...)
		}
		return alive
	})
	for _, m := range found {
		for _, t := range slices.Backward(m.things) {
			if slices.Contains(living, t) {
				continue
			}
			switch t.kind {
			case heldKey:
				xtest.FakeInput(l.x, xproto.KeyRelease, t.code, 0, 0, 0, 0, 0)
			case heldButton:
				xtest.FakeInput(l.x, xproto.ButtonRelease, t.code, 0, 0, 0, 0, 0)
			case heldLock:
				if k.xkb.present {
					holdLockOff(k, false)
				}
			}
		}
		xproto.DeleteProperty(l.x, l.root, m.name)
	}
	return nil
}

// marks returns the properties of this kind that the root window has.
func marks(l *link) ([]foundMark, error) {
	list, err := xproto.ListProperties(l.x, l.root).Reply()
	if err != nil {
		return nil, err
	}
	names := make([]xproto.GetAtomNameCookie, len(list.Atoms))
	for i, atom := range list.Atoms {
		names[i] = xproto.GetAtomName(l.x, atom)
	}
	var found []foundMark
	for i, cookie := range names {
		name, err := cookie.Reply()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name.Name, markPrefix) {
			continue
		}
		const head = 12
		value, err := property(l, l.root, list.Atoms[i])
		if err != nil {
			return nil, err
		}
		if len(value) < head {
			continue // it is gone already, or somebody else's
		}
		m := foundMark{name: list.Atoms[i], head: value[:head], owner: xproto.Window(xgb.Get32(value))}
		for v := value[head:]; len(v) >= 4; v = v[4:] {
			m.things = append(m.things, thing{heldKind(v[1]), v[0]})
		}
		found = append(found, m)
	}
	return found, nil
}

// property reads a property of 32-bit numbers.
func property(l *link, window xproto.Window, name xproto.Atom) ([]byte, error) {
	const most = 1024 // numbers; nobody holds so much
	reply, err := xproto.GetProperty(l.x, false, window, name, xproto.AtomCardinal, 0, most).Reply()
	if err != nil || reply.Format != 32 {
		return nil, err
	}
	return reply.Value, nil
}
