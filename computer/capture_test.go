package computer_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
	"github.com/loupe-tools/loupe/vision"
)

// checkerboard paints squares of one pixel.
func checkerboard(screen *image.RGBA) {
	for y := range screen.Rect.Dy() {
		for x := range screen.Rect.Dx() {
			c := color.RGBA{0, 0, 0, 255}
			if (x+y)%2 == 0 {
				c = color.RGBA{255, 255, 255, 255}
			}
			screen.SetRGBA(x, y, c)
		}
	}
}

func noise(screen *image.RGBA) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range screen.Pix {
		screen.Pix[i] = uint8(r.Uint32())
		if i%4 == 3 {
			screen.Pix[i] = 255
		}
	}
}

func plain(c color.RGBA) func(*image.RGBA) {
	return func(screen *image.RGBA) { draw.Draw(screen, screen.Rect, image.NewUniform(c), image.Point{}, draw.Src) }
}

// A zoom is cut from the display at its own resolution, not from the screenshot: squares of
// one pixel, which are a plain grey on the screenshot, are told apart.
func TestZoomResolvesPixels(t *testing.T) {
	fake := computertest.NewFake(2560, 1600)
	fake.Paint(checkerboard)
	tools := toolset(t, fake, nil)
	view := pictureOf(t, one(t, tools, "screenshot", `{}`)).Bounds().Size()
	frame := vision.Frame{Original: image.Pt(2560, 1600), View: view}
	region := image.Rect(13, 7, 73, 47)
	crop := frame.ToOriginalRegion(region)
	r := one(t, tools, "zoom", fmt.Sprintf(`{"region":[%d,%d,%d,%d]}`, region.Min.X, region.Min.Y, region.Max.X, region.Max.Y))
	m := pictureOf(t, r)
	w, h := vision.Standard.Fill(crop.Dx(), crop.Dy())
	if m.Bounds().Size() != image.Pt(w, h) {
		t.Fatalf("the zoom has %v pixels, want %dx%d", m.Bounds().Size(), w, h)
	}
	for y := crop.Min.Y; y < crop.Max.Y; y++ {
		for x := crop.Min.X; x < crop.Max.X; x++ {
			at := image.Pt((2*(x-crop.Min.X)+1)*w/(2*crop.Dx()), (2*(y-crop.Min.Y)+1)*h/(2*crop.Dy()))
			grey := color.GrayModel.Convert(m.At(at.X, at.Y)).(color.Gray).Y
			if white := (x+y)%2 == 0; white != (grey > 127) || grey > 60 && grey < 195 {
				t.Fatalf("pixel (%d,%d) of the display is %d in the zoom", x, y, grey)
			}
		}
	}
	want := fmt.Sprintf("Region (13,7)-(73,47) of the screen, which you see at %dx%d pixels. It covers %dx%d pixels of the display and is shown here at %dx%d. Coordinates in further calls stay those of the full %dx%d screenshot.",
		view.X, view.Y, crop.Dx(), crop.Dy(), w, h, view.X, view.Y)
	if textOf(r) != want {
		t.Errorf("the text is %q, want %q", textOf(r), want)
	}
}

// The whole screenshot as a region is the whole display, to its last row and column.
func TestZoomReachesTheEdges(t *testing.T) {
	fake := computertest.NewFake(640, 401)
	var asked []image.Rectangle
	tools := toolset(t, capturing{fake, &asked}, &computer.Options{Limits: small()})
	view := pictureOf(t, one(t, tools, "screenshot", `{}`)).Bounds().Size()
	ok(t, tools, "zoom", fmt.Sprintf(`{"region":[0,0,%d,%d]}`, view.X, view.Y))
	ok(t, tools, "zoom", fmt.Sprintf(`{"region":[%d,%d,%d,%d]}`, view.X-1, view.Y-1, view.X, view.Y))
	if asked[1] != image.Rect(0, 0, 640, 401) || asked[2].Max != image.Pt(640, 401) {
		t.Errorf("the display was captured at %v", asked[1:])
	}
}

