package computer_test

import (
	"testing"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
	"github.com/loupe-tools/loupe/vision"
)

// What the toolset itself costs, on a desktop that costs next to nothing.
func BenchmarkRun(b *testing.B) {
	fake := computertest.NewFake(1920, 1080)
	tools := toolset(b, fake, &computer.Options{Limits: vision.HighResolution})
	for name, block := range map[string][2]string{
		"left_click": {"left_click", `{"coordinate":[100,100]}`},
		"screenshot": {"screenshot", `{}`},
		"zoom":       {"zoom", `{"region":[0,0,200,120]}`},
	} {
		b.Run(name, func(b *testing.B) {
			uses := turn(block[0], block[1])
			for b.Loop() {
				if r := tools.Run(b.Context(), uses); r[0].IsError {
					b.Fatal(textOf(r[0]))
				}
			}
		})
	}
}
