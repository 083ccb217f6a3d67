package vision

import (
	"regexp"
	"strings"
)

// tiers names every model whose tier is public, by family and version.
//
// Claude Haiku 5.5 and Claude Mythos Preview are left out on purpose: no public text
// confirms their tier, so they are answered as unknown, which is the safe side.
var tiers = map[string]Limits{
	"opus-4-7": HighResolution, "opus-4-8": HighResolution, "opus-5": HighResolution, "opus-5-5": HighResolution,
	"sonnet-5": HighResolution, "sonnet-5-5": HighResolution,
	"fable-5": HighResolution, "fable-5-1": HighResolution, "fable-5-2": HighResolution,
	"mythos-5": HighResolution, "mythos-5-1": HighResolution, "mythos-5-2": HighResolution,

	"opus-4": Standard, "opus-4-0": Standard, "opus-4-1": Standard, "opus-4-5": Standard, "opus-4-6": Standard,
	"sonnet-4": Standard, "sonnet-4-0": Standard, "sonnet-4-5": Standard, "sonnet-4-6": Standard,
	"haiku-4-5": Standard,
	"3-opus":    Standard, "3-sonnet": Standard, "3-haiku": Standard,
	"3-5-sonnet": Standard, "3-5-haiku": Standard, "3-7-sonnet": Standard,
}

// snapshot is what may follow the version in a model's identifier: a date, an alias,
// or a cloud's revision, such as -20250929, @20250929, -latest or -v1:0.
var snapshot = regexp.MustCompile(`([-@]\d{8}|[-@]latest)?(-v\d+(:\d+)?)?$`)

// LimitsFor returns the image limits of a model by its identifier, as the Messages API
// or a cloud writes it (claude-opus-4-7, claude-sonnet-4-5-20250929,
// us.anthropic.claude-opus-4-6-v1:0). For a model whose tier is not public it returns
// Standard, the limits that every model accepts, and known is false, so that the caller
// can say so.
func LimitsFor(model string) (limits Limits, known bool) {
	limits, known = tiers[ModelFamily(model)]
	if !known {
		return Standard, false
	}
	return limits, true
}

// ModelFamily reduces a model's identifier to its family and version, such as
// "opus-4-7": without a cloud's prefix, a date or a revision. Tables keyed by model
// look names up by it. An identifier of no Claude model comes back in lower case.
func ModelFamily(model string) string {
	name := strings.ToLower(strings.TrimSpace(model))
	if _, after, found := strings.Cut(name, "claude-"); found {
		name = after
	}
	return snapshot.ReplaceAllString(name, "")
}
