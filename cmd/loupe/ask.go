package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/reader"
	"github.com/loupe-tools/loupe/record"
	"github.com/loupe-tools/loupe/vision"
	"github.com/loupe-tools/loupe/zoom"
)

type askCmd struct {
	Args []string `arg:"" name:"image... question" help:"Images, then the question. An image is a path, - for standard input, a data URI, or a URL with --allow-url."`

	BaseURL   string  `name:"base-url" placeholder:"URL" help:"Server of the Messages API, for one other than Anthropic's; it may need no key."`
	Reader    bool    `help:"Use the built-in reader even where there is a key."`
	MaxTurns  int     `default:"20" placeholder:"N" help:"Bound on the model's turns (${default}); after it the model is asked once more, plainly, to answer."`
	MaxTokens int     `default:"8192" placeholder:"N" help:"Bound on the output tokens of one turn (${default})."`
	MaxTotal  int64   `name:"max-total-tokens" placeholder:"N" help:"Begin no turn once this many tokens, in and out, are used (0: no bound)."`
	MaxCost   float64 `placeholder:"USD" help:"Stop before a turn that could bring the cost above this many US dollars (0: no bound)."`
	Prices    string  `placeholder:"FILE" help:"A table of prices in place of the built-in one."`
	NoZoom    bool    `help:"Show the images but offer no zoom, for comparison."`
	NoCache   bool    `help:"Do without prompt caching."`
	Record    string  `placeholder:"DIR" help:"Write each message and image here; the folder must be new or empty."`
	JSON      bool    `name:"json" help:"Print one JSON object: answer, status, turns, zooms, usage, cost_usd."`
	Quiet     bool    `short:"q" help:"No progress on standard error."`
	limitFlags
	sourceFlags
}

// Help is the longer text of ask --help.
func (c *askCmd) Help() string {
	return "Claude answers when ANTHROPIC_API_KEY is set (or ANTHROPIC_AUTH_TOKEN, or ANTHROPIC_PROFILE), or the server of --base-url, for which --model names its model. " +
		"Otherwise the built-in reader does, which finds and reads text with OCR and nothing more.\n\n" +
		"The answer goes to standard output, progress to standard error."
}

// Run asks the question and prints the answer.
func (c *askCmd) Run(env *environment) error {
	if len(c.Args) < 2 {
		return usagef("ask needs an image and a question: loupe ask IMAGE... QUESTION")
	}
	if c.MaxTurns < 1 || c.MaxTokens < 1 || c.MaxTotal < 0 || !(c.MaxCost >= 0) || math.IsInf(c.MaxCost, 0) {
		return usagef("--max-turns and --max-tokens must be at least 1, --max-total-tokens and --max-cost not negative")
	}
	refs, question := c.Args[:len(c.Args)-1], c.Args[len(c.Args)-1]
	if strings.TrimSpace(question) == "" {
		return usagef("the question, which is the last argument, is empty")
	}
	if info, err := os.Stat(question); err == nil && info.Mode().IsRegular() {
		return usagef("the last argument is the question, and %s is a file: loupe ask IMAGE... QUESTION", question)
	}
	if most := vision.DefaultRequestLimits().MaxImages; len(refs) > most {
		return usagef("there are %d images, and a request may carry %d; ask about fewer at a time", len(refs), most)
	}
	if err := checkBaseURL(c.BaseURL); err != nil {
		return err
	}
	override, err := c.override()
	if err != nil {
		return err
	}
	prices, err := c.prices()
	if err != nil {
		return err
	}
	var pictures []*picture.Picture
	for _, ref := range refs {
		p, err := c.load(env, ref)
		if err != nil {
			return err
		}
		pictures = append(pictures, p)
	}
	client, model, err := c.connect(env)
	if err != nil {
		return err
	}

	show := &progress{env: env, quiet: c.Quiet}
	observers := []func(agent.Event){show.event}
	var recorder *record.Recorder
	if c.Record != "" {
		if recorder, err = record.Create(c.Record); err != nil {
			return err
		}
		observers = append(observers, recorder.Observe)
	}
	a := agent.New(client, &agent.Options{
		Model: model, MaxTurns: c.MaxTurns, MaxTokens: c.MaxTokens, MaxTotalTokens: c.MaxTotal, MaxCost: c.MaxCost,
		Prices: prices, Limits: override, NoCache: c.NoCache,
		Observe: func(e agent.Event) {
			for _, observe := range observers {
				observe(e)
			}
		},
	})
	limits, known := a.ImageLimits(len(pictures))
	if !known && model != reader.Model {
		warnTier(env, model)
	}
	tool, err := zoom.NewWithOptions(&zoom.Options{Limits: limits, ViewOnly: c.NoZoom, Observe: show.zoom}, pictures...)
	if err != nil {
		return err
	}

	answer, runErr := a.Ask(env.ctx, question, tool)
	show.end(answer)
	if recorder != nil {
		if err := recorder.Close(answer, runErr); err != nil {
			env.warn("%v", err)
			if err := c.print(env, answer, show.zooms, runErr); err != nil {
				return err
			}
			return errReported
		}
	}
	return c.print(env, answer, show.zooms, runErr)
}

