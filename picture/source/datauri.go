package source

import (
	"encoding/base64"
	"strings"
)

const dataName = "data URI"

// readDataURI decodes data:[type][;parameter...][;base64],data (RFC 2397). The type
// is ignored: the bytes say what they are. Base64 is taken as it is met in practice:
// either alphabet, padded or not, with white space, percent-encoded where somebody
// thought it necessary. The data may be followed by a fragment, which is dropped.
func readDataURI(ref string, o *Options) (*Input, error) {
	data, err := decodeDataURI(ref, o.maxBytes())
	if err != nil {
		return nil, err
	}
	return &Input{Name: dataName, Data: data}, nil
}

func decodeDataURI(ref string, limit int64) ([]byte, error) {
	header, body, ok := strings.Cut(ref[len("data:"):], ",")
	if !ok {
		return nil, fail(dataName, ErrInvalid, "The data URI has no comma between its type and its data; it looks like data:image/png;base64,AAAA.")
	}
	body, _, _ = strings.Cut(body, "#")

	text, at := percentDecode(body)
	if at >= 0 {
		return nil, fail(dataName, ErrInvalid, "The data URI has a %% without two hexadecimal digits at byte %d of its data; encode it again.", at)
	}
	const mark = ";base64"
	header = strings.TrimRight(header, " ")
	if len(header) < len(mark) || !strings.EqualFold(header[len(header)-len(mark):], mark) {
		if int64(len(text)) > limit {
			return nil, tooLarge(dataName, limit)
		}
		return text, nil
	}

	text = compactBase64(text)
	if int64(base64.RawStdEncoding.DecodedLen(len(text))) > limit {
		return nil, tooLarge(dataName, limit)
	}
	n, err := base64.RawStdEncoding.Decode(text, text)
	if err != nil {
		return nil, fail(dataName, ErrInvalid, "The data URI does not hold valid base64; encode it again, and check that it was not cut off.")
	}
	return text[:n], nil
}

// percentDecode resolves %XX, and reports where an incomplete one is, else -1. A plus
// sign stays one: this is no form.
func percentDecode(s string) (decoded []byte, bad int) {
	decoded = make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			decoded = append(decoded, s[i])
			continue
		}
		if i+2 >= len(s) {
			return nil, i
		}
		high, ok1 := unhex(s[i+1])
		low, ok2 := unhex(s[i+2])
		if !ok1 || !ok2 {
			return nil, i
		}
		decoded = append(decoded, high<<4|low)
		i += 2
	}
	return decoded, -1
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// compactBase64 brings base64 into the one form that the decoder takes, in place:
// the standard alphabet, no white space, no padding.
func compactBase64(s []byte) []byte {
	kept := s[:0]
	for _, c := range s {
		switch c {
		case ' ', '\t', '\r', '\n', '\f':
			continue
		case '-':
			c = '+'
		case '_':
			c = '/'
		}
		kept = append(kept, c)
	}
	for i := 0; i < 2 && len(kept) > 0 && kept[len(kept)-1] == '='; i++ {
		kept = kept[:len(kept)-1]
	}
	return kept
}
