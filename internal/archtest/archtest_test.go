package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// root is the module's, seen from this package.
const root = "../.."

const module = "github.com/loupe-tools/loupe"

// rule is one of depguard's, with what it means there: the longest entry that fits an
// import decides. A strict rule denies what fits none, a lax one allows it.
type rule struct {
	ListMode string `yaml:"list-mode"`
	Files    []string
	Allow    []string
	Deny     []struct{ Pkg string }
}

func rules(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct{ Rules map[string]rule }
			}
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatalf(".golangci.yml: %v", err)
	}
	found := config.Linters.Settings.Depguard.Rules
	if len(found) == 0 {
		t.Fatal(".golangci.yml has no depguard rules")
	}
	return found
}

// covers reports whether the rule is about a file, given by its slash-separated path in
// the module. A star stands for anything but slashes, two for anything.
func (r rule) covers(file string) bool {
	covered := false
	for _, pattern := range r.Files {
		if pattern == "!$test" {
			if strings.HasSuffix(file, "_test.go") {
				return false
			}
			continue
		}
		pattern = regexp.QuoteMeta(strings.TrimPrefix(pattern, "${base-path}/"))
		pattern = strings.ReplaceAll(pattern, `\*\*`, `.*`)
		pattern = strings.ReplaceAll(pattern, `\*`, `[^/]*`)
		covered = covered || regexp.MustCompile("^"+pattern+"$").MatchString(file)
	}
	return covered
}

func (r rule) allows(imported string) bool {
	longest := func(entries []string) int {
		length := 0
		for _, entry := range entries {
			exact := strings.HasSuffix(entry, "$")
			switch {
			case entry == "$gostd":
				// As the go command tells them: no dot in the first element.
				if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
					length = max(length, 1)
				}
			case exact && imported == entry[:len(entry)-1], !exact && strings.HasPrefix(imported, entry):
				length = max(length, len(entry))
			}
		}
		return length
	}
	var denied []string
	for _, d := range r.Deny {
		denied = append(denied, d.Pkg)
	}
	allow, deny := longest(r.Allow), longest(denied)
	if r.ListMode == "strict" {
		return allow > deny
	}
	return deny == 0 || allow > deny
}

// committed lists the files that git has, or without git all that a checkout would have.
func committed(t *testing.T) []string {
	t.Helper()
	// The checkout may belong to another user, as in a container.
	out, err := exec.Command("git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z").Output()
	if err == nil {
		// A look at the index, so that go test does not reuse a result from before it changed.
		_, _ = os.Stat(filepath.Join(root, ".git", "index"))
		files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		return slices.DeleteFunc(files, func(file string) bool {
			info, err := os.Lstat(filepath.Join(root, file))
			return err != nil || !info.Mode().IsRegular()
		})
	}
	var files []string
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out"}, relative) {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() {
			files = append(files, relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestImports looks at files rather than at what go list reports, which would leave out
// those of other systems and build tags.
func TestImports(t *testing.T) {
	rules := rules(t)
	for _, file := range committed(t) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || inTestdata(file) {
			continue
		}
		parsed := parse(t, file, parser.ImportsOnly)
		covered := false
		for name, rule := range rules {
			if !rule.covers(file) {
				continue
			}
			covered = true
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if !rule.allows(imported) {
					t.Errorf("%s imports %s, which rule %q of .golangci.yml does not allow", file, imported, name)
				}
			}
		}
		if !covered {
			t.Errorf("%s: no depguard rule of .golangci.yml covers this file; add its package to one", file)
		}
	}
}

