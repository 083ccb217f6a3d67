package reader

import (
	"image"
	"slices"
)

// A region is one line of what looks like text, in pixels of the image that it was
// found in.
type region struct {
	box   image.Rectangle
	score float64 // how much it looks like text, 0 to 1
	layer uint8   // the hue that it is drawn in
}

// The limits of what is taken for text, in pixels of the searched image.
const (
	inkContrast   = 36  // least distance from the background, of 255
	ruleContrast  = 12  // the same for a rule, which may be fainter
	neutralChroma = 48  // a pixel with less between its channels has no hue
	minTextHeight = 3   // a line of text is at least this high
	maxTextHeight = 120 // and at most this
	maxGlyphWidth = 260 // one connected piece of a word; curves and frames are wider
	ruleLength    = 70  // a straight thin run of ink longer than this is a rule, not text
	longRule      = 300 // and one longer than this may be thicker
	maxComponents = 60000
	maxRegions    = 400
)

// findRegions returns the lines of m that look like text, best first: pieces of one
// colour that are small, stand in a row and are as dense and as finely divided as
// letters are. It never looks at what is written.
//
// Each hue is searched on its own, so that a label which touches a coloured curve is
// still seen apart from it.
func (k *inkMap) findRegions() []region {
	var found []region
	for layer := range hueLayers {
		found = append(found, linesOf(k, layer)...)
	}
	slices.SortStableFunc(found, func(a, b region) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	// The same line may be found in several layers; the best one stays.
	var kept []region
	for _, r := range found {
		if !slices.ContainsFunc(kept, func(o region) bool { return overlap(r.box, o.box) > 0.5 }) {
			kept = append(kept, r)
		}
		if len(kept) == maxRegions {
			break
		}
	}
	return kept
}

// overlap is the area that both boxes cover as a part of the smaller one's area.
func overlap(a, b image.Rectangle) float64 {
	c := a.Intersect(b)
	if c.Empty() {
		return 0
	}
	return float64(c.Dx()*c.Dy()) / float64(min(a.Dx()*a.Dy(), b.Dx()*b.Dy()))
}

// The layers that pixels are sorted into: without hue, then six hues.
const (
	layerNone    = 0
	layerNeutral = 1
	hueLayers    = 8
)

// inkMap says for each pixel which layer it belongs to; layerNone is background.
type inkMap struct {
	image  *image.RGBA
	w, h   int
	layer  []uint8
	mark   []uint8  // contrast with the background
	rule   []bool   // belonged to a rule, and to a layer no more
	ground [][3]int // the background of each block
}

// groundBlock is the side in pixels of the blocks that have one background.
const groundBlock = 48

// inkOf separates what is drawn from what it is drawn on. The background is the most
// common colour of each block, so that light text on dark, or a panel in another
// colour, is ink as well.
func inkOf(m *image.RGBA) *inkMap {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	k := &inkMap{image: m, w: w, h: h, layer: make([]uint8, w*h), mark: make([]uint8, w*h), rule: make([]bool, w*h)}
	for y := 0; y < h; y += groundBlock {
		for x := 0; x < w; x += groundBlock {
			k.ground = append(k.ground, dominant(m, image.Rect(x, y, min(w, x+groundBlock), min(h, y+groundBlock))))
		}
	}
	for y := range h {
		row := m.Pix[y*m.Stride : y*m.Stride+4*w]
		for x := range w {
			bg := k.groundAt(x, y)
			r, g, b := int(row[4*x]), int(row[4*x+1]), int(row[4*x+2])
			contrast := max(abs(r-bg[0]), abs(g-bg[1]), abs(b-bg[2]))
			k.mark[y*w+x] = uint8(contrast)
			if contrast >= inkContrast {
				k.layer[y*w+x] = layerOf(r, g, b)
			}
		}
	}
	k.dropRules()
	return k
}

func (k *inkMap) groundAt(x, y int) [3]int {
	return k.ground[y/groundBlock*((k.w+groundBlock-1)/groundBlock)+x/groundBlock]
}

// withoutRules returns the image with its rules painted over by the background.
func (k *inkMap) withoutRules() *image.RGBA {
	out := image.NewRGBA(k.image.Rect)
	copy(out.Pix, k.image.Pix)
	for y := range k.h {
		for x := range k.w {
			if k.layer[y*k.w+x] != layerNone || k.mark[y*k.w+x] == 0 {
				continue
			}
			near := false
			for dy := -1; dy <= 1 && !near; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if nx, ny := x+dx, y+dy; nx >= 0 && ny >= 0 && nx < k.w && ny < k.h && k.rule[ny*k.w+nx] {
						near = true
						break
					}
				}
			}
			if near {
				k.paint(out, x, y)
			}
		}
	}
	return out
}

