// Package doctor finds out what this machine lacks to run, build and test loupe, and
// the command that installs it. It changes nothing, and uses no network.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Level says how much a finding matters.
type Level string

const (
	// Required is for that without which loupe answers no question here.
	Required Level = "required"
	// Optional is for that without which something is slower, larger or left out.
	Optional Level = "optional"
	// Info is for properties of the machine that nothing can be done about.
	Info Level = "info"
)

// Finding is one thing that was looked for.
type Finding struct {
	// Name is what was looked for.
	Name string `json:"name"`
	// Level is how much it matters on this machine.
	Level Level `json:"level"`
	// OK is set when it is there. It always is for Info.
	OK bool `json:"ok"`
	// For is what it is needed for.
	For string `json:"for"`
	// Detail is what was found, or what comes of its lack. Never a secret.
	Detail string `json:"detail,omitempty"`
	// Packages are the Debian packages that bring it, where they are missing.
	Packages []string `json:"packages,omitempty"`
	// Fix is the command that brings it, where it is missing and one does.
	Fix string `json:"fix,omitempty"`
}

// Env is all that Check learns of the machine. All functions are needed.
type Env struct {
	// LookPath finds a program, as exec.LookPath does.
	LookPath func(name string) (string, error)
	// Run runs a program and returns what it printed to standard output.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Getenv reads the environment, as os.Getenv does.
	Getenv func(name string) string
	// ReadFile reads a file, as os.ReadFile does.
	ReadFile func(name string) ([]byte, error)
	// Exists reports whether there is such a file or folder.
	Exists func(name string) bool
	// Root is set when commands run as the superuser.
	Root bool
	Program
}

// Program is what the program that asks can do itself, which takes other packages to find
// out. All functions are needed. The texts of errors are for a person.
type Program struct {
	// JPEG is set when it can write JPEG, which takes cgo.
	JPEG bool
	// Display connects to the display that DISPLAY names and returns its size, such as
	// 1280x800, and which of the extensions that may be missing are.
	Display func(ctx context.Context) (size string, lacks []string, err error)
	// Isolate isolates something that does nothing, as a desktop is isolated.
	Isolate func(ctx context.Context) error
	// Limit makes a control group, as a desktop has one, and removes it.
	Limit func() error
}

// System is the machine that the process runs on.
func System(program Program) *Env {
	return &Env{
		LookPath: exec.LookPath,
		Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			return exec.CommandContext(ctx, name, args...).Output()
		},
		Getenv:   os.Getenv,
		ReadFile: os.ReadFile,
		Exists: func(name string) bool {
			_, err := os.Stat(name)
			return err == nil
		},
		Root:    os.Geteuid() == 0,
		Program: program,
	}
}

// timeout is how long one program may take to tell its version.
const timeout = 10 * time.Second

// What is looked at, on Debian.
const (
	python       = "/usr/bin/python3"
	font         = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
	jpegHeader   = "/usr/include/jpeglib.h"
	exifSamples  = "/usr/share/gocode/src/github.com/rwcarlsen/goexif"
	imageSamples = "/usr/share/gocode/src/golang.org/x/image"

	accessibility = "/usr/libexec/at-spi-bus-launcher"
	layouts       = "/usr/share/X11/xkb/rules/evdev"
	keysyms       = "/usr/include/X11/keysymdef.h"
)

