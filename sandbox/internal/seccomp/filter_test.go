//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// call is a system call as the kernel shows it to a filter (struct seccomp_data).
type call struct {
	number, arch uint32
	args         [6]uint64
}

// run executes the filter as the kernel does: only forward jumps, inside of the program,
// until a return.
func run(t interface{ Fatalf(string, ...any) }, filter []byte, c call) uint32 {
	data := binary.NativeEndian.AppendUint32(nil, c.number)
	data = binary.NativeEndian.AppendUint32(data, c.arch)
	data = binary.NativeEndian.AppendUint64(data, 0) // the instruction pointer
	for _, a := range c.args {
		data = binary.NativeEndian.AppendUint64(data, a)
	}
	var acc uint32
	for pc := 0; ; pc++ {
		if 8*pc+8 > len(filter) {
			t.Fatalf("%+v: ran out of the program at %d", c, pc)
		}
		i := filter[8*pc:]
		code, jt, jf, k := binary.NativeEndian.Uint16(i), int(i[2]), int(i[3]), binary.NativeEndian.Uint32(i[4:])
		var hit bool
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.NativeEndian.Uint32(data[k:])
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= k
			continue
		case unix.BPF_RET | unix.BPF_K:
			return k
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(k)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			hit = acc == k
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			hit = acc > k
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			hit = acc >= k
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			hit = acc&k != 0
		default:
			t.Fatalf("instruction %d has the unknown code %#x", pc, code)
		}
		if hit {
			pc += jt
		} else {
			pc += jf
		}
	}
}

func verdict(e unix.Errno) uint32 {
	if e == 0 {
		return unix.SECCOMP_RET_ALLOW
	}
	return unix.SECCOMP_RET_ERRNO | uint32(e)
}

func mustFilter(t testing.TB) []byte {
	t.Helper()
	filter, err := Filter()
	if err != nil {
		t.Fatal(err)
	}
	return filter
}

func TestFilterIsAcceptableToTheKernel(t *testing.T) {
	filter := mustFilter(t)
	const most = 4096 // BPF_MAXINSNS
	if n := len(filter) / 8; len(filter)%8 != 0 || n == 0 || n > most {
		t.Errorf("the filter has %d bytes, want whole instructions, at most %d", len(filter), most)
	}
}

// The verdict on every number with arguments of zero, against the lists.
func TestEveryNumber(t *testing.T) {
	filter := mustFilter(t)
	no := slices.Concat(denied, deniedHere)
	gone := slices.Concat(missing, missingHere)
	want := func(n uint32) unix.Errno {
		switch {
		case slices.Contains(no, n):
			return unix.EPERM
		case slices.Contains(gone, n), n > newest:
			return unix.ENOSYS
		case n == unix.SYS_SOCKET, n == unix.SYS_SOCKETPAIR:
			return unix.EAFNOSUPPORT // AF_UNSPEC
		}
		return 0
	}
	check := func(n uint32) {
		if got := run(t, filter, call{number: n, arch: arch}); got != verdict(want(n)) {
			t.Errorf("call %d: verdict %#x, want %#x", n, got, verdict(want(n)))
		}
	}
	for n := range uint32(2000) {
		check(n)
		check(0x40000000 | n) // x32 on amd64
	}
	check(0xffffffff)
	if n := len(no) + len(gone); n < 60 {
		t.Errorf("only %d calls are refused", n)
	}
}

