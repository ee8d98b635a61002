"""The planted corpus on a GPU: every verdict is right."""

import json
import subprocess
import sys

import pytest

from kevin_cli.corpus import read_corpus

KEVIN = "from kevin_cli.app import main; main()"
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]


def test_every_verdict_on_the_cuda_corpus_is_right(tmp_path):
    command = [sys.executable, "-c", KEVIN, "selftest", "--device", "cuda", "--json", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    off = [(row["id"], row["outcome"], row["detail"]) for row in told["rows"] if not row["is_right"]]
    assert off == []
    assert len(told["rows"]) == len([planted for planted in read_corpus() if planted.runs_on("cuda")])
    assert done.returncode == 0
