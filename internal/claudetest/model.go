package claudetest

// Model is what the double must know of a model to judge a request. Figures are
// those of the public model overview and vision pages.
type Model struct {
	MaxEdge      int  // longest padded edge of an image, in pixels
	MaxTokens    int  // most visual tokens of an image
	Context      int  // context window, in tokens
	MaxOutput    int  // largest max_tokens
	MinCache     int  // smallest prefix that is cached, in tokens; 0 is 1,024
	NoPrefill    bool // refuses an assistant turn at the end (Claude 4.6 and later)
	NoForced     bool // refuses tool_choice any and tool (5.1 and later)
	Budget       bool // takes thinking with a budget (before 4.7)
	NoAdaptive   bool // refuses adaptive thinking (before 4.6)
	AlwaysThinks bool // refuses thinking switched off (Fable, Mythos, Opus 5.5)
	NoSampling   bool // refuses temperature, top_p and top_k (4.7 and later)
	BindsPrefix  bool // refuses thinking whose preceding messages have changed (5.1 and later)
	Toolset      bool // takes computer_toolset_20260801
	NewComputer  bool // takes computer_20251124
	OldComputer  bool // takes computer_20250124
}

// Models returns the models that exist, by name. Each call returns a new map.
func Models() map[string]Model {
	standard := Model{MaxEdge: 1568, MaxTokens: 1568, Context: 200_000, MaxOutput: 64_000, Budget: true, NoAdaptive: true}
	high := Model{MaxEdge: 2576, MaxTokens: 4784, Context: 1_000_000, MaxOutput: 128_000, NoPrefill: true, NoSampling: true}

	four5 := standard
	four5.OldComputer = true
	haiku45 := four5
	haiku45.MinCache = 4096
	opus45 := standard
	opus45.NewComputer, opus45.MinCache = true, 4096
	four6 := standard
	four6.Context, four6.MaxOutput = 1_000_000, 128_000
	four6.NoPrefill, four6.NewComputer, four6.NoAdaptive = true, true, false
	opus46 := four6
	opus46.MinCache = 4096
	four7 := high
	four7.NewComputer, four7.MinCache = true, 2048
	four8 := four7
	four8.Toolset, four8.MinCache = true, 0
	sonnet5 := four8
	opus5 := four8
	opus5.MinCache = 512
	fable5 := opus5
	fable5.AlwaysThinks = true
	sonnet55 := high
	sonnet55.Toolset, sonnet55.BindsPrefix, sonnet55.NoForced = true, true, true
	fable51 := sonnet55
	fable51.AlwaysThinks = true
	// Neither model's tier is confirmed in public text: the standard one is the safe side.
	haiku55 := sonnet55
	haiku55.MaxEdge, haiku55.MaxTokens = standard.MaxEdge, standard.MaxTokens
	preview := four6
	preview.NewComputer, preview.AlwaysThinks = false, true

	return map[string]Model{
		"claude-haiku-4-5": haiku45, "claude-haiku-4-5-20251001": haiku45,
		"claude-sonnet-4-5": four5, "claude-sonnet-4-5-20250929": four5,
		"claude-opus-4-5": opus45, "claude-opus-4-5-20251101": opus45,
		"claude-sonnet-4-6": four6, "claude-opus-4-6": opus46,
		"claude-opus-4-7": four7, "claude-opus-4-8": four8,
		"claude-sonnet-5": sonnet5, "claude-opus-5": opus5,
		"claude-fable-5": fable5, "claude-mythos-5": fable5,
		"claude-fable-5-1": fable51, "claude-mythos-5-1": fable51,
		"claude-fable-5-2": fable51, "claude-mythos-5-2": fable51,
		"claude-sonnet-5-5": sonnet55, "claude-opus-5-5": fable51,
		"claude-haiku-5-5": haiku55, "claude-mythos-preview": preview,
	}
}