// capturing notes the regions that are captured.
type capturing struct {
	*computertest.Fake
	asked *[]image.Rectangle
}

func (c capturing) Capture(ctx context.Context, region image.Rectangle) (*image.RGBA, error) {
	*c.asked = append(*c.asked, region)
	return c.Fake.Capture(ctx, region)
}

// No image exceeds the model's limits, whatever the display's shape, and each is as large
// as they allow.
func TestImagesFit(t *testing.T) {
	for _, size := range []image.Point{{1280, 800}, {301, 500}, {2000, 30}, {100, 100}, {7, 5}, {1, 1}} {
		tools := toolset(t, computertest.NewFake(size.X, size.Y), &computer.Options{Limits: small()})
		shot := pictureOf(t, one(t, tools, "screenshot", `{}`)).Bounds().Size()
		if w, h := small().Fit(size.X, size.Y); shot != image.Pt(w, h) {
			t.Errorf("a screenshot of %v has %v pixels, want %dx%d", size, shot, w, h)
		}
		zoomed := pictureOf(t, one(t, tools, "zoom", fmt.Sprintf(`{"region":[0,0,%d,%d]}`, shot.X, (shot.Y+1)/2))).Bounds().Size()
		if !small().Fits(zoomed.X, zoomed.Y) {
			t.Errorf("a zoom of %v has %v pixels", size, zoomed)
		}
	}
	for _, test := range []struct {
		limits  vision.Limits
		maxEdge int
		want    vision.Limits
	}{
		{vision.Limits{}, 0, vision.Standard},
		{vision.HighResolution, 0, vision.HighResolution.CapEdge(2000)},
		{vision.HighResolution, 1000, vision.HighResolution.CapEdge(1000)},
		{vision.HighResolution, -1, vision.HighResolution},
	} {
		tools := toolset(t, computertest.NewFake(3000, 300), &computer.Options{Limits: test.limits, MaxEdge: test.maxEdge})
		shot := pictureOf(t, one(t, tools, "screenshot", `{}`)).Bounds().Size()
		if w, h := test.want.Fit(3000, 300); shot != image.Pt(w, h) {
			t.Errorf("under %+v and %d a screenshot has %v pixels, want %dx%d", test.limits, test.maxEdge, shot, w, h)
		}
	}
}

// An image that would be too heavy is made lighter: a screenshot keeps its size, since that
// is what coordinates are in; a zoom becomes smaller.
func TestHeavyImages(t *testing.T) {
	fake := computertest.NewFake(270, 180)
	fake.Paint(noise)
	const limit = 20_000
	tools := toolset(t, fake, &computer.Options{Limits: small(), MaxImageBytes: limit})
	shot := one(t, tools, "screenshot", `{}`)
	if size := pictureOf(t, shot).Bounds().Size(); size != image.Pt(270, 180) || !strings.Contains(textOf(shot), "looks soft here") {
		t.Errorf("a heavy screenshot has %v pixels and the text %q", size, textOf(shot))
	}
	zoomed := one(t, tools, "zoom", `{"region":[0,0,270,180]}`)
	if size := pictureOf(t, zoomed).Bounds().Size(); size.X >= 270 || !strings.Contains(textOf(zoomed), "That is less than the") {
		t.Errorf("a heavy zoom has %v pixels and the text %q", size, textOf(zoomed))
	}
	for _, r := range []computer.ToolResult{shot, zoomed} {
		for _, c := range r.Content {
			if c.Image != nil && (len(c.Image.Data)+2)/3*4 > limit {
				t.Errorf("an image of %d bytes, over the limit of %d after base64", len(c.Image.Data), limit)
			}
		}
	}
	tools = toolset(t, fake, &computer.Options{Limits: small(), MaxImageBytes: 100})
	for _, block := range [][2]string{{"screenshot", `{}`}, {"zoom", `{"region":[0,0,270,180]}`}} {
		if r := one(t, tools, block[0], block[1]); !r.IsError {
			t.Errorf("%s fits into 100 bytes", block[0])
		}
	}
}

