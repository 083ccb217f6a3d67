package picture_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/loupe-tools/loupe/picture"
)

func chunk(kind, body string) string {
	out := string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + kind + body
	return out + string(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(kind+body))))
}

// withChunk puts a chunk behind the header of a PNG file.
func withChunk(file []byte, kind, body string) []byte {
	return []byte(string(file[:33]) + chunk(kind, body) + string(file[33:]))
}

// hugePNG claims a size; its data is of so many zero bytes.
func hugePNG(width, height uint32, zeros int) []byte {
	head := string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)) + "\x08\x02\x00\x00\x00"
	var data bytes.Buffer
	z := zlib.NewWriter(&data)
	z.Write(make([]byte, zeros))
	z.Close()
	return []byte("\x89PNG\r\n\x1a\n" + chunk("IHDR", head) + chunk("IDAT", data.String()) + chunk("IEND", ""))
}

func tiffHeader(tags map[uint16]uint32) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("II*\x00\x08\x00\x00\x00"), uint16(len(tags)))
	for tag := uint16(0); tag < 1000; tag++ {
		if v, ok := tags[tag]; ok {
			b = binary.LittleEndian.AppendUint16(b, tag)
			b = binary.LittleEndian.AppendUint16(b, 4)
			b = binary.LittleEndian.AppendUint32(b, 1)
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return append(b, 0, 0, 0, 0)
}

// sentence checks that an error is one for a person.
func sentence(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if len(text) < 20 || len(text) > 300 || strings.ContainsAny(text, "\n\r\x00") {
		t.Errorf("not a sentence: %q", text)
	}
}

func TestClaimsAreRefusedFromTheHeader(t *testing.T) {
	bomb := hugePNG(30000, 30000, 44<<20)
	if len(bomb) < 40<<10 || len(bomb) > 50<<10 {
		t.Fatalf("the file has %d bytes", len(bomb))
	}
	for _, c := range []struct {
		name string
		data []byte
		size string
	}{
		{"PNG", bomb, "30000 x 30000"},
		{"PNG that overflows", hugePNG(1<<31-1, 1<<31-1, 1), "2147483647 x 2147483647"},
		{"GIF screen", []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00\x3b"), "65535 x 65535"},
		{"GIF frame", []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00abcdef\x2c\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x02\x44\x01\x00\x3b"), "65535 x 65535"},
		{"WebP canvas", []byte("RIFF\x28\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\xff\xff\xff\xff\xff\x00" +
			"ANMF\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), ""},
		{"TIFF", tiffHeader(map[uint16]uint32{256: 40000, 257: 50000, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 50000, 279: 4}), "40000 x 50000"},
		{"BMP", []byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x40\x9c\x00\x00\x50\xc3\x00\x00\x01\x00\x18\x00" + strings.Repeat("\x00", 64)), "40000 x 50000"},
		{"JPEG", []byte("\xff\xd8\xff\xc0\x00\x0b\x08\xff\xdc\xff\xdc\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x00\xff\xd9"), "65500 x 65500"},
	} {
		_, err := picture.Decode(bytes.NewReader(c.data), nil)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		sentence(t, err)
		if c.size == "" {
			continue
		}
		if !errors.Is(err, picture.ErrTooLarge) || !strings.Contains(err.Error(), c.size) || !strings.Contains(err.Error(), "100000000") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLimitsCanBeSet(t *testing.T) {
	var file bytes.Buffer
	if err := picture.EncodePNG(&file, scene(100, 50)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    picture.DecodeOptions
		ok   bool
	}{
		{"as many pixels as allowed", picture.DecodeOptions{MaxPixels: 5000}, true},
		{"one pixel too many", picture.DecodeOptions{MaxPixels: 4999}, false},
		{"as many bytes as allowed", picture.DecodeOptions{MaxBytes: int64(file.Len())}, true},
		{"one byte too many", picture.DecodeOptions{MaxBytes: int64(file.Len() - 1)}, false},
	} {
		for how, r := range map[string]io.Reader{
			"length known":   bytes.NewReader(file.Bytes()),
			"length unknown": struct{ io.Reader }{bytes.NewReader(file.Bytes())},
			"byte by byte":   iotest.OneByteReader(bytes.NewReader(file.Bytes())),
		} {
			_, err := picture.Decode(r, &c.o)
			if c.ok && err != nil || !c.ok && !errors.Is(err, picture.ErrTooLarge) {
				t.Errorf("%s, %s: %v", c.name, how, err)
			}
		}
	}
}

func TestNotAPicture(t *testing.T) {
	dir := t.TempDir()
	named := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ftyp := func(brand string) string { return "\x00\x00\x00\x1cftyp" + brand + "\x00\x00\x00\x00" }
	for _, c := range []struct {
		name string
		path string
		kind error
		says string
	}{
		{"none", filepath.Join(dir, "none.png"), fs.ErrNotExist, "no such file"},
		{"directory", dir, picture.ErrDirectory, "directory"},
		{"empty", named("empty.png", ""), picture.ErrEmpty, "empty"},
		{"text", named("text.png", "Dear Sir,\nhere is the picture.\n"), picture.ErrUnknownFormat, "text file"},
		{"text that begins as BMP does", named("bm.bmp", "BMW sold more cars than ever before in the last year."), picture.ErrUnknownFormat, "text file"},
		{"binary", named("binary.jpg", "\x00\x01\x02\x03\xff\xfe\x00\x00\x80"), picture.ErrUnknownFormat, "not a picture"},
		{"two bytes of PNG", named("two.png", "\x89P"), picture.ErrTruncated, "incomplete"},
		{"AVIF", named("a.png", ftyp("avif")), picture.ErrUnsupported, "AVIF"},
		{"HEIC", named("b.jpg", ftyp("heic")), picture.ErrUnsupported, "HEIC"},
		{"video", named("c.png", ftyp("isom")), picture.ErrUnsupported, "video"},
		{"PDF", named("d.png", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), picture.ErrUnsupported, "PDF"},
		{"SVG", named("e.png", "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), picture.ErrUnsupported, "SVG"},
		{"web page", named("f.png", "<!DOCTYPE html><html><body>Not found"), picture.ErrUnsupported, "web page"},
		{"ZIP", named("g.png", "PK\x03\x04\x14\x00\x00\x00"), picture.ErrUnsupported, "ZIP"},
	} {
		p, err := picture.Open(c.path, nil)
		if p != nil || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), c.path+": ") {
			t.Errorf("%s: %v, %v", c.name, p, err)
			continue
		}
		sentence(t, errors.New(strings.TrimPrefix(err.Error(), c.path)))
		for _, other := range []error{picture.ErrEmpty, picture.ErrUnknownFormat, picture.ErrUnsupported, picture.ErrTooLarge, picture.ErrTruncated, picture.ErrDirectory} {
			if !errors.Is(c.kind, other) && errors.Is(err, other) {
				t.Errorf("%s is %v too", c.name, other)
			}
		}
	}
}

func TestNameDoesNotMatter(t *testing.T) {
	var file bytes.Buffer
	if err := picture.EncodePNG(&file, scene(8, 8)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := open(t, path); p.Format != picture.PNG {
		t.Errorf("format %q", p.Format)
	}
}

func TestReaderErrorsAreWrapped(t *testing.T) {
	broken := errors.New("the line went dead")
	var file bytes.Buffer
	if err := picture.EncodePNG(&file, scene(300, 200)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 100, 2000} {
		r := io.MultiReader(bytes.NewReader(file.Bytes()[:n]), iotest.ErrReader(broken))
		if _, err := picture.Decode(r, nil); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// Whatever is cut off the end of a file, nothing of it is shown.
func TestCutFilesAreErrors(t *testing.T) {
	dir := generated(t)
	std := filepath.Join(goroot(t), "testdata")
	for _, path := range []string{
		filepath.Join(dir, "rgb.png"), filepath.Join(dir, "p-trns.png"), filepath.Join(dir, "apng.png"),
		filepath.Join(dir, "plain.jpg"), filepath.Join(dir, "plain-grey.jpg"), filepath.Join(dir, "progressive.jpg"),
		filepath.Join(dir, "cmyk.jpg"), filepath.Join(std, "video-001.restart2.jpeg"),
		filepath.Join(dir, "p.gif"), filepath.Join(dir, "animated.gif"), filepath.Join(dir, "interlaced.gif"),
		filepath.Join(dir, "lossy.webp"), filepath.Join(dir, "lossless.webp"), filepath.Join(dir, "lossy-alpha.webp"), filepath.Join(dir, "animated.webp"),
		filepath.Join(dir, "rgb-raw.tif"), filepath.Join(dir, "rgb-lzw.tif"), filepath.Join(dir, "jpeg.tif"),
		filepath.Join(dir, "l.bmp"),
	} {
		data := read(t, path)
		whole := decode(t, data).Image
		// BMP rows are padded; a cut through the last padding loses nothing.
		last := len(data) - 1
		if strings.HasSuffix(path, ".bmp") {
			last -= 3
		}
		for n := last; n > 12; n -= max(1, len(data)/150) {
			p, err := picture.Decode(bytes.NewReader(data[:n]), nil)
			if err == nil {
				t.Errorf("%s: the first %d of %d bytes give a picture", filepath.Base(path), n, len(data))
				break
			}
			if p != nil || !errors.Is(err, picture.ErrCorrupt) {
				t.Errorf("%s: the first %d bytes: %v", filepath.Base(path), n, err)
				break
			}
			sentence(t, err)
		}
		if _, err := picture.Decode(bytes.NewReader(data[:last]), nil); !errors.Is(err, picture.ErrTruncated) {
			t.Errorf("%s without its end: %v", filepath.Base(path), err)
		}
		// What follows the end is not the picture's business.
		if longer := decode(t, append(bytes.Clone(data), "trailing bytes"...)).Image; !bytes.Equal(longer.Pix, whole.Pix) {
			t.Errorf("%s with bytes behind it is another picture", filepath.Base(path))
		}
	}
}

func TestDamagedFilesAreErrors(t *testing.T) {
	std := goroot(t)
	for _, name := range []string{"invalid-crc32.png", "invalid-noend.png", "invalid-trunc.png", "invalid-zlib.png"} {
		if _, err := picture.Open(filepath.Join(std, "png", "testdata", name), nil); !errors.Is(err, picture.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	jpeg := read(t, filepath.Join(std, "testdata", "video-001.jpeg"))
	end := bytes.LastIndex(jpeg, []byte("\xff\xd9"))
	middle := end / 2
	for name, data := range map[string][]byte{
		"an end in the middle": append(bytes.Clone(jpeg[:middle]), 0xFF, 0xD9),
		"zeros instead":        append(append(bytes.Clone(jpeg[:middle]), make([]byte, end-middle)...), 0xFF, 0xD9),
	} {
		p, err := picture.Decode(bytes.NewReader(data), nil)
		if name == "zeros instead" && err == nil {
			continue // zeros are valid codes: nobody can tell
		}
		if p != nil || !errors.Is(err, picture.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := picture.Decode(bytes.NewReader(hugePNG(100, 100, 50)), nil); !errors.Is(err, picture.ErrCorrupt) {
		t.Errorf("less data than pixels: %v", err)
	}
	if _, err := picture.Decode(bytes.NewReader(hugePNG(3, 3, 5000)), nil); !errors.Is(err, picture.ErrCorrupt) {
		t.Errorf("more data than pixels: %v", err)
	}
}

// progressive is a JPEG file of 8 x 8 grey pixels in so many scans, one
// coefficient and one bit at a time; up to 896 are allowed.
func progressive(scans int) []byte {
	table := func(class byte) string { // one code of one bit, for "nothing"
		return "\xff\xc4\x00\x14" + string([]byte{class}) + "\x01" + strings.Repeat("\x00", 16)
	}
	file := "\xff\xd8" +
		"\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) +
		"\xff\xc2\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00" +
		table(0x00) + table(0x10)
	for i := range scans {
		coefficient, low := byte(i%64), byte(13-i/64)
		high := byte(0)
		if low < 13 {
			high = low + 1
		}
		file += "\xff\xda\x00\x08\x01\x01\x00" + string([]byte{coefficient, coefficient, high<<4 | low}) + "\x7f"
	}
	return []byte(file + "\xff\xd9")
}

// Every scan is a pass over the whole picture, for a dozen bytes.
func TestScanBomb(t *testing.T) {
	if !picture.JPEGAvailable {
		return // the standard library has no such limit
	}
	m := decode(t, progressive(100)).Image
	if c := m.RGBAAt(3, 3); c.R != 128 {
		t.Errorf("a hundred scans give %v", c)
	}
	if _, err := picture.Decode(bytes.NewReader(progressive(896)), nil); !errors.Is(err, picture.ErrCorrupt) || !strings.Contains(err.Error(), "more than 100 scans") {
		t.Errorf("got %v", err)
	}
}
