package computertest

import (
	"context"
	"image"
	"image/color"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/computer"
)

// Subject is a driver under test, on a desktop with an application that says what it got.
// The methods that take a [testing.TB] end the test when they fail.
//
// What a desktop can do beyond this it says by more methods: see [Painter], [Resizer] and
// [Reserver].
type Subject interface {
	// Desktop returns the driver. It is the same one each time.
	Desktop() computer.Desktop

	// Reset gives the application the keyboard focus and an empty text, and makes it
	// forget what it has seen.
	Reset(t testing.TB)

	// Area returns where the application sees the pointer, in display pixels. It has 200
	// by 80 of them or more.
	Area(t testing.TB) image.Rectangle

	// Seen returns what the application has been given since Reset, in order, as far as
	// it has come by now.
	Seen(t testing.TB) []Seen

	// Text returns the text that the application has by now.
	Text(t testing.TB) string

	// Held returns how many keys and which buttons are down, as the desktop itself says.
	Held(t testing.TB) (keys int, buttons []computer.Button)
}

// Painter is a Subject whose application shows what it is told to.
type Painter interface {
	// Paint shows an image at its own bounds, in display pixels, and returns when it is
	// on the screen.
	Paint(t testing.TB, m image.Image)
}

// Resizer is a Subject whose desktop can change its size.
type Resizer interface {
	// Resize gives the display a size, no larger than that which it had at first.
	Resize(t testing.TB, size image.Point)
}

// Reserver is a Subject whose desktop keeps some clicks from the application.
type Reserver interface {
	// Reserved reports whether a click with a modifier (shift, ctrl, alt or super) is the
	// desktop's own.
	Reserved(modifier string) bool
}

// Seen is one thing that an application was given. Which fields count depends on Kind.
type Seen struct {
	Kind   SeenKind
	Button computer.Button // of Press and Release
	Count  int             // of Press: 2 for a double click, 3 for a triple, as the application counts
	Key    computer.Key    // of KeyPress and KeyRelease: the symbol that the application made of it
	Point  image.Point     // of all but keys, in display pixels

	// Modifiers are those that were down before: shift, ctrl, alt and super in that
	// order, joined with a +.
	Modifiers string
}

// SeenKind says what a Seen is.
type SeenKind string

// The kinds of what an application sees. A click of the wheel is a Press of one of the
// wheel's buttons; its Release may be missing.
const (
	Press      SeenKind = "press"
	Release    SeenKind = "release"
	Motion     SeenKind = "motion" // all but the last of a moment may be missing
	KeyPress   SeenKind = "key press"
	KeyRelease SeenKind = "key release"
)

// Run runs the suite on the subject that start makes, once, for the whole of it: the
// contract of [computer.Desktop], and each member of the toolset on top of it. What counts
// is what the application says, not the driver.
func Run(t *testing.T, start func(t *testing.T) Subject) {
	s := &suite{Subject: start(t)}
	t.Run("Desktop", s.testDesktop)
	t.Run("Toolset", s.testToolset)
}

// suite is the suite on one subject.
type suite struct {
	Subject
	shared *hands
}

// test is one test of it.
type test struct {
	*testing.T
	s *suite
	d computer.Desktop
}

type namedTest struct {
	name string
	run  func(t *test)
}

// run runs tests, each from a clean start, and sees to it that none leaves anything held.
func (s *suite) run(t *testing.T, tests []namedTest) {
	for _, one := range tests {
		t.Run(one.name, func(t *testing.T) {
			s.Reset(t)
			defer func() {
				if err := s.Desktop().Release(context.Background()); err != nil {
					t.Errorf("Release: %v", err)
				}
			}()
			test := &test{t, s, s.Desktop()}
			one.run(test)
			if !t.Failed() {
				test.wantNothingHeld()
			}
		})
	}
}

// patience is how long an application may take for anything.
const patience = 30 * time.Second

