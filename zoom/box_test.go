package zoom_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/zoom"
)

func TestRepairBox(t *testing.T) {
	data, err := os.ReadFile("testdata/bboxes.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Image [2]int
		Box   [4]float64  `json:"bbox_2d"`
		Crop  *[4]float64 `json:"crop"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	for _, r := range rows {
		got, ok := zoom.RepairBox(r.Box, r.Image[0], r.Image[1])
		if ok != (r.Crop != nil) || ok && got != *r.Crop {
			t.Errorf("RepairBox(%v) in %v = %v, %t, want %v", r.Box, r.Image, got, ok, r.Crop)
		}
	}
}

func TestRepairedBoxIsInsideTheImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(0, 9000).Draw(t, "width"), rapid.IntRange(0, 9000).Draw(t, "height")
		number := rapid.OneOf(rapid.Float64Range(-100, 9100), rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}))
		box := [4]float64{number.Draw(t, "x1"), number.Draw(t, "y1"), number.Draw(t, "x2"), number.Draw(t, "y2")}
		got, ok := zoom.RepairBox(box, width, height)
		if !ok {
			return
		}
		if !(got[0] >= 0 && got[1] >= 0 && got[2] <= float64(width) && got[3] <= float64(height)) ||
			got[2]-got[0] < 28 || got[3]-got[1] < 28 {
			t.Fatalf("RepairBox(%v) in %dx%d = %v", box, width, height, got)
		}
	})
}
