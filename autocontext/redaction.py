"""Removes secrets from texts: a ready hook for `AutoContextConfig(redact=redact_secrets)`.

A table of its own: detect-secrets 1.5 says in which line a secret is, not where, reads 0.1 MB a second (this one 2),
and takes most lines of ordinary code for secrets. Each pattern looks at a run of characters once, from its beginning,
so that the time stays linear.
"""

from __future__ import annotations

import re
from functools import lru_cache

REDACTED = "[redacted]"
_AFTER_ESCAPE = r"""(?<=\\[bfnrtv])|(?<=\\u[0-9a-fA-F]{4})"""
"""Also a beginning: in JSON, the line before ends with a letter."""
_WORD = rf"""(?:\b|{_AFTER_ESCAPE})"""
_NAME = rf"""(?:(?<![\w-])|{_AFTER_ESCAPE})"""
_QUOTE = r"""\\{0,15}["']"""
"""In JSON, and in JSON that is a text in JSON."""
_KEYS = re.compile(
    r"""(?xa)
    # Private keys, whole blocks; without their end when a text was cut.
    -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----(?s:.*?)(?:-----END\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    # JSON Web Tokens, also behind other characters of a token.
    | (?:(?<![\w-])|(?<=\\[bfnrtv])|(?<=\\u[0-9a-fA-F]{4}))
      (?!(?<=\\)[bfnrtv])(?=(?:[\w-]*\b)?eyJ)[\w-]{11,}+\.[\w-]{8,}+\.[\w-]{8,}
    | (?:(?<![A-Za-z0-9_])|(?<=\\[bfnrtv])|(?<=\\u[0-9a-fA-F]{4}))(?:
        # Models: OpenAI, Anthropic, OpenRouter, DashScope; Groq; Perplexity; xAI; Replicate; Hugging Face.
        sk-[\w-]{16,} | gsk_\w{40,} | pplx-\w{40,} | xai-\w{40,} | r8_\w{30,} | (?:hf|api_org)_[A-Za-z0-9]{30,}
        # Agents: Tavily, Firecrawl, LangSmith, Pinecone.
        | tvly-[\w-]{24,} | fc-[0-9a-f]{32}\b | lsv2_(?:pt|sk)_\w{30,} | pcsk_\w{40,}
        # Code: GitHub, GitLab, npm, PyPI, RubyGems, Docker, Atlassian, Postman.
        | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_\w{30,} | gl(?:pat|dt|rt|ptt|cbt|ft|soat|agent|oas)-[\w.-]{16,}
        | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{30,} | rubygems_[0-9a-f]{40,} | dckr_(?:pat|oat)_[\w-]{20,}
        | ATATT[\w=-]{30,} | PMAK-[0-9a-f]{24}-[0-9a-f]{30,}
        # Clouds: AWS, Google, DigitalOcean, Databricks, Heroku, Vault, Terraform, Pulumi, Doppler, Supabase, Netlify,
        # Fly.
        | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b | AIza[\w-]{30,} | ya29\.[\w-]{20,} | GOCSPX-[\w-]{20,}
        | do[opr]_v1_[0-9a-f]{40,} | dapi[0-9a-f]{32}(?:-\d)?\b | HRKU-[\w-]{30,} | hv[sbr]\.[\w-]{20,}
        | \w{14}\.atlasv1\.[\w-]{40,} | pul-[0-9a-f]{40} | dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}
        | pscale_(?:tkn|pw|oauth)_[\w.-]{30,} | sbp_[0-9a-f]{40} | sb_secret_[\w-]{20,}
        | nfp_[A-Za-z0-9]{30,} | fm[12][ar]?_[A-Za-z0-9+/=]{30,}
        # Messages and mail: Slack, Telegram, Discord, SendGrid, Twilio, Mailgun, Mailchimp.
        | xox[abeprs][.-][\w.-]{10,} | xapp-\d-[\w-]{20,} | hooks\.slack\.com/services/[\w/]{20,}
        | (?:bot)?\d{8,10}:AA[\w-]{32,33}(?![\w-]) | [MNO][\w-]{23,26}\.[\w-]{6}\.[\w-]{27,}
        | SG\.[\w-]{16,}\.[\w-]{30,} | SK[0-9a-f]{32}\b | key-[0-9a-z]{32}\b | [0-9a-f]{32}-us\d{1,2}\b
        # Money and others: Stripe, Square, Facebook, Shopify, Linear, Notion, Airtable, Figma, Grafana, New Relic,
        # Sentry, age.
        | [sr]k_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[\w+/=]{20,} | sq0(?:atp|csp)-[\w-]{20,} | EAA[AC][\w-]{50,}
        | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32} | lin_api_\w{30,} | (?:secret|ntn)_[A-Za-z0-9]{40,}
        | pat[A-Za-z0-9]{14}\.[0-9a-f]{60,} | fig[dou]r?_[\w-]{30,} | gl(?:sa|c)_[\w=+/]{30,}
        | NR(?:AK|JS|II)-[\w-]{20,} | sntry[su]_[\w=+/-]{30,} | [0-9a-f]{32}(?=@[\w.]+\.sentry\.io)
        | AGE-SECRET-KEY-1[A-Z0-9]{50,}
    )"""
)
_NOT_A_SECRET = (
    "count|counter|limit|budget|type|url|uri|endpoint|name|id|path|file|length|len|size|ratio|field|expir[a-z]*|ttl|at|"
    "policy|version|used|left|min|max|saved|required|manager|provider|env|interval"
)
"""Last words of names that say something about a secret, and do not hold it."""
_NO_VALUE = (
    "none|null|true|false|string|optional|undefined|required|boolean|integer|invalid|missing|expired|incorrect|unknown"
)
_CERTAIN = r"""(?:api|access|account|private)[_-]?key|secret(?!ar)|passw(?:or)?d|passphrase|credential
    |pwd(?!["']?\s*[:=]\s*["']?[/~])"""
