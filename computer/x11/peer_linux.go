package x11

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// peerArguments returns the command line of the program at the other end of a connection
// on this machine, or nil when that cannot be seen.
func peerArguments(socket net.Conn) []string {
	conn, ok := socket.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || peerErr != nil || peer.Pid <= 0 {
		return nil
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", peer.Pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}
