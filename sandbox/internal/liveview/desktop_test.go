package liveview_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/sandbox/internal/liveview"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const vncPassword = "k3-Passw"

// program finds a program, or fails the test with the command that installs it.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing; install it with: make setup", name)
	}
	return path
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// vnc is an x11vnc on a display.
type vnc struct {
	pid    int
	socket string
	kill   func()
}

// startVNC starts x11vnc on a display with the arguments under test, and returns when it
// takes connections. It ends with the test.
func startVNC(t testing.TB, display string) *vnc {
	t.Helper()
	return startVNCIn(t, display, t.TempDir())
}

// startVNCIn has its socket in a folder.
func startVNCIn(t testing.TB, display, dir string) *vnc {
	t.Helper()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(vncPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := &vnc{socket: filepath.Join(dir, "vnc")}
	if err := os.RemoveAll(v.socket); err != nil {
		t.Fatal(err)
	}
	args := liveview.VNCArgs(liveview.VNCOptions{Display: display, Socket: v.socket, Password: password, NoSharedMemory: true})
	cmd := exec.Command(program(t, "x11vnc"), args...)
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	output := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	v.kill = func() {
		_ = syscall.Kill(-v.pid, syscall.SIGKILL)
		<-ended
	}
	t.Cleanup(func() {
		v.kill()
		if t.Failed() {
			t.Logf("x11vnc said:\n%s", output)
		}
	})
	desktest.Eventually(t, "x11vnc listens", func() bool {
		conn, err := net.Dial("unix", v.socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return v
}

func (v *vnc) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", v.socket)
}

// live is a live view that is being served.
type live struct {
	*liveview.View
	addr net.Addr
	log  *syncBuffer

	mu     sync.Mutex
	inputs []liveview.Input
}

// serve serves a view until the test ends. Dial is the options' or x11vnc's.
func serve(t testing.TB, o liveview.Options) *live {
	t.Helper()
	s := &live{log: &syncBuffer{}}
	o.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Input = func(i liveview.Input) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inputs = append(s.inputs, i)
	}
	view, err := liveview.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.View = view
	l, err := liveview.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- liveview.Serve(ctx, l, view) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
		if t.Failed() {
			t.Logf("input: %v", s.kinds())
			t.Logf("the view logged:\n%s", s.log)
		}
	})
	return s
}

func (s *live) kinds() map[liveview.InputKind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := map[liveview.InputKind]int{}
	for _, i := range s.inputs {
		kinds[i.Kind]++
	}
	return kinds
}

// tab is a page in a headless browser.
type tab struct {
	ctx    context.Context
	close  func()
	output *syncBuffer
}

// browser starts a headless Chromium with a fresh profile.
func browser(t testing.TB) *tab {
	t.Helper()
	home := t.TempDir()
	b := &tab{output: &syncBuffer{}}
	var command *exec.Cmd
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program(t, "chromium")), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.WindowSize(1100, 700), chromedp.NoInheritEnv, chromedp.CombinedOutput(b.output),
		chromedp.Env("HOME="+home, "TMPDIR="+home, "XDG_RUNTIME_DIR="+home, "PATH="+os.Getenv("PATH"), "LC_ALL=C.UTF-8",
			"DBUS_SESSION_BUS_ADDRESS=disabled:"),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-extensions", true), chromedp.Flag("no-proxy-server", true),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			command = c
		}),
	}
	ctx, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	b.ctx = ctx
	b.close = sync.OnceFunc(func() {
		cancel()
		cancelAllocator()
		if command != nil && command.Process != nil {
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		}
	})
	t.Cleanup(b.close)
	return b
}

// run runs one action, and fails the test when it takes too long.
func run[T any](t testing.TB, b *tab, action chromedp.Action[T]) T {
	t.Helper()
	limit := time.AfterFunc(time.Minute, b.close)
	defer limit.Stop()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		t.Fatalf("the browser: %v\n%s", err, b.output)
	}
	return value
}

