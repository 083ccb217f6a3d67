"""A GTK 3 program that says what happened to it.

It reads commands as JSON, one a line, from standard input and answers each with one line
on standard output. Its first line says that it is on the screen. It ends with its input.
"""

import json
import sys
import time

import gi

gi.require_version("Gtk", "3.0")
gi.require_version("Gdk", "3.0")
gi.require_version("GdkX11", "3.0")
from gi.repository import Gdk, GdkX11, GLib, Gtk  # noqa: E402

MODIFIERS = [
    ("shift", Gdk.ModifierType.SHIFT_MASK),
    ("lock", Gdk.ModifierType.LOCK_MASK),
    ("ctrl", Gdk.ModifierType.CONTROL_MASK),
    ("alt", Gdk.ModifierType.MOD1_MASK),
    ("super", Gdk.ModifierType.MOD4_MASK),
]
PRESSES = {
    Gdk.EventType.BUTTON_PRESS: "single",
    Gdk.EventType._2BUTTON_PRESS: "double",
    Gdk.EventType._3BUTTON_PRESS: "triple",
    Gdk.EventType.BUTTON_RELEASE: "release",
}
DIRECTIONS = {
    Gdk.ScrollDirection.UP: "up",
    Gdk.ScrollDirection.DOWN: "down",
    Gdk.ScrollDirection.LEFT: "left",
    Gdk.ScrollDirection.RIGHT: "right",
}
# Without smooth scrolling a wheel click is a button of the pointer.
WHEEL = {
    Gdk.ScrollDirection.UP: 4,
    Gdk.ScrollDirection.DOWN: 5,
    Gdk.ScrollDirection.LEFT: 6,
    Gdk.ScrollDirection.RIGHT: 7,
}


def modifiers(state):
    return [name for name, mask in MODIFIERS if state & mask]


