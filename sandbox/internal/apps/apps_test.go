package apps

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// machine makes a root directory in which the named programs are installed.
func machine(t testing.TB, programs ...string) string {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		put("/usr/bin/"+p, "#!/bin/sh\n", 0o755)
	}
	if slices.Contains(programs, "libreoffice") {
		put("/usr/lib/libreoffice/program/versionrc", "[Version]\nbuildid=40(Build:2)\n", 0o644)
		put("/usr/lib/libreoffice/program/libswlo.so", "", 0o644)
		put("/usr/lib/libreoffice/program/libsclo.so", "", 0o644)
	}
	put("/usr/share/zoneinfo/Europe/Berlin", "TZif2", 0o644)
	put("/usr/share/zoneinfo/tzdata.zi", "# version", 0o644)
	return root
}

func pick(t testing.TB, root string, names ...string) []App {
	t.Helper()
	var list []App
	for _, n := range names {
		a, err := find(root, n)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// setups are the desktops of the golden files.
func setups(t testing.TB) map[string]Setup {
	full := machine(t, "firefox-esr", "chromium", "libreoffice", "mousepad", "pcmanfm", "galculator", "xterm", "xeyes")
	small := machine(t, "chromium", "xterm")
	return map[string]Setup{
		"usual": {
			Apps: pick(t, full, "firefox", "libreoffice", "mousepad"), Size: image.Pt(1280, 800),
			Proxy: "127.0.0.1:3128", root: full,
		},
		"scaled": {
			Apps: pick(t, full, "files", "calc", "xeyes"), Size: image.Pt(3840, 2160), Scale: 2.5,
			Proxy: "127.0.0.1:3128", TimeZone: "Europe/Berlin", MachineID: strings.Repeat("ab", 16), root: full,
		},
		"small": {Size: image.Pt(1024, 768), Home: "/home/ann", User: "ann", HostName: "vm-2", root: small},
	}
}

// dump is everything of a setup as one text.
func dump(s Setup) string {
	var b strings.Builder
	files := s.Files()
	slices.SortFunc(files, func(a, c File) int { return strings.Compare(a.Path, c.Path) })
	for _, f := range files {
		fmt.Fprintf(&b, "-- %s %#o --\n%s", f.Path, f.Mode, f.Data)
		if !strings.HasSuffix(string(f.Data), "\n") {
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "-- environment --\n%s\n", strings.Join(s.Env(), "\n"))
	fmt.Fprintf(&b, "-- resources --\n%s", s.Resources())
	fmt.Fprintf(&b, "-- folders --\n%s\n", strings.Join(s.Folders(), "\n"))
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, s := range setups(t) {
		t.Run(name, func(t *testing.T) {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			got := dump(s)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range max(len(g), len(w)) {
				if i >= len(g) || i >= len(w) || g[i] != w[i] {
					t.Fatalf("%s, line %d differs; look at it, then `go test -update`\n got %q\nwant %q",
						golden, i+1, g[min(i, len(g)-1)], w[min(i, len(w)-1)])
				}
			}
		})
	}
}

func TestFind(t *testing.T) {
	root := machine(t, "firefox-esr", "mousepad", "xeyes", "libreoffice")
	if err := os.WriteFile(filepath.Join(root, "/usr/bin/notes.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, command, err string }{
		{"firefox", "/usr/bin/firefox-esr", ""},
		{"firefox-esr", "/usr/bin/firefox-esr", ""},
		{"editor", "/usr/bin/mousepad", ""},
		{"writer", "/usr/bin/libreoffice --nologo --norestore --writer", ""},
		{"xeyes", "/usr/bin/xeyes", ""},
		{"chromium", "", "Chromium is not installed: run `sudo apt-get install -y chromium`"},
		{"impress", "", "LibreOffice Impress is not installed: run `sudo apt-get install -y libreoffice-impress libreoffice-gtk3`"},
		{"nonsense", "", `no application is called "nonsense": known are calc, chromium, evince, firefox, galculator, gimp, impress, libreoffice, mousepad, pcmanfm, writer, xterm, and any program of /usr/bin by its plain name`},
		{"notes.txt", "", "no application"},
		{"", "", "no application"},
		{"../bin/xeyes", "", "no application"},
		{"/usr/bin/xeyes", "", "no application"},
		{"xeyes -fg red", "", "no application"},
		{"--help", "", "no application"},
		{".", "", "no application"},
		{"xeyes\x00", "", "no application"},
		{"xeyes\n", "", "no application"},
		{strings.Repeat("x", 300), "", "no application"},
	} {
		a, err := find(root, c.name)
		if c.err != "" {
			var unknown *UnknownError
			var missing *MissingError
			if err == nil || !strings.HasPrefix(err.Error(), c.err) || !errors.As(err, &unknown) && !errors.As(err, &missing) {
				t.Errorf("%q: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || strings.Join(a.Command, " ") != c.command {
			t.Errorf("%q: %v, %v; want %q", c.name, a.Command, err, c.command)
		}
	}
}

// What Find accepts is a program of /usr/bin itself, whatever it is given.
func TestFindStaysInUsrBin(t *testing.T) {
	root := machine(t, "xterm", "firefox-esr")
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./a-z -]{1,12}`)).Draw(t, "name")
		if a, err := find(root, name); err == nil && path.Dir(a.Command[0]) != "/usr/bin" {
			t.Fatalf("%q starts %q", name, a.Command)
		}
	})
}

func TestCatalogueIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Catalogue() {
		for _, n := range append([]string{a.Name}, a.aliases...) {
			if seen[n] || !plainName(n) {
				t.Errorf("the name %q is taken or no plain name", n)
			}
			seen[n] = true
		}
		if !a.Known() || a.Title == "" || len(a.Class) == 0 || a.icon == "" || path.Dir(a.Command[0]) != "/usr/bin" {
			t.Errorf("%+v lacks something", a)
		}
	}
	firefox := Catalogue()[0]
	if !firefox.Owns("Navigator", "firefox-esr") || !firefox.Owns("x", "FIREFOX-ESR") || firefox.Owns("chromium", "Chromium") {
		t.Error("Firefox does not know its windows")
	}
}

func TestCheck(t *testing.T) {
	root := machine(t)
	for _, c := range []struct {
		change func(*Setup)
		err    string
	}{
		{func(*Setup) {}, ""},
		{func(s *Setup) { s.Scale = 1.25 }, ""},
		{func(s *Setup) { s.TimeZone = "Europe/Berlin" }, ""},
		{func(s *Setup) { s.Scale = 1.3 }, "a scale of 1.3"},
		{func(s *Setup) { s.Scale = -1 }, "a scale of -1"},
		{func(s *Setup) { s.Scale = 1e300 }, "a scale of 1e+300"},
		{func(s *Setup) { s.TimeZone = "Europe/Nowhere" }, `no time zone is called "Europe/Nowhere"`},
		{func(s *Setup) { s.TimeZone = "../../etc/passwd" }, "no time zone"},
		{func(s *Setup) { s.TimeZone = "Europe" }, "no time zone"},
		{func(s *Setup) { s.TimeZone = "tzdata.zi" }, "no time zone"},
		{func(s *Setup) { s.Proxy = "127.0.0.1" }, `"127.0.0.1" cannot be the proxy's address`},
		{func(s *Setup) { s.Proxy = "a\";b:1" }, "\"a\\\";b:1\" cannot be"},
		{func(s *Setup) { s.Proxy = "h:0" }, `"h:0" cannot be`},
		{func(s *Setup) { s.Home = "home" }, `"home" cannot be a home directory`},
		{func(s *Setup) { s.Home = "/home/../etc" }, `"/home/../etc" cannot be`},
		{func(s *Setup) { s.Home = "/home/a b" }, `"/home/a b" cannot be`},
		{func(s *Setup) { s.User = "root:x" }, `"root:x" cannot be a user's name`},
		{func(s *Setup) { s.HostName = "a\nb" }, `"a\nb" cannot be a host name`},
		{func(s *Setup) { s.MachineID = "12" }, `"12" cannot be a machine id`},
	} {
		s := Setup{root: root}
		c.change(&s)
		err := s.Check()
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
			t.Errorf("%+v: %v, want %q", s, err, c.err)
		}
	}
}

// Every file is what its name says, at a place that is the desktop's, once.
func TestFilesAreWellFormed(t *testing.T) {
	for name, s := range setups(t) {
		seen := map[string]bool{}
		for _, f := range s.Files() {
			if seen[f.Path] || path.Clean(f.Path) != f.Path || len(f.Data) == 0 {
				t.Errorf("%s: %q comes twice, is not clean or empty", name, f.Path)
			}
			seen[f.Path] = true
			if !strings.HasPrefix(f.Path, "/etc/") && !strings.HasPrefix(f.Path, s.home()+"/") {
				t.Errorf("%s: %q is neither in /etc nor in the home", name, f.Path)
			}
			switch path.Ext(f.Path) {
			case ".json":
				if !json.Valid(f.Data) {
					t.Errorf("%s: %q is no JSON", name, f.Path)
				}
			case ".xml", ".xcu":
				d := xml.NewDecoder(strings.NewReader(string(f.Data)))
				for {
					if _, err := d.Token(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Errorf("%s: %q: %v", name, f.Path, err)
						break
					}
				}
			}
		}
	}
}

// What is ours and what is the machine's never lie over each other.
func TestFilesAndHostPathsAreApart(t *testing.T) {
	for name, s := range setups(t) {
		for _, f := range s.Files() {
			for _, h := range HostPaths() {
				if f.Path == h || strings.HasPrefix(f.Path, h+"/") || strings.HasPrefix(h, f.Path+"/") {
					t.Errorf("%s: our %q and the machine's %q overlap", name, f.Path, h)
				}
			}
		}
	}
}

func TestHostPathsHoldNoSecret(t *testing.T) {
	for _, p := range HostPaths() {
		if _, err := os.Stat(p); err != nil {
			t.Errorf("%v", err)
		}
		for _, secret := range []string{
			"/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/etc/environment",
			"/etc/profile", "/etc/profile.d", "/etc/gitconfig", "/etc/npmrc", "/etc/pip.conf", "/etc/machine-id", "/etc/resolv.conf",
			"/etc/chromium", "/etc/chromium.d", "/etc/firefox", "/etc/firefox-esr", "/etc/dconf", "/etc/cups", "/etc/apt",
		} {
			if p == secret || strings.HasPrefix(secret, p+"/") || strings.HasPrefix(p, secret+"/") {
				t.Errorf("%q shows %q", p, secret)
			}
		}
	}
	root := t.TempDir()
	if got := hostPaths(root); len(got) != 0 {
		t.Errorf("an empty machine has %q", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "/etc/python3.11"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", filepath.Join(root, "/etc/fonts")); err != nil {
		t.Fatal(err)
	}
	if got := hostPaths(root); !slices.Equal(got, []string{"/etc/python3.11"}) {
		t.Errorf("found %q", got)
	}
}

// A panel's launchers lead to desktop entries of ours, and those to programs that are there.
func TestLaunchersExist(t *testing.T) {
	for name, s := range setups(t) {
		files := map[string]string{}
		for _, f := range s.Files() {
			files[f.Path] = string(f.Data)
		}
		var launchers []string
		for line := range strings.Lines(files[s.panelConfig()]) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
			if !ok || key == "" || value == "" {
				t.Errorf("%s: the panel's line %q is no KEY = VALUE", name, line)
			}
			if key == "launcher_item_app" {
				launchers = append(launchers, value)
			}
		}
		if len(launchers) < len(s.Apps) || len(launchers) == 0 {
			t.Errorf("%s: launchers %q", name, launchers)
		}
		for _, l := range launchers {
			_, exec, ok := strings.Cut(files[l], "\nExec=")
			program, _, _ := strings.Cut(strings.Fields(exec + " ")[0], " ")
			if _, err := os.Stat(filepath.Join(s.root, program)); !ok || err != nil {
				t.Errorf("%s: the launcher %q starts %q: %v", name, l, program, err)
			}
		}
		if want := s.Panel(); files[want[len(want)-1]] == "" || files[s.BusConfig()] == "" || files[s.OpenboxConfig()] == "" {
			t.Errorf("%s: a configuration that is named is not there", name)
		}
	}
}

// Every default application has its desktop entry.
func TestLinksOpenInWhatIsThere(t *testing.T) {
	for name, s := range setups(t) {
		files := map[string]string{}
		for _, f := range s.Files() {
			files[f.Path] = string(f.Data)
		}
		list := files[s.home()+"/.config/mimeapps.list"]
		if !strings.Contains(list, "\nx-scheme-handler/https=") || !strings.Contains(list, "\ntext/html=") {
			t.Errorf("%s: nothing opens a link:\n%s", name, list)
		}
		for line := range strings.Lines(list) {
			_, ids, ok := strings.Cut(strings.TrimSpace(line), "=")
			for _, id := range strings.Split(strings.Trim(ids, ";"), ";") {
				if ok && files[s.home()+"/.local/share/applications/"+id] == "" {
					t.Errorf("%s: %q leads nowhere", name, line)
				}
			}
		}
	}
}

// No browser is without the proxy, none without its sandbox, and none may be told otherwise.
func TestBrowsersHaveTheProxy(t *testing.T) {
	s := setups(t)["usual"]
	files := map[string]string{}
	for _, f := range s.Files() {
		files[f.Path] = string(f.Data)
		if strings.Contains(string(f.Data), "no-sandbox") {
			t.Errorf("%s takes a sandbox away", f.Path)
		}
	}
	var firefox struct {
		Policies struct {
			Proxy struct {
				Mode, HTTPProxy, SSLProxy string
				Locked                    bool
			}
		} `json:"policies"`
	}
	if err := json.Unmarshal([]byte(files["/etc/firefox/policies/policies.json"]), &firefox); err != nil {
		t.Fatal(err)
	}
	if p := firefox.Policies.Proxy; p.Mode != "manual" || p.HTTPProxy != "127.0.0.1:3128" || p.SSLProxy != p.HTTPProxy || !p.Locked {
		t.Errorf("Firefox: %+v", p)
	}
	var chromium struct {
		ProxySettings struct{ ProxyMode, ProxyServer string }
		QuicAllowed   bool
	}
	if err := json.Unmarshal([]byte(files["/etc/chromium/policies/managed/desktop.json"]), &chromium); err != nil {
		t.Fatal(err)
	}
	if p := chromium.ProxySettings; p.ProxyMode != "fixed_servers" || p.ProxyServer != "http://127.0.0.1:3128" || chromium.QuicAllowed {
		t.Errorf("Chromium: %+v", chromium)
	}
}

func TestEnv(t *testing.T) {
	for name, s := range setups(t) {
		have := map[string]string{}
		for _, e := range s.Env() {
			key, value, ok := strings.Cut(e, "=")
			if _, twice := have[key]; !ok || twice || strings.ContainsAny(e, "\x00\n") {
				t.Errorf("%s: %q comes twice or is no NAME=VALUE", name, e)
			}
			have[key] = value
		}
		want := ""
		if s.Proxy != "" {
			want = "http://" + s.Proxy
		}
		for _, key := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
			if have[key] != want {
				t.Errorf("%s: %s=%q, want %q", name, key, have[key], want)
			}
		}
		for _, e := range s.ManagerEnv() {
			if have[e] == "" {
				t.Errorf("%s: %s is taken from the window manager, which has none", name, e)
			}
		}
	}
}

// The size of GTK's letters is the scale, however it is divided.
func TestScaleIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := float64(rapid.IntRange(2, 16).Draw(t, "quarters")) / 4
		s := Setup{Scale: scale}
		env := map[string]float64{}
		for _, e := range s.Env() {
			key, value, _ := strings.Cut(e, "=")
			env[key], _ = strconv.ParseFloat(value, 64)
		}
		_, text, _ := strings.Cut(s.Resources(), "Xft.dpi:\t")
		dpi, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
		got := dpi / 96 * env["GDK_SCALE"] * env["GDK_DPI_SCALE"]
		if err != nil || env["GDK_SCALE"] != float64(int(env["GDK_SCALE"])) || got < scale*0.999 || got > scale*1.001 {
			t.Fatalf("at scale %v GTK draws letters at %v", scale, got)
		}
	})
}
