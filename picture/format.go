package picture

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// Format is the kind of a file, as found from its bytes.
type Format string

// The formats that are decoded.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
	GIF  Format = "gif"
	WebP Format = "webp"
	TIFF Format = "tiff"
	BMP  Format = "bmp"
)

// Name is what a person calls the format.
func (f Format) Name() string {
	if f == WebP {
		return "WebP"
	}
	return strings.ToUpper(string(f))
}

// MediaType is the format's registered name, such as "image/png".
func (f Format) MediaType() string { return "image/" + string(f) }

// sniffed is how much of a file's beginning is looked at, in bytes.
const sniffed = 1024

// Sniff tells the format of a file from its first bytes; 1024 are enough. It
// never looks at a name. Where the format is not one that is decoded the error
// wraps [ErrEmpty], [ErrUnknownFormat], [ErrUnsupported] or [ErrTruncated].
func Sniff(head []byte) (Format, error) {
	head = head[:min(len(head), sniffed)]
	if len(head) == 0 {
		return "", &failure{kind: ErrEmpty, sentence: "this file is empty, there is no picture in it"}
	}
	has := func(prefix string) bool { return bytes.HasPrefix(head, []byte(prefix)) }
	switch {
	case has("\x89PNG\r\n\x1a\n"):
		return PNG, nil
	case has("\xff\xd8\xff"):
		return JPEG, nil
	case has("GIF87a"), has("GIF89a"):
		return GIF, nil
	case has("RIFF") && len(head) >= 12 && string(head[8:12]) == "WEBP":
		return WebP, nil
	case has("II*\x00"), has("MM\x00*"):
		return TIFF, nil
	case has("BM") && isBMP(head):
		return BMP, nil
	}
	for _, beginning := range []struct {
		format Format
		bytes  string
	}{{PNG, "\x89PNG\r\n\x1a\n"}, {GIF, "GIF89a"}, {GIF, "GIF87a"}, {JPEG, "\xff\xd8\xff"}} {
		if len(head) >= 2 && strings.HasPrefix(beginning.bytes, string(head)) {
			return "", &failure{
				kind:     ErrTruncated,
				sentence: "this " + beginning.format.Name() + " file is incomplete (only its first bytes are there); get the whole file again",
			}
		}
	}
	if name := foreign(head); name != "" {
		return "", &failure{
			kind:     ErrUnsupported,
			sentence: "this is " + name + ", which cannot be read as a picture here; convert it to PNG or JPEG first",
		}
	}
	sentence := "these bytes are not a picture of a known kind"
	if isText(head) {
		sentence = "this is a text file, not a picture"
	}
	return "", &failure{
		kind:     ErrUnknownFormat,
		sentence: sentence + "; give a PNG, JPEG, GIF, WebP, TIFF or BMP file",
	}
}

// isBMP asks for a known header size, since "BM" alone begins many a text.
func isBMP(head []byte) bool {
	if len(head) < 18 {
		return false
	}
	switch binary.LittleEndian.Uint32(head[14:]) {
	case 12, 16, 40, 52, 56, 64, 108, 124:
		return true
	}
	return false
}

// foreign names a format that is recognised and not decoded, with its article.
func foreign(head []byte) string {
	if len(head) >= 12 && string(head[4:8]) == "ftyp" {
		// A list of compatible brands follows the first one.
		brands := head[8:min(len(head), 64)]
		if bytes.Contains(brands, []byte("avif")) || bytes.Contains(brands, []byte("avis")) {
			return "an AVIF file"
		}
		switch string(brands[:4]) {
		case "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1":
			return "a HEIC file"
		case "crx ":
			return "a camera's raw file (CR3)"
		}
		return "a video (MP4)"
	}
	for _, known := range []struct{ prefix, name string }{
		{"%!PS", "a PostScript file"},
		{"\x00\x00\x00\x0cJXL \r\n\x87\n", "a JPEG XL file"},
		{"\xff\x0a", "a JPEG XL file"},
		{"\x00\x00\x00\x0cjP  \r\n\x87\n", "a JPEG 2000 file"},
		{"\xff\x4f\xff\x51", "a JPEG 2000 file"},
		{"8BPS", "a Photoshop file"},
		{"gimp xcf", "a GIMP file"},
		{"II+\x00", "a BigTIFF file"},
		{"MM\x00+", "a BigTIFF file"},
		{"II\xbc\x01", "a JPEG XR file"},
		{"IIRO", "a camera's raw file (ORF)"},
		{"IIU\x00", "a camera's raw file (RW2)"},
		{"FUJIFILMCCD-RAW", "a camera's raw file (RAF)"},
		{"\x00\x00\x01\x00", "an icon file (ICO)"},
		{"qoif", "a QOI file"},
		{"DDS ", "a DDS texture"},
		{"\x76\x2f\x31\x01", "an OpenEXR file"},
		{"#?RADIANCE", "a Radiance HDR file"},
		{"AT&TFORM", "a DjVu file"},
		{"\xd7\xcd\xc6\x9a", "a Windows metafile (WMF)"},
		{"\x1aE\xdf\xa3", "a video (Matroska or WebM)"},
		{"PK\x03\x04", "a ZIP archive or an office document"},
		{"\x1f\x8b", "a gzip archive"},
		{"P1\n", "a PBM file"}, {"P2\n", "a PGM file"}, {"P3\n", "a PPM file"},
		{"P4\n", "a PBM file"}, {"P5\n", "a PGM file"}, {"P6\n", "a PPM file"},
	} {
		if bytes.HasPrefix(head, []byte(known.prefix)) {
			return known.name
		}
	}
	if bytes.Contains(head, []byte("%PDF-")) {
		return "a PDF document"
	}
	if isText(head) {
		text := bytes.ToLower(bytes.TrimLeft(head, "\ufeff \t\r\n"))
		markup := func(tag string) bool {
			return bytes.HasPrefix(text, []byte("<")) && bytes.Contains(text, []byte(tag))
		}
		switch {
		case markup("<html"), markup("<!doctype html"):
			return "a web page (HTML)"
		case markup("<svg"):
			return "an SVG drawing"
		}
	}
	return ""
}

// isText says whether head could be the beginning of a text in UTF-8.
func isText(head []byte) bool {
	for i := 0; i < len(head); {
		r, n := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && n == 1 && len(head)-i >= utf8.UTFMax {
			return false
		}
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' && r != 0x1b {
			return false
		}
		i += n
	}
	return true
}
