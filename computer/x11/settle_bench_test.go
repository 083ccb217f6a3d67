package x11

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// BenchmarkSettle compares Settle with fixed waits in front of real programs. In each round
// it acts, captures the screen when Settle returns and after fixed waits, and compares all
// that with the screen 3 seconds after the action; what always moves is left out. Reported
// is how often the capture was already final, in percent, and how long it took from before
// the action until the pixels were there, in milliseconds (the median, and the longest).
//
//	go test -run '^$' -bench Settle -benchtime 20x ./computer/x11
func BenchmarkSettle(b *testing.B) {
	for _, c := range settleCases {
		b.Run(c.name, func(b *testing.B) { c.run(b) })
	}
}

// settleCase is a program in which an action shows.
type settleCase struct {
	name  string
	start func(b *testing.B, s *desktest.Server, dir string)
	act   func(d *Display, b *testing.B, round int)
	moves image.Rectangle // where something always moves
	blink int             // how many pixels may differ as well
}

var settleCases = []settleCase{
	{"GTK button", gtkProgram(false), clickButton, image.Rectangle{}, 0},
	{"GTK button that fades, beside a spinner", gtkProgram(true), clickButton, image.Rect(500, 0, 800, 600), 0},
	{"xterm with a blinking cursor", startXterm, typeLetter, image.Rectangle{}, 8 * 16},
	{"Chromium beside a spinner", browser("chromium", "/spinner"), clickButton, image.Rect(500, 0, 800, 600), 0},
	{"Chromium loading a page", browser("chromium", "/page?n=0"), clickButton, image.Rectangle{}, 0},
	{"Firefox loading a page", browser("firefox-esr", "/page?n=0"), clickButton, image.Rect(788, 0, 800, 600), 0}, // a scroll bar fades,
}

func (c settleCase) run(b *testing.B) {
	s := desktest.Xvfb(b, desktest.Options{Width: 800, Height: 600})
	c.start(b, s, b.TempDir())
	d, watcher := c.open(b, s), c.open(b, s)
	d.capturer.cursor, watcher.capturer.cursor = false, false
	full := image.Rect(0, 0, 800, 600)
	c.ready(b, watcher, full)

	waits := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 3 * time.Second}
	final := map[string]int{}
	var took []time.Duration
	unchanged := 0
	b.ResetTimer()
	for round := range b.N {
		before := capture(b, d, full)
		start := time.Now()
		later := make(chan []*image.RGBA)
		go func() {
			var shots []*image.RGBA
			for _, wait := range waits {
				<-time.After(wait - time.Since(start))
				m, _ := watcher.Capture(b.Context(), full)
				shots = append(shots, m)
			}
			later <- shots
		}()
		c.act(d, b, round)
		if err := d.Settle(b.Context()); err != nil {
			b.Fatal(err)
		}
		settled := capture(b, d, full)
		took = append(took, time.Since(start))
		shots := <-later
		truth := shots[len(shots)-1]
		if c.same(before, truth) {
			unchanged++
		}
		for i, m := range append([]*image.RGBA{settled}, shots...) {
			if m == nil {
				b.Fatal("a capture failed")
			}
			name := "settle"
			if i > 0 {
				name = waits[i-1].String()
			}
			if c.same(m, truth) {
				final[name]++
			} else if dir := os.Getenv("LOUPE_SETTLE_DIR"); dir != "" && i == 0 {
				save(b, filepath.Join(dir, fmt.Sprintf("%s %d.png", c.name, round)), m)
				save(b, filepath.Join(dir, fmt.Sprintf("%s %d truth.png", c.name, round)), truth)
			}
		}
	}
	b.StopTimer()
	if unchanged > 0 {
		b.Errorf("%d of %d actions have changed nothing", unchanged, b.N)
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "settle-ms")
	b.ReportMetric(took[len(took)-1].Seconds()*1e3, "settle-longest-ms")
	for _, name := range []string{"settle", "100ms", "500ms", "2s"} {
		b.ReportMetric(100*float64(final[name])/float64(b.N), name+"-final-%")
	}
}

