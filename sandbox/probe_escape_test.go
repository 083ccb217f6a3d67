//go:build linux

package sandbox_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-tools/loupe/internal/desktest"
	"github.com/loupe-tools/loupe/sandbox"
)

// TestEscape runs what somebody hostile would on a desktop. Each probe must fail there, and
// work where it is allowed: on the machine itself, in a sandbox without protection, or on
// another desktop that may reach what it asks for.
func TestEscape(t *testing.T) {
	key := "sk-ant-" + rand.Text()
	secret := "secret " + rand.Text()
	marker := "marker-" + rand.Text()
	variables := map[string]string{"ANTHROPIC_API_KEY": key, "AWS_SECRET_ACCESS_KEY": key, "SSH_AUTH_SOCK": "/run/agent", "LOUPE_PROBE": key}
	for name, value := range variables {
		t.Setenv(name, value)
	}

	ca := newAuthority(t)
	certificate := ca.forHosts(t, "allowed.example", "a.allowed.example", "other.example")
	handler := http.NewServeMux()
	handler.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(secret)) })
	handler.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.RawQuery, http.StatusFound) })
	plain, secure := serve(t, handler, nil), serve(t, handler, &certificate)
	_, plainPort, _ := net.SplitHostPort(plain)
	_, securePort, _ := net.SplitHostPort(secure)

	net1 := &internet{
		names: map[string]string{
			"allowed.example": "93.184.215.14", "other.example": "93.184.215.15",
			"inward.example": "10.1.2.3", "homeward.example": "127.0.0.1", "cloud.example": "169.254.169.254",
			"metadata.google.internal": "169.254.169.254",
		},
		servers: map[string]string{
			"93.184.215.14:80": plain, "93.184.215.14:443": secure, "93.184.215.14:8080": plain, "93.184.215.14:22": plain,
			"93.184.215.15:80": plain, "93.184.215.15:443": secure,
			"10.1.2.3:80": plain, "127.0.0.1:80": plain, "169.254.169.254:80": plain, "192.168.1.1:80": plain,
		},
	}
	closedNames := []string{"allowed.example", "inward.example", "homeward.example", "cloud.example"}
	openNames := append([]string{"other.example", "allowed.example:8080", "allowed.example:22", "metadata.google.internal",
		"10.0.0.0/8", "127.0.0.1:80", "127.0.0.1:" + plainPort, "127.0.0.1:" + securePort, "169.254.169.254", "192.168.1.1"}, closedNames...)
	begin := func(names []string, o sandbox.Options) *sandbox.Desktop {
		o.Allow = names
		d, err := sandbox.StartOn(context.WithoutCancel(t.Context()), &o, net1.options())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	events := &eventLog{}
	name := fmt.Sprintf("probed-%d", os.Getpid())
	d := begin(closedNames, sandbox.Options{Event: events.add, Name: name})
	open := begin(openNames, sandbox.Options{})

	root := os.Geteuid() == 0
	run := func(name string, p parameters, allowed surrounding) {
		t.Run(name, func(t *testing.T) {
			p["root"], p["secret"], p["ca"] = root, secret, ca.PEM()
			p["allowed"], p["other"] = "allowed.example", "other.example"
			mustFail(t, d, strings.ReplaceAll(name, " ", "_"), p, allowed)
		})
	}

	servers := nameServers(t)
	run("dns by udp", parameters{"dns": servers, "name": hostName(t)}, onHost)
	run("dns by tcp", parameters{"dns": servers}, onHost)
	run("raw socket", parameters{}, rawControl(root))
	run("ip literal", parameters{"literals": []string{plain, secure}[:1]}, inside(open))
	run("other port", parameters{"ports": []string{"allowed.example:8080", "allowed.example:22"}}, inside(open))
	run("server name", parameters{}, inside(open))
	run("redirect", parameters{"redirects": []string{"http://10.1.2.3/secret", "http://127.0.0.1/secret", "http://192.168.1.1/secret",
		"http://other.example/secret", "http://homeward.example/secret", "http://169.254.169.254/secret", "http://allowed.example:8080/secret"}}, inside(open))
	run("metadata", parameters{"metadata": []string{"169.254.169.254", "metadata.google.internal", "cloud.example"}}, inside(open))

	run("host display", parameters{"display": hostDisplay(t, output(t, d, "echo $DISPLAY"))}, onHost)
	run("abstract sockets", parameters{"abstract": abstractSocket(t), "owner": fmt.Sprintf("loupe/desktop/%d/%s", os.Geteuid(), name)}, onHost)
	otherFile := "other-" + rand.Text()
	output(t, open, fmt.Sprintf("echo %s >%s; python3 -m http.server -b 127.0.0.1 8077 >/dev/null 2>&1 & bash -c 'exec -a %s sleep 1000' >/dev/null 2>&1 & "+
		"until curl -s http://127.0.0.1:8077/ >/dev/null; do :; done", secret, otherFile, otherFile))
	cookie := output(t, open, `python3 -c 'import os; print(open(os.environ["XAUTHORITY"], "rb").read()[-16:].hex())'`)
	if _, err := hex.DecodeString(cookie); err != nil || len(cookie) != 32 {
		t.Fatalf("the cookie of the other desktop is %q", cookie)
	}
	run("other desktop", parameters{"cookie": cookie, "file": otherFile, "port": 8077}, inside(open))

	run("host proc", parameters{"pid": hostProcess(t, marker, key), "marker": marker}, onHost)
	run("sys writes", parameters{}, onHost)
	run("ptrace", parameters{}, onHost)
	run("setuid program", parameters{"setuid": setuidPrograms(t)}, onHost)
	run("device nodes", parameters{}, always)
	run("terminal input", parameters{}, onHost)
	bus, abstractBus := hostBus(t)
	run("host bus", parameters{"bus": bus, "abstractBus": abstractBus}, onHost)
	folder := secretFolder(t, key)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for name := range variables {
		names = append(names, name)
	}
	slices.Sort(names)
	run("secrets", parameters{"key": key, "folder": folder, "home": home, "variables": names}, onHost)

	run("namespaces", parameters{}, bare)
	run("kernel", parameters{}, onHost)
	run("host memory", hostMemory(t), onHost)
	run("core dump", parameters{}, onHost)
	run("guest", parameters{}, onHost)

	t.Run("links out of the home folder", func(t *testing.T) { probeLinks(t, d, folder, key) })
	t.Run("the desktop still works", func(t *testing.T) {
		if got := output(t, d, "curl -s http://allowed.example/secret"); got != secret {
			t.Errorf("what is allowed gives %q", got)
		}
		if err := d.Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing was dialled that is not allowed", func(t *testing.T) {
		allowed := 0
		for _, a := range events.attempts() {
			if a.Address.IsValid() && a.Address.Addr().String() != "93.184.215.14" {
				t.Errorf("connected to %v for %s", a.Address, a.Host)
			}
			if a.Allowed {
				allowed++
			}
		}
		if allowed == 0 {
			t.Error("no event of an attempt that was allowed")
		}
	})
}

