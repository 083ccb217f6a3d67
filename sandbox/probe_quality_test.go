//go:build linux

package sandbox_test

import (
	"fmt"
	"image"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/sandbox"
	"github.com/loupe-tools/loupe/vision"
)

// rectangle is all of a desktop's display.
func rectangle(d *sandbox.Desktop) image.Rectangle { return image.Rectangle{Max: d.Size()} }

// idle is how long applications are left alone to see whether they want something by
// themselves.
const idle = 30 * time.Second

// TestQuiet looks that applications that run for the first time show one window each, and
// ask the network for nothing.
func TestQuiet(t *testing.T) {
	t.Parallel()
	events := &eventLog{}
	d := start(t, &sandbox.Options{Apps: []string{"firefox", "chromium", "libreoffice", "mousepad", "pcmanfm", "galculator"}, Event: events.add})
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.Done():
		t.Fatal(d.Err())
	}
	for _, a := range events.attempts() {
		t.Errorf("something asked for %s:%d (%s)", a.Host, a.Port, a.Method)
	}
	found := windows(t, d)
	var titles []string
	for _, w := range found {
		titles = append(titles, w.Title)
		if w.Kind != "_NET_WM_WINDOW_TYPE_NORMAL" {
			t.Errorf("there is a window that is not an application's: %+v", w)
		}
	}
	slices.Sort(titles)
	want := []string{"LibreOffice", "Mozilla Firefox", "Untitled 1 - Mousepad", "about:blank - Chromium", "galculator", "user"}
	if !slices.Equal(titles, want) {
		t.Errorf("the windows are %q, want %q", titles, want)
	}
}

// samples are texts in the scripts that people's documents have.
var samples = map[string]string{
	"Latin": "Zażółć gęślą jaźń", "Greek": "Ξεσκεπάζω τὴν ψυχοφθόρα", "Cyrillic": "Съешь же ещё этих мягких булок",
	"Chinese": "天地玄黃宇宙洪荒简体", "Japanese": "いろはにほへとチリヌルヲ", "Korean": "키스의 고유조건은", "Arabic": "نص حكيم له سر قاطع",
	"emoji": "😀👩‍🚀🇪🇺❤️",
}

func TestQualities(t *testing.T) {
	t.Parallel()
	d := start(t, &sandbox.Options{TimeZone: "Asia/Kolkata", Apps: []string{"mousepad"}})

	t.Run("fonts", func(t *testing.T) {
		for script, text := range samples {
			got := output(t, d, fmt.Sprintf(`python3 - <<'END'
import gi
gi.require_version("Pango", "1.0"); gi.require_version("PangoCairo", "1.0")
from gi.repository import Pango, PangoCairo
layout = Pango.Layout(PangoCairo.FontMap.get_default().create_context())
layout.set_font_description(Pango.FontDescription("Sans 11"))
layout.set_text(%q, -1)
print(layout.get_unknown_glyphs_count(), layout.get_pixel_size()[0] > 0)
END`, text))
			if got != "0 True" {
				t.Errorf("%s has letters that no font has: %s", script, got)
			}
		}
	})
	t.Run("locale", func(t *testing.T) {
		if got := output(t, d, "locale charmap; locale 2>&1 | grep -ci 'cannot' || true"); got != "UTF-8\n0" {
			t.Errorf("the character set is %q", got)
		}
		if got := output(t, d, "touch 'žluťoučký 日本'; ls | grep 日; rm ž*"); got != "žluťoučký 日本" {
			t.Errorf("a file's name is %q", got)
		}
	})
	t.Run("time zone", func(t *testing.T) {
		if got := output(t, d, "date -d @1767225600 '+%F %T %Z'; cat /etc/timezone"); got != "2026-01-01 05:30:00 IST\nAsia/Kolkata" {
			t.Errorf("the time is %q", got)
		}
	})
	t.Run("the screen stays on", func(t *testing.T) {
		got := output(t, d, "xset q")
		if !strings.Contains(got, "timeout:  0") || !strings.Contains(got, "DPMS is Disabled") && !strings.Contains(got, "does not have the DPMS Extension") {
			t.Errorf("xset says %s", got)
		}
	})
	t.Run("clipboard", func(t *testing.T) {
		const text = "Übergrößenträger 日本"
		act(t, d, `type {"text": "`+text+`"}`, `key {"text": "ctrl+a"}`, `key {"text": "ctrl+x"}`)
		until(t, "the text that was cut", func() bool {
			return output(t, d, "xclip -selection clipboard -o 2>/dev/null || true") == text
		})
		output(t, d, "printf 'from elsewhere' | xclip -selection clipboard -i >/dev/null 2>&1")
		until(t, "the text that was pasted", func() bool {
			// The editor offers to paste from a moment after the clipboard has changed on. What is
			// selected in the end is another selection, PRIMARY.
			act(t, d, `key {"text": "ctrl+a"}`, `key {"text": "ctrl+v"}`, `key {"text": "ctrl+a"}`)
			return output(t, d, "xclip -selection primary -o 2>/dev/null || true") == "from elsewhere"
		})
	})
}