class Witness:
    def __init__(self, options):
        self.slow = 0
        self.forget()
        settings = Gtk.Settings.get_default()
        settings.set_property("gtk-cursor-blink", options["blink"])
        settings.set_property("gtk-enable-animations", False)
        settings.set_property("gtk-overlay-scrolling", False)

        self.window = Gtk.Window(title="witness")
        self.window.set_default_size(options["width"], options["height"])
        self.window.move(options["x"], options["y"])
        self.window.connect("destroy", Gtk.main_quit)
        self.window.connect("key-press-event", self.on_key, True)
        self.window.connect("key-release-event", self.on_key, False)

        self.entry = Gtk.Entry()
        self.button = Gtk.Button(label="Button")
        self.button.add_events(Gdk.EventMask.BUTTON_PRESS_MASK | Gdk.EventMask.BUTTON_RELEASE_MASK)
        self.button.connect("button-press-event", self.on_button)
        self.button.connect("button-release-event", self.on_button)
        self.button.connect("clicked", self.on_clicked)
        self.scale = Gtk.Scale.new_with_range(Gtk.Orientation.HORIZONTAL, 0, 100, 1)
        self.text = Gtk.TextView(accepts_tab=True)
        text = Gtk.ScrolledWindow()
        text.add(self.text)
        rows = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
        for row in range(100):
            rows.pack_start(Gtk.Label(label=("row %d " % row) * 60, xalign=0), False, False, 0)
        self.list = Gtk.ScrolledWindow()
        self.list.add(rows)
        self.list.connect("scroll-event", self.on_scroll)

        self.canvas = Gtk.DrawingArea()
        self.canvas.set_size_request(-1, 100)
        self.canvas.add_events(
            Gdk.EventMask.BUTTON_PRESS_MASK
            | Gdk.EventMask.BUTTON_RELEASE_MASK
            | Gdk.EventMask.POINTER_MOTION_MASK
            | Gdk.EventMask.SCROLL_MASK
        )
        for signal in ["button-press-event", "button-release-event", "motion-notify-event", "scroll-event"]:
            self.canvas.connect(signal, self.on_canvas)

        box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=8, margin=8)
        for widget, expand in [
            (self.entry, False),
            (self.button, False),
            (self.scale, False),
            (self.canvas, True),
            (text, True),
            (self.list, True),
        ]:
            box.pack_start(widget, expand, expand, 0)
        self.window.add(box)
        self.widgets = {
            "entry": self.entry,
            "button": self.button,
            "scale": self.scale,
            "canvas": self.canvas,
            "text": self.text,
            "list": self.list,
            "window": self.window,
        }
        self.entry.grab_focus()
        self.window.show_all()
        self.redraw = False
        self.activate()

    def forget(self):
        self.clicks = []
        self.clicked = 0
        self.keys = []
        self.log = []
        self.scrolls = dict.fromkeys(DIRECTIONS.values(), 0)

    def activate(self):
        window = self.window.get_window()
        window.focus(GdkX11.x11_get_server_time(window))

    def on_key(self, _, event, press):
        if self.slow and press:
            time.sleep(self.slow / 1000)
        key = {
            "press": press,
            "name": Gdk.keyval_name(event.keyval) or "",
            "symbol": event.keyval,
            "modifiers": modifiers(event.state),
        }
        self.keys.append(key)
        self.log.append({"kind": "key", **key})

    def on_button(self, widget, event):
        # As the click falls on the widget, not on a window of its own inside of it.
        _, x, y = event.window.get_origin()
        self.clicks.append(
            {
                "kind": PRESSES[event.type],
                "button": event.button,
                "modifiers": modifiers(event.state),
                "x": x + int(event.x),
                "y": y + int(event.y),
            }
        )

    def on_canvas(self, widget, event):
        _, x, y = event.window.get_origin()
        entry = {
            "kind": PRESSES.get(event.type, "motion"),
            "modifiers": modifiers(event.state),
            "x": x + int(event.x),
            "y": y + int(event.y),
        }
        if event.type == Gdk.EventType.SCROLL:
            entry.update(kind="scroll", button=WHEEL[event.direction])
        elif event.type != Gdk.EventType.MOTION_NOTIFY:
            entry["button"] = event.button
        self.log.append(entry)

    def on_clicked(self, _):
        self.clicked += 1
        if self.redraw:
            self.button.set_label("Clicked %d" % self.clicked)

    def on_scroll(self, _, event):
        if event.direction == Gdk.ScrollDirection.SMOOTH:
            _, x, y = event.get_scroll_deltas()
            for name, amount in [("left", -x), ("right", x), ("up", -y), ("down", y)]:
                if amount > 0:
                    self.scrolls[name] += round(amount)
        else:
            self.scrolls[DIRECTIONS[event.direction]] += 1

    def rectangle(self, widget):
        window = self.window.get_window()
        _, x, y = window.get_origin()
        dx, dy = widget.translate_coordinates(self.window, 0, 0) or (0, 0)
        size = widget.get_allocation()
        return [x + dx, y + dy, x + dx + size.width, y + dy + size.height]

    def run_state(self, _):
        buffer = self.text.get_buffer()
        focus = self.window.get_focus()
        entry = self.entry.get_text()
        bounds = self.entry.get_selection_bounds()
        selected = buffer.get_selection_bounds()
        return {
            "active": self.window.is_active(),
            "focus": next((name for name, widget in self.widgets.items() if widget is focus), ""),
            "entry": entry,
            "entry_selection": entry[bounds[0] : bounds[1]] if bounds else "",
            "text": buffer.get_text(buffer.get_start_iter(), buffer.get_end_iter(), True),
            "text_selection": buffer.get_text(*selected, True) if selected else "",
            "clicks": self.clicks,
            "clicked": self.clicked,
            "scale": self.scale.get_value(),
            "scrolls": self.scrolls,
            "list": [self.list.get_hadjustment().get_value(), self.list.get_vadjustment().get_value()],
            "keys": self.keys,
        }

    def run_log(self, _):
        return self.log

    def run_geometry(self, _):
        return {name: self.rectangle(widget) for name, widget in self.widgets.items()}

    def run_focus(self, command):
        self.activate()
        self.widgets[command["widget"]].grab_focus()

    def run_clear(self, _):
        self.entry.set_text("")
        self.text.get_buffer().set_text("")
        self.scale.set_value(0)
        self.list.get_hadjustment().set_value(0)
        self.list.get_vadjustment().set_value(0)
        self.forget()

    def run_set(self, command):
        if "entry" in command:
            self.entry.set_text(command["entry"])
        if "text" in command:
            self.text.get_buffer().set_text(command["text"])

    def run_slow(self, command):
        self.slow = command["milliseconds"]

    def run_redraw(self, _):
        self.redraw = True


def say(message):
    print(json.dumps(message), flush=True)


def main():
    witness = Witness(json.loads(sys.argv[1]))
    display = Gdk.Display.get_default()

    def on_line(channel, condition):
        line = sys.stdin.readline()
        if not line:
            Gtk.main_quit()
            return False
        command = json.loads(line)
        # What the display has done by now comes first.
        display.sync()
        while Gtk.events_pending():
            Gtk.main_iteration_do(False)
        answer = getattr(witness, "run_" + command["do"])(command)
        say({} if answer is None else answer)
        return True

    def on_screen(*_):
        say({})
        # The lowest priority: events that wait come before a question about them.
        GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_LOW, GLib.IO_IN | GLib.IO_HUP, on_line)
        return False

    if witness.window.get_mapped():
        GLib.idle_add(on_screen, priority=GLib.PRIORITY_LOW)
    else:
        witness.window.connect("map-event", on_screen)
    Gtk.main()


main()
