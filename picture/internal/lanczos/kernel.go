package lanczos

import "encoding/binary"

// The plain Go kernels do two products with one 64-bit multiplication: two
// samples sit 32 bits apart in one word. The sums are exact because each one
// fits in 32 bits signed (|sum of weights| < 2 and samples < 256, so less than
// 2^31), and a borrow out of the lower half is undone when the halves are
// taken apart.

// pair selects the bytes at 0 and 32 bits.
const pair = 0x000000FF_000000FF

// start is the rounding constant in both halves.
const start = uint64(half) | uint64(half)<<32

// halves takes two sums apart and clips each to a sample.
func halves(sum uint64) (lo, hi byte) {
	l := int32(sum)
	h := int32((sum - uint64(int64(l))) >> 32)
	return clip(l), clip(h)
}

func clip(v int32) byte {
	v >>= precision
	if uint32(v) > 255 {
		// Negative gives 0, anything above gives 255.
		return byte(^(v >> 31))
	}
	return byte(v)
}

func horizontalGo(dst0, dst1, src0, src1 []byte, a *axis) {
	for i := range a.first {
		first, weights := a.at(i)
		s0 := src0[first*4 : (first+len(weights))*4]
		s1 := src1[first*4 : (first+len(weights))*4]
		r, g, b := start, start, start
		for _, w := range weights {
			if len(s0) < 4 || len(s1) < 4 {
				break
			}
			v := uint64(binary.LittleEndian.Uint32(s0)) | uint64(binary.LittleEndian.Uint32(s1))<<32
			s0, s1 = s0[4:], s1[4:]
			k := uint64(int64(w))
			r += (v & pair) * k
			g += (v >> 8 & pair) * k
			b += (v >> 16 & pair) * k
		}
		d0 := dst0[i*4 : i*4+4 : i*4+4]
		d1 := dst1[i*4 : i*4+4 : i*4+4]
		r0, r1 := halves(r)
		g0, g1 := halves(g)
		b0, b1 := halves(b)
		d0[0], d0[1], d0[2], d0[3] = r0, g0, b0, 255
		d1[0], d1[1], d1[2], d1[3] = r1, g1, b1, 255
	}
}

func verticalGo(dst []byte, rows [][]byte, weights []int32) {
	rows = rows[:len(weights)]
	x := 0
	for ; x+16 <= len(dst); x += 16 {
		s0, s1, s2, s3 := start, start, start, start
		t0, t1, t2, t3 := start, start, start, start
		for t, row := range rows {
			row = row[x : x+16 : x+16]
			v, u := binary.LittleEndian.Uint64(row), binary.LittleEndian.Uint64(row[8:])
			k := uint64(int64(weights[t]))
			s0 += (v & pair) * k
			s1 += (v >> 8 & pair) * k
			s2 += (v >> 16 & pair) * k
			s3 += (v >> 24 & pair) * k
			t0 += (u & pair) * k
			t1 += (u >> 8 & pair) * k
			t2 += (u >> 16 & pair) * k
			t3 += (u >> 24 & pair) * k
		}
		d := dst[x : x+16 : x+16]
		d[0], d[4] = halves(s0)
		d[1], d[5] = halves(s1)
		d[2], d[6] = halves(s2)
		d[3], d[7] = halves(s3)
		d[8], d[12] = halves(t0)
		d[9], d[13] = halves(t1)
		d[10], d[14] = halves(t2)
		d[11], d[15] = halves(t3)
	}
	for ; x < len(dst); x++ {
		sum := int32(half)
		for t, row := range rows {
			sum += int32(row[x]) * weights[t]
		}
		dst[x] = clip(sum)
	}
}