// act runs actions on a desktop as a model's turn does; each is a member's name and its input.
func act(t testing.TB, d *sandbox.Desktop, actions ...string) {
	t.Helper()
	hands, err := computer.New(d.Display(), &computer.Options{Limits: vision.HighResolution, Confirm: computer.ApproveAll})
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, action := range actions {
		name, input, _ := strings.Cut(action, " ")
		blocks = append(blocks, fmt.Sprintf(`{"type": "tool_use", "id": "%d", "toolset_name": "computer", "name": "%s", "input": %s}`, i, name, input))
	}
	turn, err := computer.ParseTurn([]byte("[" + strings.Join(blocks, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range hands.Run(t.Context(), turn) {
		if result.IsError {
			t.Fatalf("%s: %+v", actions[i], result)
		}
	}
}

// TestLaunchers clicks on each launcher of the panel and waits for the application.
func TestLaunchers(t *testing.T) {
	t.Parallel()
	d := start(t, &sandbox.Options{Size: image.Pt(1024, 768)})
	for i, class := range []string{"", "pcmanfm", "mousepad", "xterm"} { // the first is a browser, which other tests start
		if class == "" {
			continue
		}
		act(t, d, "screenshot {}", fmt.Sprintf(`left_click {"coordinate": [%d, %d]}`, 4+2+i*32+14, 768-18))
		until(t, "a window of "+class, func() bool {
			return slices.ContainsFunc(windows(t, d), func(w window) bool { return strings.Contains(strings.ToLower(w.Class), class) })
		})
	}
	if n := len(windows(t, d)); n != 3 {
		t.Errorf("three clicks have opened %d windows: %+v", n, windows(t, d))
	}
	// The terminal has the focus, and what is typed arrives.
	if _, err := d.Display().Type(t.Context(), "echo ärger > typed\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the file that was typed", func() bool { return output(t, d, "cat typed 2>/dev/null || true") == "ärger" })
}

// TestLarge looks at the largest display, with everything drawn twice as large.
func TestLarge(t *testing.T) {
	t.Parallel()
	d := start(t, &sandbox.Options{Size: image.Pt(3840, 2160), Scale: 2, Apps: []string{"mousepad"}})
	picture, err := d.Display().Capture(t.Context(), rectangle(d))
	if err != nil || picture.Bounds().Size() != image.Pt(3840, 2160) {
		t.Fatalf("the picture has %v, %v", picture.Bounds(), err)
	}
	// The panel is 36 high at scale 1, and darker than what is above it.
	until(t, "a panel of 72 rows", func() bool {
		strip, err := d.Display().Capture(t.Context(), image.Rect(2500, 2160-73, 2501, 2160))
		if err != nil {
			t.Fatal(err)
		}
		return strip.RGBAAt(0, 1) == strip.RGBAAt(0, 72) && strip.RGBAAt(0, 0) != strip.RGBAAt(0, 1)
	})
	if got := output(t, d, "xrdb -query | grep Xft.dpi | tr -d '\t '"); got != "Xft.dpi:192" {
		t.Errorf("letters are %s", got)
	}
	if got := output(t, d, `python3 -c '
import gi
gi.require_version("Gdk", "3.0"); gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, Gtk
print(Gdk.Display.get_default().get_monitor(0).get_scale_factor(), Gtk.Settings.get_default().props.gtk_xft_dpi // 1024)'`); got != "2 96" && got != "2 192" {
		t.Errorf("GTK says %q", got)
	}
	output(t, d, `echo '<!DOCTYPE html><title>waiting</title><script>document.title = "ratio " + devicePixelRatio</script>' >ratio.html`)
	for _, program := range []string{"chromium", "firefox-esr"} {
		output(t, d, "setsid "+program+" ~/ratio.html >/dev/null 2>&1 &")
		awaitTitle(t, d, "ratio 2")
		output(t, d, "pkill -KILL "+program)
		until(t, "the end of "+program, func() bool {
			return !slices.ContainsFunc(windows(t, d), func(w window) bool { return strings.Contains(w.Title, "ratio") })
		})
	}
}

// TestChromiumSandbox looks that Chromium has put its pages into namespaces of their own, in
// which they see no other process and no network.
func TestChromiumSandbox(t *testing.T) {
	t.Parallel()
	d := start(t, &sandbox.Options{Apps: []string{"chromium"}})
	// Renderers are those processes that are in process namespaces further in.
	got := output(t, d, `
		main=$(pgrep -o -x chromium)
		own() { readlink /proc/$1/ns/$2; }
		for p in $(pgrep -x chromium); do
			case $(tr '\0' ' ' </proc/$p/cmdline) in *--type=renderer*) ;; *) continue ;; esac
			[ $(grep ^NSpid /proc/$p/status | wc -w) -gt 2 ] || echo "renderer $p sees all processes"
			for kind in user net; do
				[ "$(own $p $kind)" != "$(own $main $kind)" ] && [ -n "$(own $p $kind)" ] || echo "renderer $p has the $kind namespace of all"
			done
			grep -q '^NoNewPrivs:.1' /proc/$p/status || echo "renderer $p can gain privileges"
			[ $(sed -n 's/^Seccomp_filters:.//p' /proc/$p/status) -gt $(sed -n 's/^Seccomp_filters:.//p' /proc/$main/status) ] || echo "renderer $p has no filter of its own"
			echo renderer
		done
		tr '\0' '\n' </proc/$main/cmdline | grep -e '--no-sandbox' -e '--disable-.*-sandbox' || true`)
	if lines := strings.Split(got, "\n"); slices.ContainsFunc(lines, func(l string) bool { return l != "renderer" }) {
		t.Errorf("Chromium's sandbox: %s", got)
	}
}