// Check looks for everything, in the order in which it matters. When ctx ends, what was
// not looked at yet counts as missing.
func Check(ctx context.Context, env *Env) []Finding {
	key := Finding{Name: "ANTHROPIC_API_KEY", Level: Optional, For: "asking Claude", OK: env.Getenv("ANTHROPIC_API_KEY") != "", Detail: "set"}
	reader := Optional
	if !key.OK {
		key.Detail = "not set; the built-in reader answers instead"
		key.Fix = "export ANTHROPIC_API_KEY=your-key"
		reader = Required
	}
	findings := []Finding{key}
	findings = append(findings, tesseract(ctx, env, reader)...)

	jpeg := Finding{Name: "JPEG output", Level: Optional, For: "small zooms", OK: env.JPEG, Detail: "built in"}
	if !jpeg.OK {
		jpeg.Detail = "this loupe was built without cgo; zooms go out as PNG, several times as large"
		jpeg.Fix = "CGO_ENABLED=1 make build"
	}
	findings = append(findings, jpeg, display(ctx, env), cpu(env))
	findings = append(findings, desktop(ctx, env)...)

	findings = append(findings, pythonModules(ctx, env))
	findings = append(findings, parts(env, "DejaVu fonts", "the demo and the tests",
		part{path: font, packages: []string{"fonts-dejavu-core"}}))
	findings = append(findings,
		parts(env, "C compiler and libjpeg-turbo", "building with JPEG output, and the tests",
			part{program: "gcc", packages: []string{"gcc", "libc6-dev"}},
			part{path: jpegHeader, packages: []string{"libjpeg62-turbo-dev"}}),
		parts(env, "make and git", "building and the tests",
			part{program: "make", packages: []string{"make"}},
			part{program: "git", packages: []string{"git"}}),
		parts(env, "sample pictures", "the tests",
			part{path: exifSamples, packages: []string{"golang-github-rwcarlsen-goexif-dev"}},
			part{path: imageSamples, packages: []string{"golang-golang-x-image-dev"}}),
		parts(env, "X server and what drives it", "make demo-computer, make bench-computer and the tests",
			part{program: "Xvfb", packages: []string{"xvfb"}},
			part{program: "xterm", packages: []string{"xterm"}},
			part{program: "xdotool", packages: []string{"xdotool"}},
			part{program: "scrot", packages: []string{"scrot"}}),
		widgets(ctx, env),
		parts(env, "desktop programs", "the tests",
			part{program: "mutter", packages: []string{"mutter"}},
			part{program: "openbox", packages: []string{"openbox"}},
			part{program: "dbus-run-session", packages: []string{"dbus-daemon"}},
			part{path: accessibility, packages: []string{"at-spi2-core"}}),
		parts(env, "X utilities", "the tests",
			part{program: "xev", packages: []string{"x11-utils"}},
			part{program: "pkill", packages: []string{"procps"}},
			part{program: "setxkbmap", packages: []string{"x11-xkb-utils"}},
			part{program: "xrandr", packages: []string{"x11-xserver-utils"}},
			part{program: "xauth", packages: []string{"xauth"}},
			part{path: layouts, packages: []string{"xkb-data"}},
			part{path: keysyms, packages: []string{"x11proto-dev"}}),
	)
	for i, f := range findings {
		if len(f.Packages) > 0 {
			findings[i].Fix = install(env, f.Packages)
			if f.Detail == "" {
				findings[i].Detail = "not found"
			}
		}
	}
	return findings
}

// OK reports whether nothing that is required is missing.
func OK(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Required && !f.OK })
}

func tesseract(ctx context.Context, env *Env, level Level) []Finding {
	const use = "the built-in reader"
	engine := Finding{Name: "tesseract", Level: level, For: use}
	english := Finding{Name: "English for tesseract", Level: level, For: use}
	// Without the engine nothing can be said of its languages.
	without := func() []Finding {
		engine.Packages = []string{"tesseract-ocr", "tesseract-ocr-eng"}
		return []Finding{engine}
	}
	if _, err := env.LookPath("tesseract"); err != nil {
		return without()
	}
	out, err := run(ctx, env, "tesseract", "--version")
	if err != nil {
		engine.Detail = "found, but it does not run"
		return without()
	}
	first, _, _ := strings.Cut(string(out), "\n")
	version := strings.TrimSpace(strings.TrimPrefix(first, "tesseract"))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err == nil && n < 4 {
		engine.Detail = fmt.Sprintf("version %s is too old; 4 or later reads well enough", version)
		return without()
	}
	engine.OK, engine.Detail = true, "version "+version

	out, err = run(ctx, env, "tesseract", "--list-langs")
	_, list, _ := strings.Cut(string(out), "\n") // after a heading
	languages := strings.Fields(list)
	switch {
	case err != nil:
		english.Detail = "tesseract does not list its languages"
	case slices.Contains(languages, "eng"):
		english.OK, english.Detail = true, "languages: "+strings.Join(languages, " ")
	case len(languages) > 0:
		english.Detail = "not among its languages: " + strings.Join(languages, " ")
	}
	if !english.OK {
		english.Packages = []string{"tesseract-ocr-eng"}
	}
	return []Finding{engine, english}
}

