"""Trains the decoder and prints, as JSON, the losses of training and those of validation, which needs no gradients."""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from data import batches
from model import SIZES, Decoder
from patches import put_in


def loss_of(model, ids, following):
    return F.cross_entropy(model(ids).flatten(0, 1), following.flatten())


@torch.no_grad()
def validated(model, config, device):
    model.eval()
    losses = [loss_of(model, *batch).item() for batch in batches(config, 1, 2, device)]
    model.train()
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--packages", nargs="*", default=[])
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    config = SIZES[options.size]
    model = Decoder(config).to(options.device)
    done = put_in(model, options.packages)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    trained, valid = [], []
    began_s = time.perf_counter()
    for step, batch in enumerate(batches(config, 0, options.steps, options.device)):
        loss = loss_of(model, *batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trained.append(loss.item())
        if step % 4 == 3:
            valid.append(validated(model, config, options.device))
    print(json.dumps({"train": trained, "valid": valid, "wall_s": time.perf_counter() - began_s, "patched": [*done]}))


if __name__ == "__main__":
    main()
