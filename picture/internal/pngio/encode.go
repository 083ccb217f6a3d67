package pngio

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"io"

	"github.com/klauspost/compress/zlib"
)

// level is the compression level: the size of zlib's own default in about a
// third of its time.
const level = 5

// Encode writes m as an RGB file with eight bits a sample. Alpha is ignored.
// m must not be empty. Each row has the filter that makes its bytes smallest
// in sum, the rule that the PNG specification suggests (section 12.8).
func Encode(w io.Writer, m *image.RGBA) error {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	if width <= 0 || height <= 0 || width > 1<<31-1 || height > 1<<31-1 {
		return errors.New("an image without pixels cannot be written as PNG")
	}
	if _, err := io.WriteString(w, Signature); err != nil {
		return err
	}
	var head [13]byte
	binary.BigEndian.PutUint32(head[0:], uint32(width))
	binary.BigEndian.PutUint32(head[4:], uint32(height))
	head[8], head[9] = 8, rgb
	if err := writeChunk(w, "IHDR", head[:]); err != nil {
		return err
	}
	chunks := &chunkWriter{w: w, buf: make([]byte, 0, 1<<16)}
	z, err := zlib.NewWriterLevel(chunks, level)
	if err != nil {
		return err
	}
	f := newFilter(width)
	for y := range height {
		o := y * m.Stride
		if _, err := z.Write(f.row(m.Pix[o : o+width*4])); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := chunks.flush(); err != nil {
		return err
	}
	return writeChunk(w, "IEND", nil)
}

func writeChunk(w io.Writer, kind string, body []byte) error {
	var head [8]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(body)))
	copy(head[4:], kind)
	sum := crc32.Update(crc32.ChecksumIEEE(head[4:]), crc32.IEEETable, body)
	for _, part := range [][]byte{head[:], body, binary.BigEndian.AppendUint32(nil, sum)} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// chunkWriter cuts what is written to it into IDAT chunks.
type chunkWriter struct {
	w   io.Writer
	buf []byte
}

func (c *chunkWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), cap(c.buf)-len(c.buf))
		c.buf = append(c.buf, p[:n]...)
		p = p[n:]
		written += n
		if len(c.buf) == cap(c.buf) {
			if err := c.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (c *chunkWriter) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	err := writeChunk(c.w, "IDAT", c.buf)
	c.buf = c.buf[:0]
	return err
}

// filter holds the last row and room for each way to filter the present one.
type filter struct {
	current, previous []byte    // RGB
	out               [5][]byte // by filter, with its number in front
}

func newFilter(width int) *filter {
	f := &filter{current: make([]byte, width*3), previous: make([]byte, width*3)}
	for i := range f.out {
		f.out[i] = make([]byte, 1+width*3)
		f.out[i][0] = byte(i)
	}
	return f
}

// row returns the filtered form of the RGBA row. It is valid until the next call.
func (f *filter) row(rgba []byte) []byte {
	f.current, f.previous = f.previous, f.current
	packRGB(f.current, rgba)
	row, up := f.current, f.previous[:len(f.current)]
	sub, upper, pth := f.out[filterSub][1:], f.out[filterUp][1:], f.out[filterPaeth][1:]

	// A flat stretch is best left to the compressor: the row as the one above.
	best, least := filterUp, difference(upper, row, up)
	if least == 0 {
		return f.out[filterUp]
	}
	copy(sub[:3], row[:3])
	if n := difference(sub[3:], row[3:], row[:len(row)-3]) + magnitude(sub[:3]); n < least {
		best, least = filterSub, n
	}
	if n := magnitude(row); n < least {
		copy(f.out[filterNone][1:], row)
		best, least = filterNone, n
	}
	if predict(pth, row, up, least) {
		best = filterPaeth
	}
	return f.out[best]
}

func packRGB(dst, rgba []byte) {
	for len(dst) >= 3 && len(rgba) >= 4 {
		dst[0], dst[1], dst[2] = rgba[0], rgba[1], rgba[2]
		dst, rgba = dst[3:], rgba[4:]
	}
}

// size is the distance of a byte from zero, going the shorter way round.
func size(b byte) int { return abs(int(int8(b))) }

func magnitude(row []byte) int {
	n := 0
	for _, b := range row {
		n += size(b)
	}
	return n
}

// difference writes a-b to dst and returns the sum of sizes.
func difference(dst, a, b []byte) int {
	b, dst = b[:len(a)], dst[:len(a)]
	n := 0
	for i, v := range a {
		d := v - b[i]
		dst[i] = d
		n += size(d)
	}
	return n
}

// predict writes the Paeth differences to dst. It gives up and returns false
// as soon as their sum reaches least.
func predict(dst, row, up []byte, least int) bool {
	up, dst = up[:len(row)], dst[:len(row)]
	n := 0
	for i, v := range row {
		left, corner := 0, 0
		if i >= 3 {
			left, corner = int(row[i-3]), int(up[i-3])
		}
		d := v - byte(paeth(left, int(up[i]), corner))
		dst[i] = d
		n += size(d)
		if n >= least {
			return false
		}
	}
	return true
}
