"""The planted corpus as data: enough of everything, each bug a change that applies once, every head readable."""

from collections import Counter

import pytest

from kevin_cli.corpus import HERE, KINDS, STOPPED, read_corpus, task_path
from kevin_cli.types import Outcome

CORPUS = {kind: read_corpus([kind]) for kind in KINDS}
ON_CPU = {kind: [planted for planted in found if planted.runs_on("cpu")] for kind, found in CORPUS.items()}
OUTCOMES = {outcome.value for outcome in Outcome}


def test_there_is_enough_of_each_kind():
    assert len(ON_CPU["wrong"]) >= 100
    assert len(ON_CPU["hostile"]) >= 60
    assert len(ON_CPU["honest"]) >= 60


def test_the_bugs_cover_operators_and_families():
    assert len({planted.task for planted in ON_CPU["wrong"]}) >= 8
    families = Counter(planted.family for planted in ON_CPU["wrong"])
    assert set(families) == {"boundary", "precision", "synchronisation", "indexing", "semantics", "state"}
    assert min(families.values()) >= 5


def test_the_hostile_programs_cover_every_family_of_attack():
    families = Counter(planted.family for planted in ON_CPU["hostile"])
    assert set(families) >= {
        *("answer_theft", "stale_memory", "patched_interpreter", "timing", "caching"),
        *("environment", "build_time", "protocol"),
    }
    assert min(families.values()) >= 5


def test_every_program_has_a_name_of_its_own():
    ids = Counter(planted.id for found in CORPUS.values() for planted in found)
    assert [name for name, times in ids.items() if times > 1] == []


def test_no_two_programs_are_the_same():
    sources = Counter((planted.task, planted.source) for found in CORPUS.values() for planted in found)
    assert max(sources.values()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_heads_name_outcomes_and_tasks_that_exist(kind):
    for planted in CORPUS[kind]:
        assert planted.expect <= OUTCOMES, planted.id
        assert planted.expect, planted.id
        assert task_path(planted.task).is_file(), planted.id
        assert planted.device in ("cpu", "cuda", "any"), planted.id


def test_honest_programs_are_correct_and_bugs_are_not():
    assert all(planted.expect == {"correct"} for planted in CORPUS["honest"])
    assert all(planted.expect == STOPPED for planted in CORPUS["wrong"])


def test_every_bug_says_on_what_it_is_wrong():
    assert all(planted.witness is not None and planted.witness.words for planted in CORPUS["wrong"])


def test_every_program_is_python():
    for found in CORPUS.values():
        for planted in found:
            compile(planted.source, planted.id, "exec")


def test_the_corpus_lies_inside_the_package():
    assert HERE.parent.name == "kevin_cli"
