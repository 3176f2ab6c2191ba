"""Words that choose what is shown first; they never decide what is said."""

from __future__ import annotations

from autocontext.text.caseless import Caseless

WORDS_OF_ERRORS = {
    "en": r"error(?<!without error)(?<!no error)(?<!sin error)"
    r"(?!s?[\"']?\s{0,9}[:=]\s{0,9}(?:false|null|none|\"\"|''|\[\]))"
    r"|exception|fail|fatal|denied|not found|no such|cannot|can't|could not|unable|invalid|refused|timed out"
    r"|undefined|unexpected|expected(?<!as expected)"
    r"(?!(?: \w{1,20})?[\"']?\s{0,9}[:=](?![^\n]{1,200}?\b(?:but|got|was|actual|received|found|instead)\b))"
    r"|missing|not allowed|does not|did not|doesn't|reject|cancel",
    "zh": r"错误(?<!没有错误)(?<!无错误)|失败|异常|无法|拒绝|未找到|不存在",
    "ja": r"エラー|失敗|例外|できません|見つかりません",
    "ko": r"오류|실패|없습니다|거부",
    "de": r"fehler(?<!ohne fehler)(?<!keine fehler)|fehlgeschlagen"
    r"|nicht (?:gefunden|möglich|erlaubt)|abgelehnt|ungültig",
    "fr": r"erreur(?<!sans erreur)(?<!aucune erreur)|échou|échec|impossible|introuvable|refusé",
    "es": r"fallo|falló|no se (?:pudo|encontró)|denegad|inválid",
    "pt": r"erro\b|falhou|não foi|negado|inválid",
    "it": r"errore|fallit|impossibile|non trovat|negato",
    "ru": r"ошибк|не удалось|не найден|отказано",
}
"""By language, pieces of words in lines that give the reason of a failure; nothing that says there is no error."""
SUMMARY = Caseless(
    r"(?:#{1,6} |\*\*)?(?:(?:executive |final )?summary|conclusions?|tl;dr|zusammenfassung|fazit|résumé|resumen"
    r"|conclusión|riassunto|conclusioni|resumo|conclusão|итоги?|выводы?|总结|结论|摘要|まとめ|結論|요약|결론)[\s:*：]{0,4}"
)
"""A line above a text's own summary."""
ERROR = Caseless("|".join(WORDS_OF_ERRORS.values()))
"""A word of a line that may give the reason of a failure."""
