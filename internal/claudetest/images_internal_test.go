package claudetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/gif"
	"image/jpeg"
	"os"
	"testing"
)

// The double's arithmetic is its own; the rows are those that the vision room keeps.
func TestFitAgreesWithTheExpectedSizes(t *testing.T) {
	data, err := os.ReadFile("../../vision/testdata/sizing.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Width, Height, Tokens int
		Tier                  string
		Fit                   [2]int
	}
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 100 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	tiers := map[string]Model{"standard": Models()["claude-haiku-4-5"], "high": Models()["claude-sonnet-5"]}
	for _, row := range rows {
		w, h := tiers[row.Tier].fit(row.Width, row.Height)
		if [2]int{w, h} != row.Fit {
			t.Errorf("%s tier: %dx%d fits at %dx%d, want %v", row.Tier, row.Width, row.Height, w, h, row.Fit)
		}
		if got := visualTokens(row.Width, row.Height); got != row.Tokens {
			t.Errorf("%dx%d: %d tokens, want %d", row.Width, row.Height, got, row.Tokens)
		}
	}
}

func TestImageHeaders(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 301, 17))
	encode := func(write func(*bytes.Buffer) error) []byte {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	// Two black pictures of libwebp's.
	decode := func(text string) []byte {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	// An extended WebP: flags, three reserved bytes, then width - 1 and height - 1.
	extended := append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"), 44, 1, 0, 16, 0, 0)
	for _, c := range []struct {
		name, kind string
		data       []byte
	}{
		{"gif", "image/gif", encode(func(w *bytes.Buffer) error { return gif.Encode(w, m, nil) })},
		{"jpeg", "image/jpeg", encode(func(w *bytes.Buffer) error { return jpeg.Encode(w, m, nil) })},
		{"webp, lossy", "image/webp", decode("UklGRmgAAABXRUJQVlA4IFwAAABQBgCdASotAREALk02m02hJCQkBABMS0gzgzQLwB+gEj6g8Y9IrUxutLZav2ec+0btdGJcJL/SNtksYAD+/TiegV6UNtP94uiNSaM9ADn9cPQJEak0Z6AHP5/AAA==")},
		{"webp, lossless", "image/webp", decode("UklGRhoAAABXRUJQVlA4TA4AAAAvLAEEAAcQEf0PRET/Aw==")},
		{"webp, extended", "image/webp", extended},
	} {
		got := inspect(base64.StdEncoding.EncodeToString(c.data))
		if want := (picture{kind: c.kind, width: 301, height: 17}); got != want {
			t.Errorf("%s: got %+v", c.name, got)
		}
		for n := range min(len(c.data), 40) { // a header that ends early is not an image
			if got := inspect(base64.StdEncoding.EncodeToString(c.data[:n])); got.width != 0 && n < 26 {
				t.Errorf("%s, %d bytes: got %+v", c.name, n, got)
			}
		}
	}
}

// A body says the same after long base64 has been named and restored, whatever stands
// around it.
func TestShortenedBody(t *testing.T) {
	long := string(bytes.Repeat([]byte("QUJD"), 2000))
	kept := newBlobs()
	for _, c := range []struct {
		name, body string
		named      int
	}{
		{"two images", `{"a":{"data":"` + long + `"},"b":{ "data" : "` + long + `x"}}`, 2},
		{"one image twice", `[{"data":"` + long + `"},{"data":"` + long + `"}]`, 2},
		{"another field", `{"text":"` + long + `"}`, 0},
		{"the word in a string", `{"text":"\"data\":\"` + long + `"}`, 0},
		{"not base64", `{"data":"` + long + ` "}`, 0},
		{"an escape at the end", `{"data":"` + long + `\\"}`, 0},
		{"a string without an end", `{"data":"` + long, 0},
		{"nothing", ``, 0},
	} {
		r := &Request{blobs: kept}
		r.short, r.named = kept.shorten([]byte(c.body))
		if got := string(r.Body()); got != c.body || len(r.named) != c.named {
			t.Errorf("%s: %d named, want %d; the body is the same: %v", c.name, len(r.named), c.named, got == c.body)
		}
	}
	if len(kept.data) != 2 {
		t.Errorf("%d texts are kept, want 2", len(kept.data))
	}
}
