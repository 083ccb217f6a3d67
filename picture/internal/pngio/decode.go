package pngio

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"io"
	"slices"

	"github.com/klauspost/compress/zlib"
)

// Header is what the IHDR chunk says.
type Header struct {
	Width, Height int // pixels, from 1 to 2^31-1
	depth         int // bits per sample
	color         int
	interlaced    bool
}

// File is a parsed PNG file: every chunk is there and has the right checksum.
// It refers to the bytes that it was parsed from.
type File struct {
	Header Header
	// Frames is the number of frames of an animation, 0 for a still picture.
	Frames int
	// EXIF is the content of the eXIf chunk, a TIFF structure, or nil.
	EXIF []byte

	palette []byte
	trns    []byte
	pixels  [][]byte // contents of the IDAT chunks
}

// ParseHeader reads the first chunk alone, so that a caller can judge the size
// before anything else is looked at.
func ParseHeader(data []byte) (Header, error) {
	const head = len(Signature) + 8 + 13 + 4
	if len(data) < head {
		if bytes.HasPrefix(data, []byte(Signature)) || bytes.HasPrefix([]byte(Signature), data) {
			return Header{}, fmt.Errorf("%w: no complete header", ErrTruncated)
		}
		return Header{}, fmt.Errorf("%w: no signature", ErrCorrupt)
	}
	if string(data[:8]) != Signature || string(data[8:16]) != "\x00\x00\x00\x0dIHDR" {
		return Header{}, fmt.Errorf("%w: the file does not begin with IHDR", ErrCorrupt)
	}
	if crc32.ChecksumIEEE(data[12:29]) != binary.BigEndian.Uint32(data[29:33]) {
		return Header{}, fmt.Errorf("%w: wrong checksum of IHDR", ErrCorrupt)
	}
	b := data[16:29]
	width, height := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if width == 0 || height == 0 || width > 1<<31-1 || height > 1<<31-1 {
		return Header{}, fmt.Errorf("%w: impossible size %d x %d", ErrCorrupt, width, height)
	}
	h := Header{
		Width:      int(width),
		Height:     int(height),
		depth:      int(b[8]),
		color:      int(b[9]),
		interlaced: b[12] == 1,
	}
	ok := false
	switch h.color {
	case grey:
		ok = h.depth == 1 || h.depth == 2 || h.depth == 4 || h.depth == 8 || h.depth == 16
	case palette:
		ok = h.depth == 1 || h.depth == 2 || h.depth == 4 || h.depth == 8
	case rgb, greyAlpha, rgbAlpha:
		ok = h.depth == 8 || h.depth == 16
	}
	if !ok {
		return Header{}, fmt.Errorf("%w: colour type %d with %d bits", ErrCorrupt, h.color, h.depth)
	}
	if b[10] != 0 || b[11] != 0 || b[12] > 1 {
		return Header{}, fmt.Errorf("%w: unknown compression, filter or interlace method", ErrCorrupt)
	}
	return h, nil
}

// Parse walks over all chunks up to IEND. What follows IEND is ignored.
func Parse(data []byte) (*File, error) {
	h, err := ParseHeader(data)
	if err != nil {
		return nil, err
	}
	f := &File{Header: h}
	rest := data[33:]
	inPixels, pixelsDone := false, false
	for {
		if len(rest) < 12 {
			return nil, fmt.Errorf("%w: no IEND chunk", ErrTruncated)
		}
		n := binary.BigEndian.Uint32(rest)
		if n > 1<<31-1 {
			return nil, fmt.Errorf("%w: impossible chunk length", ErrCorrupt)
		}
		if int64(len(rest)) < int64(n)+12 {
			return nil, fmt.Errorf("%w: it ends inside chunk %q", ErrTruncated, rest[4:8])
		}
		kind, body := string(rest[4:8]), rest[8:8+n]
		if crc32.ChecksumIEEE(rest[4:8+n]) != binary.BigEndian.Uint32(rest[8+n:]) {
			return nil, fmt.Errorf("%w: wrong checksum of chunk %q", ErrCorrupt, kind)
		}
		rest = rest[12+n:]
		if kind != "IDAT" && inPixels {
			inPixels, pixelsDone = false, true
		}
		switch kind {
		case "IDAT":
			if pixelsDone {
				return nil, fmt.Errorf("%w: the IDAT chunks are not together", ErrCorrupt)
			}
			inPixels = true
			if len(body) > 0 {
				f.pixels = append(f.pixels, body)
			}
		case "PLTE":
			if f.palette != nil || pixelsDone || len(body)%3 != 0 || len(body) == 0 || len(body) > 3*256 {
				return nil, fmt.Errorf("%w: bad palette", ErrCorrupt)
			}
			f.palette = body
		case "tRNS":
			f.trns = body
		case "eXIf":
			f.EXIF = body
		case "acTL":
			if len(body) == 8 && !pixelsDone {
				f.Frames = int(binary.BigEndian.Uint32(body) & (1<<31 - 1))
			}
		case "IHDR":
			return nil, fmt.Errorf("%w: a second IHDR chunk", ErrCorrupt)
		case "IEND":
			return f, f.check()
		default:
			if kind[0]&0x20 == 0 {
				return nil, fmt.Errorf("%w: unknown critical chunk %q", ErrCorrupt, kind)
			}
		}
	}
}

