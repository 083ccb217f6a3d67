package x11

import (
	"context"
	"image"
	"image/color"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// TestHistory plays redraws, and looks at which of them count.
func TestHistory(t *testing.T) {
	start := time.Unix(1000, 0)
	size := image.Pt(640, 480)
	spinner := image.Rect(100, 100, 124, 124)
	type redraw struct {
		after time.Duration // start
		area  image.Rectangle
	}
	every := func(pause time.Duration, from, to time.Duration, area func(i int) image.Rectangle) (out []redraw) {
		for i := 0; from+time.Duration(i)*pause <= to; i++ {
			out = append(out, redraw{from + time.Duration(i)*pause, area(i)})
		}
		return out
	}
	orbit := func(i int) image.Rectangle { // one turn in two seconds
		sin, cos := math.Sincos(float64(i) * 0.016 * math.Pi)
		return image.Rect(-7, -7, 7, 7).Add(image.Pt(320+int(80*cos), 240+int(80*sin)))
	}
	slide := func(i int) image.Rectangle {
		x := i * 6 % 1000
		return image.Rect(20, 200, 40, 208).Add(image.Pt(min(x, 1000-x), 0))
	}
	same := func(r image.Rectangle) func(int) image.Rectangle { return func(int) image.Rectangle { return r } }
	const ms = time.Millisecond
	tests := []struct {
		name    string
		redraws []redraw
		counted time.Duration // the last change that counts
		large   bool
	}{
		{"one change", every(ms, 0, 0, same(spinner)), 0, false},
		{"a spinner at 60 Hz", every(16*ms, 0, 5*time.Second, same(spinner)), 496 * ms, false},
		{"a video at 25 Hz", every(40*ms, 0, 5*time.Second, same(image.Rect(0, 0, 640, 480))), 480 * ms, true},
		{"a spinner drawn in parts", every(2*ms, 0, 5*time.Second, func(i int) image.Rectangle {
			return image.Rect(100+i%8, 100, 108+i%8, 124)
		}), 510 * ms, false},
		{"a menu that fades in", every(16*ms, 0, 400*ms, same(spinner)), 400 * ms, false},
		{"a page being built", every(50*ms, 0, 2*time.Second, func(i int) image.Rectangle {
			return image.Rect(0, 16*(i%30), 640, 16*(i%30)+16)
		}), 2 * time.Second, true},
		{
			"something beside a spinner", append(every(16*ms, 0, time.Second, same(spinner)),
				redraw{1001 * ms, spinner}, redraw{1002 * ms, image.Rect(100, 100, 140, 124)}, redraw{1016 * ms, spinner}),
			1002 * ms, false,
		},
		{"a dot that orbits", every(16*ms, 0, 5*time.Second, orbit), 992 * ms, false},
		{"a bar that slides to and fro", every(16*ms, 0, 5*time.Second, slide), 992 * ms, false},
		{
			"something beside a dot that orbits", append(every(16*ms, 0, 2*time.Second, orbit),
				redraw{2001 * ms, image.Rect(20, 20, 60, 60)}, redraw{2016 * ms, orbit(126)}),
			2001 * ms, false,
		},
		{
			"something where a dot has orbited", append(every(16*ms, 0, 2*time.Second, orbit),
				redraw{2500 * ms, image.Rect(260, 180, 380, 300)}),
			2500 * ms, false,
		},
		{"off the display", []redraw{{0, spinner}, {ms, image.Rect(-50, -50, -10, -10)}, {2 * ms, image.Rect(640, 0, 700, 10)}}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h history
			h.begin(start)
			for _, r := range tt.redraws {
				h.redraw(r.area, size, start.Add(r.after))
			}
			if got := h.counted.Sub(start); got != tt.counted {
				t.Errorf("the last change that counts is after %v, want %v", got, tt.counted)
			}
			want := time.Second
			if tt.large {
				want *= largeQuiet
			}
			if got := h.quiet(time.Second); got != want {
				t.Errorf("quiet must last %v, want %v", got, want)
			}
		})
	}
}

// redraw notes a redraw that changes all of its area.
func (h *history) redraw(area image.Rectangle, size image.Point, at time.Time) {
	var r redraws
	r.add(area, size, at)
	h.add(r, func(image.Rectangle) bool { return true })
}

// TestHistoryRemembers follows a spinner through several calls of Settle.
func TestHistoryRemembers(t *testing.T) {
	var h history
	size, spinner := image.Pt(640, 480), image.Rect(100, 100, 124, 124)
	now := time.Unix(1000, 0)
	spin := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); now = now.Add(16 * time.Millisecond) {
			h.redraw(spinner, size, now)
		}
	}
	begin := func() time.Time {
		h.begin(now)
		return now
	}
	first := begin()
	spin(time.Second)
	h.forget(first)
	learned := h.counted

	now = now.Add(time.Minute)
	second := begin()
	spin(100 * time.Millisecond)
	h.forget(second)
	if h.counted != learned {
		t.Errorf("a spinner that was known has counted again")
	}

	third := begin()
	now = now.Add(100 * time.Millisecond)
	h.forget(third) // it did not move
	begin()
	h.redraw(spinner, size, now)
	if h.counted != now {
		t.Errorf("where a spinner was, nothing counts")
	}
}

