package bench

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/sandbox"
)

var rounds = flag.Int("rounds", 10, "how often each thing is measured")

// ownerVariable is set in a process that starts a desktop and is killed.
const ownerVariable = "LOUPE_BENCH_OWNER"

func TestMain(m *testing.M) {
	sandbox.RunGuest()
	if os.Getenv(ownerVariable) != "" {
		d, err := sandbox.Start(context.Background(), nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		<-d.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// BenchmarkDesktop measures everything once, however often it is asked to, and prints a table.
func BenchmarkDesktop(b *testing.B) {
	// What a killed owner leaves behind becomes ours, to be waited for.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		b.Fatal(err)
	}
	t := &table{}
	single(b, t)
	several(b, t, 8)
	killed(b, t)
	applications(b, t)
	fmt.Printf("\n\n%s, %d processors, %d rounds\n\n%s\n", processor(), runtime.NumCPU(), *rounds, t)
	b.ReportMetric(0, "ns/op")
}

func start(b *testing.B, o *sandbox.Options) *sandbox.Desktop {
	b.Helper()
	d, err := sandbox.Start(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// single measures one desktop at a time.
func single(b *testing.B, t *table) {
	var started, usable, closed, noticed []time.Duration
	memory := map[string][]int64{}
	for range *rounds {
		began := time.Now()
		d := start(b, nil)
		started = append(started, time.Since(began))
		clickPanel(b, d)
		usable = append(usable, time.Since(began))
		closed = append(closed, timed(func() { _ = d.Close() }))
		if left := descendants(os.Getpid()); len(left) > 0 {
			b.Fatalf("left after Close: %v", left)
		}

		d = start(b, nil)
		for part, size := range memoryOf(b, descendants(os.Getpid())) {
			memory[part] = append(memory[part], size)
		}
		server := slices.IndexFunc(descendants(os.Getpid()), func(p process) bool { return p.name == "Xvfb" })
		if server < 0 {
			b.Fatal("there is no Xvfb")
		}
		pid := descendants(os.Getpid())[server].pid
		noticed = append(noticed, timed(func() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				b.Fatal(err)
			}
			<-d.Done()
		}))
		if !errors.Is(d.Err(), sandbox.ErrEnded) {
			b.Fatalf("the desktop ended with %v", d.Err())
		}
	}
	t.times("Start returns", started, 0)
	t.times("start to usable: a click on the panel answered by a drawn window", usable, 3*time.Second)
	t.times("Close to nothing left", closed, time.Second)
	t.times("X server killed to said, and nothing left", noticed, time.Second)
	parts := make([]string, 0, len(memory))
	for part := range memory {
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b string) int { return int(median(memory[b]) - median(memory[a])) })
	for _, part := range parts {
		target := int64(0)
		if part == allParts {
			target = 200 << 20
		}
		t.sizes("memory of an idle desktop, "+part, memory[part], target)
	}
}

// several measures desktops that run at once.
func several(b *testing.B, t *table, n int) {
	var started, closed []time.Duration
	var memory []int64
	desktops := make([]*sandbox.Desktop, n)
	for range *rounds {
		started = append(started, timed(func() {
			var all sync.WaitGroup
			for i := range desktops {
				all.Go(func() { desktops[i], _ = sandbox.Start(context.Background(), nil) })
			}
			all.Wait()
		}))
		for _, d := range desktops {
			if d == nil {
				b.Fatal("one of several desktops did not start")
			}
		}
		memory = append(memory, memoryOf(b, descendants(os.Getpid()))[allParts]/int64(n))
		closed = append(closed, timed(func() {
			var all sync.WaitGroup
			for _, d := range desktops {
				all.Go(func() { _ = d.Close() })
			}
			all.Wait()
		}))
	}
	t.times(fmt.Sprintf("%d at once: Start returns for the last", n), started, 0)
	t.times(fmt.Sprintf("%d at once: Close to nothing left of any", n), closed, 0)
	t.sizes(fmt.Sprintf("%d at once: memory of each", n), memory, 200<<20)
}

// killed measures how long anything is left of a desktop whose owner was killed.
func killed(b *testing.B, t *table) {
	var gone []time.Duration
	for range *rounds {
		reader, writer, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		owner, err := os.StartProcess("/proc/self/exe", os.Args[:1], &os.ProcAttr{
			Env: append(os.Environ(), ownerVariable+"=1"), Files: []*os.File{nil, writer, os.Stderr}})
		if err != nil {
			b.Fatal(err)
		}
		_ = writer.Close()
		if line, err := bufio.NewReader(reader).ReadString('\n'); line != "ready\n" {
			b.Fatalf("the owner says %q, %v", line, err)
		}
		gone = append(gone, timed(func() {
			if err := owner.Kill(); err != nil {
				b.Fatal(err)
			}
			for err := error(nil); !errors.Is(err, syscall.ECHILD); {
				_, err = syscall.Wait4(-1, nil, 0, nil) // until there is none left
			}
		}))
		_, _ = reader.Close(), owner.Release()
	}
	t.times("owner killed with -9 to nothing left", gone, time.Second)
}

// applications measures each application on a desktop of its own.
func applications(b *testing.B, t *table) {
	for _, name := range []string{"xterm", "galculator", "mousepad", "pcmanfm", "calc", "writer", "libreoffice", "chromium", "firefox"} {
		var shown []time.Duration
		for range *rounds {
			windows := make(chan time.Duration, 1)
			d := start(b, &sandbox.Options{Apps: []string{name}, Event: func(e sandbox.Event) {
				if e.Kind == sandbox.EventWindow {
					windows <- e.Took
				}
			}})
			shown = append(shown, <-windows)
			_ = d.Close()
		}
		t.times("start to first window: "+name, shown, 0)
	}
}

// clickPanel clicks on the panel's launcher of xterm and waits until its window is drawn.
func clickPanel(b *testing.B, d *sandbox.Desktop) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := image.Rectangle{Max: d.Size()}
	before, err := d.Display().Capture(ctx, all)
	if err != nil {
		b.Fatal(err)
	}
	at := image.Pt(launcher, d.Size().Y-18)
	err = d.Display().Send(ctx, computer.Event{Kind: computer.Move, Point: at},
		computer.Event{Kind: computer.ButtonDown, Button: computer.LeftButton}, computer.Event{Kind: computer.ButtonUp, Button: computer.LeftButton})
	if err != nil {
		b.Fatal(err)
	}
	look := time.NewTicker(10 * time.Millisecond) // to look takes time from who draws
	defer look.Stop()
	for changed := 0; changed < all.Dx()*all.Dy()/8; <-look.C {
		now, err := d.Display().Capture(ctx, all)
		if err != nil {
			b.Fatalf("no window answered a click on the panel: %v", err)
		}
		changed = 0
		for i := 0; i < len(now.Pix); i += 4 {
			if [4]byte(now.Pix[i:]) != [4]byte(before.Pix[i:]) {
				changed++
			}
		}
	}
}

