//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// probeArg as the first argument makes the test binary the probe.
const probeArg = "probe-the-filter"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == probeArg {
		runProbe()
		return
	}
	os.Exit(m.Run())
}

type attempt struct {
	Name string
	Err  unix.Errno
}

// attempts makes calls that the filter refuses and calls that it lets through, for real.
// The refused ones have arguments that could do little harm if they did get through; without
// the filter, where they do, only those are made that do none.
func attempts(filtered bool) (made []attempt) {
	raw := func(name string, number uintptr, args ...uintptr) {
		a := append(args, make([]uintptr, 6)...)
		_, _, e := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		made = append(made, attempt{name, e})
	}
	// First, so that the rest has the rights over a network too: all of it on the one thread
	// that the new namespaces belong to.
	runtime.LockOSThread()
	raw("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNET|unix.CLONE_NEWIPC)
	calls := []uint32{unix.SYS_MOUNT}
	if filtered {
		calls = slices.Concat(denied, deniedHere, missing, missingHere)
	}
	for _, n := range calls {
		raw(fmt.Sprintf("call %d", n), uintptr(n))
	}
	raw("newest", newest+1)
	raw("x32", 0x40000000|unix.SYS_GETPID)
	raw("TIOCSTI", unix.SYS_IOCTL, ^uintptr(0), 0x100000000|unix.TIOCSTI)
	raw("TIOCLINUX", unix.SYS_IOCTL, ^uintptr(0), unix.TIOCLINUX)
	raw("no randomness", unix.SYS_PERSONALITY, 0x0040000)
	raw("AF_VSOCK", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM)
	raw("AF_ALG", unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET)
	raw("AF_PACKET", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW)
	raw("AF_INET raw", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	raw("AF_INET6 raw", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	raw("netlink netfilter", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
	raw("netlink uevent", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)
	raw("iptables", unix.SYS_SETSOCKOPT, ^uintptr(0), unix.SOL_IP, 64)
	raw("mount namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNS)

	raw("AF_UNIX", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET)
	raw("TCP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
	raw("UDP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM)
	raw("personality", unix.SYS_PERSONALITY, 0xffffffff)
	_, err := net.Interfaces()
	made = append(made, attempt{"interfaces", errno(err)})
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	made = append(made, attempt{"memory file", errno(err)})
	if err == nil {
		_ = unix.Close(fd)
	}
	made = append(made, attempt{"chroot", errno(unix.Chroot("/proc/self/fdinfo"))})
	return made
}

func errno(err error) unix.Errno {
	if n := unix.Errno(0); errors.As(err, &n) {
		return n
	}
	if err != nil {
		return unix.EIO
	}
	return 0
}

// runProbe makes the attempts in a user namespace of its own, where it has every
// capability: what is refused there is refused by the filter, not for want of a privilege.
func runProbe() {
	if len(os.Args) == 3 {
		again := exec.Command("/proc/self/exe", probeArg, os.Args[2], "again")
		again.Stdout, again.Stderr = os.Stdout, os.Stderr
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if err := again.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := json.NewEncoder(os.Stdout).Encode(attempts(os.Args[2] == "filtered")); err != nil {
		os.Exit(1)
	}
}

// inside runs a command under bubblewrap, as an ordinary user, with the filter or without,
// and returns what it printed. This test binary is /probe there.
func inside(t *testing.T, filtered bool, command ...string) string {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
		"--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/user",
		"--setenv", "GORACE", "atexit_sleep_ms=0", // the race detector waits a second else
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/fonts", "/etc/fonts",
		"--ro-bind-try", "/etc/chromium.d", "/etc/chromium.d",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/user", "--uid", "1000", "--gid", "1000",
		"--perms", "0555", "--ro-bind-data", "3", "/probe"}
	files := []*os.File{self}
	if filtered {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(mustFilter(t)); err != nil { // a pipe holds it all
			t.Fatal(err)
		}
		w.Close()
		defer r.Close()
		args = append(args, "--seccomp", "4")
		files = append(files, r)
	}
	c := exec.CommandContext(t.Context(), bwrap, append(args, command...)...)
	c.ExtraFiles = files
	c.Dir = "/"
	if os.Getuid() == 0 {
		id := uint32(61000 + os.Getpid()%100)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s under bubblewrap: %v\n%s", command[0], err, stderr.String())
	}
	return string(out)
}

func probe(t *testing.T, filtered bool) (made []attempt) {
	t.Helper()
	mode := "open"
	if filtered {
		mode = "filtered"
	}
	out := inside(t, filtered, "/probe", probeArg, mode)
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatalf("the probe said %q: %v", out, err)
	}
	return made
}

// Chromium ends at once when it cannot set up its own sandbox of namespaces and a filter of
// its own, so a page that it shows says that both work.
func TestChromiumKeepsItsSandbox(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatal("Chromium is missing: apt-get install chromium")
	}
	out := inside(t, true, "chromium", "--headless=new", "--disable-gpu", "--no-first-run",
		"--user-data-dir="+path.Join("/tmp", "profile"), "--dump-dom", "data:text/html,<p id=a></p><script>a.textContent=6*7</script>")
	if !strings.Contains(out, `<p id="a">42</p>`) {
		t.Errorf("the page is %q", out)
	}
}

func TestProbeUnderBubblewrap(t *testing.T) {
	want := map[string]unix.Errno{
		"newest": unix.ENOSYS, "x32": unix.ENOSYS,
		"TIOCSTI": unix.EPERM, "TIOCLINUX": unix.EPERM, "no randomness": unix.EPERM,
		"AF_VSOCK": unix.EAFNOSUPPORT, "AF_ALG": unix.EAFNOSUPPORT, "AF_PACKET": unix.EAFNOSUPPORT,
		"AF_INET raw": unix.EPERM, "AF_INET6 raw": unix.EPERM,
		"netlink netfilter": unix.EPROTONOSUPPORT, "netlink uevent": unix.EPROTONOSUPPORT,
		"iptables": unix.ENOPROTOOPT, "mount namespace": unix.EPERM,
		"AF_UNIX": 0, "TCP": 0, "UDP": 0, "personality": 0, "unshare": 0,
		"interfaces": 0, "memory file": 0, "chroot": 0,
	}
	for _, n := range slices.Concat(denied, deniedHere) {
		want[fmt.Sprintf("call %d", n)] = unix.EPERM
	}
	for _, n := range slices.Concat(missing, missingHere) {
		want[fmt.Sprintf("call %d", n)] = unix.ENOSYS
	}
	got := probe(t, true)
	if len(got) != len(want) {
		t.Errorf("%d attempts, want %d", len(got), len(want))
	}
	for _, a := range got {
		if w, ok := want[a.Name]; !ok || a.Err != w {
			t.Errorf("%s: %q, want %q", a.Name, a.Err, w)
		}
	}

	// Without the filter those that a namespace's root may do get through to the kernel,
	// so the verdicts above are the filter's.
	open := map[string]bool{"TIOCSTI": true, "no randomness": true, "AF_PACKET": true, "AF_INET raw": true,
		"mount namespace": true, "iptables": true, fmt.Sprintf("call %d", unix.SYS_MOUNT): true}
	for _, a := range probe(t, false) {
		if !open[a.Name] {
			continue
		}
		delete(open, a.Name)
		if a.Err == want[a.Name] {
			t.Errorf("%s: %q without the filter too, so the probe shows nothing", a.Name, a.Err)
		}
	}
	if len(open) > 0 {
		t.Errorf("not attempted: %v", open)
	}
}
