#!/usr/bin/env bash
# What the simulator waits for on a GPU, in the order of its worth, in about ten minutes: what host pages cost that were
# not in use just now (first_ns, beside the later repetitions; hence first), calibration, in which order kernels touch
# memory, what displacing a block takes, and ResNet-50 in bf16 and tf32 against the calibration of the same minutes.
# Everything lies in the folder afterwards.
#
#   [RUNS=3] benchmarks/gpu_validation.sh FOLDER [BUILD]        # BUILD: build/cuda; first iterations happen once a run
#
# um_eviction_bound holds nearly all of the device's memory while it runs (managed memory stays below what is free), so it
# runs only where WITH_EVICTION=1 says that nobody else needs the GPU.
set -euo pipefail
out=${1:?"give a folder for the results"}
build=${2:-build/cuda}
mkdir -p "$out"

mkdir -p "$out/machines"
"$build/benchmarks/um_microbenchmarks" --benchmark_filter='^prefetch/to_host/data:new/size:4GiB/.*iterations:[2-9]' \
  --benchmark_out="$out/host_pages.json" --benchmark_out_format=json
"$build/umbench" calibrate --out "$out/machines/here.json" --samples "$out/samples.json"
"$build/benchmarks/um_microbenchmarks" --benchmark_filter='^(order|advice/read_mostly)/' \
  --benchmark_out="$out/order.json" --benchmark_out_format=json
if [[ -n ${WITH_EVICTION:-} ]]; then "$build/measure/um_eviction_bound" | tee "$out/eviction_bound.json"; fi
for run in $(seq "${RUNS:-3}"); do
  "$build/umbench" sweep benchmarks/sweeps/gpu_validation.json --out "$out/resnet50_$run.jsonl" --resume ||
    (($? == 1)) # cells that failed stand in the records
done
UMBENCH="$build/umbench" measure/operator_paces.py --machine "$out/machines/here.json" --precision bf16 --precision tf32 "$out"/resnet50_1.jsonl
cat "$out"/resnet50_?.jsonl > "$out/resnet50.jsonl"
"$build/umbench" validate --machines "$out/machines" --machine here "$out/resnet50.jsonl" | tee "$out/validate.txt"
