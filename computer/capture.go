package computer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"time"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
)

// budget is what the images of one turn may take together.
type budget struct {
	images  int // that may still come
	edge    int // pixels; no bound when zero
	bytes   int // of all that may still come, after base64; no bound when zero
	pending int // images that the turn still asks for
	full    bool
}

func newBudget(room vision.Allowance, turn []ToolUse, appended bool) *budget {
	b := &budget{images: room.Images, edge: room.MaxEdge, bytes: room.MaxBytes, full: room.Images <= 0}
	for _, use := range turn {
		if looks(use.Name) {
			b.pending++
		}
	}
	if appended {
		b.pending++
	}
	return b
}

// check says whether one more image may come.
func (b *budget) check() error {
	switch {
	case b.full:
		return inputErrorf("There is no room for another image in this conversation; go on without.")
	case b.images <= 0:
		return inputErrorf("There are too many images in this turn; ask for this one in the next turn.")
	}
	return nil
}

// share is the most bytes that the next image may have, at most limit.
func (b *budget) share(limit int) int {
	if b.bytes <= 0 {
		return limit
	}
	return min(limit, max(b.bytes/max(min(b.pending, b.images), 1), 1))
}

// take counts an image.
func (b *budget) take(e picture.Encoded) {
	b.images--
	b.pending--
	if b.bytes > 0 {
		b.bytes = max(b.bytes-e.Base64Len(), 1)
	}
}

// screenshot is the whole display as the model sees it.
func (t *Toolset) screenshot(ctx context.Context, b *budget) ([]Content, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	screen, text, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	frame := vision.NewFrame(screen.Rect.Size(), t.limits)
	if b.edge > 0 && max(frame.View.X, frame.View.Y) > b.edge {
		return nil, inputErrorf("A screenshot has %dx%d pixels, and this conversation has room for %d an edge; go on without.", frame.View.X, frame.View.Y, b.edge)
	}
	view := screen
	if frame.View != frame.Original {
		view = picture.Resample(screen, screen.Rect, frame.View)
	}
	encoded, softened, err := encodeScreenshot(view, b.share(t.options.MaxImageBytes))
	if err != nil {
		return nil, err
	}
	if softened {
		text = append(text, "The screen has more detail than can be sent at once, so it looks soft here; zoom into a region to see it sharp.")
	}
	b.take(encoded)
	t.taken = frame.Original
	return append(texts(text), imageContent(encoded)), nil
}

func texts(lines []string) []Content {
	var content []Content
	for _, line := range lines {
		content = append(content, Content{Text: line})
	}
	return content
}

func imageContent(e picture.Encoded) Content {
	return Content{Image: &Image{MediaType: e.MediaType, Data: e.Data}}
}

// A screen of a single colour is often one that is just being drawn, so it is looked at
// again a few times before it is believed.
const (
	blankTries = 6
	blankPause = 100 * time.Millisecond
)

// look captures the display once it has come to rest. The text, if any, says that it is
// blank.
func (t *Toolset) look(ctx context.Context) (screen *image.RGBA, text []string, err error) {
	if err := t.settle(ctx); err != nil {
		return nil, nil, err
	}
	for try := 1; ; try++ {
		if screen, err = t.capture(ctx); err != nil {
			return nil, nil, err
		}
		blank, c, pointer := t.blank(ctx, screen)
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if !blank {
			return screen, nil, nil
		}
		if try == blankTries {
			what := ""
			if pointer {
				what = ", apart from the pointer"
			}
			return screen, []string{fmt.Sprintf("The whole screen is a single colour, #%02x%02x%02x%s. It may be off, locked or still starting.", c.R, c.G, c.B, what)}, nil
		}
		if err := pause(ctx, blankPause); err != nil {
			return nil, nil, err
		}
	}
}

// settle waits until the screen is at rest, where the driver can tell. A driver that fails
// at that may still capture.
func (t *Toolset) settle(ctx context.Context) error {
	settler, ok := t.desktop.(Settler)
	if !ok {
		return nil
	}
	if err := settler.Settle(ctx); err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return err
		}
		t.log.Warn("the screen could not be seen to settle", "error", err)
	}
	return nil
}

// capture returns the pixels of the whole display. The display may change its size in
// between, which is worth another try.
func (t *Toolset) capture(ctx context.Context) (*image.RGBA, error) {
	size, err := t.size(ctx)
	if err != nil {
		return nil, err
	}
	screen, err := t.captureRegion(ctx, image.Rectangle{Max: size})
	if err == nil || ctx.Err() != nil {
		return screen, err
	}
	if again, sizeErr := t.size(ctx); sizeErr == nil && again != size {
		return t.captureRegion(ctx, image.Rectangle{Max: again})
	}
	return nil, err
}

// captureRegion is Capture, held to its contract.
func (t *Toolset) captureRegion(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	m, err := t.desktop.Capture(ctx, region)
	if err != nil {
		return nil, err
	}
	if m == nil || m.Rect != (image.Rectangle{Max: region.Size()}) {
		return nil, fmt.Errorf("the driver did not capture %v as asked", region)
	}
	return m, nil
}

// pointerReach is the largest pointer that is told from a window, in display pixels.
const pointerReach = 64

// blank says whether a screen has a single colour but for at most the picture of the
// pointer: what differs fits into a square of pointerReach, near where the pointer is.
func (t *Toolset) blank(ctx context.Context, screen *image.RGBA) (blank bool, c color.RGBA, pointer bool) {
	// The corners tell the colour: the pointer covers one at most, unless all is pointer.
	r := screen.Rect
	c = screen.RGBAAt(0, 0)
	if other := screen.RGBAAt(r.Max.X-1, r.Max.Y-1); other != c && screen.RGBAAt(r.Max.X-1, 0) == other {
		c = other
	}
	odd, fits := oddPixels(screen, c)
	if odd.Empty() {
		return fits, c, false
	}
	if !fits || min(r.Dx(), r.Dy()) <= 2*pointerReach { // on a tiny screen anything would fit
		return false, c, false
	}
	p, err := t.desktop.Pointer(ctx)
	if err != nil {
		return false, c, false
	}
	near := image.Rectangle{Min: p, Max: p.Add(image.Pt(1, 1))}.Inset(-pointerReach)
	return odd.In(near), c, true
}

