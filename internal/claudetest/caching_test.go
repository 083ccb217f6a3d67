package claudetest_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loupe-tools/loupe/internal/claudetest"
	"github.com/loupe-tools/loupe/internal/wire"
)

// always answers every request.
func always(t testing.TB) *claudetest.Server {
	return claudetest.New(t, nil, claudetest.Always(func(*claudetest.Request) claudetest.Turn { return claudetest.Answer("Fine.") }))
}

// words is a text block of about so many tokens; mark puts a breakpoint on it.
func words(tokens int, text string, mark bool) string {
	control := ""
	if mark {
		control = `,"cache_control":{"type":"ephemeral"}`
	}
	return fmt.Sprintf(`{"type":"text","text":%q%s}`, strings.Repeat(text, tokens*7/2/len(text)), control)
}

func usage(t *testing.T, double *claudetest.Server, body string) wire.Usage {
	t.Helper()
	if got := post(t, double, body); got.status != 200 {
		t.Fatalf("got %d: %s", got.status, got.message)
	}
	r := double.Last()
	u := r.Usage
	if sum := u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens; sum != r.Prompt {
		t.Fatalf("usage %+v sums up to %d, the prompt is %d", u, sum, r.Prompt)
	}
	u.OutputTokens = 0
	return u
}

func charge(input, written, read int) wire.Usage {
	return wire.Usage{InputTokens: input, CacheCreationInputTokens: written, CacheReadInputTokens: read}
}

func TestCache(t *testing.T) {
	system := func(tokens int, mark bool) string { return `"system":` + list(words(tokens, "rules and ", mark)) }
	question := func(texts ...string) string { return messages(list(texts...)) }
	steps := []struct {
		name   string
		bodies []string
		want   []wire.Usage
	}{
		{
			"nothing marked", []string{request(system(2000, false)), request(system(2000, false))},
			[]wire.Usage{charge(2002, 0, 0), charge(2002, 0, 0)},
		},
		{
			"system marked", []string{request(system(2000, true)), request(system(2000, true), question(words(700, "another ", false)))},
			[]wire.Usage{charge(2, 2000, 0), charge(700, 0, 2000)},
		},
		{
			"prefix too short", []string{request(system(1000, true)), request(system(1000, true))},
			[]wire.Usage{charge(1002, 0, 0), charge(1002, 0, 0)},
		},
		{
			"one byte changed", []string{request(system(2000, true)), request(`"system":` + list(words(2000, "Rules and ", true)))},
			[]wire.Usage{charge(2, 2000, 0), charge(2, 2000, 0)},
		},
		{
			"prefix grows", []string{
				request(system(2000, true), question(words(1000, "first ", true))),
				request(system(2000, true), question(words(1000, "first ", false), words(1000, "second ", true))),
				request(system(2000, true), question(words(1000, "first ", false), words(1000, "second ", true), words(100, "third ", false))),
			},
			[]wire.Usage{charge(0, 3000, 0), charge(0, 1000, 3000), charge(100, 0, 4000)},
		},
		{
			"another model", []string{request(system(2000, true)), request(`"model":"claude-opus-4-8"`, system(2000, true))},
			[]wire.Usage{charge(2, 2000, 0), charge(2, 2000, 0)},
		},
		{
			"another tool_choice leaves tools and system", []string{
				request(zoomTool, system(2000, true), question(words(1000, "first ", true)), `"tool_choice":{"type":"auto"}`),
				request(zoomTool, system(2000, true), question(words(1000, "first ", true)), `"tool_choice":{"type":"none"}`),
			},
			[]wire.Usage{charge(0, 3351, 0), charge(0, 1000, 2351)},
		},
		{
			"another kind of thinking leaves tools and system", []string{
				request(system(2000, true), question(words(1000, "first ", true))),
				request(system(2000, true), question(words(1000, "first ", true)), thinking),
			},
			[]wire.Usage{charge(0, 3000, 0), charge(0, 1000, 2000)},
		},
		{
			"another tool invalidates everything", []string{
				request(zoomTool, system(2000, true)),
				request(`"tools":[{"name":"zoom","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"}]`, system(2000, true)),
			},
			[]wire.Usage{charge(2, 2351, 0), charge(2, 2360, 0)},
		},
		{
			"the request's own breakpoint", []string{
				request(`"cache_control":{"type":"ephemeral"}`, question(words(2000, "first ", false))),
				request(`"cache_control":{"type":"ephemeral"}`, question(words(2000, "first ", false), words(1000, "second ", false))),
			},
			[]wire.Usage{charge(0, 1999, 0), charge(0, 1000, 1999)},
		},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			double := always(t)
			for i, body := range s.bodies {
				if got := usage(t, double, body); got != s.want[i] {
					t.Errorf("request %d: got %+v, want %+v", i+1, got, s.want[i])
				}
			}
		})
	}
}

