package x11

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// heldMark announces on the display what this connection holds down. A key that is held
// through XTEST stays down when its client is killed, and nothing tells the server to
// release it; so the next connection does.
//
// While anything is held, the root window has a property that belongs to this connection
// alone, so that connections need not take turns: its name ends in the number of the
// owner's window, of which there are only so many. Its value is the owner's window and
// token, and what is held.
type heldMark struct {
	*keyboard
	name      xproto.Atom
	held      []thing // by Send
	typed     []thing // about to be pressed and released by Type
	unlocked  byte    // modifiers that Type has taken off, to be locked again
	announced []thing
}

const markPrefix = "_LOUPE_HELD_"

// newHeldMark releases what connections that are gone have left held, and readies the mark
// of this one.
func newHeldMark(ctx context.Context, k *keyboard) (*heldMark, error) {
	if err := releaseStale(ctx, k); err != nil {
		return nil, fmt.Errorf("releasing keys that were left held: %w", err)
	}
	name, err := k.atom(ctx, fmt.Sprintf("%s%X", markPrefix, k.owner.window))
	return &heldMark{keyboard: k, name: name}, err
}

// announce says what is held from now on. It does not wait. The caller holds the input's
// lock.
func (m *heldMark) announce(held []thing) {
	m.held = held
	m.write()
}

// announceTyped says which keys are going to be pressed and released in what follows.
func (m *heldMark) announceTyped(codes []xproto.Keycode) {
	m.typed = nil
	for _, code := range codes {
		if t := (thing{heldKey, byte(code)}); !slices.Contains(m.typed, t) {
			m.typed = append(m.typed, t)
		}
	}
	m.write()
}

// announceUnlocked says which modifiers are to be locked again.
func (m *heldMark) announceUnlocked(bits byte) {
	m.unlocked = bits
	m.write()
}

// write writes the property, when it is not as it should be.
func (m *heldMark) write() {
	things := slices.Concat(m.held, m.typed)
	if m.unlocked != 0 {
		things = append(things, thing{heldLock, m.unlocked})
	}
	if slices.Equal(things, m.announced) {
		return
	}
	m.announced = things
	if len(things) == 0 {
		xproto.DeleteProperty(m.x, m.root, m.name)
		return
	}
	values := []uint32{uint32(m.owner.window), m.owner.token}
	for _, t := range things {
		values = append(values, uint32(t.kind)<<8|uint32(t.code))
	}
	xproto.ChangeProperty(m.x, xproto.PropModeReplace, m.root, m.name, xproto.AtomCardinal, 32, uint32(len(values)), u32(nil, values...))
}

// foundMark is a mark as it was found.
type foundMark struct {
	name   xproto.Atom
	owner  owner
	things []thing
}

// releaseStale releases what connections that are gone have left held, except what a
// living one holds as well.
func releaseStale(ctx context.Context, k *keyboard) error {
	found, err := marks(ctx, k.link)
	if err != nil || len(found) == 0 {
		return err
	}
	// Nobody else may press in between what has just been seen to be left over.
	return k.alone(ctx, func(ctx context.Context) error {
		found, err := marks(ctx, k.link)
		if err != nil {
			return err
		}
		var living []thing
		var stale []foundMark
		for _, m := range found {
			alive, err := k.alive(ctx, m.owner)
			switch {
			case err != nil:
				return err
			case alive:
				living = append(living, m.things...)
			default:
				stale = append(stale, m)
			}
		}
		for _, m := range stale {
			for _, t := range slices.Backward(m.things) {
				if !slices.Contains(living, t) {
					releaseThing(k, t)
				}
			}
			xproto.DeleteProperty(k.x, k.root, m.name)
		}
		return nil
	})
}

// releaseThing releases a thing that another connection held. It does not wait.
func releaseThing(k *keyboard, t thing) {
	switch {
	case t.kind == heldKey:
		xtest.FakeInput(k.x, xproto.KeyRelease, t.code, 0, 0, 0, 0, 0)
	case t.kind == heldButton:
		xtest.FakeInput(k.x, xproto.ButtonRelease, t.code, 0, 0, 0, 0, 0)
	case t.kind == heldLock && t.code == 0 && k.xkb.present:
		holdLockOff(k, false)
	case t.kind == heldLock && k.xkb.present: // of Type
		k.x.NewRequest(k.xkb.lockRequest(t.code, t.code), k.x.NewCookie(false, false))
	}
}

// marks returns the marks that the root window has.
func marks(ctx context.Context, l *link) ([]foundMark, error) {
	names, err := await(ctx, l, func() ([]xproto.Atom, error) {
		list, err := xproto.ListProperties(l.x, l.root).Reply()
		if err != nil {
			return nil, err
		}
		cookies := make([]xproto.GetAtomNameCookie, len(list.Atoms))
		for i, atom := range list.Atoms {
			cookies[i] = xproto.GetAtomName(l.x, atom)
		}
		var names []xproto.Atom
		for i, cookie := range cookies {
			name, err := cookie.Reply()
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(name.Name, markPrefix) {
				names = append(names, list.Atoms[i])
			}
		}
		return names, nil
	})
	if err != nil {
		return nil, err
	}
	var found []foundMark
	for _, name := range names {
		values, err := l.numbers(ctx, l.root, name)
		if err != nil {
			return nil, err
		}
		const head, most = 2, 256 // nobody holds so much
		if len(values) < head || len(values) > most {
			continue // it is gone already, or somebody else's
		}
		m := foundMark{name: name, owner: owner{xproto.Window(values[0]), values[1]}}
		for _, v := range values[head:] {
			m.things = append(m.things, thing{heldKind(v >> 8), byte(v)})
		}
		found = append(found, m)
	}
	return found, nil
}
