package x11

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/internal/desktest"
)

// Both ways of transfer.
var ways = []struct {
	name    string
	options Options
}{
	{"shared memory", Options{}},
	{"socket", Options{NoSharedMemory: true}},
}

// TestCaptureDepths puts pixels of random values on displays of every depth, and expects the
// colours that the values stand for.
func TestCaptureDepths(t *testing.T) {
	for _, depth := range []int{8, 15, 16, 24, 30} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			// An odd width makes rows end in padding.
			const width, height = 333, 97
			s := desktest.Xvfb(t, desktest.Options{Width: width, Height: height, Depth: depth})
			p := newPainter(t, s)
			format, known := rootFormat(p.setup, p.screen)
			if !known {
				t.Fatal("the format of the root window is not known")
			}
			if depth == 8 {
				// Colours for the display's palette to tell apart.
				for i := range 100 {
					_, err := xproto.AllocColor(p.x, p.screen.DefaultColormap, uint16(i*650), uint16(65535-i*650), uint16(i*i)).Reply()
					if err != nil {
						break // the palette is full
					}
				}
			}
			values := make([]uint32, width*height)
			for i := range values {
				values[i] = rand.Uint32() & (1<<depth - 1)
			}
			data := make([]byte, height*format.stride(width))
			for y := range height {
				row := data[y*format.stride(width):]
				for x := range width {
					switch format.bits {
					case 8:
						row[x] = byte(values[y*width+x])
					case 16:
						binary.LittleEndian.PutUint16(row[2*x:], uint16(values[y*width+x]))
					case 32:
						binary.LittleEndian.PutUint32(row[4*x:], values[y*width+x])
					default:
						t.Fatalf("%d bits a pixel", format.bits)
					}
				}
			}
			p.put(image.Point{}, image.Pt(width, height), data)

			want := func(v uint32) color.RGBA {
				channel := func(mask uint32) uint8 {
					value := float64(v & mask >> bits.TrailingZeros32(mask))
					most := float64(mask >> bits.TrailingZeros32(mask))
					return uint8(math.Round(value * 255 / most))
				}
				return color.RGBA{channel(format.red), channel(format.green), channel(format.blue), 255}
			}
			if depth == 8 {
				all := make([]uint32, 256)
				for i := range all {
					all[i] = uint32(i)
				}
				reply, err := xproto.QueryColors(p.x, p.screen.DefaultColormap, all).Reply()
				if err != nil {
					t.Fatal(err)
				}
				want = func(v uint32) color.RGBA {
					e := reply.Colors[v]
					return color.RGBA{uint8(e.Red >> 8), uint8(e.Green >> 8), uint8(e.Blue >> 8), 255}
				}
			}
			for _, way := range ways {
				t.Run(way.name, func(t *testing.T) {
					d := openDisplay(t, s, &way.options)
					d.capturer.cursor = false
					for _, region := range []image.Rectangle{
						image.Rect(0, 0, width, height), image.Rect(0, 0, 1, 1),
						image.Rect(width-1, height-1, width, height), image.Rect(17, 5, 170, 61),
					} {
						wantPixels(t, capture(t, d, region), func(x, y int) color.RGBA {
							return want(values[(y+region.Min.Y)*width+x+region.Min.X])
						})
					}
					if used := d.capturer.memory != nil; used == way.options.NoSharedMemory {
						t.Errorf("shared memory is used: %v", used)
					}
				})
			}
		})
	}
}

