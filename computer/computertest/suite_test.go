package computertest_test

import (
	"context"
	"errors"
	"image"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-tools/loupe/computer"
	"github.com/loupe-tools/loupe/computer/computertest"
)

func TestFake(t *testing.T) { testDriver(t) }

// bareSubject hides what a subject can do beyond the least.
type bareSubject struct{ computertest.Subject }

// plainDesktop hides what a driver can do beyond the least.
type plainDesktop struct{ computer.Desktop }

func (s bareSubject) Desktop() computer.Desktop { return plainDesktop{s.Subject.Desktop()} }

// TestFakeBare: a subject that can do no more than it must passes too.
func TestFakeBare(t *testing.T) {
	computertest.Run(t, func(*testing.T) computertest.Subject {
		return bareSubject{&subject{Fake: computertest.NewFake(1280, 800)}}
	})
}

// faultySubject has a driver with a fault.
type faultySubject struct {
	*subject
	fault string
	live  *image.RGBA
	down  []computer.Button
}

func (s *faultySubject) Desktop() computer.Desktop { return s }

func (s *faultySubject) Send(ctx context.Context, events ...computer.Event) error {
	keys, buttons := s.subject.Held(nil)
	events = slices.Clone(events)
	var sent []computer.Event
	for _, e := range events {
		switch {
		case s.fault == "lets go of the last button" && e.Kind == computer.ButtonDown:
			s.down = append(s.down, e.Button)
		case s.fault == "lets go of the last button" && e.Kind == computer.ButtonUp && len(s.down) > 0:
			e.Button = s.down[len(s.down)-1]
			s.down = s.down[:len(s.down)-1]
		case s.fault == "clamps" && e.Kind == computer.Move:
			size, err := s.Size(ctx)
			if err != nil {
				return err
			}
			e.Point = image.Pt(min(max(e.Point.X, 0), size.X-1), min(max(e.Point.Y, 0), size.Y-1))
		case s.fault == "leaves a held shift out" && e.Key == computer.KeyShift:
			continue
		case s.fault == "presses twice" && (e.Kind == computer.ButtonDown && slices.Contains(buttons, e.Button) || e.Kind == computer.KeyDown && keys > 0):
			continue
		case s.fault == "refuses a release" && e.Kind == computer.ButtonUp && len(buttons) == 0 && !slices.ContainsFunc(sent, isPress):
			return errors.New("the button is not held")
		case s.fault == "has every button" && e.Kind == computer.ButtonDown && e.Button <= 0:
			continue
		}
		sent = append(sent, e)
	}
	if len(events) == 0 && s.fault == "wants an event" {
		return errors.New("there is no event")
	}
	return s.subject.Send(ctx, sent...)
}

func isPress(e computer.Event) bool { return e.Kind == computer.ButtonDown }

func (s *faultySubject) Release(ctx context.Context) error {
	if s.fault == "does not release after the end" && ctx.Err() != nil {
		return nil
	}
	return s.subject.Release(ctx)
}

func (s *faultySubject) Capture(ctx context.Context, r image.Rectangle) (*image.RGBA, error) {
	m, err := s.subject.Capture(ctx, r)
	if s.fault == "hands its own image out" && err == nil && r.Min == (image.Point{}) && r.Dx() > 1000 {
		if s.live == nil {
			s.live = m
		}
		return s.live, nil
	}
	return m, err
}

// TestSuiteFindsFaults runs the suite, in processes of their own, on drivers each of which
// has a fault.
func TestSuiteFindsFaults(t *testing.T) {
	const variable = "COMPUTERTEST_FAULT"
	if fault := os.Getenv(variable); fault != "" {
		computertest.RunWithin(t, func(*testing.T) computertest.Subject {
			return &faultySubject{subject: &subject{Fake: computertest.NewFake(1800, 1130)}, fault: fault}
		}, time.Second)
		return
	}
	for fault, test := range map[string]string{
		"lets go of the last button":     "Release of one of several",
		"clamps":                         "Move outside the display",
		"leaves a held shift out":        "Key with a held shift",
		"presses twice":                  "Press of what is held",
		"refuses a release":              "Release of what is not held",
		"has every button":               "Send refuses",
		"wants an event":                 "Send without events",
		"does not release after the end": "Release with an ended context",
		"hands its own image out":        "Capture belongs to the caller",
	} {
		t.Run(fault, func(t *testing.T) {
			name := strings.ReplaceAll(test, " ", "_")
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuiteFindsFaults$/^Desktop$/^"+name+"$", "-test.v")
			command.Env = append(os.Environ(), variable+"="+fault)
			output, err := command.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(output), "--- FAIL: TestSuiteFindsFaults/Desktop/"+name) {
				t.Errorf("a driver that %s does not fail %q (%v):\n%s", fault, test, err, output)
			}
		})
	}
}