// A breakpoint finds what was written up to 19 blocks before it, and no further.
func TestCacheLookback(t *testing.T) {
	for _, c := range []struct {
		blocks int // after the block that was written
		found  bool
	}{{19, true}, {20, false}} {
		double := always(t)
		first := words(2000, "first ", true)
		usage(t, double, request(messages(list(first))))
		blocks := []string{words(2000, "first ", false)}
		for i := range c.blocks {
			blocks = append(blocks, words(10, "and more ", i == c.blocks-1))
		}
		got := usage(t, double, request(messages(list(blocks...))))
		if found := got.CacheReadInputTokens > 0; found != c.found {
			t.Errorf("%d blocks later: got %+v", c.blocks, got)
		}
	}
}

// An answer that was refused writes nothing.
func TestErrorsDoNotWriteTheCache(t *testing.T) {
	double := claudetest.New(t, nil, claudetest.Fail(529, 0), claudetest.Answer("Fine."))
	body := request(messages(list(words(2000, "first ", true))))
	if got := post(t, double, body); got.status != 529 {
		t.Fatalf("got %d", got.status)
	}
	if got := usage(t, double, body); got != charge(0, 1999, 0) {
		t.Errorf("got %+v", got)
	}
}

// Whatever is asked, the parts of the usage sum up to the prompt, and asking again
// reads at least what was written before.
func TestUsageAddsUp(t *testing.T) {
	double := always(t)
	rapid.Check(t, func(rt *rapid.T) {
		marks := 0
		var blocks []string
		for range rapid.IntRange(1, 40).Draw(rt, "blocks") {
			mark := marks < 4 && rapid.Bool().Draw(rt, "marked")
			if mark {
				marks++
			}
			blocks = append(blocks, words(rapid.IntRange(2, 900).Draw(rt, "tokens"), rapid.SampledFrom([]string{"a b ", "c d "}).Draw(rt, "text"), mark))
		}
		body := request(messages(list(blocks...)))
		first := usage(t, double, body)
		again := usage(t, double, body)
		if again.CacheReadInputTokens < first.CacheCreationInputTokens+first.CacheReadInputTokens || again.CacheCreationInputTokens != 0 {
			rt.Fatalf("first %+v, again %+v", first, again)
		}
	})
}

// What the double counts for a toolset and for images.
func TestTokens(t *testing.T) {
	double := always(t)
	plain := usage(t, double, request()).InputTokens
	if got := usage(t, double, request(hands)).InputTokens - plain; got < 4500 || got > 5000 {
		t.Errorf("the toolset counts %d tokens", got)
	}
	if got := usage(t, double, request(messages(list(picture(280, 57))))).InputTokens; got != 30 {
		t.Errorf("an image of 280x57 counts %d tokens, want 30", got)
	}
	if got := usage(t, double, request(`"model":"claude-haiku-4-5"`, messages(list(picture(4000, 3000))))).InputTokens; got != 46*34 {
		t.Errorf("an image that is seen at 1270x952 counts %d tokens, want %d", got, 46*34)
	}
}