// only returns the part box of the image with everything painted over that is not of
// the layer or right next to it.
func (k *inkMap) only(layer uint8, box image.Rectangle) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, box.Dx(), box.Dy()))
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			near := false
			for dy := -1; dy <= 1 && !near; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if nx, ny := x+dx, y+dy; nx >= 0 && ny >= 0 && nx < k.w && ny < k.h && k.layer[ny*k.w+nx] == layer {
						near = true
						break
					}
				}
			}
			if near {
				copy(out.Pix[(y-box.Min.Y)*out.Stride+4*(x-box.Min.X):][:4], k.image.Pix[y*k.image.Stride+4*x:][:4])
			} else {
				bg := k.groundAt(x, y)
				copy(out.Pix[(y-box.Min.Y)*out.Stride+4*(x-box.Min.X):][:4], []byte{uint8(bg[0]), uint8(bg[1]), uint8(bg[2]), 255})
			}
		}
	}
	return out
}

func (k *inkMap) paint(m *image.RGBA, x, y int) {
	bg := k.groundAt(x, y)
	copy(m.Pix[y*m.Stride+4*x:][:4], []byte{uint8(bg[0]), uint8(bg[1]), uint8(bg[2]), 255})
}

// dominant is the most common colour of the box, to 16 levels a channel, as the mean
// of the pixels that have it.
func dominant(m *image.RGBA, box image.Rectangle) [3]int {
	var count [4096]int
	var sum [4096][3]int
	best := 0
	for y := box.Min.Y; y < box.Max.Y; y++ {
		row := m.Pix[y*m.Stride : y*m.Stride+4*box.Max.X]
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b := row[4*x], row[4*x+1], row[4*x+2]
			key := int(r>>4)<<8 | int(g>>4)<<4 | int(b>>4)
			count[key]++
			sum[key][0] += int(r)
			sum[key][1] += int(g)
			sum[key][2] += int(b)
			if count[key] > count[best] {
				best = key
			}
		}
	}
	n := max(1, count[best])
	return [3]int{sum[best][0] / n, sum[best][1] / n, sum[best][2] / n}
}

func abs(v int) int {
	if v < 0 {
		return -v
	}
	return v
}

// layerOf sorts a colour into the neutral layer or one of six hues of 60 degrees.
func layerOf(r, g, b int) uint8 {
	high, low := max(r, g, b), min(r, g, b)
	chroma := high - low
	if chroma < neutralChroma {
		return layerNeutral
	}
	var hue int // degrees
	switch high {
	case r:
		hue = 60 * (g - b) / chroma
	case g:
		hue = 120 + 60*(b-r)/chroma
	default:
		hue = 240 + 60*(r-g)/chroma
	}
	return uint8(layerNeutral + 1 + ((hue+360+30)%360)/60)
}

// dropRules removes long straight thin strokes: axes, grid lines, frames, underlines.
func (k *inkMap) dropRules() {
	k.rules(k.w, k.h, 1, k.w)
	k.rules(k.h, k.w, k.w, 1)
	for i, d := range k.rule {
		if d {
			k.layer[i] = layerNone
		}
	}
}

// rules marks straight runs along lines of n pixels at the given stride; there are m
// such lines, across pixels apart. Text that happens to join into a long run, and the
// stem of a large letter, are thicker than a rule of that length.
func (k *inkMap) rules(n, m, stride, across int) {
	for j := range m {
		start := -1
		for i := 0; i <= n; i++ {
			if i < n && k.mark[j*across+i*stride] >= ruleContrast {
				if start < 0 {
					start = i
				}
				continue
			}
			if start >= 0 && i-start >= ruleLength {
				thick := 3
				if i-start >= longRule {
					thick = 9
				}
				clear := func(line, p int) bool {
					return line < 0 || line >= m || k.mark[line*across+p*stride] < ruleContrast
				}
				thin := make([]bool, i-start)
				count := 0
				for p := start; p < i; p++ {
					up, down := 1, 1
					for up <= thick && !clear(j-up, p) {
						up++
					}
					for down <= thick && !clear(j+down, p) {
						down++
					}
					if up+down-1 <= thick {
						thin[p-start] = true
						count++
					}
				}
				if 10*count >= 6*(i-start) {
					for p := start; p < i; p++ {
						if thin[p-start] {
							k.rule[j*across+p*stride] = true
						}
					}
				}
			}
			start = -1
		}
	}
}

// linesOf gathers the connected pieces of one layer into lines.
func linesOf(k *inkMap, layer int) []region {
	if layer == layerNone {
		return nil
	}
	pieces := k.pieces(uint8(layer))
	if len(pieces) == 0 {
		return nil
	}
	slices.SortFunc(pieces, func(a, b piece) int { return a.box.Min.X - b.box.Min.X })
	group := joinPieces(pieces, k.w)
	type line struct {
		box     image.Rectangle
		pieces  int
		area    int
		heights []int
	}
	lines := map[int]*line{}
	var order []int
	for i, p := range pieces {
		g := group(i)
		l := lines[g]
		if l == nil {
			l = &line{}
			lines[g] = l
			order = append(order, g)
		}
		l.box = l.box.Union(p.box)
		l.pieces++
		l.area += p.area
		l.heights = append(l.heights, p.box.Dy())
	}
	var out []region
	for _, g := range order {
		l := lines[g]
		slices.Sort(l.heights)
		r := region{box: l.box, layer: uint8(layer)}
		r.score = k.textLike(uint8(layer), l.box, l.pieces, l.area, l.heights[len(l.heights)/2])
		if r.score > 0 {
			out = append(out, r)
		}
	}
	return out
}

