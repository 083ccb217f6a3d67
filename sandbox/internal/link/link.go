// Package link carries messages and file descriptors between a host and the guest that it
// started in a sandbox. Each message is one packet on a Unix socket pair, JSON beside up to
// eight descriptors, so a message is whole or does not come.
//
// Neither side trusts the other's messages further than their shape: a packet that is too
// large, or no JSON of a [Message], ends the link.
package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds of one packet.
const (
	maxMessage = 128 << 10 // bytes; a socket's buffer takes it with the default settings
	maxFiles   = 8
)

// Conn is one end of a link. Its methods may be called by several goroutines at once, but
// Receive by one at a time.
type Conn struct {
	socket *net.UnixConn
	send   sync.Mutex
}

// Pair makes a link. The far end is a file, to be handed to another process; it stays the
// caller's to close.
func Pair() (near *Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	far = os.NewFile(uintptr(fds[1]), "link")
	file := os.NewFile(uintptr(fds[0]), "link")
	near, err = FromFile(file)
	if err != nil {
		_ = far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// FromFile makes an end of a link from the file that [Pair] returned, and closes the file.
func FromFile(file *os.File) (*Conn, error) {
	defer func() { _ = file.Close() }()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("this descriptor is no link: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("this descriptor is no link, but another socket")
	}
	return &Conn{socket: socket}, nil
}

// Close ends the link. The other side's Receive returns io.EOF.
func (c *Conn) Close() error { return c.socket.Close() }

// Send sends a message, with files that stay the caller's.
func (c *Conn) Send(m *Message, files ...*os.File) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if len(data) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes with %d files is too large", len(data), len(files))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	c.send.Lock()
	defer c.send.Unlock()
	_, _, err = c.socket.WriteMsgUnix(data, rights, nil)
	return err
}

// Receive waits for a message. The files that came with it are the caller's. After the other
// side has closed the link the error is io.EOF.
func (c *Conn) Receive() (*Message, []*os.File, error) {
	data := make([]byte, maxMessage)
	rights := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, rightsLength, flags, _, err := c.socket.ReadMsgUnix(data, rights)
	if err != nil {
		if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
			err = io.EOF
		}
		return nil, nil, err
	}
	files := received(rights[:rightsLength])
	if n == 0 && len(files) == 0 {
		return nil, nil, io.EOF
	}
	m := &Message{}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("a message is too large")
	} else if err = json.Unmarshal(data[:n], m); err != nil {
		err = fmt.Errorf("a message makes no sense: %w", err)
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	return m, files, nil
}

// received makes files of the descriptors in a control message.
func received(rights []byte) []*os.File {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
