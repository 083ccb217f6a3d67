package claudetest_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/loupe-tools/loupe/internal/claudetest"
)

// A request near the limit: 20 images of about 1.2 MB of base64 each.
func BenchmarkLargeRequest(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	m := image.NewGray(image.Rect(0, 0, 1000, 900))
	for i := range m.Pix {
		m.Pix[i] = byte(random.Uint32())
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		b.Fatal(err)
	}
	one := fmt.Sprintf(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}}`,
		base64.StdEncoding.EncodeToString(out.Bytes()))
	var images []string
	for range 20 {
		images = append(images, one)
	}
	body := request(messages(list(images...)))
	double := claudetest.NewHandler(nil, claudetest.Always(func(*claudetest.Request) claudetest.Turn {
		return claudetest.Answer("Fine.")
	}))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		req := httptest.NewRequest(http.MethodPost, "/v1/messages", bytes.NewReader([]byte(body)))
		req.Header.Set("X-Api-Key", claudetest.Key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
		w := httptest.NewRecorder()
		double.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
