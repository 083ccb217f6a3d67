// Package computer is the computer toolset of the Claude Messages API,
// computer_toolset_20260801: seventeen members that look at a screen and act on it.
//
// A [Toolset] answers one assistant turn: it runs the turn's blocks in order, one at a
// time, and stops at the first that fails. It stands on a [Desktop], which a driver
// fulfils; package x11 has one for X displays, and a driver of one's own is some eighty
// lines (see the example of Desktop). Package computertest has the suite that every
// driver passes.
//
// [Toolset.Answer] takes and gives the SDK's types, for a loop such as package agent's.
// [Toolset.Run] does the same in the wire's form, which [ParseTurn] reads and the results
// marshal to.
//
// # What the model is told
//
// An input is taken where what was meant is beyond doubt (a whole number as a float or a
// string, a coordinate as a JSON string) and refused with one sentence otherwise. Nothing
// is clamped. Errors are fixed phrases with the offending value, short and escaped; what a
// driver says goes to [Options.Log], unless it is an [InputError].
//
// # Coordinate spaces
//
// A model speaks in view pixels: those of the full screenshot that it was shown. A Desktop
// speaks in display pixels. Only the Toolset converts. A view pixel stands for its centre,
// so a point goes to the display and back without drift. The size of screenshots follows
// from that of the display. When that changes, places are refused until the model has seen
// a new screenshot.
//
// # Policy
//
// What a screen shows can steer a model. A Toolset without a way to ask somebody refuses
// the members that reach the keyboard; see [Options.Confirm]. Whatever ends a block early
// (a failure, a refusal, a cancelled context, a panic in a driver) also releases every key
// and button that was held.
package computer
