package record_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/loupe-tools/loupe/agent"
	"github.com/loupe-tools/loupe/record"
)

func image(data, mediaType string) *anthropic.BetaImageBlockParam {
	return &anthropic.BetaImageBlockParam{Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &anthropic.BetaBase64ImageSourceParam{
		Data: base64.StdEncoding.EncodeToString([]byte(data)), MediaType: anthropic.BetaBase64ImageSourceMediaType(mediaType),
	}}}
}

func TestRecordIsReadable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "run")
	r, err := record.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Observe(agent.MessageAdded{Message: anthropic.NewBetaUserMessage(
		anthropic.BetaContentBlockParamUnion{OfImage: image("first", "image/png")},
		anthropic.BetaContentBlockParamUnion{OfImage: image("second", "image/jpeg")},
		anthropic.NewBetaTextBlock("Question: Which?"))})
	r.Observe(agent.TurnEnded{Turn: 1, StopReason: "end_turn", Usage: agent.Usage{InputTokens: 5, OutputTokens: 2}, Cost: 0.25, CostIsKnown: true})
	r.Observe(agent.TextStreamed{Text: "not kept"})

	// All of it is there before the run ends, should it never end.
	for name, want := range map[string]string{"001-user-0.png": "first", "001-user-1.jpg": "second"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	r.Observe(agent.MessageAdded{Message: anthropic.BetaMessageParam{OfAssistant: &anthropic.BetaAssistantMessageParam{
		Content: []anthropic.BetaContentBlockParamUnion{anthropic.NewBetaTextBlock("42")}}}})
	if err := r.Close(&agent.Answer{Text: "42", Status: agent.StatusAnswered, Turns: 1}, nil); err != nil {
		t.Fatal(err)
	}

	var message struct {
		Role    string
		Content []struct {
			Type, Text string
			Source     struct{ Type, File, Data string }
		}
	}
	readJSON(t, filepath.Join(dir, "001-user.json"), &message)
	if message.Role != "user" || len(message.Content) != 3 || message.Content[1].Source.File != "001-user-1.jpg" ||
		message.Content[1].Source.Data != "" || message.Content[2].Text != "Question: Which?" {
		t.Errorf("got %+v", message)
	}
	var answer map[string]any
	readJSON(t, filepath.Join(dir, "answer.json"), &answer)
	if answer["answer"] != "42" || answer["status"] != "answered" || answer["cost_usd"] != nil {
		t.Errorf("got %v", answer)
	}
	turns, err := os.ReadFile(filepath.Join(dir, "turns.jsonl"))
	if err != nil || !bytes.Contains(turns, []byte(`"cost_usd":0.25`)) || bytes.Count(turns, []byte("\n")) != 1 {
		t.Errorf("got %s, %v", turns, err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"001-user-0.png", "001-user-1.jpg", "001-user.json", "002-assistant.json", "answer.json", "turns.jsonl"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestRecordNeverWritesOverAnother(t *testing.T) {
	dir := t.TempDir()
	if _, err := record.Create(dir); err != nil {
		t.Fatalf("an empty folder: %v", err)
	}
	if _, err := record.Create(dir); !errors.Is(err, record.ErrInUse) {
		t.Errorf("got %v", err)
	}

	// Of many that come at once, one gets the folder.
	shared := filepath.Join(t.TempDir(), "run")
	results := make(chan error)
	for range 8 {
		go func() {
			_, err := record.Create(shared)
			results <- err
		}()
	}
	got := 0
	for range 8 {
		if err := <-results; err == nil {
			got++
		} else if !errors.Is(err, record.ErrInUse) {
			t.Error(err)
		}
	}
	if got != 1 {
		t.Errorf("%d got the same folder", got)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := record.Create(file); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestTroubleIsReportedAtTheEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, err := record.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.Observe(agent.MessageAdded{Message: anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Which?"))})
	if err := r.Close(&agent.Answer{}, errors.New("broken")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
