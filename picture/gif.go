package picture

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
)

// Blocks of a GIF file, by their first byte.
const (
	gifExtension = 0x21
	gifImage     = 0x2C
	gifTrailer   = 0x3B

	gifGraphicControl = 0xF9
)

var (
	errGIFShort = errors.New("the file ends inside a block")
	errGIFEnd   = errors.New("the end mark is missing")
)

// gifReader walks over a GIF file.
type gifReader struct {
	rest []byte
}

func (g *gifReader) take(n int) ([]byte, error) {
	if len(g.rest) < n {
		return nil, errGIFShort
	}
	b := g.rest[:n]
	g.rest = g.rest[n:]
	return b, nil
}

// blocks walks over a chain of sub-blocks; with keep it returns their content.
func (g *gifReader) blocks(keep bool) ([]byte, error) {
	var all []byte
	for {
		n, err := g.take(1)
		if err != nil {
			return nil, err
		}
		if n[0] == 0 {
			return all, nil
		}
		b, err := g.take(int(n[0]))
		if err != nil {
			return nil, err
		}
		if keep {
			all = append(all, b...)
		}
	}
}

// gifFrame is what is needed to draw one frame.
type gifFrame struct {
	rect       image.Rectangle // on the logical screen
	interlaced bool
	palette    []byte // RGB
	hidden     int    // transparent index, or -1
	codeSize   int
	pixels     []byte // LZW
}

// decodeGIF draws the first frame on its logical screen. What the frame does
// not cover, and its transparent pixels, are white, as in a browser on a white
// page: the background colour that the file names is not used. A frame that
// reaches beyond the screen enlarges it.
func decodeGIF(data []byte, o *DecodeOptions) (*Picture, error) {
	g := &gifReader{rest: data}
	head, err := g.take(13)
	if err != nil {
		return nil, truncated(GIF, err)
	}
	screen := image.Rect(0, 0, int(binary.LittleEndian.Uint16(head[6:])), int(binary.LittleEndian.Uint16(head[8:])))
	if err := o.check(GIF, screen.Dx(), screen.Dy()); err != nil {
		return nil, err
	}
	first, frames, err := g.frames(head[10])
	switch {
	case errors.Is(err, errGIFShort), errors.Is(err, errGIFEnd):
		return nil, truncated(GIF, err)
	case err != nil:
		return nil, corrupt(GIF, err)
	case first == nil:
		return nil, corrupt(GIF, errors.New("it has no frame"))
	}
	screen = screen.Union(image.Rectangle{Max: first.rect.Max})
	if err := o.check(GIF, screen.Dx(), screen.Dy()); err != nil {
		return nil, err
	}
	m := image.NewRGBA(screen)
	if first.rect != screen {
		for i := range m.Pix {
			m.Pix[i] = 255
		}
	}
	if err := first.draw(m); err != nil {
		return nil, corrupt(GIF, err)
	}
	return &Picture{Image: m, Frames: frames, Notes: firstOf(frames, "frames of an animation")}, nil
}

// frames walks over the whole file and returns its first frame and their
// number.
func (g *gifReader) frames(flags byte) (first *gifFrame, n int, err error) {
	global, err := g.palette(flags)
	if err != nil {
		return nil, 0, err
	}
	hidden := -1
	for {
		kind, err := g.take(1)
		if err != nil {
			return nil, 0, errGIFEnd
		}
		switch kind[0] {
		case gifTrailer:
			return first, n, nil
		case 0: // a stray block end, left by some encoders
		case gifExtension:
			label, err := g.take(1)
			if err != nil {
				return nil, 0, err
			}
			body, err := g.blocks(label[0] == gifGraphicControl && n == 0)
			if err != nil {
				return nil, 0, err
			}
			if len(body) >= 4 {
				hidden = -1
				if body[0]&1 != 0 {
					hidden = int(body[3])
				}
			}
		case gifImage:
			d, err := g.take(9)
			if err != nil {
				return nil, 0, err
			}
			local, err := g.palette(d[8])
			if err != nil {
				return nil, 0, err
			}
			codeSize, err := g.take(1)
			if err != nil {
				return nil, 0, err
			}
			pixels, err := g.blocks(n == 0)
			if err != nil {
				return nil, 0, err
			}
			if n++; n > 1 {
				continue
			}
			x, y := int(binary.LittleEndian.Uint16(d)), int(binary.LittleEndian.Uint16(d[2:]))
			w, h := int(binary.LittleEndian.Uint16(d[4:])), int(binary.LittleEndian.Uint16(d[6:]))
			first = &gifFrame{
				rect:       image.Rect(x, y, x+w, y+h),
				interlaced: d[8]&0x40 != 0,
				palette:    global,
				hidden:     hidden,
				codeSize:   int(codeSize[0]),
				pixels:     pixels,
			}
			if local != nil {
				first.palette = local
			}
		default:
			return nil, 0, fmt.Errorf("unknown block 0x%02x", kind[0])
		}
	}
}

// palette takes the colour table that flags announce, nil if none.
func (g *gifReader) palette(flags byte) ([]byte, error) {
	if flags&0x80 == 0 {
		return nil, nil
	}
	return g.take(3 << (flags&7 + 1))
}

func (f *gifFrame) draw(m *image.RGBA) error {
	if f.rect.Empty() {
		return errors.New("its first frame has no pixels")
	}
	if f.palette == nil {
		return errors.New("it has no colour table")
	}
	if f.codeSize < 2 || f.codeSize > 8 {
		return fmt.Errorf("impossible LZW code size %d", f.codeSize)
	}
	r := lzw.NewReader(bytes.NewReader(f.pixels), lzw.LSB, f.codeSize)
	defer r.Close()
	line := make([]byte, f.rect.Dx())
	row := func(y int) error {
		if _, err := io.ReadFull(r, line); err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return errors.New("not enough pixel data")
			}
			return err
		}
		out := m.Pix[m.PixOffset(f.rect.Min.X, f.rect.Min.Y+y):]
		for _, index := range line {
			switch i := int(index); {
			case i == f.hidden:
				*(*[4]byte)(out) = [4]byte{255, 255, 255, 255}
			case i*3+3 > len(f.palette):
				return fmt.Errorf("colour %d is not in the colour table", i)
			default:
				*(*[4]byte)(out) = [4]byte{f.palette[i*3], f.palette[i*3+1], f.palette[i*3+2], 255}
			}
			out = out[4:]
		}
		return nil
	}
	passes := [][2]int{{0, 1}}
	if f.interlaced {
		passes = [][2]int{{0, 8}, {4, 8}, {2, 4}, {1, 2}}
	}
	for _, p := range passes {
		for y := p[0]; y < f.rect.Dy(); y += p[1] {
			if err := row(y); err != nil {
				return err
			}
		}
	}
	return nil
}
