"""Prunes a history before it is sent, without a model: stores large old texts and replaces them by handles.

Only texts change: no message, call, result or image is removed. Your messages stay as they are; send the pruned copy
and keep the originals. A pruned block has `pruned` in its metadata and does not change again, so pruning a pruned
history changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from autocontext import flows
from autocontext.content.paging import packed
from autocontext.content.planning import PRUNED, Change, Kind, Place, planned, texts
from autocontext.content.policy import PrunePolicy, checked_policy
from autocontext.content.store import ContentStore, checked_content_store
from autocontext.errors import ConfigError, StoreCorruptError, told
from autocontext.messages import Msg, ToolResultBlock, as_messages, freeze


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Texts by kind: old results replaced, recent results cut, users' messages cut, reloaded pages replaced."""

    old_tool: int = 0
    recent_tool: int = 0
    user: int = 0
    page: int = 0
    failed: tuple[str, ...] = ()
    """Errors of the store. The texts that it did not take are unchanged."""

    @property
    def changed(self) -> int:
        """Number of texts replaced or cut."""
        return self.old_tool + self.recent_tool + self.user + self.page

    def __str__(self) -> str:
        done = ", ".join(f"{getattr(self, kind)} {kind}" for kind in ("old_tool", "recent_tool", "user", "page"))
        return f"{self.changed} texts replaced ({done})" + "".join(f"; kept: {why}" for why in self.failed)


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The pruned copy of a history, and a report."""

    messages: list[Msg]
    chars_before: int
    """Characters of texts and results; arguments of calls and thinking are not counted."""
    chars_after: int
    refs: tuple[str, ...] = ()
    """The handles that replace texts, each once, in order."""
    report: PruneReport = field(default_factory=PruneReport)

    @property
    def reduction(self) -> float:
        """The share of characters removed, 0.0 to 1.0."""
        return 1 - self.chars_after / self.chars_before if self.chars_before else 0.0


class Known:
    """A cache for pruning the same history again as it grows: handles, sizes and shortened messages.

    It belongs to one store and namespace, and forgets what a call did not use.
    """

    def __init__(self) -> None:
        self._now: dict[tuple[str, ...], Any] = {}
        self._before: dict[tuple[str, ...], Any] = {}

    def begin(self) -> None:
        """Start a call; forget what the previous call did not use."""
        self._now, self._before = {}, self._now

    def tokens(self, policy: PrunePolicy, text: str) -> int:
        """Tokens of a text, by the policy's counter."""
        size: int | None = self._get("tokens", text)
        if size is None:
            size = self._now["tokens", text] = policy.tokens(text)
        return size

    def ref(self, text: str) -> str:
        """The handle of a text; "" for an unknown one."""
        return self._get("ref", text) or ""

    def learn(self, text: str, ref: str) -> None:
        """Remember that a text is in the store."""
        self._now["ref", text] = ref

    @property
    def refs(self) -> frozenset[str]:
        """The handles of the previous call."""
        return frozenset(ref for key, ref in self._now.items() if key[0] == "ref")

    def forget(self, refs: Collection[str]) -> None:
        """Forget handles that lead nowhere any more: their texts are stored again."""
        self._now = {key: value for key, value in self._now.items() if key[0] != "ref" or value not in refs}

    def shortened(self, msg: Msg, texts: Sequence[str], make: Callable[[], Msg]) -> Msg:
        """The message with these texts: the same object as in the previous call if the message has not changed."""
        pair: tuple[Msg, Msg] | None = self._get("message", msg.id, *texts)
        if pair is None or pair[0] is not msg:
            pair = self._now["message", msg.id, *texts] = msg, make()
        return pair[1]

    def _get(self, *key: str) -> Any:
        value = self._now.get(key)
        if value is None and (value := self._before.get(key)) is not None:
            self._now[key] = value
        return value


def prune_messages(
    msgs: Sequence[Msg],
    *,
    store: ContentStore | None,
    policy: PrunePolicy | None = None,
    namespace: str = "",
    known: Known | None = None,
) -> PruneResult:
    """A copy of the history in which handles of the content store replace large old texts.

    Each text is stored before it is replaced. If the store fails, the text stays and the report says why; without a
    store nothing is replaced. Pass the same `known` at each call, and a growing history costs only what is new.
    Anything but a list or tuple is returned unchanged.
    """
    flow = _pruned("prune_messages", msgs, store, policy, namespace=namespace, known=known or Known())
    return flows.run(flow, flows.do)


async def aprune_messages(
    msgs: Sequence[Msg],
    *,
    store: ContentStore | None,
    policy: PrunePolicy | None = None,
    namespace: str = "",
    known: Known | None = None,
) -> PruneResult:
    """`prune_messages` without blocking the event loop."""
    flow = _pruned("aprune_messages", msgs, store, policy, namespace=namespace, known=known or Known())
    return await flows.arun(flow, flows.ado)


