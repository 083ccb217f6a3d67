//go:build !cgo

package turbo

import "image"

// Available says whether the library is part of this build.
const Available = false

// Header is not part of this build.
func Header([]byte) (Info, error) { return Info{}, ErrUnsupported }

// Decode is not part of this build.
func Decode([]byte, Info, int) (*image.RGBA, bool, error) { return nil, false, ErrUnsupported }

// Encode is not part of this build.
func Encode(*image.RGBA, int) ([]byte, error) { return nil, ErrUnsupported }
