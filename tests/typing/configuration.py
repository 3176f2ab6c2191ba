"""The configuration as a user writes it: fields and builder methods are known to type checkers and editors."""

from typing import assert_type

from autocontext import AutoContextConfig, PromptConfig
from autocontext.config import ConfigBuilder
from autocontext.prices import Prices

assert_type(AutoContextConfig.builder().msg_threshold(30).last_keep(10), ConfigBuilder)
assert_type(AutoContextConfig.builder().max_token(9).build(), AutoContextConfig)
assert_type(AutoContextConfig.for_window("16k"), AutoContextConfig)
assert_type(AutoContextConfig.builder(AutoContextConfig.for_window("16k")).last_keep(3).build(), AutoContextConfig)
assert_type(AutoContextConfig.builder().msgThreshold(30).compressionTimeoutMillis(9_000), ConfigBuilder)
AutoContextConfig(max_token=16_000, last_keep=10, token_counter="bytes4")  # noqa: S106 (no password)

AutoContextConfig(max_tokens=16_000)  # type: ignore[call-arg]
AutoContextConfig(max_token="many")  # type: ignore[arg-type]  # noqa: S106
AutoContextConfig.builder().max_tokens(3)  # type: ignore[attr-defined]
AutoContextConfig.builder().msg_threshold("many")  # type: ignore[arg-type]
AutoContextConfig.builder().keepUnread(False)  # type: ignore[attr-defined]
AutoContextConfig.builder().lastKeep("many")  # type: ignore[arg-type]
Prices(input=3.0, inptu=0.3)  # type: ignore[call-arg]
PromptConfig(folds="")  # type: ignore[call-arg]
