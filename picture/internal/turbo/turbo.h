#ifndef LOUPE_TURBO_H
#define LOUPE_TURBO_H

#include <stddef.h>
#include <stdint.h>

enum {
	TURBO_OK = 0,
	TURBO_CORRUPT = 1,
	TURBO_TRUNCATED = 2,
	TURBO_UNSUPPORTED = 3,
	TURBO_MEMORY = 4,
	TURBO_MISUSE = 5,
};

typedef struct {
	int code;
	char message[200]; /* JMSG_LENGTH_MAX */
} turbo_error;

typedef struct {
	int width, height;
	int components;
	int cmyk; /* the rows come out as four inks, not as RGBA */
} turbo_info;

/* Reads the header of the JPEG file at src. */
int turbo_header(const uint8_t *src, size_t len, turbo_info *info, turbo_error *err);

/* Decodes the JPEG file at src into dst, width * height * 4 bytes without
   padding: RGBA with alpha 255, or the four inks when info->cmyk was set.
   *coarse is set when a progressive file leaves out some of the detail.
   Nothing in dst is to be used unless TURBO_OK is returned. */
int turbo_decode(const uint8_t *src, size_t len, int width, int height, int max_scans,
                 uint8_t *dst, int *coarse, turbo_error *err);

/* Encodes RGBX rows at full chroma resolution. The result is in *out (*len
   bytes), to be released with turbo_free; after an error it is NULL. */
int turbo_encode(const uint8_t *src, int width, int height, size_t stride, int quality,
                 uint8_t **out, size_t *len, turbo_error *err);

void turbo_free(uint8_t *p);

#endif
