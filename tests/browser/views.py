"""Marks that run a test of the fixture `panel` in several views of it."""

from itertools import product

import pytest

from tests.browser.chromium import View

ENGLISH, CHINESE = "en-US", "zh-CN"
EVERY_VIEW = [View(*which) for which in product((ENGLISH, CHINESE), (False, True), (False, True))]


def seen_as(*views: View) -> pytest.MarkDecorator:
    """In each of these views."""
    return pytest.mark.parametrize("panel", views, indirect=True, ids=str)


in_both_languages = seen_as(View(ENGLISH), View(CHINESE))
at_both_widths = seen_as(View(), View(phone=True))
in_both_languages_at_both_widths = seen_as(*(view for view in EVERY_VIEW if not view.dark))
in_every_view = seen_as(*EVERY_VIEW)
