"""Runs PyTorch DDP and Trireme in turns, and compares them: bench/ddp."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TRIREME = os.path.join(HERE, "..", "..", "build", "release", "bin", "trireme")
LENGTH = 128  # tokens that the language model sees
WARM_UP = 2  # intervals that do not count


def median_rate(rates):
    return statistics.median(rates[WARM_UP:] if len(rates) > WARM_UP + 1 else rates)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ddp(model, options, folder):
    # Not by torchrun: that of Debian's PyTorch 1.13 does not run with its Python 3.11.
    command = [sys.executable, os.path.join(HERE, "ddp_train.py"), model, str(options.batch), str(options.steps), str(LENGTH)]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(options.processes)}
    ranks = []
    for rank in range(options.processes):
        environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", RANK=str(rank), **place)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        ranks.append(subprocess.Popen(command, env=environment, cwd=folder, text=True, **pipes))
    answers = [process.communicate(timeout=600) for process in ranks]
    for process, (_, problem) in zip(ranks, answers):
        if process.returncode != 0:
            sys.exit(f"bench/ddp: DDP failed on {model}:\n{problem[-2000:]}")
    return median_rate(json.loads(answers[0][0].strip().splitlines()[-1])["samples_per_s"])


def run_trireme(model, options, folder):
    run = os.path.join(folder, "run")
    command = [TRIREME, "train", "--model", model, "--strategy", "allreduce", "-w", str(options.processes), "--threads", "1"]
    command += ["--batch", str(options.batch), "--steps", str(options.steps), "--log-every", "10", "--out", run, "--overwrite"]
    command += ["--checkpoint-every", "0", "--json"]
    if model == "gpt-tiny":
        text = os.path.join(folder, "text.txt")
        with open(text, "wb") as file:
            file.write(os.urandom(600_000))
        command += ["--data", text, "--length", str(LENGTH)]
    else:
        command += ["--data", "synthetic"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"bench/ddp: trireme failed on {model}:\n{done.stderr[-2000:]}")
    with open(os.path.join(run, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    return median_rate([row["samples_per_s"] for row in rows if row["kind"] == "train"])


def main():
    parser = argparse.ArgumentParser(prog="bench/ddp", description="PyTorch DDP on gloo beside Trireme's all-reduce.")
    parser.add_argument("--models", default="lenet,resnet20,gpt-tiny")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples per step, over all processes")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    results = {}
    print(f"{options.processes} processes, one thread each, batch {options.batch}; median of {options.rounds} rounds, samples/s")
    print(f"{'model':12} {'PyTorch DDP':>12} {'Trireme':>12} {'ratio':>7}")
    for model in options.models.split(","):
        ddp, trireme = [], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.rounds):
                ddp.append(run_ddp(model, options, folder))
                trireme.append(run_trireme(model, options, folder))
        results[model] = {"ddp": ddp, "trireme": trireme}
        a, b = statistics.median(ddp), statistics.median(trireme)
        print(f"{model:12} {a:12.0f} {b:12.0f} {b / a:6.2f}x", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
