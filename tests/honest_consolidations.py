"""Texts and observations of several walks of life, each with what a strong model honestly made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Said = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class Case:
    """`known` and `new` as they are shown: k1 …, n1 …, each with when it was observed."""

    name: str
    whose: str
    current: str | None
    new: Sequence[Said]
    answer: dict[str, Any]
    known: Sequence[Said] = ()
    now: datetime = field(default=datetime(2026, 11, 23, 12, 0, tzinfo=UTC))


def at(month: int, day: int, hour: int = 9) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


CASES = [
    Case(
        "household",
        "family",
        "The family eats at 18:30. Ben is allergic to nuts and carries an EpiPen. The cleaner Rosa comes on Thursdays and"
        " is paid 60 euros. Grandma Ilse's birthday is on 14 December. The boiler is serviced each October by Kessler.",
        [
            (at(11, 20), "Rosa now comes on Tuesdays instead of Thursdays, for 65 euros."),
            (at(11, 21), "The boiler was serviced on 2026-11-18; Kessler wants the valve replaced before spring."),
            (at(11, 22), "Ben is allergic to nuts."),
        ],
        {
            "text": "The family eats at 18:30. Ben is allergic to nuts and carries an EpiPen. The cleaner Rosa comes on"
            " Tuesdays and is paid 65 euros. Grandma Ilse's birthday is on 14 December. The boiler, looked after by"
            " Kessler each October, was last serviced on 2026-11-18; its valve should be replaced before spring.",
            "contradictions": [
                {"newer": "n1", "older": "k1", "was": "comes on Thursdays", "now": "comes on Tuesdays"},
            ],
            "same_as": [{"n": "n3", "same_as": "k2"}],
        },
        known=[(at(3, 1), "Rosa, the cleaner, comes on Thursdays."), (at(3, 2), "Ben is allergic to nuts, badly.")],
    ),
    Case(
        "club",
        "rowing club",
        "The rowing club trains on Mondays and Wednesdays at 17:00. The fee is 120 euros a year. The treasurer is Olaf. The"
        " regatta of 2026 was on 12 September; the club came third. The boat house needs a new roof, for which 4,300 euros"
        " have been saved.",
        [
            (at(11, 10), "The general meeting raised the fee from 120 to 135 euros a year from January 2027."),
            (at(11, 10), "Petra is the new treasurer; Olaf has stepped down."),
            (at(11, 12), "A sponsor gave 1,200 euros for the roof."),
        ],
        {
            "text": "The rowing club trains on Mondays and Wednesdays at 17:00. From January 2027 the fee is 135 euros a year"
            " instead of 120. The treasurer is Petra, after Olaf stepped down. The boat house needs a new roof, for which"
            " 5,500 euros are there, 1,200 of them from a sponsor.",
            "contradictions": [
                {"newer": "n1", "older": "k1", "was": "fee is 120 euros", "now": "135 euros from January 2027"},
                {"newer": "n2", "older": None, "was": "The treasurer is Olaf", "now": "Petra is the treasurer"},
            ],
            "left_out": [{"what": "s4", "why": "over"}],
            "figures": [{"figure": "5,500", "of": ["s5", "n3"]}],
        },
        known=[(at(1, 5), "The club's fee is 120 euros a year.")],
    ),
    Case(
        "German patient",
        "Frau Lorenz",
        "Frau Lorenz nimmt morgens 5 mg Ramipril. Sie lebt mit ihrem Mann in Kiel, hat zwei erwachsene Kinder und geht"
        " mittwochs zur Wassergymnastik. Ihr nächster Termin ist am 2026-11-19 um 10:15 bei Dr. Behn. Sie möchte mit Sie"
        " angesprochen werden und kurze Antworten in großer Schrift bekommen.",
        [
            (at(11, 19), "Dr. Behn hat Ramipril am 19.11. auf 2,5 mg gesenkt."),
            (at(11, 19), "Die nächste Kontrolle ist am 17. Dezember 2026 um halb elf."),
            (at(11, 20), "Die Wassergymnastik ist jetzt freitags."),
        ],
        {
            "text": "Frau Lorenz nimmt morgens 2,5 mg Ramipril, seit Dr. Behn die Dosis am 2026-11-19 gesenkt hat. Sie lebt"
            " mit ihrem Mann in Kiel, hat 2 erwachsene Kinder und geht freitags zur Wassergymnastik. Die nächste Kontrolle"
            " ist am 2026-12-17 um halb elf. Sie möchte mit Sie angesprochen werden und kurze Antworten in großer Schrift"
            " bekommen.",
            "contradictions": [
                {"newer": "n1", "older": "k1", "was": "5 mg Ramipril", "now": "2,5 mg Ramipril"},
                {"newer": "n3", "older": "k2", "was": "Mittwochs zur Wassergymnastik", "now": "freitags"},
            ],
            "left_out": [{"what": "s3", "why": "over"}],
        },
        known=[
            (at(9, 1), "Frau Lorenz nimmt morgens 5 mg Ramipril."),
            (at(9, 1), "Frau Lorenz geht mittwochs zur Wassergymnastik."),
        ],
    ),
    Case(
        "French restaurant",
        "équipe du Platane",
        "Le Platane ouvre du mardi au samedi à 19 h. Le fournisseur de poisson est Marée Bleue, qui livre avant 8 h. La salle"
        " a 42 couverts. Le menu du soir coûte 38 euros et Julie s'occupe des vins.",
        [
            (at(11, 16), "Depuis le 15 novembre le menu du soir coûte 41 euros."),
            (at(11, 17), "Marée Bleue ne livre plus ; le poisson vient de chez Kerguelen."),
            (at(11, 18), "La terrasse ajoute douze couverts à partir d'avril."),
        ],
        {
            "text": "Le Platane ouvre du mardi au samedi à 19 h. Le poisson vient de chez Kerguelen, Marée Bleue ne livrant"
            " plus. La salle a 42 couverts, et la terrasse en ajoute 12 à partir d'avril. Le menu du soir coûte 41 euros"
            " depuis le 2026-11-15 et Julie s'occupe des vins.",
            "contradictions": [
                {"newer": "n1", "older": None, "was": "Le menu du soir coûte 38 euros", "now": "41 euros"},
                {"newer": "n2", "older": "k1", "was": "fournisseur de poisson est Marée Bleue", "now": "Kerguelen"},
            ],
        },
        known=[(at(5, 2), "Le fournisseur de poisson est Marée Bleue, qui livre avant 8 h.")],
    ),
    Case(
        "cancelled",
        "school",
        "The school trip goes to Trier from 4 to 6 May 2027. The coach is booked with Mosel Reisen for 1,850 euros. The"
        " hostel has 54 beds for the trip. Each pupil pays 95 euros for the trip, due by 1 March. Mr Hahn and Ms Kaya go"
        " along on the trip. The choir rehearses on Tuesdays in room 204.",
        [(at(11, 20), "The school trip to Trier is cancelled; coach and hostel were called off without cost.")],
        {
            "text": "The school trip to Trier planned for May 2027 is cancelled; coach and hostel were called off without"
            " cost. The choir rehearses on Tuesdays in room 204.",
            "contradictions": [
                {"newer": "n1", "older": None, "was": "The school trip goes to Trier", "now": "the trip is cancelled"}
            ],
            "left_out": [
                {"what": "s2", "why": "overtaken", "by": "n1"},
                {"what": "s3", "why": "overtaken", "by": "n1"},
                {"what": "s4", "why": "overtaken", "by": "n1"},
                {"what": "s5", "why": "overtaken", "by": "n1"},
            ],
        },
    ),
    Case(
        "small model, lists nothing",
        "piet",
        "Piet works on the backend of Tern and wrote the ingest service, about which he can be asked. He wants code written"
        " for him in Go with table-driven tests and without comments that repeat the code. He is usually at his desk from 8"
        " to 16 o'clock and prefers messages to calls.",
        [(at(11, 21), "Piet will be on parental leave from February to April 2027.")],
        {
            "text": "Piet does the backend of Tern and wrote the ingest service. He wants Go code with table-driven tests and"
            " no needless comments. He works from 8 to 16 and prefers messages. He is on parental leave from February to"
            " April 2027.",
        },
    ),
    Case(
        "Spanish garden",
        "huerto",
        "En el huerto hay 12 tomateras y dos limoneros. Se riega a las 7:00.",
        [(at(11, 20), "Desde ayer se riega a las 20:00, porque el calor era demasiado.")],
        {
            "text": "En el huerto hay 12 tomateras y 2 limoneros. Desde el 2026-11-19 se riega a las 20:00 por el calor.",
            "contradictions": [
                {"newer": "n1", "older": None, "was": "Se riega a las 7:00", "now": "se riega a las 20:00"}
            ],
        },
    ),
    Case(
        "late arrival",
        "mia",
        "The meeting is on Tuesday.",
        [(at(11, 18), "The meeting is on Monday.")],
        {"text": "The meeting is on Tuesday.", "left_out": [{"what": "n1", "why": "overtaken", "by": "k1"}]},
        known=[(at(11, 20), "The meeting was moved to Tuesday.")],
    ),
    Case(
        "Chinese",
        "小李",
        "小李每天早上七点跑步，喜欢喝绿茶。他的生日是5月8日。",
        [(at(11, 20), "小李现在改为晚上八点跑步。")],
        {
            "text": "小李每天晚上八点跑步，喜欢喝绿茶。他的生日是5月8日。",
            "contradictions": [{"newer": "n1", "older": "k1", "was": "每天早上七点跑步", "now": "晚上八点跑步"}],
        },
        known=[(at(5, 1), "小李每天早上七点跑步。")],
    ),
]
