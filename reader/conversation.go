package reader

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"math"

	"github.com/loupe-tools/loupe/internal/wire"
)

// A conversation is what one request carries, as far as the reader has a use for it.
type conversation struct {
	question question
	views    []*shown
	zooms    []zoomed
	canZoom  bool // the tool is declared, allowed, and an answer is not yet demanded
}

// shown is an image of the request, not yet decoded.
type shown struct {
	where string // in the request, for an error
	data  []byte
	key   [sha256.Size]byte
}

// zoomed is one call of the zoom tool and what came of it.
type zoomed struct {
	image  int
	region image.Rectangle // pixels of the view, as asked for
	result *shown          // nil for an error
}

// zoomTool is the name of the one tool that the reader calls.
const zoomTool = "zoom"

// converse picks the question, the images and the calls so far out of a request.
func converse(r *wire.Request) (*conversation, error) {
	if len(r.Messages) == 0 {
		return nil, wire.Invalid("messages: at least one message is required")
	}
	if last := r.Messages[len(r.Messages)-1]; last.Role != "user" {
		return nil, wire.Invalid("messages: the last message must be the user's")
	}
	c := &conversation{}
	for _, name := range r.ToolNames() {
		c.canZoom = c.canZoom || name == zoomTool
	}
	type call struct {
		index int // in c.zooms
	}
	calls := map[string]call{}
	var texts []string
	first := true
	for i, m := range r.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, wire.Invalid("messages.%d.role: must be user or assistant", i)
		}
		for j, b := range m.Content {
			where := fmt.Sprintf("messages.%d.content.%d", i, j)
			switch b.Type {
			case "text":
				if m.Role == "user" && first {
					texts = append(texts, b.Text)
				}
			case "image":
				if m.Role != "user" || !first {
					continue
				}
				s, err := newShown(where, b.Source)
				if err != nil {
					return nil, err
				}
				c.views = append(c.views, s)
			case "tool_use":
				if m.Role != "assistant" || b.Name != zoomTool {
					continue
				}
				index, region, ok := zoomInput(b.Input)
				if !ok {
					continue
				}
				calls[b.ID] = call{len(c.zooms)}
				c.zooms = append(c.zooms, zoomed{image: index, region: region})
			case "tool_result":
				k, ok := calls[b.ToolUseID]
				if !ok || b.IsError {
					continue
				}
				for n, inner := range b.Content {
					if inner.Type != "image" {
						continue
					}
					s, err := newShown(fmt.Sprintf("%s.content.%d", where, n), inner.Source)
					if err != nil {
						return nil, err
					}
					c.zooms[k.index].result = s
					break
				}
			}
		}
		if m.Role == "user" {
			// What a later turn says in words, with no result before it, is a demand
			// for the answer.
			if !first && i == len(r.Messages)-1 && demandsAnswer(m.Content) {
				c.canZoom = false
			}
			first = false
		}
	}
	c.question = understand(questionIn(texts))
	return c, nil
}

// demandsAnswer reports whether a later user turn asks for the answer at once: it has
// words of its own and no results.
func demandsAnswer(content wire.Content) bool {
	words := false
	for _, b := range content {
		if b.Type == "tool_result" {
			return false
		}
		words = words || b.Type == "text"
	}
	return words
}

func newShown(where string, source *wire.ImageSource) (*shown, error) {
	if source == nil {
		return nil, wire.Invalid("%s: an image needs a source", where)
	}
	if source.Type != "base64" {
		return nil, wire.Invalid("%s: the built-in reader takes images as base64 only, not as %q", where, source.Type)
	}
	data, err := base64.StdEncoding.DecodeString(source.Data)
	if err != nil {
		return nil, wire.Invalid("%s: the image is not valid base64", where)
	}
	return &shown{where: where, data: data, key: sha256.Sum256(data)}, nil
}

// maxEdge is the API's limit on a side of an image, in pixels.
const maxEdge = 8000

// decode returns the pixels, or the API's error for an image that is none.
func (s *shown) decode() (*image.RGBA, error) {
	config, _, err := image.DecodeConfig(bytes.NewReader(s.data))
	if err == nil && (config.Width > maxEdge || config.Height > maxEdge) {
		return nil, wire.Invalid("%s: the image is %dx%d pixels; no side may be over %d", s.where, config.Width, config.Height, maxEdge)
	}
	m, err := decodeImage(s.data)
	if err != nil {
		return nil, wire.Invalid("%s: the image could not be decoded", s.where)
	}
	return m, nil
}

// zoomInput reads the arguments of a call that the reader made in an earlier turn.
func zoomInput(raw json.RawMessage) (index int, region image.Rectangle, ok bool) {
	var in struct {
		X1, Y1, X2, Y2 *float64
		Index          float64 `json:"image_index"`
	}
	if json.Unmarshal(raw, &in) != nil || in.X1 == nil || in.Y1 == nil || in.X2 == nil || in.Y2 == nil {
		return 0, image.Rectangle{}, false
	}
	for _, v := range []float64{*in.X1, *in.Y1, *in.X2, *in.Y2, in.Index} {
		if math.IsNaN(v) || math.Abs(v) > 1<<20 {
			return 0, image.Rectangle{}, false
		}
	}
	region = image.Rectangle{
		Min: image.Pt(int(*in.X1), int(*in.Y1)),
		Max: image.Pt(int(*in.X2), int(*in.Y2)),
	}
	return int(in.Index), region, in.Index >= 0 && !region.Empty()
}
