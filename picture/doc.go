// Package picture takes pictures in and puts them out: it finds out what a
// file is, refuses what would cost too much, decodes, turns upright, flattens,
// resamples and encodes.
//
// # What is decoded
//
// The bytes decide, never a name. PNG, JPEG, GIF, WebP, TIFF and BMP are
// decoded; other kinds that are recognised (AVIF, HEIC, PDF, SVG and more) are
// refused by name with [ErrUnsupported], everything else with
// [ErrUnknownFormat].
//
// [Decode] gives one opaque 8-bit RGBA image whatever the file holds:
//
//   - The EXIF orientation is applied first, for JPEG, PNG, WebP and TIFF. An
//     EXIF block that makes no sense counts as orientation 1.
//   - Transparency is composited onto white, with the rounding of Pillow's
//     paste through a mask. This covers alpha channels, palettes with alpha, and
//     a single transparent colour.
//   - 16-bit samples keep their high byte, as libpng and Pillow do it for
//     colours: the whole range is kept, each value is off by less than one.
//   - JPEG is decoded by libjpeg-turbo, with smooth upsampling of colour; CMYK
//     and YCCK are taken as inverted, as nearly all writers and readers do. In a
//     build without cgo the standard library decodes JPEG.
//   - Colour profiles and gamma are not applied.
//   - Of an animation or a file of several pages the first is used, and
//     Picture.Notes says so. A GIF frame is drawn on its logical screen, a WebP
//     frame on its canvas.
//
// # Limits and damage
//
// The size in pixels that a header claims is checked before any pixel is
// decoded or any buffer for them made, the number of bytes while reading; see
// [DecodeOptions]. A file that is cut short or damaged is an error
// ([ErrTruncated], [ErrCorrupt]) and gives no picture at all, never a half-grey
// one. Bytes after the end of the picture are ignored, as is padding in front
// of a JPEG marker.
//
// # Pictures out
//
// [Resample] is Pillow's Lanczos, byte for byte. [EncodePNG] and [EncodeJPEG]
// write what goes to a model; [EncodeView] and [EncodeZoom] choose between them
// under the limits of the Messages API.
//
// Nothing in this package keeps state between calls, and every goroutine that
// a call starts has ended when it returns.
package picture
