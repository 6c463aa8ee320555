#!/usr/bin/env python3
"""Writes vectors.h: small pictures and what Pillow makes of them, for tests/unit/image.

    python3 make_vectors.py > vectors.h       (needs Pillow and numpy)

The pictures are seeded, 23 x 17 pixels or less, so that every case stays readable in a debugger.
"""
import io
import sys

import numpy as np
import PIL
from PIL import Image

random = np.random.default_rng(7)
WIDTH, HEIGHT = 23, 17


def smooth(channels):
    """Gradients with some noise: both the filters and the codecs have something to do."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = [(x * (5 + c) + y * (9 - 2 * c) + random.integers(0, 40, (HEIGHT, WIDTH))) % 256 for c in range(channels)]
    return np.stack(planes, -1).astype(np.uint8)


def encode(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def emit(name, data):
    print(f"static const uint8_t {name}[] = {{")
    for i in range(0, len(data), 32):
        print(",".join(str(b) for b in data[i : i + 32]) + ",")
    print("};")


def pictures():
    rgb = Image.fromarray(smooth(3), "RGB")
    grey = Image.fromarray(smooth(1)[:, :, 0], "L")
    rgba = Image.fromarray(smooth(4), "RGBA")
    two = grey.point(lambda v: 255 if v > 128 else 0).convert("1")
    palette = rgb.quantize(13)
    transparent = palette.copy()
    yield "png_rgb", encode(rgb, format="PNG")
    yield "png_grey", encode(grey, format="PNG")
    yield "png_rgba", encode(rgba, format="PNG")
    yield "png_grey_alpha", encode(rgba.convert("LA"), format="PNG")
    yield "png_bits", encode(two, format="PNG")
    yield "png_palette", encode(palette, format="PNG")
    yield "png_palette_transparent", encode(transparent, format="PNG", transparency=3)
    yield "jpeg_rgb", encode(rgb, format="JPEG", quality=90)
    yield "jpeg_420", encode(rgb, format="JPEG", quality=80, subsampling=2)
    yield "jpeg_progressive", encode(rgb, format="JPEG", quality=85, progressive=True)
    yield "jpeg_grey", encode(grey, format="JPEG", quality=90)
    yield "jpeg_cmyk", encode(rgb.convert("CMYK"), format="JPEG", quality=90)
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "jpeg_rotated", encode(rgb, format="JPEG", quality=90, exif=exif)


def main():
    print("/* Made by make_vectors.py with Pillow %s; do not edit. */" % PIL.__version__)
    print("/* clang-format off */")
    names = []
    for name, data in pictures():
        emit(name, data)
        image = Image.open(io.BytesIO(data))
        emit(name + "_rgb", image.convert("RGB").tobytes())
        emit(name + "_l", image.convert("RGB").convert("L").tobytes())
        names.append(name)
    print("static const struct {\n    const char *name;\n    const uint8_t *file, *rgb, *grey;\n    size_t file_bytes;")
    print("    uint32_t width, height;\n} pictures[] = {")
    for name in names:
        print(f'    {{"{name}", {name}, {name}_rgb, {name}_l, sizeof {name}, {WIDTH}, {HEIGHT}}},')
    print("};")
    source = Image.open(io.BytesIO(dict(pictures_cache)["png_rgb"]))
    rows = []
    for filter_name in ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"):
        for width, height in ((7, 5), (23, 9), (11, 17), (29, 19), (1, 1)):
            name = f"resize_{filter_name}_{width}x{height}"
            resized = source.resize((width, height), getattr(Image.Resampling, filter_name.upper()))
            emit(name, resized.tobytes())
            rows.append((filter_name, width, height, name))
    print("static const struct {\n    const char *filter;\n    uint32_t width, height;\n    const uint8_t *rgb;\n} resizes[] = {")
    for filter_name, width, height, name in rows:
        print(f'    {{"{filter_name}", {width}, {height}, {name}}},')
    print("};")


if __name__ == "__main__":
    pictures_cache = list(pictures())
    pictures = lambda: iter(pictures_cache)
    main()