"""In names whose values are secrets; those of `token` are in code mostly expressions."""
_ABOUT = rf"""(?![\w-]*(?:[_-](?:{_NOT_A_SECRET})|tokens)["']?(?:\s*[:=]|[ \t]))"""
"""Not before a name that says something about a secret."""
_NAMED_VALUE = re.compile(
    rf"""(?ix){_NAME}
        (?=[\w-]*(?:(?P<certain>{_CERTAIN}|authorization)|(?<!max[_-])token(?!s|i)))
        {_ABOUT}
        (?P<name>                                           # it stays, so that a summary can mention it
            (?P<option>--)[\w-]++(?:=|[ \t]+|{_QUOTE}\s*,\s*(?={_QUOTE}[^-]))
            | [\w-]++(?:{_QUOTE})?[ \t]*(?::|=(?![=>])|=>)[ \t]*
        )
        (?P<quote>{_QUOTE})?+
        (?P<scheme>(?:(?:bearer|basic|digest|token|apikey)[ ]+)?+)
        (?(certain)|(?:(?(option)(?=[^\s"',;]{{12}})|(?!))|(?=[^\s"',;]{{0,100}}\d)(?=[^\s"',;]{{0,100}}[a-z])))
                                                            # in code most tokens are expressions
        (?:
            (?(quote)
                (?![$<{{%]|(?:{_NO_VALUE})(?P=quote))
                (?:(?!(?P=quote))(?:(?:\\\\){{1,7}}\\["']|\\.|[^\\\r\n])){{4,}}+ (?=(?P=quote))
                | (?!)
            )
            | (?!["'$<({{[%*]|{_QUOTE}|(?:{_NO_VALUE})\b|[\w.-]{{1,100}}+[(\[])[^\s"'`\\,;(){{}}\[\]<>]{{6,}}+
        )"""
)
_ASSIGNED = re.compile(
    rf"""(?ix)(?<![\w-])
        (?=[\w-]*(?:(?P<certain>{_CERTAIN})|(?<!max[_-])token(?!s|i)))
        {_ABOUT}
        (?P<name>(?-i:(?P<variable>[A-Z0-9_]++=))|[\w-]++=)
        (?!\[redacted\]|["'`<%]|\$[{{(]|(?-i:\$[A-Z_]+\b)|\{{\{{|\{{[A-Za-z_.]{{1,100}}+\}}|(?:{_NO_VALUE})\b
           |[\w.]{{1,100}}+(?:\([^\s()]{{0,100}}\)|\[[^\s\[\]]{{0,100}}\]))          # variables, places, calls
        (?(certain)|(?:(?(variable)(?=[\w-]{{12}})(?-i:(?=[A-Z_-]{{0,100}}[a-z0-9]))|(?!))
            |(?=[^\s"',;]{{0,100}}\d)|(?=[A-Za-z]{{12}})(?-i:(?=[a-z]*[A-Z]+[a-z]+[A-Z]))))
        [^\s"'`\\,;<>]{{6,}}+"""
)
"""`NAME=value` without blanks, as in settings of a shell, whatever signs the value has."""
_IN_CONNECTION = re.compile(
    r"(?i)((?:^|;)\s*(?:password|pwd|\w{0,20}accesskey|accountkey)=)(?!\[redacted\])[^;\s\"']{4,}(?=;)"
)
_ARGUMENT = re.compile(
    rf"""(?x){_NAME}(?P<before>
            (?<!/)(?:mysql|mariadb)(?:-?(?:dump|admin|import|show))?\ (?:[^\n|;&]{{0,300}}?\ )??-p(?!\d{{1,5}}(?!\S))
            | sshpass\ +-p\ ? | machine\ +\S{{1,100}}\ +login\ +\S{{1,100}}\ +password\ +
            | redis-cli\ (?:[^\n|;&]{{0,300}}?\ )??(?:-a|--pass)\ + | docker\ +login\ (?:[^\n|;&]{{0,300}}?\ )??-p\ +
        )(?P<quote>{_QUOTE})?(?![\s"'$-])(?(quote)(?:(?!(?P=quote))[^\r\n])+|[^\s"'\\|;&]+)"""
)
"""Passwords that a program's own option takes, and those of a netrc."""
_HEADERS = re.compile(
    rf"""(?ix)({_WORD}bearer\s+)(?=[\w.~+/-]*\d)[\w.~+/-]{{16,}}=*
        | ([?&](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|key|auth)=)[\w%+/.=-]{{16,}}"""
)
_ANY_QUOTE = r"""\\{0,15}["'`]"""
"""JavaScript's too."""
_BEFORE_LOGIN = re.compile(
    rf"""(?ix)(?:(?:-H|--header)[\s=]*(?P<option>{_ANY_QUOTE}))?{_WORD}(?:set-)?cookie(?:{_ANY_QUOTE})?\s*:\s*
            (?: (?P<quote>{_ANY_QUOTE})?(?=[^\s=;"'`\[]{{1,200}}+=) | (?P<list>\[)(?!redacted\]) )
        | {_WORD}(?:set-)?cookie{_QUOTE}\s*,\s*(?:{_QUOTE}value{_QUOTE}\s*:\s*)?      # a pair, or a record of a HAR
            (?P<pair>{_QUOTE})(?=[^\s=;"'`\[]{{1,200}}+=)
        | (?<![\w-])(?P<curl>                                 # an argument of its own in a list, or the next word
            (?:-[a-z]{{0,8}}u|--(?:proxy-)?user)(?:{_QUOTE}\s*,\s*|[\s=]*+)[$^`]?(?P<own>{_QUOTE})?
                [^\s:"']{{1,200}}+(?:{_QUOTE})?:(?P<behind>{_QUOTE})?
            | (?:-[a-z]{{0,8}}(?-i:b)|--cookie(?!-))(?:{_QUOTE}\s*,\s*|[\s=]*+)[$^`]?(?P<jar>{_QUOTE})?
                (?=[^\s=:;"'`]{{1,200}}+=)
        )"""
)
_NEXT_COMMAND = re.compile(r"(?<![\\`^\r])\n|(?<![\\`^])\r\n|\||[;&](?![^\s;&])")
"""Where the arguments of a command end; lines that a shell continues do not."""
_QUOTED = re.compile(rf"(?s)(?P<quote>{_QUOTE})(?:(?!(?P=quote)).)*+(?P=quote)")
"""An argument in quotes: what ends a command ends none in there."""
_LIST = re.compile(
    rf"""(?x)(?:\s|\\{{1,15}}[nrt])*+
        (?: (?:
                (?P<quote>{_QUOTE})(?:(?!(?P=quote))(?:(?:\\\\){{1,7}}\\["']|\\.|[^\\\r\n]))*+(?:(?P=quote)|(?![^\r\n]))
                (?:[\s,]|\\{{1,15}}[nrt])*+
            )++
            | [^\[\]]{{4,}}+(?=\]) | [^\[\]\r\n]{{4,}}+
        )"""
)
_MARKS = re.compile(r"""[\r\n]|(?P<closing>(?<=\w)'(?!\w))|(?<!\\)(?:\\{0,15}["`]|(?<!\w)\\{0,15}'|\\{1,15}')""")
"""Ends of lines, and quotes that are no apostrophe."""
_STRING = r"""(?<=[\s={\[:,(])(?P<string>\\{0,15}["'`])(?![,\]}):])(?:(?!(?P=string))(?:\\.|[^\\\r\n]))*+(?P=string)"""
_NO_REST = r"""(?![^\s\\;:="'`]{1,200}+;\s*[^\s\\;:="'`]{1,200}+=)"""
"""Not before the end of one cookie and the next: in a shell's single quotes a backslash and an n are no new line."""
_CLOSING = r"""\\{0,15}["'`](?=[,\]}):])"""
"""Of a string whose beginning is cut off, or stands before a quote that was none."""
_IN_URL = re.compile(r"(\w://[^\s:/@\"'<>]*:)(?![/\[]|\[redacted\])[^\s/\"'<>]+(?=@)")