// A piece is one connected patch of a layer.
type piece struct {
	box  image.Rectangle
	area int
}

// pieces finds the connected patches of a layer that are no larger than a word can be.
func (k *inkMap) pieces(layer uint8) []piece {
	seen := make([]bool, k.w*k.h)
	var out []piece
	var stack []int
	for start, l := range k.layer {
		if l != layer || seen[start] {
			continue
		}
		seen[start] = true
		stack = append(stack[:0], start)
		p := piece{box: image.Rect(start%k.w, start/k.w, start%k.w+1, start/k.w+1)}
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			x, y := i%k.w, i/k.w
			p.area++
			p.box = p.box.Union(image.Rect(x, y, x+1, y+1))
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					nx, ny := x+dx, y+dy
					if nx < 0 || ny < 0 || nx >= k.w || ny >= k.h {
						continue
					}
					if j := ny*k.w + nx; k.layer[j] == layer && !seen[j] {
						seen[j] = true
						stack = append(stack, j)
					}
				}
			}
		}
		if p.box.Dx() <= maxGlyphWidth && p.box.Dy() <= maxTextHeight && p.area >= 2 {
			out = append(out, p)
			if len(out) == maxComponents {
				return out
			}
		}
	}
	return out
}

// joinPieces puts pieces that stand in a row, close together and of like height into
// one group, and returns a function that gives the group of a piece. The pieces are
// sorted by their left edge.
func joinPieces(pieces []piece, width int) func(int) int {
	parent := make([]int, len(pieces))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for i, a := range pieces {
		for j := i + 1; j < len(pieces); j++ {
			b := pieces[j]
			if b.box.Min.X-a.box.Max.X > 2*maxTextHeight/3 {
				// Sorted by the left edge, so none of the rest is nearer to a.
				break
			}
			if joins(a.box, b.box) {
				parent[find(j)] = find(i)
			}
		}
	}
	return find
}

// joins reports whether b, which does not begin before a, may be the next piece of the
// same line.
func joins(a, b image.Rectangle) bool {
	high, low := max(a.Dy(), b.Dy()), min(a.Dy(), b.Dy())
	if high > 4*low+6 {
		return false
	}
	if gap := b.Min.X - a.Max.X; gap > max(3, high*9/10) {
		return false
	}
	shared := min(a.Max.Y, b.Max.Y) - max(a.Min.Y, b.Min.Y)
	if shared*2 >= low {
		return true
	}
	// A comma or a full stop hangs at the foot of its neighbour.
	return low*3 <= high+3 && b.Min.Y <= a.Max.Y+1 && a.Min.Y <= b.Max.Y+1
}

// textLike judges a line: 0 when it cannot be text, near 1 when it has everything that
// a line of print has.
func (k *inkMap) textLike(layer uint8, box image.Rectangle, pieces, area, median int) float64 {
	w, h := box.Dx(), box.Dy()
	if h < minTextHeight || h > maxTextHeight || w < 5 || w < h/3 {
		return 0
	}
	if h > 4*median+6 {
		return 0 // a scatter of pieces, not a row
	}
	density := float64(area) / float64(w*h)
	if density < 0.06 || density > 0.92 {
		return 0
	}
	// Print changes between ink and paper about once or twice in each half of its own
	// height; a curve or a box far more seldom.
	changes, peak := 0, 0
	for y := box.Min.Y; y < box.Max.Y; y++ {
		n, before := 0, uint8(0)
		for x := box.Min.X; x < box.Max.X; x++ {
			i := y*k.w + x
			now := uint8(0)
			if k.layer[i] == layer {
				now = k.mark[i]
			}
			if abs(int(now)-int(before)) > 28 {
				n++
			}
			before = now
		}
		changes += n
		peak = max(peak, n)
	}
	perHeight := float64(changes) / float64(h) / (float64(w) / float64(h))
	score := 1.0
	switch {
	case perHeight < 0.4:
		score *= 0.2
	case perHeight < 0.8:
		score *= 0.6
	}
	aspect := float64(w) / float64(h)
	switch {
	case aspect < 1:
		score *= 0.25
	case aspect < 2:
		score *= 0.5
	case aspect < 3:
		score *= 0.75
	}
	if density < 0.15 {
		score *= 0.5
	}
	if density > 0.75 {
		score *= 0.6
	}
	if h < 4 {
		score *= 0.6
	}
	if w < 12 {
		score *= 0.6
	}
	return score
}
