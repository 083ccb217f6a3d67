package agent

import (
	"encoding/base64"
	"encoding/json"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loupe-tools/loupe/vision"
)

const (
	// keptImages is how many of the newest tool results keep their images when older
	// ones are taken out.
	keptImages = 3

	// bodyReserve is left free of the body's limit for what is not messages: tools,
	// settings and cache breakpoints.
	bodyReserve = 256 << 10

	// usualImageBytes is the room, after base64, that one more image is expected to
	// need at most; older images are taken out when there is less.
	usualImageBytes = 2 << 20

	// removedImage stands where an image was taken out.
	removedImage = "[This image was taken out of the conversation to make room. Ask for it again if you still need it.]"
)

// history is the conversation so far. It never holds messages that the API would refuse
// for the number, size or weight of their images: before a tool answers, room makes
// space and says how much there is.
//
// It is append-only, so that the prompt cache holds, but for taking images out, which
// happens in batches and rarely.
type history struct {
	limits   vision.RequestLimits
	messages []message
	removed  int // images taken out so far
}

type message struct {
	param  anthropic.BetaMessageParam
	bytes  int // of its JSON
	images []placedImage
}

// placedImage is an image of a message and where it stands.
type placedImage struct {
	imageSize
	block, inner int // index of the block, and within a tool result; inner is -1 elsewhere
}

// imageSize is what the API's limits look at.
type imageSize struct {
	edge  int // longest, in pixels
	bytes int // after base64
	token int // visual tokens
}

// measure reads an image block's size from its bytes. An image that it cannot look into
// is taken to be as large as can be.
func measure(block *anthropic.BetaImageBlockParam) imageSize {
	unknown := imageSize{edge: 1 << 20, token: vision.HighResolution.MaxTokens}
	source := block.Source.OfBase64
	if source == nil {
		return unknown
	}
	decode := png.DecodeConfig
	if source.MediaType == anthropic.BetaBase64ImageSourceMediaTypeImageJPEG {
		decode = jpeg.DecodeConfig
	}
	config, err := decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(source.Data)))
	if err != nil {
		unknown.bytes = len(source.Data)
		return unknown
	}
	return imageSize{
		edge:  max(config.Width, config.Height),
		bytes: len(source.Data),
		token: vision.Tokens(config.Width, config.Height),
	}
}

// addUser appends blocks to the user's side: to the last message when that is the user's
// and not yet answered, as a new one otherwise.
func (h *history) addUser(blocks ...anthropic.BetaContentBlockParamUnion) {
	h.trimThinking()
	if last := len(h.messages) - 1; last >= 0 {
		if user := h.messages[last].param.OfUser; user != nil {
			blocks = slices.Concat(user.Content, blocks)
			h.messages = h.messages[:last]
		}
	}
	h.messages = append(h.messages, newMessage(anthropic.NewBetaUserMessage(blocks...)))
}

// addAssistant appends an assistant turn. A turn without blocks is left out, since the
// API refuses an empty message.
func (h *history) addAssistant(blocks []anthropic.BetaContentBlockParamUnion) {
	if len(blocks) == 0 {
		return
	}
	h.messages = append(h.messages, newMessage(anthropic.BetaMessageParam{
		OfAssistant: &anthropic.BetaAssistantMessageParam{Content: blocks},
	}))
}

// trimThinking takes thinking off the end of the assistant's side, where the API refuses
// it once the user goes on: a turn that ran into the token cap in mid-thought, or was
// paused there for good.
func (h *history) trimThinking() {
	for last := len(h.messages) - 1; last >= 0 && h.messages[last].param.OfAssistant != nil; last-- {
		content := h.messages[last].param.OfAssistant.Content
		kept := len(content)
		for kept > 0 && (content[kept-1].OfThinking != nil || content[kept-1].OfRedactedThinking != nil) {
			kept--
		}
		if kept == len(content) {
			return
		}
		h.messages = h.messages[:last]
		if kept > 0 {
			h.addAssistant(content[:kept:kept])
			return
		}
	}
}

func newMessage(param anthropic.BetaMessageParam) message {
	m := message{param: param}
	if data, err := json.Marshal(param); err == nil { // what cannot be encoded fails when it is sent
		m.bytes = len(data) + 1
	}
	if param.OfUser == nil {
		return m
	}
	for i, block := range param.OfUser.Content {
		if block.OfImage != nil {
			m.images = append(m.images, placedImage{measure(block.OfImage), i, -1})
		}
		if block.OfToolResult == nil {
			continue
		}
		for j, inner := range block.OfToolResult.Content {
			if inner.OfImage != nil {
				m.images = append(m.images, placedImage{measure(inner.OfImage), i, j})
			}
		}
	}
	return m
}

// room returns what may be added by that many calls of the next user message. When there
// is too little, it first takes images out of older tool results: all but the newest few,
// and those too when even that does not give room for one.
func (h *history) room(calls int) vision.Allowance {
	room := h.measureRoom(calls)
	for _, keep := range []int{keptImages, 0} {
		if room.Images >= calls && (h.limits.MaxBodyBytes == 0 || room.MaxBytes >= calls*h.usualBytes()) {
			break
		}
		if keep < keptImages && room.Images >= 1 && (h.limits.MaxBodyBytes == 0 || room.MaxBytes >= h.usualBytes()) {
			break // enough for some of the calls; the newest images are worth more than the rest
		}
		if h.prune(keep) {
			room = h.measureRoom(calls)
		}
	}
	return room
}