// TestHistoryFollows holds that what moves about is known in the next Settle while it goes
// on, wherever it has got to meanwhile, and no longer once it has stopped.
func TestHistoryFollows(t *testing.T) {
	const pace = 16 * time.Millisecond
	size := image.Pt(640, 480)
	now := time.Unix(1000, 0)
	place := 0
	bar := func() image.Rectangle {
		place = (place + 5) % 560
		return image.Rect(place, 100, place+80, 108)
	}
	var h history
	settle := func(left []bystander, input bool, steps int) (counted bool) {
		before := h.counted
		h.resume(now, left, input)
		for range steps {
			now = now.Add(pace)
			h.redraw(bar(), size, now)
		}
		return h.counted != before
	}
	if !settle(nil, true, 80) {
		t.Error("what has just begun to move does not count")
	}
	left := h.leave()
	follow := func(steps int) {
		for range steps {
			now = now.Add(pace)
			for i := range left {
				left[i].redrawn(bar(), now)
			}
		}
	}
	follow(60)
	for i := range left {
		left[i].moving = left[i].moves(now)
	}
	if settle(left, true, 10) {
		t.Error("what has moved all the time has counted again")
	}
	left = h.leave()
	follow(10)
	if settle(left, false, 10) {
		t.Error("without input, what has moved all the time has counted again")
	}
	left = h.leave()
	now = now.Add(time.Second)
	for i := range left {
		left[i].moving = left[i].moves(now)
	}
	if !settle(left, true, 1) {
		t.Error("where something had moved and stopped, nothing counts")
	}
}

// TestHistorySizes bounds the memory, and survives displays that change their size.
func TestHistorySizes(t *testing.T) {
	var h history
	for i, size := range []image.Point{{1, 1}, {1920, 1080}, {32767, 32767}, {0, 0}, {640, 480}} {
		now := time.Unix(int64(i), 0)
		h.redraw(image.Rectangle{Max: size}, size, now)
		h.redraw(image.Rect(-32768, -32768, 65535, 65535), size, now)
		if len(h.squares) > maxSquares {
			t.Errorf("%v takes %d squares", size, len(h.squares))
		}
		if drawn := h.counted.Equal(now); drawn != (size != image.Point{}) {
			t.Errorf("%v: a redraw counts: %v", size, drawn)
		}
	}
}

