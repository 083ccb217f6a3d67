package doctor

import (
	"context"
	"fmt"
	"strings"
)

// What a desktop looks bad without, on Debian.
const (
	cjkFont   = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"
	emojiFont = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
	icons     = "/usr/share/icons/Adwaita/index.theme"
	zones     = "/usr/share/zoneinfo/Europe/Berlin"
	novnc     = "/usr/share/novnc/core/rfb.js"

	officeWriter = "/usr/lib/libreoffice/program/libswlo.so"
	officeCalc   = "/usr/lib/libreoffice/program/libsclo.so"
	officeGTK    = "/usr/lib/libreoffice/program/libvclplug_gtk3lo.so"
)

// desktop looks for what loupe desktop needs: to start one, to isolate it, to hold it to its
// limits, to show it, and to have something on it.
func desktop(ctx context.Context, env *Env) []Finding {
	const use = "loupe desktop"
	findings := []Finding{parts(env, "desktop", use,
		part{program: "bwrap", packages: []string{"bubblewrap"}},
		part{program: "Xvfb", packages: []string{"xvfb"}},
		part{program: "mutter", or: "openbox", packages: []string{"mutter"}},
		part{program: "tint2", packages: []string{"tint2"}},
		part{program: "dbus-daemon", packages: []string{"dbus-daemon"}})}
	if _, err := env.LookPath("bwrap"); err == nil { // else there is nothing to try
		findings = append(findings, isolation(ctx, env))
	}
	return append(findings, limits(env),
		parts(env, "live view", "loupe desktop --watch",
			part{program: "x11vnc", packages: []string{"x11vnc"}},
			part{path: novnc, packages: []string{"novnc"}},
			part{program: "xclip", packages: []string{"xclip"}}),
		parts(env, "fonts, icons and time zones", use,
			part{path: font, packages: []string{"fonts-dejavu-core"}},
			part{path: cjkFont, packages: []string{"fonts-noto-cjk"}},
			part{path: emojiFont, packages: []string{"fonts-noto-color-emoji"}},
			part{path: icons, packages: []string{"adwaita-icon-theme", "librsvg2-common"}},
			part{path: zones, packages: []string{"tzdata"}}),
		parts(env, "small applications", "loupe desktop --apps",
			part{program: "mousepad", packages: []string{"mousepad"}},
			part{program: "pcmanfm", packages: []string{"pcmanfm"}},
			part{program: "galculator", packages: []string{"galculator"}},
			part{program: "xterm", packages: []string{"xterm"}}),
		parts(env, "browsers", "loupe desktop --apps, and the tests",
			part{program: "firefox-esr", packages: []string{"firefox-esr"}},
			part{program: "chromium", packages: []string{"chromium"}}),
		parts(env, "LibreOffice", "loupe desktop --apps, and the tests",
			part{path: officeWriter, packages: []string{"libreoffice-writer"}},
			part{path: officeCalc, packages: []string{"libreoffice-calc"}},
			part{path: officeGTK, packages: []string{"libreoffice-gtk3"}}),
	)
}

// refusals are the switches of the kernel that keep ordinary users from making namespaces.
var refusals = []struct{ name, path, refuses, allows string }{
	{"user.max_user_namespaces", "/proc/sys/user/max_user_namespaces", "0", "15000"},
	{"kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone", "0", "1"},
	{"kernel.apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "0"},
}

// isolation tries it.
func isolation(ctx context.Context, env *Env) Finding {
	f := Finding{Name: "isolation", Level: Optional, For: "loupe desktop"}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := env.Isolate(ctx)
	if err == nil {
		f.OK, f.Detail = true, "tried, and it works as an ordinary user"
		return f
	}
	f.Detail = err.Error()
	for _, r := range refusals {
		text, err := env.ReadFile(r.path)
		if err == nil && strings.TrimSpace(string(text)) == r.refuses {
			f.Detail += fmt.Sprintf("; %s is %s", r.name, r.refuses)
			f.Fix = asRoot(env, fmt.Sprintf("sysctl -w %s=%s", r.name, r.allows))
			return f
		}
	}
	f.Detail += "; a container that this is in has to be started with --security-opt seccomp=unconfined, apparmor=unconfined " +
		"and systempaths=unconfined, or the desktop with --no-sandbox, which isolates nothing"
	return f
}

// limits tries whether the kernel will hold a desktop to its limits.
func limits(env *Env) Finding {
	f := Finding{Name: "control groups", Level: Optional, For: "exact limits of loupe desktop"}
	if err := env.Limit(); err != nil {
		f.Detail = "none can be made; memory is measured instead, and a desktop that takes too much is ended"
		if _, err := env.LookPath("systemd-run"); err == nil && !env.Root {
			f.Fix = "systemd-run --user --scope -p Delegate=yes loupe desktop"
		}
		return f
	}
	f.OK, f.Detail = true, "tried, and the kernel holds memory and processes"
	return f
}