def redact_secrets(text: str) -> str:
    """The text with "[redacted]" in place of anything that looks like a key, token or password.

    It knows the published formats of some fifty services' keys, private keys, JSON Web Tokens, passwords in URLs,
    connection strings and options of a few programs, authorization headers and cookies, and values of names such as
    `api_key` and `DB_PASSWORD`.
    """
    text = _without_logins(_IN_URL.sub(rf"\1{REDACTED}", _KEYS.sub(REDACTED, text)))
    text = _HEADERS.sub(lambda m: f"{m[m.lastindex or 0]}{REDACTED}", text)
    text = _ARGUMENT.sub(lambda m: f"{m['before']}{m['quote'] or ''}{REDACTED}", text)
    text = _NAMED_VALUE.sub(lambda m: f"{m['name']}{m['quote'] or ''}{m['scheme']}{REDACTED}", text)
    return _ASSIGNED.sub(rf"\g<name>{REDACTED}", _IN_CONNECTION.sub(rf"\1{REDACTED}", text))


def _without_logins(text: str) -> str:
    """The text without cookies and passwords of curl.

    They may be quoted, and stand in a text that is quoted: the quotes that are open end a value, and say which escapes
    are ends of lines.
    """
    parts: list[str] = []
    opened: list[str] = []
    read = done = end = 0
    while (found := _BEFORE_LOGIN.search(text, end)) is not None:
        end = found.end()
        if found["curl"] and not _is_of_curl(text, found.start()):
            continue
        for token in _MARKS.finditer(text, read, end):
            mark = token[0]
            if mark in "\r\n":
                opened.clear()
            elif mark in opened:
                del opened[opened.index(mark) :]
            elif token["closing"] is None:
                opened.append(mark)
        own = next(filter(None, found.group("option", "quote", "pair", "behind", "own", "jar")), None)
        value = _LIST if found["list"] else _login(own, tuple(opened), is_curl=bool(found["curl"]))
        parts.append(text[done:end])
        read = done = end
        if (hidden := value.match(text, end)) is not None:
            parts.append(REDACTED)
            done = end = hidden.end()
    return "".join([*parts, text[done:]])


