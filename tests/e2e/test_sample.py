"""The sample of the tests that run with a sanitizer."""

import pytest
import sample


@pytest.mark.parametrize(("watched", "others"), [([1], []), ([2, 4, 3, 6], []), ([], [1]), ([], [2, 4, 3, 6]), ([2, 1, 8], [3, 6, 9])], ids=str)
def test_each_case_of_each_test_is_in_the_sample_of_some_day(watched, others):
    def cases(kind, numbers):
        return [[(kind, function, case) for case in range(number)] for function, number in enumerate(numbers)]
    files = cases("watched", watched), cases("other", others)
    seen = {case for day in range(20787, 20787 + 60) for case in sample.of_file(*files, day)}
    assert seen == {case for kind in files for function in kind for case in function}


def test_the_sample_of_a_day_has_one_case_of_every_second_watched_function_and_one_case_of_one_other_function():
    watched, others = [["a1", "a2"], ["b1", "b2"], ["c1"]], [["d1"], ["e1", "e2"]]
    assert [sample.of_file(watched, others, day) for day in (0, 1, 2, 3)] == [["a1", "c1", "d1"], ["b1", "e1"], ["a2", "c1", "d1"], ["b2", "e2"]]
