package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
)

// BenchmarkComputer measures everything once, however often it is asked to, and prints a
// table.
func BenchmarkComputer(b *testing.B) {
	d := newDesk(b)
	var t table
	d.click(b, &t)
	d.screenshot(b, &t)
	d.react(b, &t)
	d.unicode(b, &t)
	d.settle(b, &t)
	fmt.Printf("\n\n%s, %d processors\n\n%s\n", processor(), runtime.NumCPU(), t.String())
	b.ReportMetric(0, "ns/op")
}

// desk is a display with windows on it.
type desk struct {
	server  *desktest.Server
	display *x11.Display
	tools   *computer.Toolset
	gtk     *desktest.GTK
}

var size = image.Pt(1920, 1080)

func newDesk(b *testing.B) *desk {
	d := &desk{server: desktest.Xvfb(b, desktest.Options{Width: size.X, Height: size.Y})}
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, "\x1b[%dmline %d of what a terminal shows, in colours\x1b[0m\r\n", 31+i%6, i)
	}
	d.server.Xterm(b, desktest.XtermOptions{At: image.Pt(20, 40), Show: lines.String()})
	d.server.Xterm(b, desktest.XtermOptions{At: image.Pt(60, 500), Show: lines.String(), Args: []string{"-bg", "black", "-fg", "white"}})
	d.gtk = d.server.GTK(b, desktest.GTKOptions{X: 700, Y: 60, Width: 1100, Height: 900})
	var err error
	if d.display, err = x11.Open(b.Context(), d.server.Name(), nil); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.display.Close() })
	d.tools, err = computer.New(d.display, &computer.Options{Limits: vision.HighResolution, Confirm: computer.ApproveAll})
	if err != nil {
		b.Fatal(err)
	}
	d.run(b, use{"screenshot", nil})
	return d
}

// use is one call of a member.
type use struct {
	member string
	input  map[string]any
}

// run answers one turn and returns the image that it ends with, if any.
func (d *desk) run(b *testing.B, uses ...use) []byte {
	b.Helper()
	var turn []computer.ToolUse
	for i, u := range uses {
		input, err := json.Marshal(u.input)
		if err != nil {
			b.Fatal(err)
		}
		if u.input == nil {
			input = []byte("{}")
		}
		turn = append(turn, computer.ToolUse{ID: fmt.Sprint("toolu_", i), Name: u.member, ToolsetName: computer.ToolsetName, Input: input})
	}
	var last []byte
	for i, result := range d.tools.Run(b.Context(), turn) {
		if result.IsError {
			b.Fatalf("%s: %s", uses[i].member, result.Content[0].Text)
		}
		last = nil
		for _, c := range result.Content {
			if c.Image != nil {
				last = c.Image.Data
			}
		}
	}
	return last
}

// program runs another program on the display to its end.
func (d *desk) program(b *testing.B, name string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Env = d.server.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s (install it with: make setup): %v\n%s", name, err, out)
	}
}

// click is a move, a click and a round trip to the display, against xdotool.
func (d *desk) click(b *testing.B, t *table) {
	list := d.gtk.Rect(b, desktest.List) // where a click changes nothing
	var ours, theirs []time.Duration
	for round := range 15 {
		for i := range 40 {
			p := list.Min.Add(image.Pt(20+40*(i%2), 20+round))
			ours = append(ours, timed(func() {
				err := d.display.Send(b.Context(), computer.Event{Kind: computer.Move, Point: p},
					computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}, computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
				if err != nil {
					b.Fatal(err)
				}
			}))
		}
		p := list.Min.Add(image.Pt(120, 20+round)) // never where the pointer is
		theirs = append(theirs, timed(func() {
			d.program(b, "xdotool", "mousemove", "--sync", fmt.Sprint(p.X), fmt.Sprint(p.Y), "click", "1")
		}))
	}
	t.ratio("move, click and round trip", ours, "xdotool mousemove --sync X Y click 1", theirs, 100)
}

