"""How tests are dealt to processes."""

import pytest


def test_tests_that_share_programs_have_one_process(request):
    """Their group is in the id of a test; else they are dealt in turn, and nothing says so."""
    if not getattr(request.config.option, 'loadgroup', False):
        pytest.skip('needs -n 2 --dist loadgroup')
    assert request.node.nodeid.endswith('@tests/test_groups.py')