def _is_of_curl(text: str, option: int) -> bool:
    before = text[max(0, option - 1_000) : option].lower()
    command = before.rfind("curl")
    return command >= 0 and _NEXT_COMMAND.search(_QUOTED.sub("", before[command:])) is None


@lru_cache(maxsize=256)
def _login(own: str | None, opened: tuple[str, ...], *, is_curl: bool) -> re.Pattern[str]:
    """A value that stands in quotes of its own, or in those that are open.

    In JSON that is quoted n times, quotes have 2^n - 1 backslashes, and the n of a new line one more.
    """
    doubled = [quote for quote in opened if '"' in quote]
    slashes = len((doubled or opened or "n")[-1])
    # A text in single quotes around double ones may be Python's, whose escapes are JSON's twice as long.
    longest = 2 * slashes if doubled and opened[0] == "'" else slashes
    strings = ""
    ends = [re.escape(quote) for quote in {*opened, *([own] if own else [])}]
    if own is None and opened:
        ends += [rf"\\{{{n}}}[nr{'t' if is_curl else ''}]{'' if is_curl else _NO_REST}" for n in {slashes, longest}]
    elif own is None and not is_curl:
        ends += [_CLOSING, r"\\{1,15}[nr](?:[\w-]{1,60}:\s|\\{1,15}[nr]|\Z)"]
        strings = f"{_STRING}|"
    if own is None and is_curl:
        ends += [r"\s", _QUOTE]
    units = rf"{strings}\\{{{2 * longest}}}|\\{{1,{2 * longest - 1}}}(?!\\).?|[^\\\r\n]"
    return re.compile(rf"(?:(?!{'|'.join(ends)})(?:{units}))+")
