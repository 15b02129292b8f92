"""A text written anew in other words, as a strong model does it unasked, stays as it was written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory_sql.consolidation.keeping import kept
from memory_sql.domain.scopes import PendingObservation

NOW = datetime(2026, 11, 30, tzinfo=UTC)
PERSON = (
    "Mia is a nurse at the Kramer clinic in Linz, where she has worked since 2019. She lives with her partner Tom and"
    " their two cats, Ina and Max. She is allergic to peanuts and does not eat meat. On Tuesdays she rows with the "
    "crew of the red boat, and she is training for the regatta in June. She prefers green tea to coffee and never "
    "takes meetings before ten. Her sister Eva lives in Graz and visits twice a month. She is saving for a trip to "
    "Japan in autumn, probably with Tom."
)
WORK = (
    "Mia leads the Atlas project and reports to Ben Novak. The launch is planned for 3 May 2026, and the budget is "
    "40,000 euros. She wants short answers without emojis. Her team has five people in Vienna and three in Lisbon. "
    "The weekly review takes place on Monday at 9:30. She uses Postgres 16 and Python 3.12, and doesn't want to move "
    "to Kubernetes. She asked twice for dark mode in the dashboard."
)
CREW = (
    "The crew deploys every Thursday at 16:00 from the main branch. Jon is on call this week, and Lea next week. No "
    "merge goes in without two approvals. The staging database is copied from production each night without personal "
    "data. The crew decided against Kafka and uses Postgres for queues. Releases that fail twice are rolled back and "
    "discussed on Monday. Lea wants the tests below ten minutes; Jon thinks fifteen are fine."
)
LIFE = (
    "Mia's passport is valid until 12 March 2031. Her flat has three rooms and costs 1,200 euros a month. She moved "
    "there in 2022 after her divorce from Karl. She owes Ben 300 euros. Her doctor advised her not to run for six "
    "weeks, until 10 April 2026. She reads crime novels, most of all those of Tana French. She doesn't have a car and"
    " doesn't miss one. She was born in 1988 in Győr."
)
FRENCH = (
    "Mia est infirmière à la clinique Kramer de Linz depuis 2019. Elle vit avec son compagnon Tom et leurs deux "
    "chats, Ina et Max. Elle est allergique aux arachides et ne mange pas de viande. Le mardi, elle rame avec "
    "l'équipe du bateau rouge et s'entraîne pour la régate de juin. Elle préfère le thé vert au café et n'accepte "
    "jamais de réunion avant dix heures. Sa sœur Eva habite à Graz et vient deux fois par mois."
)
GERMAN = (
    "Mia arbeitet seit 2019 als Pflegerin in der Klinik Kramer in Linz. Sie wohnt mit ihrem Partner Tom und zwei "
    "Katzen, Ina und Max. Sie ist gegen Erdnüsse allergisch und isst kein Fleisch. Dienstags rudert sie mit der "
    "Mannschaft des roten Bootes und trainiert für die Regatta im Juni. Sie trinkt lieber grünen Tee als Kaffee und "
    "nimmt vor zehn Uhr keine Termine an. Ihre Schwester Eva wohnt in Graz und kommt zweimal im Monat zu Besuch."
)
HUNGARIAN = (
    "Mia 2019 óta ápolónő a linzi Kramer klinikán. Párjával, Tommal és két macskájukkal, Inával és Maxszal él. "
    "Allergiás a mogyoróra, és nem eszik húst. Keddenként a piros hajó csapatával evez, és a júniusi versenyre "
    "készül. A zöld teát jobban szereti a kávénál, és tíz óra előtt sosem vállal megbeszélést. Nővére, Éva Grazban "
    "lakik, és havonta kétszer látogatja meg."
)
LIST = (
    "- Mia is a nurse at the Kramer clinic in Linz (since 2019).\n- Partner: Tom. Cats: Ina, Max.\n- Allergic to "
    "peanuts; no meat.\n- Rows on Tuesdays with the red boat; trains for the regatta in June.\n- Green tea, not "
    "coffee. No meetings before ten.\n- Sister Eva in Graz, visits twice a month.\n- Saving for a trip to Japan in "
    "autumn with Tom, maybe also with Eva and her two children Paul and Lea."
)
BICYCLE = "Mia bought a new bicycle."
REWRITTEN = {
    "merged": (
        PERSON,
        BICYCLE,
        "Mia has been a nurse at the Kramer clinic in Linz since 2019 and shares her home with her partner Tom and "
        "two cats, Ina and Max. She is vegetarian, allergic to peanuts and prefers green tea to coffee. On Tuesdays "
        "she rows with the crew of the red boat, training for the regatta in June. She takes no meetings before ten. "
        "Her sister Eva, who lives in Graz, visits her twice a month. She is saving for a trip to Japan in autumn, "
        "probably with Tom. She bought a new bicycle.",
    ),
    "rephrased": (
        PERSON,
        BICYCLE,
        "Mia works as a nurse at the Kramer clinic in Linz (since 2019). At home there are her partner Tom and the "
        "cats Ina and Max. She eats no meat and has a peanut allergy. She rows on Tuesdays in the red boat's crew and"
        " is preparing for the June regatta. She likes green tea better than coffee and does not accept meetings "
        "before 10. Eva, her sister in Graz, comes to visit two times a month. She puts money aside for an autumn "
        "trip to Japan, probably together with Tom. She has a new bicycle.",
    ),
    "shortened": (
        WORK,
        "Mia is on holiday in the first week of April.",
        "Mia leads Atlas, reporting to Ben Novak. Launch: 3 May 2026, with a budget of 40,000 euros. She likes short "
        "answers, no emojis. Her eight-person team is split between Vienna (five) and Lisbon (three). Weekly review: "
        "Mondays, 9:30. Her stack is Postgres 16 and Python 3.12; she rejects Kubernetes. She has asked twice for a "
        "dark mode in the dashboard. She is on holiday in the first week of April.",
    ),
    "of a group": (
        CREW,
        "The crew pairs on Fridays.",
        "Deploys go out from the main branch on Thursdays at 16:00. This week Jon is on call, next week it is Lea. A "
        "merge needs two approvals to go in. Each night the staging database is copied from production, with personal"
        " data removed. For queues the crew uses Postgres; Kafka was rejected. A release that fails twice is rolled "
        "back and discussed on Monday. On the length of the tests they differ: Lea wants them below ten minutes, Jon "
        "is content with fifteen. The crew now pairs on Fridays.",
    ),
    "of a group, shortened": (
        CREW,
        "The crew pairs on Fridays.",
        "The crew deploys from main every Thursday at 16:00, with two approvals before a merge goes in. Jon is on "
        "call this week, Lea the next. Staging is copied from production each night, stripped of personal data. "
        "Queues run on Postgres, not Kafka. Releases failing twice are rolled back and discussed on Mondays. Lea "
        "wants tests under ten minutes, Jon accepts fifteen. The crew pairs on Fridays.",
    ),
    "what was paid": (
        LIFE,
        "Mia paid Ben back.",
        "Mia was born in Győr in 1988. Her passport is valid until 12 March 2031. Since 2022, after divorcing Karl, "
        "she has lived in a three-room flat for 1,200 euros a month. She repaid Ben the 300 euros. On her doctor's "
        "advice she doesn't run until 10 April 2026. She reads crime novels, above all by Tana French. She has no car"
        " and doesn't miss it.",
    ),
    "from a list": (
        LIST,
        BICYCLE,
        "Mia is a nurse at the Kramer clinic in Linz since 2019. Her partner is Tom, and their cats are called Ina "
        "and Max. She is allergic to peanuts and eats no meat. On Tuesdays she rows with the red boat and trains for "
        "the regatta in June. She drinks green tea, not coffee, and has no meetings before ten. Her sister Eva in "
        "Graz visits twice a month. She is saving for a trip to Japan in autumn with Tom, maybe also with Eva and her"
        " two children, Paul and Lea. She bought a bicycle.",
    ),
    "in French": (
        FRENCH,
        "Mia a acheté un vélo.",
        "Infirmière à la clinique Kramer de Linz depuis 2019, Mia vit avec Tom, son compagnon, et deux chats, Ina et "
        "Max. Elle est végétarienne et allergique aux arachides. Le mardi elle rame dans l'équipe du bateau rouge, en"
        " vue de la régate de juin. Au café elle préfère le thé vert, et elle n'accepte aucune réunion avant dix "
        "heures. Sa sœur Eva, de Graz, vient deux fois par mois. Elle a acheté un vélo.",
    ),
    "in German": (
        GERMAN,
        "Mia hat ein neues Fahrrad gekauft.",
        "Mia ist seit 2019 Pflegerin in der Klinik Kramer in Linz. Mit ihrem Partner Tom und den Katzen Ina und Max "
        "lebt sie zusammen. Sie isst vegetarisch und verträgt keine Erdnüsse. Dienstags rudert sie in der Mannschaft "
        "des roten Bootes; sie trainiert für die Regatta im Juni. Grüner Tee ist ihr lieber als Kaffee, und vor zehn "
        "Uhr nimmt sie keine Termine an. Ihre Schwester Eva aus Graz besucht sie zweimal im Monat. Sie hat ein neues "
        "Fahrrad.",
    ),
    "in Hungarian": (
        HUNGARIAN,
        "Mia kerékpárt vett.",
        "Mia ápolónő a linzi Kramer klinikán 2019 óta. Tommal, a párjával él együtt, és van két macskájuk, Ina és "
        "Max. Vegetáriánus, és allergiás a mogyoróra. Kedden a piros hajó csapatában evez; a júniusi versenyre edz. A"
        " kávénál jobban szereti a zöld teát, és nem vállal megbeszélést tíz óra előtt. Éva, a grazi nővére havonta "
        "kétszer meglátogatja. Kerékpárt vett.",
    ),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_text_in_other_words_comes_out_as_it_was_written(name: str) -> None:
    current, said, text = REWRITTEN[name]
    of = kept(text, current, [PendingObservation(1, said, NOW)], [], "Mia", 400, lambda parts: [None] * len(parts))
    assert (of.text, of.waits, of.put_back) == (text, frozenset(), 0)
