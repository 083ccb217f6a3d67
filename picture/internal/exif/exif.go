// Package exif reads the one EXIF field that changes how a picture looks. It
// is written for hostile input: every offset is checked, nothing is followed
// twice, and whatever is not understood means orientation 1.
package exif

import (
	"bytes"
	"encoding/binary"
)

const (
	orientationTag = 0x0112
	typeShort      = 3
	typeLong       = 4
)

// Orientation returns the orientation, 1 to 8, that the TIFF structure in data
// gives for its first picture, and 1 when there is none or it makes no sense.
// A leading "Exif" marker, as JPEG has it, is skipped.
func Orientation(data []byte) int {
	data = bytes.TrimPrefix(data, []byte("Exif\x00\x00"))
	if len(data) < 8 {
		return 1
	}
	var order binary.ByteOrder
	switch string(data[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := uint64(order.Uint32(data[4:]))
	if at+2 > uint64(len(data)) {
		return 1
	}
	entries := data[at+2:]
	for range order.Uint16(data[at:]) {
		if len(entries) < 12 {
			return 1
		}
		e := entries[:12]
		entries = entries[12:]
		if order.Uint16(e) != orientationTag {
			continue
		}
		v := uint32(0)
		switch {
		case order.Uint32(e[4:]) != 1:
		case order.Uint16(e[2:]) == typeShort:
			v = uint32(order.Uint16(e[8:]))
		case order.Uint16(e[2:]) == typeLong:
			v = order.Uint32(e[8:])
		}
		if v >= 1 && v <= 8 {
			return int(v)
		}
		return 1
	}
	return 1
}
