"""Sentences with a figure that follows from what was said without standing there, and the same with an invented one.

Each: what was said, a sentence of a text with `{}` in the place of the figure, the figure that follows, and one that
doesn't. Written before the code that judges them, by hand, in twelve languages: sums, differences, products, shares, clock
words, number words and lengths of time.
"""

from __future__ import annotations

from typing import NamedTuple


class Derived(NamedTuple):
    language: str
    said: tuple[str, ...]
    sentence: str
    right: str
    wrong: str


def _of(language: str, *rows: tuple[str | tuple[str, ...], str, str, str]) -> list[Derived]:
    return [
        Derived(language, (said,) if isinstance(said, str) else said, sentence, right, wrong)
        for said, sentence, right, wrong in rows
    ]


DERIVED = [
    *_of(
        "english",
        ("Mia ordered 3 boxes of 24 bottles each.", "Mia ordered {} bottles.", "72", "74"),
        ("The rent is 950 plus 120 for heating.", "The rent is {} with heating.", "1,070", "1,170"),
        ("The list price of 1,200 comes with 15 % off for members.", "Members pay {}.", "1,020", "1,080"),
        ("Choir starts at quarter past eight in the evening.", "Choir starts at {}.", "20:15", "20:45"),
        ("The bakery opens at half past six in the morning.", "The bakery opens at {}.", "6:30", "6:15"),
        ("The drive takes an hour and a half.", "The drive takes {} minutes.", "90", "95"),
        ("Ben needs two dozen eggs for Sunday.", "Ben needs {} eggs for Sunday.", "24", "20"),
        (("Ana paid 40 euros.", "Ben paid 85 euros."), "Ana and Ben paid {} euros together.", "125", "135"),
        ("The club has 140 members, 95 of whom have paid.", "In the club {} members have yet to pay.", "45", "55"),
        ("Lessons cost 35 pounds each; Mia took six of them.", "Mia's six lessons cost {} pounds.", "210", "240"),
        ("The deposit is 20 % of the price of 3,500.", "The deposit on the price is {}.", "700", "750"),
        ("Twenty-five guests said yes.", "So far {} guests said yes.", "25", "52"),
        ("The tour lasts three weeks.", "The tour lasts {} days.", "21", "24"),
        ("Nora is 34, and Tom is 2 years older.", "Nora's friend Tom is {}.", "36", "38"),
        ("Half of the 5,000 they saved is from Anna.", "Anna saved {} of it.", "2,500", "2,800"),
    ),
    *_of(
        "german",
        ("Die Probe beginnt um halb neun abends.", "Die Probe beginnt um {} Uhr.", "20:30", "21:30"),
        ("Die Fahrt dauert anderthalb Stunden.", "Die Fahrt dauert {} Minuten.", "90", "80"),
        ("Der Zug fährt um Viertel nach sieben morgens.", "Der Zug fährt um {} Uhr.", "7:15", "7:45"),
        (
            "Die Miete beträgt 880 Euro, dazu kommen 140 Euro Nebenkosten.",
            "Die Miete beträgt mit Nebenkosten {} Euro.",
            "1.020",
            "1.120",
        ),
        ("Jonas bestellte 4 Kisten mit je 12 Flaschen.", "Jonas bestellte {} Flaschen.", "48", "46"),
        ("Auf den Preis von 800 Euro gibt es 25 % Rabatt.", "Mit Rabatt sind es {} Euro.", "600", "650"),
        ("Dreiundzwanzig Kinder sind angemeldet.", "Es sind {} Kinder angemeldet.", "23", "32"),
        ("Von 60 Plätzen sind 42 vergeben.", "Es sind noch {} Plätze frei.", "18", "16"),
        ("Der Kurs dauert zwei Wochen.", "Der Kurs dauert {} Tage.", "14", "15"),
        ("Das Treffen ist um drei viertel acht am Abend.", "Das Treffen ist um {} Uhr.", "19:45", "20:15"),
        (("Lena gab 30 Euro.", "Max gab 45 Euro."), "Lena und Max gaben zusammen {} Euro.", "75", "85"),
        ("Sie brauchen zwei Dutzend Eier.", "Sie brauchen {} Eier.", "24", "22"),
        ("Drei Viertel der 80 Mitglieder kamen.", "Es kamen {} Mitglieder.", "60", "65"),
    ),
    *_of(
        "french",
        ("La répétition commence à huit heures et quart du soir.", "La répétition commence à {}.", "20:15", "20:45"),
        ("Le trajet dure une heure et demie.", "Le trajet dure {} minutes.", "90", "75"),
        (
            "Le loyer est de 720 euros plus 80 euros de charges.",
            "Le loyer est de {} euros avec les charges.",
            "800",
            "820",
        ),
        ("Léa a commandé 5 cartons de 6 bouteilles.", "Léa a commandé {} bouteilles.", "30", "36"),
        (
            "Une remise de 10 % s'applique au prix de 450 euros.",
            "Le prix avec la remise est de {} euros.",
            "405",
            "415",
        ),
        ("Vingt-quatre élèves viennent.", "Il y a {} élèves qui viennent.", "24", "42"),
        ("Il faut deux douzaines d'huîtres.", "Il faut {} huîtres.", "24", "26"),
        ("La moitié des 120 places est prise.", "Il y a {} places prises.", "60", "65"),
        ("Sur 90 billets, 67 sont vendus.", "Il reste {} billets.", "23", "27"),
        ("Le magasin ferme à sept heures et demie du soir.", "Le magasin ferme à {}.", "19:30", "18:30"),
    ),
    *_of(
        "spanish",
        ("El ensayo empieza a las ocho y media de la tarde.", "El ensayo empieza a las {}.", "20:30", "20:15"),
        ("El viaje dura hora y media.", "El viaje dura {} minutos.", "90", "100"),
        ("El alquiler es de 650 euros más 90 de gastos.", "El alquiler es de {} euros con gastos.", "740", "760"),
        ("Pidió 6 cajas de 20 tarros.", "Pidió {} tarros.", "120", "126"),
        ("Hay un 30 % de descuento sobre 200 euros.", "Con el descuento son {} euros.", "140", "160"),
        ("Vienen treinta y dos personas.", "Vienen {} personas.", "32", "23"),
        ("Necesitan dos docenas de huevos.", "Necesitan {} huevos.", "24", "30"),
        ("De 75 plazas quedan ocupadas 58.", "Quedan {} plazas libres.", "17", "19"),
        ("El curso dura cuatro semanas.", "El curso dura {} días.", "28", "31"),
    ),
    *_of(
        "italian",
        ("La prova inizia alle otto e mezza di sera.", "La prova inizia alle {}.", "20:30", "20:15"),
        ("Il viaggio dura un'ora e mezza.", "Il viaggio dura {} minuti.", "90", "85"),
        ("L'affitto è di 700 euro più 110 di spese.", "L'affitto è di {} euro con le spese.", "810", "820"),
        ("Ha ordinato 7 scatole da 12 candele.", "Ha ordinato {} candele.", "84", "86"),
        ("C'è il 20 % di sconto su 350 euro.", "Con lo sconto sono {} euro.", "280", "290"),
        ("Vengono ventisette ospiti.", "Vengono {} ospiti.", "27", "37"),
        ("Su 50 posti ne sono occupati 38.", "Restano {} posti liberi.", "12", "14"),
    ),
    *_of(
        "portuguese",
        ("O ensaio começa às oito e meia da noite.", "O ensaio começa às {}.", "20:30", "20:45"),
        ("A viagem dura uma hora e meia.", "A viagem dura {} minutos.", "90", "110"),
        ("A renda é de 600 euros mais 75 de despesas.", "A renda é de {} euros com despesas.", "675", "685"),
        ("Encomendou 8 caixas de 15 velas.", "Encomendou {} velas.", "120", "130"),
        ("Há 40 % de desconto sobre 500 euros.", "Com o desconto são {} euros.", "300", "350"),
        ("Vêm vinte e três convidados.", "Vêm {} convidados.", "23", "33"),
        ("De 80 lugares, 61 estão ocupados.", "Restam {} lugares.", "19", "21"),
    ),
    *_of(
        "dutch",
        ("De repetitie begint om half negen 's avonds.", "De repetitie begint om {} uur.", "20:30", "21:30"),
        ("De rit duurt anderhalf uur.", "De rit duurt {} minuten.", "90", "70"),
        ("De huur is 820 euro plus 65 euro servicekosten.", "De huur is {} euro met servicekosten.", "885", "895"),
        ("Hij bestelde 9 dozen van 8 flessen.", "Hij bestelde {} flessen.", "72", "78"),
        ("Er gaat 25 % van de prijs van 240 euro af.", "De prijs wordt {} euro.", "180", "190"),
        ("Er komen eenentwintig gasten.", "Er komen {} gasten.", "21", "12"),
    ),
    *_of(
        "polish",
        ("Próba zaczyna się o wpół do dziewiątej wieczorem.", "Próba zaczyna się o {}.", "20:30", "21:30"),
        ("Jazda trwa półtorej godziny.", "Jazda trwa {} minut.", "90", "60"),
        ("Czynsz to 2300 złotych plus 450 złotych opłat.", "Czynsz z opłatami to {} złotych.", "2750", "2850"),
        ("Zamówił 5 skrzynek po 20 butelek.", "Zamówił {} butelek.", "100", "105"),
        ("Od ceny 400 złotych jest 15 % zniżki.", "Cena ze zniżką to {} złotych.", "340", "360"),
        ("Przyjdzie dwadzieścia sześć osób.", "Przyjdzie {} osób.", "26", "62"),
        ("Z 70 miejsc zajętych jest 52.", "Zostało {} miejsc.", "18", "28"),
    ),
    *_of(
        "russian",
        ("Репетиция начинается в половине девятого вечера.", "Репетиция начинается в {}.", "20:30", "21:30"),
        ("Дорога занимает полтора часа.", "Дорога занимает {} минут.", "90", "75"),
        ("Аренда 45 000 рублей плюс 6 500 за услуги.", "Аренда с услугами {} рублей.", "51 500", "52 500"),
        ("Он заказал 6 ящиков по 12 бутылок.", "Он заказал {} бутылки.", "72", "66"),
        ("На цену 900 рублей скидка 20 %.", "Цена со скидкой {} рублей.", "720", "780"),
        ("Придут двадцать два гостя.", "Придут {} гостя.", "22", "32"),
    ),
    *_of(
        "swedish",
        ("Övningen börjar halv nio på kvällen.", "Övningen börjar {}.", "20:30", "21:30"),
        ("Resan tar en och en halv timme.", "Resan tar {} minuter.", "90", "100"),
        ("Hyran är 8400 kronor plus 600 för el.", "Hyran är {} kronor med el.", "9000", "9200"),
        ("Hon beställde 4 lådor med 18 ljus.", "Hon beställde {} ljus.", "72", "76"),
        ("Det är 30 % rabatt på priset 600 kronor.", "Priset med rabatt är {} kronor.", "420", "460"),
        ("Tjugofem gäster kommer.", "Det kommer {} gäster.", "25", "35"),
    ),
    *_of(
        "chinese",
        ("排练晚上八点半开始。", "排练{}开始。", "20:30", "20:15"),
        ("车程一个半小时。", "车程{}分钟。", "90", "80"),
        ("房租3200元，另加280元管理费。", "房租连管理费共{}元。", "3480", "3580"),
        ("他订了5箱，每箱24瓶。", "他订了{}瓶。", "120", "124"),
        ("来了二十五位客人。", "来了{}位客人。", "25", "52"),
        ("60个座位中有45个已售出。", "还剩{}个座位。", "15", "25"),
        ("会议早上七点一刻开始。", "会议{}开始。", "7:15", "7:45"),
        ("原价500元，打折后减少20%。", "折后价{}元。", "400", "450"),
    ),
    *_of(
        "japanese",
        ("練習は夜の八時半に始まります。", "練習は{}に始まります。", "20:30", "20:15"),
        ("移動は一時間半かかります。", "移動は{}分かかります。", "90", "80"),
        ("家賃は8万円と管理費5000円です。", "家賃は管理費込みで{}円です。", "85000", "95000"),
        ("24本入りの箱を3箱注文しました。", "{}本注文しました。", "72", "78"),
        ("参加者は二十八人です。", "参加者は{}人です。", "28", "82"),
        ("50席のうち37席が売れました。", "残りは{}席です。", "13", "17"),
    ),
]
