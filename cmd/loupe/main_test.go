package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.RunGuest()
	testscript.Main(m, map[string]func(){"loupe": main})
}

// TestScripts runs the real command. Beside testscript's own, the scripts have these
// commands:
//
//	double FILE        start a double of the Messages API that plays the script in FILE, and set $DOUBLE to its URL and
//	                   $DOUBLE_ADDRESS to its host and port
//	hung               wait until the double hangs in mid-answer
//	unused N           the double's script has N turns left
//	checker FILE W H   draw a checkerboard of one-pixel squares
//	claim FILE W H     write a PNG that claims a size and holds nothing
//	truncate FILE N    keep the first N bytes of a file
//	imagesize FILE W H the image file has that size
//	display [WxH]      start an X display, 800x600 by default, and set $DISPLAY; more arguments are the server's
//	server DO          kill the display's server, or pause it as if it hung, or resume it
//	terminal           start a terminal on it, which has the keyboard focus
//	typed TEXT         the terminal's program has read this, in Go's notation, and nothing else
//	logging            cover the display with a window that logs what happens to it
//	logged TEXT        the window sees these events, such as "press 1 @10,20 release 1 @10,20"
//	held NUMBER        wait until so many keys and buttons are down
//	released           no key and no button is down
//	desktop [FLAG...]  start a desktop with loupe desktop, named $DESK, and wait until it can be used; what it
//	                   prints is in $DESK.out and $DESK.err
//	said TEXT          wait until its output matches the regular expression
//	signal NAME        send a signal to its process
//	ended STATUS       wait until its process has ended with the status, -1 for one that a signal ended
//	gone TEXT          wait until no process's command line has this in it
func TestScripts(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("find the standard library's test images: %v", err)
	}
	goroot := strings.TrimSpace(string(out))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			bin, _, _ := strings.Cut(os.Getenv("PATH"), string(filepath.ListSeparator))
			env.Setenv("LOUPE_BIN", bin)
			charts, err := filepath.Abs("../../reader/charts")
			if err != nil {
				return err
			}
			env.Setenv("CHARTS", charts)
			env.Setenv("IMAGES", filepath.Join(goroot, "src", "image", "testdata"))
			env.Values["double"] = &double{t: t}
			env.Values["desk"] = &desk{t: env.T().(testing.TB)}
			env.Values["sandbox"] = &sandboxed{t: env.T().(testing.TB)}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"double":    startDouble,
			"hung":      waitHung,
			"unused":    checkUnused,
			"checker":   drawChecker,
			"claim":     writeClaim,
			"truncate":  truncate,
			"imagesize": checkSize,
			"display":   startDisplay,
			"server":    commandServer,
			"terminal":  startTerminal,
			"typed":     checkTyped,
			"logging":   startLogging,
			"logged":    checkLogged,
			"held":      waitHeld,
			"released":  checkReleased,
			"desktop":   startDesktop,
			"said":      waitSaid,
			"signal":    signalDesktop,
			"ended":     waitEnded,
			"gone":      waitGone,
		},
	})
}

type double struct {
	t       *testing.T
	handler *claudetest.Handler
}

func startDouble(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: double FILE")
	}
	turns, err := claudetest.Parse(args[0], ts.ReadFile(args[0]))
	ts.Check(err)
	d := ts.Value("double").(*double)
	d.handler = claudetest.NewHandler(nil, turns...)
	server := httptest.NewServer(d.handler)
	ts.Setenv("DOUBLE", server.URL)
	ts.Setenv("DOUBLE_ADDRESS", strings.TrimPrefix(server.URL, "http://"))
	ts.Defer(func() {
		d.handler.Close()
		server.CloseClientConnections()
		server.Close()
		if failures := d.handler.Failures(); len(failures) > 0 {
			d.t.Errorf("%s: the double: %s", ts.Name(), strings.Join(failures, "\n"))
		}
		if n := d.handler.Totals().Downscaled; n > 0 {
			d.t.Errorf("%s: %d images would be scaled down silently", ts.Name(), n)
		}
	})
}

func waitHung(ts *testscript.TestScript, _ bool, _ []string) {
	select {
	case <-ts.Value("double").(*double).handler.Hung():
	case <-time.After(time.Minute):
		ts.Fatalf("the double did not come to hang")
	}
}

func checkUnused(ts *testscript.TestScript, _ bool, args []string) {
	if got := ts.Value("double").(*double).handler.Unused(); strconv.Itoa(got) != args[0] {
		ts.Fatalf("%d turns are left, want %s", got, args[0])
	}
}

func numbers(ts *testscript.TestScript, args []string) (w, h int) {
	if len(args) != 3 {
		ts.Fatalf("usage: FILE WIDTH HEIGHT")
	}
	w, err := strconv.Atoi(args[1])
	ts.Check(err)
	h, err = strconv.Atoi(args[2])
	ts.Check(err)
	return w, h
}

func drawChecker(ts *testscript.TestScript, _ bool, args []string) {
	w, h := numbers(ts, args)
	m := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	for y := range h {
		for x := range w {
			m.Pix[y*m.Stride+x] = uint8((x + y) % 2)
		}
	}
	var b bytes.Buffer
	ts.Check(png.Encode(&b, m))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

func writeClaim(ts *testscript.TestScript, _ bool, args []string) {
	w, h := numbers(ts, args)
	header := binary.BigEndian.AppendUint32([]byte("IHDR"), uint32(w))
	header = binary.BigEndian.AppendUint32(header, uint32(h))
	header = append(header, 8, 6, 0, 0, 0)
	data := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(header))
	data = append(data, make([]byte, 44<<10)...)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o666))
}

func truncate(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

func checkSize(ts *testscript.TestScript, _ bool, args []string) {
	w, h := numbers(ts, args)
	p, err := picture.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	if got := p.Image.Rect.Size(); got != image.Pt(w, h) {
		ts.Fatalf("%s is %v, want %dx%d", args[0], got, w, h)
	}
}