// oddPixels returns the bounds of the pixels that are not of colour c. fits is false, and
// the bounds are not complete, when they are larger than pointerReach.
func oddPixels(screen *image.RGBA, c color.RGBA) (odd image.Rectangle, fits bool) {
	width := screen.Rect.Dx()
	plain := bytes.Repeat([]byte{c.R, c.G, c.B, c.A}, width)
	for y := range screen.Rect.Dy() {
		row := screen.Pix[y*screen.Stride:][:4*width]
		if bytes.Equal(row, plain) {
			continue
		}
		first, last := 0, width-1
		for bytes.Equal(row[4*first:4*first+4], plain[:4]) {
			first++
		}
		for bytes.Equal(row[4*last:4*last+4], plain[:4]) {
			last--
		}
		odd = odd.Union(image.Rect(first, y, last+1, y+1))
		if odd.Dx() > pointerReach || odd.Dy() > pointerReach {
			return odd, false
		}
	}
	return odd, true
}

// encodeScreenshot encodes a view within maxBase64 bytes. Its size must stay, since it is
// what coordinates are in; a view that is too much loses detail instead.
func encodeScreenshot(view *image.RGBA, maxBase64 int) (e picture.Encoded, softened bool, err error) {
	e, err = picture.EncodeScreen(view, maxBase64)
	size := view.Rect.Size()
	for part := 0.75; errors.Is(err, picture.ErrEncodedTooLarge) && part > 0.05; part *= 0.75 {
		small := image.Pt(scaled(size.X, part), scaled(size.Y, part))
		soft := picture.Resample(view, view.Rect, small)
		soft = picture.Resample(soft, soft.Rect, size)
		e, err = picture.EncodeView(soft, maxBase64)
		softened = true
	}
	if errors.Is(err, picture.ErrEncodedTooLarge) {
		err = inputErrorf("The screen has too much detail to be sent; zoom into a small region.")
	}
	return e, softened, err
}

func scaled(v int, by float64) int { return max(int(math.Round(float64(v)*by)), 1) }

// zoom is a region of the display, captured at its own resolution and magnified.
func (t *Toolset) zoom(ctx context.Context, c *command, b *budget) ([]Content, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	r := c.input.Region
	region := c.frame.ToOriginalRegion(image.Rect(r[0], r[1], r[2], r[3]))
	part, err := t.captureRegion(ctx, region)
	if err != nil {
		return nil, err
	}
	limits := t.limits.CapEdge(b.edge)
	w, h := limits.Fill(region.Dx(), region.Dy())
	encoded, err := encodeZoom(part, image.Pt(w, h), b.share(t.options.MaxImageBytes))
	if err != nil {
		return nil, err
	}
	b.take(encoded)
	view, size := c.frame.View, encoded.Size
	text := fmt.Sprintf("Region (%d,%d)-(%d,%d) of the screen, which you see at %dx%d pixels. It covers %dx%d pixels of the display and is shown here at %dx%d.",
		r[0], r[1], r[2], r[3], view.X, view.Y, region.Dx(), region.Dy(), size.X, size.Y)
	if size != image.Pt(w, h) {
		text += fmt.Sprintf(" That is less than the %dx%d that you could see, to keep the request small enough.", w, h)
	}
	text += fmt.Sprintf(" Coordinates in further calls stay those of the full %dx%d screenshot.", view.X, view.Y)
	return []Content{{Text: text}, imageContent(encoded)}, nil
}

// encodeZoom encodes a part of the display at the given size, or as much smaller as fits
// into maxBase64 bytes: a zoom loses size before quality.
func encodeZoom(part *image.RGBA, size image.Point, maxBase64 int) (picture.Encoded, error) {
	const slack = 0.92 // JPEG does not shrink quite as fast as its pixels do
	for {
		e, err := picture.EncodeZoom(picture.Resample(part, part.Rect, size))
		if err != nil || e.Base64Len() <= maxBase64 {
			return e, err
		}
		by := slack * math.Sqrt(float64(maxBase64)/float64(e.Base64Len()))
		smaller := image.Pt(scaled(size.X, by), scaled(size.Y, by))
		if smaller == size {
			return picture.Encoded{}, inputErrorf("This region is too large to send; zoom into a smaller one.")
		}
		size = smaller
	}
}

// closing is the screenshot that ends a turn, after the answer of its last block.
func (t *Toolset) closing(ctx context.Context, last ToolUse, b *budget) (content []Content) {
	err := func() (err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, t.options.BlockTime, errTooLong)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				err = newPanicError(p)
			}
			err = withCause(ctx, err)
		}()
		content, err = t.screenshot(ctx, b)
		return err
	}()
	if err != nil {
		// What was asked for has been done, so the result is no error.
		use, text := ToolUse{ID: last.ID, Name: "screenshot"}, "This was done, but no screenshot could be taken after it."
		if why := (*InputError)(nil); errors.As(err, &why) {
			text += " " + sentence(why.Text) // there is no room for it; what is held stays so
		} else {
			text += t.letGo(ctx)
		}
		t.report(use, err)
		return []Content{{Text: text}}
	}
	if last.Name == "zoom" {
		content = append([]Content{{Text: "The whole screen:"}}, content...)
	}
	return content
}
