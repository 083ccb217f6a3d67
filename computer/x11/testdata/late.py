"""A program on bare Xlib that leaves its events unread until it is told to read them.

It shows a window, gives it the keyboard focus and prints a line. At a line on standard
input it handles events up to a press of Return, and prints the symbols of the keys that
were pressed, in hexadecimal, on one line.
"""

import sys
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int, c_long, c_uint, c_ulong, c_void_p, create_string_buffer

KEY_PRESS, MAP_NOTIFY, MAPPING_NOTIFY = 2, 19, 34
KEY_PRESS_MASK, STRUCTURE_NOTIFY_MASK = 1 << 0, 1 << 17
RETURN = 0xFF0D


class Event(Structure):
    _fields_ = [("type", c_int), ("pad", c_long * 24)]


x = CDLL("libX11.so.6")
x.XOpenDisplay.restype = c_void_p
x.XOpenDisplay.argtypes = [c_char_p]
x.XDefaultRootWindow.restype = c_ulong
x.XDefaultRootWindow.argtypes = [c_void_p]
x.XCreateSimpleWindow.restype = c_ulong
x.XCreateSimpleWindow.argtypes = [c_void_p, c_ulong, c_int, c_int, c_uint, c_uint, c_uint, c_ulong, c_ulong]
x.XSelectInput.argtypes = [c_void_p, c_ulong, c_long]
x.XMapWindow.argtypes = [c_void_p, c_ulong]
x.XNextEvent.argtypes = [c_void_p, POINTER(Event)]
x.XSetInputFocus.argtypes = [c_void_p, c_ulong, c_int, c_ulong]
x.XSync.argtypes = [c_void_p, c_int]
x.XRefreshKeyboardMapping.argtypes = [POINTER(Event)]
x.XLookupString.argtypes = [POINTER(Event), c_char_p, c_int, POINTER(c_ulong), c_void_p]

display = x.XOpenDisplay(None)
window = x.XCreateSimpleWindow(display, x.XDefaultRootWindow(display), 0, 0, 200, 200, 0, 0, 0)
x.XSelectInput(display, window, KEY_PRESS_MASK | STRUCTURE_NOTIFY_MASK)
x.XMapWindow(display, window)
event = Event()
while event.type != MAP_NOTIFY:
    x.XNextEvent(display, byref(event))
x.XSetInputFocus(display, window, 0, 0)
x.XSync(display, 0)
print("ready", flush=True)

text = create_string_buffer(64)
for _ in sys.stdin:
    symbols = []
    while not symbols or symbols[-1] != RETURN:
        x.XNextEvent(display, byref(event))
        if event.type == MAPPING_NOTIFY:
            x.XRefreshKeyboardMapping(byref(event))
        elif event.type == KEY_PRESS:
            symbol = c_ulong()
            x.XLookupString(byref(event), text, len(text), byref(symbol), None)
            if not 0xFFE1 <= symbol.value <= 0xFFEE and not 0xFE01 <= symbol.value <= 0xFE13:
                symbols.append(symbol.value)
    print(" ".join("%x" % s for s in symbols), flush=True)
