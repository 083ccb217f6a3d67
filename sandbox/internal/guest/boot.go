//go:build linux

package guest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// boot starts the display and makes the proxy's listener, and then goes on with the rest of
// the desktop in the background.
func (g *guest) boot(ctx context.Context, files []*os.File) (any, []*os.File, error) {
	if len(files) != 1 {
		return nil, nil, errors.New("the boot needs a configuration")
	}
	config := &Config{}
	if err := json.NewDecoder(files[0]).Decode(config); err != nil {
		return nil, nil, fmt.Errorf("the configuration makes no sense: %w", err)
	}
	g.mu.Lock()
	again := g.config != nil
	g.config, g.env = config, config.Env
	g.mu.Unlock()
	if again {
		return nil, nil, errors.New("the desktop has been started already")
	}
	if config.Alone {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, nil, fmt.Errorf("adopting what is orphaned: %w", err)
		}
		if err := os.Mkdir(config.Scratch, 0o700); err != nil {
			return nil, nil, fmt.Errorf("making the desktop's folder: %w", err)
		}
	}
	if err := confine(config); err != nil {
		return nil, nil, err
	}
	g.tasks.Go(func() { g.children.reap(g.ctx) })
	if err := prepareFiles(config); err != nil {
		return nil, nil, err
	}
	var proxy []*os.File
	if config.ProxyPort > 0 {
		listener, err := listen(config.ProxyPort)
		if err != nil {
			return nil, nil, err
		}
		proxy = append(proxy, listener)
	}
	g.addEnv("XAUTHORITY="+authorityPath(config), "DBUS_SESSION_BUS_ADDRESS=unix:path="+busPath(config))
	var bus *program
	var busErr error
	busStarted := make(chan struct{})
	go func() {
		defer close(busStarted)
		bus, busErr = g.startBus(ctx, config)
	}()
	server, display, err := g.startServer(ctx, config)
	<-busStarted
	if err == nil {
		err = busErr
	}
	if err != nil {
		closeAll(proxy)
		return nil, nil, err
	}
	g.mu.Lock()
	g.server, g.display = server, display
	g.env = append(g.env, "DISPLAY="+display)
	g.mu.Unlock()
	d := &desk{guest: g, config: config, server: server, bus: bus}
	g.tasks.Go(func() { d.run(g.ctx) })
	g.tasks.Go(func() { g.watchLimits(g.ctx) })
	return Booted{Display: display}, proxy, nil
}

func (g *guest) addEnv(env ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.env = append(g.env, env...)
}

func authorityPath(c *Config) string { return filepath.Join(c.Runtime, "xauthority") }
func busPath(c *Config) string       { return filepath.Join(c.Runtime, "bus") }

// prepareFiles writes the configuration files and the display's authority.
func prepareFiles(c *Config) error {
	files := append([]File{{Path: authorityPath(c), Mode: 0o600, Data: authority(c.Cookie)}}, c.Files...)
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return fmt.Errorf("preparing the home folder: %w", err)
		}
		if err := os.WriteFile(f.Path, f.Data, f.Mode.Perm()); err != nil {
			return fmt.Errorf("preparing the home folder: %w", err)
		}
	}
	for _, folder := range c.Folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("preparing the home folder: %w", err)
		}
	}
	if err := os.MkdirAll("/tmp/.X11-unix", 0o777|os.ModeSticky); err != nil {
		return err
	}
	_ = os.Chmod("/tmp/.X11-unix", 0o777|os.ModeSticky) // another user's is right already
	return nil
}

// authority is the contents of an authority file with one cookie, which is good for any
// display of any host.
func authority(cookie []byte) []byte {
	const familyWild = 65535
	b := binary.BigEndian.AppendUint16(nil, familyWild)
	for _, field := range []string{"", "", "MIT-MAGIC-COOKIE-1", string(cookie)} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(field)))
		b = append(b, field...)
	}
	return b
}

// listen listens where programs look for their proxy. The descriptor is for the host: a
// socket stays in the network that it was made in, so the host accepts there what comes
// from inside.
func listen(port int) (*os.File, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listening for programs that want the network: %w", err)
	}
	defer func() { _ = l.Close() }()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.New("listening for programs that want the network: no TCP")
	}
	return tcp.File()
}

// startServer starts the X server and returns when it takes connections. It finds a free
// number itself, and clears the locks of servers that are gone.
func (g *guest) startServer(ctx context.Context, c *Config) (*program, string, error) {
	cmd := exec.Command("Xvfb", "-displayfd", "3",
		"-screen", "0", fmt.Sprintf("%dx%dx24", c.Size.X, c.Size.Y), "-dpi", strconv.Itoa(c.DPI),
		"-auth", authorityPath(c), "-noreset", "-nolisten", "tcp",
		"-s", "0", "-dpms", "+extension", "RANDR")
	number, server, err := g.startAndRead(ctx, cmd)
	if err != nil {
		return nil, "", fmt.Errorf("the display did not start: %w", err)
	}
	if _, err := strconv.Atoi(number); err != nil {
		return nil, "", fmt.Errorf("the display did not start: its number is %q", number)
	}
	return server, ":" + number, nil
}

// startBus starts the session bus.
func (g *guest) startBus(ctx context.Context, c *Config) (*program, error) {
	kind := "--session"
	if c.BusConfig != "" {
		kind = "--config-file=" + c.BusConfig
	}
	cmd := exec.Command("dbus-daemon", kind, "--nofork", "--nopidfile", "--nosyslog",
		"--address=unix:path="+busPath(c), "--print-address=3")
	_, p, err := g.startAndRead(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("the session bus did not start: %w", err)
	}
	return p, nil
}

// startAndRead starts a program that writes a line to descriptor 3 when it is ready, which
// it must be before the context ends.
func (g *guest) startAndRead(ctx context.Context, cmd *exec.Cmd) (string, *program, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = reader.Close() }()
	cmd.ExtraFiles = []*os.File{writer}
	p, err := g.start(cmd)
	_ = writer.Close()
	if err != nil {
		return "", nil, err
	}
	defer interrupt(ctx, reader)()
	line, err := bufio.NewReader(io.LimitReader(reader, 1<<10)).ReadString('\n')
	if err != nil {
		EndAll("", func() []int { // an X server has a socket already
			pid := p.cmd.Process.Pid
			if !slices.Contains(Descendants(os.Getpid()), pid) {
				return nil
			}
			return append(Descendants(pid), pid)
		})
		if ctx.Err() != nil {
			return "", nil, fmt.Errorf("%s was not ready in time", cmd.Args[0])
		}
		return "", nil, fmt.Errorf("%s %s: %s", cmd.Args[0], p.how(), LastLine(p.output.String()))
	}
	return strings.TrimSpace(line), p, nil
}
