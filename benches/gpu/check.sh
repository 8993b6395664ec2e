#!/usr/bin/env bash
# Checks and measures a device. Prints one JSON line per result, and `{"step": …, "failed": …}` for a step that failed or
# took too long; the steps after it still run. Needs Python with torch for the comparisons with torch.
#
#   DEVICE=cuda OUT=results bash check.sh      # on a GPU, at most 8 minutes
#   DEVICE=cpu SIZE=small bash check.sh        # a rehearsal
#
# SMI is the program that reports use and memory of the GPU; without it, they are left out.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
DEVICE=${DEVICE:-cuda}
SIZE=${SIZE:-full}
OUT=${OUT:-$here/results}
PYTHON=${PYTHON:-python3}
LIMIT=${LIMIT:-470}
mkdir -p "$OUT"
results=$OUT/results.jsonl
: >"$results"

# The libtorch of this Python, or that of LIBTORCH.
torch=$("$PYTHON" -c 'import torch; print(torch.__path__[0])' 2>/dev/null)
export LIBTORCH=${torch:-${LIBTORCH:?neither torch nor LIBTORCH was found}}
export LD_LIBRARY_PATH=$LIBTORCH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OMP_WAIT_POLICY=passive PYTHONUNBUFFERED=1
[ -d "$here/bin" ] || "$PYTHON" -m tarfile -e "$here/programs.tar.xz" "$here" || exit 1

# step NAME SECONDS COMMAND…: lines of its output that are JSON are results. A step gets at most the time that the whole
# script has left. The command finds its name in STEP.
step() {
    local name=$1 seconds=$2 left=$((LIMIT - SECONDS)) code
    shift 2
    echo "== $name" >&2
    if [ $left -lt 1 ]; then
        echo "{\"step\": \"$name\", \"failed\": \"left out: the time is up\"}" | tee -a "$results"
        return 1
    fi
    [ "$seconds" -gt $left ] && seconds=$left
    STEP=$name timeout --kill-after=5 "$seconds" "$@" >"$OUT/$name.out" 2>"$OUT/$name.err"
    code=$?
    grep '^{' "$OUT/$name.out" | tee -a "$results"
    if [ $code -ne 0 ]; then
        echo "{\"step\": \"$name\", \"failed\": $code}" | tee -a "$results"
        tail -n 5 "$OUT/$name.err" >&2
    fi
    return $code
}

# Use and memory of the GPU during a command, sampled twice in a second.
watched() {
    if [ -z "$SMI" ]; then
        "$@"
        return
    fi
    "$SMI" --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits -lms 500 >"$OUT/$STEP.csv" &
    local watcher=$! code
    "$@"
    code=$?
    kill $watcher
    awk -F', ' -v step="$STEP" '{ use += $1; if ($2 > most) most = $2; n++ }
        END { if (n) printf "{\"figure\": \"use\", \"step\": \"%s\", \"share\": %.3f, \"memory_mb\": %d}\n", step, use / n / 100, most }' \
        "$OUT/$STEP.csv"
    return $code
}

bench() { "$here/bin/gymkhana-benches" device "$@"; }
export -f watched bench
[ "$DEVICE" = cuda ] && SMI=${SMI:-nvidia-smi}
export here DEVICE OUT SMI=${SMI:-}

if [ "$SIZE" = small ]; then
    rated=(qwen2-small) train=(--tokens 256 --length 128 --steps 1) generate=(--conversations 4 --prompt 16 --reply 8)
    peak=(--size 256) chunk=1
else
    rated=(qwen2-0.5b qwen2-1.5b) train=(--tokens 8192 --length 1024) generate=(--conversations 256) peak=() chunk=32
fi
small=(qwen2-small qwen3-small llama-small)

step tokenizer 30 "$here/bin/gymkhana-benches" device tokenizer "$OUT/tokenizer"
step library 60 "$here/bin/gymkhana-benches" device load --device "$DEVICE"
for model in $(printf '%s\n' "${small[@]}" "${rated[@]}" | sort -u); do
    step "model-$model" 60 "$PYTHON" "$here/models.py" "$OUT/tokenizer" "$OUT/models" "$model"
done
for model in "${small[@]}"; do
    step "agree-$model" 30 "$here/bin/gymkhana-benches" device agree "$OUT/models/$model" --device "$DEVICE"
    step "agree-$model-bfloat16" 30 "$here/bin/gymkhana-benches" device agree "$OUT/models/$model" --device "$DEVICE" --bfloat16
done

if [ "$DEVICE" = cuda ]; then
    step "agree-${small[0]}-operations" 30 env GYMKHANA_CUDA_KERNELS=0 "$here/bin/gymkhana-benches" device agree \
        "$OUT/models/${small[0]}" --device cuda
fi

# A short run with tool calls and its replay, then more steps and their replay.
run=("$here/bin/host" run "$here/run.toml" --plugins "$here/plugins/word-problems.wasm,$here/plugins/calculator.wasm,$here/plugins/answer-match.wasm")
run+=(--set "policy.device=\"$DEVICE\"")
[ "$SIZE" = small ] && run+=(--set stages.sft.steps=2 --set stages.rl.steps=2 --set evaluation.tasks=4)
step run 90 bash -c 'watched "$@" --quiet' _ "${run[@]}" --out "$OUT/run"
step replay 30 "$here/bin/host" replay "$OUT/run"
steps=$("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["progress"]["stage"])' "$OUT/run/state.json" 2>/dev/null)
if [ "$steps" = 2 ]; then
    more=$([ "$SIZE" = small ] && echo 3 || echo 12)
    step resume 60 "$here/bin/host" run --resume "$OUT/run" --quiet --set stages.rl.steps="$more" &&
        step replay-resumed 30 "$here/bin/host" replay "$OUT/run"
fi

step peak 30 "$PYTHON" "$here/torch_figures.py" peak --device "$DEVICE" --bfloat16 "${peak[@]}"
for model in "${rated[@]}"; do
    folder=$OUT/models/$model
    step "train-$model" 60 bash -c 'watched bench train "$@"' _ "$folder" --device "$DEVICE" --bfloat16 "${train[@]}"
    step "torch-train-$model" 60 "$PYTHON" "$here/torch_figures.py" train "$folder" --device "$DEVICE" --bfloat16 "${train[@]}"
done
folder=$OUT/models/${rated[0]}
step "train-${rated[0]}-chunks" 60 bash -c 'watched bench train "$@"' _ "$folder" --device "$DEVICE" --bfloat16 \
    --logits-chunk-mib $chunk "${train[@]}"
if [ "$DEVICE" = cuda ]; then
    for figure in train generate; do
        given=$figure[@]
        step "$figure-operations" 60 env GYMKHANA_CUDA_KERNELS=0 "$here/bin/gymkhana-benches" device $figure "$folder" \
            --device cuda --bfloat16 "${!given}"
    done
fi
step generate 60 bash -c 'watched bench generate "$@"' _ "$folder" --device "$DEVICE" --bfloat16 "${generate[@]}"
step torch-generate 60 "$PYTHON" "$here/torch_figures.py" generate "$folder" --device "$DEVICE" --bfloat16 "${generate[@]}"

rm -rf "$OUT/models" "$OUT/tokenizer"
"$PYTHON" "$here/summary.py" "$results" "$OUT/summary.md" || exit 1
cat "$OUT/summary.md"
! grep -q '"failed"\|"passed":false\|"passed": false' "$results"
