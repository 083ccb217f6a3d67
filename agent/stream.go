package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// turn is one answer of the model.
type turn struct {
	message anthropic.BetaMessage
	cut     int // index among calls of a call that was broken off, or -1
}

func (t *turn) stopReason() anthropic.BetaStopReason { return t.message.StopReason }

// text joins every text block of the turn, a line each. It is empty when they are blank.
func (t *turn) text() string {
	var texts []string
	for _, block := range t.message.Content {
		if block.Type == "text" && !isBlank(block.Text) {
			texts = append(texts, strings.TrimSpace(block.Text))
		}
	}
	return strings.Join(texts, "\n")
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// calls are the tool calls of the turn, in order.
func (t *turn) calls() []anthropic.BetaToolUseBlock {
	var calls []anthropic.BetaToolUseBlock
	for _, block := range t.message.Content {
		if block.Type == "tool_use" {
			calls = append(calls, block.AsToolUse())
		}
	}
	return calls
}

// blocks are the turn as it is sent back: thinking byte for byte, in order. Left out is
// what the API would refuse: empty text, and thinking that was cut before it was signed.
func (t *turn) blocks() []anthropic.BetaContentBlockParamUnion {
	var blocks []anthropic.BetaContentBlockParamUnion
	for _, block := range t.message.Content {
		if block.Type == "text" && isBlank(block.Text) || block.Type == "thinking" && block.Signature == "" {
			continue
		}
		param := block.ToParam()
		if param.OfToolUse != nil {
			param.OfToolUse.Input = echo(block.Input)
		}
		blocks = append(blocks, param)
	}
	return blocks
}

// echo is the input of a call as it is sent back: the bytes that came, since decoding them
// can lose a number, or the empty object where they are none, which the API refuses.
func echo(input json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	return input
}

// errBrokenStream is an answer that ended before it was complete.
var errBrokenStream = errors.New("the answer broke off in mid-stream")

// errNotMessages is an answer that is not one of the Messages API: a page, or nothing.
var errNotMessages = errors.New("the server did not answer as the Messages API does")

// maxStreamRetries bounds how often an answer that broke off is asked for again. The SDK
// retries what fails before an answer begins, but nothing after.
const maxStreamRetries = 2

// send sends the request and reads the answer as it streams, again when it breaks off.
// Tokens of answers that broke off are counted too, since they are billed.
func (r *run) send(ctx context.Context, params anthropic.BetaMessageNewParams) (*turn, error) {
	for attempt := 0; ; attempt++ {
		t, begun, err := r.receive(ctx, params)
		if err == nil {
			return t, nil
		}
		if begun {
			r.count(usageOf(t.message.Usage))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !begun || !isTransient(err) || attempt >= maxStreamRetries {
			return nil, err
		}
		if status, bound := r.moneyBound(params.MaxTokens); bound {
			return nil, &boundError{status, err}
		}
		wait := time.Duration(float64(500*time.Millisecond) * float64(int(1)<<attempt) * (1 - 0.25*rand.Float64()))
		r.emit(TurnRetried{Turn: r.turns + 1, Wait: wait, Err: err})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// isTransient reports whether an error in mid-stream may pass: a lost connection, or the
// server's own trouble.
func isTransient(err error) bool {
	var api *anthropic.Error
	if !errors.As(err, &api) {
		return true
	}
	switch string(api.Type()) {
	case "overloaded_error", "api_error", "rate_limit_error", "timeout_error", "":
		return true
	}
	return api.StatusCode >= http.StatusInternalServerError
}

// boundError ends a run whose answer broke off when a bound forbids to ask again.
type boundError struct {
	status Status
	cause  error
}

func (e *boundError) Error() string { return "a bound forbids to ask again: " + e.cause.Error() }
func (e *boundError) Unwrap() error { return e.cause }

// receive reads one streamed answer. begun reports whether an answer had started, and t
// is then what there is of it, also with an error.
func (r *run) receive(ctx context.Context, params anthropic.BetaMessageNewParams) (t *turn, begun bool, err error) {
	stream := r.agent.client.Beta.Messages.NewStreaming(ctx, params)
	defer stream.Close()
	t = &turn{cut: -1}
	input := map[int64]string{} // of each tool call by its block's index, as it streamed
	whole := false
	for stream.Next() {
		event := stream.Current()
		if err := t.message.Accumulate(event); err != nil {
			return t, begun, fmt.Errorf("%w: %w", errBrokenStream, err)
		}
		begun = true
		switch event.Type {
		case "content_block_delta":
			switch event.Delta.Type {
			case "text_delta":
				r.emit(TextStreamed{Block: int(event.Index), Text: event.Delta.Text})
			case "input_json_delta":
				input[event.Index] += event.Delta.PartialJSON
			}
		case "message_stop":
			whole = true
		}
	}
	if err := stream.Err(); err != nil {
		var api *anthropic.Error
		var connection *url.Error
		switch {
		case errors.As(err, &api) || !begun && errors.As(err, &connection):
		case begun:
			err = fmt.Errorf("%w: %w", errBrokenStream, err)
		case stream.Current().Type == "" && isFormat(err):
			err = fmt.Errorf("%w: %w", errNotMessages, err)
		}
		return t, begun, err
	}
	switch {
	case !begun:
		return t, begun, errNotMessages
	case !whole:
		return t, begun, errBrokenStream
	}
	t.cut = cutCall(&t.message, input)
	return t, true, nil
}

// isFormat reports whether an error is one of reading events, not of the connection.
func isFormat(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, bufio.ErrTooLong) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// cutCall returns which of the turn's calls was broken off by the token cap, or -1. Only
// the last block can be; it is when what streamed of its input is not whole JSON.
func cutCall(m *anthropic.BetaMessage, input map[int64]string) int {
	last := len(m.Content) - 1
	if last < 0 || m.Content[last].Type != "tool_use" {
		return -1
	}
	streamed, any := input[int64(last)]
	broken := any && !json.Valid([]byte(streamed)) ||
		!any && m.StopReason == anthropic.BetaStopReasonMaxTokens && string(m.Content[last].Input) == "{}"
	if !broken {
		return -1
	}
	calls := 0
	for _, block := range m.Content {
		if block.Type == "tool_use" {
			calls++
		}
	}
	return calls - 1
}

func usageOf(u anthropic.BetaUsage) Usage {
	// A server's nonsense must not loosen a bound.
	count := func(n int64) int64 { return min(max(n, 0), 1<<40) }
	return Usage{
		InputTokens:      count(u.InputTokens),
		CacheWriteTokens: count(u.CacheCreationInputTokens),
		CacheReadTokens:  count(u.CacheReadInputTokens),
		OutputTokens:     count(u.OutputTokens),
	}
}