func TestVerdictsByArgument(t *testing.T) {
	filter := mustFilter(t)
	const high = 0xdead << 32 // of a register, where the kernel takes 32 bits
	for _, c := range []struct {
		name   string
		number uint32
		args   [6]uint64
		want   unix.Errno
	}{
		{"a thread", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, 0},
		{"a process", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, 0},
		{"a process with a signal that looks like a time namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWTIME}, 0},
		{"Chromium's namespaces", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET}, 0},
		{"Firefox's namespaces", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWIPC}, 0},
		{"clone with a mount namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, unix.EPERM},
		{"a mount namespace", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWNS}, unix.EPERM},
		{"a mount namespace, high bits set", unix.SYS_UNSHARE, [6]uint64{high | unix.CLONE_NEWNS}, unix.EPERM},
		{"a cgroup namespace", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWCGROUP}, unix.EPERM},
		{"a time namespace", unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWTIME}, unix.EPERM},

		{"the question for the personality", unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, 0},
		{"the plain personality", unix.SYS_PERSONALITY, [6]uint64{high}, 0},
		{"a layout without randomness", unix.SYS_PERSONALITY, [6]uint64{0x0040000}, unix.EPERM},
		{"all that is readable is executable", unix.SYS_PERSONALITY, [6]uint64{high | 0x0400000}, unix.EPERM},

		{"size of a terminal", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGWINSZ}, 0},
		{"TIOCSTI", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, unix.EPERM},
		{"TIOCSTI, high bits set", unix.SYS_IOCTL, [6]uint64{0, high | unix.TIOCSTI}, unix.EPERM},
		{"TIOCLINUX", unix.SYS_IOCTL, [6]uint64{0, high | unix.TIOCLINUX}, unix.EPERM},
		{"TIOCSETD", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSETD}, unix.EPERM},

		{"Unix", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, 0},
		{"pair of Unix", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, 0},
		{"TCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, 0},
		{"TCP by its number", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP}, 0},
		{"UDP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, unix.IPPROTO_UDP}, 0},
		{"routing", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0},
		{"raw", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, unix.EPERM},
		{"raw, high bits set", unix.SYS_SOCKET, [6]uint64{high | unix.AF_INET6, high | unix.SOCK_RAW, 255}, unix.EPERM},
		{"ping", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, unix.EPROTONOSUPPORT},
		{"MPTCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPROTONOSUPPORT},
		{"SCTP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, unix.EPROTONOSUPPORT},
		{"SCTP in packets", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, unix.ESOCKTNOSUPPORT},
		{"packet filter", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, unix.EPROTONOSUPPORT},
		{"device events", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, unix.EPROTONOSUPPORT},
		{"packets", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, unix.EAFNOSUPPORT},
		{"the hypervisor", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, unix.EAFNOSUPPORT},
		{"kernel ciphers", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, unix.EAFNOSUPPORT},
		{"Bluetooth", unix.SYS_SOCKET, [6]uint64{unix.AF_BLUETOOTH, unix.SOCK_RAW}, unix.EAFNOSUPPORT},
		{"pair of another family", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, unix.EAFNOSUPPORT},

		{"reuse of an address", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, 0},
		{"no delay", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, 0},
		{"type of service", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_IP, unix.IP_TOS}, 0},
		{"IPv6 class", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_IPV6, unix.IPV6_TCLASS}, 0},
		{"a table of iptables", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_IP, 64}, unix.ENOPROTOOPT},
		{"a table of arptables", unix.SYS_SETSOCKOPT, [6]uint64{3, high | unix.SOL_IP, 96}, unix.ENOPROTOOPT},
		{"a table of ebtables", unix.SYS_GETSOCKOPT, [6]uint64{3, unix.SOL_IP, 129}, unix.ENOPROTOOPT},
		{"a table of ip6tables", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_IPV6, 64}, unix.ENOPROTOOPT},
		{"a layer over TCP", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP, unix.TCP_ULP}, unix.ENOPROTOOPT},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := run(t, filter, call{c.number, arch, c.args}); got != verdict(c.want) {
				t.Errorf("verdict %#x, want %#x", got, verdict(c.want))
			}
		})
	}
}

// Whatever the call, there is a verdict; a refused number stays refused with any arguments;
// and no call of another architecture passes.
func TestAnyCall(t *testing.T) {
	filter := mustFilter(t)
	other := []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0}
	always := slices.Concat(denied, deniedHere, missing, missingHere)
	rapid.Check(t, func(t *rapid.T) {
		c := call{arch: arch}
		c.number = rapid.OneOf(rapid.SampledFrom(always), rapid.Uint32Range(0, 600), rapid.Uint32()).Draw(t, "number")
		for i := range c.args {
			c.args[i] = rapid.Uint64().Draw(t, "argument")
		}
		got := run(t, filter, c)
		if kind := got &^ unix.SECCOMP_RET_DATA; got != unix.SECCOMP_RET_ALLOW && kind != unix.SECCOMP_RET_ERRNO {
			t.Fatalf("verdict %#x", got)
		}
		if slices.Contains(always, c.number) && got == unix.SECCOMP_RET_ALLOW {
			t.Fatalf("call %d passed", c.number)
		}
		c.arch = rapid.OneOf(rapid.SampledFrom(other), rapid.Uint32()).Draw(t, "architecture")
		if got := run(t, filter, c); c.arch != arch && got != verdict(unix.ENOSYS) {
			t.Fatalf("a call of architecture %#x: verdict %#x", c.arch, got)
		}
	})
}

// Comparisons reach over more instructions than their own jumps can.
func TestLongJumps(t *testing.T) {
	filler := make(block, 300)
	for i := range filler {
		filler[i] = mask(0xffffffff)[0]
	}
	yes := join(filler, fail(unix.EPERM))
	no := join(filler, fail(unix.ENOSYS))
	for _, c := range []struct{ yes, no block }{{yes, no}, {nil, no}, {yes, fail(unix.ENOSYS)}} {
		program := join(load(offsetNumber), when(unix.BPF_JEQ, 7, c.yes, c.no))
		if c.yes == nil {
			program = join(program, fail(unix.EPERM))
		}
		var filter []byte
		for _, i := range program {
			filter = binary.NativeEndian.AppendUint16(filter, i.Code)
			filter = append(filter, i.Jt, i.Jf)
			filter = binary.NativeEndian.AppendUint32(filter, i.K)
		}
		if got := run(t, filter, call{number: 7}); got != verdict(unix.EPERM) {
			t.Errorf("the number: %#x", got)
		}
		if got := run(t, filter, call{number: 8}); got != verdict(unix.ENOSYS) {
			t.Errorf("another number: %#x", got)
		}
	}
}
