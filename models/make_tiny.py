#!/usr/bin/env python3
"""Makes models/tiny from a float32 byte-level pair.

    python3 models/make_tiny.py PAIR

PAIR holds target/ and drafter/, each with config.json and model.safetensors. Weights are rounded to bfloat16 (to
nearest, ties to even), which halves the size of the pair that is compiled into the program; configurations are copied
with `dtype` changed, and the target says that its tokens are bytes. Only the standard library is needed.
"""

import array
import json
import pathlib
import shutil
import struct
import sys

OUT = pathlib.Path(__file__).resolve().parent / "tiny"


def to_bf16(data: bytes) -> bytes:
    """Rounds little-endian float32 values; none of them is a NaN."""
    words = array.array("I")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    halves = array.array("H", ((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words))
    if sys.byteorder == "big":
        halves.byteswap()
    return halves.tobytes()


def convert(source: pathlib.Path, target: pathlib.Path) -> None:
    raw = source.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    new_header, body = {"__metadata__": {"format": "pt"}}, bytearray()
    for name, info in sorted(header.items()):
        if name == "__metadata__":
            continue
        if info["dtype"] != "F32":
            raise SystemExit(f"{source}: {name} is {info['dtype']}, expected F32")
        start, end = info["data_offsets"]
        data = to_bf16(raw[8 + length + start : 8 + length + end])
        new_header[name] = {
            "dtype": "BF16",
            "shape": info["shape"],
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(new_header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    pair = pathlib.Path(sys.argv[1])
    for part in ("target", "drafter"):
        source, target = pair / part, OUT / part
        target.mkdir(parents=True, exist_ok=True)
        convert(source / "model.safetensors", target / "model.safetensors")
        config = json.loads((source / "config.json").read_text())
        config["dtype"] = "bfloat16"
        (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    shutil.copyfile(pair / "target" / "generation_config.json", OUT / "target" / "generation_config.json")
    tokenizer = {"tokenizer_class": "ByteTokenizer"}
    (OUT / "target" / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2) + "\n")


if __name__ == "__main__":
    main()
