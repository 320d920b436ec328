"""PyTorch's side of the benches of tests/gpu/run. Each line on stdin asks for a round, which answers with one line of JSON, as
tests/bench/mlk_gpu.cpp does. The first line on stdout names the device.

    torch_gpu.py gpt|mlp|attention [--tiny]

gpt        GPT-2 124M with bfloat16 by autocast, torch.compile, its fused attention and fused AdamW: {"tokens a second": N}
mlp        [512,512] with batches of 128, its whole step as a CUDA graph, its data on the device: {"steps a second": N}
attention  scaled_dot_product_attention of 12 heads of 64 numbers, 1024 positions, bfloat16: {"forward ms, cudnn": N, ...}
--tiny: small sizes on the CPU, which show only that the program runs.

Nothing waits for the device between the steps of a round. Our side waits for the loss of each.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

TINY = "--tiny" in sys.argv
DEVICE = torch.device("cpu" if TINY else "cuda")


def size(real, small):
    return small if TINY else real


def wait():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def seconds_of(repetitions, work):
    work()
    wait()
    begin = time.perf_counter()
    for _ in range(repetitions):
        work()
    wait()
    return (time.perf_counter() - begin) / repetitions


LAYERS, WIDTH, HEADS, CONTEXT = size(12, 1), size(768, 64), size(12, 1), size(1024, 32)
SEQUENCES, VOCABULARY = size(32, 1), size(50304, 96)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.expansion, self.contraction = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(WIDTH, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.projection(attended)
        return x + self.contraction(F.gelu(self.expansion(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, 0, 0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)  # tied
        return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1))


def gpt():
    torch.set_float32_matmul_precision("high")
    model = Gpt().to(DEVICE)
    # "eager" traces the model like the default, and compiles no code.
    compiled = torch.compile(model, backend=size("inductor", "eager"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)

    def step():
        text = torch.randint(0, VOCABULARY, (SEQUENCES * CONTEXT + 1,)).to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = compiled(text[:-1].view(SEQUENCES, CONTEXT), text[1:].view(SEQUENCES, CONTEXT))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return lambda: {"tokens a second": SEQUENCES * CONTEXT / seconds_of(size(10, 1), step)}


def mlp():
    inputs, classes, samples, batch = 28 * 28, 10, size(8192, 64), size(128, 8)
    hidden = size(512, 16)
    pixels = torch.randint(0, 256, (samples, inputs), dtype=torch.uint8, device=DEVICE)
    labels = torch.randint(0, classes, (samples,), device=DEVICE)
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True, capturable=DEVICE.type == "cuda")
    ids = torch.zeros(batch, dtype=torch.int64, device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(pixels[ids].float().mul_(1 / 255)), labels[ids]).backward()
        optimizer.step()

    replay = graph_of(step) if DEVICE.type == "cuda" else step

    def whole_step():
        chosen = torch.randint(0, samples, (batch,), pin_memory=DEVICE.type == "cuda")
        ids.copy_(chosen, non_blocking=True)
        replay()

    return lambda: {"steps a second": 1 / seconds_of(size(2000, 3), whole_step)}


def graph_of(step):
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def attention():
    shape = (size(16, 1), size(1024, 32), size(12, 1), 64)
    q, k, v, delta = (torch.randn(shape, dtype=torch.bfloat16, device=DEVICE).transpose(1, 2) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}

    def of(backend):
        with sdpa_kernel([backend]):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)

            def forward():
                with torch.no_grad():
                    F.scaled_dot_product_attention(q, k, v, is_causal=True)

            forward_ms = 1000 * seconds_of(size(20, 1), forward)
            backward_ms = 1000 * seconds_of(size(20, 1), lambda: torch.autograd.grad(out, (q, k, v), delta, retain_graph=True))
        return forward_ms, backward_ms

    def one_round():
        found = {}
        for name, backend in backends.items():
            try:
                found[f"forward ms, {name}"], found[f"backward ms, {name}"] = of(backend)
            except RuntimeError:  # this device has none
                continue
        return found

    return one_round


def main():
    torch.manual_seed(1)
    one_round = {"gpt": gpt, "mlp": mlp, "attention": attention}[sys.argv[1]]()
    one_round()
    name = "CPU" if TINY else torch.cuda.get_device_name()
    print(f"PyTorch {torch.__version__} on {name}", flush=True)
    for _ in sys.stdin:
        found = one_round()
        assert all(math.isfinite(number) for number in found.values())
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
