package x11

import (
	"encoding/binary"
	"image"
	"math/bits"

	"github.com/jezek/xgb/xproto"
)

// pixelFormat says how the server lays out the pixels of a drawable, and what their values
// mean. All of it comes from the connection setup.
type pixelFormat struct {
	bits      int  // of a pixel: 1, 4, 8, 16, 24 or 32
	pad       int  // every row starts at a multiple of this many bits
	bigEndian bool // the order of the bytes of a pixel
	unit      int  // of one-bit pixels: the bits that are swapped together
	leftmost  bool // of one-bit pixels: the first is the most significant of its unit

	class            byte
	depth            int
	red, green, blue uint32 // masks, of TrueColor and DirectColor
}

// rootFormat finds the format of a screen's root window.
func rootFormat(setup *xproto.SetupInfo, screen *xproto.ScreenInfo) (pixelFormat, bool) {
	f := pixelFormat{
		bigEndian: setup.ImageByteOrder == xproto.ImageOrderMSBFirst,
		unit:      int(setup.BitmapFormatScanlineUnit),
		leftmost:  setup.BitmapFormatBitOrder == xproto.ImageOrderMSBFirst,
		depth:     int(screen.RootDepth),
	}
	for _, p := range setup.PixmapFormats {
		if p.Depth == screen.RootDepth {
			f.bits, f.pad = int(p.BitsPerPixel), int(p.ScanlinePad)
		}
	}
	known := false
	for _, d := range screen.AllowedDepths {
		for _, v := range d.Visuals {
			if v.VisualId == screen.RootVisual {
				f.class, f.red, f.green, f.blue, known = v.Class, v.RedMask, v.GreenMask, v.BlueMask, true
			}
		}
	}
	return f, known && f.valid()
}

// valid says whether the numbers make sense, so that reading pixels cannot go wrong.
func (f pixelFormat) valid() bool {
	switch f.pad {
	case 8, 16, 32:
	default:
		return false
	}
	switch f.bits {
	case 1:
		return (f.unit == 8 || f.unit == 16 || f.unit == 32) && f.depth == 1 && f.indexed()
	case 4, 8:
		return f.depth <= f.bits
	case 16, 24, 32:
		// More than 16 bits of indices would be a palette of its own kind.
		return f.depth <= f.bits && (!f.indexed() || f.depth <= 16)
	}
	return false
}

// indexed says whether a pixel is one index into a palette.
func (f pixelFormat) indexed() bool {
	return f.class != xproto.VisualClassTrueColor && f.class != xproto.VisualClassDirectColor
}

// stride is the length of a row of so many pixels, in bytes.
func (f pixelFormat) stride(width int) int {
	return (width*f.bits + f.pad - 1) / f.pad * f.pad / 8
}

// colours says which colour a pixel's value stands for: one table with packed colours where
// pixels are indices, or else one table for each channel with the channel in its place of
// the packed colour. A packed colour is the little-endian word of the bytes R, G, B, A.
type colours struct {
	index            []uint32
	red, green, blue []uint32
}

// trueColours are the colours of a TrueColor format: each channel is scaled so that its
// largest value becomes 255, rounded to the nearest.
func (f pixelFormat) trueColours() colours {
	scaled := func(mask uint32, shift int) []uint32 {
		table := make([]uint32, channelSize(mask))
		most := uint64(len(table) - 1)
		for v := range table {
			if most > 0 {
				table[v] = uint32((uint64(v)*255+most/2)/most) << shift
			}
		}
		return table
	}
	return colours{red: scaled(f.red, 0), green: scaled(f.green, 8), blue: scaled(f.blue, 16)}
}

// channelSize is the number of values of a channel. What is below the most significant
// 16 bits of a mask is not looked at.
func channelSize(mask uint32) int {
	return 1 << min(bits.OnesCount32(mask), 16)
}

// channelShift is how far a channel's values are to the left.
func channelShift(mask uint32) int {
	if mask == 0 {
		return 0
	}
	return 32 - bits.LeadingZeros32(mask) - min(bits.OnesCount32(mask), 16)
}

// paletteSize is how many entries of the colormap the format uses.
func (f pixelFormat) paletteSize() int {
	if f.indexed() {
		return 1 << f.depth
	}
	return max(channelSize(f.red), channelSize(f.green), channelSize(f.blue))
}

// palettePixel is the pixel value that asks the colormap for its entry i: with DirectColor
// the same entry in each of the channels that has so many.
func (f pixelFormat) palettePixel(i int) uint32 {
	if f.indexed() {
		return uint32(i)
	}
	var pixel uint32
	for _, mask := range [...]uint32{f.red, f.green, f.blue} {
		if i < channelSize(mask) {
			pixel |= uint32(i) << channelShift(mask)
		}
	}
	return pixel
}

