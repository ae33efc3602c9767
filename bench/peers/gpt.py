"""GPT-2 in PyTorch, as bench/gpt compares Trireme with it: eager or compiled, fused AdamW, bf16 by autocast,
vocabulary padded as its users do. Prints the step time as JSON."""

import argparse
import json
import statistics
import time

import numpy
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = [part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                 for part in self.qkv(self.ln_1(x)).split(width, 2)]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, context=1024, vocabulary=50304):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--mode", choices=["eager", "default", "max-autotune"], required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    tokens = torch.from_numpy(numpy.fromfile(arguments.data, dtype=numpy.uint16).astype(numpy.int64)).cuda()
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.999), weight_decay=0.1, fused=True)
    compute = model if arguments.mode == "eager" else torch.compile(model, mode=arguments.mode)
    times, losses = [], []
    window = arguments.length + 1
    for step in range(arguments.steps):
        begin = step * arguments.batch * window
        rows = tokens[begin:begin + arguments.batch * window].view(arguments.batch, window)
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = compute(rows[:, :-1], rows[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times[len(times) // 3:])
    print(json.dumps({"mode": arguments.mode, "ms": 1000 * seconds,
                      "tokens_per_s": arguments.batch * arguments.length / seconds,
                      "loss": losses[:50:10] + losses[-1:],
                      "peak_gib": torch.cuda.max_memory_allocated() / 2**30}))


if __name__ == "__main__":
    main()
