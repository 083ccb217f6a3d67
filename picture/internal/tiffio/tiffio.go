// Package tiffio reads the first page of a TIFF file into opaque RGBA: strips
// and tiles, interleaved and planar, bi-level, grey, palette, RGB and CMYK of up
// to 16 bits, with alpha, uncompressed or compressed by PackBits, LZW, Deflate,
// CCITT groups 3 (one-dimensional, lines not padded) and 4, or JPEG.
package tiffio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zlib"
	"golang.org/x/image/ccitt"
	"golang.org/x/image/tiff/lzw"

	"github.com/loupe-tools/loupe/picture/internal/pngio"
)

// Errors that the functions of this package wrap.
var (
	ErrCorrupt     = errors.New("corrupt TIFF data")
	ErrTruncated   = errors.New("the TIFF data ends too early")
	ErrUnsupported = errors.New("a kind of TIFF that is not supported")
)

// Values of tagPhotometric.
const (
	whiteIsZero = 0
	blackIsZero = 1
	rgb         = 2
	palette     = 3
	cmyk        = 5
	yCbCr       = 6
)

// Values of tagCompression.
const (
	plain      = 1
	group3     = 3
	group4     = 4
	lzwCoded   = 5
	jpegCoded  = 7
	deflate    = 8
	oldDeflate = 32946
	packBits   = 32773
)

// Values of tagExtraSamples.
const (
	extraUnknown   = 0
	premultiplied  = 1
	straightAlpha  = 2
	noAlpha        = -1
	maxDirectories = 1 << 16
)

// JPEGDecoder decodes a JPEG file of at most maxPixels pixels. It returns the
// samples of each pixel in four bytes: RGB and 255, or the four inks as stored.
type JPEGDecoder func(data []byte, maxPixels int64) (*image.RGBA, error)

// File is the parsed first directory. It refers to the bytes that it was
// parsed from.
type File struct {
	Width, Height int // pixels
	Pages         int

	data        []byte
	dir         *directory
	compression int64
	photometric int64
	depth       int // bits per sample
	samples     int // per pixel
	colors      int // of these that are not extra
	alpha       int // noAlpha, premultiplied or straightAlpha
	planar      bool
	reversed    bool // the bits of a byte
	difference  bool // each sample is stored as the difference to the last
	palette     *[256][4]byte

	chunkWidth, chunkHeight int // of a strip or tile, in pixels
	across, down            int // strips or tiles in a plane
	tiled                   bool
	offsets, counts         uint16 // tags
}

// Parse reads the first directory and counts the others.
func Parse(data []byte) (*File, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("%w: no complete header", ErrTruncated)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if data[0] == 'M' {
		order = binary.BigEndian
	}
	f := &File{data: data}
	var next int64
	var err error
	if f.dir, next, err = readDirectory(data, order, int64(order.Uint32(data[4:]))); err != nil {
		return nil, err
	}
	if f.dir.cut != 0 {
		return nil, fmt.Errorf("%w: the values of tag %d are not there", ErrTruncated, f.dir.cut)
	}
	f.Pages = 1
	for seen := map[int64]bool{}; next != 0 && !seen[next] && f.Pages < maxDirectories; f.Pages++ {
		seen[next] = true
		if _, next, err = readDirectory(data, order, next); err != nil {
			return nil, err
		}
	}
	return f, f.interpret()
}

