package agent

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/loupe-tools/loupe/vision"
)

// Usage counts tokens as the Messages API bills them. The three input counts do not
// overlap; their sum is the whole prompt.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`                // neither read from nor written to the cache
	CacheWriteTokens int64 `json:"cache_creation_input_tokens"` // written to the cache
	CacheReadTokens  int64 `json:"cache_read_input_tokens"`     // read from the cache
	OutputTokens     int64 `json:"output_tokens"`
}

// Prompt is the number of input tokens, however they were billed.
func (u Usage) Prompt() int64 { return u.InputTokens + u.CacheWriteTokens + u.CacheReadTokens }

// Total is the number of tokens, in and out.
func (u Usage) Total() int64 { return u.Prompt() + u.OutputTokens }

func (u Usage) plus(v Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens + v.InputTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		CacheReadTokens:  u.CacheReadTokens + v.CacheReadTokens,
		OutputTokens:     u.OutputTokens + v.OutputTokens,
	}
}

// Rates are prices in US dollars per million tokens. Cache writes are those of the
// five-minute cache, the only one the loop uses.
type Rates struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheWrite float64 `json:"cache_write"`
	CacheRead  float64 `json:"cache_read"`
}

// Price is what a model costs. Some models charge other rates for every token of a
// request whose prompt is long.
type Price struct {
	Rates
	LongPrompt *LongPrompt `json:"long_prompt,omitempty"`
}

// LongPrompt holds the rates of a request whose prompt has more than Above tokens.
type LongPrompt struct {
	Above int64 `json:"above"`
	Rates
}

// Prices is a table of what models cost, keyed by vision.ModelFamily. It is read only
// and safe for concurrent use.
type Prices struct {
	Date   string           `json:"date"` // the day on which the table was true, as YYYY-MM-DD
	Models map[string]Price `json:"models"`
}

//go:embed prices.json
var pricesJSON []byte

// DefaultPrices returns the published prices, as of its Date.
func DefaultPrices() *Prices {
	p, err := ParsePrices(pricesJSON)
	if err != nil {
		// The embedded table is checked by a test; without prices the loop still counts tokens.
		return &Prices{}
	}
	return p
}

// ParsePrices reads a table of prices in the form of prices.json.
func ParsePrices(data []byte) (*Prices, error) {
	var p Prices
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("read the table of prices: %w", err)
	}
	return &p, nil
}

// Rates returns the rates of one request to a model with a prompt of that many tokens.
// known is false for a model that the table does not have.
func (p *Prices) Rates(model string, prompt int64) (rates Rates, known bool) {
	price, known := p.Models[vision.ModelFamily(model)]
	if long := price.LongPrompt; long != nil && prompt > long.Above {
		return long.Rates, known
	}
	return price.Rates, known
}

// Cost is the price, in US dollars, of one request to a model.
func (p *Prices) Cost(model string, u Usage) (usd float64, known bool) {
	r, known := p.Rates(model, u.Prompt())
	return (float64(u.InputTokens)*r.Input + float64(u.CacheWriteTokens)*r.CacheWrite +
		float64(u.CacheReadTokens)*r.CacheRead + float64(u.OutputTokens)*r.Output) / 1e6, known
}

// worst is the most that a request can cost, in US dollars: nothing of its prompt is
// found in the cache, and the whole output is used.
func (r Rates) worst(prompt, output int64) float64 {
	return (float64(prompt)*max(r.Input, r.CacheWrite) + float64(output)*r.Output) / 1e6
}