// checkBaseURL refuses an address that cannot be one, before anything else is done.
func checkBaseURL(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usagef("--base-url must be an address such as http://127.0.0.1:8000, not %q", address)
	}
	return nil
}

// print writes the answer, or says why there is none.
func (c *askCmd) print(env *environment, answer *agent.Answer, zooms []zoomJSON, runErr error) error {
	if c.JSON {
		object := answerJSON{
			Answer: answer.Text, Status: answer.Status, Detail: answer.Detail, Turns: answer.Turns,
			Zooms: zooms, Usage: answer.Usage,
		}
		if answer.CostIsKnown {
			object.Cost = &answer.Cost
		}
		if err := env.printJSON(object); err != nil {
			return err
		}
	}
	switch {
	case runErr != nil:
		return runErr
	case answer.Text == "":
		return errors.New(printable(answer.Detail))
	case answer.Status == agent.StatusTruncated:
		env.warn("the answer was cut at --max-tokens.")
	}
	if c.JSON {
		return nil
	}
	_, err := fmt.Fprintln(env.stdout, printable(answer.Text))
	return err
}

func (c *askCmd) prices() (*agent.Prices, error) {
	if c.Prices == "" {
		return agent.DefaultPrices(), nil
	}
	data, err := os.ReadFile(c.Prices)
	if err != nil {
		return nil, fmt.Errorf("the table of prices cannot be read: %w", err)
	}
	return agent.ParsePrices(data)
}

// connect chooses who answers: the server of --base-url, Claude where there is a
// credential, else the built-in reader, and says so. It returns the model's name too.
func (c *askCmd) connect(env *environment) (anthropic.Client, string, error) {
	credential := hasCredential(env)
	switch {
	case c.Reader && c.BaseURL != "":
		return anthropic.Client{}, "", usagef("--reader and --base-url exclude each other")
	case c.BaseURL != "":
		options := []option.RequestOption{option.WithBaseURL(c.BaseURL), option.WithMiddleware(patience(env))}
		if !credential {
			// A local server mostly wants no key, but the client must send something.
			options = append(options, option.WithoutEnvironmentDefaults(), option.WithAPIKey("none"))
		}
		return anthropic.NewClient(options...), cmp.Or(c.Model, defaultModel), nil
	case credential && !c.Reader:
		return anthropic.NewClient(option.WithMiddleware(patience(env))), cmp.Or(c.Model, defaultModel), nil
	}
	r, err := reader.New(nil)
	if err != nil {
		return anthropic.Client{}, "", fmt.Errorf("there is no ANTHROPIC_API_KEY, and the built-in reader cannot stand in: %w", err)
	}
	if !c.Reader {
		env.warn("no ANTHROPIC_API_KEY is set: the built-in reader answers, which can only find and read text.")
	}
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey("none"), option.WithMaxRetries(0),
		option.WithBaseURL("http://reader.invalid"), option.WithHTTPClient(&http.Client{Transport: r.Transport()}))
	return client, reader.Model, nil
}

// longestWait is how long a person is left waiting for a server that asks for patience.
const longestWait = 2 * time.Minute

// patience says when a server asks to wait, and gives up where it asks for too long. The
// SDK waits and tries again by itself.
func patience(env *environment) option.Middleware {
	return func(request *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		response, err := next(request)
		if err != nil || response.StatusCode != http.StatusTooManyRequests && response.StatusCode < http.StatusInternalServerError {
			return response, err
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		switch {
		case err != nil:
		case time.Duration(seconds)*time.Second > longestWait:
			env.warn("the server asks to wait %d seconds, which is too long.", seconds)
			response.Header.Set("X-Should-Retry", "false")
		case seconds > 2:
			env.warn("the server is busy (%d) and asks to wait %d seconds.", response.StatusCode, seconds)
		}
		return response, nil
	}
}

// answerJSON is the object of ask --json.
type answerJSON struct {
	Answer string       `json:"answer"`
	Status agent.Status `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Turns  int          `json:"turns"`
	Zooms  []zoomJSON   `json:"zooms"`
	Usage  agent.Usage  `json:"usage"`
	Cost   *float64     `json:"cost_usd"`
}

type zoomJSON struct {
	Image    int    `json:"image"`
	Region   [4]int `json:"region"`
	Returned [2]int `json:"returned"`
}