// paletteColours are the colours of a format that goes by a colormap, of which the entries
// are given. It uses the upper 8 of their 16 bits.
func (f pixelFormat) paletteColours(entries []xproto.Rgb) colours {
	n := f.paletteSize()
	if f.indexed() {
		index := make([]uint32, n)
		for i := range min(n, len(entries)) {
			e := entries[i]
			index[i] = uint32(e.Red>>8) | uint32(e.Green>>8)<<8 | uint32(e.Blue>>8)<<16
		}
		return colours{index: index}
	}
	c := colours{red: make([]uint32, n), green: make([]uint32, n), blue: make([]uint32, n)}
	for i := range min(n, len(entries)) {
		e := entries[i]
		c.red[i], c.green[i], c.blue[i] = uint32(e.Red>>8), uint32(e.Green>>8)<<8, uint32(e.Blue>>8)<<16
	}
	return c
}

const opaque = 0xff000000

// decode writes rows of pixels as the server sent them into m, from row y on, until the
// rows or m end. The image becomes opaque.
func (f pixelFormat) decode(m *image.RGBA, y int, data []byte, c colours) {
	width := m.Rect.Dx()
	stride := f.stride(width)
	plain := f.bits == 32 && !f.bigEndian && c.index == nil && f.class == xproto.VisualClassTrueColor &&
		f.red == 0xff0000 && f.green == 0xff00 && f.blue == 0xff
	for ; y < m.Rect.Dy() && len(data) >= stride; y++ {
		row, out := data[:stride], m.Pix[y*m.Stride:][:4*width]
		data = data[stride:]
		switch {
		case plain:
			swapRedBlue(out, row)
		case c.index != nil:
			last := uint32(len(c.index) - 1)
			for x := range width {
				binary.LittleEndian.PutUint32(out[4*x:], c.index[f.at(row, x)&last]|opaque)
			}
		default:
			red, green, blue := channelShift(f.red), channelShift(f.green), channelShift(f.blue)
			lastRed, lastGreen, lastBlue := uint32(channelSize(f.red)-1), uint32(channelSize(f.green)-1), uint32(channelSize(f.blue)-1)
			for x := range width {
				v := f.at(row, x)
				binary.LittleEndian.PutUint32(out[4*x:],
					c.red[v>>red&lastRed]|c.green[v>>green&lastGreen]|c.blue[v>>blue&lastBlue]|opaque)
			}
		}
	}
}

// swapRedBlue turns pixels of the bytes B, G, R, x into R, G, B, 255, two at a time: this
// is what nearly every display has.
func swapRedBlue(out, row []byte) {
	const (
		middle = 0x0000ff00_0000ff00
		low    = 0x000000ff_000000ff
		alpha  = 0xff000000_ff000000
	)
	for len(out) >= 8 && len(row) >= 8 {
		v := binary.LittleEndian.Uint64(row)
		binary.LittleEndian.PutUint64(out, v&middle|v>>16&low|v&low<<16|alpha)
		out, row = out[8:], row[8:]
	}
	if len(out) >= 4 && len(row) >= 4 {
		out[0], out[1], out[2], out[3] = row[2], row[1], row[0], 255
	}
}

// at returns the value of the pixel x of a row.
func (f pixelFormat) at(row []byte, x int) uint32 {
	switch f.bits {
	case 32:
		if f.bigEndian {
			return binary.BigEndian.Uint32(row[4*x:])
		}
		return binary.LittleEndian.Uint32(row[4*x:])
	case 24:
		p := row[3*x : 3*x+3]
		if f.bigEndian {
			return uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2])
		}
		return uint32(p[2])<<16 | uint32(p[1])<<8 | uint32(p[0])
	case 16:
		if f.bigEndian {
			return uint32(binary.BigEndian.Uint16(row[2*x:]))
		}
		return uint32(binary.LittleEndian.Uint16(row[2*x:]))
	case 8:
		return uint32(row[x])
	case 4:
		if f.bigEndian == (x%2 == 0) {
			return uint32(row[x/2] >> 4)
		}
		return uint32(row[x/2] & 15)
	}
	// One bit: the bit order counts within a unit, whose bytes are in the byte order. A
	// row may end in the middle of the last unit only when both orders agree.
	within := x % f.unit
	if f.leftmost {
		within = f.unit - 1 - within
	}
	octet := within / 8
	if f.bigEndian {
		octet = f.unit/8 - 1 - octet
	}
	at := x/f.unit*f.unit/8 + octet
	if at >= len(row) {
		return 0
	}
	return uint32(row[at]>>(within%8)) & 1
}
