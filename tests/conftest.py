"""Hypothesis profiles: a quick one for every run, a thorough one for `--hypothesis-profile=thorough`."""

from hypothesis import HealthCheck, Phase, settings

# Conversations are large values, and how long a pass over one takes depends on what else the machine does.
_COMMON = {"deadline": None, "suppress_health_check": (HealthCheck.too_slow, HealthCheck.data_too_large)}

settings.register_profile("quick", max_examples=40, stateful_step_count=30, **_COMMON)
settings.register_profile("thorough", max_examples=1_000, stateful_step_count=60, **_COMMON)
# For mutation runs: the same examples every time, and a failure need not be made small.
_FOUND = (Phase.explicit, Phase.generate)
settings.register_profile(
    "mutation", max_examples=15, stateful_step_count=20, derandomize=True, database=None, phases=_FOUND, **_COMMON
)
settings.load_profile("quick")
