package pngio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"hash/crc32"
	"image"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
)

// Effort is what an encoding may cost.
type Effort int

const (
	// Small files: each row has the filter that makes its bytes smallest in sum, the
	// rule that the PNG specification suggests (section 12.8), and the compression is
	// flate's level 7, which makes files about as large as those of zlib's default.
	Small Effort = iota

	// Quick is for what somebody waits for, such as the picture of a screen. Every row
	// is the difference from the one above, which suits the flat areas of screens, and
	// the compression is flate's level 1. Files are about a quarter larger than Small
	// ones and take a third of the time.
	Quick
)

// level is the compression level of flate.
func (e Effort) level() int {
	if e == Quick {
		return 1
	}
	return 7
}

// stripBytes is how much filtered data makes up one strip. The strips of an
// image are compressed side by side, each with the end of the one before as its
// dictionary, so that hardly anything is lost.
const stripBytes = 1 << 20

// window is how far back a compressed stream can refer, in bytes.
const window = 32 << 10

// Encode writes m as an RGB file with eight bits a sample. Alpha is ignored.
// m must not be empty.
//
// The bytes depend on the image alone, not on the number of processors. The
// goroutines that Encode starts have ended when it returns.
func Encode(w io.Writer, m *image.RGBA, effort Effort) error {
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
	rows := max(1, stripBytes/(1+width*3))
	count := (height + rows - 1) / rows
	strips := make([]chan strip, count)
	for i := range strips {
		strips[i] = make(chan strip, 1)
	}
	var next, stopped atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), count) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < count && stopped.Load() == 0; i = int(next.Add(1)) - 1 {
				strips[i] <- compress(m, i*rows, min((i+1)*rows, height), effort)
			}
		})
	}
	err := writeStrips(w, strips)
	stopped.Store(1)
	workers.Wait()
	if err != nil {
		return err
	}
	return writeChunk(w, "IEND", nil)
}

// writeStrips writes the strips in order as one zlib stream, one chunk each.
func writeStrips(w io.Writer, strips []chan strip) error {
	sum := uint32(1)
	for i, done := range strips {
		s := <-done
		if s.err != nil {
			return s.err
		}
		sum = joinAdler(sum, s.adler, s.size)
		if i == 0 {
			s.data = append([]byte{0x78, 0x9C}, s.data...) // header of the stream
		}
		if i == len(strips)-1 {
			s.data = binary.BigEndian.AppendUint32(s.data, sum)
		}
		if err := writeChunk(w, "IDAT", s.data); err != nil {
			return err
		}
	}
	return nil
}

// joinAdler is the Adler-32 checksum of two stretches from theirs; the second
// one is size bytes long.
func joinAdler(first, second uint32, size int) uint32 {
	const base = 65521
	a1, b1 := first&0xFFFF, first>>16
	a2, b2 := second&0xFFFF, second>>16
	n := uint32(size % base)
	// a is 1 plus all bytes; b is the sum of every a on the way.
	a := (a1 + a2 + base - 1) % base
	b := (uint64(b1) + uint64(b2) + uint64(n)*uint64(a1+base-1)) % base
	return uint32(b)<<16 | a
}

// strip is a compressed run of rows.
type strip struct {
	data  []byte
	size  int    // before compression, in bytes
	adler uint32 // of what was compressed
	err   error
}

// compress filters and compresses the rows from lo to hi.
func compress(m *image.RGBA, lo, hi int, effort Effort) (s strip) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	line := 1 + width*3
	// The rows before fill the dictionary. They are filtered once more here,
	// which makes strips independent of each other.
	before := max(0, lo-(window+line-1)/line)
	f := newFilter(width, effort)
	if before > 0 {
		packRGB(f.current, m.Pix[(before-1)*m.Stride:][:width*4])
	}
	var dictionary []byte
	for y := before; y < lo; y++ {
		dictionary = append(dictionary, f.row(m.Pix[y*m.Stride:][:width*4])...)
	}
	dictionary = dictionary[max(0, len(dictionary)-window):]

	var out bytes.Buffer
	z, err := flate.NewWriterDict(&out, effort.level(), dictionary)
	if err != nil {
		return strip{err: err}
	}
	sum := adler32.New()
	for y := lo; y < hi; y++ {
		row := f.row(m.Pix[y*m.Stride:][:width*4])
		sum.Write(row) // never fails
		if _, err := z.Write(row); err != nil {
			return strip{err: err}
		}
	}
	if hi == height {
		err = z.Close()
	} else {
		err = z.Flush()
	}
	return strip{data: out.Bytes(), size: (hi - lo) * line, adler: sum.Sum32(), err: err}
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

