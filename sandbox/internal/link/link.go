//go:build linux

// Package link carries messages and file descriptors between a host and the guest that it
// started in a sandbox. Each message is one packet on a Unix socket pair, JSON beside up to
// eight descriptors, so a message is whole or does not come.
//
// Neither side trusts the other's messages further than their shape. A packet that is too
// large, is no JSON of a [Message], or asks of a side what it does not do, ends the link. An
// answer that nobody waits for is dropped, and files that nobody wants are closed. Somebody
// who stops reading holds up no more than the calls to him, and those end with their contexts.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one packet.
const (
	maxMessage = 128 << 10 // bytes; a socket's buffer takes it with the default settings
	maxFiles   = 8
)

// ErrTooLarge says that a message was not sent, since it is larger than one may be.
var ErrTooLarge = errors.New("the message is too large")

// Conn is one end of a link. Its methods may be called by several goroutines at once, but
// Receive by one at a time.
type Conn struct {
	socket  *net.UnixConn
	sending chan struct{} // holds a value while a message is sent
	packet  []byte        // of Receive
}

// Pair makes a link. The far end is a file, to be handed to another process; it stays the
// caller's to close.
func Pair() (near *Conn, far *os.File, err error) {
	file, far, err := Ends()
	if err != nil {
		return nil, nil, err
	}
	near, err = FromFile(file)
	if err != nil {
		_ = far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// Ends makes a link of which both ends are files to be handed on. They are the caller's to
// close.
func Ends() (one, other *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link"), nil
}

// FromFile makes an end of a link from one of the files of [Pair] or [Ends], or of any Unix
// socket that keeps packets apart, and closes the file.
func FromFile(file *os.File) (*Conn, error) {
	defer func() { _ = file.Close() }()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("this descriptor is no link: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok || socket.LocalAddr().Network() != "unixpacket" {
		_ = conn.Close()
		return nil, errors.New("this descriptor is no link, but another socket")
	}
	return &Conn{socket: socket, sending: make(chan struct{}, 1)}, nil
}

// Close ends the link. The other side's Receive returns io.EOF.
func (c *Conn) Close() error { return c.socket.Close() }

// Send sends a message, with files that stay the caller's. It waits as long as the other side
// does not read, but no longer than the context lasts, whose error it returns then. The error
// wraps [ErrTooLarge] where that is so.
func (c *Conn) Send(ctx context.Context, m *Message, files ...*os.File) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if len(data) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("%w: it has %d bytes and %d files", ErrTooLarge, len(data), len(files))
	}
	select {
	case c.sending <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.sending }()
	if err := ctx.Err(); err != nil {
		return err
	}
	past := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(past)
		_ = c.socket.SetWriteDeadline(time.Unix(1, 0))
	})
	err = withDescriptors(files, nil, func(fds []int) error {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		_, _, err := c.socket.WriteMsgUnix(data, rights, nil) // all of it or nothing
		return err
	})
	if !stop() {
		<-past
		_ = c.socket.SetWriteDeadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ctx.Err()
		}
	}
	return err
}

// withDescriptors calls do with the descriptors of files, which stay open meanwhile. Unlike
// File.Fd it leaves them as they are: a pipe's end has no deadlines once it waits in the kernel.
func withDescriptors(files []*os.File, fds []int, do func([]int) error) error {
	if len(files) == 0 {
		return do(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = withDescriptors(files[1:], append(fds, int(fd)), do) }); err != nil {
		return err
	}
	return inner
}

// Receive waits for a message. The files that came with it are the caller's. After the other
// side has closed the link the error is io.EOF.
func (c *Conn) Receive() (*Message, []*os.File, error) {
	if c.packet == nil {
		c.packet = make([]byte, maxMessage)
	}
	rights := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, rightsLength, flags, _, err := c.socket.ReadMsgUnix(c.packet, rights)
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
	} else if err = json.Unmarshal(c.packet[:n], m); err != nil {
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
		for _, fd := range fds { // which package net has asked to be closed on exec
			// To close a socket may take as long as its owner wishes.
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
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
