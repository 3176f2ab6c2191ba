"""Older images and files give way to lines that name them, where one request has too many, or too many bytes.

It calls no model, and runs before all other steps of a pass. Several images go at once, so that the provider's prompt
cache breaks once in several images and not at each one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autocontext.config import AutoContextConfig
from autocontext.events import IMAGES_LEFT_OUT
from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.messages import FILE, ImageBlock, Msg, TextBlock
from autocontext.notes.writer import NoteWriter
from autocontext.strategies.selection import stays
from autocontext.text import rendering
from autocontext.tokens.media import described
from autocontext.tokens.request_size import (
    Place,
    RequestSize,
    block_size,
    data_in,
    is_image,
    over_limit,
    request_limits,
)

TOKENS_OF_LINE = 160
"""A line may cost more tokens than its image, as some counters count images; at most this."""
_LINE = 400
"""Bytes of a line in a request, at most."""


@dataclass(frozen=True, slots=True)
class _Image:
    index: int
    """Of its message in the view."""
    place: Place
    block: ImageBlock | TextBlock
    """A text carries a file, or an image that the provider made, along."""
    gain: int
    """Bytes that leave the request if a line stands in its place."""
    counts: bool
    """Whether it is an image, of which only so many may be in a request."""

    @property
    def line(self) -> tuple[str, str]:
        """What stands in its place: a description, and its kind."""
        if isinstance(self.block, ImageBlock):
            return described(self.block), "image"
        return self.block.metadata[FILE]["what"], self.block.metadata[FILE]["kind"]


@dataclass
class Images:
    """Replaces images, and where there are too many bytes files, oldest first, until half of what is allowed remains.

    The newest stay; so do those of the user's last message before others, and those that the model has not answered
    yet, as long as the bytes allow. Images that it has not answered also stay where no more than the bytes of what has
    to stay are too many. Such are files that it has not answered, and the newest: without it a question about it has no
    answer. System and pinned messages and those of protected tools stay as they are.
    """

    name = "images"
    config: AutoContextConfig
    size_of: Callable[[str, Msg], RequestSize]
    """Measures a message of the view by its id."""
    hand_over: NoteWriter | None = None
    """Knows its number."""

    def leaving(self, view: View) -> list[_Image]:
        """The images that have to give way, in order."""
        total = RequestSize()
        for id_, m in zip(view.ids, view.messages, strict=True):
            total = total.plus(self.size_of(id_, m))
        if not over_limit(total, self.config):
            return []
        keep = stays(self.config, view, reloads=False)
        movable = [
            _Image(i, place, block, block_size(block) - _LINE, is_image(block))
            for i, (id_, m) in enumerate(zip(view.ids, view.messages, strict=True))
            if not keep(m) and self.size_of(id_, m).may_leave
            for place, block in data_in(m)
        ]
        files = [image for image in movable if not image.counts]
        fixed = {image.index for image in files if image is files[-1] or image.index > view.latest_word}
        movable = [image for image in movable if image.counts or image.index not in fixed]
        kept = self._kept(view, movable, total)
        return [image for n, image in enumerate(movable) if n not in kept]

    def _kept(self, view: View, movable: list[_Image], total: RequestSize) -> set[int]:
        """Which of the movable images stay, by their places in the list."""
        most, room = request_limits(self.config)
        images = total.images - sum(image.counts for image in movable)
        size = total.size - sum(image.gain for image in movable)
        few = (most + 1) // 2 if total.images > most else most
        little = min(room, size + max(0, room - size) // 2) if total.size > room else room
        unseen = view.latest_word + 1
        hopeless = size > room
        kept: set[int] = set()
        for n in _by_worth(view, movable, unseen):
            image = movable[n]
            number, space = (few, little) if kept else (most, room)
            if image.index >= unseen and most > 0:
                stays_in_view = hopeless or size + image.gain <= room
            else:
                stays_in_view = (images < number or not image.counts) and size + image.gain <= space
            if stays_in_view:
                kept.add(n)
                images, size = images + image.counts, size + image.gain
        return kept

    def propose(self, view: View) -> list[Proposal]:
        """One message without some of its images for each that has to give up some."""
        by_message: dict[int, dict[Place, str]] = defaultdict(dict)

        def number(i: int) -> int | None:
            return self.hand_over.number(view.ids[i]) if self.hand_over else None

        for image in self.leaving(view):
            by_message[image.index][image.place] = rendering.media_left_out(number(image.index), *image.line)
        return [
            Proposal(view.span(i, i + 1), images=lines, event_type=IMAGES_LEFT_OUT, kind="stub", number=number(i))
            for i, lines in by_message.items()
        ]


def _by_worth(view: View, images: list[_Image], unseen: int) -> Iterable[int]:
    """Places in the list: what the model has not seen, the newest, those of the user's last message, then the rest."""
    newest_first = range(len(images) - 1, -1, -1)
    ranks = {n: 2 if images[n].index != view.latest_user else 1 for n in newest_first}
    ranks.update((n, 0) for n in newest_first if images[n].index >= unseen)
    if images:
        ranks[len(images) - 1] = 0
    return sorted(newest_first, key=ranks.__getitem__)
