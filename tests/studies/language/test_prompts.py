"""The prompts of the study: enough of each sort, in two halves, each with a cause that stands in it."""

from collections import Counter

from leastpath.language.prompts import WORDS
from studies.language.prompts import TABLES, all_cases


def test_sixty_prompts_in_five_sorts_and_two_halves():
    cases = all_cases()
    assert len(cases) >= 60 and len({case.key for case in cases}) == len(cases)
    halves = Counter((case.sort, case.half) for case in cases)
    assert len(halves) == 2 * len(TABLES) == 10 and min(halves.values()) >= 5


def test_every_cause_is_a_word_of_its_prompt_and_not_all_are():
    for case in all_cases():
        words = WORDS.findall(case.prompt)
        assert set(case.causes) <= set(words) and len(set(words)) > len(case.causes) and case.answer != case.foil