// filter holds the last row and room for each way to filter the present one.
type filter struct {
	effort            Effort
	current, previous []byte    // RGB
	out               [5][]byte // by filter, with its number in front
}

func newFilter(width int, effort Effort) *filter {
	f := &filter{effort: effort, current: make([]byte, width*3), previous: make([]byte, width*3)}
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
	if least == 0 || f.effort == Quick {
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

// Eight bytes of a word are worked on side by side in what follows.
const (
	topBits = 0x8080808080808080
	ones    = 0x0101010101010101
	evens   = 0x00FF00FF00FF00FF
)

// subtract subtracts the bytes of b from those of a, each for itself.
func subtract(a, b uint64) uint64 {
	return ((a | topBits) - (b &^ topBits)) ^ ((a ^ ^b) & topBits)
}

// sizes are the distances of the bytes of w from zero, going the shorter way round.
func sizes(w uint64) uint64 {
	negative := w >> 7 & ones
	return (w ^ negative*0xFF) + negative
}

// size is the distance of a byte from zero, going the shorter way round.
func size(b byte) int { return abs(int(int8(b))) }

// tally adds up sizes of bytes, eight at a time. The zero value is nothing.
type tally struct {
	sum   int
	pairs uint64 // four sums of 16 bits
	added int    // since they were emptied
}

func (t *tally) add(sizes uint64) {
	t.pairs += sizes&evens + sizes>>8&evens
	if t.added++; t.added == 255 { // each adds 256 at most
		t.total()
	}
}

func (t *tally) total() int {
	for ; t.pairs > 0; t.pairs >>= 16 {
		t.sum += int(t.pairs & 0xFFFF)
	}
	t.added = 0
	return t.sum
}

func magnitude(row []byte) int {
	var t tally
	for len(row) >= 8 {
		t.add(sizes(binary.LittleEndian.Uint64(row)))
		row = row[8:]
	}
	n := t.total()
	for _, b := range row {
		n += size(b)
	}
	return n
}

// difference writes a-b to dst and returns the sum of sizes.
func difference(dst, a, b []byte) int {
	b, dst = b[:len(a)], dst[:len(a)]
	var t tally
	for len(a) >= 8 && len(b) >= 8 && len(dst) >= 8 {
		d := subtract(binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b))
		binary.LittleEndian.PutUint64(dst, d)
		if d != 0 {
			t.add(sizes(d))
		}
		a, b, dst = a[8:], b[8:], dst[8:]
	}
	n := t.total()
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
	for i := 0; i < len(row); i++ {
		if i >= 3 && i+8 <= len(row) {
			here, left := binary.LittleEndian.Uint64(row[i:]), binary.LittleEndian.Uint64(row[i-3:])
			above, corner := binary.LittleEndian.Uint64(up[i:]), binary.LittleEndian.Uint64(up[i-3:])
			// Where nothing changes downwards, or nothing to the right, the
			// prediction is right.
			if here == above && left == corner || here == left && above == corner {
				binary.LittleEndian.PutUint64(dst[i:], 0)
				i += 7
				continue
			}
		}
		left, corner := 0, 0
		if i >= 3 {
			left, corner = int(row[i-3]), int(up[i-3])
		}
		d := row[i] - byte(paeth(left, int(up[i]), corner))
		dst[i] = d
		n += size(d)
		if n >= least {
			return false
		}
	}
	return true
}
