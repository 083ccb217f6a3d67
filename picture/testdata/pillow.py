"""The pictures and the reference that the tests compare with, by Pillow.

  pillow.py generate DIR    writes pictures of many kinds to DIR
  pillow.py read FILE...    prints for each file, as JSON, its size and the
                            SHA-256 of its RGB bytes, upright and on white
  pillow.py jpeg IN OUT     writes IN as JPEG, quality 92, 4:4:4
  pillow.py png IN OUT      writes IN as RGB PNG with Pillow's defaults
"""

import hashlib
import io
import json
import os
import struct
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageOps


def scene(width=61, height=47):
    """A picture without any symmetry, with soft and hard parts."""
    y, x = np.mgrid[0:height, 0:width]
    a = np.stack([x * 255 // width, y * 255 // height, (x * 7 + y * 3) % 256], 2)
    image = Image.fromarray(a.astype(np.uint8), "RGB")
    d = ImageDraw.Draw(image)
    d.rectangle([4, 5, 20, 12], fill=(255, 0, 0))
    d.line([0, height - 1, width - 1, 3], fill=(0, 0, 255))
    d.ellipse([30, 20, 50, 44], outline=(255, 255, 0), fill=(0, 120, 10))
    d.text((8, 28), "Ab7", fill=(255, 255, 255))
    return image


def alpha(size):
    y, x = np.mgrid[0:size[1], 0:size[0]]
    return Image.fromarray(((x * 5 + y * 11) % 256).astype(np.uint8), "L")


def flat(image):
    image.load()
    if image.format != "TIFF":  # that one load has turned already
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16") or image.mode == "I":
        return Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8), "L").convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        paper = Image.new("RGB", rgba.size, "white")
        paper.paste(rgba, mask=rgba.getchannel("A"))
        return paper
    return image.convert("RGB")


def without_segment(data, marker, start):
    """The JPEG file without the segments of a marker that begin with start."""
    out, i = data[:2], 2
    while data[i] == 0xFF and data[i + 1] != 0xDA:
        n = struct.unpack(">H", data[i + 2 : i + 4])[0]
        if not (data[i + 1] == marker and data[i + 4 :].startswith(start)):
            out += data[i : i + 2 + n]
        i += 2 + n
    return out + data[i:]


def generate(folder):
    os.makedirs(folder, exist_ok=True)
    rgb = scene()
    rgba = rgb.copy()
    rgba.putalpha(alpha(rgb.size))
    grey = rgb.convert("L")
    la = Image.merge("LA", (grey, alpha(rgb.size)))
    bilevel = rgb.convert("1")
    indexed = rgb.quantize(60)
    deep = Image.fromarray((np.asarray(grey).astype(np.uint16) * 257 + 3), "I;16")

    def save(name, image, **how):
        image.save(os.path.join(folder, name), **how)

    for mode, image in dict(rgb=rgb, rgba=rgba, l=grey, la=la, one=bilevel, p=indexed, deep=deep).items():
        save(f"{mode}.png", image)
    save("p-trns.png", indexed, transparency=bytes((i * 37) % 256 for i in range(50)))
    save("l-trns.png", grey, transparency=int(np.asarray(grey)[10, 10]))
    save("rgb-trns.png", rgb, transparency=(255, 0, 0))
    for n in (2, 4, 16):
        save(f"p{n}.png", rgb.quantize(n))
    save("apng.png", rgb, save_all=True, append_images=[rgb.rotate(180), rgb.transpose(0)])

    for name, how in dict(
        plain={}, q444=dict(quality=92, subsampling=0), q420=dict(quality=40, subsampling=2),
        q422=dict(subsampling=1), progressive=dict(progressive=True), optimised=dict(optimize=True),
    ).items():
        save(f"{name}.jpg", rgb, **how)
        save(f"{name}-grey.jpg", grey, **how)
    cmyk = rgb.convert("CMYK")
    save("cmyk.jpg", cmyk, quality=95)
    save("cmyk-progressive.jpg", cmyk, progressive=True)
    data = open(os.path.join(folder, "cmyk.jpg"), "rb").read()
    assert b"Adobe" in data
    open(os.path.join(folder, "cmyk-without-adobe.jpg"), "wb").write(without_segment(data, 0xEE, b"Adobe"))

    save("p.gif", indexed)
    save("l.gif", grey)
    save("interlaced.gif", indexed, interlace=1)
    save("transparent.gif", indexed, transparency=7)
    save("animated.gif", rgb.quantize(100), save_all=True,
         append_images=[rgb.rotate(180).quantize(90), rgb.transpose(0).quantize(80)])

    save("lossy.webp", rgb, quality=60)
    save("lossy-odd.webp", rgb.crop((0, 0, 60, 46)), quality=30)
    save("lossless.webp", rgb, lossless=True)
    save("lossy-alpha.webp", rgba, quality=80)
    save("lossless-alpha.webp", rgba, lossless=True, exact=True)
    for i, size in enumerate([(1, 1), (2, 1), (1, 2), (3, 3), (16, 17), (33, 1)]):
        save(f"lossy-{i}.webp", rgb.resize(size), quality=90)
    save("animated.webp", rgb, save_all=True, append_images=[rgb.rotate(180), grey.convert("RGB")], lossless=True)
    save("animated-lossy.webp", rgba, save_all=True, append_images=[rgba.rotate(180)], quality=70)

    for name, how in dict(raw={}, lzw=dict(compression="tiff_lzw"), deflate=dict(compression="tiff_adobe_deflate"),
                          packbits=dict(compression="packbits")).items():
        for mode, image in dict(rgb=rgb, rgba=rgba, l=grey, la=la, one=bilevel, p=indexed, deep=deep, cmyk=cmyk).items():
            save(f"{mode}-{name}.tif", image, **how)
    save("group3.tif", bilevel, compression="group3")
    save("group4.tif", bilevel, compression="group4")
    save("jpeg.tif", rgb, compression="jpeg", quality=90)
    save("jpeg-grey.tif", grey, compression="jpeg")
    save("pages.tif", rgb, save_all=True, append_images=[grey, indexed])

    for mode, image in dict(rgb=rgb, l=grey, one=bilevel, p=indexed, rgba=rgba).items():
        save(f"{mode}.bmp", image)

    # One picture in eight orientations.
    for orientation, undo in {1: None, 2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM,
                              5: Image.TRANSPOSE, 6: Image.ROTATE_90, 7: Image.TRANSVERSE, 8: Image.ROTATE_270}.items():
        turned = rgb if undo is None else rgb.transpose(undo)
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"turned{orientation}.png", turned, exif=exif)
        save(f"turned{orientation}.webp", turned, exif=exif, lossless=True)
        save(f"turned{orientation}.jpg", turned, exif=exif, quality=100, subsampling=0)
        save(f"turned{orientation}.tif", turned, tiffinfo={274: orientation})


def read(paths):
    out = {}
    for path in paths:
        try:
            image = flat(Image.open(path))
            out[path] = dict(size=image.size, sha256=hashlib.sha256(image.tobytes()).hexdigest())
        except Exception as e:
            out[path] = dict(error=f"{type(e).__name__}: {e}")
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    verb, rest = sys.argv[1], sys.argv[2:]
    if verb == "generate":
        generate(rest[0])
    elif verb == "read":
        read(rest)
    elif verb == "jpeg":
        Image.open(rest[0]).convert("RGB").save(rest[1], "JPEG", quality=92, subsampling=0)
    elif verb == "png":
        Image.open(rest[0]).convert("RGB").save(rest[1], "PNG")
