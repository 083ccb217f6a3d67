package source

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/url"
	"testing"
)

// FuzzDataURI: whatever follows data:, there is an *Error or at most the limit of
// bytes, never more than the text could hold, and never its data in the message. The
// same bytes, encoded anew in either way, come back.
func FuzzDataURI(f *testing.F) {
	for _, seed := range []string{
		"", ",", "image/png;base64,iVBORw0KGgo=", ";base64,iVBORw0KGgo", ";base64,a", ";base64,=", ";base64,====",
		";base64,%41%41%41%41", ";base64,-_-_", ";base64, A A\nA A ", ",%", ",%4", ",%zz", ",a#b", "text/plain;charset=utf-8,%E2%82%AC",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		const limit = 1000
		data, err := decodeDataURI("data:"+rest, limit)
		if err != nil {
			var known *Error
			if !errors.As(err, &known) || data != nil {
				t.Fatalf("%q: %d bytes and %v", rest, len(data), err)
			}
			if len(err.Error()) > 200 || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%q: %v", rest, err)
			}
			return
		}
		if len(data) > limit || len(data) > len(rest) {
			t.Fatalf("%q holds %d bytes", rest, len(data))
		}
		for _, again := range []string{
			"data:;base64," + base64.StdEncoding.EncodeToString(data),
			"data:;base64," + base64.RawURLEncoding.EncodeToString(data),
			"data:," + url.PathEscape(string(data)),
		} {
			if got, err := decodeDataURI(again, limit); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%q came back from %q as %q, %v", data, again, got, err)
			}
		}
	})
}
