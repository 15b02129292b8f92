"""What secrets look like and how they are said: data for `classification.mask`.

Each pattern begins with something that is found quickly and has a bound on everything that repeats, so that no text makes
it slow. The group `secret` is what is masked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Look = Literal["any", "password", "strong", "code"]


@dataclass(frozen=True, slots=True)
class SecretRule:
    """`cues`: without one of them, in lower case, the pattern isn't tried. `look`: what the value itself must be like."""

    kind: str
    cues: tuple[str, ...]
    pattern: re.Pattern[str]
    look: Look = "any"


def _rule(kind: str, cues: str, pattern: str, look: Look = "any", flags: int = 0) -> SecretRule:
    return SecretRule(kind, tuple(cues.split("|")), re.compile(pattern, flags), look)


# Providers mark their keys, so that tools like this one find them.
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

_QUOTED = r"\"[^\"\n]{3,200}\"|'[^'\n]{3,200}'|`[^`\n]{3,200}`|“[^”\n]{3,200}”|„[^“\n]{3,200}“|«[^»\n]{3,200}»"
_VALUE = rf"(?P<secret>{_QUOTED}|[^\s\"'`<>]{{3,400}})"
_ASSIGN = r"\s{0,3}(?::=|=>|->|[:=])\s{0,3}"
_SAID = r"\s{1,3}(?:is|was|are|will be|ist|war|lautet|est|était|es|era|será)(?:\s{1,3}(?:now|still|jetzt|noch|maintenant|ahora))?:?\s{1,3}"
_FOR = r"(?:\s(?:for|of|on|in|at|to|für|von|vom|zum|pour|du|de|des|para|del|al)\s[^\n.:=?!]{1,30}?)?"
_PASSWORD = r"(?:pass(?:word|wd|phrase|code|wort|wörter)|pwd|kennwort|mot\s?de\s?passe|mdp|contraseñ?n?a|(?<![a-z])pw|(?:(?<=[,;/&?])|(?<=[,;/&?] ))pass(?=\s?[:=]))s?"
_KEY = (
    r"(?:(?:api|access|secret|client|auth|refresh|bearer|bot|session|signing|encryption|deploy|webhook|license|zugangs|"
    r"account|shared\s?access)[ _-]?(?:key|token|secret|signature)|tokens?|secrets?|jeton|schlüssel|clave|clé)"
)

RULES: tuple[SecretRule, ...] = (
    _rule(
        "private key",
        "private key",
        r"(?P<secret>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?)",
    ),
    _rule("private key", "putty-user-key-file", r"(?P<secret>PuTTY-User-Key-File-\d:[\s\S]{0,20000})"),
    _rule("key", _KEY_CUES, rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(_KEYS)})"),
    _rule(
        "token", "eyj", r"(?P<secret>\beyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,2000}){0,3})"
    ),
    _rule("token", "bearer", r"\bbearer\s{1,3}(?P<secret>[A-Za-z0-9._~+/-]{12,4000}=*)", "strong", re.IGNORECASE),
    _rule(
        "token",
        "authorization",
        r"authorization[\"']?\s{0,3}:\s{0,3}[\"']?(?:basic|token|digest|apikey)\s{1,3}(?P<secret>[A-Za-z0-9._~+/-]{6,4000}=*)",
        "any",
        re.IGNORECASE,
    ),
    _rule(
        "token",
        "hooks.slack.com|discord|webhook.office.com",
        r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/webhookb2/)"
        r"(?P<secret>[A-Za-z0-9@/_-]{16,400})",
    ),
    _rule("password", "://", r"://[^\s:/@]{0,100}:(?P<secret>[^\s@/]{1,200})@(?=[\w\[])"),
    _rule("password", "--user|-u ", r"(?:\s-u|--user)[ =]{1,3}[^\s:]{1,64}:(?P<secret>[^\s\"']{3,200})"),
    _rule(
        "password",
        "--pass|sshpass",
        r"(?:--pass(?:word|wd|phrase)?|sshpass\s-p)[ =]{1,3}(?P<secret>[^\s\"'-][^\s\"']{2,200})",
        "strong",
    ),
    _rule(
        "password",
        "pass|pw|kennwort|mdp|contrase",
        rf"{_PASSWORD}(?![a-z])[\"'’)]{{0,2}}{_FOR}(?P<to>{_ASSIGN}|{_SAID}|\s(?:to|auf|à|a|en)\s){_VALUE}",
        "password",
        re.IGNORECASE,
    ),
    _rule(
        "password",
        "login|cred|zugangsdaten|identifiants|credenciales",
        r"(?:login|cred(?:ential)?s?|zugangsdaten|identifiants|credenciales)(?P<to>\s{0,3}(?::|=|\bare\b|\bis\b)\s{0,3})"
        r"[^\s/:]{1,64}\s?[/:]\s?(?P<secret>[^\s/]{4,100})",
        "password",
        re.IGNORECASE,
    ),
    _rule(
        "key",
        "key|token|secret|signature|jeton|schlüssel|clave|clé",
        rf"{_KEY}(?![a-z])[\"'’)]{{0,2}}{_FOR}(?:{_ASSIGN}|{_SAID}|\s){_VALUE}",
        "strong",
        re.IGNORECASE,
    ),
    _rule(
        "phrase",
        "phrase|mnemonic|seed|wiederherstellung",
        r"(?:seed|recovery|backup|mnemonic|wallet|wiederherstellungs?)[ -]?(?:phrase|words|wörter)?[^\n:=]{0,30}[:=]\s{0,3}"
        r"(?P<secret>(?:1\.\s?)?[a-z]{3,8}(?:[\s,]{1,2}(?:\d{1,2}\.\s?)?[a-z]{3,8}){11,23}+)(?![a-z])",
        "any",
        re.IGNORECASE,
    ),
    _rule(
        "code",
        "pin|code|otp|cvv|cvc|tan|combination|kombination",
        r"\b(?:(?:pin|otp|tan|cv[vc]2?)(?:[ -]?(?:code|number|nummer))?|(?:door|gate|alarm|safe|entry|lock|unlock|garage|"
        r"security|verification|one[ -]time|2fa|mfa|login|access|puk|geheim|tür|zugangs|sicherheits)[ -]?"
        r"(?:code|pin|combination|kombination|zahl))s?\b(?:\s(?:for|of|to|für|pour|para|de)\s[^\n.:=?!\d]{1,20}?)?"
        r"(?:\s{0,3}[:=#]\s{0,3}|\s{1,3}(?:is|was|ist|lautet|est|es)(?:\s(?:now|still))?:?\s{1,3}|\s{1,3})"
        r"(?P<secret>[\"']?\d(?:[ -]?\d){2,9})(?![\d%/.:-]*\d|\s?(?:%|characters|chars|digits|stellen|minutes|seconds|days))",
        "code",
        re.IGNORECASE,
    ),
    _rule(
        "account number",
        "account|routing|sort code|konto|compte|cuenta|bic|blz",
        r"(?:(?:bank\s)?account\s?(?:number|no\.?|nr\.?|#)|routing\s?(?:number|no\.?)|sort\scode|kontonummer|konto-?nr\.?|"
        r"bankleitzahl|blz|numéro\sde\scompte|n[uú]mero\sde\scuenta)\s{0,3}(?:[:=#]|is|ist|lautet|est|es)?\s{0,3}"
        r"(?P<secret>\d(?:[ -]?\d){5,16})(?!\d)",
        "any",
        re.IGNORECASE,
    ),
)

