"""Which end-to-end tests run with a sanitizer today."""


def of_file(watched, others, day):
    """The cases of one file for the day with this number. `watched` and `others`: for each test function its cases. The sample has one case
    of every second watched function, and one case of one other function. Each case is in the sample of some day."""
    chosen = [cases[day // 2 % len(cases)] for cases in watched[day % 2::2]]
    if others:
        turn, function = divmod(day, len(others))
        chosen.append(others[function][turn % len(others[function])])
    return chosen
