"""Words that say nothing about the subject of a text: English, Chinese, Japanese, Korean."""

from __future__ import annotations

import re
from functools import cache

from autocontext.text.stems import stem

_ENGLISH = """
a an the this that these those there here it its it's he she they them their theirs his her hers him we us our ours
you your yours i me my mine myself yourself himself herself itself themselves ourselves be am is are was were been
being have has had having do does did done doing will would shall should can could might must ought cannot let lets
and or but nor so yet if then else than because as of at by for with about against between into through during before
after above below to from up down in out on off over under again further once while until what which who whom whose
when where why how all any both each few more most other some such no not only own same too very just also still even
ever never s t d ll m re ve don don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't wouldn't
shouldn't haven't hasn't hadn't i'm i've i'd i'll you're you've you'd you'll he's she's it'll we're we've we'd we'll
they're they've that's there's what's who's how's where's let's yes yeah yep oh ah hey hi hello wow ok okay please
thanks thank well really quite like got get gets getting etc eg ie via per use uses used using much many lot lots
thing things something anything everything someone anyone
"""
STOP_WORDS = frozenset(_ENGLISH.split())
"""English stop words in lower case; question words, courtesies and "use" among them."""

_LIGHT = """
go come make take see know think want need look find give tell say talk work call try ask feel become leave put mean
keep begin seem help show start happen let turn bring hear bit way kind type sort part good great nice new big first
last next time day today people name
"""
LIGHT_WORDS = frozenset(map(stem, _LIGHT.split()))
"""Stems of words that say little: they fit any subject."""

_HAN = """
什么 怎么 怎样 怎么样 如何 为什么 为何 哪里 哪儿 哪个 哪些 哪 谁 多少 几个 是否 是不是 有没有 请问 以及 或者 还是 但是
因为 所以 我们 你们 他们 她们 它们 这个 那个 这些 那些 一下 一个 一些 可以 能否 能不能 应该 关于 进行 什麼 怎麼 為什麼
哪裡 誰 這個 那個 們 的 了 吗 呢 吧 啊 呀 嘛 么 着 过 是 在 和 与 就 也 都 把 被 给 对 很 我 你 他 她 它 有
嗎 與 過 給 對
"""
_KANA = """
です ます ました ません でした ください でしょう どう どうやって どこ いつ だれ なぜ どの どれ どんな なに これ それ
あれ この その あの ここ そこ ある いる する した して います しました しています から まで より ので のに けど という
について たい ない なる れる られる こと もの ため
"""
_HANGUL = "입니다 습니다 합니다 하는 에서 으로 무엇 어떻게 어디 언제 누구 어떤 있는 있다 했다 하고 그리고"
# A particle follows the word it marks; the same character within a Hiragana word is not a particle.
_PARTICLE = r"(?<![\u3040-\u309f])[はがをにでとのもへやか]|(?<=[\uac00-\ud7af])[은는이가을를의에도](?![\uac00-\ud7af])"


@cache
def cjk_stop() -> re.Pattern[str]:
    """Finds function words and question words in a run of Han, Kana or Hangul."""
    longest_first = sorted([*_HAN.split(), *_KANA.split(), *_HANGUL.split(), "何"], key=len, reverse=True)
    return re.compile("|".join([*longest_first, _PARTICLE]))
