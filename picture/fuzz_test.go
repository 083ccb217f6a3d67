package picture_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/picture"
)

// seeds adds small files of every kind.
func seeds(f *testing.F) {
	std := goroot(f)
	for _, pattern := range []string{
		filepath.Join(generated(f), "*"),
		"testdata/samples/*",
		filepath.Join(std, "png", "testdata", "pngsuite", "ft*.png"),
		filepath.Join(std, "png", "testdata", "invalid-*.png"),
		filepath.Join(exifSamples, "f?-exif.jpg"),
		filepath.Join(exifSamples, "FailedHash*.jpg"),
		filepath.Join(moreSamples, "bw-*.tiff"),
		filepath.Join(moreSamples, "no_*.tiff"),
		filepath.Join(moreSamples, "yellow_rose-small*.bmp"),
		filepath.Join(moreSamples, "gopher-doc.?bpp.lossless.webp"),
	} {
		for _, path := range list(f, pattern) {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			if len(data) < 16<<10 {
				f.Add(data)
			}
		}
	}
}

// runLengths is a BMP file of 5 x 3 pixels with a run, single pixels, a skip
// and a short line, with four bits a pixel.
func runLengths() []byte {
	const red, green, blue = "\x00\x00\xff\x00", "\x00\xff\x00\x00", "\xff\x00\x00\x00"
	pixels := "\x05\x12" + "\x00\x00" + // the lowest row: green blue green blue green
		"\x00\x03\x21\x20" + "\x00\x00" + // blue green blue, the rest left out
		"\x00\x02\x03\x00" + "\x02\x11" + "\x00\x01" // three left out, two green
	return []byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x42\x00\x00\x00" +
		"\x28\x00\x00\x00\x05\x00\x00\x00\x03\x00\x00\x00\x01\x00\x04\x00\x02\x00\x00\x00" +
		strings.Repeat("\x00", 12) + "\x03\x00\x00\x00\x00\x00\x00\x00" + red + green + blue + pixels)
}

// kinds are all the ways in which a decoder may refuse.
var kinds = []error{
	picture.ErrEmpty, picture.ErrUnknownFormat, picture.ErrUnsupported, picture.ErrTooLarge, picture.ErrCorrupt, picture.ErrTruncated,
}

func refused(err error) bool {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// FuzzSniff: any beginning is either a format or refused in a known way, and
// more than the first bytes changes nothing.
func FuzzSniff(f *testing.F) {
	seeds(f)
	for _, text := range []string{"", "BM", "GIF89a", "RIFF\x00\x00\x00\x00WEBP", "%PDF-1.4", "<svg>", "\xff\x0a", "\x00\x00\x00\x1cftypavif"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		format, err := picture.Sniff(data)
		if (format == "") == (err == nil) {
			t.Fatalf("format %q with error %v", format, err)
		}
		if err != nil && !refused(err) {
			t.Fatalf("an error of no known kind: %v", err)
		}
		if len(data) > 1024 {
			if again, _ := picture.Sniff(data[:1024]); again != format {
				t.Fatalf("%q from all, %q from the beginning", format, again)
			}
		}
	})
}

// FuzzDecode: any bytes are either a well-formed picture within the limit or
// refused in a known way.
func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Add(runLengths())
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 16
		before := bytes.Clone(data)
		p, err := picture.DecodeBytes(data, &picture.DecodeOptions{MaxPixels: limit, MaxBytes: 1 << 20})
		if !bytes.Equal(data, before) {
			t.Fatal("the data was changed")
		}
		if err != nil {
			if p != nil || !refused(err) || strings.Contains(err.Error(), "the decoder failed") {
				t.Fatalf("%v, %v", p, err)
			}
			return
		}
		wellFormed(t, p)
		if n := len(p.Image.Pix) / 4; n > limit {
			t.Fatalf("%d pixels", n)
		}
	})
}