// modules has what the charts are drawn with and the package of each.
var modules = []module{
	{"matplotlib", "python3-matplotlib"},
	{"PIL", "python3-pil"},
	{"numpy", "python3-numpy"},
}

// module is something that Python loads, and the package that brings it.
type module struct{ name, pkg string }

// absent prints those of its arguments that are no modules here, without loading any.
const absent = `import importlib.util, sys
print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])`

func pythonModules(ctx context.Context, env *Env) Finding {
	f := Finding{Name: "Python and its chart modules", Level: Optional, For: "the demo and the tests"}
	return askPython(ctx, env, f, absent, modules, python+" does not run")
}

// askPython completes a finding about modules with the help of a Python script, which prints
// those of its arguments that are missing. Where the script does not run, which the text
// failed then says, all of them count as missing, and so do the packages that it needs itself.
func askPython(ctx context.Context, env *Env, f Finding, script string, wanted []module, failed string, needs ...string) Finding {
	args, all := []string{"-c", script}, needs
	for _, m := range wanted {
		args = append(args, m.name)
		all = append(all, m.pkg)
	}
	if !env.Exists(python) {
		f.Packages = all
		return f
	}
	out, err := run(ctx, env, python, args...)
	if err != nil {
		f.Detail = failed
		f.Packages = all
		return f
	}
	missing := strings.Fields(string(out))
	if len(missing) == 0 {
		f.OK, f.Detail = true, python
		return f
	}
	f.Detail = "without " + strings.Join(missing, ", ")
	for _, m := range wanted {
		if slices.Contains(missing, m.name) {
			f.Packages = append(f.Packages, m.pkg)
		}
	}
	return f
}

// typelibs prints those of its arguments, each a namespace and its version, that Python
// cannot load from the typelibs here. It fails where there is no gi.
const typelibs = `import gi, sys
def absent(name, version):
    try: gi.require_version(name, version)
    except ValueError: return True
print(*[a for a in sys.argv[1:] if absent(*a.split("-"))])`

// widgets looks for what Python programs show windows with and look into them.
func widgets(ctx context.Context, env *Env) Finding {
	f := Finding{Name: "GTK for Python", Level: Optional, For: "make bench-computer and the tests"}
	libraries := []module{{"Gtk-3.0", "gir1.2-gtk-3.0"}, {"Atspi-2.0", "gir1.2-atspi-2.0"}}
	return askPython(ctx, env, f, typelibs, libraries, "without gi", "python3-gi")
}

