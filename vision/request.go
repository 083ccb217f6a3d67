package vision

// RequestLimits are the bounds that the Messages API sets on the images of one whole
// request. The zero value of a field means no such bound.
type RequestLimits struct {
	MaxBodyBytes  int // bytes of the request's body
	MaxImages     int // images in a request
	MaxEdge       int // pixels of any edge of any image
	MaxImageBytes int // bytes of one image after base64

	// Once a request carries more than ManyImages images, no edge of any of them may
	// exceed ManyImagesMaxEdge pixels.
	ManyImages        int
	ManyImagesMaxEdge int
}

// DefaultRequestLimits are the documented bounds of the standard endpoint, with the
// number of images that a 200k-token context allows.
func DefaultRequestLimits() RequestLimits {
	return RequestLimits{
		MaxBodyBytes:      32_000_000, // the smaller reading of 32 MB
		MaxImages:         100,
		MaxEdge:           8000,
		MaxImageBytes:     5 << 20,
		ManyImages:        20,
		ManyImagesMaxEdge: 2000,
	}
}

// Allowance is what a tool may add to a conversation in one turn so that the next
// request stays within RequestLimits. A tool gives fewer or smaller images rather than
// exceed it, and says so to the model.
type Allowance struct {
	Images   int // images that may be added
	MaxEdge  int // pixels; no bound when zero
	MaxBytes int // bytes of all of them together, after base64; no bound when zero
}
