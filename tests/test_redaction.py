"""`redact_secrets`: the published formats of keys are found wherever they stand, and what is no secret stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.redaction import REDACTED, redact_secrets
from tests.keys import KEYS, NAMED, named

AROUND = [
    ("", ""),
    ("before ", " after"),
    ("KEY='", "'"),
    ('{"a": "', '", "b": 1}'),
    ("(", ")"),
    ("m12: ", ", then m13"),
    ("first line\n", "\nlast line"),
    ("a table:\t", "\tof a tab"),
    ("two lines\r\n", "\r\n"),
    ("\x1f", "\x0c"),
    ("日本語\n", "\n日本語"),
    ("日本語", "日本語"),
]
JSON = {
    "plain": str,
    "JSON": json.dumps,
    "JSON of other languages": lambda text: json.dumps({"content": text}, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps([text])}),
    "JSON three times": lambda text: json.dumps(json.dumps({"body": json.dumps([text])})),
    "indented": lambda text: json.dumps({"a": {"b": [text]}}, indent=2),
}
"""How a text may be written; a secret in it goes, and all else stays."""
HARMLESS = [
    "The token count is 4096 and max_tokens stays.",
    "commit 8f3a2c19d0b7e6f5a4c3b2a190f8e7d6c5b4a392",
    "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "see https://example.org/a?b=c#d and /srv/shop/secrets.py",
    "task-force-one, disk-usage-of-the-whole-array, sk-learn-contrib",
    "uuid 123e4567-e89b-42d3-a456-426614174000",
    "call_9f8e7d6c5b4a39281706f5e4, toolu_01A09q90qw90lq917835lq9, msg_01XFDUDYJgAACzv, chatcmpl-9aBcDeFgHiJkLmN",
    "arn:aws:iam::123456789012:role/deploy, s3://shop-logs/2026/11/25/part-00001.parquet",
    "PWD=/srv/shop OLDPWD=/home/ann",
    "max_token=100000, max_tokens: 128000, prompt_tokens=4096, inputToken: 812, token_count = 123456",
    "token = get_token(request)",
    'password = os.environ["DB_PASSWORD"]',
    "api_key: str | None = None",
    'API_KEY="$API_KEY" docker run -u 1000:1000 -e TOKEN=${TOKEN} shop',
    "curl -sSLb cookies.txt --cookie-jar=jar.txt -B 'https://example.org/?a=b' -o out",
    "curl -fsS https://example.org/a?b=c; docker run -u 1000:1000 x && curl -s x | sudo -u ann: sh\nsort -b a=b",
    "curl -H 'Accept: a; q=1' https://example.org; docker run -u 1000:1000 'x'",
    '["mysql", "--password", "--user", "ann"]',
    "mysql -p shop < dump.sql; mysql -h db -p -u root; docker login -p $PASSWORD; redis-cli -a $REDIS_PASSWORD",
    "find /var/lib/mysql -print -perm 644; nmap --script mysql -p3306",
    "the login form password reset is broken; login admin password is required",
    "vault --token-url https://x.example.org/a --token-name my-deploy-name; PARSER_TOKEN=LEFT_PARENTHESIS",
    "NEXT_TOKEN=${NEXT} PAD_TOKEN=<pad> TOKEN=$(get-token) git log --token-count",
    "if token == expected: raise InvalidToken",
    "secretary: Johnson; the password is required: true",
    "password_file=/run/secrets/db, secret_name: shop-db-credentials, token_url=https://id.example.org/token",
    "postgres://10.0.0.5:5432/prod and http://localhost:8080/a@b and git@github.com:ann/shop.git",
    "https://ann@example.org/x, mailto:ann@example.org, 10:30@room-12",
    "npm install @scope/pkg@1.2.3 && pip install requests==2.32.0",
    "index 3f2a1b..9c8d7e 100644",
    "auth:\n  password:\n    from_file: /run/secrets/db\n  secret:\n  timeout: 30",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2b1w8 ann@laptop",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa\n-----END CERTIFICATE-----",
]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("written", JSON)
def test_keys_are_found(kind: str, written: str) -> None:
    for before, after in AROUND:
        text, expected = before + KEYS[kind] + after, before + REDACTED + after
        assert redact_secrets(JSON[written](text)) == JSON[written](expected)


@pytest.mark.parametrize("kind", [kind for kind in KEYS if "private key" in kind])
def test_a_private_key_without_its_end_is_one(kind: str) -> None:
    key = KEYS[kind]
    assert redact_secrets(key[: len(key) // 2]) == REDACTED
    assert redact_secrets(f'{{"private_key": "{key}"}}'.replace("\n", "\\n")) == f'{{"private_key": "{REDACTED}"}}'


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("written", JSON)
def test_names_stay_and_values_go(kind: str, written: str) -> None:
    text, secret = next((text, secret) for k, text, secret in named() if k == kind)
    for before, after in [("", ""), ("one\n", "\ntwo"), ("one\r\n\t", "\r\ntwo")]:
        expected = before + text.replace(secret, REDACTED) + after
        assert redact_secrets(JSON[written](before + text + after)) == JSON[written](expected)


@pytest.mark.parametrize(
    "text",
    [
        "password=p(ss1234", "DB_PASSWORD={abc12345}", "PASSWORD=$ecret123", "password=*Star123",
        "secret=my.long.thing", "token=AbCdEfGhIjKlMnOp", "Server=x;Password=ab,cd12x;", "AccountKey=ab+/12==;",
    ],
)  # fmt: skip
def test_an_assigned_value_may_have_any_signs(text: str) -> None:
    name, _, value = text.partition("Password=" if ";Password" in text else "=")
    assert redact_secrets(text).startswith(name)
    assert REDACTED in redact_secrets(text)
    assert value[:4] not in redact_secrets(text)


@pytest.mark.parametrize("written", ["JSON", "JSON in JSON", "repr"])
def test_of_a_line_whose_beginning_is_cut_off_what_follows_a_cookie_stays(written: str) -> None:
    log = [{"headers": [f"Cookie: a=b; sid=secret{n}", "Accept: */*"], "error": f"no price {n}"} for n in range(9)]
    line = repr(log) if written == "repr" else json.dumps(log if written == "JSON" else json.dumps(log))
    starts = range(line.index("secret0"), line.index("headers", line.index("secret1")))
    for start in [n for n in starts if line[n - 1] != "\\"]:  # not within an escape
        shown = redact_secrets(line[start:])
        assert [n for n in range(2, 9) if f"secret{n}" in shown or f"no price {n}" not in shown] == []


def test_of_javascript_what_follows_a_cookie_stays() -> None:
    text = 'fetch(u, {headers: {Cookie: `sid=${sid}; a=b`}, body: "keep me"}).then(r => {throw "no price"});'
    assert redact_secrets(text) == text.replace("sid=${sid}; a=b", REDACTED)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_secrets(text) == text


HEX = st.text("0123456789abcdef", min_size=7, max_size=64)
PART = st.from_regex(r"[a-z][a-z0-9_-]{0,15}", fullmatch=True)
IDS = st.one_of(
    HEX,
    st.uuids().map(str),
    st.lists(PART, min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts) + ".py"),
    st.builds("{}-{}".format, st.from_regex(r"[A-Z]{2,6}", fullmatch=True), st.integers(1, 99_999)),
    st.builds("{}_{}".format, st.sampled_from(["call", "toolu", "msg", "req", "run"]), HEX),
    st.datetimes().map(str),
    st.ip_addresses().map(str),
    st.integers(0).map(str),
)
FRAMES = st.sampled_from(
    ["{}", "commit {}", "id={}", "see {}, please", '{{"path": "{}"}}', "https://example.org/{}", "m4: {}"]
)


@given(frame=FRAMES, value=IDS)
def test_hashes_ids_and_paths_stay(*, frame: str, value: str) -> None:
    text = frame.format(value)
    assert redact_secrets(text) == text


@pytest.mark.parametrize("kind", NAMED)
def test_a_secret_that_stands_twice_in_a_line_goes_twice(kind: str) -> None:
    text, secret = next((text, secret) for k, text, secret in named() if k == kind)
    assert secret not in redact_secrets(f"{text} {text}")


@given(
    kinds=st.lists(st.sampled_from([*KEYS, *NAMED]), min_size=1, max_size=6), between=st.sampled_from([" ", "\n", "; "])
)
def test_of_several_none_is_left_and_a_second_time_changes_nothing(*, kinds: list[str], between: str) -> None:
    texts = {kind: (text, secret) for kind, text, secret in named()}
    texts |= {kind: (key, key) for kind, key in KEYS.items()}
    redacted = redact_secrets(between.join(texts[kind][0] for kind in kinds))
    assert not [kind for kind in kinds if texts[kind][1] in redacted]
    assert redact_secrets(redacted) == redacted