// screenshot is one of the whole display as a PNG file, against scrot.
func (d *desk) screenshot(b *testing.B, t *table) {
	ownFile, file := filepath.Join(b.TempDir(), "own.png"), filepath.Join(b.TempDir(), "scrot.png")
	var ours, theirs []time.Duration
	for range 15 {
		ours = append(ours, timed(func() {
			if err := os.WriteFile(ownFile, d.run(b, use{"screenshot", nil}), 0o600); err != nil {
				b.Fatal(err)
			}
		}))
		theirs = append(theirs, timed(func() { d.program(b, "scrot", "--overwrite", file) }))
	}
	for _, name := range []string{ownFile, file} {
		p, err := picture.Open(name, nil)
		if err != nil {
			b.Fatal(err)
		}
		if got := p.Image.Rect.Size(); got != size {
			b.Fatalf("%s is %v, not %v", name, got, size)
		}
	}
	t.ratio(fmt.Sprintf("screenshot to PNG, %dx%d (%s, scrot's %s)", size.X, size.Y, weight(b, ownFile), weight(b, file)), ours, "scrot", theirs, 3)
}

// react is a click on a button that redraws at once, and the screenshot that shows it.
func (d *desk) react(b *testing.B, t *table) {
	d.gtk.Clear(b)
	d.gtk.Redraw(b)
	at := d.gtk.Center(b, desktest.Button)
	area := d.gtk.Rect(b, desktest.Button)
	before := crop(b, d.run(b, use{"left_click", point(at)}, use{"screenshot", nil}), area)
	var ours []time.Duration
	shown := 0
	for range 25 {
		var shot []byte
		ours = append(ours, timed(func() {
			shot = d.run(b, use{"left_click", point(at)}, use{"screenshot", nil})
		}))
		after := crop(b, shot, area)
		if !bytes.Equal(before, after) {
			shown++
		}
		before = after
	}
	t.bound(fmt.Sprintf("click, settle, screenshot (%d of %d show it)", shown, len(ours)), ours, 150*time.Millisecond)
}

// unicode is typing 1,000 mixed characters into a GTK text view, until they are there.
func (d *desk) unicode(b *testing.B, t *table) {
	var text strings.Builder
	const part = "The quick brown fox, {@#~<>} 0123456789 ÄÖÜßéñ Жщё Ωλ 漢字かな交じり文 中文輸入 한글 😀🎉🚀 €½→\n"
	for utf8.RuneCountInString(text.String()) < 1000 {
		text.WriteString(part)
	}
	want := string([]rune(text.String())[:1000])
	d.gtk.Focus(b, desktest.Text)
	intact := 0
	var ours []time.Duration
	for range 5 {
		d.gtk.Clear(b)
		var got string
		ours = append(ours, timed(func() {
			d.run(b, use{"type", map[string]any{"text": want}})
			got = d.gtk.State(b).Text
		}))
		if got == want {
			intact++
		}
	}
	t.bound(fmt.Sprintf("1,000 Unicode characters into GTK (%d of %d intact)", intact, len(ours)), ours, 3*time.Second)

	d.gtk.Clear(b)
	theirs := timed(func() { d.program(b, "xdotool", "type", "--", want) })
	wrong := differences([]rune(want), []rune(d.gtk.State(b).Text))
	t.note("the same, xdotool type", []time.Duration{theirs}, fmt.Sprintf("%d characters wrong", wrong))
}

// differences is how many of the characters wanted are not in their place.
func differences(want, got []rune) int {
	n := 0
	for i, r := range want {
		if i >= len(got) || got[i] != r {
			n++
		}
	}
	return n
}

