//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/guest"
)

// guestVariable is set for a guest alone, to the descriptor of its link.
const guestVariable = "LOUPE_GUEST"

// readied says that this program calls RunGuest. A program that did not would run its own
// main inside, and that might start a desktop.
var readied atomic.Bool

// RunGuest does nothing and returns, except in the process that [Start] runs inside a
// sandbox: there it does the work of the guest and ends the process. Call it first thing in
// main, before flags are parsed and anything is started.
func RunGuest() {
	readied.Store(true)
	fd, err := strconv.Atoi(os.Getenv(guestVariable))
	if err != nil || fd < 3 {
		return
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return // the variable is somebody else's
	}
	_ = os.Unsetenv(guestVariable)
	// Of the descriptors that came along only the link and the output are needed; nothing
	// that is started may have more.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		for n := 3; n < 256; n++ {
			unix.CloseOnExec(n)
		}
	}
	if err := guest.Main(os.NewFile(uintptr(fd), "link")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
