"""Attempts to get out of a desktop, or to do in it what it must not.

    probe.py NAME PARAMETERS

runs the attempts of one probe and prints what became of each, a line of JSON. The same
attempts run where they are allowed, which shows that they would work (PARAMETERS.control).
"""

import ctypes
import errno
import fcntl
import glob
import json
import mmap
import os
import platform
import pty
import resource
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import time

P = json.loads(sys.argv[2])
CONTROL = P.get("control", False)
PATIENCE = 20  # seconds, of what has to answer

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# Numbers of system calls on amd64 and arm64.
NUMBERS = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97), "setns": (308, 268),
    "fsopen": (430, 430), "open_tree": (428, 428), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "keyctl": (250, 219), "add_key": (248, 217), "bpf": (321, 280), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "io_uring_setup": (425, 425), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "syslog": (103, 116), "reboot": (169, 142), "init_module": (175, 105),
    "kexec_load": (246, 104), "swapon": (167, 224), "acct": (163, 89), "settimeofday": (164, 170),
    "sethostname": (170, 161), "quotactl": (179, 60), "memfd_secret": (447, 447), "shmget": (29, 194),
    "clone3": (435, 435), "fanotify_init": (300, 262),
}


class Refused(Exception):
    """An attempt that did not get what it was after, without an error of the system."""


def call(name, *args):
    """Makes a system call. Integers and bytes are passed as such."""
    number = NUMBERS[name][0 if platform.machine() == "x86_64" else 1]
    ctypes.set_errno(0)
    passed = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def attempt(name, do, control=True):
    """Makes an attempt. Without control it has none: it can be made only inside."""
    if CONTROL and not control:
        return
    try:
        got, through = do(), True
        text = "" if got is None else str(got)
    except (OSError, Refused) as e:
        through, text = False, errno.errorcode.get(getattr(e, "errno", None), "") or type(e).__name__
        text += ": " + str(e)
    print(json.dumps({"name": name, "through": through, "text": text[:300]}), flush=True)


