"""Text of a random language in which the next token depends on the last one."""

import torch


def batches(config, seed, num, device):
    """`num` times (ids, what comes next), the same for equal seeds."""
    generator = torch.Generator().manual_seed(1234)
    following = torch.randint(config.vocabulary, (config.vocabulary, 4), generator=generator)
    generator.manual_seed(seed)
    for _ in range(num):
        text = torch.randint(config.vocabulary, (config.batch, 1), generator=generator)
        choices = torch.randint(4, (config.batch, config.length), generator=generator)
        rows = [text[:, 0]]
        for place in range(config.length):
            rows.append(following[rows[-1], choices[:, place]])
        text = torch.stack(rows, 1)
        yield text[:, :-1].contiguous().to(device), text[:, 1:].contiguous().to(device)