func (c settleCase) open(b *testing.B, s *desktest.Server) *Display {
	d, err := Open(b.Context(), s.Name(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	return d
}

// ready waits until the program shows: until the screen, moving parts aside, has stayed as
// it is for a second and is not of one colour.
func (c settleCase) ready(b *testing.B, d *Display, full image.Rectangle) {
	b.Helper()
	last, since := capture(b, d, full), time.Now()
	desktest.Eventually(b, "the program shows", func() bool {
		now := capture(b, d, full)
		if !c.same(last, now) {
			last, since = now, time.Now()
		}
		seen := map[color.RGBA]bool{}
		for i := 0; i < len(now.Pix); i += 4 * 17 {
			seen[color.RGBA{now.Pix[i], now.Pix[i+1], now.Pix[i+2], 255}] = true
		}
		return len(seen) > 1 && time.Since(since) > 2*time.Second
	})
}

// same compares two captures.
func (c settleCase) same(a, z *image.RGBA) bool {
	different := 0
	for y := range a.Rect.Dy() {
		row := a.Pix[y*a.Stride:][:4*a.Rect.Dx()]
		other := z.Pix[y*z.Stride:][:4*a.Rect.Dx()]
		if bytes.Equal(row, other) {
			continue
		}
		for x := range a.Rect.Dx() {
			if !image.Pt(x, y).In(c.moves) && !bytes.Equal(row[4*x:4*x+4], other[4*x:4*x+4]) {
				different++
			}
		}
	}
	return different <= c.blink
}

func save(b *testing.B, path string, m image.Image) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, m); err != nil {
		b.Fatal(err)
	}
}

// clickButton clicks into the upper left, where all programs have their button.
func clickButton(d *Display, b *testing.B, round int) {
	err := d.Send(b.Context(), computer.Event{Kind: computer.Move, Point: image.Pt(100+round%2, 60)},
		computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton},
		computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
	if err != nil {
		b.Fatal(err)
	}
}

func typeLetter(d *Display, b *testing.B, round int) {
	if _, err := d.Type(b.Context(), string(rune('A'+round%26))); err != nil {
		b.Fatal(err)
	}
}

