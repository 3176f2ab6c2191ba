"""Constraints that a user states once, planted into conversations: are they still there, word for word, later on?

An own set of wordings, none of which the library's rules or tests know. Each conversation gets four of them, as
messages of the user at fixed places; together the shared conversations use every wording. A constraint counts at each
probe after it: it is known if it stands in the context word for word, with or without line breaks.
"""

from __future__ import annotations

from collections.abc import Sequence

from chat import Chat

WORDINGS = (
    # English
    "Whatever happens, the public API must stay backwards compatible.",
    "Under no circumstances may you push to the release branch.",
    "I'm on a metered connection, so no downloads larger than 20 MB please.",
    "Keep every commit message under fifty characters.",
    "We only support Postgres 14, nothing newer.",
    "Ask me before you spend any money.",
    "The customer's name is Okonkwo-Reyes, and it has to be spelled exactly like that.",
    "My budget is capped at 740 dollars including tax.",
    "Leave the file vendor/legacy.c alone, we are audited on it.",
    "From now on answer with bullet points only.",
    "Treat anything below 0.35 as noise.",
    "I'd rather have it correct on Friday than broken today.",
    "Two of our testers are colour-blind, so do not rely on red and green.",
    "All timestamps are in UTC unless I say otherwise.",
    # German
    "Bitte nichts am Schema der Tabelle kunden_alt verändern.",
    "Wir dürfen keine personenbezogenen Daten protokollieren.",
    "Die Frist ist der 14. März, daran ist nicht zu rütteln.",
    "Verwende ausschließlich metrische Einheiten.",
    "Ohne meine Freigabe wird nichts gelöscht.",
    "Der Testlauf darf höchstens neun Minuten dauern.",
    # Spanish
    "No toques la configuración del balanceador de carga.",
    "El pedido debe entregarse en la calle Alcalá 97, no en la oficina.",
    "Prefiero volar por la mañana y con una sola escala.",
    "Solo quiero cambios que se puedan deshacer.",
    "Nunca llames al servicio de pagos desde las pruebas.",
    "Usa el usuario de solo lectura para las consultas.",
    # Chinese
    "不要修改生产环境的任何配置。",
    "总费用不能超过三千二百元。",
    "所有接口的返回值必须保持小写。",
    "请只使用已经安装的依赖。",
    "客户要求月底之前不能停机。",
    "发现敏感数据时请立即停下来告诉我。",
    # Japanese
    "本番のデータベースには絶対に接続しないでください。",
    "返信は必ず敬語でお願いします。",
    "予算は税込みで八万円までです。",
    "テストを消して通すのはやめてください。",
    "座席は通路側にしてください。",
    "このモジュールのライセンス表記は変えないこと。",
)
_PLACES = (0.05, 0.3, 0.5, 0.7)
"""Shares of the conversation after which a constraint is planted; the first is behind the first request."""


def planted(messages: Sequence[Chat], number: int) -> tuple[list[Chat], dict[int, str]]:
    """The conversation with constraints, and their places in it; `number` is the conversation's, from 0."""
    replies = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    last = len(replies) - 1
    # Before a reply all calls are answered, so a message of the user is in order there.
    places = sorted({replies[min(last, max(1, int(len(replies) * share)))] for share in _PLACES if replies})
    whole: list[Chat] = []
    where: dict[int, str] = {}
    for i, message in enumerate(messages):
        if i in places:
            wording = WORDINGS[(number * len(_PLACES) + places.index(i)) % len(WORDINGS)]
            where[len(whole)] = wording
            whole.append({"role": "user", "content": wording})
        whole.append(message)
    return whole, where


def known(constraints: Sequence[str], text: str) -> int:
    """How many of the constraints stand in a text."""
    flat = " ".join(text.split())
    return sum(" ".join(constraint.split()) in flat for constraint in constraints)
