package zoom

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"math"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
)

// Name is the tool's name, as the model calls it.
const Name = "zoom"

// Options set up a Tool. The zero value is right for a model of the standard tier.
type Options struct {
	// Limits of the model that will look. vision.Standard when zero.
	Limits vision.Limits

	// Request bounds what one request may carry. vision.DefaultRequestLimits() when zero.
	Request vision.RequestLimits

	// ViewOnly shows the images but offers no zoom, for comparison.
	ViewOnly bool

	// Observe is told every zoom that was given, in order, from the goroutine that
	// answers. Nobody is told when nil.
	Observe func(Zoom)
}

// Zoom is one zoom that a model was given.
type Zoom struct {
	Image int // index of the image, from 0
	Region
	Encoded picture.Encoded // as it was sent; Encoded.Size may be less than Region.Size
}

// Tool is the zoom tool over one or more images. It holds each full-resolution original
// and the view of it that the model sees. It is an agent.Tool and an agent.Presenter.
//
// A Tool belongs to one run. Its images must not be changed while it is in use.
type Tool struct {
	options Options
	images  []shown
}

type shown struct {
	original *image.RGBA
	frame    vision.Frame
	view     picture.Encoded
	notes    []string
}

// New returns the zoom tool over the given pictures for a model with the given limits.
// See NewWithOptions.
func New(limits vision.Limits, pictures ...*picture.Picture) (*Tool, error) {
	return NewWithOptions(&Options{Limits: limits}, pictures...)
}

// ErrNoImages is returned for a tool over nothing.
var ErrNoImages = errors.New("there is no image to look at")

// viewShare is the part of a request's body that the views may take together; the rest
// is for zooms.
const viewShare = 0.5

// NewWithOptions returns the zoom tool over the given pictures and prepares their views.
// The views are as large as the limits allow, and smaller only where one request could
// otherwise not carry them all. A nil o is the zero Options.
func NewWithOptions(o *Options, pictures ...*picture.Picture) (*Tool, error) {
	t := &Tool{}
	if o != nil {
		t.options = *o
	}
	if t.options.Limits == (vision.Limits{}) {
		t.options.Limits = vision.Standard
	}
	if t.options.Request == (vision.RequestLimits{}) {
		t.options.Request = vision.DefaultRequestLimits()
	}
	if len(pictures) == 0 {
		return nil, ErrNoImages
	}
	request := t.options.Request
	if request.MaxImages > 0 && len(pictures) > request.MaxImages {
		return nil, fmt.Errorf("there are %d images, and a request may carry %d; ask about fewer at a time", len(pictures), request.MaxImages)
	}
	limits := t.options.Limits.CapEdge(request.MaxEdge)
	if request.ManyImages > 0 && len(pictures) > request.ManyImages {
		limits = limits.CapEdge(request.ManyImagesMaxEdge)
	}
	maxBase64 := request.MaxImageBytes
	if request.MaxBodyBytes > 0 {
		share := int(viewShare * float64(request.MaxBodyBytes) / float64(len(pictures)))
		if maxBase64 <= 0 || share < maxBase64 {
			maxBase64 = share
		}
	}
	for i, p := range pictures {
		s, err := show(p, limits, maxBase64)
		if err != nil {
			return nil, fmt.Errorf("prepare image %d: %w", i, err)
		}
		t.images = append(t.images, s)
	}
	return t, nil
}

// show prepares the view of a picture, smaller than the limits only when no encoding of
// it would fit into maxBase64 bytes.
func show(p *picture.Picture, limits vision.Limits, maxBase64 int) (shown, error) {
	for {
		view, frame := View(p.Image, limits)
		encoded, err := picture.EncodeView(view, maxBase64)
		if err == nil {
			return shown{p.Image, frame, encoded, p.Notes}, nil
		}
		smaller := limits.CapEdge(max(frame.View.X, frame.View.Y) * 4 / 5)
		if !errors.Is(err, picture.ErrEncodedTooLarge) || smaller.MaxEdge < vision.Patch {
			return shown{}, err
		}
		limits = smaller
	}
}

// Len is the number of images.
func (t *Tool) Len() int { return len(t.images) }

// Frame returns the frame of image number i, which must be below Len.
func (t *Tool) Frame(i int) vision.Frame { return t.images[i].frame }

// Encoded returns the view of image number i as it is sent, which must be below Len.
func (t *Tool) Encoded(i int) picture.Encoded { return t.images[i].view }

