package zoom_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paint makes a picture of the given size, pixel by pixel.
func paint(width, height int, at func(x, y int) color.RGBA) *picture.Picture {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		row := m.Pix[y*m.Stride : y*m.Stride+4*width]
		for x := range width {
			c := at(x, y)
			row[4*x], row[4*x+1], row[4*x+2], row[4*x+3] = c.R, c.G, c.B, c.A
		}
	}
	return &picture.Picture{Image: m}
}

func plain(width, height int) *picture.Picture {
	return paint(width, height, func(int, int) color.RGBA { return color.RGBA{200, 220, 240, 255} })
}

func noise(width, height int) *picture.Picture {
	r := rand.New(rand.NewPCG(1, 2))
	return paint(width, height, func(int, int) color.RGBA {
		n := r.Uint32()
		return color.RGBA{uint8(n), uint8(n >> 8), uint8(n >> 16), 255}
	})
}

func call(input string) anthropic.BetaToolUseBlock {
	var decoded any
	if err := json.Unmarshal([]byte(input), &decoded); err != nil {
		panic(err)
	}
	return anthropic.BetaToolUseBlock{ID: "toolu_1", Name: "zoom", Input: decoded}
}

var plenty = vision.Allowance{Images: 100}

func answerOne(t *testing.T, tool *zoom.Tool, input string, room vision.Allowance) (text string, img image.Image, isError bool) {
	t.Helper()
	results := tool.Answer(t.Context(), []anthropic.BetaToolUseBlock{call(input)}, room)
	if len(results) != 1 || results[0].ToolUseID != "toolu_1" || len(results[0].Content) == 0 || results[0].Content[0].OfText == nil {
		t.Fatalf("got %+v", results)
	}
	result := results[0]
	text = result.Content[0].OfText.Text
	if result.IsError.Value {
		if len(result.Content) != 1 {
			t.Errorf("an error result holds more than text")
		}
		return text, nil, true
	}
	if len(result.Content) != 2 || result.Content[1].OfImage == nil {
		t.Fatalf("got %+v", result.Content)
	}
	return text, decode(t, result.Content[1].OfImage), false
}

func decode(t *testing.T, block *anthropic.BetaImageBlockParam) image.Image {
	t.Helper()
	if block.Transformations.OversizedImage != anthropic.BetaImageTransformationsParamOversizedImageError {
		t.Error("the API may scale this image down without a word")
	}
	source := block.Source.OfBase64
	data, err := base64.StdEncoding.DecodeString(source.Data)
	if err != nil {
		t.Fatal(err)
	}
	read := png.Decode
	if source.MediaType == "image/jpeg" {
		read = jpeg.Decode
	}
	img, err := read(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", source.MediaType, err)
	}
	return img
}

// The point of the whole tool: detail that is gone from the view is there in the zoom.
func TestCheckerboardIsGreyInTheViewAndSharpInTheZoom(t *testing.T) {
	original := checkerboard(8000, 6000)
	tool, err := zoom.New(vision.Standard, original)
	if err != nil {
		t.Fatal(err)
	}
	view := decode(t, tool.Present()[1].OfImage)
	if view.Bounds().Size() != image.Pt(1270, 952) {
		t.Errorf("the view is %v", view.Bounds().Size())
	}
	for y := 300; y < 350; y++ {
		for x := 400; x < 450; x++ {
			if g := color.GrayModel.Convert(view.At(x, y)).(color.Gray).Y; g < 110 || g > 145 {
				t.Fatalf("the view is not grey at (%d,%d): %d", x, y, g)
			}
		}
	}
	// A region of 20 by 15 view pixels is some 126 by 95 squares of the board.
	_, img, isError := answerOne(t, tool, `{"x1":600,"y1":450,"x2":620,"y2":465}`, plenty)
	if isError {
		t.Fatal("no zoom")
	}
	checkSquares(t, img, tool.Frame(0), image.Rect(600, 450, 620, 465), vision.Standard)

	// The same at the other tier, where the view is another.
	frame := vision.NewFrame(image.Pt(8000, 6000), vision.HighResolution)
	region := image.Rect(1100, 800, 1120, 815)
	magnified, _, err := zoom.Cut(original.Image, frame, region, vision.HighResolution)
	if err != nil {
		t.Fatal(err)
	}
	checkSquares(t, magnified, frame, region, vision.HighResolution)
}