func (h *history) usualBytes() int {
	if h.limits.MaxImageBytes > 0 {
		return min(h.limits.MaxImageBytes, usualImageBytes)
	}
	return usualImageBytes
}

// measureRoom is the room that there is as the history stands.
func (h *history) measureRoom(calls int) vision.Allowance {
	count, bytes, large := 0, bodyReserve, false
	for _, m := range h.messages {
		count += len(m.images)
		bytes += m.bytes
		for _, img := range m.images {
			large = large || img.edge > h.limits.ManyImagesMaxEdge
		}
	}
	const unbounded = 1 << 20
	room := vision.Allowance{Images: unbounded, MaxEdge: h.limits.MaxEdge}
	if h.limits.MaxImages > 0 {
		room.Images = h.limits.MaxImages - count
	}
	if many := h.limits.ManyImages; many > 0 && h.limits.ManyImagesMaxEdge > 0 {
		switch {
		case large:
			room.Images = min(room.Images, many-count)
		case count+calls > many:
			room.MaxEdge = h.limits.ManyImagesMaxEdge
		}
	}
	room.Images = max(room.Images, 0)
	if h.limits.MaxBodyBytes > 0 {
		// Every call also brings text, which base64 of the allowance leaves room for.
		room.MaxBytes = max(h.limits.MaxBodyBytes-bytes-calls*4096, 1)
	}
	return room
}

// prune takes the images out of all tool results but the newest keep that have one, and
// reports whether there was any to take. Images outside of tool results stay: they are
// what the conversation is about.
func (h *history) prune(keep int) bool {
	pruned := false
	for i := len(h.messages) - 1; i >= 0; i-- {
		m := h.messages[i]
		var content []anthropic.BetaContentBlockParamUnion
		for k := len(m.images) - 1; k >= 0; k-- {
			at := m.images[k]
			if at.inner < 0 {
				continue
			}
			if keep > 0 {
				keep--
				continue
			}
			if content == nil {
				content = append(content, m.param.OfUser.Content...)
			}
			result := *content[at.block].OfToolResult
			inner := append([]anthropic.BetaToolResultBlockParamContentUnion(nil), result.Content...)
			inner[at.inner] = anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: removedImage}}
			result.Content = inner
			content[at.block] = anthropic.BetaContentBlockParamUnion{OfToolResult: &result}
			h.removed++
		}
		if content != nil {
			h.messages[i] = newMessage(anthropic.NewBetaUserMessage(content...))
			pruned = true
		}
	}
	return pruned
}

// tokens is a bound on what the history costs as input from message number from on:
// images by their patches, text at two bytes a token, which no language exceeds by much.
func (h *history) tokens(from int) int64 {
	var n int
	for _, m := range h.messages[min(from, len(h.messages)):] {
		text := m.bytes
		for _, img := range m.images {
			text -= img.bytes
			n += img.token
		}
		n += max(text, 0)/2 + 16
	}
	return int64(n)
}

// newestMarked is how many of the newest user turns carry a cache breakpoint; one more
// stands after the tools, and the API allows four in all.
const newestMarked = 3

// params returns the messages as they are sent, with a cache breakpoint at the end of
// each of the newest user turns when cache is set. The history itself is not changed.
func (h *history) params(cache bool) []anthropic.BetaMessageParam {
	params := make([]anthropic.BetaMessageParam, len(h.messages))
	for i, m := range h.messages {
		params[i] = m.param
	}
	if !cache {
		return params
	}
	marked := 0
	for i := len(params) - 1; i >= 0 && marked < newestMarked; i-- {
		if params[i].OfUser != nil {
			params[i] = withBreakpoint(params[i])
			marked++
		}
	}
	return params
}

// withBreakpoint returns a user message whose last block ends a cached prefix.
func withBreakpoint(m anthropic.BetaMessageParam) anthropic.BetaMessageParam {
	content := append([]anthropic.BetaContentBlockParamUnion(nil), m.OfUser.Content...)
	last := &content[len(content)-1]
	mark := anthropic.NewBetaCacheControlEphemeralParam()
	switch {
	case last.OfText != nil:
		block := *last.OfText
		block.CacheControl = mark
		*last = anthropic.BetaContentBlockParamUnion{OfText: &block}
	case last.OfImage != nil:
		block := *last.OfImage
		block.CacheControl = mark
		*last = anthropic.BetaContentBlockParamUnion{OfImage: &block}
	case last.OfToolResult != nil:
		block := *last.OfToolResult
		block.CacheControl = mark
		*last = anthropic.BetaContentBlockParamUnion{OfToolResult: &block}
	}
	return anthropic.NewBetaUserMessage(content...)
}

// toolsWithBreakpoint returns the declarations with a breakpoint after the last one.
// Kinds that the SDK does not let it mark go out unmarked.
func toolsWithBreakpoint(tools []anthropic.BetaToolUnionParam) []anthropic.BetaToolUnionParam {
	if len(tools) == 0 {
		return nil
	}
	marked := append([]anthropic.BetaToolUnionParam(nil), tools...)
	last := &marked[len(marked)-1]
	mark := anthropic.NewBetaCacheControlEphemeralParam()
	switch {
	case last.OfTool != nil:
		tool := *last.OfTool
		tool.CacheControl = mark
		last.OfTool = &tool
	case last.OfComputerToolset20260801 != nil:
		tool := *last.OfComputerToolset20260801
		tool.CacheControl = mark
		last.OfComputerToolset20260801 = &tool
	}
	return marked
}
