package claudetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
)

// longString is from where on a string stands as its name, see nameOf.
const longString = 4096

// nameOf is a short text that stands for a long one.
func nameOf[T string | []byte](text T) string {
	return fmt.Sprintf("@%d:%x", len(text), sha256.Sum256([]byte(text)))
}

// blobs keeps the base64 of images once, however often it is sent: a conversation of
// 40 turns sends its first image 40 times. Safe for concurrent use.
type blobs struct {
	mu   sync.Mutex
	data map[string]string
	read map[string]picture
}

// picture is what an image's bytes say of it.
type picture struct {
	kind          string // media type; "" is none that the API takes
	width, height int    // pixels; 0 when the header cannot be read
	invalid       bool   // not base64
}

func newBlobs() *blobs { return &blobs{data: map[string]string{}, read: map[string]picture{}} }

// shorten replaces every long "data" string of base64 in a body by its name, so that
// the body can be read many times at little cost, and returns the names.
func (b *blobs) shorten(body []byte) (short []byte, names []string) {
	rest := body
	for {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			break
		}
		end := stringEnd(rest[start+1:])
		if end < 0 {
			break
		}
		text := rest[start+1 : start+1+end]
		short = append(short, rest[:start+1]...)
		if len(text) > longString && underData(short) && isBase64(text) {
			name := b.keep(text)
			names = append(names, name)
			short = append(short, name...)
		} else {
			short = append(short, text...)
		}
		short = append(short, '"')
		rest = rest[start+1+end+1:]
	}
	return append(short, rest...), names
}

// stringEnd is the length of the JSON string whose text begins here; -1 when it does
// not end.
func stringEnd(text []byte) int {
	at := 0
	for {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return -1
		}
		at += quote
		escapes := 0
		for escapes < at && text[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
		at++
	}
}

// underData says whether the string that opens at the end of text is the value of a
// field "data".
func underData(text []byte) bool {
	before := bytes.TrimRight(text[:len(text)-1], " \t\r\n")
	before, colon := bytes.CutSuffix(before, []byte(":"))
	return colon && bytes.HasSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(`"data"`))
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

func isBase64(text []byte) bool { return len(bytes.TrimLeft(text, base64Alphabet)) == 0 }

func (b *blobs) keep(text []byte) string {
	name := nameOf(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.data[name]; !ok {
		b.data[name] = string(text)
	}
	return name
}

// restore returns the text that a name stands for; any other text is itself.
func (b *blobs) restore(text string) string {
	if !strings.HasPrefix(text, "@") {
		return text
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if data, ok := b.data[text]; ok {
		return data
	}
	return text
}

// inspect reads an image's header, once for every image.
func (b *blobs) inspect(name, data string) picture {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.read[name]
	if !ok {
		p = inspect(data)
		b.read[name] = p
	}
	return p
}
