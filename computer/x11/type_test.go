package x11_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/internal/desktest"
)

// mixed returns n characters of many kinds.
func mixed(n int) string {
	kinds := []string{
		"The quick brown fox JUMPS over the lazy dog 0123456789 ", "{}@#~<>[]|\\/^`'\"$%&*()=+;:!?,._- ",
		"漢字仮名交じり文を打つ試験日本語中文한국어", "😀🎉👩‍💻🇩🇪👍🏽", "Съешь же ещё этих мягких булок ", "ąéîõüßÆøñçŁž€£¥ ",
		"e\u0301a\u0308n\u0303", "שלום مرحبا ", "\ue000\uf8ff\U000f0000",
	}
	var runes []rune
	for i := 0; len(runes) < n; i++ {
		runes = append(runes, []rune(kinds[i%len(kinds)])...)
	}
	return string(runes[:n])
}

func open(t testing.TB, s *desktest.Server) *x11.Display {
	t.Helper()
	d, err := x11.Open(context.Background(), s.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestTypeIntoGTK(t *testing.T) {
	s := desktest.Xvfb(t, desktest.Options{})
	g := s.GTK(t, desktest.GTKOptions{})
	for _, layout := range []string{"us", "de", "fr", "ru"} {
		t.Run(layout, func(t *testing.T) {
			s.Layout(t, layout)
			d := open(t, s)
			g.Clear(t)
			g.Focus(t, desktest.Text)
			text := mixed(997) + "\n\t."
			n, err := d.Type(context.Background(), text)
			if err != nil || n != 1000 {
				t.Fatalf("typed %d, %v", n, err)
			}
			var got string
			defer func() {
				if got != text {
					fmt.Printf("got  %q\nwant %q\n", got, text)
				}
			}()
			desktest.Eventually(t, "text", func() bool { got = g.State(t).Text; return len(got) >= len(text) })
			if got != text {
				t.Fail()
			}
			_ = strings.Repeat
		})
	}
}