func TestBlankScreen(t *testing.T) {
	black, blue := color.RGBA{0, 0, 0, 255}, color.RGBA{1, 2, 255, 255}
	window := func(r image.Rectangle) func(*image.RGBA) {
		return func(screen *image.RGBA) {
			plain(black)(screen)
			draw.Draw(screen, r, image.NewUniform(blue), image.Point{}, draw.Src)
		}
	}
	for _, test := range []struct {
		name    string
		paint   func(*image.RGBA)
		pointer string
		want    string
	}{
		{"pointer within", plain(blue), "[400,300]", "The whole screen is a single colour, #0102ff, apart from the pointer. It may be off, locked or still starting."},
		{"pointer in the corner", plain(blue), "[0,0]", "#0102ff, apart from the pointer."},
		{"pointer at the far corner", plain(blue), "[799,599]", "#0102ff, apart from the pointer."},
		{"window", window(image.Rect(350, 250, 450, 350)), "[400,300]", ""},
		{"small window elsewhere", window(image.Rect(10, 10, 30, 20)), "[400,300]", ""},
		{"one pixel elsewhere", window(image.Rect(790, 590, 791, 591)), "[400,300]", ""},
		{"halves", window(image.Rect(0, 0, 800, 300)), "[400,300]", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := computertest.NewFake(800, 600)
				fake.Paint(test.paint)
				tools := toolset(t, fake, nil)
				ok(t, tools, "mouse_move", `{"coordinate":`+test.pointer+`}`)
				captures := 0
				fake.Intercept(func(_ context.Context, method string) error {
					if method == "Capture" {
						captures++
					}
					return nil
				})
				r := one(t, tools, "screenshot", `{}`)
				pictureOf(t, r)
				if !strings.HasSuffix(textOf(r), test.want) && !strings.Contains(textOf(r), test.want) || test.want == "" && textOf(r) != "" {
					t.Errorf("the text is %q, want %q", textOf(r), test.want)
				}
				if want := map[bool]bool{true: captures > 2, false: captures == 1}[test.want != ""]; !want {
					t.Errorf("the screen was captured %d times", captures)
				}
			})
		})
	}
}

// A screen that is blank only at first is looked at again.
func TestBlankAtFirst(t *testing.T) { synctest.Test(t, testBlankAtFirst) }

func testBlankAtFirst(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	fake.Paint(plain(color.RGBA{0, 0, 0, 255}))
	captures := 0
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Capture" {
			if captures++; captures == 3 {
				fake.Paint(checkerboard)
			}
		}
		return nil
	})
	if r := one(t, toolset(t, fake, nil), "screenshot", `{}`); textOf(r) != "" || captures != 3 {
		t.Errorf("%d captures, the text %q", captures, textOf(r))
	}
	// A wait for a screen to come ends with the context.
	ctx, cancel := context.WithCancel(t.Context())
	fake.Paint(plain(color.RGBA{0, 0, 0, 255}))
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Pointer" {
			cancel()
		}
		return nil
	})
	if r := toolset(t, fake, nil).Run(ctx, turn("screenshot", `{}`)); !r[0].IsError {
		t.Error("the screenshot went on after its context ended")
	}
}

func TestCaptureFaults(t *testing.T) {
	for name, desktop := range map[string]computer.Desktop{
		"wrong size": shrinking{computertest.NewFake(80, 60)},
		"nothing":    nothing{computertest.NewFake(80, 60)},
	} {
		if r := one(t, toolset(t, desktop, nil), "screenshot", `{}`); !r.IsError || len(r.Content) != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// A screen that cannot be seen to settle is shown all the same.
	fake := computertest.NewFake(80, 60)
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Settle" {
			return errors.New("no such extension")
		}
		return nil
	})
	pictureOf(t, one(t, toolset(t, fake, nil), "screenshot", `{}`))
	// The size changes between the question and the capture.
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Capture" {
			fake.Intercept(nil)
			fake.Resize(50, 40)
		}
		return nil
	})
	if size := pictureOf(t, one(t, toolset(t, fake, nil), "screenshot", `{}`)).Bounds().Size(); size != image.Pt(50, 40) {
		t.Errorf("a screenshot of %v", size)
	}
}

