"""One test of many small cases: it looks at each, and names all that fail.

For checks of microseconds, of which a case of pytest's own takes milliseconds.
"""


def of_each(cases, name=str):
    """Makes a test of all `cases` from a check of one, which stays at hand as `check`.

    Args:
      cases: what the check is called with.
      name: case -> how it is called in the report.
    """

    def decorate(check):
        def test():
            failures = []
            for case in cases:
                try:
                    check(case)
                except AssertionError as error:
                    failures.append(f'{name(case)}: {error}')
            assert not failures, '\n'.join([f'{len(failures)} of {len(cases)} fail', *failures])

        test.__name__, test.__doc__, test.check = check.__name__, check.__doc__, check
        return test

    return decorate
