#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DENSE compression of bf16 against zipnn 0.5.4 over the same bytes, one thread each: ratio, and CPU time by turns.

zipnn is fetched by pip into build/zipnn when this is run for the first time, and never otherwise; where that is not to be had it says
so and exits 77. Called is its C function, as its ZipNN.compress calls it for bytes of bf16: once with the copy of the input that
ZipNN.compress makes, which is what its users pay, and once without. The rest of it is not needed, and would bring PyTorch. Weir is
the shared library by its C functions, checksums included. Of each file so many MiB are compressed, the file repeated.

  bench/codec_zipnn.py [--library build/release/lib/libweir.so] [--mib 32] [--rounds 9] FILE...
"""
import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import time

VERSION = "0.5.4"
DENSE = 1
# What ZipNN.compress passes for bf16: two planes, the sign behind the exponent, pieces of 256 KiB, of which those that do
# not become a twentieth shorter stay as they are.
PLANES, REORDER, GROUPS, PIECE, THRESHOLD = 2, 1, 0b01_010, 256 << 10, 0.95


class CompressDesc(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("level", ctypes.c_uint32), ("element", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("codec", ctypes.c_char_p), ("flags", ctypes.c_uint64)]


def zipnn(folder):
    try:
        if not list(folder.glob(f"zipnn-{VERSION}.dist-info")):
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder),
                            f"zipnn=={VERSION}"], check=True, stdout=sys.stderr)
        sys.path.insert(0, str(folder))
        import zipnn_core  # pylint: disable=import-error,import-outside-toplevel
    except (subprocess.CalledProcessError, ImportError) as error:
        print(f"codec_zipnn: zipnn {VERSION} is not to be had here: {error}", file=sys.stderr)
        sys.exit(77)
    # It reorders its input in place, so each call has a copy.
    return lambda data: len(zipnn_core.zipnn_core(bytearray(32), data, PLANES, REORDER, GROUPS, 0, PIECE, THRESHOLD, 10, 1))


class Weir:
    def __init__(self, library, data):
        self.library = ctypes.CDLL(str(library))
        self.library.weir_compress_bound.restype = ctypes.c_uint64
        self.library.weir_compress_bound.argtypes = [ctypes.c_uint64]
        self.library.weir_compress.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p,
                                               ctypes.c_uint64, ctypes.c_void_p]
        self.library.weir_decompress.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
        self.data = data
        self.room = self.library.weir_compress_bound(len(data))
        self.blob = ctypes.create_string_buffer(self.room)
        self.back = ctypes.create_string_buffer(len(data))
        self.length = ctypes.c_uint64()

    def compress(self):
        desc = CompressDesc(ctypes.sizeof(CompressDesc), DENSE, 0, 0, None, 0)
        result = self.library.weir_compress(ctypes.byref(desc), self.data, len(self.data), self.blob, self.room, ctypes.byref(self.length))
        if result != 0:
            sys.exit(f"codec_zipnn: weir_compress failed: {result}")
        return self.length.value

    def check(self):
        result = self.library.weir_decompress(self.blob, self.length, self.back, len(self.data), None)
        if result != 0 or self.back.raw != self.data:
            sys.exit("codec_zipnn: other bytes")


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(path, chosen, other):
    once = path.read_bytes()
    total = chosen.mib << 20
    data = (once * (total // len(once) + 1))[:total]
    weir = Weir(chosen.library, data)
    ours, theirs, bare = [], [], []
    for _ in range(chosen.rounds):
        ours.append(seconds(weir.compress))
        theirs.append(seconds(lambda: other(bytearray(data))))
        copy = bytearray(data)
        bare.append(seconds(lambda: other(copy)))
    weir.check()
    print(json.dumps({
        "benchmark": "codec zipnn", "data": path.name, "mib": chosen.mib,
        "compression": round(total / weir.compress(), 4), "compression_of_zipnn": round(total / other(bytearray(data)), 4),
        "gb_per_s": round(total / min(ours) / 1e9, 3), "gb_per_s_of_zipnn": round(total / min(theirs) / 1e9, 3),
        "gb_per_s_of_its_c_function": round(total / min(bare) / 1e9, 3),
        "speed_to_zipnn": round(min(theirs) / min(ours), 3), "speed_to_its_c_function": round(min(bare) / min(ours), 3),
        "goal": "compression >= that of zipnn, speed_to_zipnn >= 1"}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, default=pathlib.Path("build/release/lib/libweir.so"))
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    chosen = parser.parse_args()
    other = zipnn(pathlib.Path(__file__).resolve().parent.parent / "build" / "zipnn")
    for path in chosen.files:
        measure(path, chosen, other)


if __name__ == "__main__":
    main()
