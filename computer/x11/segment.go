//go:build linux || (darwin && !ios)

package x11

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// newSegment makes shared memory of a size in bytes, for this user alone. It returns the
// number under which the server, when it runs on the same machine as the same user or as
// root, can attach it too.
//
// The segment is marked for removal at once, so nothing of it is left when this process
// ends, however it ends. Linux still lets the server attach it by its number; a system
// that does not makes the attaching fail, and captures then come through the socket.
func newSegment(size int) (id int, memory []byte, err error) {
	id, err = unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		return 0, nil, fmt.Errorf("making shared memory of %d bytes: %w", size, err)
	}
	memory, err = unix.SysvShmAttach(id, 0, 0)
	if _, removeErr := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err == nil && removeErr != nil {
		_ = unix.SysvShmDetach(memory)
		err = removeErr
	}
	if err != nil {
		return 0, nil, fmt.Errorf("attaching shared memory of %d bytes: %w", size, err)
	}
	return id, memory, nil
}

// freeSegment takes the memory away.
func freeSegment(memory []byte) { _ = unix.SysvShmDetach(memory) }
