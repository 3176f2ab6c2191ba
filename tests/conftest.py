"""Hypothesis draws few examples unless `--hypothesis-profile` asks for more."""

from hypothesis import settings

import tests.profiles  # noqa: F401 (registers them)

settings.load_profile("quick")
