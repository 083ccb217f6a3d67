package claudetest

// Model is what the double must know of a model to judge a request. Figures are
// those of the public model overview and vision pages.
type Model struct {
	MaxEdge     int  // longest padded edge of an image, in pixels
	MaxTokens   int  // most visual tokens of an image
	Context     int  // context window, in tokens
	MaxOutput   int  // largest max_tokens
	MinCache    int  // smallest prefix that is cached, in tokens; 0 is 1,024
	NoPrefill   bool // refuses an assistant turn at the end (Claude 4.6 and later)
	NoForced    bool // refuses tool_choice any and tool (5.1 and later)
	BindsPrefix bool // refuses thinking whose preceding messages have changed (5.1 and later)
	Toolset     bool // takes computer_toolset_20260801
	NewComputer bool // takes computer_20251124
	OldComputer bool // takes computer_20250124
}

// Models returns the models that exist, by name. Each call returns a new map.
func Models() map[string]Model {
	standard := Model{MaxEdge: 1568, MaxTokens: 1568, Context: 200_000, MaxOutput: 64_000}
	high := Model{MaxEdge: 2576, MaxTokens: 4784, Context: 1_000_000, MaxOutput: 128_000, NoPrefill: true}

	four5 := standard
	four5.OldComputer = true
	haiku45 := four5
	haiku45.MinCache = 4096
	opus45 := standard
	opus45.NewComputer, opus45.MinCache = true, 4096
	four6 := standard
	four6.Context, four6.MaxOutput = 1_000_000, 128_000
	four6.NoPrefill, four6.NewComputer = true, true
	opus46 := four6
	opus46.MinCache = 4096
	four7 := high
	four7.NewComputer, four7.MinCache = true, 2048
	four8 := four7
	four8.Toolset, four8.MinCache = true, 0
	five := four8
	five0 := five
	five0.MinCache = 512
	five1 := high
	five1.Toolset, five1.BindsPrefix, five1.NoForced = true, true, true
	// Neither model's tier is confirmed in public text: the standard one is the safe side.
	unsure := five1
	unsure.MaxEdge, unsure.MaxTokens = standard.MaxEdge, standard.MaxTokens
	preview := four6
	preview.NewComputer = false

	return map[string]Model{
		"claude-haiku-4-5": haiku45, "claude-haiku-4-5-20251001": haiku45,
		"claude-sonnet-4-5": four5, "claude-sonnet-4-5-20250929": four5,
		"claude-opus-4-5": opus45, "claude-opus-4-5-20251101": opus45,
		"claude-sonnet-4-6": four6, "claude-opus-4-6": opus46,
		"claude-opus-4-7": four7, "claude-opus-4-8": four8,
		"claude-opus-5": five0, "claude-sonnet-5": five, "claude-fable-5": five0, "claude-mythos-5": five0,
		"claude-fable-5-1": five1, "claude-mythos-5-1": five1,
		"claude-fable-5-2": five1, "claude-mythos-5-2": five1,
		"claude-opus-5-5": five1, "claude-sonnet-5-5": five1,
		"claude-haiku-5-5": unsure, "claude-mythos-preview": preview,
	}
}
