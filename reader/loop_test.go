package reader_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/reader"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

// The chart of the demonstration, through everything that a user's question goes
// through: its answer is exact with the zoom tool, and not found without.
func TestTheDemonstration(t *testing.T) {
	dir := t.TempDir()
	draw := exec.CommandContext(t.Context(), "/usr/bin/python3", filepath.Join("charts", "draw.py"), "--seed", "1", "--out", dir)
	if out, err := draw.CombinedOutput(); err != nil {
		t.Fatalf("the chart could not be drawn; install what it needs with: apt-get install python3-matplotlib python3-numpy python3-pil: %v\n%s", err, out)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	question, truth := read("question.txt"), read("answer.txt")
	if strings.Contains(question, "6,053") || truth != "6,053 units" {
		t.Fatalf("question %q, truth %q", question, truth)
	}
	p, err := picture.Decode(bytes.NewReader(readFile(t, filepath.Join(dir, "chart.png"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := reader.New(nil)
	if err != nil {
		t.Fatalf("%v (make setup installs it)", err)
	}
	client := anthropic.NewClient(option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: r.Transport()}), option.WithMaxRetries(0))
	ask := func(viewOnly bool) *agent.Answer {
		tool, err := zoom.NewWithOptions(&zoom.Options{Limits: vision.Standard, ViewOnly: viewOnly}, p)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := agent.New(client, &agent.Options{Model: reader.Model}).Ask(context.Background(), question, tool)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if a := ask(false); a.Text != truth || a.Status != agent.StatusAnswered || a.Turns < 2 {
		t.Errorf("with zoom: %q after %d turns (%s), want %q", a.Text, a.Turns, a.Status, truth)
	}
	if a := ask(true); !strings.HasPrefix(a.Text, "I could not find") || a.Turns != 1 {
		t.Errorf("without zoom: %q after %d turns", a.Text, a.Turns)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