// launch starts a program on the display, which ends with the benchmark.
func launch(b *testing.B, s *desktest.Server, dir, name string, args ...string) {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(s.Env(), "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "NO_AT_BRIDGE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		b.Fatalf("%v; install what is missing with: make setup", err)
	}
	b.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// gtkButton is a GTK program with a button that changes a label and a colour at once. With
// an argument it has a spinner, and the button fades from state to state.
const gtkButton = `
import sys, gi
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk, Gdk
Gtk.Settings.get_default().set_property("gtk-enable-animations", len(sys.argv) > 1)
window = Gtk.Window(type=Gtk.WindowType.POPUP)
window.set_default_size(800, 600)
fixed = Gtk.Fixed()
button = Gtk.Button(label="Button")
button.set_size_request(200, 80)
area = Gtk.DrawingArea()
area.set_size_request(400, 300)
count = [0]
def draw(_, cr):
    cr.set_source_rgb(count[0] * 0.37 % 1, count[0] * 0.61 % 1, 0.5)
    cr.paint()
def clicked(_):
    count[0] += 1
    button.set_label("Button %d" % count[0])
    area.queue_draw()
button.connect("clicked", clicked)
area.connect("draw", draw)
fixed.put(button, 20, 20)
fixed.put(area, 20, 200)
if len(sys.argv) > 1:
    spinner = Gtk.Spinner()
    spinner.set_size_request(64, 64)
    spinner.start()
    fixed.put(spinner, 600, 200)
window.add(fixed)
window.show_all()
Gtk.main()
`

func gtkProgram(spinner bool) func(*testing.B, *desktest.Server, string) {
	return func(b *testing.B, s *desktest.Server, dir string) {
		args := []string{"-c", gtkButton}
		if spinner {
			args = append(args, "spinner")
		}
		launch(b, s, dir, "/usr/bin/python3", args...)
	}
}

func startXterm(b *testing.B, s *desktest.Server, dir string) {
	launch(b, s, dir, "xterm", "-geometry", "100x30+0+0", "-bc", "-e", "cat")
}

// browser starts a browser that fills the display with a page: one with a button that
// changes it and a spinner, or one whose button leads to another with ten pictures, which
// arrive one after the other within 120 ms.
func browser(name, path string) func(*testing.B, *desktest.Server, string) {
	return func(b *testing.B, s *desktest.Server, dir string) {
		site := httptest.NewServer(http.HandlerFunc(serveSettle))
		b.Cleanup(site.Close)
		if name == "chromium" {
			launch(b, s, dir, name, "--no-sandbox", "--no-first-run", "--test-type", "--disable-gpu", "--disable-dev-shm-usage",
				"--disable-background-networking", "--disable-extensions", "--password-store=basic", "--ozone-platform=x11",
				"--kiosk", "--window-position=0,0", "--window-size=800,600", "--user-data-dir="+dir, site.URL+path)
			return
		}
		preferences := `user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("datareporting.policy.dataSubmissionPolicyBypassNotification", true);
user_pref("full-screen-api.warning.timeout", 0);
user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);
`
		if err := os.WriteFile(filepath.Join(dir, "user.js"), []byte(preferences), 0o600); err != nil {
			b.Fatal(err)
		}
		launch(b, s, dir, name, "--kiosk", "--no-remote", "--profile", dir, "--width", "800", "--height", "600", site.URL+path)
	}
}

func serveSettle(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	w.Header().Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "/spinner":
		fmt.Fprint(w, `<!DOCTYPE html><style>
body { margin: 0 } button { position: absolute; left: 20px; top: 20px; width: 200px; height: 80px }
#area { position: absolute; left: 20px; top: 200px; width: 400px; height: 300px; background: #258 }
#spinner { position: absolute; left: 600px; top: 200px; width: 64px; height: 64px; border-radius: 50%;
  border: 8px solid #ddd; border-top-color: #258; animation: turn 1s linear infinite }
@keyframes turn { to { transform: rotate(360deg) } }
</style><button id=button>Button</button><div id=area></div><div id=spinner></div><script>
let n = 0
button.onclick = () => { n++; area.style.background = 'hsl(' + n * 70 + ' 50% 50%)'; button.textContent = 'Button ' + n }
</script>`)
	case "/page":
		<-time.After(20 * time.Millisecond)
		fmt.Fprintf(w, `<!DOCTYPE html><style>
body { margin: 0; padding-top: 120px; background: hsl(%d 50%% 90%%) }
a { position: absolute; left: 20px; top: 20px; width: 200px; height: 80px; background: #ccc }
img { width: 130px; height: 60px; margin: 4px }
</style><a href="/page?n=%d">Next %d</a>`, n*50%360, n+1, n)
		for i := range 10 {
			fmt.Fprintf(w, `<img src="/picture?n=%d">`, n*10+i)
		}
		for i := range 20 {
			fmt.Fprintf(w, `<p>Paragraph %d of page %d, with some words in it for the eye to rest on.`, i, n)
		}
	case "/picture":
		<-time.After(time.Duration(n%10+3) * 10 * time.Millisecond)
		m := image.NewRGBA(image.Rect(0, 0, 130, 60))
		for i := range m.Pix {
			m.Pix[i] = uint8(i*(n+3)) | 0x80
		}
		w.Header().Set("Content-Type", "image/png")
		_ = png.Encode(w, m)
	default:
		http.NotFound(w, r)
	}
}