// draw draws with the given pace in the background until it returns false or the test ends.
// The channel is closed when it has drawn the last.
func draw(t *testing.T, pace time.Duration, step func(i int) bool) <-chan struct{} {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	ticker := time.NewTicker(pace)
	go func() {
		defer close(done)
		defer ticker.Stop()
		for i := 0; step(i); i++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return done
}

// patient has a bound that no test lives to see: a Settle that is held up by what must not
// hold it up does not return.
func patient(quiet time.Duration) *Options { return &Options{Quiet: quiet, Bound: time.Hour} }

// TestSettleWaits lets an application react to input in many steps, and expects to see the
// last.
func TestSettleWaits(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	p := newPainter(t, s)
	// The pause is long, for the sake of a busy machine.
	d := openDisplay(t, s, patient(time.Second))
	d.capturer.cursor = false
	d.settler.sent()
	draw(t, 20*time.Millisecond, func(i int) bool {
		p.fill(image.Rect(0, 8*i, 640, 8*i+8), 0xffffff)
		return i < 59
	})
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantPixels(t, capture(t, d, image.Rect(0, 0, 640, 480)), func(int, int) color.RGBA {
		return color.RGBA{255, 255, 255, 255}
	})
}

// TestSettlePressed clicks a button that looks pressed at once and is answered later: the
// answer must be waited for, which the look alone is not.
func TestSettlePressed(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	p := newPainter(t, s)
	// The pause is long, for the sake of a busy machine: the answer comes after one and a
	// half of it.
	d := openDisplay(t, s, patient(time.Second))
	d.capturer.cursor = false
	if err := d.Send(t.Context(), append([]computer.Event{moveTo(50, 50)}, click(computer.LeftButton)...)...); err != nil {
		t.Fatal(err)
	}
	answer := image.Rect(300, 300, 400, 400)
	draw(t, 1500*time.Millisecond, func(i int) bool {
		p.fill([]image.Rectangle{image.Rect(20, 30, 100, 60), answer}[i], 0xffffff)
		return i == 0
	})
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantPixels(t, capture(t, d, answer), func(int, int) color.RGBA { return color.RGBA{255, 255, 255, 255} })
}

// TestSettleFirst holds that the first Settle on a quiet screen takes what was before the
// opening for one small change, no more: it does not wait as after a change of all of it.
func TestSettleFirst(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	d := openDisplay(t, s, nil)
	for range 2 {
		if err := d.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := d.settler.seen.quiet(d.settler.quiet), d.options.Quiet; got != want {
			t.Errorf("a screen that nobody drew on must be quiet for %v, want %v", got, want)
		}
	}
	if d.settler.seen.changed > 0 {
		t.Errorf("%d squares of a screen that nobody drew on have changed", d.settler.seen.changed)
	}
}

// TestSettleRemembers holds that what shows already when the display is opened does not
// count when it is drawn again.
func TestSettleRemembers(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	p := newPainter(t, s)
	p.fill(image.Rect(0, 0, 640, 480), 0x808080)
	d := openDisplay(t, s, patient(time.Second))
	p.fill(image.Rect(0, 0, 640, 480), 0x808080)
	p.fill(image.Rect(0, 0, 10, 10), 0xffffff)
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.settler.seen.changed != 1 {
		t.Errorf("%d squares have changed, want 1", d.settler.seen.changed)
	}
}

// TestSettleSeesWindows expects redraws of windows to be seen, not just of the root.
func TestSettleSeesWindows(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	p := newPainter(t, s)
	d := openDisplay(t, s, nil)
	window := p.window(image.Rect(100, 100, 200, 200))
	if err := d.Settle(t.Context()); err != nil { // the window itself has then been seen
		t.Fatal(err)
	}
	if err := d.keyboard.follow(t.Context(), window); err != nil {
		t.Fatal(err)
	}
	before, watched := time.Now(), []xproto.Window{window}
	p.fillWindow(window, image.Rect(0, 0, 10, 10), 0x00ff00)
	desktest.Eventually(t, "the redraw of a window is seen", func() bool {
		return d.keyboard.echoes.seen(watched, before, 0)
	})
	if d.keyboard.echoes.seen(watched, time.Now(), 0) {
		t.Error("a redraw is seen that has not happened")
	}
}

// TestSettleAnimation expects animation not to hold it up.
func TestSettleAnimation(t *testing.T) {
	tests := []struct {
		name string
		pace time.Duration
		area image.Rectangle
	}{
		{"spinner", 16 * time.Millisecond, image.Rect(100, 100, 132, 132)},
		{"video", 33 * time.Millisecond, image.Rect(0, 0, 640, 480)},
		{"blinking cursor", 300 * time.Millisecond, image.Rect(10, 10, 12, 24)},
		{"moving dot", 16 * time.Millisecond, image.Rectangle{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
			p := newPainter(t, s)
			d := openDisplay(t, s, patient(0))
			draw(t, tt.pace, func(i int) bool {
				area := tt.area
				if area.Empty() {
					// To and fro over 400 pixels.
					x := i * 4 % 800
					area = image.Rect(100, 100, 114, 114).Add(image.Pt(min(x, 800-x), 0))
					p.fill(area.Inset(-5), 0)
				}
				p.fill(area, uint32(i)*0x010101)
				return true
			})
			for range 3 {
				d.settler.sent()
				if err := d.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSettleRedrawsWithoutChange keeps redrawing the whole screen with what it shows
// already, except for one small place. Only that may be taken for animation, and the rest
// must still count.
func TestSettleRedrawsWithoutChange(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	p := newPainter(t, s)
	d := openDisplay(t, s, patient(time.Second))
	draw(t, 10*time.Millisecond, func(i int) bool {
		p.fill(image.Rect(0, 0, 640, 470), 0x808080)
		p.fill(image.Rect(600, 472, 610, 480), uint32(i))
		return true
	})
	for range 2 {
		d.settler.sent()
		if err := d.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, q := range d.settler.seen.squares {
		x, y := i%d.settler.seen.columns*16, i/d.settler.seen.columns*16
		if q.animated && (x < 592 || y < 464) {
			t.Errorf("the square at (%d, %d) counts as animated", x, y)
		}
	}
}

// TestSettleBound gives a screen that never rests its bound, and no error.
func TestSettleBound(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 640, Height: 480})
	p := newPainter(t, s)
	d := openDisplay(t, s, &Options{Quiet: time.Hour, Bound: 100 * time.Millisecond})
	p.fill(image.Rect(0, 0, 10, 10), 0xff)
	d.settler.sent()
	if err := d.Settle(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSettleEnds expects an error when the context or the display ends.
func TestSettleEnds(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64})
	d := openDisplay(t, s, &Options{Quiet: time.Hour, Bound: time.Hour})
	d.settler.sent()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.Settle(ctx); err == nil {
		t.Error("no error with a context that ended")
	}

	other, err := Open(t.Context(), s.Name(), &Options{Quiet: time.Hour, Bound: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	other.settler.sent()
	failed := make(chan error, 1)
	go func() { failed <- other.Settle(t.Context()) }()
	_ = other.Close()
	if err := <-failed; err == nil {
		t.Error("no error with a display that was closed")
	}
}

// TestSettleWithoutDamage goes on on a display that cannot say what is redrawn.
func TestSettleWithoutDamage(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{Width: 64, Height: 64, Args: []string{"-extension", "DAMAGE"}})
	d := openDisplay(t, s, nil)
	if !slices.Contains(d.Missing(), "DAMAGE") {
		t.Errorf("missing are %v", d.Missing())
	}
	for range 2 {
		if err := d.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		d.settler.sent()
	}
}