func (f *File) interpret() error {
	d := f.dir
	width, height := d.one(tagWidth, 0), d.one(tagHeight, 0)
	if width <= 0 || height <= 0 || width > 1<<31-1 || height > 1<<31-1 {
		return fmt.Errorf("%w: impossible size %d x %d", ErrCorrupt, width, height)
	}
	f.Width, f.Height = int(width), int(height)
	f.compression = d.one(tagCompression, plain)
	f.photometric = d.one(tagPhotometric, blackIsZero)
	f.planar = d.one(tagPlanar, 1) == 2
	f.reversed = d.one(tagFillOrder, 1) == 2

	samples := d.one(tagSamples, max(1, int64(d.count(tagBits))))
	if samples < 1 || samples > 16 {
		return fmt.Errorf("%w: %d samples a pixel", ErrUnsupported, samples)
	}
	f.samples = int(samples)
	f.depth = int(d.one(tagBits, 1))
	for i := range d.count(tagBits) {
		if d.at(tagBits, i) != int64(f.depth) {
			return fmt.Errorf("%w: samples of different depth", ErrUnsupported)
		}
	}
	for i := range d.count(tagSampleFormat) {
		if d.at(tagSampleFormat, i) != 1 {
			return fmt.Errorf("%w: samples that are not unsigned integers", ErrUnsupported)
		}
	}
	shallow := f.depth == 1 || f.depth == 2 || f.depth == 4
	if !shallow && f.depth != 8 && f.depth != 16 {
		return fmt.Errorf("%w: %d bits a sample", ErrUnsupported, f.depth)
	}
	switch f.photometric {
	case whiteIsZero, blackIsZero:
		f.colors = 1
	case palette:
		f.colors = 1
		if f.depth > 8 {
			return fmt.Errorf("%w: a palette of 16 bits", ErrUnsupported)
		}
	case rgb:
		f.colors = 3
	case cmyk:
		f.colors = 4
	case yCbCr:
		if f.compression != jpegCoded {
			return fmt.Errorf("%w: YCbCr without JPEG", ErrUnsupported)
		}
		f.colors = 3
	default:
		return fmt.Errorf("%w: colour model %d", ErrUnsupported, f.photometric)
	}
	if f.samples < f.colors {
		return fmt.Errorf("%w: %d samples a pixel are too few", ErrCorrupt, f.samples)
	}
	if shallow && f.samples != 1 {
		return fmt.Errorf("%w: %d samples of %d bits", ErrUnsupported, f.samples, f.depth)
	}
	f.alpha = noAlpha
	if f.samples > f.colors && f.photometric != palette {
		// Without a word about it, a fourth sample of RGB or a second one of
		// grey is taken for alpha, as Pillow does.
		switch kind := d.one(tagExtraSamples, straightAlpha); {
		case kind == premultiplied || kind == straightAlpha:
			f.alpha = int(kind)
		case kind == extraUnknown && f.colors == 1:
			f.alpha = straightAlpha
		}
	}
	if f.photometric == palette {
		if err := f.readPalette(); err != nil {
			return err
		}
	}
	switch d.one(tagPredictor, 1) {
	case 1:
	case 2:
		f.difference = f.compression == lzwCoded || f.compression == deflate || f.compression == oldDeflate
		if f.difference && shallow {
			return fmt.Errorf("%w: differences of %d bits", ErrUnsupported, f.depth)
		}
	default:
		return fmt.Errorf("%w: predictor %d", ErrUnsupported, d.one(tagPredictor, 1))
	}
	switch f.compression {
	case plain, lzwCoded, deflate, oldDeflate, packBits:
	case group3, group4:
		if f.depth != 1 || f.samples != 1 {
			return fmt.Errorf("%w: fax coding of %d samples of %d bits", ErrUnsupported, f.samples, f.depth)
		}
		if f.compression == group3 && d.one(tagGroup3Options, 0) != 0 {
			return fmt.Errorf("%w: fax coding of group 3 with two dimensions or padded lines", ErrUnsupported)
		}
	case jpegCoded:
		if f.depth != 8 || f.planar || f.samples != f.colors {
			return fmt.Errorf("%w: JPEG with %d samples of %d bits", ErrUnsupported, f.samples, f.depth)
		}
	default:
		return fmt.Errorf("%w: compression %d", ErrUnsupported, f.compression)
	}
	return f.layOut()
}

func (f *File) readPalette() error {
	n := f.dir.count(tagColorMap) / 3
	if n == 0 || n > 1<<16 {
		return fmt.Errorf("%w: bad palette", ErrCorrupt)
	}
	f.palette = &[256][4]byte{}
	for i := range f.palette {
		f.palette[i][3] = 255
		for c := range 3 {
			if i < n {
				f.palette[i][c] = byte(f.dir.at(tagColorMap, c*n+i) >> 8)
			}
		}
	}
	return nil
}

