package computer

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loupe-tools/loupe/vision"
)

// Declare returns the toolset's one entry of a request's tools, with the members that are
// switched off declared so. Every call returns the same.
func (t *Toolset) Declare() []anthropic.BetaToolUnionParam {
	entry := &anthropic.BetaComputerToolset20260801Param{}
	if len(t.options.Disabled) > 0 {
		configs := map[string]any{}
		for _, name := range t.options.Disabled {
			configs[name] = map[string]bool{"enabled": false}
		}
		data, err := json.Marshal(configs)
		if err == nil {
			err = json.Unmarshal(data, &entry.Configs)
		}
		if err != nil { // what is not declared off is refused all the same
			t.log.Error("the members that are switched off could not be declared so", "error", err)
		}
	}
	return []anthropic.BetaToolUnionParam{{OfComputerToolset20260801: entry}}
}

// Answer runs the calls that one assistant turn makes to this toolset, as [Toolset.Run]
// does, within an allowance of images. It returns one result for each call, in order. A
// call that is not of this toolset is answered with an error and not counted as a failure
// of the turn.
func (t *Toolset) Answer(ctx context.Context, calls []anthropic.BetaToolUseBlock, room vision.Allowance) []anthropic.BetaToolResultBlockParam {
	turn := make([]ToolUse, len(calls))
	for i, call := range calls {
		turn[i] = ToolUse{ID: call.ID, Name: call.Name, ToolsetName: call.ToolsetName}
		// What cannot be written as JSON stays empty, and is refused as any such input.
		turn[i].Input, _ = json.Marshal(call.Input)
	}
	ran := t.run(ctx, turn, room)
	results := make([]anthropic.BetaToolResultBlockParam, len(calls))
	for i, call := range turn {
		if call.ToolsetName != ToolsetName {
			results[i] = anthropic.NewBetaToolResultTextBlockParam(call.ID, "This is not a call to the computer toolset.", true)
			if call.ToolsetName != "" {
				results[i].ToolsetName = anthropic.String(call.ToolsetName)
			}
			continue
		}
		results[i] = ran[0].param()
		ran = ran[1:]
	}
	return results
}

// param is the result as the SDK has it.
func (r ToolResult) param() anthropic.BetaToolResultBlockParam {
	result := anthropic.BetaToolResultBlockParam{
		ToolUseID:   r.ToolUseID,
		ToolsetName: anthropic.String(r.ToolsetName),
	}
	if r.IsError {
		result.IsError = anthropic.Bool(true)
	}
	for _, c := range r.Content {
		block := anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: c.Text}}
		if c.Image != nil {
			block = anthropic.BetaToolResultBlockParamContentUnion{OfImage: c.Image.param()}
		}
		result.Content = append(result.Content, block)
	}
	return result
}

// param is the image as the SDK has it. As in [Content.MarshalJSON] the API is told to
// refuse it rather than to scale it down.
func (m *Image) param() *anthropic.BetaImageBlockParam {
	return &anthropic.BetaImageBlockParam{
		Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &anthropic.BetaBase64ImageSourceParam{
			Data:      base64.StdEncoding.EncodeToString(m.Data),
			MediaType: anthropic.BetaBase64ImageSourceMediaType(m.MediaType),
		}},
		Transformations: anthropic.BetaImageTransformationsParam{
			OversizedImage: anthropic.BetaImageTransformationsParamOversizedImageError,
		},
	}
}