// eval evaluates a JavaScript expression.
func eval[T any](t testing.TB, b *tab, format string, args ...any) T {
	t.Helper()
	return run(t, b, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
}

// open goes to an address and returns when the page has loaded.
func (b *tab) open(t testing.TB, url string) {
	t.Helper()
	run(t, b, chromedp.Navigate(url))
}

// click clicks on the element with an id.
func (b *tab) click(t testing.TB, id string) {
	t.Helper()
	run(t, b, chromedp.Click("#"+id))
}

// text is the visible text of the element with an id, or "".
func (b *tab) text(t testing.TB, id string) string {
	t.Helper()
	return eval[string](t, b, "document.getElementById(%q)?.innerText ?? ''", id)
}

// wait waits until the visible text of the element with an id is as wanted. On the way the
// page may give way to another.
func (b *tab) wait(t testing.TB, id, wanted string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("the page says %q", last)
		}
	}()
	desktest.Eventually(t, "the page says "+wanted, func() bool {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf("document.getElementById(%q)?.innerText ?? ''", id)))
		if err == nil {
			last = text
		}
		return err == nil && text == wanted
	})
}

// pixel is the colour at a place of the display, as the page's canvas has it.
func (b *tab) pixel(t testing.TB, x, y int) color.RGBA {
	t.Helper()
	p := eval[[]int](t, b, `[...(document.querySelector('#screen canvas')?.getContext('2d').getImageData(%d, %d, 1, 1).data ?? [])]`, x, y)
	if len(p) != 4 {
		return color.RGBA{}
	}
	return color.RGBA{uint8(p[0]), uint8(p[1]), uint8(p[2]), uint8(p[3])}
}

// at is where a place of the display is in the page, in CSS pixels.
func (b *tab) at(t testing.TB, display image.Point) (x, y float64) {
	t.Helper()
	r := eval[struct{ X, Y, W, H, Width, Height float64 }](t, b, `(() => {
		const c = document.querySelector('#screen canvas'), r = c.getBoundingClientRect();
		return {X: r.x, Y: r.y, W: r.width, H: r.height, Width: c.width, Height: c.height} })()`)
	return r.X + (float64(display.X)+.5)*r.W/r.Width, r.Y + (float64(display.Y)+.5)*r.H/r.Height
}

