package computer

// keyNames are the names that keys have apart from those of X, folded (see keysym.Fold).
// They come before X's.
var keyNames = map[string]Key{
	// Modifiers. On the keyboards that people have, meta is the key that X calls Super.
	"shift": KeyShift, "lshift": KeyShift, "leftshift": KeyShift, "shiftleft": KeyShift,
	"rshift": 0xffe2, "rightshift": 0xffe2, "shiftright": 0xffe2,
	"ctrl": KeyControl, "control": KeyControl, "ctl": KeyControl, "ctrll": KeyControl,
	"lctrl": KeyControl, "leftctrl": KeyControl, "ctrlleft": KeyControl,
	"lcontrol": KeyControl, "leftcontrol": KeyControl, "controlleft": KeyControl,
	"controlormeta": KeyControl, "commandorcontrol": KeyControl, "cmdorctrl": KeyControl,
	"ctrlr": 0xffe4, "rctrl": 0xffe4, "rightctrl": 0xffe4, "ctrlright": 0xffe4,
	"rcontrol": 0xffe4, "rightcontrol": 0xffe4, "controlright": 0xffe4,
	"alt": KeyAlt, "lalt": KeyAlt, "leftalt": KeyAlt, "altleft": KeyAlt,
	"option": KeyAlt, "opt": KeyAlt, "optionleft": KeyAlt, "leftoption": KeyAlt,
	"ralt": 0xffea, "rightalt": 0xffea, "altright": 0xffea, "optionright": 0xffea, "rightoption": 0xffea,
	"super": KeySuper, "lsuper": KeySuper, "leftsuper": KeySuper, "superleft": KeySuper,
	"cmd": KeySuper, "command": KeySuper, "win": KeySuper, "windows": KeySuper, "meta": KeySuper,
	"windowskey": KeySuper, "winkey": KeySuper, "os": KeySuper,
	"lcmd": KeySuper, "leftcmd": KeySuper, "lcommand": KeySuper, "leftcommand": KeySuper,
	"cmdleft": KeySuper, "commandleft": KeySuper, "lmeta": KeySuper, "leftmeta": KeySuper,
	"metaleft": KeySuper, "lwin": KeySuper, "leftwin": KeySuper, "winleft": KeySuper,
	"leftwindows": KeySuper, "osleft": KeySuper, "winl": KeySuper, "cmdl": KeySuper,
	"rsuper": 0xffec, "rightsuper": 0xffec, "superright": 0xffec,
	"rcmd": 0xffec, "rightcmd": 0xffec, "rcommand": 0xffec, "rightcommand": 0xffec,
	"cmdright": 0xffec, "commandright": 0xffec, "rmeta": 0xffec, "rightmeta": 0xffec,
	"metaright": 0xffec, "rwin": 0xffec, "rightwin": 0xffec, "winright": 0xffec,
	"rightwindows": 0xffec, "osright": 0xffec, "winr": 0xffec, "cmdr": 0xffec, "windowsl": KeySuper, "windowsr": 0xffec,
	"altgr": KeyAltGr, "altgraph": KeyAltGr, "hyper": 0xffed, "compose": 0xff20,

	// Editing and moving.
	"enter": KeyReturn, "ret": KeyReturn, "newline": KeyReturn, "carriagereturn": KeyReturn,
	"esc": KeyEscape, "del": KeyDelete, "ins": 0xff63,
	"bksp": KeyBackSpace, "bkspc": KeyBackSpace, "bs": KeyBackSpace,
	"space": ' ', "spacebar": ' ', "spc": ' ',
	"pgup": 0xff55, "pageup": 0xff55, "pgdn": 0xff56, "pgdown": 0xff56, "pagedn": 0xff56, "pagedown": 0xff56,
	"leftarrow": 0xff51, "arrowleft": 0xff51, "uparrow": 0xff52, "arrowup": 0xff52,
	"rightarrow": 0xff53, "arrowright": 0xff53, "downarrow": 0xff54, "arrowdown": 0xff54,
	"backtab": 0xfe20,

	// Locks and the keys beside them.
	"caps": 0xffe5, "capslk": 0xffe5, "capital": 0xffe5, "numlk": 0xff7f,
	"scroll": 0xff14, "scrolllk": 0xff14, "scrlk": 0xff14,
	"printscreen": 0xff61, "printscr": 0xff61, "prtscr": 0xff61, "prtscn": 0xff61, "prtsc": 0xff61,
	"prntscrn": 0xff61, "prntscr": 0xff61, "snapshot": 0xff61, "sysrq": 0xff15, "pausebreak": 0xff13,
	"apps": 0xff67, "app": 0xff67, "application": 0xff67, "contextmenu": 0xff67, "context": 0xff67, "menukey": 0xff67,
	"power": 0x1008ff2a, "kana": 0xff27, "kanamode": 0xff27,

	// Marks. X has its own "hyphen", "caret" and "quote..." for rarer characters.
	"dash": '-', "hyphen": '-', "dot": '.', "fullstop": '.', "point": '.',
	"equals": '=', "equalsign": '=', "plussign": '+', "minussign": '-',
	"forwardslash": '/', "backwardslash": '\\', "pipe": '|', "verticalbar": '|', "vbar": '|',
	"quote": '\'', "singlequote": '\'', "doublequote": '"', "doublequotes": '"', "quotationmark": '"',
	"backquote": '`', "backtick": '`', "tilde": '~', "caret": '^', "circumflex": '^',
	"hash": '#', "hashtag": '#', "numbersign": '#', "star": '*', "ampersat": '@', "atsign": '@',
	"dollarsign": '$', "percentsign": '%', "bang": '!', "exclamation": '!', "exclamationmark": '!', "exclamationpoint": '!',
	"questionmark": '?', "lessthan": '<', "greaterthan": '>',
	"leftparen": '(', "lparen": '(', "openparen": '(', "leftparenthesis": '(',
	"rightparen": ')', "rparen": ')', "closeparen": ')', "rightparenthesis": ')',
	"leftbracket": '[', "lbracket": '[', "openbracket": '[', "rightbracket": ']', "rbracket": ']', "closebracket": ']',
	"leftbrace": '{', "lbrace": '{', "openbrace": '{', "rightbrace": '}', "rbrace": '}', "closebrace": '}',

	// The keypad, where it has other names than X's with another prefix.
	"add": 0xffab, "subtract": 0xffad, "multiply": 0xffaa, "divide": 0xffaf, "decimal": 0xffae, "separator": 0xffac,

	// The codes that web pages have for keys, by their place on a keyboard of the US.
	"keya": 'a', "keyb": 'b', "keyc": 'c', "keyd": 'd', "keye": 'e', "keyf": 'f', "keyg": 'g',
	"keyh": 'h', "keyi": 'i', "keyj": 'j', "keyk": 'k', "keyl": 'l', "keym": 'm', "keyn": 'n',
	"keyo": 'o', "keyp": 'p', "keyq": 'q', "keyr": 'r', "keys": 's', "keyt": 't', "keyu": 'u',
	"keyv": 'v', "keyw": 'w', "keyx": 'x', "keyy": 'y', "keyz": 'z',
	"digit0": '0', "digit1": '1', "digit2": '2', "digit3": '3', "digit4": '4',
	"digit5": '5', "digit6": '6', "digit7": '7', "digit8": '8', "digit9": '9',

	// Keys of media and browsers without X's prefix.
	"volumeup": 0x1008ff13, "audiovolumeup": 0x1008ff13, "audioraisevolume": 0x1008ff13, "raisevolume": 0x1008ff13,
	"volumedown": 0x1008ff11, "audiovolumedown": 0x1008ff11, "audiolowervolume": 0x1008ff11, "lowervolume": 0x1008ff11,
	"volumemute": 0x1008ff12, "audiovolumemute": 0x1008ff12, "audiomute": 0x1008ff12, "mute": 0x1008ff12,
	"playpause": 0x1008ff14, "mediaplaypause": 0x1008ff14, "audioplay": 0x1008ff14, "mediaplay": 0x1008ff14, "play": 0x1008ff14,
	"mediapause": 0x1008ff31, "audiopause": 0x1008ff31,
	"stop": 0x1008ff15, "mediastop": 0x1008ff15, "audiostop": 0x1008ff15,
	"prevtrack": 0x1008ff16, "previoustrack": 0x1008ff16, "mediaprevious": 0x1008ff16,
	"mediatrackprevious": 0x1008ff16, "mediaprevioustrack": 0x1008ff16, "audioprev": 0x1008ff16,
	"nexttrack": 0x1008ff17, "medianext": 0x1008ff17, "mediatracknext": 0x1008ff17,
	"medianexttrack": 0x1008ff17, "audionext": 0x1008ff17,
	"brightnessup": 0x1008ff02, "monbrightnessup": 0x1008ff02, "brightnessdown": 0x1008ff03, "monbrightnessdown": 0x1008ff03,
	"browserback": 0x1008ff26, "browserforward": 0x1008ff27, "browserstop": 0x1008ff28, "browserrefresh": 0x1008ff29,
	"browserhome": 0x1008ff18, "homepage": 0x1008ff18, "browsersearch": 0x1008ff1b, "browserfavorites": 0x1008ff30,
	"mail": 0x1008ff19, "launchmail": 0x1008ff19, "calculator": 0x1008ff1d, "launchcalculator": 0x1008ff1d,
	"eject": 0x1008ff2c, "sleep": 0x1008ff2f, "wakeup": 0x1008ff2b,
}

