"""How many examples Hypothesis draws: few in every run, more in CI, many on demand.

`--hypothesis-profile=NAME` selects another profile than `quick`. `quick` and `full`, the one of CI, draw the same
examples every time: chance does not decide whether a run is green. `thorough` draws new ones; what it finds becomes an
`@example`.
"""

from hypothesis import HealthCheck, Phase, settings

# Conversations are large values, and how long a pass over one takes depends on what else the machine does.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
_COMMON = {"deadline": None, "suppress_health_check": _SLOW}
WITH_FIXTURES = (*_SLOW, HealthCheck.function_scoped_fixture)
"""What a test suppresses whose examples may share a fixture: what it names replaces what the profile names."""
_FULL = 40

settings.register_profile("quick", max_examples=6, stateful_step_count=20, derandomize=True, **_COMMON)
settings.register_profile(
    "full", max_examples=_FULL, stateful_step_count=30, derandomize=True, print_blob=True, **_COMMON
)
settings.register_profile("thorough", max_examples=1_000, stateful_step_count=60, print_blob=True, **_COMMON)
# For mutation runs: the same examples every time, without shrinking.
_FOUND = (Phase.explicit, Phase.generate)
settings.register_profile(
    "mutation", max_examples=15, stateful_step_count=20, derandomize=True, database=None, phases=_FOUND, **_COMMON
)


def share(examples: int) -> int:
    """The number of examples in the current profile, at least 1; `examples` is the number for profile `full`."""
    return max(1, examples * settings().max_examples // _FULL)
