package claudetest

import (
	"encoding/json"
	"sort"
	"strings"

	"github.com/loupe-tools/loupe/internal/wire"
)

// A rule looks at one request and refuses it or not. A rule is added by writing one
// function and naming it in rules.
type rule func(h *Handler, r *Request) *wire.Error

// rules are tried in order; the first refusal is the answer. The order follows the
// API: fields and shapes first, then what they mean together.
func rules() []rule {
	return []rule{
		topFields, modelKnown, maxTokens, betaFields, sampling, thinkingConfig, contextManagement, // fields.go
		toolEntries, toolNames, toolChoice, // tools.go
		messageList, blockFields, textNotEmpty, // messages.go
		cacheControls,                                           // caching.go
		toolUseIDs, resultsAnswerCalls, toolsDeclared, toolsets, // calls.go
		imageBytes, imageCount, imageEdges, imageTier, // images.go
		thinkingGenuine, turnsUnchanged, thinkingBound, endsWithUser, noThinkingAtEnd, // history.go
		contextWindow, // tokens.go
	}
}

// fieldSet is the set of fields that an object may have.
type fieldSet map[string]bool

func fields(names string) fieldSet {
	set := fieldSet{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}

// only refuses an object that has a field outside the set. Source: the API answers
// "Extra inputs are not permitted" with the field's path.
func (s fieldSet) only(object map[string]json.RawMessage, path string) *wire.Error {
	var extra []string
	for name := range object {
		if !s[name] {
			extra = append(extra, name)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	sort.Strings(extra)
	return wire.Invalid("%s: Extra inputs are not permitted", join(path, extra[0]))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// object reads raw as a JSON object; null and absent are an empty one.
func object(raw json.RawMessage, path string) (map[string]json.RawMessage, *wire.Error) {
	var o map[string]json.RawMessage
	if len(raw) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, wire.Invalid("%s: Input should be a valid dictionary or object to extract fields from", path)
	}
	return o, nil
}

// str reads a JSON string; anything else is "".
func str(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// present says whether a field is there and not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
