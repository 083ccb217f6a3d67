package apps

import (
	"fmt"
	"strings"
)

// gtkFiles are the settings that GTK, and the programs that store theirs with GIO, read.
// There is no settings daemon: files say it all. Letters take the part of the scale that
// GDK_SCALE cannot express (see Setup.Env).
func (s Setup) gtkFiles(add func(name, text string)) {
	config := s.home() + "/.config"
	settings := "[Settings]\n" +
		"gtk-theme-name=Adwaita\n" +
		"gtk-icon-theme-name=Adwaita\n" +
		"gtk-cursor-theme-name=Adwaita\n" +
		fmt.Sprintf("gtk-cursor-theme-size=%d\n", 24) +
		"gtk-font-name=Sans 10\n" +
		"gtk-enable-animations=0\n" +
		"gtk-recent-files-enabled=0\n" +
		"gtk-recent-files-max-age=0\n" +
		"gtk-enable-event-sounds=0\n" +
		"gtk-enable-input-feedback-sounds=0\n"
	add(config+"/gtk-3.0/settings.ini", settings)
	add(config+"/gtk-4.0/settings.ini", strings.Replace(settings, "gtk-recent-files-max-age=0\n", "", 1))
	add(s.home()+"/.gtkrc-2.0", "gtk-icon-theme-name=\"Adwaita\"\ngtk-font-name=\"Sans 10\"\ngtk-recent-files-max-age=0\n")

	add(config+"/glib-2.0/settings/keyfile", keyFile([]keyGroup{
		{"org/gnome/desktop/interface", [][2]string{
			{"gtk-theme", "'Adwaita'"},
			{"icon-theme", "'Adwaita'"},
			{"cursor-theme", "'Adwaita'"},
			{"cursor-size", "24"},
			// Mutter's alone: applications have GDK_SCALE.
			{"scaling-factor", fmt.Sprintf("uint32 %d", s.wholeScale())},
			{"font-name", "'Sans 10'"},
			{"document-font-name", "'Sans 10'"},
			{"monospace-font-name", "'Monospace 10'"},
			{"enable-animations", "false"},
			{"toolkit-accessibility", "false"},
			{"cursor-blink", "false"},
		}},
		{"org/gnome/desktop/wm/preferences", [][2]string{
			{"button-layout", "':minimize,maximize,close'"},
			{"titlebar-font", "'Sans Bold 10'"},
			{"focus-mode", "'click'"},
			{"num-workspaces", "1"},
			{"audible-bell", "false"},
			{"visual-bell", "false"},
		}},
		{"org/gnome/desktop/privacy", [][2]string{{"remember-recent-files", "false"}}},
		{"org/gnome/desktop/screensaver", [][2]string{{"lock-enabled", "false"}, {"idle-activation-enabled", "false"}}},
		{"org/gnome/desktop/session", [][2]string{{"idle-delay", "uint32 0"}}},
		{"org/gnome/mutter", [][2]string{
			{"overlay-key", "''"},
			{"edge-tiling", "false"},
			{"dynamic-workspaces", "false"},
			{"auto-maximize", "false"},
			{"attach-modal-dialogs", "false"},
			// 0: never ask whether a busy application is to be ended.
			{"check-alive-timeout", "uint32 0"},
		}},
		{"org/gtk/settings/file-chooser", [][2]string{
			{"startup-mode", "'cwd'"},
			{"sort-directories-first", "true"},
		}},
		{"org/xfce/mousepad/preferences/file", [][2]string{
			{"session-restore", "'never'"},
			{"autosave-timer", "uint32 0"},
		}},
		{"org/xfce/mousepad/preferences/window", [][2]string{{"recent-menu-items", "uint32 0"}}},
		{"org/xfce/mousepad/preferences/view", [][2]string{{"use-default-monospace-font", "true"}}},
	}))

	add(config+"/pcmanfm/default/pcmanfm.conf", "[config]\nbm_open_method=0\n\n"+
		"[volume]\nmount_on_startup=0\nmount_removable=0\nautorun=0\n\n"+
		fmt.Sprintf("[ui]\nwin_width=%d\nwin_height=%d\nsplitter_pos=%d\n", s.scaled(800), s.scaled(560), s.scaled(150))+
		"side_pane_mode=places\nview_mode=icon\nshow_hidden=0\n")
	add(config+"/libfm/libfm.conf", "[config]\nsingle_click=0\nuse_trash=1\nconfirm_del=1\nterminal=xterm -e %s\n"+
		"thumbnail_local=1\nthumbnail_max=2048\nquick_exec=0\n\n"+
		fmt.Sprintf("[ui]\nbig_icon_size=%d\nsmall_icon_size=%d\nthumbnail_size=%d\npane_icon_size=%d\n\n",
			s.scaled(48), s.scaled(24), s.scaled(128), s.scaled(24))+
		"[places]\nplaces_home=1\nplaces_desktop=0\nplaces_root=1\nplaces_computer=0\nplaces_trash=0\nplaces_applications=0\nplaces_network=0\nplaces_unmounted=0\n")
	add(config+"/user-dirs.dirs", "XDG_DESKTOP_DIR=\"$HOME/Desktop\"\nXDG_DOWNLOAD_DIR=\"$HOME/Downloads\"\n"+
		"XDG_DOCUMENTS_DIR=\"$HOME/Documents\"\nXDG_PICTURES_DIR=\"$HOME/Pictures\"\n")
	add(config+"/user-dirs.conf", "enabled=False\n")
}

// Folders are the directories of a home that users expect, to be made empty.
func (s Setup) Folders() []string {
	h := s.home()
	return []string{h + "/Desktop", h + "/Documents", h + "/Downloads", h + "/Pictures"}
}

// keyGroup is a schema's path and its keys, with values as GVariant text.
type keyGroup struct {
	path string
	keys [][2]string
}

// keyFile is the format of GIO's keyfile backend.
func keyFile(groups []keyGroup) string {
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%s]\n", g.path)
		for _, k := range g.keys {
			fmt.Fprintf(&b, "%s=%s\n", k[0], k[1])
		}
	}
	return b.String()
}
