package picture

import "image"

// orient returns m turned as the EXIF orientation says (1 to 8). Mirrorings
// and the half turn happen in place; the four that exchange width and height
// need a second buffer.
func orient(m *image.RGBA, orientation int) *image.RGBA {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	switch orientation {
	case 2:
		for y := range h {
			reverse(m.Pix[y*m.Stride : y*m.Stride+w*4])
		}
	case 3:
		reverse(m.Pix[:w*h*4])
	case 4:
		line := make([]byte, w*4)
		for y := range h / 2 {
			a := m.Pix[y*m.Stride : y*m.Stride+w*4]
			b := m.Pix[(h-1-y)*m.Stride : (h-1-y)*m.Stride+w*4]
			copy(line, a)
			copy(a, b)
			copy(b, line)
		}
	case 5: // mirrored, then turned: rows become columns
		return turn(m, 0, 4, m.Stride)
	case 6: // to be turned clockwise
		return turn(m, (h-1)*m.Stride, 4, -m.Stride)
	case 7:
		return turn(m, (h-1)*m.Stride+(w-1)*4, -4, -m.Stride)
	case 8: // to be turned anticlockwise
		return turn(m, (w-1)*4, -4, m.Stride)
	}
	return m
}

// reverse turns the order of pixels in line around.
func reverse(line []byte) {
	for i, j := 0, len(line)-4; i < j; i, j = i+4, j-4 {
		a, b := (*[4]byte)(line[i:]), (*[4]byte)(line[j:])
		*a, *b = *b, *a
	}
}

// turn exchanges width and height: the new pixel (x, y) is the old one at
// offset start + y*down + x*right.
func turn(m *image.RGBA, start, down, right int) *image.RGBA {
	w, h := m.Rect.Dy(), m.Rect.Dx()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	const tile = 32 // keeps both sides in the cache
	for ty := 0; ty < h; ty += tile {
		for tx := 0; tx < w; tx += tile {
			for y := ty; y < min(ty+tile, h); y++ {
				from := start + y*down + tx*right
				for x := tx; x < min(tx+tile, w); x++ {
					*(*[4]byte)(out.Pix[y*out.Stride+x*4:]) = [4]byte(m.Pix[from : from+4])
					from += right
				}
			}
		}
	}
	return out
}
