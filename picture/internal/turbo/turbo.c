#include "turbo.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

/* The library reports through callbacks. A fatal error jumps back to the
   function that set `jump`; a warning that means damaged pixels is made fatal,
   because the library would go on with grey ones. */
typedef struct {
	struct jpeg_error_mgr base; /* first: the library knows only this part */
	jmp_buf jump;
	turbo_error *err;
} error_manager;

static void fail(j_common_ptr c) {
	error_manager *m = (error_manager *)c->err;
	m->base.format_message(c, m->err->message);
	switch (m->base.msg_code) {
	case JERR_INPUT_EOF:
	case JERR_INPUT_EMPTY:
	case JWRN_JPEG_EOF:
		m->err->code = TURBO_TRUNCATED;
		break;
	case JERR_ARITH_NOTIMPL:
	case JERR_BAD_PRECISION:
	case JERR_CCIR601_NOTIMPL:
	case JERR_CONVERSION_NOTIMPL:
	case JERR_FRACT_SAMPLE_NOTIMPL:
	case JERR_MISMATCHED_QUANT_TABLE:
	case JERR_NOTIMPL:
	case JERR_NOT_COMPILED:
	case JERR_SOF_UNSUPPORTED:
		m->err->code = TURBO_UNSUPPORTED;
		break;
	case JERR_OUT_OF_MEMORY:
		m->err->code = TURBO_MEMORY;
		break;
	default:
		m->err->code = TURBO_CORRUPT;
	}
	longjmp(m->jump, 1);
}

static void on_message(j_common_ptr c, int level) {
	if (level >= 0) {
		return; /* trace */
	}
	switch (c->err->msg_code) {
	case JWRN_EXTRANEOUS_DATA: /* padding before a marker, left by some cameras */
	case JWRN_ADOBE_XFORM:     /* unknown transform: the usual one is meant */
	case JWRN_BOGUS_ICC:
	case JWRN_JFIF_MAJOR:
		return;
	}
	fail(c);
}

static void no_output(j_common_ptr c) { (void)c; }

static void set_errors(error_manager *m, turbo_error *err) {
	jpeg_std_error(&m->base);
	m->base.error_exit = fail;
	m->base.emit_message = on_message;
	m->base.output_message = no_output;
	m->err = err;
	err->code = TURBO_OK;
	err->message[0] = 0;
}

/* A progressive file may hold any number of scans, each a pass over the whole
   picture, in a few bytes each: the library's one way to be kept busy by a
   small file. */
typedef struct {
	struct jpeg_progress_mgr base;
	int max_scans;
	turbo_error *err;
	jmp_buf *jump;
} progress_manager;

static void on_progress(j_common_ptr c) {
	progress_manager *p = (progress_manager *)c->progress;
	if (c->is_decompressor && ((j_decompress_ptr)c)->input_scan_number > p->max_scans) {
		snprintf(p->err->message, sizeof p->err->message, "more than %d scans", p->max_scans);
		p->err->code = TURBO_CORRUPT;
		longjmp(*p->jump, 1);
	}
}

static int read_header(j_decompress_ptr d) {
	jpeg_read_header(d, TRUE);
	int cmyk = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK;
	d->out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBA;
	return cmyk;
}

int turbo_header(const uint8_t *src, size_t len, turbo_info *info, turbo_error *err) {
	struct jpeg_decompress_struct d;
	error_manager m;
	memset(&d, 0, sizeof d);
	set_errors(&m, err);
	d.err = &m.base;
	if (setjmp(m.jump)) {
		jpeg_destroy_decompress(&d);
		return err->code;
	}
	jpeg_create_decompress(&d);
	jpeg_mem_src(&d, (unsigned char *)src, len);
	info->cmyk = read_header(&d);
	info->width = (int)d.image_width;
	info->height = (int)d.image_height;
	info->components = d.num_components;
	jpeg_destroy_decompress(&d);
	return TURBO_OK;
}

/* Whether the scans of a progressive file left out some coefficients, or some
   of their bits. That is allowed, and mostly means that the file was cut at the
   end of a scan. */
static int leaves_out(j_decompress_ptr d) {
	if (!d->progressive_mode || d->coef_bits == NULL) {
		return 0;
	}
	for (int c = 0; c < d->num_components; c++) {
		for (int i = 0; i < DCTSIZE2; i++) {
			if (d->coef_bits[c][i] != 0) {
				return 1;
			}
		}
	}
	return 0;
}

