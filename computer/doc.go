// Package computer is the computer toolset of the Claude Messages API,
// computer_toolset_20260801: seventeen members that look at a screen and act on it.
//
// A [Toolset] answers one assistant turn: it runs the turn's blocks in order, one at a
// time, and stops at the first that fails. It works on a [Desktop], the interface that a
// driver implements. Package x11 has the driver for X displays. A driver of one's own can
// be small: that of the example of Desktop has about 110 lines. Package computertest has
// the suite that every driver must pass.
//
// In this documentation a driver is the Go code, a display is what the driver drives (its
// screen, its pointer and its keyboard), and a Desktop is the driver as the Toolset sees it.
//
// [Toolset.Answer] takes and gives the SDK's types, for a loop such as package agent's.
// [Toolset.Run] does the same in the wire's form. [ParseTurn] reads that form, and the
// results marshal to it.
//
// Before a screenshot, before a zoom and before the screenshot that
// [Options.AppendScreenshot] adds, the Toolset waits for the screen to come to rest, where
// the driver is a [Settler].
//
// # What the model is told
//
// An input is accepted where it is beyond doubt what was meant, such as a whole number that
// comes as a float or a string, or a coordinate that comes as a JSON string. Any other input
// is refused with one sentence. Nothing is clamped. Errors are fixed phrases with the
// offending value, short and escaped. The error of a driver goes to [Options.Log]; the model
// sees its text only where it is an [InputError].
//
// # Coordinate spaces
//
// View pixels are the pixels of a full screenshot as the model is shown it, which may be
// smaller than the display. Display pixels are those of the display itself. A model speaks in
// view pixels, a Desktop speaks in display pixels, and only the Toolset converts between
// them. A view pixel stands for its centre, so a point goes to the display and back without
// drift. The size of screenshots follows from the size of the display. When the display
// changes its size, places are refused until the model has seen a new screenshot.
//
// # Policy
//
// What a screen shows can steer a model. A Toolset without a way to ask somebody refuses
// the members that reach the keyboard; see [Options.Confirm]. Whatever ends a block early
// (a failure, a refusal, a cancelled context, a panic in a driver) also releases every key
// and button that was held.
package computer