// TestDecode reads layouts that few servers have.
func TestDecode(t *testing.T) {
	mono := []xproto.Rgb{{Red: 0xffff, Green: 0xffff, Blue: 0xffff}, {}}
	greys := make([]xproto.Rgb, 16)
	for i := range greys {
		greys[i] = xproto.Rgb{Red: uint16(i) << 12, Green: uint16(i) << 12, Blue: uint16(i) << 12}
	}
	grey := func(v ...uint8) (out []color.RGBA) {
		for _, v := range v {
			out = append(out, color.RGBA{v, v, v, 255})
		}
		return out
	}
	ramp := make([]xproto.Rgb, 256)
	for i := range ramp {
		ramp[i] = xproto.Rgb{Red: uint16(i) << 8, Green: uint16(255-i) << 8, Blue: 0x1234}
	}
	const w, b = 255, 0
	tests := []struct {
		name    string
		format  pixelFormat
		palette []xproto.Rgb
		data    []byte
		want    []color.RGBA
	}{
		{
			"1 bit, most significant first", pixelFormat{bits: 1, pad: 8, unit: 8, leftmost: true, bigEndian: true, depth: 1},
			mono, []byte{0b01100101, 0b10000000}, grey(w, b, b, w, w, b, w, b, b),
		},
		{
			"1 bit, least significant first", pixelFormat{bits: 1, pad: 32, unit: 32, depth: 1},
			mono, []byte{0b01100101, 0b1, 0, 0}, grey(b, w, b, w, w, b, b, w, b),
		},
		{
			"1 bit, units of 16 with the orders mixed", pixelFormat{bits: 1, pad: 16, unit: 16, leftmost: true, depth: 1},
			mono, []byte{0b10000000, 0b01100101}, grey(w, b, b, w, w, b, w, b, b),
		},
		{
			"1 bit, a row that ends within a unit", pixelFormat{bits: 1, pad: 8, unit: 32, depth: 1},
			mono, []byte{0b101, 0}, grey(b, w, b, w, w, w, w, w, w),
		},
		{
			"4 bits, low nibble first", pixelFormat{bits: 4, pad: 8, depth: 4},
			greys, []byte{0xa1, 0x0f}, grey(0x10, 0xa0, 0xf0),
		},
		{
			"4 bits, high nibble first", pixelFormat{bits: 4, pad: 8, bigEndian: true, depth: 4},
			greys, []byte{0xa1, 0xf0}, grey(0xa0, 0x10, 0xf0),
		},
		{
			"565, most significant byte first",
			pixelFormat{bits: 16, pad: 32, bigEndian: true, class: xproto.VisualClassTrueColor, depth: 16, red: 0xf800, green: 0x7e0, blue: 0x1f},
			nil, []byte{0x84, 0x10, 0xff, 0xff},
			[]color.RGBA{{132, 130, 132, 255}, {255, 255, 255, 255}}, // 16/31, 32/63, 16/31
		},
		{
			"24 bits packed", pixelFormat{bits: 24, pad: 32, class: xproto.VisualClassTrueColor, depth: 24, red: 0xff0000, green: 0xff00, blue: 0xff},
			nil, []byte{3, 2, 1, 6, 5, 4, 0, 0}, []color.RGBA{{1, 2, 3, 255}, {4, 5, 6, 255}},
		},
		{
			"24 bits packed, most significant byte first",
			pixelFormat{bits: 24, pad: 32, bigEndian: true, class: xproto.VisualClassTrueColor, depth: 24, red: 0xff0000, green: 0xff00, blue: 0xff},
			nil, []byte{1, 2, 3, 4, 5, 6, 0, 0}, []color.RGBA{{1, 2, 3, 255}, {4, 5, 6, 255}},
		},
		{
			"32 bits, most significant byte first",
			pixelFormat{bits: 32, pad: 32, bigEndian: true, class: xproto.VisualClassTrueColor, depth: 24, red: 0xff0000, green: 0xff00, blue: 0xff},
			nil, []byte{0, 1, 2, 3, 9, 4, 5, 6}, []color.RGBA{{1, 2, 3, 255}, {4, 5, 6, 255}},
		},
		{
			"32 bits, blue first", pixelFormat{bits: 32, pad: 32, class: xproto.VisualClassTrueColor, depth: 24, red: 0xff, green: 0xff00, blue: 0xff0000},
			nil, []byte{1, 2, 3, 0}, []color.RGBA{{1, 2, 3, 255}},
		},
		{
			"DirectColor", pixelFormat{bits: 32, pad: 32, class: xproto.VisualClassDirectColor, depth: 24, red: 0xff0000, green: 0xff00, blue: 0xff},
			ramp, []byte{7, 20, 200, 0}, []color.RGBA{{200, 235, 0x12, 255}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.format.valid() {
				t.Fatal("the format counts as not valid")
			}
			c := tt.format.trueColours()
			if tt.palette != nil {
				c = tt.format.paletteColours(tt.palette)
			}
			m := image.NewRGBA(image.Rect(0, 0, len(tt.want), 1))
			tt.format.decode(m, 0, tt.data, c)
			wantPixels(t, m, func(x, _ int) color.RGBA { return tt.want[x] })
		})
	}
}

// FuzzDecode looks for formats and data that make the reader fail.
func FuzzDecode(f *testing.F) {
	f.Add(byte(32), byte(32), false, byte(32), false, byte(4), byte(24), uint32(0xff0000), uint32(0xff00), uint32(0xff), uint8(7), []byte("0123456789abcdef0123456789ab"))
	f.Add(byte(1), byte(8), true, byte(32), true, byte(0), byte(1), uint32(0), uint32(0), uint32(0), uint8(9), []byte("0123"))
	f.Fuzz(func(t *testing.T, bits, pad byte, bigEndian bool, unit byte, leftmost bool, class, depth byte, red, green, blue uint32, width uint8, data []byte) {
		format := pixelFormat{int(bits), int(pad), bigEndian, int(unit), leftmost, class, int(depth), red, green, blue}
		if !format.valid() || width == 0 {
			return
		}
		c := format.trueColours()
		if class != xproto.VisualClassTrueColor {
			c = format.paletteColours(make([]xproto.Rgb, format.paletteSize()/2))
		}
		m := image.NewRGBA(image.Rect(0, 0, int(width), 3))
		format.decode(m, 0, data, c)
		rows := min(3, len(data)/format.stride(int(width)))
		for y := range rows {
			for x := range int(width) {
				if m.RGBAAt(x, y).A != 255 {
					t.Fatalf("pixel (%d, %d) of %d rows is not opaque", x, y, rows)
				}
			}
		}
	})
}

