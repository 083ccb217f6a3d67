//go:build linux

// Package guest is the half of Loupe that runs inside a sandbox: it starts the display, the
// window manager, the panel and the applications, watches them, and does there what the host
// asks for over the link.
//
// It is trusted as little as everything else inside. The host checks what it says, and the
// guest holds nothing that the applications could not have too, but for the link. It ends with
// the link, and the sandbox ends with it.
package guest

import (
	"image"
	"io/fs"
	"time"

	"github.com/loupe-tools/loupe/sandbox/internal/limits"
)

// Config is what the host tells the guest first.
type Config struct {
	Size    image.Point // of the display, in pixels
	DPI     int         // of the display
	Cookie  []byte      // MIT-MAGIC-COOKIE-1 of the display
	Home    string      // an empty folder, in which everything starts
	Runtime string      // a folder for sockets, of the user alone
	Env     []string    // of everything that runs

	Files     []File // to write before anything starts
	Resources string // X resources, the text of RESOURCE_MANAGER
	Colour    uint32 // of the bare desktop, 0xRRGGBB

	BusConfig string // the session bus's configuration, a path; empty: the machine's

	Folders []string // to make in the home folder

	ManagerEnv []string   // what the window manager has otherwise than Env; a name alone is taken away
	Managers   [][]string // window managers, the first that exists is used
	Panel      []string   // none: no panel
	Apps       []App

	// ProxyPort is where programs look for their proxy, on the loopback interface. With 0
	// the guest makes no listener there.
	ProxyPort int

	Limits  limits.Limits
	Grouped bool // a control group holds some of them too

	// Alone says that there is no sandbox around: what was started is a descendant of the
	// guest and nothing more, and must be ended by it, and Scratch, a folder, made and removed.
	Alone   bool
	Scratch string
}

// File is a file to write.
type File struct {
	Path string
	Mode fs.FileMode
	Data []byte
}

// App is an application to start.
type App struct {
	Name    string
	Command []string
	Class   []string // any of these, as WM_CLASS, is a window of it
}

// Calls that the guest answers. Their arguments and answers are the types of the same name.
const (
	OpHello  = "hello"  // the guest is there
	OpBoot   = "boot"   // a file with a Config; Booted, with the listener of the proxy; events follow
	OpDial   = "dial"   // Dial; a connected socket
	OpRun    = "run"    // Run with three pipes; Ran when the command has ended; ends it when cancelled
	OpPut    = "put"    // Put with a pipe of the contents, none for a folder
	OpGet    = "get"    // Get with a pipe for an archive; Got
	OpAttach = "attach" // with a link, whose calls are then answered too
)

// Events that the guest sends.
const (
	EventReady  = "ready"  // nothing: the desktop can be used
	EventWindow = "window" // Window: the first window of an application
	EventExit   = "exit"   // Exit: an application or a part of the desktop has ended
	EventLimit  = "limit"  // limits.Event
	EventFailed = "failed" // Failed: the desktop cannot go on
)

// Booted is the answer to OpBoot.
type Booted struct {
	Display string // its name inside, such as ":1"
}

// Dial asks for a connection inside, over a Unix socket.
type Dial struct {
	Display bool   // to the display's server
	Path    string // or to this socket
}

// Names and arguments are bytes here: they need not be UTF-8, and JSON has nothing else.

// Run is a command to run inside.
type Run struct {
	Command [][]byte
	Dir     []byte   // empty: the home folder, from which it is meant too
	Env     [][]byte // beside those of the desktop
}

// Ran says how a command ended.
type Ran struct {
	Code    int // exit status, or -1 when a signal ended it
	Signal  int
	Missing bool // there is no such program
}

// Put writes a file, or makes a folder.
type Put struct {
	Path   []byte // below the home folder; folders are made
	Folder bool
	Mode   fs.FileMode
	Size   int64 // in bytes, negative where it is not known
}

// Get archives the regular files that a [Pattern] names.
type Get struct {
	Pattern  []byte
	MaxBytes int64
	MaxFiles int
}

// Got is what was not archived, and why: one sentence each.
type Got struct{ Skipped []string }

// Window is the first window of an application.
type Window struct {
	App  string
	Took time.Duration // since the application was started
}

// Exit says that something has ended that was started for the desktop.
type Exit struct {
	Name    string
	App     bool
	Early   bool   // an application before it had a window
	Code    int    // exit status, -1 when a signal ended it
	Text    string // how, for a person
	Output  string // the end of what it wrote
	Restart bool   // it is started again
}

// Failed says why the desktop cannot go on.
type Failed struct{ Text string }
