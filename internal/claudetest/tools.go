package claudetest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/loupe-tools/loupe/internal/wire"
)

func itoa(i int) string { return strconv.Itoa(i) }

// tool is one entry of tools[].
type tool struct {
	path    string
	kind    string // its type; "custom" when none is given
	name    string // "" for a toolset
	raw     map[string]json.RawMessage
	members []string // of a toolset, those that are enabled
}

// toolKind says what an entry of that type looks like.
type toolKind struct {
	fields   fieldSet
	name     string   // the name it must have; "" is any
	required []string // fields beside type and name
	beta     string   // header that it needs; "" is none
	toolset  string   // family of a toolset; it has no name
	members  []string // of a toolset
	models   func(Model) bool
}

// toolKinds are the entries that this double takes. Sources: the SDK's parameter
// types, and for the toolset the page on the computer use tool.
func toolKinds() map[string]toolKind {
	common := "type name cache_control defer_loading strict allowed_callers input_examples "
	screen := common + "display_width_px display_height_px display_number "
	return map[string]toolKind{
		"custom": {
			fields:   fields(common + "description input_schema eager_input_streaming"),
			required: []string{"name", "input_schema"},
		},
		"bash_20250124":        {fields: fields(common), name: "bash"},
		"text_editor_20250728": {fields: fields(common + "max_characters"), name: "str_replace_based_edit_tool"},
		"computer_20250124": {
			fields: fields(screen), name: "computer", beta: "computer-use-2025-01-24",
			required: []string{"display_width_px", "display_height_px"},
			models:   func(m Model) bool { return m.OldComputer },
		},
		"computer_20251124": {
			fields: fields(screen + "enable_zoom"), name: "computer", beta: "computer-use-2025-11-24",
			required: []string{"display_width_px", "display_height_px"},
			models:   func(m Model) bool { return m.NewComputer },
		},
		"computer_toolset_20260801": {
			fields: fields("type configs cache_control allowed_callers"), toolset: "computer",
			members: []string{
				"cursor_position", "double_click", "hold_key", "key", "left_click", "left_click_drag",
				"left_mouse_down", "left_mouse_up", "middle_click", "mouse_move", "right_click",
				"screenshot", "scroll", "triple_click", "type", "wait", "zoom",
			},
			models: func(m Model) bool { return m.Toolset },
		},
	}
}

// toolEntries: every entry has a known type, the fields of that type only, and those
// that the type requires.
func toolEntries(_ *Handler, r *Request) *wire.Error {
	kinds := toolKinds()
	for i, raw := range r.Tools {
		t := tool{path: fmt.Sprintf("tools.%d", i)}
		var err *wire.Error
		if t.raw, err = object(raw, t.path); err != nil {
			return err
		}
		t.kind = str(t.raw["type"])
		if !present(t.raw["type"]) {
			t.kind = "custom"
		}
		kind, ok := kinds[t.kind]
		if !ok {
			return wire.Invalid("%s: Input tag '%s' found using 'type' does not match any of the expected tags", t.path, t.kind)
		}
		path := join(t.path, t.kind)
		if err := kind.fields.only(t.raw, path); err != nil {
			return err
		}
		for _, field := range kind.required {
			if !present(t.raw[field]) {
				return wire.Invalid("%s.%s: Field required", path, field)
			}
		}
		if kind.name != "" && str(t.raw["name"]) != kind.name {
			return wire.Invalid("%s.name: Input should be '%s'", path, kind.name)
		}
		if kind.beta != "" && !r.beta[kind.beta] {
			return wire.Invalid("%s: '%s' needs the header anthropic-beta: %s", t.path, t.kind, kind.beta)
		}
		if kind.models != nil && !kind.models(r.model) {
			return wire.Invalid("'%s' does not support tool types: %s", r.Model, t.kind)
		}
		if err := inputSchema(t, path); err != nil {
			return err
		}
		if err := toolsetConfigs(&t, kind, path); err != nil {
			return err
		}
		if err := allowedCallers(t, kind, path); err != nil {
			return err
		}
		t.name = str(t.raw["name"])
		r.tools = append(r.tools, t)
	}
	return nil
}

// inputSchema: a custom tool's schema is an object of type "object".
func inputSchema(t tool, path string) *wire.Error {
	if t.kind != "custom" {
		return nil
	}
	path += ".input_schema"
	schema, err := object(t.raw["input_schema"], path)
	if err != nil {
		return err
	}
	if str(schema["type"]) != "object" {
		return wire.Invalid("%s.type: Input should be 'object'", path)
	}
	for _, field := range []string{"oneOf", "allOf", "anyOf"} {
		if present(schema[field]) {
			return wire.Invalid("%s: input_schema does not support oneOf, allOf, or anyOf at the top level", path)
		}
	}
	return nil
}

