"""SipHash as its authors define it, in integers of Python."""

_ALL = 2**64 - 1


def siphash(data: bytes, key: bytes, c: int, d: int, n_bytes: int) -> bytes:
    """SipHash-c-d of some bytes, with an output of 8 or 16 bytes."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    wide = n_bytes == 16
    v[1] ^= 0xEE * wide
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        _rounds(v, c)
        v[0] ^= word
    v[2] ^= 0xEE if wide else 0xFF
    _rounds(v, d)
    out = (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    if wide:
        v[1] ^= 0xDD
        _rounds(v, d)
        out += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return out


def _rounds(v: list[int], n: int) -> None:
    for _ in range(n):
        _half(v, 0, 1, 13, 32)
        _half(v, 2, 3, 16, 0)
        _half(v, 0, 3, 21, 0)
        _half(v, 2, 1, 17, 32)


def _half(v: list[int], one: int, other: int, turn: int, swap: int) -> None:
    v[one] = v[one] + v[other] & _ALL
    v[other] = _turned(v[other], turn) ^ v[one]
    v[one] = _turned(v[one], swap)


def _turned(x: int, n: int) -> int:
    return (x << n | x >> 64 - n) & _ALL
