package computer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/vision"
)

// exampleClient answers from a script, so that the example needs neither a key nor a
// network. With a key, anthropic.NewClient() takes its place.
func exampleClient(script ...claudetest.Turn) (client anthropic.Client, end func()) {
	handler := claudetest.NewHandler(nil, script...)
	server := httptest.NewServer(handler)
	return anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey(claudetest.Key)), func() {
		handler.Close()
		server.CloseClientConnections()
		server.Close()
	}
}

// The toolset beside the SDK's own types: a conversation goes on until the model makes no
// more calls.
func ExampleToolset_Answer() {
	client, end := exampleClient(
		claudetest.Say(
			claudetest.Member("computer", "left_click", `{"coordinate": [400, 300]}`),
			claudetest.Member("computer", "screenshot", `{}`)),
		claudetest.Answer("The button is pressed."))
	defer end()

	desktop := computertest.NewFake(1280, 800) // or x11.Open(ctx, ":1", nil)
	limits, _ := vision.LimitsFor("claude-opus-4-8")
	hands, err := computer.New(desktop, &computer.Options{Limits: limits})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hands.Close()
	request := anthropic.BetaMessageNewParams{
		Model: "claude-opus-4-8", MaxTokens: 2000, Tools: hands.Declare(),
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Press the button."))},
	}
	for {
		message, err := client.Beta.Messages.New(context.Background(), request)
		if err != nil {
			fmt.Println(err)
			return
		}
		var calls []anthropic.BetaToolUseBlock
		for _, block := range message.Content {
			switch b := block.AsAny().(type) {
			case anthropic.BetaTextBlock:
				fmt.Println("text:", b.Text)
			case anthropic.BetaToolUseBlock: // other tools' calls would be kept apart here, by ToolsetName
				fmt.Println("call:", b.ToolsetName, b.Name)
				calls = append(calls, b)
			}
		}
		if len(calls) == 0 {
			break
		}
		var answers []anthropic.BetaContentBlockParamUnion
		for _, result := range hands.Answer(context.Background(), calls, vision.Allowance{Images: 20}) {
			answers = append(answers, anthropic.BetaContentBlockParamUnion{OfToolResult: &result})
		}
		request.Messages = append(request.Messages, message.ToParam(), anthropic.NewBetaUserMessage(answers...))
	}
	fmt.Println("clicked at", desktop.Clicks()[0].Point)
	// Output:
	// call: computer left_click
	// call: computer screenshot
	// text: The button is pressed.
	// clicked at (400,300)
}

// A turn in the wire's form, without the SDK.
func ExampleToolset_Run() {
	turn, err := computer.ParseTurn([]byte(`[
		{"type": "text", "text": "I press it."},
		{"type": "tool_use", "id": "toolu_1", "name": "left_click", "toolset_name": "computer", "input": {"coordinate": [40, 900]}},
		{"type": "tool_use", "id": "toolu_2", "name": "screenshot", "toolset_name": "computer", "input": {}}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	hands, err := computer.New(computertest.NewFake(1280, 800), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	encoder := json.NewEncoder(os.Stdout)
	for _, result := range hands.Run(context.Background(), turn) {
		if err := encoder.Encode(result); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// {"type":"tool_result","tool_use_id":"toolu_1","toolset_name":"computer","is_error":true,"content":[{"type":"text","text":"The coordinate (40, 900) is outside the screenshot of 1280x800 pixels: x goes from 0 to 1279 and y from 0 to 799."}]}
	// {"type":"tool_result","tool_use_id":"toolu_2","toolset_name":"computer","is_error":true,"content":[{"type":"text","text":"Not executed: an earlier computer action in this turn failed."}]}
}
