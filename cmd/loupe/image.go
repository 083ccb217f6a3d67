package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/loupe-tools/loupe/picture"
	"github.com/loupe-tools/loupe/picture/source"
	"github.com/loupe-tools/loupe/reader"
	"github.com/loupe-tools/loupe/vision"
)

// sourceFlags say where images may come from. A reference is a path, "-", a data URI or
// a URL.
type sourceFlags struct {
	AllowURL        bool  `help:"Allow http and https URLs as images."`
	AllowPrivateURL bool  `help:"With --allow-url, allow addresses of this machine and of private networks too."`
	MaxPixels       int64 `placeholder:"N" help:"Refuse images of more than N pixels (default 100 million)."`
}

// load reads and decodes one image.
func (f *sourceFlags) load(env *environment, ref string) (*picture.Picture, error) {
	if f.MaxPixels < 0 {
		return nil, usagef("--max-pixels must be at least 1")
	}
	input, err := source.Read(env.ctx, ref, &source.Options{
		Stdin: env.stdin, AllowURL: f.AllowURL, AllowPrivate: f.AllowPrivateURL, MaxBytes: picture.DefaultMaxBytes,
	})
	if err != nil {
		return nil, err
	}
	data := input.Data
	input.Data = nil // so that the file can go before the picture is turned
	p, err := picture.DecodeBytes(data, &picture.DecodeOptions{MaxPixels: f.MaxPixels})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input.Name, err)
	}
	for _, note := range p.Notes {
		env.warn("%s: %s", input.Name, note)
	}
	return p, nil
}

// limitFlags say for which model an image is prepared.
type limitFlags struct {
	Model           string `placeholder:"NAME" help:"The model that looks: by default claude-opus-5-5 with a key, else the built-in reader."`
	Tier            string `enum:"auto,standard,high" default:"auto" help:"Image limits: of the model (auto), standard, or high."`
	MaxEdge         int    `placeholder:"PX" help:"Longest edge of an image, in place of the tier's."`
	MaxVisualTokens int    `placeholder:"N" help:"Visual tokens of an image, in place of the tier's."`
}

// defaultModel is the model that is asked where there is a key and no other is named.
const defaultModel = "claude-opus-5-5"

// model is who looks: the one named, or the one that ask would turn to.
func (f *limitFlags) model(env *environment) string {
	switch {
	case f.Model != "":
		return f.Model
	case hasCredential(env):
		return defaultModel
	default:
		return reader.Model
	}
}

// hasCredential reports whether the environment has what the API asks for.
func hasCredential(env *environment) bool {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"} {
		if strings.TrimSpace(env.getenv(name)) != "" {
			return true
		}
	}
	return false
}

// override returns the limits that the flags set, or zero limits when they leave them to
// the model.
func (f *limitFlags) override() (vision.Limits, error) {
	if f.MaxEdge < 0 || f.MaxVisualTokens < 0 || f.MaxEdge > 0 && f.MaxEdge < vision.Patch {
		return vision.Limits{}, usagef("--max-edge must be at least %d and --max-visual-tokens at least 1", vision.Patch)
	}
	limits, _ := vision.LimitsFor(f.Model)
	switch f.Tier {
	case "standard":
		limits = vision.Standard
	case "high":
		limits = vision.HighResolution
	default:
		if f.MaxEdge == 0 && f.MaxVisualTokens == 0 {
			return vision.Limits{}, nil
		}
	}
	if f.MaxEdge > 0 {
		limits.MaxEdge = f.MaxEdge
	}
	if f.MaxVisualTokens > 0 {
		limits.MaxTokens = f.MaxVisualTokens
	}
	return limits, nil
}

// limits returns the limits for one image, and says when a model's tier is not known.
func (f *limitFlags) limits(env *environment) (vision.Limits, error) {
	override, err := f.override()
	if err != nil || override != (vision.Limits{}) {
		return override, err
	}
	model := f.model(env)
	limits, known := vision.LimitsFor(model)
	if !known && model != reader.Model {
		warnTier(env, model)
	}
	return limits, nil
}

func warnTier(env *environment, model string) {
	env.warn("the image limits of %s are not public, so the standard ones are used; set them with --tier.", model)
}

// writeImage writes an image to a file or, for "-", to standard output. The ending of the
// name decides the kind: .png, .jpg or .jpeg. encoded is what a model would get, and is
// written for any other name.
func writeImage(env *environment, path string, m *image.RGBA, encoded picture.Encoded) error {
	var b bytes.Buffer
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png":
		if err := picture.EncodePNG(&b, m); err != nil {
			return err
		}
	case ".jpg", ".jpeg":
		if err := picture.EncodeJPEG(&b, m); err != nil {
			return err
		}
	case "", ".":
		b.Write(encoded.Data)
	default:
		return checkImageName(path)
	}
	if path == "-" {
		_, err := env.stdout.Write(b.Bytes())
		return err
	}
	if err := replaceFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("the image cannot be written: %w", err)
	}
	return nil
}

// checkImageName tells whether the name of a file says how an image is to be written.
func checkImageName(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".png", ".jpg", ".jpeg", "", ".":
		return nil
	default:
		return usagef("an image can be written as .png or .jpg, not as %q", ext)
	}
}

// replaceFile writes a file that is there whole or not at all, so that a full disk costs
// no file that was there before. A file that was there keeps its permissions, and a link
// stays one. What is no regular file, such as a device, is written to as it is.
func replaceFile(path string, data []byte) error {
	target := path
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		target = resolved
	}
	info, err := os.Stat(target)
	if err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(target, data, 0o644)
	}
	there := err == nil
	part := filepath.Join(filepath.Dir(target), fmt.Sprintf(".%s.%016x", filepath.Base(target), rand.Uint64()))
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if there && errors.Is(err, os.ErrPermission) {
		return os.WriteFile(target, data, 0o644) // its folder takes no second file
	}
	if err == nil {
		_, err = file.Write(data)
		if there {
			err = errors.Join(err, file.Chmod(info.Mode().Perm()))
		}
		if err = errors.Join(err, file.Close()); err == nil {
			err = os.Rename(part, target)
		}
		if err != nil {
			_ = os.Remove(part) // what is left of it, if anything
		}
	}
	if failed := (*os.PathError)(nil); errors.As(err, &failed) {
		return &os.PathError{Op: failed.Op, Path: path, Err: failed.Err}
	}
	return err
}

// The forms of sizes and boxes in JSON output.
func sizeOf(p image.Point) [2]int    { return [2]int{p.X, p.Y} }
func boxOf(r image.Rectangle) [4]int { return [4]int{r.Min.X, r.Min.Y, r.Max.X, r.Max.Y} }
