"""Samples of the published formats of keys, made at run time: no scanner finds a key in this repository."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

_ALNUM = "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv"
_HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_UPPER = "A2B3C4D5E6F7G2H3"


def _of(letters: str, size: int) -> str:
    return "".join(islice(cycle(letters), size))


def _an(size: int) -> str:
    return _of(_ALNUM, size)


def _hex(size: int) -> str:
    return _of(_HEX, size)


def _pem(kind: str, end: str = "") -> str:
    body = "\n".join(_an(64) for _ in range(4))
    return f"-----BEGIN {kind}PRIVATE KEY{end}-----\n{body}\n-----END {kind}PRIVATE KEY{end}-----"


KEYS = {
    "AWS access key id": "AK" + "IA" + _of(_UPPER, 16),
    "AWS temporary key id": "AS" + "IA" + _of(_UPPER, 16),
    "Google API key": "AI" + "za" + _an(35),
    "Google OAuth token": "ya" + "29." + _an(60),
    "Google client secret": "GOC" + "SPX-" + _an(28),
    "GitHub personal token": "gh" + "p_" + _an(36),
    "GitHub OAuth token": "gh" + "o_" + _an(36),
    "GitHub server token": "gh" + "s_" + _an(36),
    "GitHub fine-grained token": "github" + "_pat_" + _an(22) + "_" + _an(59),
    "GitLab token": "gl" + "pat-" + _an(20),
    "Slack bot token": "xo" + "xb-" + "123456789012-123456789012-" + _an(24),
    "Slack user token": "xo" + "xp-" + "123456789012-" + _an(32),
    "Slack app token": "xa" + "pp-1-A0" + _an(40),
    "Stripe live key": "sk" + "_live_" + _an(24),
    "Stripe restricted key": "rk" + "_live_" + _an(24),
    "Stripe webhook secret": "wh" + "sec_" + _an(32),
    "OpenAI key": "s" + "k-" + _an(48),
    "OpenAI project key": "s" + "k-proj-" + _an(20) + "_" + _an(40),
    "Anthropic key": "s" + "k-ant-" + "api03-" + _an(90) + "-" + _an(6) + "AA",
    "OpenRouter key": "s" + "k-or-v1-" + _hex(64),
    "Groq key": "gs" + "k_" + _an(52),
    "Hugging Face token": "h" + "f_" + _an(34),
    "Tavily key": "tv" + "ly-dev-" + _an(32),
    "Firecrawl key": "f" + "c-" + _hex(32),
    "LangSmith key": "ls" + "v2_pt_" + _hex(32) + "_" + _hex(10),
    "Netlify token": "nf" + "p_" + _an(36),
    "Replicate token": "r" + "8_" + _an(37),
    "npm token": "np" + "m_" + _an(36),
    "PyPI token": "py" + "pi-" + "AgEIcHlwaS5vcmc" + _an(60),
    "RubyGems key": "ruby" + "gems_" + _hex(48),
    "Docker Hub token": "dckr" + "_pat_" + _an(27),
    "SendGrid key": "S" + "G." + _an(22) + "." + _an(43),
    "Twilio key": "S" + "K" + _hex(32),
    "Mailgun key": "ke" + "y-" + _hex(32),
    "Mailgun key of letters": "ke" + "y-" + _an(32).lower(),
    "Pinecone key": "pc" + "sk_" + _an(5) + "_" + _an(60),
    "Fly token": "fm" + "2_" + _an(60) + "==",
    "Facebook token": "EA" + "AC" + _an(70),
    "Square token": "EA" + "AA" + _an(60),
    "Mailchimp key": _hex(32) + "-us" + "12",
    "DigitalOcean token": "do" + "p_v1_" + _hex(64),
    "Databricks token": "da" + "pi" + _hex(32),
    "Vault token": "hv" + "s." + _an(90),
    "Telegram bot token": "123456789" + ":AA" + _an(33),
    "Shopify token": "shp" + "at_" + _hex(32),
    "Linear key": "lin" + "_api_" + _an(40),
    "Notion token": "nt" + "n_" + _an(46),
    "Airtable token": "pa" + "t" + _an(14) + "." + _hex(64),
    "Grafana token": "gl" + "sa_" + _an(32) + "_" + _hex(8),
    "New Relic key": "NR" + "AK-" + _of(_UPPER, 27),
    "Atlassian token": "AT" + "ATT3xFfGF0" + _an(100),
    "age key": "AGE-" + "SECRET-KEY-1" + _of(_UPPER, 58),
    "JSON Web Token": "ey" + "J" + _an(33) + ".ey" + "J" + _an(40) + "." + _an(43),
    "RSA private key": _pem("RSA "),
    "OpenSSH private key": _pem("OPENSSH "),
    "PKCS 8 private key": _pem(""),
    "PGP private key": _pem("PGP ", " BLOCK"),
}
"""By kind; nothing of any of them may be left."""

_PASSWORD = "Tr0ub4dor" + "-and-3"
NAMED = {
    "PostgreSQL URI": ("postgres://shop:{}@10.0.0.5:5432/prod", _PASSWORD),
    "PostgreSQL driver": ("postgresql+psycopg://shop:{}@db/prod?sslmode=require", _PASSWORD),
    "MySQL URI": ("mysql://root:{}@db.internal:3306/shop", _PASSWORD),
    "MongoDB URI": ("mongodb+srv://app:{}@cluster0.ab1cd.mongodb.net/?retryWrites=true", _PASSWORD),
    "MongoDB replicas": ("mongodb://app:{}@h1:27017,h2:27017/db", _PASSWORD),
    "Redis URI": ("redis://:{}@cache:6379/0", _PASSWORD),
    "AMQP URI": ("amqps://guest:{}@mq:5671/vhost", _PASSWORD),
    "URI with an at sign": ("mysql://root:{}@db/shop", "p@ss" + "w0rd"),
    "basic auth in a URL": ("git clone https://ann:{}@git.example.org/shop.git", _PASSWORD),
    "JDBC": ("jdbc:postgresql://db/shop?user=shop&password={}", _PASSWORD),
    "ADO.NET": ("Server=tcp:db,1433;User ID=shop;Password={};Encrypt=True", _PASSWORD),
    "Azure storage": (
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core.windows.net", _an(86) + "==",
    ),
    "Azure service bus": ("Endpoint=sb://x.servicebus.windows.net/;SharedAccessKey={}", _an(43) + "="),
    "Azure SAS": ("https://shop.blob.core.windows.net/c?sv=2024-01-01&sig={}", _an(43) + "%3D"),
    "AWS secret": ("aws_secret_access_key = {}", _an(40)),
    "bearer header": ("Authorization: Bearer {}", _hex(16)),
    "basic header": ("Authorization: Basic {}", _an(24) + "=="),
    "curl header": ('curl -H "Authorization: Bearer {}" https://api.example.org', _an(30)),
    "key header": ("X-Api-Key: {}", _hex(32)),
    "cookie": ("Cookie: {}", "session=" + _an(32)),
    "cookie in lower case": ("< set-cookie:{}", "session=" + _an(32) + "; Path=/; HttpOnly"),
    "cookie in JSON": ('{{"Set-Cookie": "{}", "Age": 0}}', "session=" + _an(32) + "; Path=/; HttpOnly"),
    "cookie in a dict": ("{{'Cookie': '{}', 'Accept': '*/*'}}", "sid=" + _an(32)),
    "cookies in a list": ('{{"set-cookie": [{}], "age": 0}}', f'"sid={_an(32)}; Path=/", "theme={_an(9)}"'),
    "environment": ("DB_PASSWORD={}", "hunter2" + "-7731"),
    "shell": ("export TWILIO_AUTH_TOKEN={}", _hex(32)),
    "JSON": ('{{"api_key": "{}"}}', _hex(12)),
    "JSON in JSON": ('{{"body": "{{\\"password\\": \\"{}\\"}}"}}', _PASSWORD),
    "words in JSON": ('{{"password": "{}"}}', "correct horse " + "battery"),
    "quotes in JSON": ('{{"password": "{}", "user": "ann"}}', "it's " + r"a \"good\" one"),
    "YAML": ("client-secret: {}", "s3cr3t" + "-value"),
    "Python": ("connect(user='ann', password='{}')", _PASSWORD),
    "an option": ("mysqldump --password={} shop", _PASSWORD),
    "an option's next word": ("vault login --token {}", _an(24)),
    "a short option": ("docker login --token {} registry.example.org", "9f8e7" + "d6c5b"),
    "a short option in quotes": ("npm --token '{}'", "a1b2c3" + "d4e5"),
    "mysql in a container": ("docker exec -it db mysql -u root -p{} shop", _PASSWORD),
    "an option of letters": ("vault login --token {}", "abcdefgh" + "ijklmnop"),
    "a variable of letters": ("export VERCEL_TOKEN={}", "abcdefgh" + "ijklmnop"),
    "mysql": ("mysql -u root -p{} shop", _PASSWORD),
    "mysqldump": ("mysqldump -p'{}' shop > x.sql", "correct horse " + "battery"),
    "sshpass": ("sshpass -p {} ssh ann@example.org", _PASSWORD),
    "redis-cli": ("redis-cli -h cache -a {} ping", _PASSWORD),
    "docker login": ("docker login -u ann -p {} registry.example.org", _PASSWORD),
    "netrc": ("machine example.org login ann password {}", _PASSWORD),
    "Sentry": ("https://{}@o1.ingest.sentry.io/42", _hex(32)),
    "Telegram in a URL": ("https://api.telegram.org/{}/getMe", "bot123456789" + ":AA" + _an(32)),
    "curl user": ("curl -u ann:{} https://example.org", _PASSWORD),
    "curl user with backslashes": ("curl -u ann:{} https://example.org", r"pa\nss\rwo\trd"),
    "curl user in quotes": ("curl -u 'ann:{}' https://example.org", r'pa\nss "wo\trd"'),
    "curl user in double quotes": ('curl --user "ann:{}" https://example.org', r"pa\nss it's"),
    "cookie with backslashes": ("Cookie: {}", r"sid=ab\ncd; theme=da\trk"),
    "cookie in quotes": ("Cookie: {}", 'sid="ab cd"; prefs={"a": "b"}; theme=dark'),
    "cookie in quotes in JSON": ('{{"Cookie": "{}", "Age": 0}}', r'sid=\"ab cd\"; theme=da\nrk'),
    "cookie as an option": ("curl -H 'Cookie: {}' https://example.org", r'sid="ab\ncd"; theme=dark'),
    "cookie as an option in double quotes": ('curl -H "Cookie: {}" https://example.org', r"sid=\"ab\ncd\"; theme=d"),
    "many cookies": ('{{"set-cookie": [{}], "age": 0}}', ", ".join(f'"c[{n}]={_hex(20)}; Path=/"' for n in range(200))),
    "many cookies without quotes": ("set-cookie:[{}], age:[0]", ", ".join(f"c{n}={_hex(20)}" for n in range(200))),
    "cookie behind an apostrophe": ("the users' request had Cookie: {}", "a=b; name='x'; sid=" + _an(9)),
    "curl user behind other flags": ("curl -su ann:{} https://example.org", _PASSWORD),
    "curl user of a proxy": ("curl -x proxy:3128 --proxy-user ann:{} https://example.org", _PASSWORD),
    "curl user on the next line": ("curl https://example.org \\\n  -u ann:{}", _PASSWORD),
    "curl user behind a URL": ('curl "https://example.org/a;b?c=d&e=f" -u ann:{}', _PASSWORD),
    "curl user before quotes": ("curl -u ann:'{}' https://example.org", _PASSWORD),
    "curl user and password in quotes": ('curl -u "ann":"{}" https://example.org', _PASSWORD),
    "curl user in quotes of bash": ("curl -u $'ann:{}' https://example.org", _PASSWORD),
    "curl user in quotes of cmd": ('curl -u ^"ann:{}" https://example.org', _PASSWORD + "^"),
    "curl user in quotes of PowerShell": ('powershell -c "curl.exe -u `"ann:{}" https://example.org"', _PASSWORD + "`"),
    "curl user in a list": ('["curl", "-u", "ann:{}", "https://example.org"]', _PASSWORD),
    "curl cookie": ('curl -b "{}" https://example.org', "sid=" + _an(9)),
    "curl cookie without quotes": ("curl --cookie {} https://example.org", "sid=" + _an(9)),
    "curl user behind a cookie": ("curl -H 'Cookie: [redacted]' -b x.txt -u ann:{} https://example.org", _PASSWORD),
    "curl cookie before a user": ("curl -H 'Cookie: {}' -u ann: https://example.org", "sid=" + _an(9)),
    "curl user behind a header": ("curl -H 'Accept: a/b; q=0.9' -u ann:{} https://example.org", _PASSWORD),
    "curl user behind data": ('curl https://example.org -d \'{{\n  "q": "a|b"\n}}\' -u ann:{}', _PASSWORD),
    "an option in a list": ('["mysql", "--password", "{}", "shop"]', _PASSWORD),
    "curl user of Windows": ("CURL.EXE -u ann:{} https://example.org", _PASSWORD),
    "cookie in a pair": ("[('Cookie', '{}'), ('Accept', '*/*')]", "a=b; sid=" + _an(9)),
    "cookie in a HAR": ('{{"name": "Cookie", "value": "{}"}}, {{"name": "Age", "value": "a=0"}}', "sid=" + _an(9)),
}  # fmt: skip
"""A text with a place for a secret, and the secret: the text around it stays."""


def named() -> Iterator[tuple[str, str, str]]:
    """Kind, text and secret of each."""
    for kind, (text, secret) in NAMED.items():
        yield kind, text.format(secret), secret
