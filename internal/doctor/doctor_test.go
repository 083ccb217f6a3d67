package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loupe-tools/loupe/internal/doctor"
	"github.com/loupe-tools/loupe/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const secret = "sk-ant-not-to-be-shown"

// machine describes one: its programs and files, what programs print by command line
// (one that is not there fails), and its environment.
type machine struct {
	has        []string
	prints     map[string]string
	key        string
	root, jpeg bool
	display    string
	lacks      []string
	refuses    error
	cpuinfo    string
	confined   error             // why nothing can be isolated
	unlimited  error             // why there is no control group
	switches   map[string]string // of the kernel, by path
}

func (m machine) env() *doctor.Env {
	return &doctor.Env{
		LookPath: func(name string) (string, error) {
			if slices.Contains(m.has, name) {
				return "/usr/bin/" + name, nil
			}
			return "", errors.New("not found")
		},
		Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			if name == "/usr/bin/python3" { // the program's text is not ours to repeat
				args = args[2:]
			}
			out, ok := m.prints[strings.Join(append([]string{name}, args...), " ")]
			if !ok {
				return nil, errors.New("exit status 1")
			}
			return []byte(out), nil
		},
		Getenv: func(name string) string {
			switch name {
			case "ANTHROPIC_API_KEY":
				return m.key
			case "DISPLAY":
				return m.display
			}
			return ""
		},
		ReadFile: func(name string) ([]byte, error) {
			if name == "/proc/cpuinfo" && m.cpuinfo != "" {
				return []byte(m.cpuinfo), nil
			}
			if text, ok := m.switches[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		Exists: func(name string) bool { return slices.Contains(m.has, name) },
		Root:   m.root,
		Program: doctor.Program{
			JPEG:    m.jpeg,
			Display: func(context.Context) (string, []string, error) { return "1280x800", m.lacks, m.refuses },
			Isolate: func(context.Context) error { return m.confined },
			Limit:   func() error { return m.unlimited },
		},
	}
}

var everything = []string{
	"apt-get", "sudo", "tesseract", "gcc", "make", "git", "/usr/bin/python3", "/usr/include/jpeglib.h",
	"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "/usr/share/gocode/src/github.com/rwcarlsen/goexif",
	"/usr/share/gocode/src/golang.org/x/image",
	"Xvfb", "xterm", "xdotool", "scrot", "chromium", "firefox-esr", "mutter", "openbox", "dbus-run-session",
	"xev", "setxkbmap", "xrandr", "xauth", "/usr/libexec/at-spi-bus-launcher", "/usr/share/X11/xkb/rules/evdev",
	"/usr/include/X11/keysymdef.h",
	"bwrap", "tint2", "dbus-daemon", "x11vnc", "/usr/share/novnc/core/rfb.js", "mousepad", "pcmanfm", "galculator", "xclip", "pkill",
	"/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",
	"/usr/share/icons/Adwaita/index.theme", "/usr/share/zoneinfo/Europe/Berlin", "/usr/lib/libreoffice/program/libswlo.so",
	"/usr/lib/libreoffice/program/libsclo.so", "/usr/lib/libreoffice/program/libvclplug_gtk3lo.so",
}

// without is everything but some.
func without(some ...string) []string {
	return slices.DeleteFunc(slices.Clone(everything), func(name string) bool { return slices.Contains(some, name) })
}

func printing(version, languages, absent string) map[string]string {
	return map[string]string{
		"tesseract --version":                   version,
		"tesseract --list-langs":                languages,
		"/usr/bin/python3 matplotlib PIL numpy": absent,
		"/usr/bin/python3 Gtk-3.0 Atspi-2.0":    "\n",
	}
}

var errNamespaces = errors.New("bubblewrap says: No permissions to create a new namespace")

const (
	version5  = "tesseract 5.3.0\n leptonica-1.82.0\n"
	languages = "List of available languages in \"/usr/share/tesseract-ocr/5/tessdata/\" (2):\neng\nosd\n"
	flags     = "processor\t: 0\nflags\t\t: fpu sse4_2 avx2 avx512f avx512bw avx512vl\n"
)

// TestWrite compares what a person sees with testdata/NAME.txt.
func TestWrite(t *testing.T) {
	for name, test := range map[string]struct {
		machine
		ok bool
	}{
		"complete": {machine{has: everything, prints: printing(version5, languages, "\n"), key: secret, jpeg: true, cpuinfo: flags, display: ":1"}, true},
		"no-xtest": {machine{has: everything, prints: printing(version5, languages, "\n"), key: secret, jpeg: true, display: ":1", refuses: errors.New("display :1 has no XTEST")}, true},
		"some-extensions": {machine{has: everything, prints: map[string]string{"/usr/bin/python3 Gtk-3.0 Atspi-2.0": "Atspi-2.0\n"}, key: secret, jpeg: true,
			display: ":1", lacks: []string{"MIT-SHM", "DAMAGE"}}, true},
		"bare-root":          {machine{has: []string{"apt-get"}, root: true}, false},
		"bare-sudo":          {machine{has: []string{"apt-get", "sudo"}, cpuinfo: "flags : sse2 avx2\n"}, false},
		"bare-su":            {machine{has: []string{"apt-get"}}, false},
		"bare-elsewhere":     {machine{}, false},
		"bare-with-key":      {machine{has: []string{"apt-get", "sudo"}, key: secret}, true},
		"no-key":             {machine{has: everything, prints: printing(version5, languages, "\n"), jpeg: true, cpuinfo: flags}, true},
		"no-english":         {machine{has: everything, prints: printing(version5, "List of available languages (2):\ndeu\nosd\n", "\n"), jpeg: true}, false},
		"old-tesseract":      {machine{has: everything, prints: printing("tesseract 3.05.02\n", languages, "\n"), jpeg: true}, false},
		"broken":             {machine{has: everything, jpeg: true}, false},
		"openbox-for-mutter": {machine{has: without("mutter"), prints: printing(version5, languages, "\n"), key: secret, jpeg: true}, true},
		"no-novnc":           {machine{has: without("/usr/share/novnc/core/rfb.js"), prints: printing(version5, languages, "\n"), key: secret, jpeg: true}, true},
		"no-namespaces": {machine{has: everything, prints: printing(version5, languages, "\n"), key: secret, jpeg: true,
			confined: errNamespaces, switches: map[string]string{"/proc/sys/user/max_user_namespaces": "0\n"}}, true},
		"no-namespaces-apparmor": {machine{has: everything, prints: printing(version5, languages, "\n"), key: secret, jpeg: true, root: true,
			confined: errNamespaces, switches: map[string]string{"/proc/sys/user/max_user_namespaces": "31000\n",
				"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}}, true},
		"no-namespaces-container": {machine{has: everything, prints: printing(version5, languages, "\n"), key: secret, jpeg: true, confined: errNamespaces}, true},
		"no-groups": {machine{has: append([]string{"systemd-run"}, everything...), prints: printing(version5, languages, "\n"), key: secret, jpeg: true,
			unlimited: errors.New("no control group can be made here")}, true},
		"some-modules": {machine{has: everything, prints: printing(version5, languages, "matplotlib numpy\n"), jpeg: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			findings := doctor.Check(t.Context(), test.env())
			var out bytes.Buffer
			if err := doctor.Write(&out, findings); err != nil {
				t.Fatal(err)
			}
			if ok := doctor.OK(findings); ok != test.ok {
				t.Errorf("OK = %v, want %v", ok, test.ok)
			}
			asJSON, err := json.Marshal(findings)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String()+string(asJSON), secret) {
				t.Error("the key is shown")
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// TestJSON holds the keys, which are a promise.
func TestJSON(t *testing.T) {
	findings := doctor.Check(t.Context(), machine{has: []string{"apt-get"}, root: true}.env())
	got, err := json.Marshal(findings[1])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"tesseract","level":"required","ok":false,"for":"the built-in reader","detail":"not found",` +
		`"packages":["tesseract-ocr","tesseract-ocr-eng"],"fix":"apt-get install -y --no-install-recommends tesseract-ocr tesseract-ocr-eng"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSystem checks the machine that the tests run on, where nothing that tests need is
// missing once scripts/setup has run.
func TestSystem(t *testing.T) {
	program := machine{}.env().Program
	program.JPEG, program.Isolate = true, sandbox.CanIsolate
	for _, f := range doctor.Check(t.Context(), doctor.System(program)) {
		if !f.OK && f.Name != "ANTHROPIC_API_KEY" && f.Name != "X display" {
			t.Errorf("%s is missing (%s); run: %s", f.Name, f.Detail, f.Fix)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteFails(t *testing.T) {
	if err := doctor.Write(full{}, []doctor.Finding{{Name: "x"}}); err == nil {
		t.Error("no error")
	}
}