def in_child(do):
    """Does something in a process of its own, which it may spoil."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            got = do()
            answer = ["", "" if got is None else str(got)]
        except OSError as e:
            answer = [e.errno or 0, str(e)]
        except Refused as e:
            answer = [0, str(e)]
        except BaseException as e:
            answer = [-1, repr(e)]
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    data = b""
    while chunk := os.read(reader, 1 << 16):
        data += chunk
    os.close(reader)
    os.waitpid(pid, 0)
    code, text = json.loads(data)
    if code == "":
        return text
    if code == -1:
        raise RuntimeError(text)
    if code:
        raise OSError(code, os.strerror(code))
    raise Refused(text)


def read_start(path, size=64):
    with open(path, "rb") as f:
        return f.read(size)


def open_close(path, flags):
    os.close(os.open(path, flags | os.O_CLOEXEC))


# Talking to a server.

def address_of(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def ask_tcp(address, question):
    with socket.create_connection(address, PATIENCE) as s:
        s.sendall(question)
        got = s.recv(1 << 16)
    if not got:
        raise Refused("closed without an answer")
    return got


def ask_udp(address, question):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE)
        s.connect(address)
        s.send(question)
        return s.recv(1 << 16)


def through_proxy():
    return socket.create_connection(address_of(os.environ["http_proxy"].removeprefix("http://")), PATIENCE)


def head(s):
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(1)
        if not more:
            raise Refused("closed with %r" % data)
        data += more
    return data.decode("latin-1")


def tunnel(target):
    s = through_proxy()
    s.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())
    answer = head(s)
    if answer.split()[1] != "200":
        raise Refused(answer.splitlines()[0])
    return s


def request_for(host):
    return ("GET /secret HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host).encode()


def tunnelled(target, question=None):
    with tunnel(target) as s:
        s.sendall(question or request_for(target))
        data = b""
        while chunk := s.recv(1 << 16):
            data += chunk
    return want_secret(data)


def want_secret(data):
    if P["secret"].encode() not in data:
        raise Refused("got %r" % data[:200])
    return "the secret"


def fetch(url, host=None):
    authority = url.split("/")[2]
    with through_proxy() as s:
        s.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (url, host or authority)).encode())
        answer = head(s)
        body = b""
        while chunk := s.recv(1 << 16):
            body += chunk
    return int(answer.split()[1]), answer, body


def get_secret(url, host=None):
    for _ in range(10):
        status, answer, body = fetch(url, host)
        if status not in (301, 302, 303, 307, 308):
            break
        url = [l.split(":", 1)[1].strip() for l in answer.splitlines() if l.lower().startswith("location:")][0]
    if status != 200:
        raise Refused("%s: %s" % (url, answer.splitlines()[0]))
    return want_secret(body)


def handshake(target, name, alpn=None):
    context = ssl.create_default_context(cadata=P["ca"])
    if name is None:
        context.check_hostname = False
    with tunnel(target) as s, context.wrap_socket(s, server_hostname=name) as t:
        t.sendall(b"GET /secret HTTP/1.0\r\n\r\n")
        data = b""
        while chunk := t.recv(1 << 16):
            data += chunk
    return want_secret(data)


# The probes.

def dns_by_udp():
    question = bytes.fromhex("1234010000010000000000000765786d61706c6503636f6d0000010001")
    for server in P["dns"]:
        attempt(server, lambda: ask_udp(address_of(server), question))
    for server in ("198.51.100.1:53", "[2001:db8::1]:53"):
        attempt(server, lambda: ask_udp(address_of(server), question), control=False)
    attempt("the library", lambda: socket.getaddrinfo(P["name"], 80))


def dns_by_tcp():
    question = bytes.fromhex("001d1234010000010000000000000765786d61706c6503636f6d0000010001")
    for server in P["dns"]:
        attempt(server, lambda: ask_tcp(address_of(server), question))
    for server in ("198.51.100.1:53", "[2001:db8::1]:53"):
        attempt(server, lambda: ask_tcp(address_of(server), question), control=False)
    attempt("through the proxy", lambda: tunnelled("198.51.100.1:53", question), control=False)


def raw_socket():
    kinds = {
        "ICMP": (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        "ICMPv6": (socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6),
        "any IP": (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
        "packets": (socket.AF_PACKET, socket.SOCK_RAW, 0x0300),
    }
    for name, kind in kinds.items():
        attempt(name, lambda: socket.socket(*kind).close())
        attempt(name + " as root of a namespace", lambda: in_child(lambda: (root_of_namespace(NEWNET), socket.socket(*kind).close())[1]))
    attempt("ping socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close(), control=False)
    attempt("VSOCK", lambda: socket.socket(40, socket.SOCK_STREAM).close(), control=False)
    attempt("netfilter", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close())


def ip_literal():
    for target in P["literals"]:
        attempt("direct " + target, lambda: want_secret(ask_tcp(address_of(target), b"GET /secret HTTP/1.0\r\n\r\n")), control=False)
        attempt("CONNECT " + target, lambda: tunnelled(target))
        attempt("GET " + target, lambda: get_secret("http://%s/secret" % target))
    port = P["literals"][0].rsplit(":", 1)[1]
    for host in ("2130706433", "0x7f000001", "0x7f.1", "127.1", "017700000001", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
                 "[::127.0.0.1]", "[::]", "127.0.0.2", "127.0.0.1.", "localhost", "localhost.", "a.localhost", "[fe80::1%25lo]",
                 "%31%32%37.0.0.1", "１２７.0.0.1"):
        attempt("CONNECT " + host, lambda: tunnelled(host + ":" + port), control=False)
        attempt("GET " + host, lambda: get_secret("http://%s:%s/secret" % (host, port)), control=False)


def other_port():
    for target in P["ports"]:
        attempt("CONNECT " + target, lambda: tunnelled(target))
        attempt("GET " + target, lambda: get_secret("http://%s/secret" % target))
    for port in ("0", "65616", "-1", "080 ", "http", "+80"):
        attempt("CONNECT port " + port, lambda: tunnelled(P["allowed"] + ":" + port), control=False)


def server_name():
    target, port = P["allowed"] + ":443", P["allowed"] + ":80"
    attempt("another name", lambda: handshake(target, P["other"]), control=False)
    attempt("no name", lambda: handshake(target, None), control=False)
    attempt("a name below", lambda: handshake(target, "a." + P["allowed"]), control=False)
    attempt("plain HTTP", lambda: tunnelled(target, request_for(P["allowed"])), control=False)
    attempt("another name on port 80", lambda: handshake(port, P["other"]), control=False)
    attempt("another Host in a tunnel", lambda: tunnelled(port, request_for(P["other"])), control=False)
    attempt("an unknown protocol", lambda: tunnelled(port, b"SSH-2.0-probe\r\n"), control=False)
    if CONTROL:
        attempt("its own name", lambda: handshake(target, P["allowed"]))
        attempt("its own Host", lambda: tunnelled(port, request_for(P["allowed"])))


def redirect():
    for to in P["redirects"]:
        attempt(to, lambda: get_secret("http://%s/redirect?%s" % (P["allowed"], to)))
        attempt("curl " + to, lambda: curl_secret("http://%s/redirect?%s" % (P["allowed"], to)),
                control="127.0.0.1" not in to)  # which it asks without the proxy


def curl_secret(*args):
    got = subprocess.run(["curl", "-sSL", "--max-time", str(PATIENCE), *args], capture_output=True)
    if got.returncode != 0:
        raise Refused(got.stderr.decode(errors="replace"))
    return want_secret(got.stdout)


def metadata():
    for host in P["metadata"]:
        attempt("GET " + host, lambda: get_secret("http://%s/secret" % host))
    attempt("direct", lambda: ask_tcp(("169.254.169.254", 80), b"GET / HTTP/1.0\r\n\r\n"), control=False)
    for host in ("0xa9fea9fe", "2852039166", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]"):
        attempt("GET " + host, lambda: get_secret("http://%s/secret" % host), control=False)


def x_setup(s, cookie):
    """Says whether an X server lets us in."""
    name = b"MIT-MAGIC-COOKIE-1" if cookie else b""
    pad = lambda b: b + bytes(-len(b) % 4)
    s.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(cookie)) + pad(name) + pad(cookie))
    answer = s.recv(8)
    if len(answer) < 8 or answer[0] != 1:
        raise Refused("the server says no: %r" % (answer + s.recv(1 << 12)))
    return "let in"


def x_connect(name, cookie=b""):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(name)
        return x_setup(s, cookie)


def host_display():
    number = P["display"].lstrip(":")
    attempt("socket", lambda: x_connect("/tmp/.X11-unix/X" + number))
    attempt("abstract socket", lambda: x_connect("\0/tmp/.X11-unix/X" + number))
    attempt("TCP", lambda: ask_tcp(("127.0.0.1", 6000 + int(number)), b"l\0\x0b\0\0\0\0\0\0\0\0\0"), control=False)
    attempt("xdpyinfo", lambda: run("xdpyinfo", "-display", P["display"]))
    # The desktop's own display takes nobody without its cookie.
    own = os.environ.get("DISPLAY", ":0").lstrip(":")
    attempt("own display without a cookie", lambda: x_connect("/tmp/.X11-unix/X" + own), control=False)


def run(*args, **more):
    got = subprocess.run(args, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **more)
    if got.returncode != 0:
        raise Refused("status %d: %s" % (got.returncode, got.stderr.decode(errors="replace")))
    return got.stdout.decode(errors="replace")[:100]


def connect_unix(name, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect(name)


def abstract_sockets():
    attempt("connect", lambda: connect_unix("\0" + P["abstract"]))
    attempt("connect to the desktop's owner", lambda: connect_unix("\0" + P["owner"], socket.SOCK_SEQPACKET))

    def listed():
        with open("/proc/net/unix") as f:
            if P["abstract"] not in f.read():
                raise Refused("not listed")
    attempt("list", listed)


def other_desktop():
    cookie = bytes.fromhex(P["cookie"])
    names = glob.glob("/tmp/.X11-unix/X*") + ["\0/tmp/.X11-unix/X%d" % n for n in range(8)]

    def display():
        refusals = []
        for name in names:
            try:
                return x_connect(name, cookie)
            except (OSError, Refused) as e:
                refusals.append(str(e))
        raise Refused("; ".join(refusals))
    attempt("display", display)

    def home():
        for folder in ["/home/user"] + glob.glob("/proc/[0-9]*/root/./home/user") + glob.glob("/proc/[0-9]*/cwd"):
            if os.path.exists(os.path.join(folder, P["file"])):
                return folder
        raise Refused("not found")
    attempt("home", home)
    attempt("processes", lambda: find_in_proc("cmdline", P["file"]))
    attempt("port", lambda: ask_tcp(("127.0.0.1", P["port"]), b"GET / HTTP/1.0\r\n\r\n"))


def find_in_proc(name, text):
    for path in glob.glob("/proc/[0-9]*/" + name):
        if int(path.split("/")[2]) == os.getpid():
            continue  # it knows what it looks for
        try:
            if text.encode() in read_start(path, 1 << 20):
                return path
        except OSError:
            pass
    raise Refused("not found")


def host_proc():
    pid = str(P["pid"])
    attempt("command lines", lambda: find_in_proc("cmdline", P["marker"]))
    attempt("environments", lambda: find_in_proc("environ", P["marker"]))

    def its(name):
        def look():
            data = os.readlink("/proc/%s/%s" % (pid, name)) if name in ("exe", "cwd") else read_start("/proc/%s/%s" % (pid, name), 4096)
            if "sleep" not in str(data) and P["marker"] not in str(data):
                raise Refused("another process")
        return look
    for name in ("cmdline", "status", "exe", "maps"):
        attempt("its " + name, its(name))

    def signal_it():
        if P["marker"].encode() not in read_start("/proc/%s/cmdline" % pid, 4096):
            raise Refused("another process")
        os.kill(P["pid"], 0)
    attempt("signal", signal_it)
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
                 "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward"):
        attempt("write " + path, lambda: open_close(path, os.O_WRONLY), control=P["root"] and os.path.exists(path))
    for path in ("/proc/kcore", "/proc/kmsg", "/proc/1/root/./etc/shadow", "/proc/timer_list", "/proc/kpagecount"):
        attempt("read " + path, lambda: read_start(path, 1), control=False)
    attempt("addresses of the kernel", kernel_addresses, control=P["root"])


def kernel_addresses():
    with open("/proc/kallsyms") as f:
        for _ in range(100):
            if int(f.readline().split()[0], 16) != 0:
                return
    raise Refused("all zero")


def sys_writes():
    attempt("list /sys", lambda: os.listdir("/sys/kernel"))
    attempt("list /sys/fs/cgroup", lambda: os.listdir("/sys/fs/cgroup"))
    for path in ("/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_helper", "/sys/kernel/security/apparmor/.load"):
        attempt("write " + path, lambda: open_close(path, os.O_WRONLY), control=P["root"] and os.path.exists(path))
    attempt("mount", lambda: in_child(lambda: mount_new(b"sysfs")), control=False)
    attempt("mount as root of a namespace", lambda: in_child(lambda: (root_of_namespace(NEWNET), mount_new(b"sysfs"))[1]), control=False)
    attempt("mount control groups", lambda: in_child(lambda: mount_new(b"cgroup2")), control=False)


NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000


def root_of_namespace(more=0):
    uid, gid = os.getuid(), os.getgid()
    call("unshare", NEWUSER | more)
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
        with open("/proc/self/" + name, "w") as f:
            f.write(text)


def mount_new(kind, at=None):
    at = at or os.environ.get("TMPDIR", "/tmp").encode()
    call("mount", kind, at, kind, 0, 0)


def ptrace():
    TRACEME, ATTACH, SEIZE = 0, 16, 0x4206
    attempt("be traced", lambda: in_child(lambda: call("ptrace", TRACEME, 0, 0, 0)))
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        attempt("seize a child", lambda: call("ptrace", SEIZE, sleeper.pid, 0, 0) and None)
        buffer = ctypes.create_string_buffer(8)
        local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
        with open("/proc/%d/maps" % sleeper.pid) as f:
            start = int(f.readline().split("-")[0], 16)
        remote = (ctypes.c_void_p * 2)(start, 8)
        attempt("read a child's memory", lambda: call("process_vm_readv", sleeper.pid, local, 1, remote, 1, 0))
        attempt("take a child's descriptor", lambda: os.close(call("pidfd_getfd", call("pidfd_open", sleeper.pid, 0), 0, 0)))
    finally:
        sleeper.kill()
        sleeper.wait()
    for pid, name in {1: "first process", os.getppid(): "parent"}.items():
        attempt("attach to the " + name, lambda: in_child(lambda: call("ptrace", ATTACH, pid, 0, 0)), control=False)
        attempt("take a descriptor of the " + name, lambda: os.close(call("pidfd_getfd", call("pidfd_open", pid, 0), 0, 0)), control=False)


def fields_of(pid):
    with open("/proc/%s/status" % pid) as f:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in f)}


def setuid_program():
    def user_of(*args):
        # A control is no root to begin with.
        demote = (lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534))) if os.geteuid() == 0 else None
        p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=demote)
        try:
            # Until it waits for its input, or has ended, and is not yet asked for its end.
            while (fields := fields_of(p.pid))["State"][0] not in "SZ":
                time.sleep(0.001)
            effective = int(fields["Uid"].split()[1])
            capable = int(fields["CapEff"], 16)
        finally:
            p.kill()
            p.wait()
            p.stdin.close()
        if effective != 0 and capable == 0:
            raise Refused("user %d" % effective)
        return "user %d, capabilities %x" % (effective, capable)
    for program in P["setuid"]:
        attempt(program, lambda: user_of(program))

    fields = fields_of("self")

    def capable():
        held = {name: fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(fields[name], 16)}
        if not held:
            raise Refused("none")
        return held
    attempt("capabilities", capable, control=False)

    def gain():
        if fields["NoNewPrivs"] == "1":
            raise Refused("no new privileges")
    attempt("privileges to gain", gain, control=False)
    for name, do in (("user", lambda: os.setuid(0)), ("group", lambda: os.setgid(0)), ("groups", lambda: os.setgroups([0]))):
        attempt("become root's " + name, lambda: in_child(do), control=P["root"])

    def supplementary():
        if groups := [g for g in os.getgroups() if g != os.getgid()]:
            return groups
        raise Refused("none")
    attempt("groups of the host's", supplementary, control=False)


def device_nodes():
    folder = os.environ.get("TMPDIR", "/tmp")
    path = os.path.join(folder, "node%d" % os.getpid())

    def make(kind, major, minor):
        try:
            os.mknod(path, kind | 0o600, os.makedev(major, minor))
        finally:
            if os.path.lexists(path):
                os.unlink(path)
    attempt("make memory", lambda: make(stat.S_IFCHR, 1, 1), control=P["root"])
    attempt("make a disk", lambda: make(stat.S_IFBLK, 8, 0), control=P["root"])
    attempt("make as root of a namespace", lambda: in_child(lambda: (root_of_namespace(), make(stat.S_IFCHR, 1, 1))[1]), control=False)
    for name in ("mem", "kmem", "port", "kmsg", "sda", "vda", "nvme0n1", "loop0", "loop-control", "fuse", "kvm", "vsock", "vhost-vsock",
                 "vhost-net", "net/tun", "uinput", "input/event0", "dri/card0", "dri/renderD128", "snd/seq", "tty0", "tty1", "console",
                 "ttyS0", "hpet", "mapper/control", "userfaultfd", "rtc0", "watchdog"):
        attempt("open " + name, lambda: open_close("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), control=False)

    def others():
        known = {"null", "zero", "full", "random", "urandom", "tty"}
        found = []
        for where, _, names in os.walk("/dev"):
            for name in names:
                full = os.path.join(where, name)
                kind = os.lstat(full).st_mode
                if stat.S_ISBLK(kind) or stat.S_ISCHR(kind) and name not in known and not where.startswith("/dev/pts") and full != "/dev/ptmx":
                    found.append(full)
        if not found:
            raise Refused("none")
        return found
    attempt("devices that no desktop needs", others, control=False)
    for folder in ("/dev", "/dev/pts"):
        attempt("write in " + folder, lambda: os.close(os.open(folder + "/probe", os.O_CREAT | os.O_WRONLY)), control=False)


def terminal_input():
    TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423
    libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]

    def ioctl(fd, request, data):
        ctypes.set_errno(0)
        if libc.ioctl(fd, request, ctypes.cast(ctypes.create_string_buffer(data), ctypes.c_void_p)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    _, terminal = pty.openpty()
    attempt("type", lambda: ioctl(terminal, TIOCSTI, b"x"), control=P["root"])
    attempt("type, with high bits", lambda: ioctl(terminal, 1 << 32 | TIOCSTI, b"x"), control=P["root"])

    def own():
        os.setsid()
        fd = os.open(os.ttyname(terminal), os.O_RDWR)
        fcntl.ioctl(fd, termios_TIOCSCTTY(), 0)
        ioctl(fd, TIOCSTI, b"x")
    attempt("type into a terminal of its own", lambda: in_child(own), control=P["root"])
    attempt("load a line discipline", lambda: ioctl(terminal, TIOCSETD, struct.pack("i", 0)))
    attempt("paste", lambda: ioctl(terminal, TIOCLINUX, b"\3"), control=False)
    attempt("open the terminal of the host", lambda: open_close("/dev/tty", os.O_RDWR), control=False)


def termios_TIOCSCTTY():
    import termios
    return termios.TIOCSCTTY


def host_bus():
    def hello(name):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(name)
            s.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
            if not (answer := s.recv(1 << 10)).startswith(b"OK"):
                raise Refused(repr(answer))
    attempt("session bus", lambda: hello(P["bus"]))
    attempt("abstract session bus", lambda: hello("\0" + P["abstractBus"]))
    for path in ("/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket", "/run/systemd/private", "/run/docker.sock", "/var/run/docker.sock",
                 "/run/user/0/bus", "/run/containerd/containerd.sock"):
        attempt(path, lambda: hello(path), control=False)


def secrets():
    """Looks for the key in everything that can be read."""
    key = P["key"]
    attempt("own environment", lambda: in_environment(key), control=False)
    attempt("environments", lambda: find_in_proc("environ", key))
    attempt("command lines", lambda: find_in_proc("cmdline", key), control=False)
    attempt("files", lambda: find_in_files(P["folder"] if CONTROL else "/", key))
    attempt("the file itself", lambda: read_start(os.path.join(P["folder"], "key")))
    attempt("open files", lambda: find_in_open_files(key), control=False)
    attempt("the caller's home", lambda: os.listdir(P["home"]))
    for name in P["variables"]:
        attempt("variable " + name, lambda: os.environ[name] if name in os.environ else missing(name), control=False)


def missing(name):
    raise Refused(name + " is not set")


def in_environment(key):
    if any(key in v for v in os.environ.values()):
        return
    raise Refused("not there")


def find_in_files(folder, text):
    for where, folders, names in os.walk(folder):
        if where == "/":
            folders[:] = [f for f in folders if f not in ("usr", "proc", "sys")]
        for name in names:
            path = os.path.join(where, name)
            try:
                if not stat.S_ISREG(os.lstat(path).st_mode):
                    continue
                with open(path, "rb") as f:
                    while chunk := f.read(1 << 22):
                        if text.encode() in chunk:
                            return path
            except OSError:
                pass
    raise Refused("not found")


def find_in_open_files(text):
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        if path.split("/")[2] == str(os.getpid()):
            continue
        try:
            if stat.S_ISREG(os.stat(path).st_mode) and text.encode() in read_start(path, 1 << 22):
                return path
        except OSError:
            pass
    raise Refused("not found")


def namespaces():
    """User namespaces may be made, since browsers build their sandboxes of them; but nothing may be mounted there."""
    attempt("mount", lambda: in_child(lambda: (root_of_namespace(NEWNS), mount_new(b"tmpfs"))[1]))
    attempt("mount namespace", lambda: in_child(lambda: root_of_namespace(NEWNS)))
    attempt("mount without a namespace", lambda: in_child(lambda: (root_of_namespace(), mount_new(b"tmpfs"))[1]), control=False)
    attempt("new mounts", lambda: in_child(lambda: (root_of_namespace(NEWNS), os.close(call("fsopen", b"tmpfs", 0)))[1]))
    attempt("a copy of a mount", lambda: in_child(lambda: (root_of_namespace(NEWNS), os.close(call("open_tree", -100, b"/", 1 | 0x8000)))[1]))
    attempt("bind", lambda: in_child(lambda: (root_of_namespace(NEWNS), call("mount", b"/usr", b"/tmp", b"", 4096, 0))[1]))
    attempt("remount", lambda: in_child(lambda: (root_of_namespace(NEWNS), call("mount", b"", b"/usr", b"", 32 | 4096, 0))[1]), control=False)
    attempt("unmount", lambda: in_child(lambda: (root_of_namespace(), call("umount2", b"/dev/shm", 2))[1]), control=False)
    attempt("host name", lambda: in_child(lambda: (root_of_namespace(NEWUTS), socket.sethostname("probe"))[1]))
    attempt("control groups", lambda: in_child(lambda: root_of_namespace(NEWCGROUP)))
    attempt("by clone3", lambda: in_child(clone3_namespace))
    attempt("nested bubblewrap", lambda: run("bwrap", "--unshare-all", "--dev-bind", "/", "/", "true"))
    attempt("join the first process's", lambda: call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0), control=False)
    attempt("a handle of a file", lambda: call("open_by_handle_at", os.open("/", os.O_RDONLY), struct.pack("IiQ", 8, 1, 2), 0), control=False)


def clone3_namespace():
    arguments = struct.pack("11Q", NEWUSER | NEWNS, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", ctypes.create_string_buffer(arguments), len(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def kernel():
    attempt("session keyring", lambda: call("keyctl", 0, -3, 0, 0, 0))
    attempt("add a key", lambda: call("add_key", b"user", b"probe", b"x", 1, -2))
    attempt("user faults", lambda: os.close(call("userfaultfd", 0o2000000 | 1)))
    # Without a privilege these need a kernel that is set up to let anybody.
    attempt("programs in the kernel", lambda: os.close(call("bpf", 0, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 8, 1) + bytes(112)), 128)), control=P["root"])
    attempt("performance counters", lambda: os.close(call("perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0) + bytes(112)), 0, -1, -1, 0)), control=P["root"])
    attempt("rings", lambda: os.close(call("io_uring_setup", 4, ctypes.create_string_buffer(256))), control=False)
    attempt("log", lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64), control=P["root"])
    attempt("secret memory", lambda: os.close(call("memfd_secret", 0)), control=False)
    attempt("watch files", lambda: os.close(call("fanotify_init", 0x200, 0)), control=P["root"])
    for name, args in (("reboot", (1, 2, 3)), ("init_module", (0, 0, b"")), ("kexec_load", (0, 0, 0, 0)), ("swapon", (b"/nothing", 0)),
                       ("acct", (b"/nothing",)), ("settimeofday", (0, 0)), ("quotactl", (0, b"/nothing", 0, 0))):
        attempt(name, lambda: only_if_permitted(lambda: call(name, *args)), control=False)
    for what, limit in (("processes", resource.RLIMIT_NPROC), ("open files", resource.RLIMIT_NOFILE), ("core dumps", resource.RLIMIT_CORE),
                        ("real-time priority", resource.RLIMIT_RTPRIO), ("locked memory", resource.RLIMIT_MEMLOCK)):
        attempt("raise the limit of " + what, lambda: in_child(lambda: raise_limit(limit)), control=False)
    attempt("raise the priority", lambda: in_child(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)), control=P["root"])


def only_if_permitted(do):
    """Any error but that of a missing privilege says that the kernel has looked further."""
    try:
        return do()
    except OSError as e:
        if e.errno in (errno.EPERM, errno.ENOSYS):
            raise
        return str(e)


def raise_limit(limit):
    _, hard = resource.getrlimit(limit)
    if hard == resource.RLIM_INFINITY:
        return "no limit"
    try:
        resource.setrlimit(limit, (hard + 1, hard + 1))
    except ValueError as e:  # so it reports a missing privilege
        raise Refused(str(e)) from None


def host_memory():
    attempt("System V shared memory", lambda: call("shmget", P["shm"], 0, 0))
    attempt("POSIX shared memory", lambda: read_start(P["shmFile"], 1))

    def queues():
        libc.mq_open.restype = ctypes.c_int
        fd = libc.mq_open(P["queue"].encode(), os.O_RDONLY)
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(fd)
    attempt("message queue", queues)


def core_dump():
    attempt("core", lambda: crash())


def crash():
    pid = os.fork()
    if pid == 0:
        os.chdir(os.environ.get("TMPDIR", "/tmp"))
        if CONTROL:
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.kill(os.getpid(), signal.SIGSEGV)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if not os.WCOREDUMP(status):
        raise Refused("no core dumped")


def guest():
    """The process that answers the host, which is the parent, and the first of all."""
    for pid, who in {1: "first process", os.getppid(): "parent"}.items():
        base = "/proc/%d/" % pid
        attempt("memory of the " + who, lambda: open_close(base + "mem", os.O_RDONLY), control=who == "parent")
        attempt("memory of the " + who + " for writing", lambda: open_close(base + "mem", os.O_RDWR), control=who == "parent")
        attempt("environment of the " + who, lambda: read_start(base + "environ"), control=who == "parent")
        attempt("descriptors of the " + who, lambda: os.listdir(base + "fd"), control=who == "parent")
        attempt("program of the " + who, lambda: os.readlink(base + "exe"), control=who == "parent")
        attempt("program of the " + who + " for writing", lambda: open_close(base + "exe", os.O_WRONLY), control=False)
        attempt("root of the " + who, lambda: os.listdir(base + "root"), control=who == "parent")
        attempt("map of the " + who, lambda: read_start(base + "maps"), control=who == "parent")
        attempt("score of the " + who, lambda: open_close(base + "oom_score_adj", os.O_WRONLY), control=False)

    def writable():
        found = []
        for path in glob.glob("/proc/[0-9]*/exe") + glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/map_files/*"):
            try:
                target = os.readlink(path)
                if not target.startswith(("/usr", "/run/loupe", "/memfd:loupe", "/etc")):
                    continue
                open_close(path, os.O_WRONLY)
                found.append(path + " -> " + target)
            except OSError:
                pass
        if not found:
            raise Refused("none")
        return found
    attempt("a file of the host's through /proc", writable, control=False)

    def anywhere():
        """Files below which something can be written: only in the folders of the desktop's."""
        found = []
        own = ("/home/user", "/tmp", "/run/user/1000", "/dev/shm", "/proc")
        for where, folders, _ in os.walk("/"):
            if where == "/":
                folders[:] = [f for f in folders if f not in ("proc",)]
            if where.startswith(own):
                folders[:] = []
            else:
                try:
                    os.close(os.open(where + "/probe", os.O_CREAT | os.O_WRONLY))
                    found.append(where)
                except OSError:
                    pass
        if not found:
            raise Refused("nowhere")
        return found
    attempt("folders that can be written", anywhere, control=False)

    def sockets():
        own = ("/tmp/.X11-unix/", "/run/user/1000/", "/tmp/", "/home/user/")
        found = []
        for where, folders, names in os.walk("/"):
            if where == "/":
                folders[:] = [f for f in folders if f not in ("proc", "usr")]
            for name in names:
                path = os.path.join(where, name)
                if stat.S_ISSOCK(os.lstat(path).st_mode) and not path.startswith(own):
                    found.append(path)
        if not found:
            raise Refused("none")
        return found
    attempt("sockets of the host's", sockets, control=False)

    def held():
        """Descriptors that a program was given beside the first three."""
        kept = [os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists("/proc/self/fd/" + n)]
        if not kept:
            raise Refused("none")
        return kept
    attempt("descriptors that came along", held, control=False)


PROBES = [dns_by_udp, dns_by_tcp, raw_socket, ip_literal, other_port, server_name, redirect, metadata, host_display, abstract_sockets,
          other_desktop, host_proc, sys_writes, ptrace, setuid_program, device_nodes, terminal_input, host_bus, secrets, namespaces, kernel,
          host_memory, core_dump, guest]

{p.__name__: p for p in PROBES}[sys.argv[1]]()
