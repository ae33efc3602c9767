"""PyTorch's DistributedDataParallel as its users would tune it for speed: one of its ranks. See bench/ddp.

Samples lie in memory as tensors, so no data loader slows it down; gradients are views of buckets; the graph is static.
Prints, on rank 0, the samples per second of every interval of ten steps, as JSON.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

INTERVAL = 10
SAMPLES = 4096


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class Block(nn.Module):
    def __init__(self, inner, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if stride > 1 or inner != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        blocks, inner = [], 16
        for stage, width in enumerate((16, 32, 64)):
            for block in range(3):
                blocks.append(Block(inner, width, 2 if stage > 0 and block == 0 else 1))
                inner = width
        self.stages, self.head = nn.Sequential(*blocks), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.stages(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in self.attn(self.ln_1(x)).chunk(3, 2))
        scores = q @ k.transpose(-2, -1) / (width / self.heads) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GptTiny(nn.Module):
    def __init__(self, length, vocabulary=256, width=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.Sequential(*(GptBlock(width, 4) for _ in range(2)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.h(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        return F.linear(self.ln_f(x), self.wte.weight)


def make(name, length):
    if name == "gpt-tiny":
        tokens = torch.randint(256, (SAMPLES, length + 1))
        return GptTiny(length), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    images, labels = torch.randn(SAMPLES, 1, 28, 28), torch.randint(10, (SAMPLES,))
    return {"lenet": LeNet, "resnet20": ResNet20}[name](), images, labels


def main():
    name, batch, steps, length = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    net, inputs, targets = make(name, length)
    net = DistributedDataParallel(net, gradient_as_bucket_view=True, static_graph=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    share, rates, began = batch // size, [], time.perf_counter()
    for step in range(steps):
        first = (step * batch + rank * share) % (SAMPLES - share)
        optimizer.zero_grad(set_to_none=False)
        output = net(inputs[first : first + share])
        F.cross_entropy(output.flatten(0, -2), targets[first : first + share].flatten()).backward()
        optimizer.step()
        if (step + 1) % INTERVAL == 0:
            now = time.perf_counter()
            rates.append(INTERVAL * batch / (now - began))
            began = now
    if rank == 0:
        print(json.dumps({"parameters": sum(p.numel() for p in net.parameters()), "samples_per_s": rates}))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
