#!/usr/bin/env python3
"""Writes the networks of TorchScript that the tests train; needs PyTorch (Debian: python3-torch).

  tests/system/training/make_script.py FOLDER            net.pt (scripted), traced.pt, two_inputs.pt, no_forward.pt, wide.pt
  tests/system/training/make_script.py --compare EXPORTED.pt SAVED.safetensors
                                                says whether the exported network has the saved parameters, and what it gives
"""
import json
import struct
import sys

import torch


class Net(torch.nn.Module):
    """For images of 1 x 28 x 28 and ten classes; with batch norm and dropout, whose state and mode must survive."""

    def __init__(self, rows: int = 28):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 5, stride=4)
        self.norm = torch.nn.BatchNorm2d(2)
        self.drop = torch.nn.Dropout(0.1)
        side = (rows - 5) // 4 + 1
        self.body = torch.nn.Sequential(torch.nn.Linear(2 * side * side, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))

    def forward(self, images):
        return self.body(self.drop(torch.relu(self.norm(self.conv(images)))).flatten(1))


class TwoInputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, left, right):
        return self.layer(left + right)


class NoForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    @torch.jit.export
    def apply_to(self, x):
        return self.layer(x)


def write_all(folder):
    torch.manual_seed(1)
    net = Net()
    torch.jit.script(net).save(f"{folder}/net.pt")
    torch.jit.trace(net.eval(), torch.zeros(2, 1, 28, 28)).save(f"{folder}/traced.pt")
    torch.jit.script(TwoInputs()).save(f"{folder}/two_inputs.pt")
    torch.jit.script(NoForward()).save(f"{folder}/no_forward.pt")
    torch.jit.script(Net(rows=40)).save(f"{folder}/wide.pt")


def read_safetensors(path):
    kinds = {"F32": torch.float32, "I64": torch.int64}
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=kinds[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def compare(exported, saved):
    """The exported network is what was saved: the same tensors, and the same outputs from a network made here."""
    loaded = torch.jit.load(exported)
    tensors = read_safetensors(saved)
    same = {name: torch.equal(tensor, tensors[name]) for name, tensor in loaded.state_dict().items()}
    twin = Net()
    twin.load_state_dict(tensors)
    images = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        outputs = loaded(images)
        print(f"tensors {sum(same.values())} of {len(same)} equal, training {loaded.training}, "
              f"outputs equal {torch.equal(outputs, twin.eval()(images))}")


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        compare(*sys.argv[2:])
    else:
        write_all(sys.argv[1])
