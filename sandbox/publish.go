//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/sandbox/internal/guest"
	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// A published desktop listens on a socket of the abstract namespace, which has no file and is
// gone with its process. Anybody on the machine can make or dial such a name, so each side
// looks who the other is before it says a word.

// controlPrefix begins the name of the socket of each desktop of this user.
func controlPrefix() string { return "@loupe/desktop/" + strconv.Itoa(os.Geteuid()) + "/" }

// reserve listens under the name of a desktop.
func reserve(name string) (net.Listener, error) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: controlPrefix() + name, Net: "unixpacket"})
	if errors.Is(err, syscall.EADDRINUSE) {
		if conn, err := knock(context.Background(), name); err == nil {
			_ = conn.Close()
		} else if errors.Is(err, ErrNameTaken) {
			return nil, err
		}
		return nil, &sentence{kind: ErrNameTaken, cause: err,
			text: fmt.Sprintf("there is a desktop named %s already; choose another name, or end it with: loupe desktop stop %s", name, name)}
	}
	if err != nil {
		return nil, fmt.Errorf("publishing the desktop: %w", err)
	}
	return l, nil
}

// Calls of the control socket.
const (
	controlInfo   = "info"   // Info
	controlAttach = "attach" // attached, with a link to the guest
	controlStop   = "stop"   // answered before the desktop ends
)

// Info is what is known of a published desktop.
type Info struct {
	Name    string      `json:"name"`
	Size    image.Point `json:"size"` // of the display, in pixels
	Apps    []string    `json:"apps"`
	Allow   []string    `json:"allow"`
	Sandbox bool        `json:"sandbox"`
	Process int         `json:"process"` // of its owner
	Started time.Time   `json:"started"`
}

// attached is what another process needs to use the desktop.
type attached struct {
	Info
	At place
}

func (d *Desktop) info() Info {
	p := d.own.plan
	return Info{Name: d.name, Size: d.size, Apps: append([]string{}, p.Options.Apps...), Allow: append([]string{}, p.Allow...),
		Sandbox: !p.NoSandbox, Process: os.Getpid(), Started: d.own.started}
}

// serveControl answers other processes. Its connections end last of all, so that who asked
// for the desktop's end can see it.
func (d *Desktop) serveControl() {
	for {
		conn, err := d.own.control.Accept()
		if err != nil { // release has closed it
			return
		}
		go d.serveClient(conn)
	}
}

func (d *Desktop) serveClient(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	socket, ok := conn.(*net.UnixConn)
	if !ok || checkPeer(socket) != nil {
		return
	}
	file, err := socket.File()
	if err != nil {
		return
	}
	control, err := link.FromFile(file)
	if err != nil {
		return
	}
	peer := link.Serve(control, d.answerClient, nil)
	select {
	case <-peer.Done():
	case <-d.done:
		peer.Close()
	}
}

// answerClient answers a call of another process.
func (d *Desktop) answerClient(ctx context.Context, op string, _ json.RawMessage, files []*os.File) (any, []*os.File, error) {
	closeAll(files)
	switch op {
	case controlInfo:
		return d.info(), nil, nil
	case controlAttach:
		select {
		case <-d.own.usable:
		case <-d.own.freed:
			return nil, nil, ErrEnded
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		near, err := d.attachment(ctx)
		if err != nil {
			return nil, nil, err
		}
		return attached{Info: d.info(), At: d.at}, []*os.File{near}, nil
	case controlStop:
		// The caller sees the end by the end of the link.
		go d.fail(errStopped)
		return struct{}{}, nil, nil
	}
	return nil, nil, fmt.Errorf("the desktop does not know the call %q", op)
}

var errStopped = &sentence{kind: ErrEnded, text: ErrStopped.Error(), cause: ErrStopped}

// attachment gives the guest one end of a new link and returns the other.
func (d *Desktop) attachment(ctx context.Context) (*os.File, error) {
	near, far, err := link.Ends()
	if err != nil {
		return nil, err
	}
	defer func() { _ = far.Close() }()
	if err := d.peer.Call(ctx, guest.OpAttach, struct{}{}, nil, far); err != nil {
		_ = near.Close()
		return nil, err
	}
	return near, nil
}

// checkPeer says whether the other side of a socket is this user, or root.
func checkPeer(socket *net.UnixConn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if peerErr != nil {
		return peerErr
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("the other side is user %d", peer.Uid)
	}
	return nil
}

// knock connects to the socket of a desktop's name, and looks whose it is.
func knock(ctx context.Context, name string) (*net.UnixConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unixpacket", controlPrefix()+name)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("this is no Unix socket")
	}
	if err := checkPeer(socket); err != nil {
		_ = conn.Close()
		return nil, &sentence{kind: ErrNameTaken, cause: err,
			text: fmt.Sprintf("what answers as the desktop %s belongs to another user of this machine; choose another name", name)}
	}
	return socket, nil
}