// layOut finds the grid of strips or tiles and bounds the work that they can
// ask for: all together they hold hardly more than the picture, and all their
// data hardly more than the file.
func (f *File) layOut() error {
	d := f.dir
	f.chunkWidth, f.chunkHeight = f.Width, f.Height
	f.offsets, f.counts = tagStripOffsets, tagStripCounts
	if f.tiled = d.count(tagTileWidth) > 0; f.tiled {
		f.offsets, f.counts = tagTileOffsets, tagTileCounts
		w, h := d.one(tagTileWidth, 0), d.one(tagTileHeight, 0)
		if w <= 0 || h <= 0 || w > 1<<24 || h > 1<<24 {
			return fmt.Errorf("%w: tiles of %d x %d", ErrCorrupt, w, h)
		}
		f.chunkWidth, f.chunkHeight = int(w), int(h)
	} else if n := d.one(tagRowsPerStrip, int64(f.Height)); n > 0 {
		f.chunkHeight = int(min(n, int64(f.Height)))
	}
	f.across = (f.Width + f.chunkWidth - 1) / f.chunkWidth
	f.down = (f.Height + f.chunkHeight - 1) / f.chunkHeight
	if f.tiled {
		area := int64(f.across) * int64(f.chunkWidth) * int64(f.down)
		if area > (4*int64(f.Width)*int64(f.Height)+1<<22)/int64(f.chunkHeight) {
			return fmt.Errorf("%w: tiles of %d x %d in a picture of %d x %d", ErrCorrupt,
				f.chunkWidth, f.chunkHeight, f.Width, f.Height)
		}
	}
	n := f.across * f.down
	if f.planar {
		n *= f.samples
	}
	if d.count(f.offsets) < n {
		return fmt.Errorf("%w: %d strips or tiles instead of %d", ErrCorrupt, d.count(f.offsets), n)
	}
	if d.count(f.counts) == 0 && (n == 1 || f.compression == plain) {
		return nil // each is as long as it must be
	}
	if d.count(f.counts) < n {
		return fmt.Errorf("%w: lengths of %d strips or tiles instead of %d", ErrCorrupt, d.count(f.counts), n)
	}
	total := int64(0)
	for i := range n {
		total += d.at(f.counts, i)
	}
	if total > 4*int64(len(f.data))+1<<20 {
		return fmt.Errorf("%w: the strips or tiles together are longer than the file", ErrCorrupt)
	}
	return nil
}

// Decode returns the pixels of the first page, composited onto white where
// there is transparency. 16-bit samples keep their high byte. decodeJPEG may
// be nil.
func (f *File) Decode(decodeJPEG JPEGDecoder) (*image.RGBA, error) {
	m := image.NewRGBA(image.Rect(0, 0, f.Width, f.Height))
	planes, perPlane := 1, f.samples
	if f.planar {
		planes, perPlane = f.samples, 1
	}
	stored := make([]byte, (f.chunkWidth*perPlane*f.depth+7)/8)
	line := make([]byte, f.chunkWidth*f.samples)
	parts := make([]io.Reader, planes)
	for index := range f.across * f.down {
		x, y := index%f.across*f.chunkWidth, index/f.across*f.chunkHeight
		w, h := min(f.chunkWidth, f.Width-x), min(f.chunkHeight, f.Height-y)
		if f.compression == jpegCoded {
			if err := f.jpegChunk(m, image.Rect(x, y, x+w, y+h), index, decodeJPEG); err != nil {
				return nil, err
			}
			continue
		}
		rows := h // a strip ends with the picture, a tile does not
		if f.tiled {
			rows = f.chunkHeight
		}
		for p := range parts {
			raw, err := f.raw(p*f.across*f.down+index, int64(len(stored))*int64(rows))
			if err != nil {
				return nil, err
			}
			if parts[p], err = f.expand(raw, rows); err != nil {
				return nil, err
			}
		}
		for row := range h {
			for p, part := range parts {
				if _, err := io.ReadFull(part, stored); err != nil {
					if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
						err = errors.New("a strip or tile is too short")
					}
					return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
				}
				if f.difference {
					f.undoDifferences(stored, perPlane)
				}
				f.unpack(line[p:], stored, w*perPlane, planes)
			}
			f.convert(m.Pix[(y+row)*m.Stride+x*4:][:w*4], line)
		}
	}
	return m, nil
}

