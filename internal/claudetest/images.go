package claudetest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"

	"github.com/loupe-tools/loupe/internal/wire"
)

// Limits of the page on vision.
const (
	maxEdge       = 8000 // pixels of any edge
	maxEdgeMany   = 2000 // the same, once a request has more than manyImages
	manyImages    = 20
	maxImages200k = 100 // images, for a context window of up to 200,000 tokens
	maxImages     = 600
	patch         = 28 // pixels of a patch's edge; a patch is a visual token
)

// imageBytes: the source is base64 of a picture that is what media_type says, and
// not too large. It records what it finds for the rules that follow.
func imageBytes(h *Handler, r *Request) *wire.Error {
	for _, b := range everyBlock(r) {
		if b.Type != "image" {
			continue
		}
		found, err := h.readImage(b, r.model)
		if err != nil {
			return err
		}
		r.Images = append(r.Images, found)
		r.MaxEdge = max(r.MaxEdge, found.Width, found.Height)
	}
	return nil
}

func (h *Handler) readImage(b block, model Model) (Image, *wire.Error) {
	path := b.typed() + ".source"
	raw, err := object(b.raw["source"], path)
	if err != nil {
		return Image{}, err
	}
	if b.Source.Type != "base64" {
		return Image{}, wire.Invalid("%s: the test server reads base64 sources only, not '%s'", path, b.Source.Type)
	}
	path += ".base64"
	if err := fields("type media_type data").only(raw, path); err != nil {
		return Image{}, err
	}
	strict, err := transformations(b)
	if err != nil {
		return Image{}, err
	}
	if n := len(b.Source.Data); n > h.options.MaxImageBytes {
		return Image{}, wire.Invalid("%s: image exceeds %g MB maximum: %d bytes > %d bytes",
			path, float64(h.options.MaxImageBytes)/(1<<20), n, h.options.MaxImageBytes)
	}
	switch b.Source.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return Image{}, wire.Invalid("%s.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", path)
	}
	seen := h.blobs.inspect(b.dataName, b.Source.Data)
	switch {
	case seen.invalid:
		return Image{}, wire.Invalid("%s.data: Invalid base64 data", path)
	case seen.kind == "":
		return Image{}, wire.Invalid("Could not process image")
	case seen.kind != b.Source.MediaType:
		return Image{}, wire.Invalid("%s.data: The image was specified using the %s media type, but the image appears to be a %s image",
			path, b.Source.MediaType, seen.kind)
	case seen.width == 0 || seen.height == 0:
		return Image{}, wire.Invalid("Could not process image")
	}
	found := Image{
		Path: b.path, MediaType: seen.kind, Width: seen.width, Height: seen.height, Base64: len(b.Source.Data), Strict: strict,
	}
	width, height := model.fit(seen.width, seen.height)
	found.Tokens = visualTokens(width, height)
	found.Downscaled = !strict && (width != seen.width || height != seen.height)
	return found, nil
}

// inspect reads what base64 text says of its image.
func inspect(text string) picture {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(data) == 0 {
		return picture{invalid: true}
	}
	p := picture{kind: sniff(data)}
	p.width, p.height = dimensions(p.kind, data)
	return p
}

// transformations: oversized_image is "downsize" or "error" and nothing else is
// there. Source: the SDK's BetaImageTransformationsParam.
func transformations(b block) (strict bool, err *wire.Error) {
	raw := b.raw["transformations"]
	if !present(raw) {
		return false, nil
	}
	path := b.typed() + ".transformations"
	t, err := object(raw, path)
	if err != nil {
		return false, err
	}
	if err := fields("oversized_image").only(t, path); err != nil {
		return false, err
	}
	if !present(t["oversized_image"]) {
		return false, nil
	}
	switch str(t["oversized_image"]) {
	case "error":
		return true, nil
	case "downsize":
		return false, nil
	}
	return false, wire.Invalid("%s.oversized_image: Input should be 'downsize' or 'error'", path)
}

