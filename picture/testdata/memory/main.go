// Command memory makes large pictures and measures what one costs from file to
// answer. It is a program of its own so that a test can build it without the
// race detector, which would multiply the memory.
//
//	memory make KIND FILE   writes a picture of 8000 x 6000 pixels
//	memory use FILE         decodes it, makes a view and a zoom, encodes both,
//	                        and prints the peak of resident memory in KiB
package main

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"log"
	"os"
	"strings"

	"github.com/loupe-tools/loupe/picture"
)

const width, height = 8000, 6000

// turned is an EXIF block with orientation 6.
const turned = "MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"

func main() {
	log.SetFlags(0)
	args := append(os.Args[1:], "", "", "")
	switch args[0] {
	case "make":
		if err := write(args[1], args[2]); err != nil {
			log.Fatal(err)
		}
	case "use":
		if err := use(args[1]); err != nil {
			log.Fatal(err)
		}
	default:
		log.Fatal("usage: memory make KIND FILE | memory use FILE")
	}
}

// sample has smooth parts and a hash for grain, so that files are as large as
// photographs are.
func sample(x, y, c int) uint16 {
	h := uint32(x*73856093 ^ y*19349663 ^ c*83492791)
	h ^= h >> 13
	h *= 0x5bd1e995
	return uint16(x*8/(c+1)+y*5) + uint16(h>>24)<<2
}

func write(kind, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	switch kind {
	case "png":
		err = writePNG(w, 8, false)
	case "interlaced":
		err = writePNG(w, 16, true) // and turned
	case "jpeg": // turned too
		m := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				for c := range 3 {
					m.Pix[y*m.Stride+x*4+c] = byte(sample(x, y, c) >> 8)
				}
			}
		}
		var b bytes.Buffer
		if err := picture.EncodeJPEG(&b, m); err != nil {
			return err
		}
		w.Write([]byte{0xFF, 0xD8, 0xFF, 0xE1, 0, byte(len("Exif\x00\x00"+turned) + 2)})
		w.WriteString("Exif\x00\x00" + turned)
		_, err = w.Write(b.Bytes()[2:])
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

func writePNG(w *bufio.Writer, depth int, interlaced bool) error {
	w.WriteString("\x89PNG\r\n\x1a\n")
	head := binary.BigEndian.AppendUint32(nil, width)
	head = binary.BigEndian.AppendUint32(head, height)
	head = append(head, byte(depth), 2, 0, 0, 0)
	passes := [][4]int{{0, 0, 1, 1}}
	if interlaced {
		head[12] = 1
		passes = [][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}
	}
	chunk(w, "IHDR", head)
	if interlaced {
		chunk(w, "eXIf", []byte(turned))
	}
	idat := &chunks{w: w}
	z, err := zlib.NewWriterLevel(idat, zlib.BestSpeed)
	if err != nil {
		return err
	}
	for _, p := range passes {
		for y := p[1]; y < height; y += p[3] {
			row := []byte{0}
			for x := p[0]; x < width; x += p[2] {
				for c := range 3 {
					v := sample(x, y, c)
					row = append(row, byte(v>>8))
					if depth == 16 {
						row = append(row, byte(v))
					}
				}
			}
			if _, err := z.Write(row); err != nil {
				return err
			}
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	idat.flush()
	chunk(w, "IEND", nil)
	return nil
}

type chunks struct {
	w   *bufio.Writer
	buf []byte
}

func (c *chunks) Write(p []byte) (int, error) {
	if c.buf = append(c.buf, p...); len(c.buf) > 1<<20 {
		c.flush()
	}
	return len(p), nil
}

func (c *chunks) flush() {
	chunk(c.w, "IDAT", c.buf)
	c.buf = c.buf[:0]
}

func chunk(w *bufio.Writer, kind string, body []byte) {
	binary.Write(w, binary.BigEndian, uint32(len(body)))
	w.WriteString(kind)
	w.Write(body)
	sum := crc32.Update(crc32.ChecksumIEEE([]byte(kind)), crc32.IEEETable, body)
	binary.Write(w, binary.BigEndian, sum)
}

func use(path string) error {
	p, err := picture.Open(path, nil)
	if err != nil {
		return err
	}
	size := p.Image.Rect.Size()
	if size.X*size.Y != width*height {
		return fmt.Errorf("the picture is %v", size)
	}
	view := picture.Resample(p.Image, p.Image.Rect, image.Pt(size.X*2576/8000, size.Y*2576/8000))
	if _, err := picture.EncodeView(view, 0); err != nil {
		return err
	}
	zoom := picture.Resample(p.Image, image.Rect(1000, 1000, 4000, 3000), image.Pt(2576, 1717))
	if _, err := picture.EncodeZoom(zoom); err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Println(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		}
	}
	return nil
}
