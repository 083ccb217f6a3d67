package computer

import (
	"context"
	"errors"
	"image"
)

// Desktop is what a driver fulfils: a screen, a pointer and a keyboard. All points and
// rectangles are in display pixels, the origin at the top left.
//
// A Desktop is used from one goroutine at a time, except that Release may come while
// another method runs. Every method returns soon after its context ends, with an error
// that wraps the context's. A method that fails has done nothing, or says what it did.
//
// The text of an error is for a log; the model sees it only where it is an [InputError].
//
// What a driver can do beyond this it says by more methods: see [Settler].
type Desktop interface {
	// Size returns the display's size as it is now. It can change at any time.
	Size(ctx context.Context) (image.Point, error)

	// Capture returns the pixels of a region that lies within the display, with the
	// pointer drawn in. The image is opaque, its bounds start at (0, 0), and it belongs
	// to the caller.
	Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error)

	// Pointer returns where the pointer is.
	Pointer(ctx context.Context) (image.Point, error)

	// Send makes the given events happen, in order and as close together as the driver
	// can. When it returns, the display has them all; applications may not have read
	// them yet. Of a sequence that fails a part may have happened.
	Send(ctx context.Context, events ...Event) error

	// Type types text at the keyboard focus, whatever the keyboard's layout is, and
	// returns how many characters were typed. A newline is the Return key and a tab the
	// Tab key; the text has no other control characters. When a character cannot be
	// typed it returns an InputError. It leaves held keys and the layout as they were.
	Type(ctx context.Context, text string) (typed int, err error)

	// Release lets go of every key and button that Send holds down. It must work after
	// any failure; the context only bounds the time that it takes.
	Release(ctx context.Context) error
}

// Settler is a Desktop that can tell when the screen has come to rest.
type Settler interface {
	// Settle returns when applications have had the chance to react to what was sent,
	// and the screen has been quiet for a short while; or, without an error, when that
	// takes longer than the driver's bound. Something that moves all the time, such as
	// a blinking cursor, does not hold it up.
	Settle(ctx context.Context) error
}

// Event is one thing that a pointer or a keyboard does. Which fields count depends on Kind.
type Event struct {
	Kind   EventKind
	Point  image.Point // of Move, in display pixels, within the display
	Button Button      // of ButtonDown and ButtonUp
	Key    Key         // of KeyDown and KeyUp
}

// EventKind says what an [Event] is.
type EventKind int

// The kinds of events.
const (
	Move       EventKind = iota // the pointer jumps to Point
	ButtonDown                  // Button is pressed at the pointer
	ButtonUp                    // Button is released at the pointer
	KeyDown                     // Key is pressed, along with what its symbol needs, such as Shift
	KeyUp                       // Key is released, along with what its KeyDown pressed for it
)

// Button is a button of the pointer, numbered as X and RFB do. A click of the wheel is a
// press and a release of one of the wheel's buttons.
type Button int

// The buttons of a pointer.
const (
	LeftButton   Button = 1
	MiddleButton Button = 2
	RightButton  Button = 3
	WheelUp      Button = 4
	WheelDown    Button = 5
	WheelLeft    Button = 6
	WheelRight   Button = 7
)

// InputError is an error of a driver about the input that it was given, such as a key that
// the keyboard does not have. Its text is shown to the model: a fixed phrase and the
// offending value, with no secret, path or text of the screen.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }

// ErrClosed is wrapped by the errors of a Desktop whose display is gone.
var ErrClosed = errors.New("the display is gone")
