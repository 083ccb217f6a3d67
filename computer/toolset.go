package computer

import (
	"context"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/vision"
)

// ToolsetName is the family that the toolset's calls and results carry.
const ToolsetName = "computer"

// Options set up a Toolset. The zero value is right for a model of the standard tier, with
// nobody to ask.
type Options struct {
	// Limits of the model that looks. vision.Standard when zero.
	Limits vision.Limits

	// MaxEdge bounds the longest edge of screenshots and zooms, in view pixels, so that a
	// conversation may hold more than 20 of them. 2000 when zero, no bound when negative.
	MaxEdge int

	// Disabled names the members that are switched off: declared so, and refused.
	Disabled []string

	// Confirm is asked before each block is run, once it is known what it would do. When
	// nil, there is nobody to ask: type, key and hold_key are refused and the rest is
	// approved. ApproveAll approves everything. It must return when the context ends; the
	// time that it takes does not count as the block's. A panic in it is a refusal.
	Confirm func(ctx context.Context, action Action) Decision

	// AppendScreenshot ends a turn that neither ends in a screenshot nor fails with one, in
	// its last result.
	AppendScreenshot bool

	// MaxText bounds the characters of one type. 100,000 when zero.
	MaxText int

	// MaxImageBytes bounds one image, in bytes after base64. A screenshot that would be
	// larger loses detail and keeps its size, a zoom becomes smaller; a text says so.
	// picture.DefaultMaxBase64 when zero.
	MaxImageBytes int

	// BlockTime bounds one block, on top of the duration that it asks for and of 10 ms for
	// each character that it types. 60 s when zero.
	BlockTime time.Duration

	// Log hears of what failed, with the errors of the driver, which the model does not
	// see. It is never told what was typed. Nobody is told when nil.
	Log *slog.Logger
}

// Toolset answers the computer calls of a model on one desktop. It is an agent.Tool. Its
// methods are called from one goroutine at a time. It starts no goroutines.
type Toolset struct {
	desktop Desktop
	options Options
	limits  vision.Limits // of screenshots and zooms
	log     *slog.Logger

	shown image.Point // display size of the last screenshot that the model has seen, or zero
	taken image.Point // the same of the last one that was taken
	last  press       // of a button
	down  bool        // left_mouse_down holds the left button
	stuck bool        // the last release failed
}

// New returns the toolset on a desktop, which stays its opener's to close. It fails when
// the options make no sense. A nil o is the zero Options.
func New(d Desktop, o *Options) (*Toolset, error) {
	if d == nil {
		return nil, errors.New("there is no desktop to work on")
	}
	t := &Toolset{desktop: d}
	if o != nil {
		t.options = *o
	}
	o = &t.options
	o.Disabled = slices.Clone(o.Disabled)
	for _, name := range o.Disabled {
		if !slices.Contains(Members(), name) {
			return nil, fmt.Errorf("there is no member %q to switch off; the members are %s", name, strings.Join(Members(), ", "))
		}
	}
	if o.Limits == (vision.Limits{}) {
		o.Limits = vision.Standard
	}
	if o.MaxEdge == 0 {
		o.MaxEdge = defaultMaxEdge
	}
	t.limits = o.Limits.CapEdge(o.MaxEdge)
	if t.limits.MaxEdge < vision.Patch || t.limits.MaxTokens < 1 {
		return nil, fmt.Errorf("images of at most %d pixels an edge and %d tokens are too small to show anything", t.limits.MaxEdge, t.limits.MaxTokens)
	}
	if o.MaxText <= 0 {
		o.MaxText = defaultMaxText
	}
	if o.MaxImageBytes <= 0 {
		o.MaxImageBytes = picture.DefaultMaxBase64
	}
	if o.BlockTime <= 0 {
		o.BlockTime = defaultBlockTime
	}
	o.BlockTime = min(o.BlockTime, maxBlockTime)
	if t.log = o.Log; t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	return t, nil
}

const (
	defaultMaxEdge   = 2000 // pixels; what the API takes in requests with more than 20 images
	defaultMaxText   = 100_000
	defaultBlockTime = time.Minute
	maxBlockTime     = 1 << 62 * time.Nanosecond // 146 years, to which more can be added
)

// Close releases every key and button that is held. It does not close the desktop.
func (t *Toolset) Close() error { return t.release(context.Background()) }

// releaseTime bounds a release, which comes when other contexts may have ended.
const releaseTime = 3 * time.Second

// release lets go of everything that is held, also when the context has ended.
func (t *Toolset) release(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = newPanicError(p)
		}
		if t.stuck = err != nil; t.stuck {
			t.log.Error("keys and buttons may be held still: the release failed", "error", err)
			return
		}
		t.down = false
	}()
	return t.desktop.Release(ctx)
}