# Beside the number its length and first digits: order numbers have no reason to be like that.
CARD = re.compile(
    r"(?<![\d.,])(?=[2-6])(?=(?P<secret>(?:\d{13,19}|\d{4}(?P<by>[ .\u00a0-])(?:\d{4}(?P=by)\d{4}(?P=by)\d{4}(?:(?P=by)\d{3})?"
    r"|\d{6}(?P=by)\d{4,5}))(?!\d)))",
    re.ASCII,
)
ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|6\d{15}|6\d{18}|35\d{14}"
)
IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?=[ -]?[A-Za-z0-9]{2})")
IBAN_LENGTHS = {
    item[:2]: int(item[3:])
    for item in """
    AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DK:18 DO:28 EE:20 EG:29
    ES:24 FI:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HR:21 HU:28 IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20
    LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 MK:19 MR:27 MT:31 MU:30 NL:18 NO:15 PK:24 PL:28 PS:29 PT:25
    QA:29 RO:24 RS:22 SA:24 SC:31 SE:24 SI:19 SK:24 SM:27 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20
    """.split()
}

# What is said of a password without saying it. Words that end in -ed and -ing are left out besides.
NOT_SECRETS = frozenset(
    """
    1password absent access alphanumeric also always any around authentication available bad basic below better bitwarden
    blank both broken case case-sensitive cases changes clear common complete complex correct critical dashlane default
    desktop different difficult due easy email empty encryption enough error expiry false field fields fine first flow
    form free good gone great guessable half-way hard hash hashes help here hidden identical important impossible
    incorrect input insecure instead invalid it keepass lastpass later length local locked login logic long lost mandatory
    manager mandate maybe me mine missing necessary never new next nil no none not nothing null obvious ok okay old one
    only optional or page personal phone plain please policy private prompt public ready required reset resets reused
    right rotation rule rules same safe save secret secrets secure sensitive server shared short simple stale still string
    strong stronger strings text that the them then there these this those today token tomorrow true trivial two type
    undefined unique unknown unreadable unsafe unset unusable user username users valid value vault visible weak weaker
    weird working wrong yes yet you yours case-insensitive too-short too-long
    falsch richtig leer abgelaufen geheim sicher unsicher kurz lang schwach stark gleich neu alt weg bekannt unbekannt
    ungültig gültig vergessen verloren nötig erforderlich optional
    faux fausse incorrecte correcte vide oublié expiré faible fort forte sécurisé court courte obligatoire requis valide
    invalide perdu incorrecta correcta vacía olvidada caducada débil fuerte segura corta larga obligatoria válida inválida
    perdida secreta secreto errónea
    """.split()
)
NOT_A_PASSWORD_AFTER = re.compile(
    r"\s?(?:characters|chars|letters|digits|days|times|minutes|zeichen|stellen|tage|caract|attempts)"
)
