package vision_test

import (
	"encoding/json"
	"errors"
	"image"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/vision"
)

func tier(t *testing.T, name string) vision.Limits {
	t.Helper()
	switch name {
	case "standard":
		return vision.Standard
	case "high":
		return vision.HighResolution
	}
	t.Fatalf("unknown tier %q", name)
	return vision.Limits{}
}

func readCases[T any](t *testing.T, name string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}

func TestSizes(t *testing.T) {
	type row struct {
		Width, Height int
		Tier          string
		Fit, Fill     [2]int
		Tokens        int
	}
	for _, r := range readCases[row](t, "sizing.json") {
		l := tier(t, r.Tier)
		if w, h := l.Fit(r.Width, r.Height); [2]int{w, h} != r.Fit {
			t.Errorf("%s Fit(%d, %d) = %d, %d, want %v", r.Tier, r.Width, r.Height, w, h, r.Fit)
		}
		if w, h := l.Fill(r.Width, r.Height); [2]int{w, h} != r.Fill {
			t.Errorf("%s Fill(%d, %d) = %d, %d, want %v", r.Tier, r.Width, r.Height, w, h, r.Fill)
		}
		if n := vision.Tokens(r.Width, r.Height); n != r.Tokens {
			t.Errorf("Tokens(%d, %d) = %d, want %d", r.Width, r.Height, n, r.Tokens)
		}
	}
}

func TestRegions(t *testing.T) {
	type row struct {
		Original, View, Returned [2]int
		Tier, Error              string
		Region, Clamped, Crop    [4]int
	}
	// Built without image.Rect, which would swap corners that are the wrong way round.
	rect := func(r [4]int) image.Rectangle {
		return image.Rectangle{Min: image.Pt(r[0], r[1]), Max: image.Pt(r[2], r[3])}
	}
	for _, r := range readCases[row](t, "regions.json") {
		l := tier(t, r.Tier)
		frame := vision.NewFrame(image.Pt(r.Original[0], r.Original[1]), l)
		if frame.View != image.Pt(r.View[0], r.View[1]) {
			t.Errorf("view of %v = %v, want %v", r.Original, frame.View, r.View)
		}
		crop, err := frame.Crop(rect(r.Region))
		if r.Error != "" {
			if !errors.Is(err, vision.ErrEmptyRegion) {
				t.Errorf("Crop(%v) in %v = %v, %v, want ErrEmptyRegion", r.Region, r.View, crop, err)
			}
			continue
		}
		if err != nil || crop != rect(r.Crop) {
			t.Errorf("Crop(%v) of %v = %v, %v, want %v", r.Region, r.Original, crop, err, r.Crop)
			continue
		}
		if clamped, err := frame.Clamp(rect(r.Region)); err != nil || clamped != rect(r.Clamped) {
			t.Errorf("Clamp(%v) in %v = %v, %v, want %v", r.Region, r.View, clamped, err, r.Clamped)
		}
		if w, h := l.Fill(crop.Dx(), crop.Dy()); [2]int{w, h} != r.Returned {
			t.Errorf("Fill of crop %v = %d, %d, want %v", crop, w, h, r.Returned)
		}
	}
}

func anySize() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 4000), rapid.IntRange(1, 200_000))
}

func anyLimits() *rapid.Generator[vision.Limits] {
	return rapid.OneOf(
		rapid.SampledFrom([]vision.Limits{vision.Standard, vision.HighResolution, vision.HighResolution.CapEdge(2000)}),
		rapid.Custom(func(t *rapid.T) vision.Limits {
			return vision.Limits{MaxEdge: rapid.IntRange(28, 9000).Draw(t, "edge"), MaxTokens: rapid.IntRange(1, 20_000).Draw(t, "tokens")}
		}))
}

func TestFitIsTheLargestThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimits().Draw(t, "limits")
		width, height := anySize().Draw(t, "width"), anySize().Draw(t, "height")
		w, h := l.Fit(width, height)
		if !l.Fits(w, h) {
			t.Fatalf("Fit(%d, %d) = %d, %d does not fit", width, height, w, h)
		}
		if w2, h2 := l.Fit(w, h); w2 != w || h2 != h {
			t.Fatalf("Fit(%d, %d) = %d, %d", w, h, w2, h2)
		}
		if w == width && h == height {
			return
		}
		long, short := float64(width), float64(height)
		fitLong := w
		if height > width {
			long, short, fitLong = short, long, h
		}
		next := fitLong + 1
		nextShort := max(int(math.RoundToEven(float64(next)/(long/short))), 1)
		if l.Fits(next, nextShort) {
			t.Fatalf("Fit(%d, %d) = %d, %d, but %dx%d fits as well", width, height, w, h, next, nextShort)
		}
	})
}

func TestFillIsNeverSmallerThanFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimits().Draw(t, "limits")
		width, height := anySize().Draw(t, "width"), anySize().Draw(t, "height")
		w, h := l.Fit(width, height)
		fw, fh := l.Fill(width, height)
		if !l.Fits(fw, fh) || max(fw, fh) < max(w, h) {
			t.Fatalf("Fill(%d, %d) = %d, %d, Fit = %d, %d", width, height, fw, fh, w, h)
		}
	})
}

func TestCropStaysInsideTheOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimits().Draw(t, "limits")
		original := image.Pt(anySize().Draw(t, "width"), anySize().Draw(t, "height"))
		frame := vision.NewFrame(original, l)
		edge := rapid.OneOf(rapid.IntRange(-10, 3000), rapid.Int())
		region := image.Rectangle{
			Min: image.Pt(edge.Draw(t, "x1"), edge.Draw(t, "y1")),
			Max: image.Pt(edge.Draw(t, "x2"), edge.Draw(t, "y2")),
		}
		crop, err := frame.Crop(region)
		if err != nil {
			if !errors.Is(err, vision.ErrEmptyRegion) {
				t.Fatal(err)
			}
			if clamped, err := frame.Clamp(region); err == nil {
				t.Fatalf("Crop(%v) is empty, but Clamp gives %v", region, clamped)
			}
			return
		}
		if crop.Empty() || !crop.In(image.Rectangle{Max: original}) {
			t.Fatalf("Crop(%v) = %v, outside %v", region, crop, original)
		}
	})
}

// A whole view is a whole original, but for the rows or columns that a rounded aspect
// cannot reach.
func TestWholeViewIsTheWholeOriginal(t *testing.T) {
	for _, size := range []image.Point{{8000, 100}, {100, 8000}, {1, 1}, {3970, 2330}, {8000, 6000}, {1568, 1568}, {100_000, 1}} {
		frame := vision.NewFrame(size, vision.Standard)
		crop, err := frame.Crop(image.Rectangle{Max: frame.View})
		if err != nil || crop.Dx() != size.X || crop.Min != (image.Point{}) {
			t.Errorf("whole view of %v = %v, %v", size, crop, err)
		}
	}
}

func TestSizesThatDoNotExist(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {-5, 10}, {10, -5}, {math.MinInt, math.MinInt}, {math.MaxInt, math.MaxInt}, {math.MaxInt, 1}} {
		for _, l := range []vision.Limits{vision.Standard, vision.HighResolution, {}, {MaxEdge: -1, MaxTokens: -1}, {MaxEdge: math.MaxInt, MaxTokens: math.MaxInt}} {
			if w, h := l.Fit(size[0], size[1]); w < 1 || h < 1 {
				t.Errorf("Fit(%v) = %d, %d", size, w, h)
			}
			if w, h := l.Fill(size[0], size[1]); w < 1 || h < 1 {
				t.Errorf("Fill(%v) = %d, %d", size, w, h)
			}
		}
		if vision.Tokens(size[0], size[1]) < 0 {
			t.Errorf("Tokens(%v) is negative", size)
		}
		vision.NewFrame(image.Pt(size[0], size[1]), vision.Standard)
	}
	if _, err := (vision.Frame{}).Crop(image.Rect(0, 0, 1, 1)); !errors.Is(err, vision.ErrEmptyRegion) {
		t.Errorf("a frame of nothing: %v", err)
	}
}

func TestLimitsFor(t *testing.T) {
	for _, c := range []struct {
		model string
		want  vision.Limits
		known bool
	}{
		{"claude-opus-4-7", vision.HighResolution, true},
		{"claude-opus-4-8", vision.HighResolution, true},
		{"claude-opus-5-5", vision.HighResolution, true},
		{"claude-sonnet-5", vision.HighResolution, true},
		{"claude-fable-5-2", vision.HighResolution, true},
		{"claude-mythos-5-1", vision.HighResolution, true},
		{"claude-opus-4-6", vision.Standard, true},
		{"claude-opus-4-5-20251101", vision.Standard, true},
		{"claude-opus-4-5@20251101", vision.Standard, true},
		{"claude-sonnet-4-5-20250929", vision.Standard, true},
		{"claude-haiku-4-5", vision.Standard, true},
		{"claude-3-5-sonnet-latest", vision.Standard, true},
		{"us.anthropic.claude-opus-4-7-v1:0", vision.HighResolution, true},
		{"anthropic.claude-sonnet-4-5-20250929-v1:0", vision.Standard, true},
		{"Claude-Opus-4-7", vision.HighResolution, true},
		{"claude-haiku-5-5", vision.Standard, false},
		{"claude-mythos-preview", vision.Standard, false},
		{"claude-opus-9", vision.Standard, false},
		{"qwen3-vl", vision.Standard, false},
		{"", vision.Standard, false},
	} {
		if got, known := vision.LimitsFor(c.model); got != c.want || known != c.known {
			t.Errorf("LimitsFor(%q) = %v, %t, want %v, %t", c.model, got, known, c.want, c.known)
		}
	}
}

