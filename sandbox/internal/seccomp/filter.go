//go:build linux && (amd64 || arm64)

// Package seccomp makes the filter of system calls that everything inside a desktop runs
// under. The filter takes away what no desktop needs and what has most often led out of a
// container: mounting, tracing, kernel keys, BPF, io_uring, sockets of families that no
// network namespace holds in. What Chromium and Firefox build their own sandboxes from
// (user, process and network namespaces, chroot, seccomp) stays.
package seccomp

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (seccomp(2)). An argument has 64 bits, and its low half
// comes first on both architectures.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// newest is the highest number of a system call that was looked at when the lists below
// were made. What came later gets ENOSYS, as from a kernel that lacks it: programs have a
// way to do without. Calls of the x32 kind on amd64 have higher numbers still.
const newest = unix.SYS_RSEQ_SLICE_YIELD

// denied get EPERM.
var denied = []uint32{
	// Mounting. A namespace of its own would allow it, and a mount hides or shows files.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,

	// Other processes' memory, files and state.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_SETNS,

	// Keys are not held in by any namespace but the user's.
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,

	// Parts of the kernel that are large, subtle and meant for administrators.
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_OPEN_BY_HANDLE_AT, // reaches files outside of the root

	// The machine itself.
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}

// missing get ENOSYS, as from a kernel without them. Libraries ask once and then take the
// older way, where after EPERM some give up.
var missing = []uint32{
	// Its flags are in memory, where a filter cannot look; clone is the older way.
	unix.SYS_CLONE3,

	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS, // /proc/self/mountinfo says the same
	unix.SYS_LSM_GET_SELF_ATTR, unix.SYS_LSM_SET_SELF_ATTR, unix.SYS_LSM_LIST_MODULES,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_MEMFD_SECRET, // memory that no limit but that on locked memory counts

	// Placement on the nodes of large machines.
	unix.SYS_MBIND, unix.SYS_GET_MEMPOLICY, unix.SYS_SET_MEMPOLICY,
	unix.SYS_SET_MEMPOLICY_HOME_NODE, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,

	unix.SYS_NFSSERVCTL, unix.SYS_LOOKUP_DCOOKIE, // gone from today's kernels
}

// Namespaces that no program on a desktop makes. A new time namespace has the bit of a
// signal's number in clone, where it means nothing, so only unshare is asked about it.
const (
	cloneDenied   = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS
	unshareDenied = cloneDenied | unix.CLONE_NEWTIME
)

// Socket types and options that x/sys does not name.
const (
	typeMask = 0xf // SOCK_TYPE_MASK of <linux/net.h>; SOCK_CLOEXEC and SOCK_NONBLOCK lie above

	// Where the options of iptables, arptables and ebtables begin at level IP, and where
	// those that change a table stand at level IPv6 (<linux/netfilter_ipv{4,6}>). Root of a
	// namespace of its own may use them.
	tablesIPv4         = 64
	tablesIPv6Replace  = 64
	tablesIPv6Counters = 65
)

