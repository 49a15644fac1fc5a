#!/usr/bin/env bash
# What only a GPU can tell, in one go (under ten minutes on a card with 24 GB): the reference's fixtures on CUDA in F32,
# losslessness, and the speed of a model with Qwen3-8B's shape and random weights, with the share of the card's memory
# bandwidth that decoding reaches. Needs a driver, NVRTC (see SPECTOP_NVRTC), Rust, and Python with numpy and gguf.
# Usage: scripts/gpu-check.sh [cuda:N]
set -euo pipefail
cd "$(dirname "$0")/.."
device=${1:-cuda:0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --quiet
spectop=target/release/spectop
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.free --format=csv,noheader || true

echo "== fixtures in F32 on $device"
for fixture in tests/fixtures/qwen3-byte-a tests/fixtures/qwen3-byte-b tests/fixtures/smollm2-story; do
  "$spectop" conformance "$fixture" --device "$device" --dtype f32 | tail -n 1
done

echo "== losslessness: every mode against plain decoding, byte by byte"
for dtype in f32 auto; do
  "$spectop" bench run --device "$device" --dtype "$dtype" --modes off,dflash,ddtree --repeats 1 --max-tokens 128
done

echo "== speed: Qwen3-8B's shape, random Q8_0 weights, drafter of five layers in 8 bits"
python3 scripts/random-model.py "$work/8b.gguf" 8b "$work/drafter"
"$spectop" bench-kernels --device "$device" --target "$work/8b.gguf" --draft "$work/drafter" --cached 1024 \
  --prefill 1024 --decode 128 --rounds 3 --json > "$work/report.json"
python3 - "$work/report.json" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
verify, draft = r["verify_ms"], r["draft_ms"]
b = r["bandwidth"]
print(f"{r['machine']} ({r['kernels']}), {r['weight_bytes'] / 1e9:.1f} GB of weights, {r['context']} tokens cached")
print(f"plain        {r['decode_tok_s']:8.1f} tok/s")
print(f"prefill      {r['prefill_tok_s']:8.1f} tok/s")
print(f"bandwidth    {b['used_gb_s']:8.0f} GB/s, {b['share'] * 100:.0f} % of {b['measured_gb_s']:.0f}")
for name, rows in [("dflash 16", "16"), ("ddtree 31", "32")]:
    ms = draft + verify[rows]
    print(f"{name}    {1e3 / ms:8.1f} rounds/s ({draft:.2f} ms draft, {verify[rows]:.2f} ms verify): faster than plain from "
          f"{ms / 1e3 * r['decode_tok_s']:.2f} tokens a round on")
asked = sum(r["stages_ms"]["1"].values())
print(f"launches     {asked:8.2f} ms of the processor's time in a pass of {verify['1']:.2f} ms")
END
