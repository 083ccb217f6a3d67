package seccomp

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

// Calls that only this architecture has: none to refuse.
var deniedHere, missingHere []uint32