// raw returns the stored bytes of a strip or tile.
func (f *File) raw(index int, want int64) ([]byte, error) {
	at := f.dir.at(f.offsets, index)
	n := want
	if f.dir.count(f.counts) > 0 {
		n = f.dir.at(f.counts, index)
	} else if f.compression != plain {
		n = max(0, int64(len(f.data))-at)
	}
	if at+n > int64(len(f.data)) {
		return nil, fmt.Errorf("%w: a strip or tile lies beyond its end", ErrTruncated)
	}
	data := f.data[at : at+n]
	if f.reversed {
		turned := make([]byte, len(data))
		for i, b := range data {
			turned[i] = bits.Reverse8(b)
		}
		data = turned
	}
	return data, nil
}

// expand returns a reader of the decompressed rows of a strip or tile.
func (f *File) expand(raw []byte, rows int) (io.Reader, error) {
	r := bytes.NewReader(raw)
	switch f.compression {
	case packBits:
		return &unpacker{src: raw}, nil
	case lzwCoded:
		return lzw.NewReader(r, lzw.MSB, 8), nil
	case deflate, oldDeflate:
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
		}
		return z, nil
	case group3, group4:
		kind := ccitt.Group3
		if f.compression == group4 {
			kind = ccitt.Group4
		}
		// The codes know white and black runs. As in libtiff these stand for
		// bits 0 and 1, and what those look like is the directory's business.
		return ccitt.NewReader(r, ccitt.MSB, kind, f.chunkWidth, rows, &ccitt.Options{Invert: true}), nil
	}
	return r, nil
}

// unpacker undoes PackBits run lengths.
type unpacker struct {
	src    []byte
	run    int  // bytes left of the present run
	repeat bool // the run repeats one byte
}

func (u *unpacker) Read(p []byte) (int, error) {
	total := 0
	for total < len(p) {
		if u.run == 0 {
			if len(u.src) < 2 {
				return total, io.EOF
			}
			n := int(int8(u.src[0]))
			u.src = u.src[1:]
			switch {
			case n >= 0:
				u.run, u.repeat = n+1, false
			case n > -128:
				u.run, u.repeat = 1-n, true
			}
			continue
		}
		n := min(u.run, len(p)-total)
		out := p[total : total+n]
		if u.repeat {
			for i := range out {
				out[i] = u.src[0]
			}
		} else {
			n = copy(out, u.src)
			if n == 0 {
				return total, io.EOF
			}
			u.src = u.src[n:]
		}
		total += n
		if u.run -= n; u.run == 0 && u.repeat {
			u.src = u.src[1:]
		}
	}
	return total, nil
}

// undoDifferences adds up samples along a row, the samples of a pixel apart.
func (f *File) undoDifferences(row []byte, samples int) {
	if f.depth == 8 {
		for i := samples; i < len(row); i++ {
			row[i] += row[i-samples]
		}
		return
	}
	for i := samples * 2; i+2 <= len(row); i += 2 {
		f.dir.order.PutUint16(row[i:], f.dir.order.Uint16(row[i:])+f.dir.order.Uint16(row[i-samples*2:]))
	}
}

