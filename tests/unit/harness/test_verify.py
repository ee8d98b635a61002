"""The plan of the integrity pass: secret, with fresh weights, and the first inputs once more at the end."""

from kevin_cli.harness.faults import clean, last_line
from kevin_cli.harness.verify import USER, VALUE_STRATA, plan_rounds, skipped_when_slow


def test_seeds_are_secret_and_many():
    rounds, again = plan_rounds(has_weights=True), plan_rounds(has_weights=True)
    seeds = {turn.seed for turn in rounds}
    assert len(seeds) >= 5
    assert not seeds & {turn.seed for turn in again}


def test_all_kinds_of_values_are_shown():
    assert {turn.stratum for turn in plan_rounds(has_weights=False)} == {USER, *VALUE_STRATA}


def test_two_rounds_have_weights_of_their_own_and_the_user_s_come_back():
    fresh = [turn.fresh_weights for turn in plan_rounds(has_weights=True)]
    assert len({seed for seed in fresh if seed is not None}) == 2
    assert fresh[0] is None
    assert fresh[-1] is None


def test_without_weights_none_are_drawn():
    assert {turn.fresh_weights for turn in plan_rounds(has_weights=False)} == {None}


def test_the_first_inputs_come_again_with_the_other_poison():
    rounds = plan_rounds(has_weights=True)
    assert (rounds[0].seed, rounds[0].stratum) == (rounds[-1].seed, rounds[-1].stratum)
    assert len(rounds) % 2 == 0, "poison alternates, so first and last differ"


def test_where_rounds_take_long_some_kinds_of_values_are_left_out_each_time_others():
    rounds = plan_rounds(has_weights=True)
    left_out = {tuple(turn.stratum for turn in skipped_when_slow(rounds)) for _ in range(20)}
    assert len(left_out) > 1
    assert all(len(strata) % 2 == 0 and len(strata) <= len(VALUE_STRATA) - 3 for strata in left_out)
    assert all(set(strata) <= set(VALUE_STRATA) for strata in left_out)


def test_text_from_a_candidate_is_capped_and_has_no_control_characters():
    text = clean("\x1b[31mred\x1b[0m\x00 line\n" + "x" * 10_000, 100)
    assert "\x1b" not in text
    assert "\x00" not in text
    assert text.startswith("red line")
    assert len(text) < 120


def test_the_last_line_of_a_traceback_says_what_happened():
    assert last_line("Traceback:\n  File x\nValueError: not today\n\n") == "ValueError: not today"
