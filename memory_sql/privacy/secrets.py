"""What secrets look like, in any language: data for `classify.mask`.

Each pattern begins with something that is found quickly, and every repetition is bounded, so that no text makes it slow.
The group `secret` is what is masked.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

Look = Literal["any", "password", "strong", "code"]


class SecretRule(NamedTuple):
    """`cues`: the pattern is tried only if the text, in lower case, contains one of them.

    `look`: what the value must look like.
    """

    kind: str
    cues: tuple[str, ...]
    pattern: str
    look: Look = "any"
    flags: int = 0

    def compiled(self) -> re.Pattern[str]:
        return _compiled(self.pattern, self.flags)


@cache
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """Compiles each when it is first tried: few texts contain a cue."""
    return re.compile(pattern, flags)


def rule(kind: str, cues: str, pattern: str, look: Look = "any", flags: int = 0) -> SecretRule:
    return SecretRule(kind, tuple(cues.split("|")), pattern, look, flags)


# Providers give their keys prefixes so that they can be detected.
_KEYS = (
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])",  # AWS
    r"gh[pousr]_[A-Za-z0-9]{30,255}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{22,255}",
    r"glpat-[A-Za-z0-9_-]{20,255}",  # GitLab
    r"xox[abeoprs]-[A-Za-z0-9-]{10,255}",  # Slack
    r"xapp-[A-Za-z0-9-]{20,255}",
    r"sk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{20,255}",  # Anthropic, OpenAI and others
    r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,255}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{20,255}",
    r"AIza[0-9A-Za-z_-]{35}",  # Google
    r"ya29\.[0-9A-Za-z_-]{20,2000}",
    r"GOCSPX-[0-9A-Za-z_-]{20,255}",
    r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}",  # SendGrid
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgE[A-Za-z0-9_-]{50,1000}",
    r"hf_[A-Za-z0-9]{30,64}",
    r"(?:gsk|xai|r8|pplx|sbp|dapi|rnd|fly|lin_api|nvapi|ntn|secret)[_-][A-Za-z0-9]{32,255}",
    r"do[opr]_v1_[a-f0-9]{64}",  # DigitalOcean
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",  # Shopify
    r"gl(?:sa|c)_[A-Za-z0-9_+/=]{32,255}",  # Grafana
    r"hvs\.[A-Za-z0-9_-]{24,255}",  # Vault
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,80}",
    r"mk_[a-z]{2,12}_[A-Za-z0-9]{4,64}_[A-Za-z0-9_-]{20,255}",
    r"key-[0-9a-f]{32}(?![0-9a-f])",  # Mailgun
    r"\d{8,10}:AA[A-Za-z0-9_-]{32,34}",  # Telegram
)
_KEY_CUES = (
    "akia|asia|abia|acca|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox|xapp-|sk-|sk_|rk_|whsec_|aiza|ya29.|gocspx-|sg.|"
    "npm_|pypi-|hf_|gsk|xai|r8_|pplx|sbp|dapi|rnd|fly|lin_api|nvapi|ntn|secret|_v1_|shp|glsa_|glc_|hvs.|age-secret-key|mk_|"
    "key-|:aa"
)

FORMS: tuple[SecretRule, ...] = (
    rule(
        "private key",
        "private key",
        r"(?P<secret>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?)",
    ),
    rule("private key", "putty-user-key-file", r"(?P<secret>PuTTY-User-Key-File-\d:[\s\S]{0,20000})"),
    rule("key", _KEY_CUES, rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(_KEYS)})"),
    rule(
        "token", "eyj", r"(?P<secret>\beyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,2000}){0,3})"
    ),
    rule("token", "bearer", r"\bbearer\s{1,3}(?P<secret>[A-Za-z0-9._~+/-]{12,4000}=*)", "strong", re.IGNORECASE),
    rule(
        "token",
        "authorization",
        r"authorization[\"']?\s{0,3}:\s{0,3}[\"']?(?:basic|token|digest|apikey)\s{1,3}(?P<secret>[A-Za-z0-9._~+/-]{6,4000}=*)",
        "any",
        re.IGNORECASE,
    ),
    rule(
        "token",
        "hooks.slack.com|discord|webhook.office.com",
        r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/webhookb2/)"
        r"(?P<secret>[A-Za-z0-9@/_-]{16,400})",
    ),
    rule("password", "://", r"://[^\s:/@]{0,100}:(?P<secret>[^\s@/]{1,200})@(?=[\w\[])"),
    rule("password", "--user|-u ", r"(?:\s-u|--user)[ =]{1,3}[^\s:]{1,64}:(?P<secret>[^\s\"']{3,200})"),
    rule(
        "password",
        "--pass|sshpass",
        r"(?:--pass(?:word|wd|phrase)?|sshpass\s-p)[ =]{1,3}(?P<secret>[^\s\"'-][^\s\"']{2,200})",
        "strong",
    ),
)

# Length and first digits are checked besides the check digit: other numbers, such as order numbers, seldom fit.
CARD = re.compile(
    r"(?<![\d.,])(?=[2-6])(?=(?P<secret>(?:\d{13,19}|\d{4}(?P<by>[ .\u00a0-])(?:\d{4}(?P=by)\d{4}(?P=by)\d{4}(?:(?P=by)\d{3})?"
    r"|\d{6}(?P=by)\d{4,5}))(?!\d)))",
    re.ASCII,
)
ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|6\d{15}|6\d{18}|35\d{14}"
)
NEAR_CARDS = re.compile(r"\d{4}[ .\u00a0-]?\d{4}", re.ASCII)  # occurs in every card number
# Searches for the two digits after the country code first, which is faster.
IBAN = re.compile(r"\d\d(?<=[A-Za-z]{2}\d\d)(?<![A-Za-z0-9][A-Za-z]{2}\d\d)(?=[ -]?[A-Za-z0-9]{2})")
IBAN_LENGTHS = {
    item[:2]: int(item[3:])
    for item in """
    AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DK:18 DO:28 EE:20 EG:29
    ES:24 FI:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HR:21 HU:28 IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20
    LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 MK:19 MR:27 MT:31 MU:30 NL:18 NO:15 PK:24 PL:28 PS:29 PT:25
    QA:29 RO:24 RS:22 SA:24 SC:31 SE:24 SI:19 SK:24 SM:27 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20
    """.split()
}