def restore_messages(
    msgs: Sequence[Msg], *, store: ContentStore, reload: Callable[..., str] | None = None, namespace: str = ""
) -> list[Msg]:
    """The messages as they were before pruning, byte for byte.

    `reload` is the reload tool, needed if pages that it returned were pruned: ConfigError without it. Raises
    StoreCorruptError if the store does not have a text any more, or another text in its place.
    """
    read_page = getattr(reload, "page", reload)  # the tool itself says of some pages only where they stand

    def original(mark: dict[str, Any], _text: str) -> str:
        ref = str(mark["ref"])
        if "arguments" in mark:
            if read_page is None:
                raise ConfigError(f"restore_messages: pass reload=, as a page of {ref} from context_reload was pruned")
            text = read_page(ref, **mark["arguments"])
        else:
            page = store.read(ref, namespace=namespace)
            text = "" if page is None else page.text
        if packed(text).sha256 != mark["sha256"]:
            raise StoreCorruptError(
                f"content {ref} is not in this store as it was when the message was pruned; "
                "pass the store and namespace of that time"
            )
        return text

    return [_restored(m, original) for m in as_messages(msgs)]


def unmarked(msgs: Sequence[Msg]) -> list[Msg]:
    """The messages with their texts as they stand: what an earlier pruning left of one counts as a text of its own."""
    return [_restored(m, lambda _mark, text: text) for m in msgs]


def reloaded(originals: Sequence[Msg], pruned: Sequence[Msg]) -> Iterator[str]:
    """The pages of the reload tool that a pruning has replaced, in order; no store has them."""
    for before, after in zip(originals, pruned, strict=True):
        for (_, text, _), (*_, metadata) in zip(texts(before), texts(after), strict=True):
            if isinstance(mark := metadata.get(PRUNED), dict) and "arguments" in mark:
                yield text


def chars_of(msgs: Sequence[Msg]) -> int:
    """Characters of the texts and results in messages."""
    return sum(len(text) for m in msgs for _, text, _ in texts(m))


def _there(store: ContentStore | None) -> ContentStore:
    if store is None:
        raise LookupError("there is no content store")
    return store


def _pruned(
    owner: str,
    msgs: Sequence[Msg],
    store: ContentStore | None,
    policy: PrunePolicy | None,
    *,
    namespace: str,
    known: Known,
) -> flows.Flow[PruneResult]:
    """The flow of a pruning. Raises ConfigError for a store or a policy that is none."""
    if store is not None:
        checked_content_store(store, owner)
    policy = PrunePolicy() if policy is None else checked_policy(f"{owner}.policy", policy)
    if not isinstance(msgs, list | tuple):
        return PruneResult(cast("list[Msg]", msgs), 0, 0)
    known.begin()
    messages = list(as_messages(msgs))
    before, saved = chars_of(messages), 0
    done: dict[Kind, int] = {}
    failed: dict[str, None] = {}
    chosen: dict[int, list[tuple[Change, str]]] = {}
    for change in planned(messages, policy, partial(known.tokens, policy)):
        ref = change.ref or known.ref(change.text)
        if not ref:
            try:
                info = yield flows.method(_there(store), "put", change.text, name=change.name, namespace=namespace)
                ref = str(info.ref)
            except Exception as e:  # noqa: BLE001 (whatever a store raises: the text stays, the turn goes on)
                failed[told(e)] = None
                continue
            known.learn(change.text, ref)
        if (shorter := len(change.text) - len(change.replacement(ref))) > 0:
            saved += shorter
            chosen.setdefault(change.place.message, []).append((change, ref))
            done[change.kind] = done.get(change.kind, 0) + 1
    for i, changes in chosen.items():
        new = [change.replacement(ref) for change, ref in changes]
        messages[i] = known.shortened(messages[i], new, partial(_shortened, messages[i], changes))
    refs = dict.fromkeys(ref for changes in chosen.values() for _, ref in changes)
    report = PruneReport(**done, failed=tuple(failed))
    return PruneResult(messages, before, before - saved, tuple(refs), report)


def _shortened(msg: Msg, changes: Sequence[tuple[Change, str]]) -> Msg:
    for change, ref in changes:
        sha256 = packed(change.text).sha256 if change.mark is None else change.mark["sha256"]
        mark = {"ref": ref, "chars": change.chars, "sha256": sha256}
        if change.arguments is not None:
            mark["arguments"] = change.arguments
        if change.head and change.kind == "recent_tool":
            mark["head"] = len(change.head)
        msg = _with(msg, change.place, change.replacement(ref), mark)
    return msg


def _restored(msg: Msg, original: Callable[[dict[str, Any], str], str]) -> Msg:
    for place, text, metadata in texts(msg):
        if isinstance(mark := metadata.get(PRUNED), dict):
            msg = _with(msg, place, original(mark, text), None)
    return msg


def _with(msg: Msg, place: Place, text: str, mark: dict[str, Any] | None) -> Msg:
    """The message with another text in one place, and with this mark of pruning or without one."""

    def changed(holder: Any, field: str) -> Any:
        metadata = {**holder.metadata, PRUNED: mark}
        if mark is None:
            del metadata[PRUNED]
        return holder.model_copy(update={field: text, "metadata": freeze(metadata)})

    block: Any = msg.content[place.block]
    if place.inner is not None:
        output = list(block.output)
        output[place.inner] = changed(output[place.inner], "text")
        new = block.model_copy(update={"output": tuple(output)})
    else:
        new = changed(block, "output" if isinstance(block, ToolResultBlock) else "text")
    content = (*msg.content[: place.block], new, *msg.content[place.block + 1 :])
    return msg.model_copy(update={"content": content})
