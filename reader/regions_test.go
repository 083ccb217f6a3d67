package reader

import (
	"image"
	"image/color"
	"testing"
)

func TestSmallTextIsFoundAmongCurvesAndRules(t *testing.T) {
	for _, test := range []struct {
		name        string
		ground, ink color.Color
		size        float64
	}{
		{"dark on light", white, black, 8},
		{"light on dark", night, white, 8},
		{"coloured", white, blue, 9},
		{"large enough to read", white, black, 22},
		{"faint", white, color.RGBA{150, 150, 150, 255}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSketch(t, 900, 500, test.ground)
			s.rules(120, pale)
			s.curve(250, 60, red)
			s.curve(330, 50, green)
			want := s.text(500, 40, test.size, test.ink, "peak: 6,053 units")
			found := inkOf(s.RGBA).findRegions()
			for rank, r := range found {
				if c := r.box.Intersect(want); c.Dx()*10 >= want.Dx()*8 {
					if rank > 3 || r.box.Dy() > 2*want.Dy() {
						t.Errorf("found as number %d at %v, want %v", rank, r.box, want)
					}
					return
				}
			}
			t.Errorf("not found at %v among %d regions", want, len(found))
		})
	}
}

func TestTextThatTouchesACurveIsFoundByItsHue(t *testing.T) {
	s := newSketch(t, 600, 300, white)
	want := s.text(200, 142, 9, black, "max: 1,960 visits")
	s.curve(155, 12, red)
	for _, r := range inkOf(s.RGBA).findRegions() {
		if c := r.box.Intersect(want); c.Dx()*10 >= want.Dx()*6 && r.layer == layerNeutral {
			return
		}
	}
	t.Error("not found")
}

func TestNothingIsTextWhereNothingIsWritten(t *testing.T) {
	s := newSketch(t, 600, 300, white)
	s.rules(50, black)
	for _, r := range inkOf(s.RGBA).findRegions() {
		t.Errorf("found %v", r)
	}
}

func TestRulesArePaintedOverAndLettersAreNot(t *testing.T) {
	s := newSketch(t, 400, 200, white)
	for x := range 400 {
		s.Set(x, 150, black)
	}
	box := s.text(40, 20, 90, black, "HI") // stems longer than a rule, and thicker
	out := inkOf(s.RGBA).withoutRules()
	if got := out.RGBAAt(200, 150); got != white {
		t.Errorf("the rule is still there: %v", got)
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if out.RGBAAt(x, y) != s.RGBAAt(x, y) {
				t.Fatalf("a letter was changed at %d,%d", x, y)
			}
		}
	}
}

func TestZoomFramesStayInsideTheViewAndHoldTheTarget(t *testing.T) {
	view := image.Pt(1456, 854)
	for _, box := range []image.Rectangle{
		image.Rect(0, 0, 60, 7), image.Rect(1396, 847, 1456, 854), image.Rect(700, 400, 760, 408),
		image.Rect(10, 10, 1450, 20), image.Rect(5, 5, 6, 6),
	} {
		f := frameFor(target{box: box, tall: float64(box.Dy())}, view)
		if !f.In(image.Rectangle{Max: view}) || !box.In(f) {
			t.Errorf("the zoom for %v is %v", box, f)
		}
	}
	covered := make([]bool, view.X*view.Y)
	for _, tile := range tiles(view) {
		for y := tile.Min.Y; y < tile.Max.Y; y++ {
			for x := tile.Min.X; x < tile.Max.X; x++ {
				covered[y*view.X+x] = true
			}
		}
	}
	for i, c := range covered {
		if !c {
			t.Fatalf("the sweep leaves out %d,%d", i%view.X, i/view.X)
		}
	}
}