func (f *File) check() error {
	if len(f.pixels) == 0 {
		return fmt.Errorf("%w: no pixel data", ErrCorrupt)
	}
	bad := false
	switch f.Header.color {
	case palette:
		if f.palette == nil {
			return fmt.Errorf("%w: no palette", ErrCorrupt)
		}
		bad = len(f.trns) > 256
	case grey:
		bad = f.trns != nil && len(f.trns) != 2
	case rgb:
		bad = f.trns != nil && len(f.trns) != 6
	default:
		f.trns = nil // has no meaning beside an alpha channel
	}
	if bad {
		return fmt.Errorf("%w: bad tRNS chunk", ErrCorrupt)
	}
	return nil
}

func (f *File) samples() int {
	switch f.Header.color {
	case rgb:
		return 3
	case greyAlpha:
		return 2
	case rgbAlpha:
		return 4
	}
	return 1
}

// pass is one of the seven pictures of an interlaced file, or the only one.
type pass struct {
	x, y, dx, dy int // where its pixels go
}

var adam7 = [...]pass{
	{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2},
}

// Decode returns the pixels, composited onto white where there is
// transparency. 16-bit samples keep their high byte. For an animation they are
// those of the default image.
func (f *File) Decode() (*image.RGBA, error) {
	h := f.Header
	var r io.Reader
	if len(f.pixels) == 1 {
		r = bytes.NewReader(f.pixels[0])
	} else {
		r = bufio.NewReaderSize(&joined{slices.Clone(f.pixels)}, 1<<16)
	}
	z, err := zlib.NewReader(r)
	if err != nil {
		return nil, inflateError(err)
	}
	defer z.Close()
	var data io.Reader = z
	if h.Height > aheadFrom/(1+(h.Width*f.samples()*h.depth+7)/8) {
		a := readAhead(z)
		defer a.close()
		data = a
	}

	m := image.NewRGBA(image.Rect(0, 0, h.Width, h.Height))
	d := &rows{
		r:       data,
		bits:    f.samples() * h.depth,
		convert: f.converter(),
	}
	if !h.interlaced {
		d.start(h.Width)
		for y := range h.Height {
			if err := d.next(m.Pix[y*m.Stride : (y+1)*m.Stride]); err != nil {
				return nil, err
			}
		}
	} else {
		line := make([]byte, h.Width*4)
		for _, p := range adam7 {
			w := (h.Width - p.x + p.dx - 1) / p.dx
			if w <= 0 || p.y >= h.Height {
				continue
			}
			d.start(w)
			for y := p.y; y < h.Height; y += p.dy {
				if err := d.next(line[:w*4]); err != nil {
					return nil, err
				}
				out := m.Pix[y*m.Stride : (y+1)*m.Stride]
				for i, o := 0, p.x*4; i < w*4; i, o = i+4, o+p.dx*4 {
					copy(out[o:o+4], line[i:i+4])
				}
			}
		}
	}
	// The end of the stream carries a checksum over all rows.
	var extra [1]byte
	switch n, err := io.ReadFull(data, extra[:]); {
	case n != 0:
		return nil, fmt.Errorf("%w: more pixel data than the size asks for", ErrCorrupt)
	case err != io.EOF:
		return nil, inflateError(err)
	}
	return m, nil
}

func inflateError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: less pixel data than the size asks for", ErrCorrupt)
	}
	return fmt.Errorf("%w: %v", ErrCorrupt, err)
}

// joined reads several slices one after the other.
type joined struct{ parts [][]byte }

