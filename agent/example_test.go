package agent_test

import (
	"context"
	"fmt"
	"image"
	"net/http/httptest"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

// exampleClient answers from a script, so that the examples need neither a key nor a
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

// Ask a question about an image, with the zoom tool.
func ExampleAgent_Ask() {
	client, end := exampleClient(
		claudetest.Say(claudetest.Text("I look closer."), claudetest.Zoom(100, 40, 300, 120, 0)),
		claudetest.Answer("The upper line is higher."))
	defer end()

	chart := &picture.Picture{Image: image.NewRGBA(image.Rect(0, 0, 3000, 2000))} // or picture.Open("chart.png", nil)
	a := agent.New(client, &agent.Options{Model: "claude-opus-4-7"})
	limits, _ := a.ImageLimits(1)
	tool, err := zoom.New(limits, chart)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := a.Ask(context.Background(), "Which line is higher at month 48?", tool)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text)
	fmt.Println(answer.Status, "after", answer.Turns, "turns")
	// Output:
	// The upper line is higher.
	// answered after 2 turns
}

// ruler is a tool of one's own: it declares itself and answers the calls of a turn.
type ruler struct{}

func (ruler) Declare() []anthropic.BetaToolUnionParam {
	return []anthropic.BetaToolUnionParam{{OfTool: &anthropic.BetaToolParam{
		Name:        "ruler",
		Description: anthropic.String("Returns the length of a page in millimetres."),
		InputSchema: anthropic.BetaToolInputSchemaParam{Properties: map[string]any{}},
	}}}
}

func (ruler) Answer(_ context.Context, calls []anthropic.BetaToolUseBlock, _ vision.Allowance) []anthropic.BetaToolResultBlockParam {
	var results []anthropic.BetaToolResultBlockParam
	for _, call := range calls {
		results = append(results, anthropic.NewBetaToolResultTextBlockParam(call.ID, "297", false))
	}
	return results
}

// A tool of one's own takes two methods.
func ExampleTool() {
	client, end := exampleClient(
		claudetest.Say(claudetest.Call("ruler", `{}`)),
		claudetest.Func(func(r *claudetest.Request) claudetest.Turn {
			return claudetest.Answer("It is " + claudetest.TextOf(r.Results()[0].Content) + " mm long.")
		}))
	defer end()

	answer, err := agent.New(client, &agent.Options{Model: "claude-opus-4-7"}).Ask(context.Background(), "How long is the page?", ruler{})
	fmt.Println(answer.Text, err)
	// Output: It is 297 mm long. <nil>
}