// launcher is the place of xterm's on the panel: the last of the four that a bare desktop has.
const launcher = 115

// process is one that runs, or a zombie.
type process struct {
	pid, parent int
	name        string
}

// descendants lists the processes below one.
func descendants(of int) (below []process) {
	var all []process
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var p process
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		p.name = string(text[open+1 : end])
		p.parent, _ = strconv.Atoi(strings.Fields(string(text[end+1:]))[1])
		all = append(all, p)
	}
	parents := map[int]bool{of: true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if parents[p.parent] && !parents[p.pid] {
				parents[p.pid], more = true, true
				below = append(below, p)
			}
		}
	}
	return below
}

const allParts = "all of it"

// memoryOf sums the memory of processes by their names, in bytes.
func memoryOf(b *testing.B, all []process) map[string]int64 {
	sizes := map[string]int64{}
	for _, p := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
		if err != nil {
			b.Fatalf("the memory of other users' processes is for root to read: %v", err)
		}
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		var size int64
		_, _ = fmt.Sscan(rest, &size)
		sizes[p.name] += size << 10
		sizes[allParts] += size << 10
	}
	return sizes
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func median[T time.Duration | int64](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

type table struct{ rows [][]string }

// times adds a row. No target is 0.
func (t *table) times(what string, took []time.Duration, target time.Duration) {
	row := []string{what, seconds(median(took)), seconds(slices.Max(took))}
	if target > 0 {
		row = append(row, "under "+seconds(target), met(slices.Max(took) < target))
	}
	t.rows = append(t.rows, row)
}

// sizes adds a row, of bytes.
func (t *table) sizes(what string, sizes []int64, target int64) {
	row := []string{what, mebibytes(median(sizes)), mebibytes(slices.Max(sizes))}
	if target > 0 {
		row = append(row, "under "+mebibytes(target), met(slices.Max(sizes) < target))
	}
	t.rows = append(t.rows, row)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mebibytes(size int64) string { return fmt.Sprintf("%.0f MiB", float64(size)/(1<<20)) }

// met says of the worst whether it is within the target.
func met(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
}

func (t *table) String() string {
	rows := append([][]string{{"what", "median", "worst", "target", ""}}, t.rows...)
	widths := make([]int, len(rows[0]))
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
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}
