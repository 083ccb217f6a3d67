package tiffio

import (
	"encoding/binary"
	"fmt"
)

// Tags that are read, by their number in the TIFF 6.0 specification.
const (
	tagWidth         = 256
	tagHeight        = 257
	tagBits          = 258
	tagCompression   = 259
	tagPhotometric   = 262
	tagFillOrder     = 266
	tagStripOffsets  = 273
	tagSamples       = 277
	tagRowsPerStrip  = 278
	tagStripCounts   = 279
	tagPlanar        = 284
	tagGroup3Options = 292
	tagPredictor     = 317
	tagColorMap      = 320
	tagTileWidth     = 322
	tagTileHeight    = 323
	tagTileOffsets   = 324
	tagTileCounts    = 325
	tagExtraSamples  = 338
	tagSampleFormat  = 339
	tagJPEGTables    = 347
)

// directory is one IFD: where the values of each tag are.
type directory struct {
	order  binary.ByteOrder
	values map[uint16]values
	cut    uint16 // a tag whose values lie beyond the end of the file, 0 if none
}

type values struct {
	kind  uint16
	count int
	data  []byte
}

// sizes of the value types that hold unsigned numbers or bytes.
var sizes = map[uint16]int64{1: 1, 3: 2, 4: 4, 7: 1}

// readDirectory reads the IFD at offset and returns the offset of the next.
func readDirectory(data []byte, order binary.ByteOrder, offset int64) (*directory, int64, error) {
	if offset < 8 || offset+2 > int64(len(data)) {
		return nil, 0, fmt.Errorf("%w: no directory at %d", ErrTruncated, offset)
	}
	n := int64(order.Uint16(data[offset:]))
	entries := data[offset+2:]
	if int64(len(entries)) < n*12+4 {
		return nil, 0, fmt.Errorf("%w: it ends inside a directory", ErrTruncated)
	}
	d := &directory{order: order, values: make(map[uint16]values, n)}
	for i := range n {
		e := entries[i*12 : i*12+12]
		v := values{kind: order.Uint16(e[2:])}
		size, known := sizes[v.kind]
		if !known {
			continue
		}
		count := int64(order.Uint32(e[4:]))
		v.data = e[8:12]
		if total := count * size; total > 4 {
			at := int64(order.Uint32(e[8:]))
			if at+total > int64(len(data)) {
				if d.cut == 0 {
					d.cut = order.Uint16(e)
				}
				continue
			}
			v.data = data[at : at+total]
		}
		v.count = int(count)
		d.values[order.Uint16(e)] = v
	}
	return d, int64(order.Uint32(entries[n*12:])), nil
}

func (d *directory) count(tag uint16) int { return d.values[tag].count }

// at returns the i-th value of a tag. It must be there.
func (d *directory) at(tag uint16, i int) int64 {
	v := d.values[tag]
	switch v.kind {
	case 3:
		return int64(d.order.Uint16(v.data[i*2:]))
	case 4:
		return int64(d.order.Uint32(v.data[i*4:]))
	}
	return int64(v.data[i])
}

// one returns the first value of a tag, or what is given if it is absent.
func (d *directory) one(tag uint16, absent int64) int64 {
	if d.count(tag) == 0 {
		return absent
	}
	return d.at(tag, 0)
}

func (d *directory) bytes(tag uint16) []byte {
	v := d.values[tag]
	return v.data[:min(len(v.data), v.count)]
}
