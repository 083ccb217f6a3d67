// Package agent is the loop between a model and its tools: it asks a question against
// the Claude Messages API, answers the model's tool calls, and goes on until there is an
// answer or a bound is reached.
//
// The loop promises that a run never sends a request which the API refuses for its
// form: every tool call gets exactly one result, in order, in the next user message;
// the number, size and weight of images stay within the API's limits, whatever the
// tools return; thinking goes back byte for byte. Turns, tokens and money are bounded.
//
// It knows a tool by two methods, see Tool. Everything that happens is told to
// Options.Observe as an Event.
package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loupe-tools/loupe/vision"
)

// Defaults of Options.
const (
	DefaultMaxTurns  = 20
	DefaultMaxTokens = 8192
	maxPauses        = 5
)

// Options set up an Agent. The zero value of every field but Model is right for most.
type Options struct {
	// Model is the identifier of the model, as the Messages API knows it. Required.
	Model string

	// MaxTurns bounds the model's turns; after the last one the model is asked once
	// more, plainly, to answer from what it has seen. DefaultMaxTurns when zero.
	MaxTurns int

	// MaxTokens caps the output tokens of one turn. DefaultMaxTokens when zero.
	MaxTokens int

	// MaxTotalTokens bounds the tokens of a run, in and out, however they are billed.
	// No turn is begun once they are used up. No bound when zero.
	MaxTotalTokens int64

	// MaxCost bounds what a run may cost, in US dollars. The run stops before a turn
	// that could exceed it, taking the worst case: nothing found in the cache and the
	// whole output used. No bound when zero.
	MaxCost float64

	// Prices is the table of prices. DefaultPrices() when nil.
	Prices *Prices

	// Limits override the image limits of the model when they are not zero.
	Limits vision.Limits

	// Request bounds the images of one request. vision.DefaultRequestLimits() when zero.
	Request vision.RequestLimits

	// System is the system prompt. None when empty.
	System string

	// NoCache turns prompt caching off.
	NoCache bool

	// Observe is told every event of a run, in order, from the goroutine that runs it.
	// It must not block for long. Nobody is told when nil.
	Observe func(Event)
}

// Agent asks questions of one model. It keeps no state between runs and is safe for
// concurrent use; every run needs tools of its own.
type Agent struct {
	client  anthropic.Client
	options Options
}

// New returns an agent that speaks to a model through client. It takes a copy of o. A
// nil o is one without a model, which Ask refuses.
func New(client anthropic.Client, o *Options) *Agent {
	a := &Agent{client: client}
	if o != nil {
		a.options = *o
	}
	if a.options.MaxTurns <= 0 {
		a.options.MaxTurns = DefaultMaxTurns
	}
	if a.options.MaxTokens <= 0 {
		a.options.MaxTokens = DefaultMaxTokens
	}
	if a.options.Prices == nil {
		a.options.Prices = DefaultPrices()
	}
	if a.options.Request == (vision.RequestLimits{}) {
		a.options.Request = vision.DefaultRequestLimits()
	}
	return a
}

// Status says how a run ended.
type Status string

// How a run ends. With StatusAnswered, StatusTruncated and the three bounds the answer's
// text is the model's; with the others there is none.
const (
	StatusAnswered   Status = "answered"         // the model gave its answer
	StatusTruncated  Status = "truncated"        // the answer was cut at the token cap
	StatusTurnBound  Status = "max_turns"        // the bound on turns was reached, then it answered
	StatusTokenBound Status = "max_total_tokens" // the bound on tokens was reached
	StatusCostBound  Status = "max_cost"         // the next turn could have exceeded the bound on money
	StatusNoAnswer   Status = "no_answer"        // the model gave no text, even when asked plainly
	StatusRefused    Status = "refused"          // the model declined
	StatusContext    Status = "context_exceeded" // the conversation outgrew the model's context window
	StatusFailed     Status = "failed"           // an error ended the run
	StatusCancelled  Status = "cancelled"        // the context ended
)

