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
//
// In every numeric field zero stands for the default. A negative number stands for the
// default too, except that a negative MaxEdge means that there is no bound.
type Options struct {
	// Limits are those of the model that looks. The zero Limits stand for vision.Standard.
	Limits vision.Limits

	// MaxEdge bounds the longest edge of screenshots and zooms, in pixels of the image, so
	// that a conversation may hold more than 20 of them. The default is 2000. With a
	// negative number only Limits bound it.
	MaxEdge int

	// Disabled names the members that are switched off. They are declared as not enabled,
	// and calls to them are refused.
	Disabled []string

	// Confirm is asked before each block is run, when it is known what the block would do.
	// When Confirm is nil, there is nobody to ask: type, key and hold_key are refused, and
	// the other members are approved. Use ApproveAll to approve everything. Confirm must
	// return when the context ends. The time that it takes does not count as the block's.
	// A panic in it is a refusal.
	Confirm func(ctx context.Context, action Action) Decision

	// AppendScreenshot adds a screenshot to the last result of a turn. Nothing is added
	// when the turn has failed, when its last block is a screenshot already, or when
	// screenshots are switched off.
	AppendScreenshot bool

	// MaxText bounds the text of one type block, in Unicode code points. The default is
	// 100,000.
	MaxText int

	// MaxImageBytes bounds one image, in bytes after base64. A screenshot that would be
	// larger loses detail and keeps its size. A zoom that would be larger becomes smaller.
	// In both cases a text beside the image says so. The default is
	// picture.DefaultMaxBase64.
	MaxImageBytes int

	// BlockTime bounds the time of one block. The duration that the block asks for, and
	// 10 ms for each character that it types, come on top of it. The default is 60 s.
	BlockTime time.Duration

	// Log gets an entry for everything that failed, with the errors of the driver, which
	// the model does not see. What was typed is never logged. When Log is nil, nothing is
	// logged.
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

// New returns the toolset on a desktop. Whoever opened the desktop closes it. A nil o is the
// zero Options. The options are copied: what o holds may be changed afterwards.
//
// New fails when d is nil, when Disabled has a name that is not in [Members], and when
// Limits and MaxEdge leave images with an edge of less than [vision.Patch] pixels or of less
// than one token. It does not call the desktop.
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

// Close releases every key and button that is held, and takes at most 3 seconds for it. It
// does not close the desktop. Its error is the driver's, which means that something may
// still be held. The Toolset can be used afterwards, and Close can be called again.
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
