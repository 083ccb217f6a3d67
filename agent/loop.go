package agent

import (
	"context"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// What the loop says to the model in its own words.
const (
	askConcise = "The turn ran out of output tokens before an answer. State your final answer now, concisely."
	askAnswer  = "No more tool calls are possible. Answer the question now from what you have seen so far. " +
		"If that is not enough to answer it, say so."
)

// run is one question on its way to an answer. It belongs to one goroutine.
type run struct {
	agent   *Agent
	tools   *toolbox
	history history

	turns     int
	pauses    int
	nudged    bool // asked for a concise answer
	usage     Usage
	cost      float64
	costKnown bool

	sent       int   // messages of the history in the last request
	lastPrompt int64 // input tokens of the last request, as the API counted them
}

func (r *run) emit(e Event) {
	if observe := r.agent.options.Observe; observe != nil {
		observe(e)
	}
}

func (r *run) addUser(blocks ...anthropic.BetaContentBlockParamUnion) {
	r.history.addUser(blocks...)
	r.emit(MessageAdded{anthropic.NewBetaUserMessage(blocks...)})
}

func (r *run) addAssistant(t *turn) {
	before := len(r.history.messages)
	r.history.addAssistant(t.blocks())
	if len(r.history.messages) > before {
		r.emit(MessageAdded{r.history.messages[before].param})
	}
}

// ask runs the loop. Each turn of the model ends in one of five ways: it ends the run, it
// holds tool calls, it was paused, it ran into the token cap without a word, or it is the
// answer.
func (r *run) ask(ctx context.Context, question string) (*Answer, error) {
	if err := r.agent.options.validate(question, r.costKnown); err != nil {
		return nil, err
	}
	var blocks []anthropic.BetaContentBlockParamUnion
	for _, tool := range r.tools.tools {
		if p, ok := tool.(Presenter); ok {
			blocks = append(blocks, p.Present()...)
		}
	}
	r.addUser(append(blocks, anthropic.NewBetaTextBlock("Question: "+question))...)
	if err := r.fits(); err != nil {
		return nil, err
	}

	for {
		if status, bound := r.bound(); bound {
			return r.wrapUp(ctx, status)
		}
		t, err := r.turn(ctx, false)
		if err != nil {
			return nil, err
		}
		if answer := r.ended(t); answer != nil {
			return answer, nil
		}
		calls := t.calls()
		switch {
		case len(calls) > 0:
			r.addAssistant(t)
			r.answer(ctx, calls, t.cut)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		case t.stopReason() == anthropic.BetaStopReasonPauseTurn && r.pauses < maxPauses:
			r.pauses++
			r.addAssistant(t)
		case t.stopReason() == anthropic.BetaStopReasonPauseTurn:
			r.addAssistant(t)
			return r.wrapUp(ctx, StatusTurnBound)
		case t.text() == "" && t.stopReason() == anthropic.BetaStopReasonMaxTokens && !r.nudged:
			r.nudged = true
			r.addAssistant(t)
			r.addUser(anthropic.NewBetaTextBlock(askConcise))
		case t.text() == "":
			r.addAssistant(t)
			return r.wrapUp(ctx, StatusAnswered)
		default:
			r.addAssistant(t)
			return final(t, StatusAnswered), nil
		}
	}
}

// ended returns the answer of a turn whose stop reason ends the run whatever it holds,
// or nil.
func (r *run) ended(t *turn) *Answer {
	answer := endOf(t)
	if answer != nil {
		r.tellOf(t)
	}
	return answer
}

// tellOf tells the observer of a turn that ends the run without joining the conversation.
func (r *run) tellOf(t *turn) {
	if blocks := t.blocks(); len(blocks) > 0 {
		r.emit(MessageAdded{anthropic.BetaMessageParam{OfAssistant: &anthropic.BetaAssistantMessageParam{Content: blocks}}})
	}
}

func endOf(t *turn) *Answer {
	switch t.stopReason() {
	case anthropic.BetaStopReasonRefusal:
		detail := "The model declined to answer."
		if why := t.message.StopDetails.Explanation; why != "" {
			detail = "The model declined to answer: " + why
		}
		return &Answer{Status: StatusRefused, Detail: detail}
	case anthropic.BetaStopReasonModelContextWindowExceeded:
		return &Answer{Status: StatusContext, Detail: "The conversation outgrew the model's context window; ask with fewer images or fewer turns."}
	}
	return nil
}

// final is the answer that a turn gives.
func final(t *turn, status Status) *Answer {
	if t.stopReason() == anthropic.BetaStopReasonMaxTokens && status == StatusAnswered {
		status = StatusTruncated
	}
	return &Answer{Text: t.text(), Status: status}
}

// wrapUp asks once, plainly, for an answer from what has been seen, and ends the run with
// the given status. The tools stay declared, since the calls in the conversation need
// them, but none may be called.
func (r *run) wrapUp(ctx context.Context, status Status) (*Answer, error) {
	if status, bound := r.moneyBound(minLastTokens); bound {
		return r.stopped(status), nil
	}
	r.addUser(anthropic.NewBetaTextBlock(askAnswer))
	t, err := r.turn(ctx, true)
	if err != nil {
		return nil, err
	}
	if answer := r.ended(t); answer != nil {
		return answer, nil
	}
	if t.text() == "" || len(t.calls()) > 0 || t.stopReason() == anthropic.BetaStopReasonPauseTurn {
		r.tellOf(t) // a call would have no result, and the conversation must stay whole
		return &Answer{Status: StatusNoAnswer, Detail: "The model gave no answer, even when it was asked for one plainly."}, nil
	}
	r.addAssistant(t)
	return final(t, status), nil
}

// turn sends the conversation as it stands and reads the model's answer. plain forbids
// tool calls.
func (r *run) turn(ctx context.Context, plain bool) (*turn, error) {
	params := r.params(plain)
	r.emit(TurnStarted{Turn: r.turns + 1})
	sent := len(r.history.messages)
	t, err := r.send(ctx, params)
	if err != nil {
		return nil, err
	}
	usage := usageOf(t.message.Usage)
	cost := r.count(usage)
	r.turns++
	r.sent, r.lastPrompt = sent, usage.Prompt()
	r.emit(TurnEnded{
		Turn: r.turns, StopReason: string(t.stopReason()), Usage: usage, Cost: cost,
		TotalUsage: r.usage, TotalCost: r.cost, CostIsKnown: r.costKnown,
	})
	return t, nil
}

// count adds the usage of one request to the run's and returns its cost.
func (r *run) count(u Usage) float64 {
	cost, _ := r.agent.options.Prices.Cost(r.agent.options.Model, u)
	r.usage = r.usage.plus(u)
	r.cost += cost
	return cost
}

func (r *run) params(plain bool) anthropic.BetaMessageNewParams {
	o := &r.agent.options
	cache := !o.NoCache && len(r.tools.declare) > 0 // a single request has nothing to read back
	params := anthropic.BetaMessageNewParams{
		Model:     o.Model,
		MaxTokens: int64(o.MaxTokens),
		Messages:  r.history.params(cache),
		Tools:     r.tools.declare,
	}
	if o.System != "" {
		params.System = []anthropic.BetaTextBlockParam{{Text: o.System}}
	}
	if cache {
		if o.System != "" { // which comes after the tools
			params.System[0].CacheControl = anthropic.NewBetaCacheControlEphemeralParam()
		} else {
			params.Tools = toolsWithBreakpoint(params.Tools)
		}
	}
	if plain {
		params.MaxTokens = r.affordableOutput(params.MaxTokens)
		if len(params.Tools) > 0 {
			params.ToolChoice = anthropic.BetaToolChoiceUnionParam{OfNone: &anthropic.BetaToolChoiceNoneParam{}}
		}
	}
	if r.history.removed > 0 && bindsThinking(o.Model) {
		params.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaThinkingBindingControls2026_08_01}
		params.Thinking = anthropic.BetaThinkingConfigParamUnion{OfAdaptive: &anthropic.BetaThinkingConfigAdaptiveParam{
			BlockBinding: anthropic.BetaThinkingBlockBindingParam{
				PrefixMismatchBehavior: anthropic.BetaThinkingPrefixMismatchBehaviorDropBlock,
			},
		}}
	}
	return params
}