// Declare returns the tool's one entry, or nothing when it is ViewOnly.
func (t *Tool) Declare() []anthropic.BetaToolUnionParam {
	if t.options.ViewOnly {
		return nil
	}
	integer := func(description string) map[string]any {
		return map[string]any{"type": "integer", "description": description}
	}
	return []anthropic.BetaToolUnionParam{{OfTool: &anthropic.BetaToolParam{
		Name: Name,
		Description: anthropic.String("Look closely at a part of an image. The region is cut from the original, which " +
			"may have far more detail than the copy in this conversation, and comes back magnified as far as you can see. " +
			"Zoom again into a smaller region when something is still too small. Coordinates are always pixels of the " +
			"whole image as first shown, never of a zoomed one."),
		InputSchema: anthropic.BetaToolInputSchemaParam{
			Properties: map[string]any{
				"x1":          integer("Left edge of the region in pixels; 0 is the left edge of the image."),
				"y1":          integer("Top edge of the region in pixels; 0 is the top edge of the image."),
				"x2":          integer("Right edge of the region in pixels, greater than x1."),
				"y2":          integer("Bottom edge of the region in pixels, greater than y1."),
				"image_index": integer("Which image, counted from 0. The first one when left out."),
			},
			Required:    []string{"x1", "y1", "x2", "y2"},
			ExtraFields: map[string]any{"additionalProperties": false},
		},
	}}}
}

// Present returns each image with its index and size, and how to look at them.
func (t *Tool) Present() []anthropic.BetaContentBlockParamUnion {
	var blocks []anthropic.BetaContentBlockParamUnion
	for i, s := range t.images {
		label := fmt.Sprintf("Image %d (%dx%d pixels):", i, s.frame.View.X, s.frame.View.Y)
		if len(s.notes) > 0 {
			label = fmt.Sprintf("Image %d (%dx%d pixels; %s):", i, s.frame.View.X, s.frame.View.Y, strings.Join(s.notes, "; "))
		}
		blocks = append(blocks, anthropic.NewBetaTextBlock(label),
			anthropic.BetaContentBlockParamUnion{OfImage: imageBlock(s.view)})
	}
	guide := "Coordinates are absolute pixels of the image as shown above, with the origin (0, 0) at its top left, " +
		"x to the right and y down."
	if !t.options.ViewOnly {
		guide += " Use the zoom tool wherever a detail is too small or too close to another to be read with certainty; " +
			"several zooms are fine."
	}
	return append(blocks, anthropic.NewBetaTextBlock(guide))
}

// imageBlock is an image for a request. The API is told to refuse it rather than to
// scale it down unasked, which would shift every coordinate without a word.
func imageBlock(e picture.Encoded) *anthropic.BetaImageBlockParam {
	return &anthropic.BetaImageBlockParam{
		Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &anthropic.BetaBase64ImageSourceParam{
			Data:      base64.StdEncoding.EncodeToString(e.Data),
			MediaType: anthropic.BetaBase64ImageSourceMediaType(e.MediaType),
		}},
		Transformations: anthropic.BetaImageTransformationsParam{
			OversizedImage: anthropic.BetaImageTransformationsParamOversizedImageError,
		},
	}
}

// Answer cuts and magnifies the region of each call. A call that cannot be answered gets
// a result with is_error set and one sentence that says why.
func (t *Tool) Answer(ctx context.Context, calls []anthropic.BetaToolUseBlock, room vision.Allowance) []anthropic.BetaToolResultBlockParam {
	results := make([]anthropic.BetaToolResultBlockParam, len(calls))
	full := room.Images <= 0 // before any of these calls
	for i, call := range calls {
		content, used, err := t.answer(ctx, call, room, len(calls)-i)
		if full && errors.Is(err, errNoRoom) {
			err = errors.New("there is no room for another image in this conversation; answer from what you have seen")
		}
		if err != nil {
			results[i] = anthropic.BetaToolResultBlockParam{
				ToolUseID: call.ID,
				IsError:   anthropic.Bool(true),
				Content: []anthropic.BetaToolResultBlockParamContentUnion{
					{OfText: &anthropic.BetaTextBlockParam{Text: "Error: " + err.Error()}},
				},
			}
			continue
		}
		room.Images--
		if room.MaxBytes > 0 {
			room.MaxBytes = max(room.MaxBytes-used, 1)
		}
		results[i] = anthropic.BetaToolResultBlockParam{ToolUseID: call.ID, Content: content}
	}
	return results
}

// errNoRoom answers a call beyond what one turn has room for.
var errNoRoom = errors.New("there are too many zooms in this turn; ask for this one again in the next turn")

