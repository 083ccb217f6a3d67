package computer

import (
	"context"
	"errors"
	"image"
)

// Desktop is what a driver implements: a display with its pointer and its keyboard. All
// points and rectangles are in display pixels, with the origin at the top left.
//
// A Desktop is used from one goroutine at a time, except that Release may be called while
// another method runs.
//
// Every method but Release returns soon after its context ends, with an error that wraps
// the context's. A method that is called with an ended context does nothing. Release
// is different: see there.
//
// A method that fails may have done a part of its work. Type says how much it has typed.
// After a Send that failed, the caller does not know which of the events have happened; it
// calls Release to get to a known state.
//
// The text of an error is for a log. The model sees it only where it is an [InputError].
//
// A driver that can tell when the screen has come to rest also implements [Settler].
type Desktop interface {
	// Size returns the display's size as it is now. It can change at any time.
	Size(ctx context.Context) (image.Point, error)

	// Capture returns the pixels of a region, with the pointer drawn in. The image is
	// opaque, its bounds start at (0, 0), and it belongs to the caller: the driver keeps
	// no reference to its pixels, and the caller may write to them. A region that is empty
	// or not entirely within the display is an error.
	Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error)

	// Pointer returns where the pointer is, in display pixels.
	Pointer(ctx context.Context) (image.Point, error)

	// Send makes the given events happen, in order and as close together as the driver
	// can. When it returns without an error, the display has all of them, though
	// applications may not have read them yet. Send without events does nothing.
	//
	// Send refuses some events. A key or a button that the display does not have is an
	// InputError, and so is the press of a key or a button that Send already holds down.
	// A Move to a point outside the display, and an event of an unknown kind, are other
	// errors. A Move that does not bring the pointer to its point, since another program
	// keeps it elsewhere, should be an InputError. The event that is refused does not
	// happen, nor does any event after it; the events before it may have happened. To
	// release what is not held is no error.
	Send(ctx context.Context, events ...Event) error

	// Type types text at the keyboard focus, whatever the keyboard's layout is, and
	// returns how many characters it has typed, counted in Unicode code points. When that is
	// not all of them it also returns an error. A newline is the Return key and a tab is the
	// Tab key. A character that cannot be typed is an InputError; a driver may type what
	// comes before it, or nothing.
	//
	// Keys that are held do not change what is typed, and they are held again when Type
	// returns. A driver that cannot do that while a key is held returns an error. The
	// layout is as it was before.
	Type(ctx context.Context, text string) (typed int, err error)

	// Release lets go of every key and every button that Send holds down. It must work
	// after any failure, and also when its context has already ended: then the driver
	// gives itself a short time of its own, some seconds at most. When the context ends
	// while Release runs, Release may return early with the context's error.
	Release(ctx context.Context) error
}

// Settler is a Desktop that can tell when the screen has come to rest. [Toolset.Run] calls
// Settle before it captures the screen for a screenshot, for a zoom and for the screenshot
// of [Options.AppendScreenshot], and once near the end of a drag, before the button is
// released. With a driver that is no Settler, it does not wait for the screen.
type Settler interface {
	// Settle returns when applications have had the chance to react to what was sent,
	// and the screen has been quiet for a short while. When that takes longer than the
	// driver's bound, it returns at the bound, without an error. Something that moves all
	// the time, such as a blinking cursor, does not hold it up. When its context ends it
	// returns an error that wraps the context's. After any other error but one that wraps
	// [ErrClosed], the Toolset logs it and captures the screen all the same.
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
//
// A ButtonUp releases the button that it names, whichever was pressed last, and a KeyUp the
// key that it names.
//
// A KeyDown makes the symbol of its Key. Where the keyboard needs another key for that, such
// as Shift for the key 'A' or '@', the driver presses that key as well, and releases it with
// the KeyUp or before. Such a key may be down already; then the driver leaves it down.
//
// A modifier key that was pressed by an event of its own stays down until its KeyUp, and it
// counts for every key and every click until then, as on any keyboard. With [KeyShift] held,
// the key of a lower case letter makes the capital: KeyDown of KeyShift and KeyDown of 'f'
// make F, as KeyShift and 'F' do. The Toolset sends shift+f in this way. What a held Shift
// makes of a key other than a letter depends on the layout. With [KeyControl], [KeyAlt] or
// [KeySuper] held, applications take a key for a shortcut, which types nothing. No modifier
// counts for Type.
//
// A driver may refuse to hold two symbols of one key of the keyboard at the same time, such
// as 'a' and 'A', as it refuses to press a key that is held.
type EventKind int

// The kinds of events.
const (
	Move       EventKind = iota // the pointer jumps to Point
	ButtonDown                  // Button is pressed where the pointer is
	ButtonUp                    // Button is released where the pointer is
	KeyDown                     // Key is pressed
	KeyUp                       // Key is released
)

// Button is a button of the pointer, with the numbers that X and RFB use. One click of the
// wheel is a press and a release of one of the wheel's buttons.
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

// InputError is an error about the input that somebody gave, such as a key that the keyboard
// does not have. Drivers return it, and so do [ParseKeys] and [ParseModifiers]. Its text is
// shown to the model: a fixed phrase and the offending value, with no secret, no path and no
// text of the screen.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }

// ErrClosed is wrapped by the errors of a Desktop whose display is gone: the display has
// ended, or the driver's connection to it has, as after the driver was closed.
var ErrClosed = errors.New("the display is gone")
