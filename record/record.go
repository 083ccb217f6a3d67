// Package record keeps a run on disk as it happens, so that a person can look at what
// the model saw, also when the run was broken off.
//
// A record is a folder. Each message is a numbered JSON file, in the form in which it is
// sent, but for its images: these are files of their own beside it, named in the place of
// their data. turns.jsonl has a line of usage and cost for each of the model's turns,
// and answer.json, written last, what the run came to.
//
//	001-user.json  001-user-0.png  002-assistant.json  003-user.json  003-user-0.jpg ...
package record

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loupe-tools/loupe/agent"
)

// Recorder writes one run into its folder. Its methods are called from one goroutine.
type Recorder struct {
	dir      string
	messages int
	err      error // the first that occurred
}

const turnsFile = "turns.jsonl"

// ErrInUse is returned by Create for a folder that already holds something.
var ErrInUse = errors.New("the folder is not empty")

// Create makes the folder for a record. It may exist but must be empty, so that no record
// is ever written over another.
func Create(dir string) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder for the record: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look into the folder for the record: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("record into %s: %w; name another or empty it", dir, ErrInUse)
	}
	// Of several recorders that find the folder empty at once, one gets it.
	f, err := os.OpenFile(filepath.Join(dir, turnsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("record into %s: %w; name another or empty it", dir, ErrInUse)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("begin the record: %w", err)
	}
	return &Recorder{dir: dir}, nil
}

// Observe writes what an event adds to the record. It is an agent.Options.Observe. An
// error is kept for Close, and later events are still written as far as they can be.
func (r *Recorder) Observe(e agent.Event) {
	switch e := e.(type) {
	case agent.MessageAdded:
		r.keep(r.message(e))
	case agent.TurnEnded:
		line := map[string]any{"turn": e.Turn, "stop_reason": e.StopReason, "usage": e.Usage, "cost_usd": nil}
		if e.CostIsKnown {
			line["cost_usd"] = e.Cost
		}
		r.keep(r.appendLine(turnsFile, line))
	}
}

// Close writes what the run came to and returns the first error of the whole record.
func (r *Recorder) Close(answer *agent.Answer, runErr error) error {
	summary := map[string]any{
		"answer": answer.Text, "status": answer.Status, "turns": answer.Turns, "usage": answer.Usage, "cost_usd": nil,
	}
	if answer.CostIsKnown {
		summary["cost_usd"] = answer.Cost
	}
	if answer.Detail != "" {
		summary["detail"] = answer.Detail
	}
	if runErr != nil {
		summary["error"] = runErr.Error()
	}
	r.keep(r.writeJSON("answer.json", summary))
	return r.err
}

func (r *Recorder) keep(err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("write the record in %s: %w", r.dir, err)
	}
}

// message writes one message and its images.
func (r *Recorder) message(e agent.MessageAdded) error {
	r.messages++
	role := "user"
	if e.Message.OfAssistant != nil {
		role = "assistant"
	}
	name := fmt.Sprintf("%03d-%s", r.messages, role)
	data, err := json.Marshal(e.Message)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	images := 0
	if err := r.extractImages(tree, name, &images); err != nil {
		return err
	}
	return r.writeJSON(name+".json", tree)
}

// extractImages writes every base64 source in the tree to a file and puts the file's name
// in the place of the data.
func (r *Recorder) extractImages(tree any, name string, images *int) error {
	switch node := tree.(type) {
	case []any:
		for _, child := range node {
			if err := r.extractImages(child, name, images); err != nil {
				return err
			}
		}
	case map[string]any:
		text, isText := node["data"].(string)
		if node["type"] == "base64" && isText {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			file := fmt.Sprintf("%s-%d%s", name, *images, extension(node["media_type"]))
			*images++
			delete(node, "data")
			node["file"] = file
			return r.write(file, data)
		}
		// Images stand in lists, so the order of a map's keys does not number them.
		for _, child := range node {
			if err := r.extractImages(child, name, images); err != nil {
				return err
			}
		}
	}
	return nil
}

func extension(mediaType any) string {
	switch mediaType {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	default:
		return ".bin"
	}
}

func (r *Recorder) writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return r.write(name, append(data, '\n'))
}

// write makes a file that is there whole or not at all, whenever the process ends.
func (r *Recorder) write(name string, data []byte) error {
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path+".part", data, 0o644); err != nil {
		_ = os.Remove(path + ".part") // what is left of it, if anything
		return err
	}
	return os.Rename(path+".part", path)
}

func (r *Recorder) appendLine(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}
