"""Pictures that are small as files and cost a lot to decode, by hand: no encoder writes them so."""

import struct
import zlib

SCAN_BLOCKS = 32767  # of an end-of-band run


def png(side):
    """side x side pixels of black, a thousandth of their size."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compressobj(9)
    row = b"\0" + bytes(3 * side)
    data = b"".join(rows.compress(row) for _ in range(side)) + rows.flush()
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def _entropy(bits):
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")


def progressive_jpeg(side, scans):
    """side x side pixels of grey in so many scans, of which all but the first say of every block that there is nothing in it."""
    blocks = (-(-side // 8)) ** 2
    one_code = bytes([1] + [0] * 15)
    dc = _segment(0xDA, bytes([1, 1, 0x00, 0, 0, 0])) + bytes(-(-blocks // 8) - 1) + _entropy("0" * (blocks % 8 or 8))
    ac = _segment(0xDA, bytes([1, 1, 0x00, 1, 63, 0])) + _entropy(("0" + "1" * 14) * -(-blocks // SCAN_BLOCKS))
    return (b"\xff\xd8" + _segment(0xDB, b"\0" + bytes([1] * 64)) + _segment(0xC2, struct.pack(">BHHBBBB", 8, side, side, 1, 1, 0x11, 0))
            + _segment(0xC4, b"\x00" + one_code + b"\x00") + _segment(0xC4, b"\x10" + one_code + b"\xe0")
            + dc + ac * (scans - 1) + b"\xff\xd9")