// TestRules shows that the rules bite: if they were read wrongly, TestImports would pass
// all the same.
func TestRules(t *testing.T) {
	rules := rules(t)
	for _, test := range []struct {
		file, imported string
		want           bool
	}{
		{"vision/vision.go", "image", true},
		{"vision/vision.go", "golang.org/x/image/draw", false},
		{"vision/vision.go", module + "/picture", false},
		{"picture/decode.go", "golang.org/x/image/tiff", true},
		{"picture/decode.go", module + "/vision", true},
		{"picture/decode.go", module + "/picture/internal/any", true},
		{"picture/decode.go", module + "/picture/source", false},
		{"picture/internal/any/any.go", module + "/zoom", false},
		{"picture/source/file.go", module + "/picture", true},
		{"picture/source/file.go", module + "/vision", false},
		{"zoom/zoom.go", module + "/picture", true},
		{"zoom/zoom.go", module + "/picture/source", false},
		{"agent/agent.go", module + "/vision", true},
		{"agent/agent.go", module + "/zoom", false},
		{"record/record.go", module + "/agent", true},
		{"reader/reader.go", module + "/internal/wire", true},
		{"reader/reader.go", module + "/internal/claudetest", false},
		{"reader/reader.go", module + "/agent", false},
		{"agent/agent.go", module + "/internal/wire", false},
		{"internal/wire/wire.go", module + "/vision", false},
		{"internal/claudetest/model.go", module + "/internal/wire", true},
		{"internal/claudetest/model.go", module + "/agent", false},
		{"internal/desktest/server.go", "github.com/chromedp/chromedp", true},
		{"internal/desktest/server.go", module + "/computer/x11", false},
		{"computer/computertest/suite.go", module + "/computer", true},
		{"computer/computertest/suite.go", module + "/internal/desktest", false},
		{"cmd/loupe/main.go", module + "/agent", true},
		{"cmd/loupe/main.go", module + "/picture/source", true},
	} {
		var covering []string
		allowed := true
		for name, rule := range rules {
			if rule.covers(test.file) {
				covering = append(covering, name)
				allowed = allowed && rule.allows(test.imported)
			}
		}
		if len(covering) != 1 {
			t.Errorf("%s is covered by the rules %q, want one", test.file, covering)
		}
		if allowed != test.want {
			t.Errorf("may %s import %s? %v, want %v", test.file, test.imported, allowed, test.want)
		}
	}
}

// TestPackages: every package says what it is for, and is named for it.
func TestPackages(t *testing.T) {
	documented := make(map[string]bool)
	for _, file := range committed(t) {
		if !strings.HasSuffix(file, ".go") || inTestdata(file) {
			continue
		}
		parsed := parse(t, file, parser.ParseComments)
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc"}, strings.TrimSuffix(parsed.Name.Name, "_test")) {
			t.Errorf("%s: a package called %s is named for nothing that it does", file, parsed.Name.Name)
		}
		for _, declaration := range parsed.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function; pass what is needed to a constructor", file)
			}
		}
		if !strings.HasSuffix(file, "_test.go") {
			documented[path.Dir(file)] = documented[path.Dir(file)] || strings.TrimSpace(parsed.Doc.Text()) != ""
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("the package in %s has no package comment", dir)
		}
	}
}

// TestFiles searches committed files for what has no place in them. The patterns are
// written so that they do not find themselves.
func TestFiles(t *testing.T) {
	const maxTestFile = 200 << 10
	anything := regexp.MustCompile(``)
	source := regexp.MustCompile(`\.go$`)
	tests := regexp.MustCompile(`_test\.go$`)
	for _, rule := range []struct {
		in      *regexp.Regexp
		pattern *regexp.Regexp
		why     string
	}{
		{anything, regexp.MustCompile(`(?m)(?:^|[^\w.~$}/-])/(?:work|root|tmp)/\w`), "names a path of one machine"},
		{anything, regexp.MustCompile(`proxy[.]golang[.]org|deb[.]debian[.]org|registry[.]npmjs`), "names the host of a package registry"},
		{anything, regexp.MustCompile(`(?i)co-authored[-]by`), "names who helped"},
		{source, regexp.MustCompile(`\b(?:TO[D]O|FIX[M]E|XX[X])\b`), "has a note for later; open an issue or do it"},
		{tests, regexp.MustCompile(`\b[tbf][.]Skip(?:f|Now)?[(]`), "skips; fail with the command that installs what is missing"},
		{tests, regexp.MustCompile(`\btime[.]Sleep[(]`), "sleeps; wait for what is meant to happen"},
	} {
		for _, file := range committed(t) {
			if !rule.in.MatchString(file) {
				continue
			}
			text := read(t, file)
			if bytes.IndexByte(text, 0) >= 0 {
				continue
			}
			for _, at := range rule.pattern.FindAllIndex(text, -1) {
				line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
				t.Errorf("%s:%d %s: %q", file, line, rule.why, bytes.TrimSpace(text[at[0]:at[1]]))
			}
		}
	}
	for _, file := range committed(t) {
		info, err := os.Stat(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if inTestdata(file) && info.Size() > maxTestFile {
			t.Errorf("%s has %d bytes; make it in the test, or keep it under %d", file, info.Size(), maxTestFile)
		}
	}
}

func inTestdata(file string) bool {
	return strings.HasPrefix(file, "testdata/") || strings.Contains(file, "/testdata/")
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), mode)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
