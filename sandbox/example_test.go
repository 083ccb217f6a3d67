//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/sandbox"
	"github.com/loupe-tools/loupe/vision"
)

// A desktop with a terminal and no network, into which a model's turn types.
func Example() {
	ctx := context.Background()
	desk, err := sandbox.Start(ctx, &sandbox.Options{Apps: []string{"xterm"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = desk.Close() }()

	hands, err := computer.New(desk.Display(), &computer.Options{Limits: vision.HighResolution, Confirm: computer.ApproveAll})
	if err != nil {
		log.Fatal(err)
	}
	turn, err := computer.ParseTurn([]byte(`[
		{"type": "tool_use", "id": "1", "toolset_name": "computer", "name": "type", "input": {"text": "echo An old silent pond > haiku.txt\n"}},
		{"type": "tool_use", "id": "2", "toolset_name": "computer", "name": "screenshot", "input": {}}
	]`))
	if err != nil {
		log.Fatal(err)
	}
	for _, result := range hands.Run(ctx, turn) {
		if result.IsError {
			log.Fatal(result)
		}
	}

	text, err := desk.Command("cat", "haiku.txt").Output(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(text))
	// Output: An old silent pond
}