// keySigns are the signs that stand on keys and in menus in the place of a name.
var keySigns = map[rune]Key{
	'⌘': KeySuper, '⌥': KeyAlt, '⎇': KeyAlt, '⇧': KeyShift, '⌃': KeyControl, '⎈': KeyControl, '⇪': 0xffe5,
	'⏎': KeyReturn, '↵': KeyReturn, '↩': KeyReturn, '⌫': KeyBackSpace, '⌦': KeyDelete, '⎋': KeyEscape, '⇥': KeyTab, '↹': KeyTab, '␣': ' ',
	'←': 0xff51, '↑': 0xff52, '→': 0xff53, '↓': 0xff54, '⇞': 0xff55, '⇟': 0xff56, '↖': 0xff50, '↘': 0xff57,
}

// keypadNames are other names for keys of the keypad, after their prefix.
var keypadNames = map[string]string{
	"plus": "add", "minus": "subtract", "star": "multiply", "asterisk": "multiply", "times": "multiply",
	"slash": "divide", "period": "decimal", "dot": "decimal", "point": "decimal", "comma": "separator",
	"return": "enter", "equals": "equal", "clear": "begin", "pgup": "prior", "pgdn": "next",
	"ins": "insert", "del": "delete", "*": "multiply", "/": "divide", ".": "decimal",
}