// imageCount: at most 100 images with a context window of 200,000 tokens, 600
// otherwise.
func imageCount(_ *Handler, r *Request) *wire.Error {
	limit := maxImages
	if r.model.Context <= 200_000 {
		limit = maxImages200k
	}
	if len(r.Images) > limit {
		return wire.Invalid("Too much media: 0 document pages + %d images > %d", len(r.Images), limit)
	}
	return nil
}

// imageEdges: no edge over 8,000 pixels, and none over 2,000 once a request has more
// than 20 images.
func imageEdges(_ *Handler, r *Request) *wire.Error {
	for _, i := range r.Images {
		path := i.Path + ".image.source.base64.data"
		longest := max(i.Width, i.Height)
		if longest > maxEdge {
			return wire.Invalid("%s: At least one of the image dimensions exceed max allowed size: %d pixels", path, maxEdge)
		}
		if len(r.Images) > manyImages && longest > maxEdgeMany {
			return wire.Invalid("%s: At least one of the image dimensions exceed max allowed size for many-image requests: %d pixels",
				path, maxEdgeMany)
		}
	}
	return nil
}

// imageTier: an image that asked for an error in place of being shrunk gets one,
// with its dimensions and the largest that fit.
func imageTier(_ *Handler, r *Request) *wire.Error {
	for _, i := range r.Images {
		w, h := r.model.fit(i.Width, i.Height)
		if i.Strict && (w != i.Width || h != i.Height) {
			return wire.Invalid("%s.image: image dimensions %dx%d exceed the maximum image size of %s; the largest dimensions that fit are %dx%d",
				i.Path, i.Width, i.Height, r.Model, w, h)
		}
	}
	return nil
}

// visualTokens is how many patches cover an image.
func visualTokens(width, height int) int {
	return ((width + patch - 1) / patch) * ((height + patch - 1) / patch)
}

// fits says whether an image passes both limits, its edges padded to whole patches.
func (m Model) fits(width, height int) bool {
	padded := (max(width, height) + patch - 1) / patch * patch
	return padded <= m.MaxEdge && visualTokens(width, height) <= m.MaxTokens
}

// fit is the size at which the model sees an image: the longest long edge that fits,
// the short edge in proportion, rounded half to even. It walks down one pixel at a
// time on purpose, so that it shares nothing with the arithmetic under test.
func (m Model) fit(width, height int) (int, int) {
	if m.fits(width, height) {
		return width, height
	}
	long, short := float64(max(width, height)), float64(min(width, height))
	aspect := long / short
	for n := int(long) - 1; n > 1; n-- {
		other := max(1, int(math.RoundToEven(float64(n)/aspect)))
		if m.fits(n, other) {
			if width >= height {
				return n, other
			}
			return other, n
		}
	}
	return 1, 1
}

// sniff names the media type by the first bytes; "" is none that the API takes.
func sniff(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// dimensions reads the size from the header; 0, 0 when it cannot be read.
func dimensions(kind string, data []byte) (width, height int) {
	var config image.Config
	var err error
	switch kind {
	case "image/png":
		config, err = png.DecodeConfig(bytes.NewReader(data))
	case "image/jpeg":
		config, err = jpeg.DecodeConfig(bytes.NewReader(data))
	case "image/gif":
		config, err = gif.DecodeConfig(bytes.NewReader(data))
	case "image/webp":
		return webpSize(data)
	}
	if err != nil {
		return 0, 0
	}
	return config.Width, config.Height
}

// webpSize reads the size from a WebP's first chunk. Source: the WebP container
// specification and RFC 6386, section 9.1.
func webpSize(data []byte) (width, height int) {
	if len(data) < 30 {
		return 0, 0
	}
	body := data[20:]
	switch string(data[12:16]) {
	case "VP8 ":
		if body[3] != 0x9d || body[4] != 0x01 || body[5] != 0x2a {
			return 0, 0
		}
		return int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff)
	case "VP8L":
		if body[0] != 0x2f {
			return 0, 0
		}
		bits := binary.LittleEndian.Uint32(body[1:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case "VP8X":
		edge := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
		return edge(body[4:]) + 1, edge(body[7:]) + 1
	}
	return 0, 0
}