int turbo_decode(const uint8_t *src, size_t len, int width, int height, int max_scans,
                 uint8_t *dst, int *coarse, turbo_error *err) {
	struct jpeg_decompress_struct d;
	error_manager m;
	progress_manager p;
	memset(&d, 0, sizeof d);
	memset(&p, 0, sizeof p);
	set_errors(&m, err);
	d.err = &m.base;
	if (setjmp(m.jump)) {
		jpeg_destroy_decompress(&d);
		return err->code;
	}
	jpeg_create_decompress(&d);
	p.base.progress_monitor = on_progress;
	p.max_scans = max_scans;
	p.err = err;
	p.jump = &m.jump;
	d.progress = &p.base;
	jpeg_mem_src(&d, (unsigned char *)src, len);
	read_header(&d);
	jpeg_start_decompress(&d);
	if ((int)d.output_width != width || (int)d.output_height != height || d.output_components != 4) {
		jpeg_destroy_decompress(&d);
		err->code = TURBO_MISUSE;
		return err->code;
	}
	size_t stride = (size_t)width * 4;
	while (d.output_scanline < d.output_height) {
		JSAMPROW rows[16];
		unsigned n = d.output_height - d.output_scanline;
		if (n > 16) {
			n = 16;
		}
		for (unsigned i = 0; i < n; i++) {
			rows[i] = dst + (d.output_scanline + i) * stride;
		}
		jpeg_read_scanlines(&d, rows, n);
	}
	*coarse = leaves_out(&d);
	jpeg_finish_decompress(&d);
	jpeg_destroy_decompress(&d);
	return TURBO_OK;
}

/* Collects the encoded file. The library's own memory destination loses track
   of its buffer when an error ends the encoding. */
typedef struct {
	struct jpeg_destination_mgr base;
	uint8_t *data;
	size_t capacity;
} destination;

static void grow(j_compress_ptr c, size_t capacity, size_t used) {
	destination *d = (destination *)c->dest;
	uint8_t *data = realloc(d->data, capacity);
	if (data == NULL) {
		ERREXIT1(c, JERR_OUT_OF_MEMORY, 0);
	}
	d->data = data;
	d->capacity = capacity;
	d->base.next_output_byte = data + used;
	d->base.free_in_buffer = capacity - used;
}

static void init_destination(j_compress_ptr c) {
	grow(c, (size_t)c->image_width * c->image_height / 4 + 4096, 0);
}

static boolean empty_output_buffer(j_compress_ptr c) {
	size_t used = ((destination *)c->dest)->capacity; /* by contract: all of it */
	grow(c, used * 2, used);
	return TRUE;
}

static void term_destination(j_compress_ptr c) { (void)c; }

int turbo_encode(const uint8_t *src, int width, int height, size_t stride, int quality,
                 uint8_t **out, size_t *len, turbo_error *err) {
	struct jpeg_compress_struct c;
	error_manager m;
	destination to;
	memset(&c, 0, sizeof c);
	memset(&to, 0, sizeof to);
	set_errors(&m, err);
	c.err = &m.base;
	*out = NULL;
	*len = 0;
	if (setjmp(m.jump)) {
		jpeg_destroy_compress(&c);
		free(to.data);
		return err->code;
	}
	jpeg_create_compress(&c);
	to.base.init_destination = init_destination;
	to.base.empty_output_buffer = empty_output_buffer;
	to.base.term_destination = term_destination;
	c.dest = &to.base;
	c.image_width = (JDIMENSION)width;
	c.image_height = (JDIMENSION)height;
	c.input_components = 4;
	c.in_color_space = JCS_EXT_RGBX;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, quality, TRUE);
	for (int i = 0; i < c.num_components; i++) {
		c.comp_info[i].h_samp_factor = 1;
		c.comp_info[i].v_samp_factor = 1;
	}
	jpeg_start_compress(&c, TRUE);
	while (c.next_scanline < c.image_height) {
		JSAMPROW rows[16];
		unsigned n = c.image_height - c.next_scanline;
		if (n > 16) {
			n = 16;
		}
		for (unsigned i = 0; i < n; i++) {
			rows[i] = (JSAMPROW)(src + (c.next_scanline + i) * stride);
		}
		jpeg_write_scanlines(&c, rows, n);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	*out = to.data;
	*len = to.capacity - to.base.free_in_buffer;
	return TURBO_OK;
}

void turbo_free(uint8_t *p) { free(p); }