func (j *joined) Read(p []byte) (int, error) {
	if len(j.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, j.parts[0])
	if j.parts[0] = j.parts[0][n:]; len(j.parts[0]) == 0 {
		j.parts = j.parts[1:]
	}
	return n, nil
}

// rows undoes the filters of one pass after the other.
type rows struct {
	r       io.Reader
	bits    int // of a pixel
	convert func(dst, src []byte)

	current, previous []byte // each with the filter byte in front
}

func (d *rows) start(width int) {
	n := 1 + (width*d.bits+7)/8
	if cap(d.current) < n {
		d.current, d.previous = make([]byte, n), make([]byte, n)
	}
	d.current, d.previous = d.current[:n], d.previous[:n]
	clear(d.previous)
}

func (d *rows) next(dst []byte) error {
	if _, err := io.ReadFull(d.r, d.current); err != nil {
		return inflateError(err)
	}
	row, up := d.current[1:], d.previous[1:]
	step := max(d.bits/8, 1)
	switch d.current[0] {
	case filterNone:
	case filterSub:
		for i := step; i < len(row); i++ {
			row[i] += row[i-step]
		}
	case filterUp:
		addRow(row, up)
	case filterAverage:
		unaverage(row, up, step)
	case filterPaeth:
		unpaeth(row, up, step)
	default:
		return fmt.Errorf("%w: unknown row filter %d", ErrCorrupt, d.current[0])
	}
	d.convert(dst, row)
	d.current, d.previous = d.previous, d.current
	return nil
}

// addRow adds up to row, byte by byte.
func addRow(row, up []byte) {
	i := 0
	for ; i+8 <= len(row) && i+8 <= len(up); i += 8 {
		a, b := binary.LittleEndian.Uint64(row[i:]), binary.LittleEndian.Uint64(up[i:])
		binary.LittleEndian.PutUint64(row[i:], ((a&low7)+(b&low7))^((a^b)&top1))
	}
	for ; i < len(row); i++ {
		row[i] += up[i]
	}
}

func unaverage(row, up []byte, step int) {
	up = up[:len(row)]
	for i := range min(step, len(row)) {
		row[i] += up[i] / 2
	}
	for i := step; i < len(row); i++ {
		row[i] += byte((int(row[i-step]) + int(up[i])) / 2)
	}
}

func unpaeth(row, up []byte, step int) {
	up = up[:len(row)]
	if step == 3 {
		unpaeth3(row, up)
		return
	}
	for c := range min(step, len(row)) {
		left, corner := 0, 0
		for i := c; i < len(row); i += step {
			u := int(up[i])
			left = (paeth(left, u, corner) + int(row[i])) & 255
			row[i] = byte(left)
			corner = u
		}
	}
}

// unpaeth3 takes the three samples of a pixel together: each one waits for the
// pixel before, but not for the other two.
func unpaeth3(row, up []byte) {
	l0, l1, l2, c0, c1, c2 := 0, 0, 0, 0, 0, 0
	for len(row) >= 3 && len(up) >= 3 {
		u0, u1, u2 := int(up[0]), int(up[1]), int(up[2])
		l0 = (paeth(l0, u0, c0) + int(row[0])) & 255
		l1 = (paeth(l1, u1, c1) + int(row[1])) & 255
		l2 = (paeth(l2, u2, c2) + int(row[2])) & 255
		row[0], row[1], row[2] = byte(l0), byte(l1), byte(l2)
		c0, c1, c2 = u0, u1, u2
		row, up = row[3:], up[3:]
	}
}

// OverWhite composites a sample with the given alpha onto white, rounded as
// Pillow's paste with a mask does: to the nearest, exactly.
func OverWhite(sample, alpha byte) byte {
	t := uint32(sample)*uint32(alpha) + 255*uint32(255-alpha) + 128
	return byte((t + t>>8) >> 8)
}

// converter returns the function that turns one row of the file into RGBA.
func (f *File) converter() func(dst, src []byte) {
	depth := f.Header.depth
	switch f.Header.color {
	case palette:
		return indexed(depth, f.colors())
	case grey:
		if depth < 8 {
			return indexed(depth, f.greys(depth))
		}
		hidden := -1
		if f.trns != nil {
			hidden = int(binary.BigEndian.Uint16(f.trns))
		}
		if depth == 16 {
			return func(dst, src []byte) { grey16(dst, src, hidden) }
		}
		return indexed(8, f.greys(8))
	case rgb:
		var hidden *[3]uint16
		if f.trns != nil {
			hidden = &[3]uint16{}
			for i := range hidden {
				hidden[i] = binary.BigEndian.Uint16(f.trns[2*i:])
			}
		}
		if depth == 16 {
			return func(dst, src []byte) { rgb16(dst, src, hidden) }
		}
		return func(dst, src []byte) { rgb8(dst, src, hidden) }
	case greyAlpha:
		return func(dst, src []byte) { withAlpha(dst, src, 1, depth/8) }
	}
	return func(dst, src []byte) { withAlpha(dst, src, 3, depth/8) }
}