// control connects to the owner of a published desktop.
func control(ctx context.Context, name string) (*link.Peer, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	socket, err := knock(ctx, name)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil, &sentence{kind: ErrNoDesktop, cause: err,
			text: fmt.Sprintf("there is no desktop named %s; loupe desktop list names those that run", name)}
	}
	var said *sentence
	if errors.As(err, &said) {
		return nil, &sentence{kind: ErrNoDesktop, text: said.text, cause: err}
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the desktop %s: %w", name, err)
	}
	defer func() { _ = socket.Close() }()
	file, err := socket.File()
	if err != nil {
		return nil, fmt.Errorf("connecting to the desktop %s: %w", name, err)
	}
	conn, err := link.FromFile(file)
	if err != nil {
		return nil, fmt.Errorf("connecting to the desktop %s: %w", name, err)
	}
	return link.Serve(conn, nil, nil), nil //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
}

// Open connects to a desktop that another process of the same user has published. The error
// wraps [ErrNoDesktop] when there is none of that name.
//
// The context bounds only the opening. A nil o is the zero Options of [x11.Open], whose Dial
// and Cookie are set here.
func Open(ctx context.Context, name string, o *x11.Options) (*Desktop, error) {
	owner, err := control(ctx, name)
	if err != nil {
		return nil, err
	}
	defer owner.Close()
	var a attached
	file, err := owner.CallForFile(ctx, controlAttach, struct{}{}, &a)
	if err != nil {
		return nil, openError(owner, name, err)
	}
	conn, err := link.FromFile(file)
	if err != nil {
		return nil, fmt.Errorf("connecting to the desktop %s: %w", name, err)
	}
	d := &Desktop{name: name, size: a.Size, at: a.At, log: slog.New(slog.DiscardHandler), peer: link.Serve(conn, nil, nil), done: make(chan struct{})} //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
	options := x11.Options{}
	if o != nil {
		options = *o
	}
	options.Dial, options.Cookie = d.dialDisplay, d.at.Cookie
	if d.display, err = x11.Open(ctx, name, &options); err != nil {
		err = openError(d.peer, name, err)
		d.peer.Close()
		return nil, err
	}
	go d.follow() //nolint:contextcheck // a desktop and its links have a life of their own, which the context ends
	return d, nil
}

// openError says of an error that came since the desktop has just ended that it has.
func openError(peer *link.Peer, name string, err error) error {
	// What the owner answers comes as text alone.
	ended := errors.Is(err, link.ErrEnded) || err.Error() == link.ErrEnded.Error()
	select {
	case <-peer.Ended():
		ended = true
	default:
	}
	if ended {
		return &sentence{kind: ErrNoDesktop, cause: err, text: fmt.Sprintf("the desktop %s has just ended", name)}
	}
	return fmt.Errorf("connecting to the desktop %s: %w", name, err)
}

// List returns what is known of the published desktops of this user, by name. One that does
// not answer before the context ends is left out.
func List(ctx context.Context) ([]Info, error) {
	names, err := published()
	if err != nil {
		return nil, err
	}
	infos := make([]*Info, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			owner, err := control(ctx, name)
			if err != nil {
				return // it has just ended, or is not ours
			}
			defer owner.Close()
			var info Info
			if err := owner.Call(ctx, controlInfo, struct{}{}, &info); err == nil {
				infos[i] = &info
			}
		})
	}
	asking.Wait()
	var found []Info
	for _, info := range infos {
		if info != nil {
			found = append(found, *info)
		}
	}
	return found, nil
}

// published lists the names of this user's desktops.
func published() ([]string, error) {
	file, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("looking for desktops: %w", err)
	}
	defer func() { _ = file.Close() }()
	var names []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		_, name, ok := strings.Cut(lines.Text(), " "+controlPrefix())
		if ok && checkName(name) == nil && !slices.Contains(names, name) { // once for each connection too
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Stop ends a published desktop of this user and returns when it has ended. The error wraps
// [ErrNoDesktop] when there is none of that name.
func Stop(ctx context.Context, name string) error {
	owner, err := control(ctx, name)
	if err != nil {
		return err
	}
	defer owner.Close()
	if err := owner.Call(ctx, controlStop, struct{}{}, nil); err != nil && !errors.Is(err, link.ErrEnded) {
		return fmt.Errorf("stopping the desktop %s: %w", name, err)
	}
	select {
	case <-owner.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the desktop %s: %w", name, ctx.Err())
	}
}
