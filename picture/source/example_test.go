package source_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/loupe-tools/loupe/picture/source"
)

func ExampleRead() {
	ctx := context.Background()
	in, err := source.Read(ctx, "data:image/png;base64,iVBORw0KGgo=", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %q\n", in.Name, in.Data)

	// URLs are for who allows them.
	_, err = source.Read(ctx, "https://example.org/chart.png?key=1234", nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, source.ErrURLNotAllowed))
	// Output:
	// data URI: "\x89PNG\r\n\x1a\n"
	// https://example.org/chart.png is a URL and fetching is off; add --allow-url to fetch it, or download it and give the file.
	// true
}

// A server reads files for others: only below one folder, and from the public internet
// alone.
func ExampleRead_server() {
	o := &source.Options{Roots: []string{"testdata"}, AllowURL: true}
	for _, ref := range []string{"../source.go", "testdata/none.png", "http://127.0.0.1/"} {
		_, err := source.Read(context.Background(), ref, o)
		fmt.Println(err)
	}
	// Output:
	// ../source.go is not below a folder that may be read; move it there, or send the picture itself as a data URI.
	// There is no file testdata/none.png; check its name and folder.
	// http://127.0.0.1/ leads to a loopback address, and fetching from those is off; download it and give the file, or allow private addresses.
}
