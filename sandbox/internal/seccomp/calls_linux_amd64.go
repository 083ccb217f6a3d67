package seccomp

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// Calls that only this architecture has.
var (
	deniedHere = []uint32{
		unix.SYS_IOPL, unix.SYS_IOPERM, // the ports of the machine's devices
		unix.SYS_MODIFY_LDT, // segments for 16-bit programs
	}
	missingHere = []uint32{
		unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_SYSFS, unix.SYS_USTAT,
		unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE, unix.SYS_GET_KERNEL_SYMS,
	}
)