// answer lets the tools answer the calls of a turn, and appends the results.
func (r *run) answer(ctx context.Context, calls []anthropic.BetaToolUseBlock, cut int) {
	before := r.history.removed
	room := r.history.room(len(calls))
	if n := r.history.removed - before; n > 0 {
		r.emit(ImagesRemoved{Images: n})
	}
	results := r.tools.answer(ctx, calls, cut, room)
	blocks := make([]anthropic.BetaContentBlockParamUnion, len(results))
	for i := range results {
		blocks[i] = anthropic.BetaContentBlockParamUnion{OfToolResult: &results[i]}
		r.emit(CallAnswered{Call: calls[i], Result: results[i]})
	}
	r.addUser(blocks...)
}

// fits refuses a question whose images no request can carry.
func (r *run) fits() error {
	limits := r.agent.options.Request
	room := r.history.measureRoom(0)
	images, edge := 0, 0
	for _, m := range r.history.messages {
		images += len(m.images)
		for _, img := range m.images {
			edge = max(edge, img.edge)
		}
	}
	switch {
	case limits.MaxImages > 0 && images > limits.MaxImages:
		return fmt.Errorf("%w: %d images, and at most %d are allowed; ask about fewer at a time", ErrTooLarge, images, limits.MaxImages)
	case limits.MaxEdge > 0 && edge > limits.MaxEdge:
		return fmt.Errorf("%w: an image has an edge of %d pixels, and at most %d are allowed", ErrTooLarge, edge, limits.MaxEdge)
	case limits.ManyImages > 0 && images > limits.ManyImages && edge > limits.ManyImagesMaxEdge:
		return fmt.Errorf("%w: of more than %d images none may have an edge over %d pixels", ErrTooLarge, limits.ManyImages, limits.ManyImagesMaxEdge)
	case limits.MaxBodyBytes > 0 && room.MaxBytes <= 1:
		return fmt.Errorf("%w: together they are larger than %d MB; ask about fewer at a time", ErrTooLarge, limits.MaxBodyBytes>>20)
	}
	return nil
}

