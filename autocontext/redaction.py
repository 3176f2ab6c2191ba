"""Removes secrets from texts: a ready hook for `AutoContextConfig(redact=redact_secrets)`.

A table of its own: detect-secrets 1.5 says in which line a secret is, not where, reads 0.1 MB a second (this one 2),
and takes most lines of ordinary code for secrets. Each pattern looks at a run of characters once, from its beginning,
so that the time stays linear.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"
_KEYS = re.compile(
    r"""(?x)
    # Private keys, whole blocks; without their end when a text was cut.
    -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----(?s:.*?)(?:-----END\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    # JSON Web Tokens, also behind other characters of a token.
    | (?<![\w-])(?=[\w-]*\beyJ)[\w-]{11,}+\.[\w-]{8,}+\.[\w-]{8,}
    | (?<![A-Za-z0-9_])(?:
        # Models: OpenAI, Anthropic, OpenRouter, DashScope; Groq; Perplexity; xAI; Replicate; Hugging Face.
        sk-[\w-]{16,} | gsk_\w{40,} | pplx-\w{40,} | xai-\w{40,} | r8_\w{30,} | (?:hf|api_org)_[A-Za-z0-9]{30,}
        # Agents: Tavily, Firecrawl, LangSmith.
        | tvly-[\w-]{24,} | fc-[0-9a-f]{32}\b | lsv2_(?:pt|sk)_\w{30,}
        # Code: GitHub, GitLab, npm, PyPI, RubyGems, Docker, Atlassian, Postman.
        | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_\w{30,} | gl(?:pat|dt|rt|ptt|cbt|ft|soat|agent|oas)-[\w.-]{16,}
        | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{30,} | rubygems_[0-9a-f]{40,} | dckr_(?:pat|oat)_[\w-]{20,}
        | ATATT[\w=-]{30,} | PMAK-[0-9a-f]{24}-[0-9a-f]{30,}
        # Clouds: AWS, Google, DigitalOcean, Databricks, Heroku, Vault, Terraform, Pulumi, Doppler, Supabase, Netlify
        | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b | AIza[\w-]{30,} | ya29\.[\w-]{20,} | GOCSPX-[\w-]{20,}
        | do[opr]_v1_[0-9a-f]{40,} | dapi[0-9a-f]{32}(?:-\d)?\b | HRKU-[\w-]{30,} | hv[sbr]\.[\w-]{20,}
        | \w{14}\.atlasv1\.[\w-]{40,} | pul-[0-9a-f]{40} | dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}
        | pscale_(?:tkn|pw|oauth)_[\w.-]{30,} | sbp_[0-9a-f]{40} | sb_secret_[\w-]{20,}
        | nfp_[A-Za-z0-9]{30,}
        # Messages and mail: Slack, Telegram, Discord, SendGrid, Twilio, Mailgun, Mailchimp.
        | xox[abeprs][.-][\w.-]{10,} | xapp-\d-[\w-]{20,} | hooks\.slack\.com/services/[\w/]{20,}
        | \d{8,10}:AA[\w-]{33}(?![\w-]) | [MNO][\w-]{23,26}\.[\w-]{6}\.[\w-]{27,} | SG\.[\w-]{16,}\.[\w-]{30,}
        | SK[0-9a-f]{32}\b | key-[0-9a-f]{32}\b | [0-9a-f]{32}-us\d{1,2}\b
        # Money and others: Stripe, Square, Shopify, Linear, Notion, Airtable, Figma, Grafana, New Relic, Sentry, age.
        | [sr]k_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[\w+/=]{20,} | sq0(?:atp|csp)-[\w-]{20,}
        | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32} | lin_api_\w{30,} | (?:secret|ntn)_[A-Za-z0-9]{40,}
        | pat[A-Za-z0-9]{14}\.[0-9a-f]{60,} | fig[dou]r?_[\w-]{30,} | gl(?:sa|c)_[\w=+/]{30,}
        | NR(?:AK|JS|II)-[\w-]{20,} | sntry[su]_[\w=+/-]{30,} | AGE-SECRET-KEY-1[A-Z0-9]{50,}
    )"""
)
_NOT_A_SECRET = (
    "count|counter|limit|budget|type|url|uri|endpoint|name|id|path|file|length|len|size|ratio|field|expir[a-z]*|ttl|at|"
    "policy|version|used|left|min|max|saved|required|manager|provider"
)
"""Last words of names that say something about a secret, and do not hold it."""
_NO_VALUE = (
    "none|null|true|false|string|optional|undefined|required|boolean|integer|invalid|missing|expired|incorrect|unknown"
)
_CERTAIN = r"""(?:api|access|account|private)[_-]?key|secret(?!ar)|passw(?:or)?d|passphrase|credential
    |pwd(?!["']?\s*[:=]\s*["']?[/~])"""
"""In names whose values are secrets; those of `token` are in code mostly expressions."""
_ABOUT = rf"""(?![\w-]*(?:[_-](?:{_NOT_A_SECRET})|tokens)["']?\s*[:=])"""
"""Not before a name that says something about a secret."""
_NAMED_VALUE = re.compile(
    rf"""(?ix)(?<![\w-])
        (?=[\w-]*(?:(?P<certain>{_CERTAIN}|authorization)|token(?!s|i)))
        {_ABOUT}
        (?P<name>                                           # it stays, so that a summary can mention it
            --[\w-]++(?:=|[ \t]+) | [\w-]++(?:\\?["'])?[ \t]*(?::|=(?![=>])|=>)[ \t]*
        )
        (?P<quote>\\?["'])?+
        (?P<scheme>(?:(?:bearer|basic|digest|token|apikey)[ ]+)?+)
        (?(certain)|(?=[^\s"',;]{{0,100}}\d)(?=[^\s"',;]{{0,100}}[a-z]))    # in code most tokens are expressions
        (?:
            (?(quote)
                (?![$<{{%]|(?:{_NO_VALUE})(?P=quote)) (?:(?!(?P=quote))(?:\\.|[^\\\r\n])){{4,}}+ (?=(?P=quote))
                | (?!)
            )
            | (?!["'$<({{[%*]|\\?["']|(?:{_NO_VALUE})\b|[\w.-]{{1,100}}+[(\[])[^\s"'`\\,;(){{}}\[\]<>]{{6,}}+
        )"""
)
_ASSIGNED = re.compile(
    rf"""(?ix)(?<![\w-])
        (?=[\w-]*(?:(?P<certain>{_CERTAIN})|token(?!s|i)))
        {_ABOUT}
        (?P<name>[\w-]++=)
        (?!\[redacted\]|["'`<%]|\$[{{(]|(?-i:\$[A-Z_]+\b)|\{{\{{|\{{[A-Za-z_.]{{1,100}}+\}}|(?:{_NO_VALUE})\b
           |[\w.]{{1,100}}+(?:\([^\s()]{{0,100}}\)|\[[^\s\[\]]{{0,100}}\]))          # variables, places, calls
        (?(certain)|(?:(?=[^\s"',;]{{0,100}}\d)|(?=[A-Za-z]{{12}})(?-i:(?=[a-z]*[A-Z]+[a-z]+[A-Z]))))
        [^\s"'`\\,;<>]{{6,}}+"""
)
"""`NAME=value` without blanks, as in settings of a shell, whatever signs the value has."""
_IN_CONNECTION = re.compile(
    r"(?i)((?:^|;)\s*(?:password|pwd|\w{0,20}accesskey|accountkey)=)(?!\[redacted\])[^;\s\"']{4,}(?=;)"
)
_HEADERS = re.compile(
    r"""(?ix)(\bbearer\s+)(?=[\w.~+/-]*\d)[\w.~+/-]{16,}=*
        | (\b(?:set-)?cookie:\s+)[^\s=;]+=[^\r\n"']+
        | (\bcurl\b[^\n|;]{0,200}?\s(?:-u|--user)[\s=]*["']?[^\s:"']+:)[^\s"']+
        | ([?&](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|key|auth)=)[\w%+/.=-]{16,}"""
)
_IN_URL = re.compile(r"(\w://[^\s:/@\"'<>]*:)(?![/\[]|\[redacted\])[^\s/\"'<>]+(?=@)")


def redact_secrets(text: str) -> str:
    """The text with "[redacted]" in place of anything that looks like a key, token or password.

    It knows the published formats of some sixty services' keys, private keys, JSON Web Tokens, passwords in URLs and
    connection strings, authorization headers and cookies, and values of names such as `api_key` and `DB_PASSWORD`.
    """
    text = _IN_URL.sub(rf"\1{REDACTED}", _KEYS.sub(REDACTED, text))
    text = _HEADERS.sub(lambda m: f"{m[m.lastindex or 0]}{REDACTED}", text)
    text = _NAMED_VALUE.sub(lambda m: f"{m['name']}{m['quote'] or ''}{m['scheme']}{REDACTED}", text)
    return _ASSIGNED.sub(rf"\g<name>{REDACTED}", _IN_CONNECTION.sub(rf"\1{REDACTED}", text))
