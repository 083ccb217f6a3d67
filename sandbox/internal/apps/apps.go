// Package apps says what runs on a desktop, as data: which applications there are, how each
// is started and its window known, and the files and the environment that make a first run
// quiet. It starts no process and writes nothing.
//
// Quiet means that an application shows its empty window and nothing else, no wizard, bar or
// question, and that it asks the network for nothing by itself. All of it is configuration
// that the applications document; none is patched.
package apps

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// App is one application.
type App struct {
	// Name is the short name by which a user asks for it, such as "firefox".
	Name string `json:"name"`
	// Title is the name that its launcher shows, such as "Firefox".
	Title string `json:"title"`
	// Command starts it. The first element is a path below /usr/bin; documents and
	// addresses may be appended.
	Command []string `json:"command"`
	// Package is the Debian package that installs it, empty for a program that is not in
	// the catalogue.
	Package string `json:"package,omitempty"`
	// Class lists values of WM_CLASS, instance or class, by which its first window is
	// known; they are compared without regard to case. Empty where that is not known: the
	// first new window will do. LibreOffice's windows are "soffice" when they are made and
	// change to the name of the part a moment later.
	Class []string `json:"class,omitempty"`

	aliases   []string
	desktopID string   // of Debian's desktop entry, which ours takes the place of
	icon      string   // in the icon theme
	mimeTypes []string // that open in it
	argument  string   // what the desktop entry passes: %U, %u or %F
}

// Known reports whether the application is one of the catalogue.
func (a App) Known() bool { return a.Package != "" }

// Owns reports whether a window with this WM_CLASS is the application's.
func (a App) Owns(instance, class string) bool {
	for _, c := range a.Class {
		if strings.EqualFold(c, instance) || strings.EqualFold(c, class) {
			return true
		}
	}
	return false
}

// InstallCommand is what a person runs to install the application, "" when it is not in the
// catalogue.
func (a App) InstallCommand() string {
	if a.Package == "" {
		return ""
	}
	return "sudo apt-get install -y " + a.Package
}

// UnknownError says that a name is neither in the catalogue nor a program of /usr/bin.
type UnknownError struct {
	Name  string   // as given
	Known []string // the names of the catalogue
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no application is called %q: known are %s, and any program of /usr/bin by its plain name",
		e.Name, strings.Join(e.Known, ", "))
}

// MissingError says that an application of the catalogue is not installed.
type MissingError struct{ App App }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: run `%s`", e.App.Title, e.App.InstallCommand())
}

// Catalogue lists the known applications, installed or not, in the order in which a panel
// shows them. The caller owns the slice.
func Catalogue() []App {
	return []App{
		{
			Name: "firefox", Title: "Firefox", Package: "firefox-esr",
			Command: []string{"/usr/bin/firefox-esr"},
			Class:   []string{"firefox-esr", "Navigator"},
			aliases: []string{"firefox-esr"}, desktopID: "firefox-esr.desktop", icon: "firefox-esr",
			mimeTypes: webTypes(), argument: "%u",
		},
		{
			Name: "chromium", Title: "Chromium", Package: "chromium",
			Command: []string{"/usr/bin/chromium", "--no-first-run"},
			Class:   []string{"chromium", "chromium-browser"},
			aliases: []string{"chrome"}, desktopID: "chromium.desktop", icon: "chromium",
			mimeTypes: webTypes(), argument: "%U",
		},
		{
			Name: "libreoffice", Title: "LibreOffice", Package: "libreoffice-writer libreoffice-calc libreoffice-gtk3",
			Command: office(),
			Class:   []string{"libreoffice-startcenter", "libreoffice", "soffice"},
			aliases: []string{"office"}, desktopID: "libreoffice-startcenter.desktop", icon: "libreoffice-startcenter",
			argument: "%U",
		},
		{
			Name: "writer", Title: "LibreOffice Writer", Package: "libreoffice-writer libreoffice-gtk3",
			Command: office("--writer"),
			Class:   []string{"libreoffice-writer", "soffice"},
			aliases: []string{"libreoffice-writer"}, desktopID: "libreoffice-writer.desktop", icon: "libreoffice-writer",
			mimeTypes: []string{
				"application/vnd.oasis.opendocument.text", "application/msword", "application/rtf", "text/rtf",
				"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
			},
			argument: "%U",
		},
		{
			Name: "calc", Title: "LibreOffice Calc", Package: "libreoffice-calc libreoffice-gtk3",
			Command: office("--calc"),
			Class:   []string{"libreoffice-calc", "soffice"},
			aliases: []string{"libreoffice-calc"}, desktopID: "libreoffice-calc.desktop", icon: "libreoffice-calc",
			mimeTypes: []string{
				"application/vnd.oasis.opendocument.spreadsheet", "application/vnd.ms-excel", "text/csv",
				"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
			},
			argument: "%U",
		},
		{
			Name: "impress", Title: "LibreOffice Impress", Package: "libreoffice-impress libreoffice-gtk3",
			Command: office("--impress"),
			Class:   []string{"libreoffice-impress", "soffice"},
			aliases: []string{"libreoffice-impress"}, desktopID: "libreoffice-impress.desktop", icon: "libreoffice-impress",
			mimeTypes: []string{
				"application/vnd.oasis.opendocument.presentation", "application/vnd.ms-powerpoint",
				"application/vnd.openxmlformats-officedocument.presentationml.presentation",
			},
			argument: "%U",
		},
		{
			Name: "mousepad", Title: "Mousepad", Package: "mousepad",
			Command: []string{"/usr/bin/mousepad"},
			Class:   []string{"mousepad", "org.xfce.mousepad"},
			aliases: []string{"editor"}, desktopID: "org.xfce.mousepad.desktop", icon: "org.xfce.mousepad",
			mimeTypes: []string{"text/plain", "application/json", "application/xml", "text/x-python", "application/x-shellscript", "text/markdown"},
			argument:  "%U",
		},
		{
			Name: "pcmanfm", Title: "Files", Package: "pcmanfm",
			Command: []string{"/usr/bin/pcmanfm"},
			Class:   []string{"pcmanfm"},
			aliases: []string{"files"}, desktopID: "pcmanfm.desktop", icon: "system-file-manager",
			mimeTypes: []string{"inode/directory"}, argument: "%U",
		},
		{
			Name: "galculator", Title: "Calculator", Package: "galculator",
			Command: []string{"/usr/bin/galculator"},
			Class:   []string{"galculator"},
			aliases: []string{"calculator"}, desktopID: "galculator.desktop", icon: "galculator",
		},
		{
			Name: "xterm", Title: "Terminal", Package: "xterm",
			Command: []string{"/usr/bin/xterm"},
			Class:   []string{"xterm"},
			aliases: []string{"terminal"}, desktopID: "debian-xterm.desktop", icon: "utilities-terminal",
		},
		{
			Name: "evince", Title: "Document Viewer", Package: "evince",
			Command: []string{"/usr/bin/evince"},
			Class:   []string{"evince", "org.gnome.Evince"},
			aliases: []string{"pdf"}, desktopID: "org.gnome.Evince.desktop", icon: "org.gnome.Evince",
			mimeTypes: []string{"application/pdf"}, argument: "%U",
		},
		{
			Name: "gimp", Title: "GIMP", Package: "gimp",
			Command: []string{"/usr/bin/gimp", "--no-splash"},
			Class:   []string{"gimp", "gimp-2.10"}, desktopID: "gimp.desktop", icon: "gimp",
			mimeTypes: []string{"image/x-xcf"}, argument: "%U",
		},
	}
}