// minLastTokens is the least output that a last plain turn is worth asking with.
const minLastTokens = 512

// bound reports whether a bound forbids another turn with tools, and which.
func (r *run) bound() (Status, bool) {
	o := &r.agent.options
	switch {
	case r.turns >= o.MaxTurns+r.pauses: // a paused turn goes on as the same turn
		return StatusTurnBound, true
	default:
		return r.moneyBound(int64(o.MaxTokens))
	}
}

// moneyBound reports whether the bound on tokens or on money forbids another request with
// that much output.
func (r *run) moneyBound(output int64) (Status, bool) {
	limit := r.agent.options.MaxTotalTokens
	switch {
	case limit > 0 && r.usage.Total() >= limit:
		return StatusTokenBound, true
	case !r.affordable(output):
		return StatusCostBound, true
	}
	return "", false
}

// stopped is the answer of a run that a bound on tokens or money ends without one.
func (r *run) stopped(status Status) *Answer {
	if status == StatusTokenBound {
		return &Answer{Status: status, Detail: "The bound on tokens was reached before there was an answer; raise it to go on."}
	}
	return &Answer{Status: status, Detail: fmt.Sprintf(
		"The next turn could cost more than is left of $%.2f, and there is no answer yet; raise the bound to go on.",
		r.agent.options.MaxCost)}
}

// nextPrompt bounds the input tokens of the next request: what the API counted for the
// last one, and an estimate that errs upwards for what came since.
func (r *run) nextPrompt() int64 {
	const toolsAndSettings = 2000
	if r.lastPrompt == 0 {
		return r.history.tokens(0) + toolsAndSettings + int64(len(r.agent.options.System))
	}
	return r.lastPrompt + r.history.tokens(r.sent)
}

// affordable reports whether another turn with that much output stays within the bound on
// money, at the worst.
func (r *run) affordable(output int64) bool {
	limit := r.agent.options.MaxCost
	if limit <= 0 {
		return true
	}
	prompt := r.nextPrompt()
	rates, _ := r.agent.options.Prices.Rates(r.agent.options.Model, prompt)
	return r.cost+rates.worst(prompt, output) <= limit
}

// affordableOutput is the output cap of a last turn: the usual one, or as much less as
// the bound on money asks for.
func (r *run) affordableOutput(output int64) int64 {
	for output > minLastTokens && !r.affordable(output) {
		output = max(output/2, minLastTokens)
	}
	return output
}