type shrinking struct{ *computertest.Fake }

func (s shrinking) Capture(ctx context.Context, _ image.Rectangle) (*image.RGBA, error) {
	return s.Fake.Capture(ctx, image.Rect(0, 0, 5, 5))
}

type nothing struct{ *computertest.Fake }

func (nothing) Capture(context.Context, image.Rectangle) (*image.RGBA, error) { return nil, nil }

// A turn that does not end in a screenshot can have one.
func TestAppendScreenshot(t *testing.T) {
	fake := computertest.NewFake(800, 600)
	tools := toolset(t, fake, &computer.Options{Limits: small(), AppendScreenshot: true})
	shape := func(uses []computer.ToolUse) string {
		var kinds []string
		for _, r := range tools.Run(t.Context(), uses) {
			kind := ""
			for _, c := range r.Content {
				if c.Image != nil {
					kind += "i"
				} else {
					kind += "t"
				}
			}
			kinds = append(kinds, kind)
		}
		return strings.Join(kinds, " ")
	}
	for _, test := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"wait", `{"duration":0}`, "left_click", `{}`}, "t ti"},
		{[]string{"left_click", `{}`, "screenshot", `{}`}, "t i"},
		{[]string{"screenshot", `{}`, "left_click", `{}`}, "i ti"},
		{[]string{"zoom", `{"region":[0,0,9,9]}`}, "titi"},
		{[]string{"left_click", `{}`, "wait", `{"duration":-1}`}, "t t"},
		{[]string{"wait", `{"duration":-1}`, "left_click", `{}`}, "t t"},
		{nil, ""},
	} {
		if got := shape(turn(test.pairs...)); got != test.want {
			t.Errorf("%v is answered with %q, want %q", test.pairs, got, test.want)
		}
	}
	// A block of another tool at the end changes nothing.
	if got := shape(append(turn("left_click", `{}`), computer.ToolUse{ID: "x", Name: "bash"})); got != "ti" {
		t.Errorf("before a block of another tool: %q", got)
	}
	// It counts as a screenshot that the model has seen.
	fake.Resize(400, 300)
	if r := one(t, tools, "left_click", `{"coordinate":[1,1]}`); !r.IsError {
		t.Error("a place on an appended screenshot of another size is taken")
	}
	// When it cannot be taken, the action has been done all the same.
	fake.Intercept(func(_ context.Context, method string) error {
		if method == "Capture" {
			panic("out of memory")
		}
		return nil
	})
	r := one(t, tools, "left_click", `{}`)
	if want := "Clicked at the pointer.\nThis was done, but no screenshot could be taken after it."; r.IsError || textOf(r) != want {
		t.Errorf("%q, want %q", textOf(r), want)
	}
	// What is held is let go then, and the model is told; but not for want of room.
	r = one(t, tools, "left_mouse_down", `{}`)
	if _, held := fake.Held(); !strings.Contains(textOf(r), "has been released") || len(held) != 0 {
		t.Errorf("%q, and %v is held", textOf(r), held)
	}
	fake.Intercept(nil)
	call := anthropic.BetaToolUseBlock{ID: "toolu_1", Name: "left_mouse_down", ToolsetName: computer.ToolsetName, Input: map[string]any{}}
	answers := tools.Answer(t.Context(), []anthropic.BetaToolUseBlock{call}, vision.Allowance{})
	text := answers[0].Content[1].OfText.Text
	if _, held := fake.Held(); !strings.Contains(text, "no room") || len(held) != 1 {
		t.Errorf("%q, and %v is held", text, held)
	}
	one(t, tools, "left_mouse_up", `{}`)
	off := toolset(t, fake, &computer.Options{AppendScreenshot: true, Disabled: []string{"screenshot"}})
	if r := one(t, off, "left_click", `{}`); len(r.Content) != 1 {
		t.Error("a screenshot although they are switched off")
	}
}