// TestCaptureBitmap reads a drawable with one bit a pixel from a real server.
func TestCaptureBitmap(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
	p := newPainter(t, s)
	screen := *p.screen
	screen.RootDepth = 1
	screen.AllowedDepths = append(slices.Clone(screen.AllowedDepths), xproto.DepthInfo{
		Depth: 1, Visuals: []xproto.VisualInfo{{VisualId: 1, Class: xproto.VisualClassStaticGray}},
	})
	screen.RootVisual = 1
	format, known := rootFormat(p.setup, &screen)
	if !known {
		t.Fatal("one bit a pixel is not known")
	}
	const width, height = 45, 3
	pixmap, _ := xproto.NewPixmapId(p.x)
	gc, _ := xproto.NewGcontextId(p.x)
	xproto.CreatePixmap(p.x, 1, pixmap, xproto.Drawable(p.root), width, height)
	xproto.CreateGC(p.x, gc, xproto.Drawable(pixmap), xproto.GcForeground, []uint32{0})
	xproto.PolyFillRectangle(p.x, xproto.Drawable(pixmap), gc, []xproto.Rectangle{{Width: width, Height: height}})
	xproto.ChangeGC(p.x, gc, xproto.GcForeground, []uint32{1})
	set := func(x, y int) bool { return (x*x+y)%3 == 0 }
	var points []xproto.Point
	for y := range height {
		for x := range width {
			if set(x, y) {
				points = append(points, xproto.Point{X: int16(x), Y: int16(y)})
			}
		}
	}
	xproto.PolyPoint(p.x, xproto.CoordModeOrigin, xproto.Drawable(pixmap), gc, points)
	reply, err := xproto.GetImage(p.x, xproto.ImageFormatZPixmap, xproto.Drawable(pixmap), 0, 0, width, height, allPlanes).Reply()
	if err != nil {
		t.Fatal(err)
	}
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	format.decode(m, 0, reply.Data, format.paletteColours([]xproto.Rgb{{Red: 0xffff, Green: 0xffff, Blue: 0xffff}, {}}))
	wantPixels(t, m, func(x, y int) color.RGBA {
		if set(x, y) {
			return color.RGBA{0, 0, 0, 255}
		}
		return color.RGBA{255, 255, 255, 255}
	})
}

// TestCaptureStrips captures a display whose pixels take several replies.
func TestCaptureStrips(t *testing.T) {
	const width, height = 2200, 2100 // 18 MB
	s := desktest.Xvfb(t, desktest.Options{Width: width, Height: height})
	p := newPainter(t, s)
	for y := 0; y < height; y += 10 {
		p.fill(image.Rect(0, y, width, y+10), uint32(y*7))
	}
	d := openDisplay(t, s, &Options{NoSharedMemory: true})
	d.capturer.cursor = false
	wantPixels(t, capture(t, d, image.Rect(0, 0, width, height)), func(_, y int) color.RGBA {
		v := y / 10 * 10 * 7
		return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255}
	})
}