// display tells what there is of a display to act on.
func display(ctx context.Context, env *Env) Finding {
	f := Finding{Name: "X display", Level: Optional, For: "loupe act"}
	name := env.Getenv("DISPLAY")
	if name == "" {
		f.Detail = "DISPLAY is not set"
		if _, err := env.LookPath("Xvfb"); err != nil {
			f.Packages = []string{"xvfb"}
		} else {
			f.Fix = "Xvfb :1 -screen 0 1280x800x24 -noreset & export DISPLAY=:1"
		}
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	size, lacks, err := env.Display(ctx)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.OK = true
	f.Detail = fmt.Sprintf("%s, %s; nothing is missing", name, size)
	if len(lacks) > 0 {
		f.Detail = fmt.Sprintf("%s, %s; it works, though without %s", name, size, strings.Join(lacks, ", "))
	}
	return f
}

// part is a program to be found by its name, or a file or folder by its path, and the
// packages that bring it.
type part struct {
	program, path string
	or            string // another program that will do
	packages      []string
}

// parts makes one finding of things that are of use only together.
func parts(env *Env, name, use string, all ...part) Finding {
	f := Finding{Name: name, Level: Optional, For: use}
	var found, missing []string
	for _, p := range all {
		path, there := p.path, false
		if p.program != "" {
			path = p.program
			for _, name := range []string{p.program, p.or} {
				if at, err := env.LookPath(name); name != "" && err == nil {
					path, there = at, true
					break
				}
			}
		} else {
			there = env.Exists(p.path)
		}
		if there {
			found = append(found, path)
			continue
		}
		missing = append(missing, path)
		f.Packages = append(f.Packages, p.packages...)
	}
	if f.OK = len(missing) == 0; f.OK {
		f.Detail = strings.Join(found, ", ")
	} else {
		f.Detail = "no " + strings.Join(missing, ", no ")
	}
	return f
}

// cpu tells which vector instructions there are, from the kernel's list.
func cpu(env *Env) Finding {
	f := Finding{Name: "processor", Level: Info, OK: true, For: "fast resampling", Detail: "not known"}
	text, err := env.ReadFile("/proc/cpuinfo")
	if err != nil {
		return f
	}
	for line := range strings.Lines(string(text)) {
		name, list, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name != "flags" && name != "Features" {
			continue
		}
		flags := strings.Fields(list)
		has := func(all ...string) string {
			for _, flag := range all {
				if !slices.Contains(flags, flag) {
					return "no"
				}
			}
			return "yes"
		}
		f.Detail = fmt.Sprintf("AVX2 %s, AVX-512 %s", has("avx2"), has("avx512f", "avx512bw", "avx512vl"))
		break
	}
	return f
}

func run(ctx context.Context, env *Env, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return env.Run(ctx, name, args...)
}

// install is the command that installs packages here.
func install(env *Env, packages []string) string {
	if _, err := env.LookPath("apt-get"); err != nil {
		return "install the equivalent of Debian's " + strings.Join(packages, " ")
	}
	return asRoot(env, "apt-get install -y --no-install-recommends "+strings.Join(packages, " "))
}

// asRoot is a command that takes the superuser, as it is written here.
func asRoot(env *Env, command string) string {
	if env.Root {
		return command
	}
	if _, err := env.LookPath("sudo"); err != nil {
		return "su -c '" + command + "'"
	}
	return "sudo " + command
}

// Write prints findings for a person: what is there, what is missing and what brings it,
// and a closing line.
func Write(w io.Writer, findings []Finding) error {
	var errs []error
	printf := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	var required, optional int
	apt := false
	for _, f := range findings {
		state := "ok"
		switch {
		case f.OK:
		case f.Level == Required:
			state = "MISSING"
			required++
		default:
			state = "missing"
			optional++
		}
		printf("%-7s  %-*s  %s (for %s)\n", state, width, f.Name, f.Detail, f.For)
		if f.Fix != "" {
			printf("%-7s  %-*s  %s\n", "", width, "", f.Fix)
			apt = apt || strings.Contains(f.Fix, "apt-get")
		}
	}
	switch {
	case required > 0:
		printf("\nLoupe cannot answer questions here yet: run the commands beside what is MISSING.\n")
	case optional > 0:
		printf("\nLoupe is ready. What is missing is optional.\n")
	default:
		printf("\nLoupe is ready. Nothing is missing.\n")
	}
	if apt {
		printf("On a new machine, run apt-get update before the first apt-get install.\n")
	}
	return errors.Join(errs...)
}