// eventually waits until a condition holds. The condition looks at the application.
func (t *test) eventually(what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			keys, buttons := t.s.Held(t)
			t.Fatalf("not within %v: %s; %d keys and the buttons %v are down; the application has seen %v and has the text %q", patience, what, keys, buttons, t.s.Seen(t), t.s.Text(t))
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// seen returns all that the application has been given. It moves the pointer and waits for
// the application to see that, which is then not in the result: whatever came before has
// come by then.
func (t *test) seen() []Seen {
	t.Helper()
	area := t.s.Area(t)
	first, last := area.Min.Add(image.Pt(area.Dx()/2+3, 7)), area.Min.Add(image.Pt(area.Dx()/2+11, 9))
	t.send(move(first), move(last))
	var all []Seen
	t.eventually("the application sees the pointer move", func() bool {
		all = t.s.Seen(t)
		return len(all) > 0 && all[len(all)-1].Kind == Motion && all[len(all)-1].Point == last
	})
	for len(all) > 0 && all[len(all)-1].Kind == Motion && (all[len(all)-1].Point == last || all[len(all)-1].Point == first) {
		all = all[:len(all)-1]
	}
	return all
}

// only returns those of some kinds.
func only(all []Seen, kinds ...SeenKind) []Seen {
	var some []Seen
	for _, e := range all {
		for _, kind := range kinds {
			if e.Kind == kind {
				some = append(some, e)
			}
		}
	}
	return some
}

// buttons returns the presses and releases of buttons, those of the wheel's as presses
// alone.
func buttons(all []Seen) []Seen {
	var some []Seen
	for _, e := range only(all, Press, Release) {
		if e.Kind == Press || e.Button < computer.WheelUp {
			some = append(some, e)
		}
	}
	return some
}

func (t *test) send(events ...computer.Event) {
	t.Helper()
	if err := t.d.Send(t.Context(), events...); err != nil {
		t.Fatalf("Send %v: %v", events, err)
	}
}

func move(p image.Point) computer.Event { return computer.Event{Kind: computer.Move, Point: p} }

func press(b computer.Button) computer.Event {
	return computer.Event{Kind: computer.ButtonDown, Button: b}
}

func release(b computer.Button) computer.Event {
	return computer.Event{Kind: computer.ButtonUp, Button: b}
}

func keyDown(k computer.Key) computer.Event { return computer.Event{Kind: computer.KeyDown, Key: k} }
func keyUp(k computer.Key) computer.Event   { return computer.Event{Kind: computer.KeyUp, Key: k} }

// wantNothingHeld wants no key and no button down. It waits: while a window manager looks
// at a key that it grabs, the display keeps what comes after it back.
func (t *test) wantNothingHeld() {
	t.Helper()
	t.eventually("no key and no button is down", func() bool {
		keys, buttons := t.s.Held(t)
		return keys == 0 && len(buttons) == 0
	})
}

func (t *test) wantText(want string) {
	t.Helper()
	var got string
	t.eventually("the application has the text", func() bool {
		got = t.s.Text(t)
		return len([]rune(got)) >= len([]rune(want))
	})
	_ = t.seen() // nothing more may come
	got = t.s.Text(t)
	if got == want {
		return
	}
	a, b := []rune(got), []rune(want)
	for i := range b {
		if i >= len(a) || a[i] != b[i] {
			t.Fatalf("the text is wrong from character %d of %d on: got %q, want %q", i, len(b), clip(a, i), clip(b, i))
		}
	}
	t.Fatalf("the text has %d characters too many: %q", len(a)-len(b), clip(a, len(b)))
}

// clip returns some characters around one.
func clip(text []rune, at int) string {
	return string(text[max(0, min(at-5, len(text))):min(at+20, len(text))])
}

// corners returns the four corner pixels of a rectangle.
func corners(r image.Rectangle) []image.Point {
	return []image.Point{r.Min, {r.Max.X - 1, r.Min.Y}, {r.Min.X, r.Max.Y - 1}, r.Max.Sub(image.Pt(1, 1))}
}

// randomPoints returns points within a rectangle, the same ones each time.
func randomPoints(r image.Rectangle, n int) []image.Point {
	random := rand.New(rand.NewPCG(uint64(r.Dx()), uint64(r.Dy())))
	points := make([]image.Point, n)
	for i := range points {
		points[i] = r.Min.Add(image.Pt(random.IntN(r.Dx()), random.IntN(r.Dy())))
	}
	return points
}

// mixedText returns n characters that a keyboard has and that it has not: Latin, marks
// that are dead keys somewhere, Cyrillic, Greek, CJK, emoji, line ends and tabs, with runs
// of one character among them.
func mixedText(n int) string {
	alphabets := [][]rune{
		[]rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
		[]rune("{}@#~<>[]|\\^`'\"$%&/()=?!*+-_.:,; §°´¨¿€"),
		[]rune("äöüßÄÖÜéèêçàùñøåœłžğİı"),
		[]rune("абвгдежзийклмнопрстуфхцчшщъыьэюяЖЩЫЁё"),
		[]rune("αβγδεζΩ"),
		[]rune("漢字日本語中文测试한국어テスト"),
		[]rune("😀🎉👍🏽🚀𝒳"),
		[]rune("\n\t "),
	}
	weights := []int{30, 20, 12, 12, 4, 14, 5, 3}
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]rune, 0, n)
	for len(text) < n {
		pick := random.IntN(100)
		for i, weight := range weights {
			if pick -= weight; pick < 0 {
				r := alphabets[i][random.IntN(len(alphabets[i]))]
				for range 1 + random.IntN(5)/4 {
					text = append(text, r)
				}
				break
			}
		}
	}
	return string(text[:n])
}

// checkerboard is an image whose pixels are black and white by turns.
func checkerboard(r image.Rectangle) *image.RGBA {
	m := image.NewRGBA(r)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c := color.RGBA{A: 255}
			if (x+y)%2 == 0 {
				c = color.RGBA{255, 255, 255, 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	return m
}

// gradient is an image whose pixels tell where they are.
func gradient(r image.Rectangle) *image.RGBA {
	m := image.NewRGBA(r)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			m.SetRGBA(x, y, color.RGBA{uint8(x), uint8(y), uint8(x>>8<<4 | y>>8), 255})
		}
	}
	return m
}
