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

// Subject is a driver under test, together with a desktop that it drives and an application
// on that desktop which says what it was given. The methods that take a [testing.TB] end the
// test when they fail.
//
// The suite calls the methods from one goroutine at a time. It calls Seen, Text and Held
// also while a method of the driver runs in another goroutine, such as Type: an
// implementation that shares memory with the driver must lock it.
//
// A subject that can do more says so by more methods: see [Painter], [Resizer] and
// [Reserver].
type Subject interface {
	// Desktop returns the driver. It is the same one each time.
	Desktop() computer.Desktop

	// Reset gives the application the keyboard focus and an empty text, and makes it
	// forget what it has seen, clicks that would count towards a double click included.
	// It is called before each test and within some. It need not release keys and buttons:
	// none is held when it is called.
	Reset(t testing.TB)

	// Area returns where on the display the application sees the pointer, in display
	// pixels. It must be at least 200 pixels wide and 80 high.
	Area(t testing.TB) image.Rectangle

	// Seen returns what the application has been given since Reset, in order, as far as
	// it has got by now. The suite calls it again until what it waits for is there. It may
	// or may not contain the keys that Type presses: the suite looks only at the text then.
	Seen(t testing.TB) []Seen

	// Text returns the text that the application has by now: what was typed since Reset,
	// with "\n" for the Return key and "\t" for the Tab key, and the characters of the
	// keys that Send pressed without Control, Alt or Super.
	Text(t testing.TB) string

	// Held returns how many keys and which buttons are down, as the desktop itself says
	// and not the driver. Buttons are in ascending order, those of the wheel may be
	// missing. A key that the driver pressed for the sake of another one, such as Shift
	// for the key 'A', may be counted or not.
	Held(t testing.TB) (keys int, buttons []computer.Button)
}

// Painter is a Subject whose application shows what it is told to. Without it, [Run] checks
// no pixels: not those of captures, screenshots and zooms, nor that a capture shows the
// pointer and what has changed. Run logs that.
type Painter interface {
	// Paint shows an image at its own bounds, in display pixels, and returns when it is
	// on the screen. The image is opaque, its bounds lie within Area, and it is valid only
	// during the call.
	Paint(t testing.TB, m image.Image)
}

// Resizer is a Subject whose desktop can change its size. Without it, [Run] does not check
// what happens when the size changes, and logs that.
type Resizer interface {
	// Resize gives the display another size, in display pixels, and returns when the
	// display has it. No edge is longer than it was at first.
	Resize(t testing.TB, size image.Point)
}

// Reserver is a Subject whose desktop keeps some clicks from the application, as window
// managers do that move a window when it is clicked with Alt. A subject without it reserves
// none.
type Reserver interface {
	// Reserved reports whether the desktop keeps clicks with a modifier for itself. The
	// modifier is shift, ctrl, alt or super.
	Reserved(modifier string) bool
}

// Seen is one thing that an application was given. Which fields count depends on Kind; the
// others must be zero.
type Seen struct {
	Kind   SeenKind
	Button computer.Button // of Press and Release
	Point  image.Point     // of Press, Release and Motion: where the pointer was, in display pixels

	// Count is of Press: 1 for a single click, 2 for a double click and 3 for a triple, as
	// the application counts them. An application should count a press on from the last
	// one of the same button that came at most 400 ms before and at most 5 pixels away.
	// The toolset leaves about 60 ms between the presses of one double or triple click,
	// and at least 500 ms between clicks that must not be counted together. A press of a
	// button of the wheel counts 1.
	Count int

	// Key is of KeyPress and KeyRelease: the symbol that the application made of the key,
	// such as 'F' when the key 'f' was pressed with Shift.
	Key computer.Key

	// Modifiers are the modifiers that were down just before this happened: shift, ctrl,
	// alt and super, in that order, joined with a "+". So the press of a modifier key does
	// not name that modifier itself, and the release of it does: a press and a release of
	// Shift alone have "" and "shift".
	Modifiers string
}

// SeenKind says what a Seen is.
type SeenKind string

// The kinds of what an application sees. A click of the wheel is a Press of one of the
// wheel's buttons, and its Release may be missing.
const (
	Press      SeenKind = "press"
	Release    SeenKind = "release"
	Motion     SeenKind = "motion" // where moves follow each other closely, all but the last may be missing
	KeyPress   SeenKind = "key press"
	KeyRelease SeenKind = "key release"
)

// Run runs the suite: the contract of [computer.Desktop], and each member of the toolset on
// top of it. What counts is what the application says, not the driver. start is called once,
// and all tests use the subject that it returns; what it started is ended with t.Cleanup.
//
// A subject that is no [Painter] or no [Resizer] and a driver that is no [computer.Settler]
// can be tested only in part. The tests that would check nothing are not run then, and Run
// logs what is not checked, which go test shows with -v.
//
// A test waits up to 30 seconds for the application to get what it was given. It fails only
// after that time, so that a slow machine does not fail a good driver.
func Run(t *testing.T, start func(t *testing.T) Subject) { runWithin(t, start, 30*time.Second) }

// runWithin is Run with a patience: how long an application may take for anything.
func runWithin(t *testing.T, start func(t *testing.T) Subject, patience time.Duration) {
	s := &suite{Subject: start(t), patience: patience}
	_, s.paints = s.Subject.(Painter)
	_, s.resizes = s.Subject.(Resizer)
	_, s.settles = s.Desktop().(computer.Settler)
	if !s.paints {
		t.Log("not checked, since the subject is no Painter: the pixels of captures, screenshots and zooms, and that a capture shows the pointer and what is new on the screen")
	}
	if !s.resizes {
		t.Log("not checked, since the subject is no Resizer: what happens when the display changes its size")
	}
	if !s.settles {
		t.Log("not checked, since the driver is no computer.Settler: how it settles")
	}
	t.Run("Desktop", s.testDesktop)
	t.Run("Toolset", s.testToolset)
}

// suite is the suite on one subject.
type suite struct {
	Subject
	patience                 time.Duration
	paints, resizes, settles bool
	shared                   *hands
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

// when returns the tests where they can check something, else none.
func when(can bool, tests ...namedTest) []namedTest {
	if !can {
		return nil
	}
	return tests
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

// eventually waits until a condition holds. The condition looks at the application.
func (t *test) eventually(what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(t.s.patience)
	for !condition() {
		if time.Now().After(deadline) {
			keys, buttons := t.s.Held(t)
			t.Fatalf("not within %v: %s; %d keys and the buttons %v are down; the application has seen %v and has the text %q", t.s.patience, what, keys, buttons, t.s.Seen(t), t.s.Text(t))
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
