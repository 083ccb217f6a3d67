package pngio

import (
	"fmt"
	"io"
)

// aheadFrom is the size of pixel data in bytes from which on a goroutine of its
// own is worth its while, aheadBlock what it hands over at a time.
const (
	aheadFrom  = 1 << 20
	aheadBlock = 128 << 10
)

// ahead reads r in a goroutine, so that decompressing the next rows and undoing
// the filters of these go on at the same time. It must be closed.
type ahead struct {
	full  chan []byte
	free  chan []byte
	ended chan struct{}
	err   error // why full was closed

	block, rest []byte
}

func readAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan []byte, 2), free: make(chan []byte, 3), ended: make(chan struct{})}
	for range cap(a.free) {
		a.free <- make([]byte, aheadBlock)
	}
	go func() {
		defer close(a.ended)
		defer close(a.full)
		defer func() {
			if v := recover(); v != nil { // else it would end the program
				a.err = fmt.Errorf("the decompressor failed: %v", v)
			}
		}()
		for block := range a.free {
			// Not io.ReadFull: it hides whether r ended well.
			n, err := 0, error(nil)
			for n < len(block) && err == nil {
				var more int
				more, err = r.Read(block[n:])
				n += more
			}
			if n > 0 {
				a.full <- block[:n]
			}
			if err != nil {
				a.err = err
				return
			}
		}
	}()
	return a
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		if a.block != nil {
			a.free <- a.block[:aheadBlock]
			a.block = nil
		}
		block, ok := <-a.full
		if !ok {
			return 0, a.err
		}
		a.block, a.rest = block, block
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// close ends the goroutine and waits for its end.
func (a *ahead) close() {
	close(a.free)
	for range a.full { // it may be waiting to hand over
	}
	<-a.ended
}
