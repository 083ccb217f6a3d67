package computer_test

import (
	"context"
	"encoding/json"
	"image"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
)

// mortal is a desktop that is gone after some time.
type mortal struct {
	*computertest.Fake
	end time.Time
}

func (m *mortal) Size(ctx context.Context) (image.Point, error) {
	if time.Now().After(m.end) {
		return image.Point{}, computer.ErrClosed
	}
	return m.Fake.Size(ctx)
}

// TestIdle: a display that dies ends a block that only waits, long before its time.
func TestIdle(t *testing.T) {
	for name, input := range map[string]string{"wait": `{"duration": 300}`, "hold_key": `{"text": "a", "duration": 300}`} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			desktop := &mortal{Fake: computertest.NewFake(640, 480), end: start.Add(10 * time.Second)}
			hands, err := computer.New(desktop, &computer.Options{Confirm: computer.ApproveAll})
			if err != nil {
				t.Fatal(err)
			}
			result := hands.Run(t.Context(), []computer.ToolUse{{ID: "1", Name: name, ToolsetName: computer.ToolsetName, Input: json.RawMessage(input)}})[0]
			const want = "The display cannot be reached any more."
			if !result.IsError || result.Content[0].Text != want {
				t.Errorf("%s: %q, want %q", name, result.Content[0].Text, want)
			}
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("%s ended after %v of the bubble's time", name, took)
			}
		})
	}
}