// settle is a key pressed in a program that takes its time, and a screenshot of what comes
// of it: after settling, and after sleeps of a fixed length.
func (d *desk) settle(b *testing.B, t *table) {
	entry := d.gtk.Rect(b, desktest.Entry)
	for _, delay := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		d.gtk.Slow(b, delay)
		for _, wait := range []struct {
			name   string
			rounds int
			look   func() []byte
		}{
			{"settle", 10, func() []byte {
				return d.run(b, use{"key", map[string]any{"text": "x"}}, use{"screenshot", nil})
			}},
			{"sleep 0.1 s", 5, func() []byte { return d.afterSleep(b, 100*time.Millisecond) }},
			{"sleep 0.5 s", 5, func() []byte { return d.afterSleep(b, 500*time.Millisecond) }},
			{"sleep 2 s", 2, func() []byte { return d.afterSleep(b, 2*time.Second) }},
		} {
			var took []time.Duration
			shown := 0
			for range wait.rounds {
				d.gtk.Clear(b)
				d.gtk.Focus(b, desktest.Entry)
				before := crop(b, d.run(b, use{"screenshot", nil}), entry)
				var shot []byte
				took = append(took, timed(func() { shot = wait.look() }))
				if d.gtk.State(b).Entry != "x" {
					b.Fatal("the key did not arrive")
				}
				if !bytes.Equal(before, crop(b, shot, entry)) {
					shown++
				}
			}
			t.note(fmt.Sprintf("a key, %s, screenshot; the program answers after %v", wait.name, delay), took, fmt.Sprintf("%d of %d show it", shown, wait.rounds))
		}
	}
	d.gtk.Slow(b, 0)
}

// afterSleep presses a key and captures the display after a fixed time.
func (d *desk) afterSleep(b *testing.B, pause time.Duration) []byte {
	key := computer.Key('x')
	err := d.display.Send(b.Context(), computer.Event{Kind: computer.KeyDown, Key: key}, computer.Event{Kind: computer.KeyUp, Key: key})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), pause)
	defer cancel()
	<-ctx.Done()
	m, err := d.display.Capture(b.Context(), image.Rectangle{Max: size})
	if err != nil {
		b.Fatal(err)
	}
	encoded, err := picture.EncodeView(m, 0)
	if err != nil {
		b.Fatal(err)
	}
	return encoded.Data
}

func point(p image.Point) map[string]any { return map[string]any{"coordinate": [2]int{p.X, p.Y}} }

// crop returns the pixels of a region of an image file.
func crop(b *testing.B, data []byte, r image.Rectangle) []byte {
	b.Helper()
	p, err := picture.DecodeBytes(data, nil)
	if err != nil {
		b.Fatal(err)
	}
	var pixels []byte
	for y := r.Min.Y; y < r.Max.Y; y++ {
		pixels = append(pixels, p.Image.Pix[p.Image.PixOffset(r.Min.X, y):p.Image.PixOffset(r.Max.X, y)]...)
	}
	return pixels
}

func weight(b *testing.B, name string) string {
	info, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("%d KB", info.Size()/1000)
}

func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

// table is what was measured, one row each.
type table struct{ rows [][]string }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// ratio adds a row of something that should be so many times as fast as another program.
func (t *table) ratio(what string, ours []time.Duration, other string, theirs []time.Duration, target float64) {
	ratio := float64(median(theirs)) / float64(median(ours))
	t.row(what, short(median(ours)), other+": "+short(median(theirs)), fmt.Sprintf("%.2fx", ratio), fmt.Sprintf("at least %.0fx", target), met(ratio >= target))
}

// bound adds a row of something that should take no longer than the target.
func (t *table) bound(what string, ours []time.Duration, target time.Duration) {
	t.row(what, short(median(ours)), "", "", "under "+short(target), met(median(ours) < target))
}

// note adds a row without a target.
func (t *table) note(what string, took []time.Duration, outcome string) {
	t.row(what, short(median(took)), outcome, "", "", "")
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.3f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func (t *table) String() string {
	heading := []string{"what", "median", "beside it", "ratio", "target", ""}
	widths := make([]int, len(heading))
	rows := append([][]string{heading}, t.rows...)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return text.String()
}

// processor is the kind of processor, as the kernel calls it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}
