//go:build linux && (amd64 || arm64)

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// block is a run of instructions. One that ends in a return on every path is called closed;
// jumps lead forward within a block only, so that blocks can be joined freely.
type block []unix.SockFilter

func join(blocks ...block) block { return slices.Concat(blocks...) }

// load puts the 32 bits at offset of the call's data into the accumulator.
func load(offset uint32) block {
	return block{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}}
}

// mask keeps the given bits of the accumulator.
func mask(bits uint32) block {
	return block{{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits}}
}

func allow() block { return block{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}} }

// fail returns from the call with an error, before it has done anything.
func fail(e unix.Errno) block {
	return block{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(e)}}
}

// when compares the accumulator with k and goes on with yes, which must be closed unless
// it is empty, or with no. With an empty yes, what follows the whole is where it goes on,
// and no must be closed.
func when(test uint16, k uint32, yes, no block) block {
	if len(yes) == 0 {
		return join(compare(test, k, len(no), 0), no)
	}
	return join(compare(test, k, 0, len(yes)), yes, no)
}

// compare skips as many instructions as the outcome says. The jumps of a comparison have 8
// bits; for a longer one an unconditional jump stands behind it, which has 32.
func compare(test uint16, k uint32, ifTrue, ifFalse int) block {
	code := unix.BPF_JMP | test | unix.BPF_K
	if ifTrue <= 255 && ifFalse <= 255 {
		return block{{Code: code, K: k, Jt: uint8(ifTrue), Jf: uint8(ifFalse)}}
	}
	long := func(n int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(n)}
	}
	return block{{Code: code, K: k, Jt: 0, Jf: 1}, long(ifTrue + 1), long(ifFalse)}
}

// oneOf goes on with yes when the accumulator is one of the values, else with no; both must
// be closed.
func oneOf(values []uint32, yes, no block) block {
	for _, v := range values {
		no = when(unix.BPF_JEQ, v, yes, no)
	}
	return no
}
