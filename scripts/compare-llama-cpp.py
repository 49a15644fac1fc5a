#!/usr/bin/env python3
"""spectop's kernels beside llama.cpp's, the same file, the same threads, in turns.

    compare-llama-cpp.py MODEL.gguf --spectop target/release/spectop --llama amx=DIR --llama vnni=DIR

Each DIR holds a build of the Python package llama-cpp-python (`pip install --target DIR`, CMAKE_ARGS as wished). The
builds and spectop take turns within a round; medians over the rounds are printed, and ratios of medians. A native build
with gcc 12 dies of an illegal instruction on processors with AMX, because the compiler drops the stores in front of
`_tile_loadconfig`: put `asm volatile("" ::: "memory");` before it in `ggml-cpu/amx/mmq.cpp`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROWS = [1, 2, 4, 8, 16, 32, 64]


def worker(model, threads, context, decode, prefill):
    """Measures one build, once for every line on the standard input."""
    import ctypes

    import llama_cpp.llama_cpp as lib

    @lib.llama_log_callback
    def silent(_level, _text, _data):
        pass

    lib.llama_log_set(silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    loaded = lib.llama_model_load_from_file(model.encode(), lib.llama_model_default_params())
    vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(loaded))
    params = lib.llama_context_default_params()
    params.n_ctx = context + max(decode, prefill, ROWS[-1]) + 64
    params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = threads
    # Without flash attention: on processors it is the slower one for few rows.
    params.flash_attn_type = 0
    run = lib.llama_init_from_model(loaded, params)
    memory = lib.llama_get_memory(run)
    batch = lib.llama_batch_init(512, 0, 1)

    def forward(ids, start, every):
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i] = token
            batch.pos[i] = start + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = every or i == len(ids) - 1
        clock = time.perf_counter()
        if lib.llama_decode(run, batch) != 0:
            raise SystemExit("llama_decode failed")
        lib.llama_get_logits_ith(run, -1)[0]
        return (time.perf_counter() - clock) * 1e3

    ids = [(i * 7 + 1) % vocab for i in range(context + 1024)]

    def fill():
        lib.llama_memory_clear(memory, True)
        for start in range(0, context, 256):
            forward(ids[start : min(start + 256, context)], start, False)

    fill()
    for _ in sys.stdin:
        out = {"verify_ms": {}}
        for rows in ROWS:
            times = []
            for _ in range(1 + max(1, min(5, 16 // rows))):
                lib.llama_memory_seq_rm(memory, 0, context, -1)
                times.append(forward(ids[context : context + rows], context, True))
            out["verify_ms"][str(rows)] = statistics.median(times[1:])
        lib.llama_memory_seq_rm(memory, 0, context, -1)
        spent = sum(forward([ids[context + i]], context + i, True) for i in range(decode))
        out["decode_tok_s"] = decode / spent * 1e3
        lib.llama_memory_clear(memory, True)
        out["prefill_tok_s"] = prefill / forward(ids[:prefill], 0, False) * 1e3
        fill()
        print(json.dumps(out), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--spectop", default="target/release/spectop")
    parser.add_argument("--llama", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--kernels", action="append", default=[], help="also spectop with SPECTOP_KERNELS set to this")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cached", type=int, default=300)
    parser.add_argument("--decode", type=int, default=48)
    parser.add_argument("--prefill", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args.model, args.threads, args.cached, args.decode, args.prefill)

    shape = [f"--{name}={getattr(args, name)}" for name in ("threads", "cached", "decode", "prefill")]
    workers = {}
    for name, folder in (pair.split("=", 1) for pair in args.llama):
        path = os.path.abspath(folder)
        environment = os.environ | {"PYTHONPATH": path, "LD_LIBRARY_PATH": f"{path}/llama_cpp/lib"}
        command = [sys.executable, __file__, args.model, "--worker", *shape]
        pipe = subprocess.PIPE
        workers[f"llama.cpp {name}"] = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)

    def by_spectop(kernels):
        command = [args.spectop, "bench-kernels", "--json", "--rounds=1", f"--target={args.model}", "--no-draft", *shape]
        environment = os.environ | ({"SPECTOP_KERNELS": kernels} if kernels else {})
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

    def by_llama(process):
        process.stdin.write("\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    turns = [("spectop", lambda: by_spectop(None))]
    turns += [(f"spectop {k}", lambda k=k: by_spectop(k)) for k in args.kernels]
    turns += [(name, lambda process=process: by_llama(process)) for name, process in workers.items()]
    seen = {name: [] for name, _ in turns}
    for turn in range(args.rounds):
        for name, measure in turns if turn % 2 == 0 else turns[::-1]:
            seen[name].append(measure())
    for process in workers.values():
        process.stdin.close()
        process.wait()

    figures = {}
    for name, rounds in seen.items():
        middle = lambda values: statistics.median(list(values))
        figures[name] = {
            "decode_tok_s": middle(r["decode_tok_s"] for r in rounds),
            "decode_range": [min(r["decode_tok_s"] for r in rounds), max(r["decode_tok_s"] for r in rounds)],
            "prefill_tok_s": middle(r["prefill_tok_s"] for r in rounds),
            "verify_ms": {str(k): middle(r["verify_ms"][str(k)] for r in rounds) for k in ROWS},
        }
    if args.json:
        return print(json.dumps(figures, indent=1))
    print("| engine | decode tok/s | " + " | ".join(f"{k}" for k in ROWS) + " | t8/t1 | t16/t1 | prefill tok/s |")
    print("|---|---|" + "---|" * (len(ROWS) + 3))
    for name, f in figures.items():
        v = f["verify_ms"]
        low, high = f["decode_range"]
        cells = [f"{f['decode_tok_s']:.0f} ({low:.0f}–{high:.0f})", *(f"{v[str(k)]:.1f}" for k in ROWS)]
        cells += [f"{v['8'] / v['1']:.2f}", f"{v['16'] / v['1']:.2f}", f"{f['prefill_tok_s']:.0f}"]
        print(f"| {name} | " + " | ".join(cells) + " |")
    ours = figures["spectop"]
    for name, f in figures.items():
        if name.startswith("llama.cpp"):
            print(
                f"\nagainst {name}: decode ×{ours['decode_tok_s'] / f['decode_tok_s']:.2f}, "
                f"8 rows ×{f['verify_ms']['8'] / ours['verify_ms']['8']:.2f}, "
                f"16 rows ×{f['verify_ms']['16'] / ours['verify_ms']['16']:.2f}, "
                f"prefill ×{ours['prefill_tok_s'] / f['prefill_tok_s']:.2f}",
                end="",
            )
    print()


if __name__ == "__main__":
    main()