// colors is the palette, each entry composited onto white. An index beyond the
// end of the palette is black.
func (f *File) colors() *[256][4]byte {
	t := &[256][4]byte{}
	for i := range t {
		t[i][3] = 255
		if i*3+3 <= len(f.palette) {
			copy(t[i][:3], f.palette[i*3:])
			if i < len(f.trns) {
				for c := range 3 {
					t[i][c] = OverWhite(t[i][c], f.trns[i])
				}
			}
		}
	}
	return t
}

// greys has the colour of each sample of up to eight bits.
func (f *File) greys(depth int) *[256][4]byte {
	t := &[256][4]byte{}
	top := 1<<depth - 1
	for i := range top + 1 {
		v := byte(i * 255 / top)
		if f.trns != nil && int(binary.BigEndian.Uint16(f.trns)) == i {
			v = 255
		}
		t[i] = [4]byte{v, v, v, 255}
	}
	return t
}

func indexed(depth int, colors *[256][4]byte) func(dst, src []byte) {
	if depth == 8 {
		return func(dst, src []byte) {
			for _, s := range src {
				if len(dst) < 4 {
					return
				}
				*(*[4]byte)(dst) = colors[s]
				dst = dst[4:]
			}
		}
	}
	perByte, mask := 8/depth, byte(1<<depth-1)
	return func(dst, src []byte) {
		for i := 0; i*4 < len(dst); i++ {
			shift := 8 - depth - i%perByte*depth
			*(*[4]byte)(dst[i*4:]) = colors[src[i/perByte]>>shift&mask]
		}
	}
}

func grey16(dst, src []byte, hidden int) {
	for len(dst) >= 4 && len(src) >= 2 {
		v := src[0]
		if int(src[0])<<8|int(src[1]) == hidden {
			v = 255
		}
		dst[0], dst[1], dst[2], dst[3] = v, v, v, 255
		dst, src = dst[4:], src[2:]
	}
}

func rgb8(dst, src []byte, hidden *[3]uint16) {
	for len(dst) >= 4 && len(src) >= 3 {
		dst[0], dst[1], dst[2], dst[3] = src[0], src[1], src[2], 255
		if hidden != nil && uint16(src[0]) == hidden[0] && uint16(src[1]) == hidden[1] && uint16(src[2]) == hidden[2] {
			dst[0], dst[1], dst[2] = 255, 255, 255
		}
		dst, src = dst[4:], src[3:]
	}
}

func rgb16(dst, src []byte, hidden *[3]uint16) {
	for len(dst) >= 4 && len(src) >= 6 {
		dst[0], dst[1], dst[2], dst[3] = src[0], src[2], src[4], 255
		if hidden != nil && binary.BigEndian.Uint16(src) == hidden[0] &&
			binary.BigEndian.Uint16(src[2:]) == hidden[1] && binary.BigEndian.Uint16(src[4:]) == hidden[2] {
			dst[0], dst[1], dst[2] = 255, 255, 255
		}
		dst, src = dst[4:], src[6:]
	}
}

// withAlpha handles pixels of colors samples and an alpha, of size bytes each.
func withAlpha(dst, src []byte, colors, size int) {
	n := (colors + 1) * size
	green, blue := 0, 0
	if colors == 3 {
		green, blue = size, 2*size
	}
	for len(dst) >= 4 && len(src) >= n {
		r, g, b, a := src[0], src[green], src[blue], src[colors*size]
		switch a {
		case 255:
			dst[0], dst[1], dst[2], dst[3] = r, g, b, 255
		case 0:
			dst[0], dst[1], dst[2], dst[3] = 255, 255, 255, 255
		default:
			dst[0], dst[1], dst[2], dst[3] = OverWhite(r, a), OverWhite(g, a), OverWhite(b, a), 255
		}
		dst, src = dst[4:], src[n:]
	}
}
