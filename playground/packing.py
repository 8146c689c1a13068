"""Texts on their way between page and server, or into a file: gzip, then base64. A text of a run shrinks to a quarter.

assets/scripts/packed.js does the same in the page.
"""

import base64
import binascii
import gzip
import zlib

from playground.opening import MOST_BYTES
from playground.trace import InvalidTrace


def packed(text: str, level: int = 1) -> str:
    """The text, packed: ASCII without `<`, `&` and quotes. `level` 9 takes three times as long for a fifth less."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=level, mtime=0)).decode()


def unpacked(text: object) -> str:
    """The inverse of `packed`, of what comes from outside. Never more than a byte over the limit is unpacked.

    Raises:
        InvalidTrace: it was not packed so, or is too large.
    """
    if not isinstance(text, str):
        raise InvalidTrace("The page sent no text.")
    too_large = InvalidTrace(f"The file is too large: a trace has at most {MOST_BYTES // 10**6} MB.")
    if len(text) > 2 * MOST_BYTES:
        raise too_large
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise too_large
        if not unpacker.eof:
            raise InvalidTrace("The file did not arrive whole.")
        return found.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InvalidTrace):
            raise
        raise InvalidTrace(f"The file cannot be read as UTF-8 text: {error}") from error