// unpack writes n samples of src as bytes to every step-th place of dst.
// Samples of fewer than eight bits are scaled up unless they are indexes.
func (f *File) unpack(dst, src []byte, n, step int) {
	switch f.depth {
	case 8:
		if step == 1 {
			copy(dst[:n], src)
			return
		}
		for i := range n {
			dst[i*step] = src[i]
		}
	case 16:
		high := 0
		if f.dir.order == binary.LittleEndian {
			high = 1
		}
		for i := range n {
			dst[i*step] = src[i*2+high]
		}
	default:
		perByte, mask := 8/f.depth, byte(1<<f.depth-1)
		scale := 255 / mask
		if f.photometric == palette {
			scale = 1
		}
		for i := range n {
			shift := 8 - f.depth - i%perByte*f.depth
			dst[i*step] = src[i/perByte] >> shift & mask * scale
		}
	}
}

// convert turns interleaved samples into RGBA.
func (f *File) convert(dst, src []byte) {
	for len(dst) >= 4 && len(src) >= f.samples {
		switch f.photometric {
		case whiteIsZero:
			v := 255 - src[0]
			dst[0], dst[1], dst[2] = v, v, v
		case blackIsZero:
			dst[0], dst[1], dst[2] = src[0], src[0], src[0]
		case palette:
			*(*[4]byte)(dst) = f.palette[src[0]]
		case rgb:
			dst[0], dst[1], dst[2] = src[0], src[1], src[2]
		case cmyk:
			dst[0], dst[1], dst[2] = inks(src[0], src[3]), inks(src[1], src[3]), inks(src[2], src[3])
		}
		dst[3] = 255
		if f.alpha != noAlpha {
			a := src[f.colors]
			for c := range 3 {
				if f.alpha == straightAlpha {
					dst[c] = pngio.OverWhite(dst[c], a)
				} else {
					dst[c] = byte(min(255, int(dst[c])+255-int(a)))
				}
			}
		}
		dst, src = dst[4:], src[f.samples:]
	}
}

// inks is one colour of what a colour ink and the black one leave of white
// paper, rounded as Pillow does it.
func inks(ink, black byte) byte {
	paper := uint32(255 - black)
	t := uint32(ink)*paper + 128
	return byte(paper - (t+t>>8)>>8)
}

// jpegChunk decodes a strip or tile that is a JPEG file, perhaps with its
// tables apart.
func (f *File) jpegChunk(m *image.RGBA, at image.Rectangle, index int, decode JPEGDecoder) error {
	raw, err := f.raw(index, 0)
	if err != nil {
		return err
	}
	if decode == nil {
		return fmt.Errorf("%w: JPEG compression", ErrUnsupported)
	}
	if len(raw) < 4 || raw[0] != 0xFF || raw[1] != 0xD8 {
		return fmt.Errorf("%w: a strip or tile is not JPEG", ErrCorrupt)
	}
	// The colour model is the directory's business, so an Adobe marker says
	// it: without one a decoder guesses.
	transform := byte(0)
	if f.photometric == yCbCr {
		transform = 1
	}
	file := append([]byte{0xFF, 0xD8, 0xFF, 0xEE, 0, 14}, "Adobe\x00\x64\x00\x00\x00\x00"...)
	file = append(file, transform)
	if tables := f.dir.bytes(tagJPEGTables); len(tables) > 4 && tables[0] == 0xFF && tables[1] == 0xD8 {
		file = append(file, bytes.TrimSuffix(tables[2:], []byte{0xFF, 0xD9})...)
	}
	part, err := decode(append(file, raw[2:]...), int64(f.chunkWidth)*int64(f.chunkHeight))
	if err != nil {
		return err
	}
	if part.Rect.Dx() < at.Dx() || part.Rect.Dy() < at.Dy() {
		return fmt.Errorf("%w: a strip or tile is too small", ErrCorrupt)
	}
	for y := range at.Dy() {
		dst := m.Pix[m.PixOffset(at.Min.X, at.Min.Y+y):][:at.Dx()*4]
		src := part.Pix[y*part.Stride:][:at.Dx()*4]
		switch f.photometric {
		case cmyk:
			f.convert(dst, src)
		case whiteIsZero:
			for i, v := range src {
				dst[i] = 255 - v | byte(i%4/3*255)
			}
		default:
			copy(dst, src)
		}
	}
	return nil
}