func TestFramePoints(t *testing.T) {
	for _, test := range []struct{ original, view, point, want image.Point }{
		{image.Pt(2560, 1600), image.Pt(1280, 800), image.Pt(0, 0), image.Pt(1, 1)},
		{image.Pt(2560, 1600), image.Pt(1280, 800), image.Pt(1279, 799), image.Pt(2559, 1599)},
		{image.Pt(1280, 800), image.Pt(1280, 800), image.Pt(17, 799), image.Pt(17, 799)},
		{image.Pt(2560, 1600), image.Pt(1373, 858), image.Pt(1372, 857), image.Pt(2559, 1599)},
		{image.Pt(2560, 1600), image.Pt(1373, 858), image.Pt(686, 429), image.Pt(1280, 800)},
		{image.Pt(3000, 1000), image.Pt(1000, 333), image.Pt(-1, -1), image.Pt(-2, -2)}, // outside stays outside
	} {
		if got := (vision.Frame{Original: test.original, View: test.view}).ToOriginal(test.point); got != test.want {
			t.Errorf("%v of a view of %v is %v of %v, want %v", test.point, test.view, got, test.original, test.want)
		}
	}
	if got := (vision.Frame{}).ToOriginal(image.Pt(3, 4)); got != (image.Point{}) {
		t.Errorf("a frame of nothing maps to %v", got)
	}
}

func TestFrameRegion(t *testing.T) {
	f := vision.Frame{Original: image.Pt(3, 5), View: image.Pt(2, 2)}
	for _, test := range []struct{ region, want image.Rectangle }{
		{image.Rect(0, 0, 2, 2), image.Rect(0, 0, 3, 5)},
		{image.Rect(0, 0, 1, 1), image.Rect(0, 0, 2, 2)}, // 1.5 and 2.5 both go to the even 2
		{image.Rect(1, 1, 2, 2), image.Rect(2, 2, 3, 5)},
		{image.Rect(-1, -1, 0, 0), image.Rect(-2, -2, 0, 0)},
	} {
		if got := f.ToOriginalRegion(test.region); got != test.want {
			t.Errorf("%v becomes %v, want %v", test.region, got, test.want)
		}
	}
}

// A point goes to the original and back without drift, and names the pixel at the centre
// of what it shows.
func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original := image.Pt(anySize().Draw(t, "width"), anySize().Draw(t, "height"))
		view := image.Pt(rapid.IntRange(1, original.X).Draw(t, "view width"), rapid.IntRange(1, original.Y).Draw(t, "view height"))
		f := vision.Frame{Original: original, View: view}
		p := image.Pt(rapid.IntRange(0, view.X-1).Draw(t, "x"), rapid.IntRange(0, view.Y-1).Draw(t, "y"))
		at := f.ToOriginal(p)
		if !at.In(image.Rectangle{Max: original}) {
			t.Fatalf("%v of the view is %v, outside the original", p, at)
		}
		if back := f.ToView(at); back != p {
			t.Fatalf("%v goes to %v and comes back as %v", p, at, back)
		}
		q := image.Pt(rapid.IntRange(0, original.X-1).Draw(t, "original x"), rapid.IntRange(0, original.Y-1).Draw(t, "original y"))
		if back := f.ToView(q); !back.In(image.Rectangle{Max: view}) {
			t.Fatalf("%v of the original is %v, outside the view", q, back)
		}
		shown := f.ToOriginalRegion(image.Rectangle{Min: p, Max: p.Add(image.Pt(1, 1))})
		if shown.Empty() || !shown.In(image.Rectangle{Max: original}) {
			t.Fatalf("the view's pixel %v shows %v of the original", p, shown)
		}
		if whole := f.ToOriginalRegion(image.Rectangle{Max: view}); whole != (image.Rectangle{Max: original}) {
			t.Fatalf("the whole view shows %v of the original", whole)
		}
	})
}