// TestCaptureResized makes the display smaller and larger between captures.
func TestCaptureResized(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := desktest.Xvfb(t, desktest.Options{Width: 800, Height: 600})
			p := newPainter(t, s)
			if _, present, err := p.extension(t.Context(), "RANDR"); err != nil || !present {
				t.Fatalf("the display cannot change its size: %v", err)
			}
			resources, err := randr.GetScreenResources(p.x, p.root).Reply()
			if err != nil {
				t.Fatal(err)
			}
			for _, crtc := range resources.Crtcs { // a monitor would hold the size
				if _, err := randr.SetCrtcConfig(p.x, crtc, 0, 0, 0, 0, 0, randr.RotationRotate0, nil).Reply(); err != nil {
					t.Fatal(err)
				}
			}
			resize := func(w, h uint16) {
				t.Helper()
				if err := randr.SetScreenSizeChecked(p.x, p.root, w, h, 200, 150).Check(); err != nil {
					t.Fatal(err)
				}
			}
			d := openDisplay(t, s, &way.options)
			d.capturer.cursor = false
			resize(400, 300)
			p.fill(image.Rect(0, 0, 400, 300), 0x102030)
			_, err = d.Capture(t.Context(), image.Rect(0, 0, 800, 600))
			if err == nil || !strings.Contains(err.Error(), "400 x 300") {
				t.Errorf("capturing what is gone: %v", err)
			}
			full := func(c color.RGBA) func(int, int) color.RGBA { return func(int, int) color.RGBA { return c } }
			wantPixels(t, capture(t, d, image.Rect(0, 0, 400, 300)), full(color.RGBA{0x10, 0x20, 0x30, 255}))
			resize(800, 600)
			p.fill(image.Rect(0, 0, 800, 600), 0x405060)
			wantPixels(t, capture(t, d, image.Rect(0, 0, 800, 600)), full(color.RGBA{0x40, 0x50, 0x60, 255}))
			if size, err := d.Size(t.Context()); err != nil || size != image.Pt(800, 600) {
				t.Errorf("the size is %v, %v", size, err)
			}
			if used := d.capturer.memory != nil; used == way.options.NoSharedMemory {
				t.Errorf("shared memory is used: %v", used)
			}
		})
	}
}

// TestCaptureWithout takes extensions away from the display.
func TestCaptureWithout(t *testing.T) {
	tests := []struct {
		extension string
		pointer   bool // can be seen
	}{{"MIT-SHM", true}, {"XFIXES", false}}
	for _, tt := range tests {
		t.Run(tt.extension, func(t *testing.T) {
			s := desktest.Xvfb(t, desktest.Options{Width: 200, Height: 100, Args: []string{"-extension", tt.extension}})
			p := newPainter(t, s)
			p.fill(image.Rect(0, 0, 200, 100), 0x0000ff)
			p.cursor(4, image.Pt(0, 0), color.RGBA{255, 0, 0, 255})
			p.warp(image.Pt(50, 50))
			d := openDisplay(t, s, nil)
			if !slices.Contains(d.Missing(), tt.extension) {
				t.Errorf("missing are %v", d.Missing())
			}
			wantPixels(t, capture(t, d, image.Rect(0, 0, 200, 100)), func(x, y int) color.RGBA {
				if tt.pointer && image.Pt(x, y).In(image.Rect(50, 50, 54, 54)) {
					return color.RGBA{255, 0, 0, 255}
				}
				return color.RGBA{0, 0, 255, 255}
			})
		})
	}
}

// TestCaptureRefusesOthersMemory pretends that the server attached the memory of somebody
// else, as one in another IPC namespace can.
func TestCaptureRefusesOthersMemory(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
	d := openDisplay(t, s, nil)
	capture(t, d, image.Rect(0, 0, 64, 64))
	err := d.proveShared(d.capturer.segment, nonce{1, 2, 3})
	if err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("other memory is taken for ours: %v", err)
	}
}

// TestCaptureBadRegion asks for what no display has.
func TestCaptureBadRegion(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
	for _, way := range ways {
		d := openDisplay(t, s, &way.options)
		for _, region := range []image.Rectangle{
			{}, image.Rect(0, 0, 65, 64), image.Rect(-1, 0, 5, 5), image.Rect(60, 60, 70, 61),
			{Min: image.Pt(5, 5), Max: image.Pt(3, 9)}, image.Rect(0, 0, 1<<20, 1<<20), image.Rect(math.MinInt32, 0, math.MaxInt32, 1),
		} {
			if _, err := d.Capture(t.Context(), region); err == nil {
				t.Errorf("%s: %v is captured", way.name, region)
			}
		}
		capture(t, d, image.Rect(0, 0, 64, 64)) // it still works
	}
}

// TestCaptureOwnership checks that one capture does not change an earlier one.
func TestCaptureOwnership(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
	p := newPainter(t, s)
	d := openDisplay(t, s, nil)
	d.capturer.cursor = false
	p.fill(image.Rect(0, 0, 64, 64), 0xff0000)
	first := capture(t, d, image.Rect(0, 0, 64, 64))
	p.fill(image.Rect(0, 0, 64, 64), 0x00ff00)
	capture(t, d, image.Rect(0, 0, 64, 64))
	wantPixels(t, first, func(int, int) color.RGBA { return color.RGBA{255, 0, 0, 255} })
}

// TestCaptureDead expects an error, not a hang, from a display that has ended or stopped.
func TestCaptureDead(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
	d, err := Open(t.Context(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	capture(t, d, image.Rect(0, 0, 64, 64))
	s.Kill()
	if _, err := d.Capture(t.Context(), image.Rect(0, 0, 64, 64)); err == nil {
		t.Error("a dead display is captured")
	}
	_ = d.Close() // it says that the display is gone
}
