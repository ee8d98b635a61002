"""Scores batches with the decoder, as a service does; with packages, by turns with them and without.

Prints the ms a batch of each turn as JSON when it is given packages.
"""

import argparse
import json
import time

import torch
from data import batches
from model import SIZES, Decoder
from patches import put_in


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def timed(model, inputs, device):
    """ms a batch."""
    wait(device)
    began_s = time.perf_counter()
    for ids in inputs:
        model(ids)
    wait(device)
    return 1e3 * (time.perf_counter() - began_s) / len(inputs)


@torch.no_grad()
def by_turns(model, inputs, device, packages, num_turns):
    """The order of the two changes from turn to turn, so that a drift hits both; the first of each warm up."""
    before, after, places, away = [], [], [], 0.0
    expected = model(inputs[0])
    for turn in range(num_turns + 1):
        for is_patched in (False, True) if turn % 2 else (True, False):
            done = put_in(model, packages) if is_patched else {}
            found = model(inputs[0])
            ms = timed(model, inputs, device)
            if turn:
                (after if is_patched else before).append(ms)
            if is_patched:
                places, away = [*done], max(away, (found - expected).abs().max().item())
            for patched in done.values():
                patched.undo()
    return {"before_ms": before, "after_ms": after, "patched": places, "max_difference": away}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--packages", nargs="*", default=[])
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    config = SIZES[options.size]
    model = Decoder(config).to(options.device).eval()
    inputs = [ids for ids, _ in batches(config, 2, options.batches, options.device)]
    if options.packages:
        print(json.dumps(by_turns(model, inputs, options.device, options.packages, options.turns)))
        return
    with torch.no_grad():
        timed(model, inputs, options.device)


if __name__ == "__main__":
    main()