// checkerboard makes a board of squares of one pixel, white at the top left.
func checkerboard(width, height int) *picture.Picture {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range m.Pix[:2*m.Stride] {
		x, y := i%m.Stride/4, i/m.Stride
		if (x+y)%2 == 0 || i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	for y := 2; y < height; y++ {
		copy(m.Pix[y*m.Stride:(y+1)*m.Stride], m.Pix[y%2*m.Stride:])
	}
	return &picture.Picture{Image: m}
}

// checkSquares looks at the middle of every square of the board in a zoom.
func checkSquares(t *testing.T, img image.Image, frame vision.Frame, region image.Rectangle, limits vision.Limits) {
	t.Helper()
	crop, err := frame.Crop(region)
	if err != nil {
		t.Fatal(err)
	}
	size := img.Bounds().Size()
	if w, h := limits.Fill(crop.Dx(), crop.Dy()); size != image.Pt(w, h) {
		t.Errorf("the zoom is %v, the budget has room for %dx%d", size, w, h)
	}
	for cy := 2; cy < crop.Dy()-2; cy++ {
		for cx := 2; cx < crop.Dx()-2; cx++ {
			px := (2*cx + 1) * size.X / (2 * crop.Dx())
			py := (2*cy + 1) * size.Y / (2 * crop.Dy())
			g := color.GrayModel.Convert(img.At(px, py)).(color.Gray).Y
			white := (crop.Min.X+cx+crop.Min.Y+cy)%2 == 0
			if white && g < 200 || !white && g > 55 {
				t.Fatalf("square (%d,%d) of the zoom is %d, white is %t", cx, cy, g, white)
			}
		}
	}
}

// Four quarters of four colours: a zoom into each shows that colour and no other, so the
// mapping of coordinates is right.
func TestZoomShowsTheRegionAskedFor(t *testing.T) {
	colours := [4]color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 0, 255}}
	original := paint(1801, 1199, func(x, y int) color.RGBA {
		i := 0
		if x >= 1801/2 {
			i++
		}
		if y >= 1199/2 {
			i += 2
		}
		return colours[i]
	})
	tool, err := zoom.New(vision.Standard, plain(50, 50), original)
	if err != nil {
		t.Fatal(err)
	}
	view := tool.Frame(1).View
	for i, want := range colours {
		x, y := (i%2)*(view.X/2+2), (i/2)*(view.Y/2+2)
		_, img, isError := answerOne(t, tool, fmt.Sprintf(`{"x1":%d,"y1":%d,"x2":%d,"y2":%d,"image_index":1}`, x, y, x+view.X/2-3, y+view.Y/2-3), plenty)
		if isError {
			t.Fatal("no zoom")
		}
		b := img.Bounds()
		for _, p := range []image.Point{b.Min, b.Max.Sub(image.Pt(1, 1)), b.Max.Div(2)} {
			r, g, bl, _ := img.At(p.X, p.Y).RGBA()
			if abs(int(r>>8)-int(want.R)) > 8 || abs(int(g>>8)-int(want.G)) > 8 || abs(int(bl>>8)-int(want.B)) > 8 {
				t.Errorf("quarter %d at %v: got %d %d %d, want %v", i, p, r>>8, g>>8, bl>>8, want)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

func TestText(t *testing.T) {
	tool, err := zoom.New(vision.Standard, plain(2000, 1500))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := answerOne(t, tool, `{"x1":-5,"y1":40,"x2":300,"y2":120.0}`, plenty)
	want := "Region (0,40)-(300,120) of image 0, which you see at 1270x952 pixels. It covers 472x126 pixels of the original and is shown here at 1568x419. " +
		"Coordinates in further calls stay those of the full 1270x952 image."
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestBadArguments(t *testing.T) {
	tool, err := zoom.New(vision.Standard, plain(100, 80), plain(60, 50))
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"x1":1,"y1":2,"x2":3}`:           "y2 is missing",
		`{"x1":1,"y1":null,"x2":3,"y2":4}`: "y1 is missing",
		`{}`:                               "x1 is missing",
		`null`:                             "must be an object",
		`[1,2,3,4]`:                        "must be an object",
		`"x1"`:                             "must be an object",
		`{"x1":"1","y1":2,"x2":3,"y2":4}`:  "x1 must be an integer, not a string",
		`{"x1":1,"y1":2.5,"x2":3,"y2":4}`:  "y1 must be an integer, not 2.5",
		`{"x1":1,"y1":2,"x2":true,"y2":4}`: "x2 must be an integer, not true or false",
		`{"x1":1,"y1":2,"x2":[3],"y2":4}`:  "x2 must be an integer, not a list",
		`{"x1":1,"y1":2,"x2":3,"y2":{}}`:   "y2 must be an integer, not an object",
		`{"x1":1,"y1":2,"x2":3,"y2":4,"image_index":2}`:     "image_index 2 is out of range: there are images 0 to 1",
		`{"x1":1,"y1":2,"x2":3,"y2":4,"image_index":-1}`:    "image_index -1 is out of range",
		`{"x1":1,"y1":2,"x2":3,"y2":4,"image_index":"0"}`:   "image_index must be an integer",
		`{"x1":3,"y1":2,"x2":1,"y2":4}`:                     "is empty in this image of 100x80 pixels",
		`{"x1":1,"y1":2,"x2":1,"y2":4}`:                     "is empty",
		`{"x1":100,"y1":2,"x2":200,"y2":4}`:                 "is empty",
		`{"x1":-9,"y1":2,"x2":0,"y2":4}`:                    "is empty",
		`{"x1":70,"y1":2,"x2":90,"y2":4,"image_index":1}`:   "is empty in this image of 60x50 pixels",
		`{"x1":-1e300,"y1":-1e300,"x2":-1e299,"y2":-1e299}`: "is empty",
	} {
		text, _, isError := answerOne(t, tool, input, plenty)
		if !isError || !strings.Contains(text, want) || strings.Contains(text, "\n") {
			t.Errorf("%s: got %q, want %q in it", input, text, want)
		}
	}
	for _, input := range []string{
		`{"x1":0,"y1":0,"x2":1e300,"y2":1e300}`,
		`{"x1":-1e300,"y1":0,"x2":10,"y2":10,"image_index":null}`,
		`{"x1":0,"y1":0,"x2":1,"y2":1,"unknown":"extra"}`,
	} {
		if text, _, isError := answerOne(t, tool, input, plenty); isError {
			t.Errorf("%s: refused: %s", input, text)
		}
	}
}

// The reference shows black rows at the edge of a thin image, where the factor of the
// widths leads out of it.
func TestThinImageHasNoRowsOfNothing(t *testing.T) {
	tool, err := zoom.New(vision.Standard, plain(8000, 100))
	if err != nil {
		t.Fatal(err)
	}
	view := tool.Frame(0).View
	_, img, isError := answerOne(t, tool, fmt.Sprintf(`{"x1":0,"y1":0,"x2":%d,"y2":%d}`, view.X, view.Y), plenty)
	if isError {
		t.Fatal("no zoom")
	}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		if r, _, _, _ := img.At(b.Max.X/2, y).RGBA(); r>>8 < 190 {
			t.Fatalf("row %d of %d is dark: %d", y, b.Max.Y, r>>8)
		}
	}
}

func TestZoomStaysWithinTheAllowance(t *testing.T) {
	request := vision.DefaultRequestLimits()
	request.MaxImageBytes = 300 << 10
	tool, err := zoom.NewWithOptions(&zoom.Options{Limits: vision.HighResolution, Request: request}, noise(1200, 900))
	if err != nil {
		t.Fatal(err)
	}
	if got := tool.Encoded(0); got.Base64Len() > request.MaxImageBytes {
		t.Errorf("the view has %d bytes", got.Base64Len())
	} else if got.Size != tool.Frame(0).View {
		t.Errorf("the view is %v, the frame says %v", got.Size, tool.Frame(0).View)
	}
	calls := make([]anthropic.BetaToolUseBlock, 5)
	for i := range calls {
		calls[i] = call(`{"x1":0,"y1":0,"x2":200,"y2":150}`)
		calls[i].ID = fmt.Sprint("toolu_", i)
	}
	room := vision.Allowance{Images: 3, MaxEdge: 1000, MaxBytes: 400 << 10}
	results := tool.Answer(t.Context(), calls, room)
	total := 0
	for i, result := range results {
		if result.ToolUseID != calls[i].ID {
			t.Errorf("result %d answers %s", i, result.ToolUseID)
		}
		if i >= room.Images {
			if !result.IsError.Value || !strings.Contains(result.Content[0].OfText.Text, "next turn") {
				t.Errorf("result %d is no error", i)
			}
			continue
		}
		if result.IsError.Value {
			t.Fatalf("result %d: %s", i, result.Content[0].OfText.Text)
		}
		size := decode(t, result.Content[1].OfImage).Bounds().Size()
		if max(size.X, size.Y) > room.MaxEdge {
			t.Errorf("result %d is %v", i, size)
		}
		if text := result.Content[0].OfText.Text; !strings.Contains(text, fmt.Sprintf("shown here at %dx%d. That is less than", size.X, size.Y)) {
			t.Errorf("result %d does not say that it is smaller: %s", i, text)
		}
		total += len(result.Content[1].OfImage.Source.OfBase64.Data)
	}
	if total > room.MaxBytes {
		t.Errorf("%d bytes in all, %d allowed", total, room.MaxBytes)
	}
}

func TestStoppedRunGetsErrors(t *testing.T) {
	tool, err := zoom.New(vision.Standard, plain(100, 80))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results := tool.Answer(ctx, []anthropic.BetaToolUseBlock{call(`{"x1":0,"y1":0,"x2":10,"y2":10}`)}, plenty)
	if len(results) != 1 || !results[0].IsError.Value {
		t.Errorf("got %+v", results)
	}
}

func TestPresent(t *testing.T) {
	first, second := plain(3000, 2000), plain(64, 48)
	second.Notes = []string{"the first of 12 frames"}
	tool, err := zoom.New(vision.Standard, first, second)
	if err != nil {
		t.Fatal(err)
	}
	blocks := tool.Present()
	if len(blocks) != 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, want := range map[int]string{
		0: "Image 0 (1344x896 pixels):",
		2: "Image 1 (64x48 pixels; the first of 12 frames):",
	} {
		if blocks[i].OfText == nil || blocks[i].OfText.Text != want {
			t.Errorf("block %d: got %+v, want %q", i, blocks[i].OfText, want)
		}
	}
	if !strings.Contains(blocks[4].OfText.Text, "absolute pixels") || !strings.Contains(blocks[4].OfText.Text, "zoom tool") {
		t.Errorf("got %q", blocks[4].OfText.Text)
	}
	if got := decode(t, blocks[1].OfImage).Bounds().Size(); got != image.Pt(1344, 896) {
		t.Errorf("the first view is %v", got)
	}
	if got := decode(t, blocks[3].OfImage).Bounds().Size(); got != image.Pt(64, 48) {
		t.Errorf("the second view is %v", got)
	}

	only, err := zoom.NewWithOptions(&zoom.Options{ViewOnly: true}, first)
	if err != nil {
		t.Fatal(err)
	}
	blocks = only.Present()
	if text := blocks[len(blocks)-1].OfText.Text; strings.Contains(text, "zoom") || len(only.Declare()) != 0 {
		t.Errorf("a tool to look at only offers a zoom: %q", text)
	}
}

func TestManyPicturesShareARequest(t *testing.T) {
	var pictures []*picture.Picture
	one := noise(2200, 40)
	for range 25 {
		pictures = append(pictures, one)
	}
	request := vision.DefaultRequestLimits()
	request.MaxBodyBytes = 4 << 20
	tool, err := zoom.NewWithOptions(&zoom.Options{Limits: vision.HighResolution, Request: request}, pictures...)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i := range tool.Len() {
		total += tool.Encoded(i).Base64Len()
		if v := tool.Frame(i).View; v.X > request.ManyImagesMaxEdge {
			t.Errorf("view %d is %v", i, v)
		}
	}
	if total > request.MaxBodyBytes/2 {
		t.Errorf("the views take %d bytes", total)
	}
	if _, err := zoom.New(vision.Standard); err == nil {
		t.Error("a tool over nothing")
	}
	if _, err := zoom.New(vision.Standard, make([]*picture.Picture, 101)...); err == nil {
		t.Error("a tool over more images than a request may carry")
	}
}

func TestDeclareIsStable(t *testing.T) {
	tool, err := zoom.New(vision.Standard, plain(10, 10))
	if err != nil {
		t.Fatal(err)
	}
	first, err := json.Marshal(tool.Declare())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, _ := json.Marshal(tool.Declare())
		if !bytes.Equal(first, again) {
			t.Fatalf("%s\n%s", first, again)
		}
	}
	for _, want := range []string{`"name":"zoom"`, `"required":["x1","y1","x2","y2"]`, `"image_index"`, `"type":"integer"`} {
		if !bytes.Contains(first, []byte(want)) {
			t.Errorf("no %s in %s", want, first)
		}
	}
}

// Whatever a model sends as arguments, it gets one result, and an image only where there
// is something to show.
func FuzzArguments(f *testing.F) {
	tool, err := zoom.New(vision.Limits{MaxEdge: 112, MaxTokens: 16}, plain(40, 30), plain(3, 200))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"x1":1,"y1":2,"x2":30,"y2":20}`, `{"x1":"1"}`, `{"x1":1e999,"y1":-0,"x2":1.0,"y2":2}`, `[]`, `null`, `{"image_index":1,"x1":0,"y1":0,"x2":3,"y2":200}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		results := tool.Answer(context.Background(), []anthropic.BetaToolUseBlock{{ID: "a", Name: "zoom", Input: json.RawMessage(input)}}, plenty)
		if len(results) != 1 || results[0].ToolUseID != "a" || len(results[0].Content) == 0 {
			t.Fatalf("got %+v", results)
		}
		if results[0].IsError.Value != (len(results[0].Content) == 1) {
			t.Fatalf("got %+v", results[0])
		}
		if !results[0].IsError.Value {
			size := decode(t, results[0].Content[1].OfImage).Bounds().Size()
			if size.X > 112 || size.Y > 112 || vision.Tokens(size.X, size.Y) > 16 {
				t.Fatalf("an image of %v", size)
			}
		}
	})
}
