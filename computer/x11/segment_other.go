//go:build !linux && (!darwin || ios)

package x11

import "errors"

// newSegment fails: this system has no shared memory that an X server could attach, and
// captures come through the socket.
func newSegment(int) (id int, memory []byte, err error) {
	return 0, nil, errors.ErrUnsupported
}

func freeSegment([]byte) {}