// Answer is what a run came to. It is given with an error too, as far as the run got.
type Answer struct {
	Text   string // the answer; empty unless there is one
	Status Status
	Detail string // for a person: why there is no answer; empty when there is one

	Turns       int // of the model, the last plain one included
	Usage       Usage
	Cost        float64 // US dollars; a lower bound of nothing when CostIsKnown is false
	CostIsKnown bool    // the model has a price

	Messages []anthropic.BetaMessageParam // the conversation, without cache breakpoints
}

// ErrNoPrice is returned when the cost of a run is to be bounded but the model has no
// known price.
var ErrNoPrice = errors.New("no price is known for this model, so its cost cannot be bounded")

// ErrTooLarge is returned when the question alone is more than a request may carry.
var ErrTooLarge = errors.New("the images are more than one request may carry")

// ImageLimits returns the limits under which to prepare the images of a run that shows
// that many of them at the start: the model's own, with every edge bounded to what a
// request of many images allows when those at the start leave little of the number that
// may be larger. known is false when the model's tier is not public.
func (a *Agent) ImageLimits(images int) (limits vision.Limits, known bool) {
	limits, known = vision.LimitsFor(a.options.Model)
	if a.options.Limits != (vision.Limits{}) {
		limits, known = a.options.Limits, true
	}
	request := a.options.Request
	if request.ManyImages > 0 && images > request.ManyImages/2 {
		limits = limits.CapEdge(request.ManyImagesMaxEdge)
	}
	return limits.CapEdge(request.MaxEdge), known
}

// bindsThinking reports whether a model refuses its thinking when the conversation
// before it was changed: Claude 5.1 and every later one.
func bindsThinking(model string) bool {
	switch family := vision.ModelFamily(model); family {
	case "opus-5-5", "sonnet-5-5", "haiku-5-5":
		return true
	default:
		return strings.HasPrefix(family, "fable-5-") || strings.HasPrefix(family, "mythos-5-")
	}
}

// Ask asks a question with the given tools and returns the answer. Tools that are also
// Presenters show what they have before the question.
//
// The error is nil whenever the run ended by its own rules, also without an answer; see
// Answer.Status. It is the context's error when that ended, and otherwise says in one
// sentence for a person what failed and what to do; errors.As finds the SDK's *Error
// beneath. The answer is never nil.
func (a *Agent) Ask(ctx context.Context, question string, tools ...Tool) (*Answer, error) {
	r := &run{
		agent:   a,
		tools:   newToolbox(tools),
		history: history{limits: a.options.Request},
	}
	_, r.costKnown = a.options.Prices.Rates(a.options.Model, 0)
	answer, err := r.ask(ctx, question)
	var bound *boundError
	if errors.As(err, &bound) {
		answer, err = r.stopped(bound.status), nil
	}
	if err != nil {
		answer = &Answer{Status: StatusFailed}
		if ctx.Err() != nil {
			answer.Status = StatusCancelled
			err = ctx.Err()
		} else {
			err = explain(err, a.options.Model)
		}
		answer.Detail = err.Error()
		if answer.Status == StatusCancelled {
			answer.Detail = "The run was stopped before there was an answer."
		}
	}
	answer.Turns, answer.Usage = r.turns, r.usage
	answer.Cost, answer.CostIsKnown = r.cost, r.costKnown
	answer.Messages = r.history.params(false)
	return answer, err
}

// validate refuses what cannot become a run.
func (o *Options) validate(question string, costKnown bool) error {
	switch {
	case o.Model == "":
		return errors.New("no model is set")
	case strings.TrimSpace(question) == "":
		return errors.New("the question is empty")
	case o.MaxCost > 0 && !costKnown:
		return fmt.Errorf("%w: %s", ErrNoPrice, o.Model)
	}
	return nil
}
