// Command bench measures the built-in reader: it draws charts with one small label
// each, asks every question once without the zoom tool and once with it, through the
// same loop as a user does, and counts.
//
//	go run ./reader/bench -n 50 -seed 1
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"net/http"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/reader"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the command's flags.
type settings struct {
	count   int
	seed    int
	kind    string
	dir     string
	tier    string
	workers int
	script  string
	python  string
}

// chart is a line of charts.jsonl as draw.py writes it.
type chart struct {
	File     string  `json:"file"`
	Question string  `json:"question"`
	Truth    string  `json:"truth"`
	Font     float64 `json:"font"`
}

func run(ctx context.Context) error {
	var s settings
	flag.IntVar(&s.count, "n", 50, "how many charts")
	flag.IntVar(&s.seed, "seed", 1, "the seed they are drawn from")
	flag.StringVar(&s.kind, "kind", "chart", "what is drawn: chart, dark, notes, table, map, page or screen")
	flag.StringVar(&s.dir, "dir", "", "read charts.jsonl and its pictures in this folder; draw nothing")
	flag.StringVar(&s.tier, "tier", "standard", "image budget: standard (1568 px) or high (2576 px)")
	flag.IntVar(&s.workers, "workers", 0, "OCR processes at once; 0 is one for each processor")
	flag.StringVar(&s.script, "draw", filepath.Join("reader", "charts", "draw.py"), "the script that draws")
	flag.StringVar(&s.python, "python", "/usr/bin/python3", "the Python that has matplotlib")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	limits := vision.Standard
	switch s.tier {
	case "standard":
	case "high":
		limits = vision.HighResolution
	default:
		return fmt.Errorf("the tier is standard or high, not %q", s.tier)
	}
	// One reader for each arm: they must not know what the other has read.
	plainReader, err := reader.New(&reader.Options{Workers: s.workers}) //nolint:contextcheck // its look at the engine has a bound of its own
	if err != nil {
		return err
	}
	zoomReader, err := reader.New(&reader.Options{Workers: s.workers}) //nolint:contextcheck // as above
	if err != nil {
		return err
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "charts")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.dir = dir
		fmt.Printf("drawing %d pictures (%s, seed %d)\n", s.count, s.kind, s.seed)
		draw := exec.CommandContext(ctx, s.python, s.script, "--out", dir, "--kind", s.kind,
			"--count", fmt.Sprint(s.count), "--seed", fmt.Sprint(s.seed))
		draw.Stderr = os.Stderr
		if err := draw.Run(); err != nil {
			return fmt.Errorf("drawing failed (it needs: apt-get install python3-matplotlib python3-pil): %w", err)
		}
	}
	charts, err := load(filepath.Join(s.dir, "charts.jsonl"))
	if err != nil {
		return err
	}
	var with, without tally
	for _, c := range charts[:min(s.count, len(charts))] {
		p, err := picture.Open(filepath.Join(s.dir, c.File), nil)
		if err != nil {
			return err
		}
		plain, err := ask(ctx, plainReader, limits, p, c, true)
		if err != nil {
			return err
		}
		zoomed, err := ask(ctx, zoomReader, limits, p, c, false)
		if err != nil {
			return err
		}
		without.add(plain)
		with.add(zoomed)
		fmt.Printf("%s  %4.1f  without %-9s  with %-9s %2d zooms %5.1f s  %q: %q, truth %q\n", c.File, c.Font,
			plain.verdict, zoomed.verdict, zoomed.zooms, zoomed.took.Seconds(), c.Question, zoomed.text, c.Truth)
	}
	n := with.count
	if n == 0 {
		return errors.New("there are no charts")
	}
	fmt.Printf("\n%s tier, %d pictures\n", s.tier, n)
	fmt.Printf("without zoom: exact %d, wrong %d, not found %d; %.1f s a picture\n",
		without.exact, without.wrong, without.missed, without.took.Seconds()/float64(n))
	fmt.Printf("with zoom:    exact %d, wrong %d, not found %d; %.1f zooms and %.1f s a picture\n",
		with.exact, with.wrong, with.missed, float64(with.zooms)/float64(n), with.took.Seconds()/float64(n))
	return nil
}

func load(path string) ([]chart, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []chart
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		var c chart
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(out)+1, err)
		}
		out = append(out, c)
	}
}

// result is one question asked once.
type result struct {
	text    string
	verdict verdict
	zooms   int
	took    time.Duration
}

// ask puts the question through the loop, with the reader in the model's place.
func ask(ctx context.Context, r *reader.Reader, limits vision.Limits, p *picture.Picture, c chart, viewOnly bool) (result, error) {
	var out result
	tool, err := zoom.NewWithOptions(&zoom.Options{
		Limits:   limits,
		ViewOnly: viewOnly,
		Observe:  func(zoom.Zoom) { out.zooms++ },
	}, p)
	if err != nil {
		return out, err
	}
	client := anthropic.NewClient(option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: r.Transport()}), option.WithMaxRetries(0))
	began := time.Now()
	answer, err := agent.New(client, &agent.Options{Model: reader.Model, Limits: limits}).Ask(ctx, c.Question, tool)
	if err != nil {
		return out, err
	}
	out.took = time.Since(began)
	out.text = answer.Text
	out.verdict = judge(answer.Text, c.Truth)
	return out, nil
}

// verdict is how an answer stands to the truth.
type verdict string

const (
	exact  verdict = "exact"
	wrong  verdict = "WRONG"
	missed verdict = "not found"
)

var numberPattern = regexp.MustCompile(`\d[\d.,]*\d|\d`)

// judge calls an answer exact when it is the truth, or states the truth's number and
// no other; a reader that says that it found nothing has missed; the rest is wrong.
func judge(answer, truth string) verdict {
	answer = strings.TrimSpace(answer)
	if strings.HasPrefix(answer, "I could not") {
		return missed
	}
	if strings.EqualFold(answer, truth) {
		return exact
	}
	got, want := numberPattern.FindAllString(answer, -1), numberPattern.FindAllString(truth, -1)
	if len(got) == 1 && len(want) == 1 && got[0] == want[0] {
		return exact
	}
	return wrong
}

// tally counts results.
type tally struct {
	count, exact, wrong, missed, zooms int
	took                               time.Duration
}

func (t *tally) add(r result) {
	t.count++
	t.zooms += r.zooms
	t.took += r.took
	switch r.verdict {
	case exact:
		t.exact++
	case wrong:
		t.wrong++
	default:
		t.missed++
	}
}
