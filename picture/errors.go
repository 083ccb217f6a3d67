package picture

import "errors"

// The kinds of failure of [Decode] and [Open], to be told apart with
// [errors.Is]. The text of a returned error is one sentence for a person: what
// is wrong and what to do. It holds sizes and formats, and, from Open alone,
// the path that was given. An error of the reader itself is wrapped as it is.
var (
	// ErrEmpty: not a single byte.
	ErrEmpty = errors.New("empty file")
	// ErrUnknownFormat: the bytes are not a picture of any known kind.
	ErrUnknownFormat = errors.New("not a picture of a known kind")
	// ErrUnsupported: the kind is known, but it, or the variant of it, is not
	// decoded here.
	ErrUnsupported = errors.New("a kind of picture that is not supported")
	// ErrTooLarge: over the limit on bytes or pixels of [DecodeOptions].
	ErrTooLarge = errors.New("picture too large")
	// ErrCorrupt: the file is damaged. Nothing of it is shown.
	ErrCorrupt = errors.New("damaged picture")
	// ErrTruncated: the file ends too early. Such an error is an ErrCorrupt too.
	ErrTruncated = errors.New("incomplete picture")
	// ErrDirectory: the path given to Open is a directory.
	ErrDirectory = errors.New("is a directory")
	// ErrEncodedTooLarge: no allowed way to write the image stays under the
	// limit. The remedy is fewer pixels.
	ErrEncodedTooLarge = errors.New("encoded image too large")
)

// failure is an error with its sentence apart from what it is.
type failure struct {
	kind     error // one of the above
	sentence string
	cause    error // may be nil: what the decoder said, for the log
}

func (f *failure) Error() string { return f.sentence }

func (f *failure) Unwrap() []error {
	kinds := []error{f.kind}
	if errors.Is(f.kind, ErrTruncated) {
		kinds = append(kinds, ErrCorrupt)
	}
	if f.cause != nil {
		kinds = append(kinds, f.cause)
	}
	return kinds
}

func corrupt(format Format, cause error) error {
	return &failure{
		kind:     ErrCorrupt,
		sentence: "this " + format.Name() + " file is damaged and cannot be shown (" + cause.Error() + "); get the file again",
		cause:    cause,
	}
}

func truncated(format Format, cause error) error {
	return &failure{
		kind:     ErrTruncated,
		sentence: "this " + format.Name() + " file is incomplete (" + cause.Error() + "); get the whole file again",
		cause:    cause,
	}
}

func unsupported(format Format, what string) error {
	return &failure{
		kind:     ErrUnsupported,
		sentence: "this is a " + format.Name() + " file " + what + ", which is not supported; convert it to PNG first",
	}
}
