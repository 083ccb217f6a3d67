package claudetest

import (
	"encoding/json"
	"net/http"

	"github.com/loupe-tools/loupe/internal/wire"
)

// topFields: a request has no fields but those of the API reference's "Create a
// Message".
func topFields(_ *Handler, r *Request) *wire.Error {
	allowed := fields(`model messages max_tokens system tools tool_choice stream temperature top_p top_k
		stop_sequences metadata thinking output_config output_format service_tier container
		cache_control inference_geo speed context_management mcp_servers compaction diagnostics
		fallbacks fallback_credit_token thread billing_policy`)
	return allowed.only(r.top, "")
}

// modelKnown: the model is named and exists. Source: errors page, not_found_error;
// the message is the model's name.
func modelKnown(h *Handler, r *Request) *wire.Error {
	if r.Model == "" {
		return wire.Invalid("model: Field required")
	}
	model, ok := h.models[r.Model]
	if !ok {
		return &wire.Error{Status: http.StatusNotFound, Message: "model: " + r.Model}
	}
	r.model = model
	return nil
}

// maxTokens: max_tokens is given, positive and within the model's output. The API
// also takes 0, to warm the cache without an answer; a loop never means that, so the
// double refuses it.
func maxTokens(_ *Handler, r *Request) *wire.Error {
	switch {
	case !present(r.top["max_tokens"]):
		return wire.Invalid("max_tokens: Field required")
	case r.MaxTokens <= 0:
		return wire.Invalid("max_tokens: Input should be greater than or equal to 1")
	case r.MaxTokens > r.model.MaxOutput:
		return wire.Invalid("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s",
			r.MaxTokens, r.model.MaxOutput, r.Model)
	}
	return nil
}

// betaFields: a field of a beta needs that beta's header. Source: the pages on
// context editing and MCP, and the SDK's list of betas.
func betaFields(_ *Handler, r *Request) *wire.Error {
	for field, beta := range map[string]string{"context_management": "context-management-2025-06-27"} {
		if present(r.top[field]) && !r.beta[beta] {
			return wire.Invalid("%s: Extra inputs are not permitted", field)
		}
	}
	return nil
}

// thinkingConfig: the shape of thinking, and a budget of at least 1,024 and below
// max_tokens. Source: the API reference, "thinking".
func thinkingConfig(_ *Handler, r *Request) *wire.Error {
	raw := r.top["thinking"]
	if !present(raw) {
		return nil
	}
	config, err := object(raw, "thinking")
	if err != nil {
		return err
	}
	kind := str(config["type"])
	path := "thinking." + kind
	allowed := map[string]fieldSet{
		"enabled":       fields("type budget_tokens display block_binding"),
		"adaptive":      fields("type display block_binding"),
		"disabled":      fields("type"),
		"between_tools": fields("type"),
	}[kind]
	if allowed == nil {
		return wire.Invalid("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: "+
			"'adaptive', 'between_tools', 'disabled', 'enabled'", kind)
	}
	if err := allowed.only(config, path); err != nil {
		return err
	}
	if err := thinkingTaken(r.model, kind); err != nil {
		return err
	}
	if kind == "enabled" {
		var budget int
		_ = json.Unmarshal(config["budget_tokens"], &budget) // not a number counts as too small
		if budget < 1024 {
			return wire.Invalid("%s.budget_tokens: Input should be greater than or equal to 1024", path)
		}
		if budget >= r.MaxTokens {
			return wire.Invalid("`max_tokens` must be greater than `thinking.budget_tokens`")
		}
	}
	return blockBinding(r, config, path)
}

// thinkingTaken: which kinds of thinking a model takes. Source: the pages on adaptive
// thinking and on each model's breaking changes.
func thinkingTaken(model Model, kind string) *wire.Error {
	switch {
	case kind == "enabled" && !model.Budget:
		return wire.Invalid("\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and " +
			"\"output_config.effort\" to control thinking behavior.")
	case kind == "adaptive" && model.NoAdaptive:
		return wire.Invalid("adaptive thinking is not supported on this model")
	case kind == "disabled" && model.AlwaysThinks:
		return wire.Invalid("\"thinking.type.disabled\" is not supported for this model.")
	}
	return nil
}

// sampling: later models take none of temperature, top_p and top_k. The API lets the
// defaults pass; the double does not.
func sampling(_ *Handler, r *Request) *wire.Error {
	if !r.model.NoSampling {
		return nil
	}
	for _, field := range []string{"temperature", "top_p", "top_k"} {
		if present(r.top[field]) {
			return wire.Invalid("`%s` is deprecated for this model.", field)
		}
	}
	return nil
}

// blockBinding: what happens to thinking whose conversation has changed, behind its
// beta header. Source: the API reference, "thinking.block_binding".
func blockBinding(r *Request, config map[string]json.RawMessage, path string) *wire.Error {
	raw := config["block_binding"]
	if !present(raw) {
		return nil
	}
	path += ".block_binding"
	if !r.beta["thinking-binding-controls-2026-08-01"] {
		return wire.Invalid("%s: Extra inputs are not permitted", path)
	}
	binding, err := object(raw, path)
	if err != nil {
		return err
	}
	if err := fields("prefix_mismatch_behavior").only(binding, path); err != nil {
		return err
	}
	switch str(binding["prefix_mismatch_behavior"]) {
	case "", "error", "drop_block":
		return nil
	}
	return wire.Invalid("%s.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'", path)
}

// dropsBlocks says whether the request asks for thinking that fails the
// conversation check to be removed.
func (r *Request) dropsBlocks() bool {
	var thinking struct {
		Binding struct {
			Behavior string `json:"prefix_mismatch_behavior"`
		} `json:"block_binding"`
	}
	return json.Unmarshal(r.top["thinking"], &thinking) == nil && thinking.Binding.Behavior == "drop_block"
}

// contextManagement: edits are of a known type and have its fields only. Source: the
// page on context editing.
func contextManagement(_ *Handler, r *Request) *wire.Error {
	raw := r.top["context_management"]
	if !present(raw) {
		return nil
	}
	config, err := object(raw, "context_management")
	if err != nil {
		return err
	}
	if err := fields("edits").only(config, "context_management"); err != nil {
		return err
	}
	var edits []map[string]json.RawMessage
	if json.Unmarshal(config["edits"], &edits) != nil {
		return wire.Invalid("context_management.edits: Input should be a valid list")
	}
	allowed := map[string]fieldSet{
		"clear_tool_uses_20250919": fields("type trigger keep clear_at_least exclude_tools clear_tool_inputs"),
		"clear_thinking_20251015":  fields("type keep"),
		"compact_20260112":         fields("type trigger instructions pause_after_compaction"),
	}
	for i, edit := range edits {
		path := join("context_management.edits", itoa(i))
		set := allowed[str(edit["type"])]
		if set == nil {
			return wire.Invalid("%s: Input tag '%s' found using 'type' does not match any of the expected tags", path, str(edit["type"]))
		}
		if err := set.only(edit, join(path, str(edit["type"]))); err != nil {
			return err
		}
	}
	return nil
}
