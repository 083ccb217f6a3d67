//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// dial makes a connection inside.
func (g *guest) dial(ctx context.Context, d *Dial) (any, []*os.File, error) {
	address := d.Path
	if d.Display {
		g.mu.Lock()
		// This name lasts as long as the server, while its file can be replaced by anybody.
		address = "@/tmp/.X11-unix/X" + g.display[1:]
		g.mu.Unlock()
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("this is no Unix socket")
	}
	file, err := socket.File()
	if err != nil {
		return nil, nil, err
	}
	if d.Display {
		peer, err := unix.GetsockoptUcred(int(file.Fd()), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && int(peer.Pid) != g.server.cmd.Process.Pid {
			err = fmt.Errorf("process %d answers in the place of the display's server", peer.Pid)
		}
		if err != nil {
			_ = file.Close()
			return nil, nil, err
		}
	}
	return struct{}{}, []*os.File{file}, nil
}
