package computer

// Key is a symbol of a keyboard: an X keysym, which RFB uses too. A letter, digit or mark
// is the symbol itself ('a' and 'A' are two keys), the rest are constants such as
// [KeyReturn].
type Key uint32

// Some keys that are needed by name.
const (
	KeyBackSpace Key = 0xff08
	KeyTab       Key = 0xff09
	KeyReturn    Key = 0xff0d
	KeyEscape    Key = 0xff1b
	KeyDelete    Key = 0xffff
	KeyShift     Key = 0xffe1 // the left ones of pairs
	KeyControl   Key = 0xffe3
	KeyAlt       Key = 0xffe9
	KeySuper     Key = 0xffeb
)