func webTypes() []string {
	return []string{
		"text/html", "application/xhtml+xml", "x-scheme-handler/http", "x-scheme-handler/https",
		"application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml",
	}
}

// office is LibreOffice's command line: no picture while it starts, and no offer to restore
// documents of a run that was ended.
func office(arg ...string) []string {
	return append([]string{"/usr/bin/libreoffice", "--nologo", "--norestore"}, arg...)
}

// Names lists what Find knows by its own name, installed or not, sorted.
func Names() []string {
	var names []string
	for _, a := range Catalogue() {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names
}

// Find returns the application of that name: one of the catalogue by its name or by what it
// is ("files", "editor", "calculator", "terminal"), or any program of /usr/bin. The error is
// an *UnknownError or a *MissingError.
func Find(name string) (App, error) { return find("/", name) }

// find is Find on the file system below root.
func find(root, name string) (App, error) {
	for _, a := range Catalogue() {
		if a.Name != name && !slices.Contains(a.aliases, name) {
			continue
		}
		if !a.installed(root) {
			return App{}, &MissingError{App: a}
		}
		return a, nil
	}
	a := App{Name: name, Title: name, Command: []string{"/usr/bin/" + name}}
	if !plainName(name) || !a.installed(root) {
		return App{}, &UnknownError{Name: name, Known: Names()}
	}
	return a, nil
}

// plainName reports whether a name can be a program's in /usr/bin: no path, no option.
func plainName(name string) bool {
	if name == "" || len(name) > 64 || strings.ContainsAny(name[:1], "-.") {
		return false
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("._+-", r):
		default:
			return false
		}
	}
	return true
}

// installed reports whether the program is there. All of LibreOffice starts by one program,
// so its parts are told apart by their libraries.
func (a App) installed(root string) bool {
	info, err := os.Stat(filepath.Join(root, a.Command[0]))
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return false
	}
	part := map[string]string{"writer": "libswlo.so", "calc": "libsclo.so", "impress": "libsdlo.so"}[a.Name]
	if part == "" {
		return true
	}
	_, err = os.Stat(filepath.Join(root, "/usr/lib/libreoffice/program", part))
	return err == nil
}

// execLine is the Exec value of a desktop entry.
func (a App) execLine() string {
	words := slices.Clone(a.Command)
	if a.argument != "" {
		words = append(words, a.argument)
	}
	return strings.Join(words, " ")
}

// entryName is the file name of the application's desktop entry.
func (a App) entryName() string {
	if a.desktopID != "" {
		return a.desktopID
	}
	return "program-" + path.Base(a.Command[0]) + ".desktop"
}