// always is for probes whose controls are among their own attempts, or that have none.
func always(t testing.TB, arguments []string) ([]byte, error) {
	if os.Geteuid() == 0 {
		return onHost(t, arguments)
	}
	return []byte(`{"Name": "none", "Through": true}`), nil
}

// rawControl is where a raw socket may be opened.
func rawControl(root bool) surrounding {
	if root {
		return onHost
	}
	return bare
}

// nameServers answers questions of any kind, by UDP and TCP on the same ports, on every address
// of the machine.
func nameServers(t testing.TB) (found []string) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = u.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("answer"))
				_ = c.(*net.TCPConn).CloseWrite()
				go func() { defer c.Close(); _, _ = c.Read(make([]byte, 512)) }()
			}
		}()
		go func() {
			b := make([]byte, 512)
			for {
				_, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = u.WriteTo([]byte("answer"), from)
			}
		}()
		found = append(found, l.Addr().String())
	}
	return found
}

// hostName is a name that the machine can look up and a desktop cannot.
func hostName(t testing.TB) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.LookupHost(name); err != nil {
		t.Fatalf("the machine does not know its own name: %v; add it to /etc/hosts", err)
	}
	return name
}

// hostDisplay starts a display on the machine that has another name than the desktop's.
func hostDisplay(t testing.TB, not string) string {
	t.Helper()
	name := not
	for name == not {
		name = desktest.Xvfb(t, desktest.Options{}).Name()
	}
	return name
}

// abstractSocket listens on the machine.
func abstractSocket(t testing.TB) string {
	t.Helper()
	name := "loupe-probe-" + rand.Text()
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return name
}

// hostProcess starts a process on the machine that carries secrets, and returns its number.
func hostProcess(t testing.TB, marker, key string) int {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.Args[0] = "sleep-" + marker
	c.Env = []string{"ANTHROPIC_API_KEY=" + key, "MARKER=" + marker}
	begun(t, c)
	return c.Process.Pid
}

