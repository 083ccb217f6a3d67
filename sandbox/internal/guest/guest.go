package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/sandbox/internal/link"
)

// Main answers the host's calls until the link ends, and then ends all that it has started.
func Main(file *os.File) error {
	// It was started by a descriptor's number, which says nothing in a list of processes.
	if name, err := unix.BytePtrFromString("loupe-guest"); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
	}
	conn, err := link.FromFile(file)
	if err != nil {
		return err
	}
	g := &guest{running: map[string]*program{}}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.host = link.Serve(conn, g.answer)
	<-g.host.Done()
	g.close()
	return nil
}

// guest is what has been started, and what it is asked.
type guest struct {
	ctx  context.Context
	end  context.CancelFunc
	host *link.Peer

	mu      sync.Mutex
	config  *Config // nil before the boot
	display string
	env     []string
	running map[string]*program // by token
	peers   []*link.Peer        // attached ones

	children children
	tasks    sync.WaitGroup
}

// answer is a [link.Handler].
func (g *guest) answer(ctx context.Context, op string, body json.RawMessage, files []*os.File) (any, []*os.File, error) {
	defer closeAll(files)
	switch op {
	case OpHello:
		return struct{}{}, nil, nil
	case OpBoot:
		return g.boot(files)
	}
	if g.booted() == nil {
		return nil, nil, errors.New("the desktop has not been started")
	}
	switch op {
	case OpDial:
		return call(body, func(d *Dial) (any, []*os.File, error) { return g.dial(ctx, d) })
	case OpRun:
		return call(body, func(r *Run) (any, []*os.File, error) { return g.run(ctx, r, files) })
	case OpSignal:
		return call(body, func(s *Signal) (any, []*os.File, error) { return nil, nil, g.signal(s) })
	case OpPut:
		return call(body, func(p *Put) (any, []*os.File, error) { return nil, nil, g.put(p, files) })
	case OpGet:
		return call(body, func(q *Get) (any, []*os.File, error) { return g.get(ctx, q, files) })
	case OpAttach:
		return nil, nil, g.attach(files)
	}
	return nil, nil, fmt.Errorf("the guest does not know the call %q", op)
}

// call decodes the arguments of a call.
func call[T any](body json.RawMessage, do func(*T) (any, []*os.File, error)) (any, []*os.File, error) {
	args := new(T)
	if err := json.Unmarshal(body, args); err != nil {
		return nil, nil, fmt.Errorf("the arguments of a call make no sense: %w", err)
	}
	return do(args)
}

func (g *guest) booted() *Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.display == "" {
		return nil
	}
	return g.config
}

// dial makes a connection inside.
func (g *guest) dial(ctx context.Context, d *Dial) (any, []*os.File, error) {
	network, address := d.Network, d.Address
	if network == "display" {
		network, address = "unix", "/tmp/.X11-unix/X"+g.display[1:]
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	filer, ok := conn.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, nil, fmt.Errorf("a connection over %q cannot be handed out", network)
	}
	file, err := filer.File()
	if err != nil {
		return nil, nil, err
	}
	return struct{}{}, []*os.File{file}, nil
}

// attach answers the calls of another link too.
func (g *guest) attach(files []*os.File) error {
	if len(files) != 1 {
		return errors.New("one link is attached at a time")
	}
	fd, err := unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	conn, err := link.FromFile(os.NewFile(uintptr(fd), "link"))
	if err != nil {
		return err
	}
	peer := link.Serve(conn, func(ctx context.Context, op string, body json.RawMessage, files []*os.File) (any, []*os.File, error) {
		if op == OpBoot || op == OpAttach {
			closeAll(files)
			return nil, nil, errors.New("this is for the desktop's owner alone")
		}
		return g.answer(ctx, op, body, files)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := g.peers[:0]
	for _, p := range g.peers {
		select {
		case <-p.Done():
		default:
			kept = append(kept, p)
		}
	}
	g.peers = append(kept, peer)
	return nil
}

// close ends everything. In a sandbox the kernel ends what is left when the guest ends;
// without one the guest must.
func (g *guest) close() {
	g.end()
	g.mu.Lock()
	config, peers := g.config, g.peers
	g.mu.Unlock()
	for _, p := range peers {
		p.Close()
	}
	if config != nil && config.Alone {
		endDescendants()
		_ = os.RemoveAll(config.Scratch)
		return
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
