package computer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"net/http/httptest"
	"os"
	"strings"

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

// counter is a desktop of one's own: a screen, a pointer, and a way to send events. This one
// prints what it is told. A real one would pass it on, and look at the context where
// something can take long.
type counter struct {
	pointer image.Point
	held    []computer.Event // the presses that have no release yet
}

func (*counter) Size(context.Context) (image.Point, error) { return image.Pt(640, 480), nil }

func (*counter) Capture(_ context.Context, region image.Rectangle) (*image.RGBA, error) {
	m := image.NewRGBA(image.Rectangle{Max: region.Size()})
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255 // black, and opaque
	}
	return m, nil
}

func (d *counter) Pointer(context.Context) (image.Point, error) { return d.pointer, nil }

func (d *counter) Send(_ context.Context, events ...computer.Event) error {
	for _, e := range events {
		switch e.Kind {
		case computer.Move:
			d.pointer = e.Point
			fmt.Println("move to", e.Point)
		case computer.ButtonDown:
			d.held = append(d.held, e)
			fmt.Println("button", e.Button, "down")
		case computer.ButtonUp:
			d.held = d.held[:max(len(d.held)-1, 0)]
			fmt.Println("button", e.Button, "up")
		default:
			return &computer.InputError{Text: "this desktop has no keyboard"}
		}
	}
	return nil
}

func (*counter) Type(_ context.Context, text string) (int, error) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, &computer.InputError{Text: "this desktop takes digits alone"}
	}
	fmt.Println("type", text)
	return len(text), nil
}

func (d *counter) Release(context.Context) error {
	fmt.Println("release what is held")
	d.held = nil
	return nil
}

// A driver of one's own has six methods. Package computertest has the suite that says
// whether it keeps to the contract.
func ExampleDesktop() {
	hands, err := computer.New(&counter{}, &computer.Options{Confirm: computer.ApproveAll})
	if err != nil {
		fmt.Println(err)
		return
	}
	results := hands.Run(context.Background(), []computer.ToolUse{
		{ID: "1", Name: "left_click", ToolsetName: "computer", Input: json.RawMessage(`{"coordinate": [12, 34]}`)},
		{ID: "2", Name: "type", ToolsetName: "computer", Input: json.RawMessage(`{"text": "42"}`)},
		{ID: "3", Name: "type", ToolsetName: "computer", Input: json.RawMessage(`{"text": "forty-two"}`)},
	})
	for _, r := range results {
		fmt.Println(r.ToolUseID, r.IsError, r.Content[0].Text)
	}
	// Output:
	// move to (12,34)
	// button 1 down
	// button 1 up
	// type 42
	// release what is held
	// 1 false Clicked at (12, 34).
	// 2 false Typed 2 characters.
	// 3 true This desktop takes digits alone. Of 9 characters 0 were typed.
}
