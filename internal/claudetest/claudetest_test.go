package claudetest_test

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"go.uber.org/goleak"

	"github.com/loupe-tools/loupe/internal/claudetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConversationThroughTheSDK(t *testing.T) {
	double := claudetest.New(t, nil,
		claudetest.Say(claudetest.Thinking("Too small."), claudetest.Text("Looking closer."), claudetest.Zoom(1, 2, 30, 40, 0)),
		claudetest.Answer("It is 42."),
	)
	client := double.Client()
	params := anthropic.BetaMessageNewParams{
		Model: "claude-sonnet-5", MaxTokens: 1000,
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("What is it?"))},
		Tools: []anthropic.BetaToolUnionParam{{OfTool: &anthropic.BetaToolParam{
			Name: "zoom", InputSchema: anthropic.BetaToolInputSchemaParam{Properties: map[string]any{}},
		}}},
	}
	var turn anthropic.BetaMessage
	stream := client.Beta.Messages.NewStreaming(t.Context(), params)
	for stream.Next() {
		if err := turn.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if turn.StopReason != "tool_use" || len(turn.Content) != 3 || turn.Content[2].ID != "toolu_0001" {
		t.Fatalf("got %s", turn.RawJSON())
	}
	params.Messages = append(params.Messages, turn.ToParam(), anthropic.NewBetaUserMessage(
		anthropic.NewBetaToolResultBlock("toolu_0001", "nothing to see", true)))
	answer, err := client.Beta.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Content[0].Text != "It is 42." || answer.StopReason != "end_turn" {
		t.Errorf("got %s", answer.RawJSON())
	}
	if got := double.Last(); got.Number != 2 || len(got.Results()) != 1 || got.Usage.InputTokens != got.Prompt {
		t.Errorf("got %+v", got)
	}
}