// press presses the left button at a place of the display, after moving there.
func (b *tab) press(t testing.TB, display image.Point) {
	t.Helper()
	x, y := b.at(t, display)
	run(t, b, chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	run(t, b, chromedp.MouseEvent(chromedp.MousePressed, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
}

func (b *tab) release(t testing.TB, display image.Point) {
	t.Helper()
	x, y := b.at(t, display)
	run(t, b, chromedp.MouseEvent(chromedp.MouseReleased, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
}

// near allows for the rounding of a display that is scaled to the window.
func near(a, b image.Point) bool { return a.In(image.Rectangle{b, b}.Inset(-2)) }

var passwordForm = regexp.MustCompile(`#([A-Z2-7]{4}-){3}[A-Z2-7]{4}$`)

// TestDesktopInBrowser is what a person does: opens the link, sees the desktop, takes the
// mouse and the keyboard, and leaves.
func TestDesktopInBrowser(t *testing.T) {
	x := desktest.Xvfb(t, desktest.Options{Width: 800, Height: 600})
	w := x.Window(t, desktest.WindowOptions{Background: color.RGBA{0x20, 0x80, 0xc0, 0xff}})
	v := startVNC(t, x.Name())
	s := serve(t, liveview.Options{Dial: v.dial, VNCPassword: vncPassword, Name: "Ada's desktop"})
	link := s.Gate().URL(s.addr)
	if !passwordForm.MatchString(link) {
		t.Fatalf("the link is %s", link)
	}

	b := browser(t)
	b.open(t, link)
	b.wait(t, "status", "Watching")
	if name := b.text(t, "name"); name != "Ada's desktop" {
		t.Errorf("the page is called %q", name)
	}
	if address := eval[string](t, b, "location.href"); strings.Contains(address, "#") {
		t.Errorf("the password is still in the address: %s", address)
	}
	// Away from the pointer, which starts in the middle and is part of the picture.
	desktest.Eventually(t, "the page shows the display's colour", func() bool {
		return b.pixel(t, 600, 400) == color.RGBA{0x20, 0x80, 0xc0, 0xff}
	})
	w.Fill(t, image.Rect(100, 100, 200, 200), color.RGBA{0xe0, 0x40, 0x10, 0xff})
	desktest.Eventually(t, "the page shows what changes", func() bool {
		return b.pixel(t, 150, 150) == color.RGBA{0xe0, 0x40, 0x10, 0xff} && b.pixel(t, 250, 150) == color.RGBA{0x20, 0x80, 0xc0, 0xff}
	})

	// Watching does nothing to the desktop.
	before, _ := x.Pointer(t)
	b.press(t, image.Pt(150, 150))
	b.release(t, image.Pt(150, 150))
	w.Fill(t, image.Rect(300, 100, 400, 200), color.RGBA{1, 2, 3, 255})
	desktest.Eventually(t, "the page shows the next change", func() bool { return b.pixel(t, 350, 150) == color.RGBA{1, 2, 3, 255} })
	if after, _ := x.Pointer(t); after != before {
		t.Errorf("watching moved the pointer from %v to %v", before, after)
	}
	if !s.LastInput().IsZero() {
		t.Error("watching counts as input")
	}

	b.click(t, "control")
	b.wait(t, "status", "You have mouse and keyboard")
	w.Clear()
	b.press(t, image.Pt(150, 160))
	desktest.Eventually(t, "the button is down", func() bool {
		at, down := x.Pointer(t)
		return near(at, image.Pt(150, 160)) && len(down) == 1 && down[0] == 1
	})
	if !s.Holding() {
		t.Error("a button is down, and nobody is said to hold anything")
	}
	// The browser goes while the button is down.
	b.close()
	desktest.Eventually(t, "the button is released for the browser that has gone", func() bool {
		_, down := x.Pointer(t)
		return len(down) == 0
	})
	desktest.Eventually(t, "nobody holds anything", func() bool { return !s.Holding() && s.Viewers() == 0 })
	if k := s.kinds(); k[liveview.Move] == 0 || k[liveview.Button] != 1 || s.LastInput().IsZero() {
		t.Errorf("the input was reported as %v", k)
	}
}

// TestSecondBrowser signs in by hand where the first link is spent, and through a link that
// the first browser shares.
func TestSecondBrowser(t *testing.T) {
	x := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	x.Window(t, desktest.WindowOptions{Background: color.RGBA{0x30, 0x60, 0x90, 0xff}})
	v := startVNC(t, x.Name())
	s := serve(t, liveview.Options{Dial: v.dial, VNCPassword: vncPassword, Name: "Shared"})
	link := s.Gate().URL(s.addr)
	first := browser(t)
	first.open(t, link)
	first.wait(t, "status", "Watching")

	second := browser(t)
	second.open(t, link)
	desktest.Eventually(t, "the spent link is refused", func() bool {
		text, err := chromedp.Run(second.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		return err == nil && strings.Contains(text, "has been used already")
	})
	first.click(t, "invite")
	desktest.Eventually(t, "the first browser shows a link", func() bool {
		link = eval[string](t, first, "document.getElementById('invite-link').value")
		return passwordForm.MatchString(link)
	})
	eval[any](t, second, "document.getElementById('password').value = %q", strings.ToLower(link[strings.Index(link, "#")+1:]))
	run(t, second, chromedp.Click("form button"))
	second.wait(t, "status", "Watching")
	desktest.Eventually(t, "both see the desktop", func() bool {
		return first.pixel(t, 10, 10) == color.RGBA{0x30, 0x60, 0x90, 0xff} && second.pixel(t, 10, 10) == color.RGBA{0x30, 0x60, 0x90, 0xff}
	})
	if n := s.Viewers(); n != 2 {
		t.Errorf("%d viewers are counted", n)
	}

	// The VNC server dies and comes back.
	v.kill()
	second.wait(t, "status", "Not connected")
	if text := second.text(t, "lost-text"); !strings.HasPrefix(text, "The desktop does not answer.") {
		t.Errorf("the page says %q", text)
	}
	startVNCIn(t, x.Name(), filepath.Dir(v.socket))
	second.click(t, "reconnect")
	second.wait(t, "status", "Watching")
	desktest.Eventually(t, "the desktop is seen again", func() bool { return second.pixel(t, 10, 10) == color.RGBA{0x30, 0x60, 0x90, 0xff} })
}

// TestVNCListens holds x11vnc to its Unix socket, and to its password.
func TestVNCListens(t *testing.T) {
	x := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	v := startVNC(t, x.Name())
	own := map[string]bool{} // the inodes of its sockets
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", v.pid, e.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok && err == nil {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) > 9 && own[fields[9]] {
				t.Errorf("x11vnc has a socket in %s: %s", table, line)
			}
		}
	}
	for _, password := range []string{"", "wrong"} {
		s := serve(t, liveview.Options{Dial: v.dial, VNCPassword: password})
		if code, reason := ending(t, s.connect(t, s.session(t))); code != 4000 || reason == "" {
			t.Errorf("with the password %q the connection ends with %d %q", password, code, reason)
		}
	}
}
