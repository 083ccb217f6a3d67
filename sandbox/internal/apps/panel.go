package apps

import (
	"fmt"
	"slices"
	"strings"
)

// Panel is the command that starts the panel with the configuration of Files.
func (s Setup) Panel() []string { return []string{"/usr/bin/tint2", "-c", s.panelConfig()} }

func (s Setup) panelConfig() string { return s.home() + "/.config/tint2/tint2rc" }

// launchers are the applications that the panel offers: those that were asked for, then one
// of each kind that a person looks for, as far as they are installed.
func (s Setup) launchers() []App {
	var list []App
	have := func(names ...string) bool {
		return slices.ContainsFunc(list, func(a App) bool { return slices.Contains(names, a.Name) })
	}
	for _, a := range s.Apps {
		if !have(a.Name) && len(list) < 12 {
			list = append(list, a)
		}
	}
	for _, kind := range [][]string{{"firefox", "chromium"}, {"pcmanfm"}, {"mousepad"}, {"xterm"}} {
		if have(kind...) {
			continue
		}
		for _, name := range kind {
			if a, err := find(s.rootDir(), name); err == nil {
				list = append(list, a)
				break
			}
		}
	}
	return list
}

// entryFiles are desktop entries, which take the place of the system's of the same name, so
// that every way to open a file or an address leads to the same command, and the list of what
// opens in what.
func (s Setup) entryFiles(add func(name, text string)) {
	entries := s.launchers()
	for _, a := range Catalogue() {
		if !slices.ContainsFunc(entries, func(e App) bool { return e.Name == a.Name }) && a.installed(s.rootDir()) {
			entries = append(entries, a)
		}
	}
	opens := map[string][]string{}
	for _, a := range entries {
		var b strings.Builder
		fmt.Fprintf(&b, "[Desktop Entry]\nType=Application\nVersion=1.0\nName=%s\nExec=%s\nIcon=%s\nTerminal=false\n",
			a.Title, a.execLine(), or(a.icon, "application-x-executable"))
		if len(a.Class) > 0 {
			fmt.Fprintf(&b, "StartupWMClass=%s\n", a.Class[0])
		}
		if len(a.mimeTypes) > 0 {
			fmt.Fprintf(&b, "MimeType=%s;\n", strings.Join(a.mimeTypes, ";"))
		}
		add(s.home()+"/.local/share/applications/"+a.entryName(), b.String())
		for _, t := range a.mimeTypes {
			opens[t] = append(opens[t], a.entryName())
		}
	}
	var b strings.Builder
	b.WriteString("[Default Applications]\n")
	for _, t := range sortedKeys(opens) {
		fmt.Fprintf(&b, "%s=%s;\n", t, strings.Join(opens[t], ";"))
	}
	add(s.home()+"/.config/mimeapps.list", b.String())
}

// panelFiles are tint2's configuration: launchers, tasks and a clock. There is no
// notification area, since nothing here has an icon for it, and no battery. Sizes are display
// pixels, and of letters points at 96 to the inch, since tint2 does not heed Xft.dpi.
func (s Setup) panelFiles(add func(name, text string)) {
	px := s.scaled
	var b strings.Builder
	line := func(key, format string, value ...any) { fmt.Fprintf(&b, key+" = "+format+"\n", value...) }
	background := func(radius, border int, fill, edge string) {
		line("rounded", "%d", px(radius))
		line("border_width", "%d", border)
		line("border_sides", "TBLR")
		line("background_color", "%s", fill)
		line("border_color", "%s", edge)
	}
	background(0, 0, "#20262c 100", "#20262c 100") // 1: panel
	background(3, 0, "#39424b 100", "#39424b 100") // 2: task
	background(3, 1, "#5a6875 100", "#8fa3b5 100") // 3: active task
	background(3, 0, "#2a3138 100", "#2a3138 100") // 4: iconified task

	line("panel_items", "LTC")
	line("panel_monitor", "all")
	line("panel_position", "bottom center horizontal")
	line("panel_size", "100%% %d", px(36))
	line("panel_margin", "0 0")
	line("panel_padding", "%d %d %d", px(4), px(2), px(6))
	line("panel_background_id", "1")
	line("panel_dock", "0")
	line("panel_layer", "top")
	line("strut_policy", "follow_size")
	line("wm_menu", "0")
	line("autohide", "0")
	line("panel_window_name", "tint2")
	line("disable_transparency", "1")
	line("mouse_effects", "0")

	line("launcher_padding", "%d %d %d", px(2), px(2), px(4))
	line("launcher_icon_size", "%d", px(28))
	line("launcher_icon_theme", "Adwaita")
	line("launcher_icon_theme_override", "1")
	line("startup_notifications", "0")
	line("launcher_tooltip", "1")
	for _, a := range s.launchers() {
		line("launcher_item_app", "%s", s.home()+"/.local/share/applications/"+a.entryName())
	}

	line("taskbar_mode", "single_desktop")
	line("taskbar_padding", "%d 0 %d", px(4), px(4))
	line("taskbar_distribute_size", "1")
	line("taskbar_name", "0")
	line("taskbar_hide_inactive_tasks", "0")
	line("task_align", "left")
	line("task_text", "1")
	line("task_icon", "1")
	line("task_centered", "0")
	line("urgent_nb_of_blink", "0")
	line("task_maximum_size", "%d %d", px(200), px(32))
	line("task_padding", "%d %d %d", px(6), px(3), px(6))
	line("task_font", "Sans %s", number(9*s.scale()))
	line("task_tooltip", "1")
	line("task_font_color", "#f0f0f0 100")
	line("task_background_id", "2")
	line("task_active_background_id", "3")
	line("task_iconified_background_id", "4")
	line("task_urgent_background_id", "2")
	line("mouse_left", "toggle_iconify")
	line("mouse_middle", "none")
	line("mouse_right", "close")
	line("mouse_scroll_up", "none")
	line("mouse_scroll_down", "none")

	line("time1_format", "%%H:%%M")
	line("time1_font", "Sans %s", number(10*s.scale()))
	line("clock_font_color", "#f0f0f0 100")
	line("clock_padding", "%d 0", px(6))
	line("clock_tooltip", "%%A, %%d %%B %%Y")
	line("tooltip_show_timeout", "0.5")
	line("tooltip_hide_timeout", "0.1")
	line("tooltip_padding", "%d %d", px(6), px(4))
	line("tooltip_background_id", "1")
	line("tooltip_font", "Sans %s", number(9*s.scale()))
	line("tooltip_font_color", "#f0f0f0 100")
	add(s.panelConfig(), b.String())
}
