package agent

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// explain turns what went wrong into one sentence for a person. What it does not know
// comes back as it is. The cause stays reachable through errors.As.
func explain(err error, model string) error {
	var api *anthropic.Error
	if errors.As(err, &api) {
		return explainAPI(err, api, model)
	}
	var address *url.Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return &explained{fmt.Sprintf("The host %s cannot be found: check the network and --base-url.", dns.Name), err}
	case errors.As(err, &address):
		return &explained{fmt.Sprintf("The model at %s cannot be reached: check the network and --base-url (%v).", hostOf(address.URL), address.Err), err}
	case errors.Is(err, errNotMessages):
		return &explained{"The server did not answer as the Messages API does: check --base-url.", err}
	case errors.Is(err, errBrokenStream):
		return &explained{"The answer broke off in mid-stream, again after retrying: check the network and run it again.", err}
	}
	return err
}

func explainAPI(err error, api *anthropic.Error, model string) error {
	said := oneLine(api.Message)
	kind := string(api.Type())
	var text string
	switch {
	case api.StatusCode == 401 || kind == "authentication_error":
		text = "The API refused the key: check ANTHROPIC_API_KEY."
	case api.StatusCode == 403 || kind == "permission_error":
		text = "The key is not allowed to do this; the API says: " + said
	case api.StatusCode == 404 && kind == "":
		text = "There is no Messages API at this address (404): check --base-url."
	case api.StatusCode == 404 || kind == "not_found_error":
		text = fmt.Sprintf("The API does not know the model %q: choose another with --model.", model)
	case api.StatusCode == 413 || kind == "request_too_large":
		text = "The request was larger than the API takes: ask with fewer images."
	case api.StatusCode == 429 || kind == "rate_limit_error":
		text = "The API is limiting requests of this key, again after retrying: wait a little and run it again."
	case api.StatusCode == 529 || kind == "overloaded_error":
		text = "The API is overloaded, again after retrying: wait a little and run it again."
	case api.StatusCode >= 500:
		text = fmt.Sprintf("The server failed (%d); it says: %s", api.StatusCode, said)
	case kind == "api_error":
		text = "The server failed in mid-answer; it says: " + said
	default:
		text = fmt.Sprintf("The API refused the request (%d); it says: %s", api.StatusCode, said)
	}
	return &explained{text, err}
}

// oneLine is what a server said, in a form fit for a sentence.
func oneLine(said string) string {
	said = strings.Join(strings.Fields(said), " ")
	if said == "" {
		return "nothing about why."
	}
	if runes := []rune(said); len(runes) > 300 {
		said = string(runes[:300]) + "..."
	}
	return said
}

// hostOf is an address without its path and without anything secret in it.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "the given address"
	}
	return u.Host
}

// explained is an error with a text for a person over its cause.
type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.cause }
