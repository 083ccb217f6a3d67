//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
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
	unix.Umask(0o022) // not the caller's
	conn, err := link.FromFile(file)
	if err != nil {
		return err
	}
	g := &guest{}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.host = link.Serve(conn, g.answer, nil)
	<-g.host.Ended()
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
	server  *program
	display string // empty until the server takes connections
	env     []string
	peers   []*link.Peer // attached ones

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
		return g.boot(ctx, files)
	}
	if g.booted() == nil {
		return nil, nil, errors.New("the desktop has not been started")
	}
	switch op {
	case OpDial:
		return call(body, func(d *Dial) (any, []*os.File, error) { return g.dial(ctx, d) })
	case OpRun:
		return call(body, func(r *Run) (any, []*os.File, error) { return g.run(ctx, r, files) })
	case OpPut:
		return call(body, func(p *Put) (any, []*os.File, error) { return nil, nil, g.put(ctx, p, files) })
	case OpGet:
		return call(body, func(q *Get) (any, []*os.File, error) { return g.get(ctx, q, files) })
	case OpAttach:
		return nil, nil, g.attach(files) //nolint:contextcheck // a link has a life of its own, which its end ends
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

// maxAttached bounds the links that are answered beside the owner's.
const maxAttached = 64

// attach answers the calls of another link too.
func (g *guest) attach(files []*os.File) error {
	if len(files) != 1 {
		return errors.New("one link is attached at a time")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.peers = slices.DeleteFunc(g.peers, func(p *link.Peer) bool {
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
	if len(g.peers) >= maxAttached {
		return fmt.Errorf("%d others use the desktop already", maxAttached)
	}
	conn, err := link.FromFile(files[0])
	if err != nil {
		return err
	}
	g.peers = append(g.peers, link.Serve(conn, g.answerOther, nil))
	return nil
}

// answerOther answers a call of a link that is not the owner's.
func (g *guest) answerOther(ctx context.Context, op string, body json.RawMessage, files []*os.File) (any, []*os.File, error) {
	if op == OpBoot || op == OpAttach {
		closeAll(files)
		return nil, nil, errors.New("this is for the desktop's owner alone")
	}
	return g.answer(ctx, op, body, files)
}

// close ends everything. In a sandbox the kernel ends what is left when the guest ends;
// without one the guest must.
func (g *guest) close() {
	g.end()
	g.children.close()
	config := g.configured()
	if config == nil { // it may be at the beginning of boot, which fails soon
		<-g.host.Done()
		config = g.configured()
	}
	if config == nil || !config.Alone {
		return
	}
	own := func() []int { return Descendants(os.Getpid()) }
	EndAll("", own)
	<-g.host.Done() // what was on its way through boot has failed by now
	g.mu.Lock()
	display := g.display
	g.mu.Unlock()
	EndAll(display, own)
	_ = os.RemoveAll(config.Scratch)
}

func (g *guest) configured() *Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
