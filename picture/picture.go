package picture

import (
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// Default limits of [DecodeOptions].
const (
	DefaultMaxBytes  = 512 << 20
	DefaultMaxPixels = 100_000_000
)

// DecodeOptions bounds what a file may cost. The zero value, and nil, mean the
// defaults.
type DecodeOptions struct {
	// MaxBytes is the largest file, in bytes. 0 means DefaultMaxBytes.
	MaxBytes int64
	// MaxPixels is the largest width times height, as the header claims it;
	// it is checked before any pixel is decoded. Decoding takes 4 bytes a
	// pixel, and up to twice that for a moment when EXIF turns the picture.
	// 0 means DefaultMaxPixels.
	MaxPixels int64
}

func (o *DecodeOptions) maxBytes() int64 {
	if o == nil || o.MaxBytes <= 0 {
		return DefaultMaxBytes
	}
	return o.MaxBytes
}

func (o *DecodeOptions) maxPixels() int64 {
	if o == nil || o.MaxPixels <= 0 {
		return DefaultMaxPixels
	}
	return o.MaxPixels
}

// collectFrom is the size in bytes from which on it pays to collect garbage
// before another buffer of that size is made.
const collectFrom = 64 << 20

// check refuses a size over the limit.
func (o *DecodeOptions) check(format Format, width, height int) error {
	if width > 0 && height > 0 && int64(width) > o.maxPixels()/int64(height) {
		return &failure{
			kind: ErrTooLarge,
			sentence: fmt.Sprintf("this %s file claims %d x %d pixels, the limit is %d in all; give a smaller picture or raise the limit",
				format.Name(), width, height, o.maxPixels()),
		}
	}
	return nil
}

// Picture is a decoded picture. The caller owns it.
type Picture struct {
	// Image is opaque, has its origin at (0,0) and no padding between rows.
	// It is upright: the orientation has been applied.
	Image *image.RGBA
	// Format is the kind of file that it came from.
	Format Format
	// Orientation is the EXIF orientation that the file asked for, 1 to 8.
	Orientation int
	// Frames is the number of frames or pages in the file; Image is the first.
	Frames int
	// Notes has a sentence for each thing a user should know about how Image
	// differs from the file, such as that it is one of several frames.
	Notes []string
}

// Decode reads one picture to the end of r. The bytes alone say what it is.
// At most MaxBytes+1 bytes are read. See the package documentation for what is
// decoded and how, and [ErrEmpty] and its neighbours for the errors; after an
// error there is no picture at all.
//
// Decode may be called from several goroutines at once, with the same options.
func Decode(r io.Reader, o *DecodeOptions) (*Picture, error) {
	head := make([]byte, sniffed)
	n, err := io.ReadFull(r, head)
	head = head[:n]
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !ended {
		return nil, fmt.Errorf("the picture could not be read: %w", err)
	}
	if ended {
		return DecodeBytes(head, o)
	}
	if _, err := Sniff(head); err != nil { // before the rest is read
		return nil, err
	}
	data, err := readRest(head, r, o.maxBytes())
	if err != nil {
		return nil, err
	}
	return DecodeBytes(data, o)
}

// DecodeBytes decodes the picture in data, as [Decode] does, without a copy of
// it. data is not changed, and not referred to afterwards.
func DecodeBytes(data []byte, o *DecodeOptions) (*Picture, error) {
	format, err := Sniff(data)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > o.maxBytes() {
		return nil, tooManyBytes(o.maxBytes())
	}
	p, err := decodeAs(format, data, o)
	if err != nil {
		return nil, err
	}
	p.Format = format
	p.Frames = max(p.Frames, 1)
	p.Orientation = max(p.Orientation, 1)
	if p.Orientation >= 5 && len(p.Image.Pix) >= collectFrom {
		// A second buffer is about to be made. The file, which may be larger
		// than the pixels, is garbage by now; left to itself the collector
		// would wait until all three are there.
		runtime.GC()
	}
	p.Image = orient(p.Image, p.Orientation)
	return p, nil
}

// decodeAs decodes data of a known format. Not all decoders are ours; should
// one panic, that is a damaged file and not the end of the program.
func decodeAs(format Format, data []byte, o *DecodeOptions) (p *Picture, err error) {
	defer func() {
		if v := recover(); v != nil {
			p, err = nil, corrupt(format, fmt.Errorf("%w: %v", errPanic, v))
		}
	}()
	switch format {
	case PNG:
		return decodePNG(data, o)
	case JPEG:
		return decodeJPEG(data, o)
	case GIF:
		return decodeGIF(data, o)
	case WebP:
		return decodeWebP(data, o)
	case TIFF:
		return decodeTIFF(data, o)
	case BMP:
		return decodeBMP(data, o)
	}
	return nil, unsupported(format, "of a kind without a decoder")
}

var errPanic = errors.New("the decoder failed")

// Open decodes the file at path. Beside the errors of [Decode], which are
// given with the path in front, it returns those of opening a file, and
// [ErrDirectory].
func Open(path string, o *DecodeOptions) (*Picture, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &failure{kind: fs.ErrNotExist, sentence: path + ": there is no such file; check the name", cause: err}
		}
		return nil, fmt.Errorf("%s: the file cannot be opened: %w", path, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &failure{kind: ErrDirectory, sentence: path + ": this is a directory; give the path of a picture in it"}
	}
	p, err := Decode(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func tooManyBytes(limit int64) error {
	return &failure{
		kind:     ErrTooLarge,
		sentence: fmt.Sprintf("this file is larger than the limit of %d bytes; give a smaller one or raise the limit", limit),
	}
}

// readRest reads r to its end, behind head. Where the length can be known the
// buffer is made once, since growing one means holding the file twice.
func readRest(head []byte, r io.Reader, limit int64) ([]byte, error) {
	size := int64(0)
	switch r := r.(type) {
	case interface{ Len() int }:
		size = int64(len(head) + r.Len())
	case *os.File:
		if info, err := r.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	if size > limit {
		return nil, tooManyBytes(limit)
	}
	r = io.LimitReader(r, limit+1-int64(len(head)))
	parts, total := [][]byte{}, int64(0)
	part := make([]byte, len(head), max(size+1, 64<<10))
	copy(part, head)
	for {
		n, err := r.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("the picture could not be read: %w", err)
		}
		if err == io.EOF || len(part) == cap(part) {
			parts = append(parts, part)
			total += int64(len(part))
			if total > limit {
				return nil, tooManyBytes(limit)
			}
			if err == io.EOF {
				break
			}
			part = make([]byte, 0, min(max(total, 64<<10), 16<<20))
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	data := make([]byte, 0, total)
	for _, part := range parts {
		data = append(data, part...)
	}
	return data, nil
}

// firstOf is the note for a file of several frames or pages.
func firstOf(n int, what string) []string {
	if n <= 1 {
		return nil
	}
	return []string{fmt.Sprintf("the first of %d %s is used", n, what)}
}
