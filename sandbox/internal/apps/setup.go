package apps

import (
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Setup is what one desktop's configuration depends on.
type Setup struct {
	// Apps are the applications that the desktop was asked for, in this order in the panel.
	Apps []App
	// Size is the display's, in display pixels.
	Size image.Point
	// Scale is the device scale factor: how many display pixels an application draws for one
	// of its own. 0 is 1; 0.5 to 4, in steps of a quarter.
	Scale float64
	// Proxy is HOST:PORT of the HTTP proxy, inside. Without one, applications are told to
	// connect directly.
	Proxy string
	// Home is the home directory, inside; "" is /home/user. Configuration lies below it.
	Home string
	// User is the name of the user, whose number is 1000; "" is "user".
	User string
	// HostName is what the desktop calls itself; "" is "desktop".
	HostName string
	// TimeZone is a name of the time zone database, such as "Europe/Berlin"; "" is UTC.
	TimeZone string
	// MachineID is the content of /etc/machine-id: 32 hexadecimal digits, made for this
	// desktop alone. "" is all zeroes but for the last, which tells nobody apart.
	MachineID string

	root string // where programs are looked for; "" is "/"
}

// File is one file of a desktop.
type File struct {
	Path string // absolute, inside
	Mode fs.FileMode
	Data []byte
}

// Background is the colour of the root window, which openbox shows where no window is. Mutter
// covers it with a blue of its own, always the same, that no setting changes. No program of
// its own draws a desktop.
var Background = color.RGBA{R: 0x3a, G: 0x50, B: 0x63, A: 0xff}

// Check says what of the setup cannot be, in one sentence. Files, Env and Resources are meant
// for a setup that it passes: they put the names into files as they are.
func (s Setup) Check() error {
	if s.Scale != 0 && (s.Scale < 0.5 || s.Scale > 4 || s.Scale*4 != math.Trunc(s.Scale*4)) {
		return fmt.Errorf("a scale of %v is not possible: give 0.5 to 4 in steps of 0.25", s.Scale)
	}
	if s.TimeZone != "" {
		name := s.TimeZone
		if !regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`).MatchString(name) || !s.isZone(name) {
			return fmt.Errorf("no time zone is called %q: names are such as Europe/Berlin, and `ls /usr/share/zoneinfo` lists them (package tzdata)", name)
		}
	}
	if s.Proxy != "" {
		if _, _, err := s.proxyHostPort(); err != nil {
			return err
		}
	}
	if !path.IsAbs(s.home()) || path.Clean(s.home()) != s.home() || !regexp.MustCompile(`^[A-Za-z0-9/._-]+$`).MatchString(s.home()) {
		return fmt.Errorf("%q cannot be a home directory: give an absolute path of letters, digits, '.', '_' and '-'", s.Home)
	}
	if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`).MatchString(s.user()) {
		return fmt.Errorf("%q cannot be a user's name: give lower-case letters and digits", s.User)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`).MatchString(s.hostName()) {
		return fmt.Errorf("%q cannot be a host name: give letters, digits and '-'", s.HostName)
	}
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(s.machineID()) {
		return fmt.Errorf("%q cannot be a machine id: give 32 hexadecimal digits", s.MachineID)
	}
	return nil
}

// isZone reports whether the time zone database has the name.
func (s Setup) isZone(name string) bool {
	data, err := os.ReadFile(filepath.Join(s.rootDir(), "/usr/share/zoneinfo", name))
	return err == nil && strings.HasPrefix(string(data), "TZif")
}

// Files lists what lies in the desktop's /etc and home directory; whoever writes them makes
// the directories. What is below /etc belongs to the desktop alone and never overlaps
// HostPaths. The caller owns the slice.
func (s Setup) Files() []File {
	var files []File
	add := func(name, text string) { files = append(files, File{Path: name, Mode: 0o644, Data: []byte(text)}) }
	s.etcFiles(add)
	s.firefoxFiles(add)
	s.chromiumFiles(add)
	s.libreOfficeFiles(add)
	s.gtkFiles(add)
	s.entryFiles(add)
	s.panelFiles(add)
	s.windowManagerFiles(add)
	return files
}

// Env is the environment of every process inside, as NAME=VALUE. DISPLAY, XAUTHORITY and
// DBUS_SESSION_BUS_ADDRESS are the guest's to add. The caller owns the slice.
func (s Setup) Env() []string {
	home := s.home()
	whole := s.wholeScale()
	env := []string{
		"HOME=" + home,
		"USER=" + s.user(),
		"LOGNAME=" + s.user(),
		"SHELL=/bin/bash",
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
		"TMPDIR=/tmp",
		// Every Debian has this one; others have to be generated.
		"LANG=C.UTF-8",
		"TZ=" + s.timeZone(),

		"XDG_RUNTIME_DIR=/run/user/1000",
		"XDG_CONFIG_HOME=" + home + "/.config",
		"XDG_DATA_HOME=" + home + "/.local/share",
		"XDG_CACHE_HOME=" + home + "/.cache",
		"XDG_STATE_HOME=" + home + "/.local/state",
		"XDG_CONFIG_DIRS=/etc/xdg",
		"XDG_DATA_DIRS=/usr/local/share:/usr/share",
		"XDG_SESSION_TYPE=x11",

		// Settings in one file that every process reads and watches: no dconf, no bus.
		"GSETTINGS_BACKEND=keyfile",
		"GIO_USE_VFS=local",
		"GIO_USE_VOLUME_MONITOR=unix",
		// Nobody listens on the accessibility bus; without these each start looks for it.
		"NO_AT_BRIDGE=1",
		"GTK_A11Y=none",
		"GTK_USE_PORTAL=0",
		"GDK_BACKEND=x11",

		// The profile of profiles.ini, and none of its own for each installation.
		"MOZ_LEGACY_PROFILES=1",
		"MOZ_CRASHREPORTER_DISABLE=1",
		// Without it the preference that names no settings server is ignored.
		"MOZ_REMOTE_SETTINGS_DEVTOOLS=1",
		"MOZ_ENABLE_WAYLAND=0",

		"XCURSOR_THEME=Adwaita",
		"XCURSOR_SIZE=" + strconv.Itoa(s.scaled(24)),
		"GDK_SCALE=" + strconv.Itoa(whole),
		// Xft.dpi has the whole factor; GTK multiplies it by GDK_SCALE once more.
		"GDK_DPI_SCALE=" + number(1/float64(whole)),
	}
	if s.Proxy != "" {
		address := "http://" + s.Proxy
		for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
			env = append(env, name+"="+address)
		}
		for _, name := range []string{"no_proxy", "NO_PROXY"} {
			env = append(env, name+"="+strings.Join(direct(), ","))
		}
	}
	return env
}

// ManagerEnv is what the window manager's environment has otherwise than Env: without GTK's
// factors, named here, since mutter, whose frames GTK draws, has its own setting and applies
// Xft.dpi once. The caller owns the slice.
func (s Setup) ManagerEnv() []string { return []string{"GDK_SCALE", "GDK_DPI_SCALE"} }

// Resources is the text of the root window's RESOURCE_MANAGER property, which tells programs
// without settings of their own how large letters are.
func (s Setup) Resources() string {
	lines := []string{
		"Xft.dpi:\t" + number(96*s.scale()),
		"Xft.antialias:\t1",
		"Xft.hinting:\t1",
		"Xft.hintstyle:\thintslight",
		"Xft.rgba:\tnone",
		"Xcursor.theme:\tAdwaita",
		"Xcursor.size:\t" + strconv.Itoa(s.scaled(24)),
		"XTerm*faceName:\tMonospace",
		"XTerm*faceSize:\t11",
		"XTerm*utf8:\t1",
		"XTerm*background:\t#ffffff",
		"XTerm*foreground:\t#202020",
		"XTerm*saveLines:\t4000",
		"XTerm*selectToClipboard:\ttrue",
		"XTerm*bellIsUrgent:\tfalse",
	}
	return strings.Join(lines, "\n") + "\n"
}

// direct lists what is reached without the proxy: the desktop itself.
func direct() []string { return []string{"localhost", "127.0.0.1", "::1"} }

func (s Setup) home() string      { return or(s.Home, "/home/user") }
func (s Setup) user() string      { return or(s.User, "user") }
func (s Setup) hostName() string  { return or(s.HostName, "desktop") }
func (s Setup) timeZone() string  { return or(s.TimeZone, "UTC") }
func (s Setup) machineID() string { return or(s.MachineID, strings.Repeat("0", 31)+"1") }
func (s Setup) rootDir() string   { return or(s.root, "/") }

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func (s Setup) scale() float64 {
	if s.Scale == 0 {
		return 1
	}
	return s.Scale
}

// wholeScale is the part of the scale that GTK can draw its widgets with; the rest is left to
// the size of letters.
func (s Setup) wholeScale() int { return max(1, int(s.scale())) }

// scaled converts a length at scale 1 to display pixels.
func (s Setup) scaled(pixels int) int { return int(math.Round(float64(pixels) * s.scale())) }

// number writes a factor as configuration files have it, without needless zeroes.
func number(f float64) string { return strconv.FormatFloat(math.Round(f*1e4)/1e4, 'f', -1, 64) }

func (s Setup) proxyHostPort() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s.Proxy)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 || !regexp.MustCompile(`^[A-Za-z0-9.-]+$`).MatchString(host) {
		return "", 0, fmt.Errorf("%q cannot be the proxy's address: give HOST:PORT", s.Proxy)
	}
	return host, port, nil
}
