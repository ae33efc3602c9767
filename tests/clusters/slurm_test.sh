#!/usr/bin/env bash
# Real Slurm: the job under srun has the bits of our own launch; one that hits its time limit is requeued and ends with the
# bits of one that was never interrupted; scancel leaves a complete checkpoint; nothing is left behind.
#
#   tests/clusters/slurm_test.sh build/release/bin
#
# Needs root, and Debian's slurm-wlm and munge. `make test-clusters` runs it.
set -euo pipefail
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
CLUSTER=$(mktemp -d)
. "$here/slurm_cluster.sh"
finish() {
  local status=$?
  stop_slurm
  [[ $status == 0 ]] && rm -rf "$CLUSTER" || echo "FAILED (status $status); everything is in $CLUSTER" >&2
}
trap finish EXIT
start_slurm
mkdir "$CLUSTER/work"
cd "$CLUSTER/work"

flags=(--data synthetic --threads 1 --json)
hash_in() { sed -n 's/.*"parameters_sha256": *"\([0-9a-f]*\)".*/\1/p' "$1" | head -1; }
same() {  # same WHAT WANTED GOT
  [[ -n $2 && $2 == "$3" ]] || { echo "$1: expected $2, got '$3'" >&2; exit 1; }
  echo "$1: $3"
}
left_behind() {  # processes that work in our folder, but for this script's own
  local process
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/cwd" 2>/dev/null) == "$CLUSTER/work" && $(tr '\0' ' ' < "$process/cmdline") == *trireme* ]] || continue
    [[ $(tr '\0' ' ' < "$process/cmdline") == *slurm_test* ]] || echo "${process##*/}"
  done 2>/dev/null
}

echo "== the bits of our own launch"
"$bin/trireme" train "${flags[@]}" --steps 40 -w 2 -s 1 --out own > own.json
own=$(hash_in own.json)
srun -N2 -n2 "$bin/trireme" train "${flags[@]}" --steps 40 --out servers > servers.json
same "srun, 2 workers and 1 server" "$own" "$(hash_in servers.json)"
srun -N2 -n2 "$bin/trireme" train "${flags[@]}" --steps 40 --strategy allreduce --out reduced > reduced.json
same "srun, all-reduce" "$own" "$(hash_in reduced.json)"

echo "== scancel leaves a complete checkpoint"
sbatch -N2 -n2 --output=cancel.log --wrap \
  "srun $bin/trireme train ${flags[*]} --steps 100000 --step-ms 20 --checkpoint-every 50 --out cancelled" > /dev/null
wait_until 60 sh -c 'ls -d cancelled/checkpoints/step-*'
scancel --name=wrap
wait_until 60 sh -c 'test -z "$(squeue -h)"'
"$bin/trireme" ckpt verify cancelled
test -s cancelled/model.safetensors && echo "the model is there"

echo "== the time limit: checkpoint, requeue, resume"
long=(--steps 400 --step-ms 150)
"$bin/trireme" train "${flags[@]}" --steps 400 -w 2 -s 1 --out uninterrupted > uninterrupted.json
cat > long.sh <<SCRIPT
#!/bin/bash
srun $bin/trireme train ${flags[*]} ${long[*]} --out long
if grep -q '"stopped": true' long/outcome.json; then scontrol requeue \$SLURM_JOB_ID; fi
SCRIPT
job=$(sbatch --parsable -N2 -n2 --time=1 --requeue --signal=TERM@20 --open-mode=append --output=long.log long.sh)
requeued() { [[ $(scontrol show job "$job") == *"Restarts=1"* ]]; }
wait_until 120 requeued
echo "requeued after step $(sed -n 's/.*"steps": *\([0-9]*\).*/\1/p' long/result.json | head -1)"
cp long/result.json first.json
wait_until 60 sh -c "scontrol show job $job | grep -q JobState=PENDING"
scontrol update JobId="$job" StartTime=now+10 TimeLimit=5  # a requeued job waits for two minutes, and this limit is not the point
wait_until 180 sh -c "scontrol show job $job | grep -q JobState=COMPLETED"
same "requeued once" "$(hash_in uninterrupted.json)" "$(hash_in long/result.json)"

[[ -z $(left_behind) ]] || { echo "left behind: $(left_behind)" >&2; exit 1; }
echo "PASSED"