// begun starts a process that ends with the test.
func begun(t testing.TB, c *exec.Cmd) {
	t.Helper()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatalf("%v; install what is missing with: scripts/setup test", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
}

// setuidPrograms are the programs of the machine that run as root for everybody.
func setuidPrograms(t testing.TB) (found []string) {
	t.Helper()
	for _, name := range []string{"su", "passwd", "mount", "gpasswd", "chsh"} {
		path := "/usr/bin/" + name
		info, err := os.Stat(path)
		if err == nil && info.Mode()&fs.ModeSetuid != 0 {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		t.Fatal("no setuid program is installed: apt-get install passwd util-linux")
	}
	return found
}

// hostBus starts two message buses on the machine, one on a file and one without.
func hostBus(t testing.TB) (file, abstract string) {
	t.Helper()
	file, abstract = filepath.Join(t.TempDir(), "bus"), "loupe-bus-"+rand.Text()
	for _, address := range []string{"unix:path=" + file, "unix:abstract=" + abstract} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--address="+address, "--print-address=3")
		c.ExtraFiles, c.Stderr = []*os.File{w}, t.Output()
		begun(t, c)
		_ = w.Close()
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatalf("dbus-daemon did not start: %v", err)
		}
		_ = r.Close()
	}
	return file, abstract
}

// secretFolder makes a folder on the machine with a key in it.
func secretFolder(t testing.TB, key string) string {
	t.Helper()
	folder := t.TempDir()
	// Anybody could read it there, so that it is the sandbox alone that holds.
	for dir := folder; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "key"), []byte("ANTHROPIC_API_KEY="+key+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// hostMemory makes what processes share memory by.
func hostMemory(t testing.TB) parameters {
	t.Helper()
	const number = 0x10c0be
	id, err := unix.SysvShmGet(number, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	file := "/dev/shm/loupe-probe-" + rand.Text()
	if err := os.WriteFile(file, []byte("shared"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	queue := "/loupe-probe-" + rand.Text()
	name, err := unix.BytePtrFromString(queue[1:])
	if err != nil {
		t.Fatal(err)
	}
	fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o644, 0, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	_ = unix.Close(int(fd))
	t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0) })
	return parameters{"shm": number, "shmFile": file, "queue": queue}
}

// probeLinks copies out of a home folder that is full of links.
func probeLinks(t *testing.T, d *sandbox.Desktop, folder, key string) {
	output(t, d, `mkdir -p links/below; cd links; echo good >good; ln good hard
		ln -s `+folder+`/key file; ln -s `+folder+` folder; ln -s / top; ln -s ../../../../../../etc/passwd up; ln -s loop loop
		ln -s good inner; ln -s below inner-folder; echo deep >below/deep; mkfifo pipe; ln -s /proc/self/root/./etc proc
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
		ln -s /dev/zero zero; ln -s /proc/1/environ environ`)
	to := t.TempDir()
	// What is in the way on the machine is not written through.
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(to, "links"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(to, "links", "good")); err != nil {
		t.Fatal(err)
	}
	written, skipped, err := d.CopyOut(t.Context(), "links", to)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range written {
		name, _ := filepath.Rel(to, w)
		names = append(names, name)
		info, err := os.Lstat(w)
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is no regular file: %v, %v", name, info, err)
		}
		text, err := os.ReadFile(w)
		if err != nil || strings.Contains(string(text), key) || len(text) > 16 {
			t.Errorf("%s has %d bytes, %v", name, len(text), err)
		}
	}
	slices.Sort(names)
	if want := []string{"links/below/deep", "links/good", "links/hard"}; !slices.Equal(names, want) {
		t.Errorf("copied %q, want %q", names, want)
	}
	if len(skipped) != 12 {
		t.Errorf("%d were left out, want 12: %q", len(skipped), skipped)
	}
	if text, _ := os.ReadFile(victim); string(text) != "untouched" {
		t.Errorf("a file of the machine was written through a link: %q", text)
	}
	for _, pattern := range []string{"links/file", "links/folder/*", "links/folder/key", "links/top/etc/passwd", "links/up", "links/proc/passwd",
		"../../etc/passwd", "/etc/passwd", "links/../../../etc/passwd", "links/inner", "links/inner-folder/deep", "links/loop", "links/zero", "links/environ"} {
		to := t.TempDir()
		if written, _, _ := d.CopyOut(t.Context(), pattern, to); len(written) > 0 {
			t.Errorf("%s gives %q", pattern, written)
		}
		if entries, err := os.ReadDir(to); err != nil || len(entries) > 0 {
			t.Errorf("%s leaves %v, %v", pattern, entries, err)
		}
	}

	// Nothing that is copied in goes through a link either: there is only the desktop there,
	// but what is meant for one file must not become another.
	good := filepath.Join(t.TempDir(), "note")
	if err := os.WriteFile(good, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, d, "echo old >target; ln -sf target note")
	if err := d.CopyIn(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if got := output(t, d, "cat target note; test -L note && echo link || true"); got != "old\nnew" {
		t.Errorf("after a copy over a link: %q", got)
	}
}
