package reader

import (
	"context"
	"image"
	"image/color"
	"slices"

	"github.com/loupe-tools/loupe/picture"
)

// A row is one line of an image to be read on its own, enlarged or reduced so that
// the box is height pixels high.
type row struct {
	box    image.Rectangle // pixels of the image
	height int             // pixels of the sheet
	layer  uint8           // only what is drawn in this hue; everything when zero
}

// The sheet's measures in its own pixels.
const (
	sheetWidth  = 2400
	sheetMargin = 24
	maxSheet    = 9000 // height; rows beyond it are not read
)

// gray returns m for the engine, dark on light: an image with a dark ground is
// inverted.
func gray(m *image.RGBA) *image.Gray {
	out := image.NewGray(image.Rect(0, 0, m.Rect.Dx(), m.Rect.Dy()))
	sum := 0
	for y := range out.Rect.Dy() {
		from := m.Pix[y*m.Stride:]
		to := out.Pix[y*out.Stride:]
		for x := range out.Rect.Dx() {
			v := (299*int(from[4*x]) + 587*int(from[4*x+1]) + 114*int(from[4*x+2]) + 500) / 1000
			to[x] = uint8(v)
			sum += v
		}
	}
	if sum < 110*len(out.Pix) {
		for i, v := range out.Pix {
			out.Pix[i] = 255 - v
		}
	}
	return out
}

// readRows reads lines of an image on one sheet of paper, each on a row of its own, and
// returns the words of each with boxes in the pixels of the image. One process reads them all.
func (e *engine) readRows(ctx context.Context, k *inkMap, rows []row) ([][]word, error) {
	type placed struct {
		index  int
		source image.Rectangle // with a margin
		target image.Rectangle // on the sheet
		ink    *image.Gray
	}
	var all []placed
	x, y, tallest := sheetMargin, sheetMargin, 0
	for i, r := range rows {
		pad := max(2, r.box.Dy()/4)
		source := image.Rect(r.box.Min.X-2*pad, r.box.Min.Y-pad, r.box.Max.X+2*pad, r.box.Max.Y+pad).Intersect(k.image.Rect)
		if source.Empty() || r.box.Dy() == 0 {
			continue
		}
		scale := float64(r.height) / float64(r.box.Dy())
		size := image.Pt(max(1, int(float64(source.Dx())*scale)), max(1, int(float64(source.Dy())*scale)))
		if limit := sheetWidth - 2*sheetMargin; size.X > limit {
			size = image.Pt(limit, max(1, size.Y*limit/size.X))
		}
		if y+size.Y+sheetMargin > maxSheet {
			break
		}
		target := image.Rectangle{Min: image.Pt(x, y), Max: image.Pt(x, y).Add(size)}
		var cut *image.RGBA
		if r.layer == layerNone {
			cut = picture.Resample(k.image, source, size)
		} else {
			part := k.only(r.layer, source)
			cut = picture.Resample(part, part.Rect, size)
		}
		all = append(all, placed{i, source, target, onPaper(cut)})
		y += size.Y + sheetMargin
		tallest = max(tallest, size.X)
	}
	out := make([][]word, len(rows))
	if len(all) == 0 {
		return out, nil
	}
	sheet := image.NewGray(image.Rect(0, 0, tallest+2*sheetMargin, y))
	for i := range sheet.Pix {
		sheet.Pix[i] = 255
	}
	for _, p := range all {
		for dy := range p.ink.Rect.Dy() {
			copy(sheet.Pix[(p.target.Min.Y+dy)*sheet.Stride+p.target.Min.X:], p.ink.Pix[dy*p.ink.Stride:(dy+1)*p.ink.Stride])
		}
	}
	words, err := e.read(ctx, sheet, oneText)
	if err != nil {
		return nil, err
	}
	for _, w := range words {
		centre := w.box.Min.Add(w.box.Max).Div(2)
		for _, p := range all {
			reach := p.target.Inset(-sheetMargin / 2)
			if !centre.In(reach) {
				continue
			}
			w.box = mapBox(w.box, p.target, p.source)
			out[p.index] = append(out[p.index], w)
			break
		}
	}
	for _, line := range out {
		slices.SortStableFunc(line, func(a, b word) int { return a.box.Min.X - b.box.Min.X })
	}
	return out, nil
}

// mapBox carries a box from one frame to another of the same shape.
func mapBox(box, from, to image.Rectangle) image.Rectangle {
	fx := float64(to.Dx()) / float64(max(1, from.Dx()))
	fy := float64(to.Dy()) / float64(max(1, from.Dy()))
	at := func(v, from, to int, f float64) int { return to + int(float64(v-from)*f+0.5) }
	return image.Rect(
		at(box.Min.X, from.Min.X, to.Min.X, fx), at(box.Min.Y, from.Min.Y, to.Min.Y, fy),
		at(box.Max.X, from.Min.X, to.Min.X, fx), at(box.Max.Y, from.Min.Y, to.Min.Y, fy))
}

// onPaper turns a cut-out into black on white: its most common grey becomes the paper,
// the strongest contrast becomes black. Faint and light-on-dark text come out alike.
func onPaper(m *image.RGBA) *image.Gray {
	out := image.NewGray(m.Rect)
	var count [256]int
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			v := color.GrayModel.Convert(m.RGBAAt(x, y)).(color.Gray).Y
			out.Pix[y*out.Stride+x] = v
			count[v]++
		}
	}
	paper, best := 255, 0
	for v := range 256 {
		n := 0
		for w := max(0, v-4); w <= min(255, v+4); w++ {
			n += count[w]
		}
		if n > best {
			paper, best = v, n
		}
	}
	// The contrast that all but one pixel in a hundred stay below.
	var far [256]int
	for v, n := range count {
		far[abs(v-paper)] += n
	}
	strongest, left := 255, len(out.Pix)/100
	for strongest > 0 && left >= far[strongest] {
		left -= far[strongest]
		strongest--
	}
	strongest = max(strongest, 40)
	dark := paper < 128
	for i, v := range out.Pix {
		d := paper - int(v)
		if dark {
			d = -d
		}
		out.Pix[i] = uint8(255 - max(0, min(255, d*255/strongest)))
	}
	return out
}
