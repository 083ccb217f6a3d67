package agent

import (
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// Event is something that happened in a run, told to Options.Observe as it happens. It
// is one of the types of this file. What an event points at belongs to the run and must
// not be changed.
type Event interface{ event() }

// MessageAdded says that a message joined the conversation, in the form in which it is
// sent, or that the run ended with this one.
type MessageAdded struct{ Message anthropic.BetaMessageParam }

// TurnStarted says that a request is about to be sent. Turn counts from 1.
type TurnStarted struct{ Turn int }

// TextStreamed says that the model wrote some more text, in the turn's block of that
// index. Blocks are lines of their own.
type TextStreamed struct {
	Block int
	Text  string
}

// TurnRetried says that an answer broke off in mid-stream, and the same request is sent again
// after Wait. Text streamed since TurnStarted is void.
type TurnRetried struct {
	Turn int
	Wait time.Duration
	Err  error
}

// CallAnswered says that a tool answered a call.
type CallAnswered struct {
	Call   anthropic.BetaToolUseBlock
	Result anthropic.BetaToolResultBlockParam
}

// ImagesRemoved says that images were taken out of older tool results to make room.
type ImagesRemoved struct{ Images int }

// TurnEnded says that an answer came in whole. Usage and Cost are of this turn, the totals of the
// run so far; costs are in US dollars and zero when the model has no known price.
type TurnEnded struct {
	Turn        int
	StopReason  string
	Usage       Usage
	Cost        float64
	TotalUsage  Usage
	TotalCost   float64
	CostIsKnown bool
}

func (MessageAdded) event()  {}
func (TurnStarted) event()   {}
func (TextStreamed) event()  {}
func (TurnRetried) event()   {}
func (CallAnswered) event()  {}
func (ImagesRemoved) event() {}
func (TurnEnded) event()     {}
