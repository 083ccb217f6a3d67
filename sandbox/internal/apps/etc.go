package apps

import (
	"fmt"
	"os"
	"path/filepath"
)

// etcFiles are the system's own files of a desktop. Names are resolved from /etc/hosts alone:
// every other name is the proxy's to resolve.
func (s Setup) etcFiles(add func(name, text string)) {
	user, host := s.user(), s.hostName()
	add("/etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n"+
		"%s:x:1000:1000:%s:%s:/bin/bash\n"+
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", user, user, s.home()))
	add("/etc/group", fmt.Sprintf("root:x:0:\ntty:x:5:\n%s:x:1000:\nnogroup:x:65534:\n", user))
	add("/etc/hostname", host+"\n")
	add("/etc/hosts", fmt.Sprintf("127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost\n", host))
	add("/etc/host.conf", "multi on\n")
	add("/etc/resolv.conf", "# Names are resolved by the proxy.\n")
	add("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\n"+
		"protocols: files\nservices: files\nethers: files\nrpc: files\n")
	add("/etc/machine-id", s.machineID()+"\n")
	add("/etc/timezone", s.timeZone()+"\n")
	add("/etc/shells", "/bin/sh\n/bin/bash\n")
	add(s.home()+"/.profile", "[ -n \"$BASH_VERSION\" ] && . \"$HOME/.bashrc\"\n")
	add(s.home()+"/.bashrc", "case $- in *i*) ;; *) return ;; esac\n"+
		"PS1='\\u@\\h:\\w\\$ '\nHISTSIZE=1000\nshopt -s checkwinsize\nalias ls='ls --color=auto'\n")
}

// HostPaths lists what of this machine's /etc and /var a desktop may see, read-only and at the
// same place: tables that programs of /usr need, and caches that make them start sooner.
// Only what exists is listed, and nothing that holds a secret, an administrator's script or a
// setting of the browsers. A link stands for what it leads to. The caller owns the slice.
func HostPaths() []string { return hostPaths("/") }

// hostPaths is HostPaths on the file system below root.
func hostPaths(root string) []string {
	var found []string
	for _, pattern := range []string{
		"/etc/alternatives",
		"/etc/ld.so.cache",
		"/etc/ld.so.conf",
		"/etc/ld.so.conf.d",
		"/etc/os-release",
		"/etc/debian_version",
		"/etc/fonts",
		"/var/cache/fontconfig",
		"/etc/gtk-2.0",
		"/etc/gtk-3.0",
		"/etc/gtk-4.0",
		"/etc/X11/app-defaults",
		"/etc/X11/cursors",
		"/etc/X11/xkb",
		"/etc/X11/rgb.txt",
		"/etc/xdg",
		"/etc/mime.types",
		"/etc/magic",
		"/etc/magic.mime",
		"/etc/protocols",
		"/etc/services",
		"/etc/terminfo",
		"/etc/inputrc",
		"/etc/locale.alias",
		// Certificates, never /etc/ssl/private. Their files are in /usr.
		"/etc/ssl/certs",
		"/etc/ssl/openssl.cnf",
		"/etc/libreoffice/registry",
		"/etc/libreoffice/psprint.conf",
		"/etc/libreoffice/soffice.sh",
		"/var/lib/libreoffice",
		"/etc/papersize",
		"/etc/dictionaries-common",
		"/etc/glvnd",
		"/etc/vulkan",
		"/etc/drirc",
		"/etc/ImageMagick-6",
		"/etc/ImageMagick-7",
		"/etc/gimp",
		"/etc/vim",
		"/etc/python3",
		"/etc/python3.*",
	} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil { // the patterns are ours and well-formed
			continue
		}
		for _, m := range matches {
			if _, err := os.Stat(m); err != nil {
				continue
			}
			inside, err := filepath.Rel(root, m)
			if err != nil {
				continue
			}
			found = append(found, "/"+inside)
		}
	}
	return found
}