// toolsetConfigs: configs name members of the toolset, each with enabled and
// defer_loading only; unknown members are refused.
func toolsetConfigs(t *tool, kind toolKind, path string) *wire.Error {
	if kind.toolset == "" {
		return nil
	}
	path += ".configs"
	configs, err := object(t.raw["configs"], path)
	if err != nil {
		return err
	}
	allowed := fieldSet{}
	for _, member := range kind.members {
		allowed[member] = true
	}
	if err := allowed.only(configs, path); err != nil {
		return err
	}
	for _, member := range kind.members {
		config, err := object(configs[member], join(path, member))
		if err != nil {
			return err
		}
		if err := fields("enabled defer_loading").only(config, join(path, member)); err != nil {
			return err
		}
		for field, value := range config {
			if s := string(value); s != "true" && s != "false" && s != "null" {
				return wire.Invalid("%s.%s: Input should be a valid boolean", join(path, member), field)
			}
		}
		if string(config["enabled"]) != "false" {
			t.members = append(t.members, member)
		}
	}
	return nil
}

// allowedCallers: a list of known callers; a toolset takes "direct" alone.
func allowedCallers(t tool, kind toolKind, path string) *wire.Error {
	raw := t.raw["allowed_callers"]
	if !present(raw) {
		return nil
	}
	known := []string{"direct", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521"}
	if kind.toolset != "" {
		known = known[:1]
	}
	var callers []string
	if json.Unmarshal(raw, &callers) != nil {
		return wire.Invalid("%s.allowed_callers: Input should be a valid list", path)
	}
	for i, caller := range callers {
		if !slices.Contains(known, caller) {
			return wire.Invalid("%s.allowed_callers.%d: '%s' is not a permitted caller", path, i, caller)
		}
	}
	return nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// toolNames: a name is 1 to 128 letters, digits, _ and -, and no two are alike.
func toolNames(_ *Handler, r *Request) *wire.Error {
	seen := map[string]bool{}
	for _, t := range r.tools {
		name := t.name
		if kind := toolKinds()[t.kind]; kind.toolset != "" {
			name = t.kind // a toolset may be declared once
		} else if !toolName.MatchString(name) {
			return wire.Invalid("%s.%s.name: String should match pattern '%s'", t.path, t.kind, toolName)
		}
		if seen[name] {
			return wire.Invalid("tools: Tool names must be unique.")
		}
		seen[name] = true
	}
	return nil
}

// toolChoice: its type is known, it has that type's fields only, it names a declared
// tool, and tools are declared at all. The 5.1 and 5.5 models take no forced choice,
// and nobody takes one with thinking enabled.
func toolChoice(_ *Handler, r *Request) *wire.Error {
	if !present(r.ToolChoice) {
		return nil
	}
	choice, err := object(r.ToolChoice, "tool_choice")
	if err != nil {
		return err
	}
	kind := str(choice["type"])
	allowed := map[string]fieldSet{
		"auto": fields("type disable_parallel_tool_use"),
		"any":  fields("type disable_parallel_tool_use"),
		"tool": fields("type name disable_parallel_tool_use"),
		"none": fields("type"),
	}[kind]
	if allowed == nil {
		return wire.Invalid("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: "+
			"'auto', 'any', 'tool', 'none'", kind)
	}
	if err := allowed.only(choice, "tool_choice."+kind); err != nil {
		return err
	}
	if len(r.tools) == 0 {
		return wire.Invalid("tool_choice: `tool_choice` may only be specified while providing `tools`.")
	}
	if kind != "any" && kind != "tool" {
		return nil
	}
	if r.model.NoForced {
		return wire.Invalid("tool_choice: '%s' does not support tool_choice type '%s'", r.Model, kind)
	}
	var thinking struct{ Type string }
	_ = json.Unmarshal(r.top["thinking"], &thinking) // its shape is another rule's matter
	if thinking.Type == "enabled" || thinking.Type == "adaptive" {
		return wire.Invalid("Thinking may not be enabled when tool_choice forces tool use.")
	}
	if kind == "tool" {
		name := str(choice["name"])
		if !slices.ContainsFunc(r.tools, func(t tool) bool { return t.name == name && name != "" }) {
			return wire.Invalid("Tool '%s' not found in provided tools", name)
		}
	}
	return nil
}