// Filter returns the program for bwrap's --seccomp: an array of struct sock_filter in
// native byte order. It is made for the architecture that this program was compiled for;
// calls in the way of another one (i386 and x32 on amd64, 32-bit ARM on arm64) get ENOSYS.
//
// Nothing is killed: a refused call returns EPERM, or ENOSYS, or what a kernel without the
// socket family, type, protocol or option would return. Filter never fails on amd64 and
// arm64, and always does elsewhere.
func Filter() ([]byte, error) {
	var out []byte
	for _, i := range program() {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
}

// rules is the part of the filter behind the number of each call that is looked at.
func rules() map[uint32]block {
	r := map[uint32]block{
		unix.SYS_CLONE:       checkBits(0, cloneDenied),
		unix.SYS_UNSHARE:     checkBits(0, unshareDenied),
		unix.SYS_PERSONALITY: checkPersonality(),
		unix.SYS_IOCTL:       checkIoctl(),
		unix.SYS_SOCKET:      checkSocket(),
		unix.SYS_SOCKETPAIR:  checkSocket(),
		unix.SYS_SETSOCKOPT:  checkOption(),
		unix.SYS_GETSOCKOPT:  checkOption(),
	}
	for _, n := range slices.Concat(denied, deniedHere) {
		r[n] = fail(unix.EPERM)
	}
	for _, n := range slices.Concat(missing, missingHere) {
		r[n] = fail(unix.ENOSYS)
	}
	return r
}

func program() block {
	r := rules()
	numbers := make([]uint32, 0, len(r))
	for n := range r {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return join(
		load(offsetArch),
		when(unix.BPF_JEQ, arch, nil, fail(unix.ENOSYS)),
		load(offsetNumber),
		when(unix.BPF_JGT, newest, fail(unix.ENOSYS), search(numbers, r)),
	)
}

// search finds the rule of the number in the accumulator by halves, so that a kernel which
// has to run the filter compares eight times and not a hundred. (Kernels since 5.11 run it
// only for numbers with a rule.)
func search(numbers []uint32, r map[uint32]block) block {
	if len(numbers) == 0 {
		return allow()
	}
	if len(numbers) <= 4 {
		return when(unix.BPF_JEQ, numbers[0], r[numbers[0]], search(numbers[1:], r))
	}
	half := len(numbers) / 2
	return when(unix.BPF_JGE, numbers[half], search(numbers[half:], r), search(numbers[:half], r))
}

func checkBits(arg int, bits uint32) block {
	return join(load(argument(arg)), when(unix.BPF_JSET, bits, fail(unix.EPERM), allow()))
}

// checkPersonality lets through the plain personality and the question which one it is.
// The others switch off the randomised layout of memory, among other protections.
func checkPersonality() block {
	return join(load(argument(0)), oneOf([]uint32{0, 0xffffffff}, allow(), fail(unix.EPERM)))
}

// checkIoctl refuses what types into a terminal for somebody else, and what loads a line
// discipline. The kernel looks at 32 bits of the request, so only those are compared.
func checkIoctl() block {
	return join(load(argument(1)),
		oneOf([]uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD}, fail(unix.EPERM), allow()))
}

// checkSocket allows Unix sockets, TCP and UDP, and of netlink the routing part that the
// library's lookups of addresses ask. Other families are large, need a module or, as
// AF_VSOCK, know no namespaces.
func checkSocket() block {
	protocol := func(ok ...uint32) block {
		return join(load(argument(2)), oneOf(ok, allow(), fail(unix.EPROTONOSUPPORT)))
	}
	inet := join(load(argument(1)), mask(typeMask),
		when(unix.BPF_JEQ, unix.SOCK_STREAM, protocol(unix.IPPROTO_IP, unix.IPPROTO_TCP),
			when(unix.BPF_JEQ, unix.SOCK_DGRAM, protocol(unix.IPPROTO_IP, unix.IPPROTO_UDP),
				when(unix.BPF_JEQ, unix.SOCK_RAW, fail(unix.EPERM),
					fail(unix.ESOCKTNOSUPPORT)))))
	return join(load(argument(0)),
		when(unix.BPF_JEQ, unix.AF_UNIX, allow(),
			when(unix.BPF_JEQ, unix.AF_NETLINK, protocol(unix.NETLINK_ROUTE),
				oneOf([]uint32{unix.AF_INET, unix.AF_INET6}, inet, fail(unix.EAFNOSUPPORT)))))
}

// checkOption refuses the packet filter's tables and the layering of protocols over TCP.
func checkOption() block {
	option := load(argument(2))
	no := fail(unix.ENOPROTOOPT)
	return join(load(argument(1)),
		when(unix.BPF_JEQ, unix.SOL_IP, join(option, when(unix.BPF_JGE, tablesIPv4, no, allow())),
			when(unix.BPF_JEQ, unix.SOL_IPV6, join(option, oneOf([]uint32{tablesIPv6Replace, tablesIPv6Counters}, no, allow())),
				when(unix.BPF_JEQ, unix.SOL_TCP, join(option, when(unix.BPF_JEQ, unix.TCP_ULP, no, allow())),
					allow()))))
}

func argument(n int) uint32 { return offsetArgs + 8*uint32(n) }