// answer answers one call, with left calls still to come, this one included. used is the
// number of bytes of the image after base64.
func (t *Tool) answer(ctx context.Context, call anthropic.BetaToolUseBlock, room vision.Allowance, left int) (content []anthropic.BetaToolResultBlockParamContentUnion, used int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, errors.New("the run was stopped before this zoom")
	}
	index, region, err := t.parse(call.Input)
	if err != nil {
		return nil, 0, err
	}
	s := &t.images[index]
	limits := t.options.Limits.CapEdge(room.MaxEdge)
	r, err := locate(s.frame, region, limits)
	if err != nil {
		return nil, 0, fmt.Errorf("the region (%d,%d)-(%d,%d) is empty in this image of %dx%d pixels: x1 must be less than x2 and y1 less than y2, both inside the image",
			region.Min.X, region.Min.Y, region.Max.X, region.Max.Y, s.frame.View.X, s.frame.View.Y)
	}
	if room.Images <= 0 {
		return nil, 0, errNoRoom
	}
	maxBase64 := t.options.Request.MaxImageBytes
	if room.MaxBytes > 0 {
		share := room.MaxBytes / max(min(left, room.Images), 1)
		if maxBase64 <= 0 || share < maxBase64 {
			maxBase64 = share
		}
	}
	encoded, err := encodeWithin(s.original, r.Crop, r.Size, maxBase64, limits)
	if err != nil {
		return nil, 0, errors.New("this zoom is too large to send; ask for a smaller region")
	}
	if t.options.Observe != nil {
		t.options.Observe(Zoom{Image: index, Region: r, Encoded: encoded})
	}
	return []anthropic.BetaToolResultBlockParamContentUnion{
		{OfText: &anthropic.BetaTextBlockParam{Text: describe(index, s.frame, r, encoded.Size)}},
		{OfImage: imageBlock(encoded)},
	}, encoded.Base64Len(), nil
}

// describe tells the model what it is looking at.
func describe(index int, frame vision.Frame, r Region, size image.Point) string {
	text := fmt.Sprintf("Region (%d,%d)-(%d,%d) of image %d, which you see at %dx%d pixels. "+
		"It covers %dx%d pixels of the original and is shown here at %dx%d.",
		r.Applied.Min.X, r.Applied.Min.Y, r.Applied.Max.X, r.Applied.Max.Y, index, frame.View.X, frame.View.Y,
		r.Crop.Dx(), r.Crop.Dy(), size.X, size.Y)
	if size != r.Size {
		text += fmt.Sprintf(" That is less than the %dx%d that you could see, to keep the request small enough.", r.Size.X, r.Size.Y)
	}
	return text + fmt.Sprintf(" Coordinates in further calls stay those of the full %dx%d image.", frame.View.X, frame.View.Y)
}

// parse reads a call's input. Its errors are for the model: one sentence that names the
// argument and what it should be.
func (t *Tool) parse(input any) (index int, region image.Rectangle, err error) {
	data, err := json.Marshal(input)
	if err != nil {
		return 0, image.Rectangle{}, errors.New("the arguments are not valid JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var arguments map[string]any
	if err := decoder.Decode(&arguments); err != nil || arguments == nil {
		return 0, image.Rectangle{}, errors.New("the arguments must be an object with the integers x1, y1, x2 and y2")
	}
	integer := func(name string) (int, error) {
		value, there := arguments[name]
		if !there || value == nil {
			return 0, fmt.Errorf("the argument %s is missing; x1, y1, x2 and y2 are required integers", name)
		}
		number, isNumber := value.(json.Number)
		if !isNumber {
			return 0, fmt.Errorf("the argument %s must be an integer, not %s", name, kindOf(value))
		}
		f, err := number.Float64()
		// A range error leaves f infinite, which is clamped like any other large number.
		if math.IsNaN(f) || err != nil && !math.IsInf(f, 0) || !math.IsInf(f, 0) && f != math.Trunc(f) {
			return 0, fmt.Errorf("the argument %s must be an integer, not %.40s", name, number)
		}
		return int(math.Max(-coordinateBound, math.Min(f, coordinateBound))), nil
	}
	var edges [4]int
	for i, name := range []string{"x1", "y1", "x2", "y2"} {
		if edges[i], err = integer(name); err != nil {
			return 0, image.Rectangle{}, err
		}
	}
	if arguments["image_index"] != nil {
		if index, err = integer("image_index"); err != nil {
			return 0, image.Rectangle{}, err
		}
	}
	if index < 0 || index >= len(t.images) {
		if len(t.images) == 1 {
			return 0, image.Rectangle{}, fmt.Errorf("image_index %d is out of range: there is one image, number 0", index)
		}
		return 0, image.Rectangle{}, fmt.Errorf("image_index %d is out of range: there are images 0 to %d", index, len(t.images)-1)
	}
	region.Min, region.Max = image.Pt(edges[0], edges[1]), image.Pt(edges[2], edges[3])
	return index, region, nil
}

// coordinateBound keeps absurd coordinates within what arithmetic can take; no image is
// as large.
const coordinateBound = 1 << 30

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
