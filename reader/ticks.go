package reader

import (
	"image"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ticks finds the numbers along axes: at least four that stand alone, in one column or
// one row, with values that rise evenly with their place. The numbers of a table stand
// in columns too, but do not rise so.
func ticks(lines []*textLine) map[*textLine]bool {
	type lone struct {
		line  *textLine
		value float64
	}
	var all []lone
	for _, l := range lines {
		if len(l.words) == 0 || len(l.words) > 2 {
			continue
		}
		c, ok := numberAt(l, 0)
		if !ok || c.to < len(l.words) && len(l.words[c.to].text) > 1 {
			continue
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(c.core, ",", ""), 64)
		if err != nil {
			continue
		}
		if strings.HasPrefix(c.value, "-") || strings.HasPrefix(c.value, "−") {
			v = -v
		}
		all = append(all, lone{l, v})
	}
	out := map[*textLine]bool{}
	const most = 200 // a page of numbers is a table, and the search is cubic
	if len(all) > most {
		return out
	}
	for _, vertical := range []bool{true, false} {
		for _, first := range all {
			var group []lone
			for _, k := range all {
				if k.line.image == first.line.image && aligned(first.line.box, k.line.box, vertical) {
					group = append(group, k)
				}
			}
			if len(group) < 4 {
				continue
			}
			along := func(k lone) float64 {
				if vertical {
					return float64(k.line.box.Min.Y+k.line.box.Max.Y) / 2
				}
				return float64(k.line.box.Min.X+k.line.box.Max.X) / 2
			}
			slices.SortFunc(group, func(a, b lone) int { return int(along(a) - along(b)) })
			extent := along(group[len(group)-1]) - along(group[0])
			best := 0
			for i := range group {
				for j := i + 1; j < len(group); j++ {
					a, b := group[i], group[j]
					if along(b)-along(a) < extent/8 || a.value == b.value {
						continue
					}
					slope := (b.value - a.value) / (along(b) - along(a))
					n := 0
					for _, k := range group {
						if math.Abs(a.value+slope*(along(k)-along(a))-k.value) <= math.Abs(slope)*extent*0.012 {
							n++
						}
					}
					best = max(best, n)
				}
			}
			if best >= 4 && 3*best >= 2*len(group) {
				for _, k := range group {
					out[k.line] = true
				}
			}
		}
	}
	return out
}

// aligned reports whether two numbers may belong to one axis: to a vertical one with
// a common right edge, left edge or middle, or to a horizontal one with a common foot.
func aligned(a, b image.Rectangle, vertical bool) bool {
	h := max(a.Dy(), b.Dy())
	if !vertical {
		return abs(a.Max.Y-b.Max.Y) <= max(2, h/3) && abs(a.Min.Y-b.Min.Y) <= max(2, h/2)
	}
	reach := max(3, h)
	return abs(a.Max.X-b.Max.X) <= reach || abs(a.Min.X-b.Min.X) <= reach/2 ||
		abs(a.Min.X+a.Max.X-b.Min.X-b.Max.X) <= reach
}
