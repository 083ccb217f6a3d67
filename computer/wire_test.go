package computer_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/loupe-tools/loupe/computer"
)

func TestWire(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{computer.ToolUse{ID: "toolu_1", Name: "type", ToolsetName: "computer", Input: json.RawMessage(`{"text":"<&>"}`)},
			`{"type":"tool_use","id":"toolu_1","name":"type","toolset_name":"computer","input":{"text":"<&>"}}`},
		{computer.ToolUse{ID: "toolu_1", Name: "bash"}, `{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}`},
		{computer.ToolResult{ToolUseID: "toolu_1", ToolsetName: "computer", Content: []computer.Content{{Text: "X=1, Y=2"}}},
			`{"type":"tool_result","tool_use_id":"toolu_1","toolset_name":"computer","content":[{"type":"text","text":"X=1, Y=2"}]}`},
		{computer.ToolResult{ToolUseID: "toolu_1", ToolsetName: "computer", IsError: true, Content: []computer.Content{{Text: "no"}}},
			`{"type":"tool_result","tool_use_id":"toolu_1","toolset_name":"computer","is_error":true,"content":[{"type":"text","text":"no"}]}`},
		{computer.ToolResult{ToolUseID: "toolu_1", ToolsetName: "computer", Content: []computer.Content{{Image: &computer.Image{MediaType: "image/png", Data: []byte("\x89PNG")}}}},
			`{"type":"tool_result","tool_use_id":"toolu_1","toolset_name":"computer","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="},"transformations":{"oversized_image":"error"}}]}`},
	} {
		var got strings.Builder
		encoder := json.NewEncoder(&got)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(test.value); err != nil || strings.TrimSpace(got.String()) != test.want {
			t.Errorf("%+v is written as\n%s, want\n%s (%v)", test.value, got.String(), test.want, err)
		}
		read := reflect.New(reflect.TypeOf(test.value))
		if err := json.Unmarshal([]byte(test.want), read.Interface()); err != nil {
			t.Error(err)
		} else if again, err := json.Marshal(read.Elem().Interface()); err != nil || !sameJSON(t, again, []byte(test.want)) {
			t.Errorf("%s is read as %+v (%v)", test.want, read.Elem(), err)
		}
	}
	if err := json.Unmarshal([]byte(`{"type":"document"}`), &computer.Content{}); err == nil {
		t.Error("a document is read as part of a result")
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

func TestParseTurn(t *testing.T) {
	got, err := computer.ParseTurn([]byte(` [
		{"type":"thinking","thinking":"hm","signature":"x"},
		{"type":"text","text":"I click."},
		{"type":"tool_use","id":"a","name":"left_click","toolset_name":"computer","input":{"coordinate":[1, 2]},"caller":{"type":"direct"}},
		{"type":"tool_use","id":"b","name":"bash","toolset_name":null,"input":{}},
		{"type":"tool_use","id":"c","name":"key"}
	] `))
	want := []computer.ToolUse{
		{ID: "a", Name: "left_click", ToolsetName: "computer", Input: json.RawMessage(`{"coordinate":[1, 2]}`)},
		{ID: "b", Name: "bash", Input: json.RawMessage(`{}`)},
		{ID: "c", Name: "key"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if got, err := computer.ParseTurn([]byte(`[]`)); err != nil || len(got) > 0 {
		t.Errorf("an empty turn is %v (%v)", got, err)
	}
	for data, want := range map[string]string{
		"":             "the turn is empty; give a JSON array of tool_use blocks",
		"  \n":         "the turn is empty",
		"null":         "the turn must be a JSON array of blocks, not null",
		"{}":           "the turn must be a JSON array of blocks, not an object",
		"7":            "not a number",
		"[":            "the turn is not valid JSON: unexpected end of JSON input, at byte 1",
		"[] []":        "the turn is not valid JSON: invalid character '[' after top-level value, at byte 4",
		"[NaN]":        "the turn is not valid JSON",
		"[null]":       "block 0 of the turn must be an object, not null",
		`["text"]`:     "block 0 of the turn must be an object, not a string",
		`[{}]`:         "block 0 of the turn has no type",
		`[{"type":7}]`: "block 0 of the turn has the field type as a number, not as a string",
		`[{"type":"text"},{"type":"tool_use","name":"key"}]`:                      "block 1 of the turn is a tool_use without an id",
		`[{"type":"tool_use","id":"a"}]`:                                          "block 0 of the turn is a tool_use without a name",
		`[{"type":"tool_use","id":7,"name":"key"}]`:                               "block 0 of the turn has the field id as a number, not as a string",
		`[{"type":"tool_use","id":"a","name":"key","toolset_name":["computer"]}]`: "block 0 of the turn has the field toolset_name as a list, not as a string",
	} {
		if got, err := computer.ParseTurn([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v (%v), want the error %q", data, got, err, want)
		}
	}
}

// A turn is refused in one line, or is one that marshals to the same calls again.
func FuzzParseTurn(f *testing.F) {
	for _, seed := range []string{
		`[]`, `null`, `[{"type":"text","text":"x"}]`, `[{"type":"tool_use","id":"a","name":"key","toolset_name":"computer","input":{"text":"a"}}]`, `[{"type":"tool_use"}] x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		turn, err := computer.ParseTurn(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		written, err := json.Marshal(turn)
		if err != nil {
			t.Fatal(err)
		}
		again, err := computer.ParseTurn(written)
		if err != nil && len(turn) > 0 || len(again) != len(turn) {
			t.Fatalf("%s becomes %+v (%v)", written, again, err)
		}
		for i := range turn {
			if turn[i].ID != again[i].ID || turn[i].Name != again[i].Name || turn[i].ToolsetName != again[i].ToolsetName {
				t.Fatalf("%+v becomes %+v", turn[i], again[i])
			}
		}
	})
}
