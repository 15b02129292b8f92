"""Words and phrases that tell something personal: data for `classification.classify`.

Everything here is matched against the text in lower case without accents. A word of `WORDS` alone is enough; a phrase is
tried where one of its cues is among the words. English, German, French and Spanish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS: dict[str, frozenset[str]] = {
    "health": frozenset(
        """
        abortion addict addicted addiction adhd alcoholic alcoholism allergic allergies allergy alzheimer anorexia anorexic
        antibiotics anticoagulant antidepressant antidepressants antihistamine arthritis asthma asthmatic autism autistic
        bipolar bulimia cancer cardiologist celiac coeliac chemo chemotherapy cholesterol comatose crohn dementia depressed
        dermatologist diabetes diabetic dialysis disability disabilities dyslexia dyslexic eczema endometriosis epilepsy
        epileptic epipen fertility fibromyalgia gynecologist gynaecologist hepatitis herpes hiv hypertension hysterectomy
        infertile infertility inhaler insulin ivf leukemia lithium lupus mammogram mastectomy medication medications
        melanoma menopause metformin methadone migraine migraines miscarriage neurologist ocd oncologist overdose
        pacemaker parkinson pregnancy pregnant prozac psoriasis psychiatric psychiatrist psychosis psychotherapist
        psychotherapy ptsd rehab relapse relapsed schizophrenia schizophrenic sclerosis seizure seizures stillbirth suicidal
        suicide surgeon surgery syphilis tumor tumour ulcer urologist vasectomy wheelchair xanax zoloft
        allergie allergien allergisch angststorung arbeitsunfahig bluthochdruck blutdruck chemotherapie behinderung
        schwerbehindert schwerbehinderung demenz depressionen depressiv diabetiker diabetikerin epilepsie erkrankt
        erkrankung fehlgeburt herzinfarkt krank krankenhaus krankgeschrieben krankheit krankschreibung krebs krebskrank
        lahmung magersucht medikament medikamente migrane psychiater psychiaterin psychotherapie psychotherapeut rollstuhl
        schlaganfall schwanger schwangerschaft selbstmord sucht suchtig suizid suizidal tabletten therapeutin alkoholiker
        alkoholikerin abtreibung hautarzt frauenarzt
        alcoolique allergique allergiques allergies anxiete asthme asthmatique avortement chimiotherapie cancers demence
        depressif depressive diabete diabetique enceinte epileptique grossesse handicap handicape handicapee hospitalise
        hospitalisee insuline malade maladie medicament medicaments psychiatre psychologue suicidaire tumeur seropositif
        alcoholico alcoholica alergia alergias alergico alergica ansiedad asma asmatico cancerigeno quimioterapia depresion
        deprimido deprimida diabetico diabetica discapacidad discapacitado embarazada embarazo enfermo enferma enfermedad
        epilepsia hospitalizado hospitalizada ictus infarto insulina medicacion medicamento medicamentos migrana migranas
        psiquiatra psicologo psicologa suicidio tumores
        """.split()
    ),
    "intimate": frozenset(
        """
        gay lesbian bisexual homosexual heterosexual transgender transsexual asexual nonbinary queer lgbt lgbtq
        muslim muslims jewish catholic catholics atheist agnostic buddhist hinduism sikh mormon evangelical islam judaism
        baptised baptized hijab kosher halal ramadan
        latino latina hispanic ethnicity undocumented
        felony felon convicted arrested imprisoned incarcerated paroled
        raped molested sexual sexually sexuality orgasm libido
        schwul lesbisch bisexuell homosexuell muslima muslimin judisch katholisch evangelisch atheistin
        vorbestraft verhaftet vorstrafe vorstrafen gewerkschaft gewerkschaftsmitglied
        homosexuel homosexuelle lesbienne bisexuel bisexuelle musulman musulmane juif juive catholique athee bouddhiste
        syndique syndiquee
        lesbiana homosexuales musulmana judio judia catolico catolica ateo atea budista sindicalista detenido encarcelado
        """.split()
    ),
    "financial": frozenset(
        "bankruptcy overdraft payslip paystub insolvent verschuldet privatinsolvenz surendettement endeudado".split()
    ),
}


@dataclass(frozen=True, slots=True)
class Phrase:
    category: str
    cues: frozenset[str]
    pattern: re.Pattern[str]


def _phrase(category: str, cues: str, pattern: str) -> Phrase:
    return Phrase(category, frozenset(cues.split()), re.compile(pattern))


_WHOSE = r"(?:\b(?:my|your|his|her|their|our|whose|mein|meine|meinem|meiner|sein|seine|ihr|ihre|mon|ma|mes|son|sa|ses|mi|mis|su|sus)|'s|s')\s"
_WHICH = r"(?:(?:new|old|current|annual|monthly|yearly|base|starting|gross|net|take-home|credit card|student|home|neues|aktuelles|jahrliches)\s){0,2}"
_MONEY = r"(?:[$€£]\s?\d|\d[\d.,]{0,12}\s?(?:k\b|[$€£]|eur|usd|gbp|chf|dollars|euros?|pounds|franken|a\s(?:year|month|week)|per\s|im\smonat|par\s|al\s))"
_DIGITS = r"[^\n]{0,24}?\b[a-z]{0,3}\d(?:[ -]?[a-z]?\d){4,20}"
_DAY = (
    r"(?:\d{1,2}[./-]|\d{4}-\d|\d{1,2}(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?[a-z]{3,10}|(?:jan|feb|mar|apr|may|jun|jul|aug|"
    r"sep|oct|nov|dec)[a-z]{0,6}\s\d|in\s(?:19|20)\d\d|en\s(?:19|20)\d\d|(?:19|20)\d\d\b)"
)

PHRASES: tuple[Phrase, ...] = (
    _phrase(
        "health",
        "diagnosed heart blood sick therapy therapist mental eating panic self hospital stroke broke tested clinic doctor"
        " symptoms prescribed prescription std burnout disabled blind deaf coma anxiety depression sober transplant leave"
        " operated weight covid",
        r"\bdiagnosed\s(?:with|as)\b|\bheart\s(?:attack|disease|condition|failure|surgery)\b|\bblood\s(?:pressure|sugar|test|type)\b|"
        r"\b(?:on|called\sin|off|is|am|was|are|been|feeling|i'm|he's|she's)\ssick(?:\sleave)?\b|\bsick\s(?:leave|note)\b|"
        r"\b(?:in|to|goes\sto|started|starts|into|for)\stherapy\b|\b(?:my|his|her|their|a|the)\stherapist\b|"
        r"\bmental\s(?:health|illness|breakdown)\b|\beating\sdisorder|\bpanic\s(?:attack|disorder)|\bself[ -]?harm|"
        r"\b(?:in|to|the|from)\shospital\b|\bhad\sa\sstroke\b|\bbroke(?:n)?\s(?:my|his|her|their|a)\s(?:leg|arm|hip|foot|ankle|wrist|rib|collarbone)|"
        r"\btested\spositive\b|\b(?:clinic|doctor)\s(?:appointment|said|visit|says|told)\b|\b(?:my|his|her|their)\ssymptoms\b|"
        r"\bprescri(?:bed|ption\sfor)\b|\b(?:an?|has|have|with)\sstds?\b|\bburn-?out\b|\b(?:is|am|was|are|i'm|he's|she's|became)\s(?:\w{1,10}\s)?"
        r"(?:disabled\sperson|blind|deaf|sober|in\sa\scoma)\b|\b(?:has|have|having|with|from|my|his|her|their|severe|clinical|postpartum)\s"
        r"(?:anxiety|depression|covid)\b|\b(?:organ|kidney|liver|heart|bone\smarrow)\stransplant|\b(?:medical|maternity)\sleave\b|"
        r"\b(?:was|been|got|be)\soperated\son\b",
    ),
    _phrase(
        "health",
        "arzt klinik operiert diagnostiziert fausse crise tension arret fauteuil opere operee silla baja presion ataque"
        " operado operada diagnosticado diagnostico diabetes avc depression",
        r"\b(?:beim|zum)\sarzt\b|\bin\s(?:der|die)\sklinik\b|\b(?:wurde|wird|werde)\s\w{0,10}\s?operiert\b|\bdiagnostiziert\b|\bfausse\scouche\b|"
        r"\bcrise\scardiaque\b|\btension\sarterielle\b|\barret\s(?:maladie|de\stravail)\b|\bfauteuil\sroulant\b|"
        r"\b(?:ete|est)\soperee?\b|\bsilla\sde\sruedas\b|\bbaja\smedica\b|\bpresion\sarterial\b|\bataque\s(?:al\scorazon|de\spanico)\b|"
        r"\boperad[oa]\sde\b|\bdiagnosticad[oa]\b|\bdiagnosticaron\b|\bun\savc\b|\b(?:eine|hat|habe|fait\sune|en)\sdepression\b",
    ),
    _phrase(
        "financial",
        "salary income wage wages paycheck bonus debt debts mortgage loan savings pension worth gehalt lohn einkommen schulden"
        " hypothek kredit salaire revenu revenus dette dettes salario sueldo deuda deudas hipoteca nomina rent",
        rf"{_WHOSE}{_WHICH}(?:salary|income|wages?|paycheck|bonus|debts?|mortgage|loans?|savings|pension|net\sworth|gehalt|lohn|einkommen|"
        rf"schulden|hypothek|kredit|salaire|revenus?|dettes?|salario|sueldo|deudas?|hipoteca|nomina)\b|"
        rf"\b(?:salary|income|wage|paycheck|bonus|pension|gehalt|lohn|salaire|salario|sueldo)\b[^\n.]{{0,25}}?{_MONEY}|"
        rf"\b(?:in|into)\sdebt\b",
    ),
    _phrase(
        "financial",
        "earn earns earned earning makes paid owes owe lent borrowed verdient verdiene gagne gana gano debe credit",
        rf"\b(?:earn(?:s|ed|ing)?|makes|is\spaid|gets\spaid|owes?|verdien(?:t|e)|gagne|gan[ao]|debe)\b[^\n.]{{0,25}}?{_MONEY}|"
        rf"\bcredit\s(?:score|rating)\b[^\n.]{{0,20}}?\d|\b(?:lent|borrowed)\b[^\n.]{{0,20}}?{_MONEY}",
    ),
    _phrase(
        "identity",
        "passport ssn social license licence reisepass personalausweis ausweisnummer steuer steuernummer steueridentifikationsnummer tax tin"
        " sozialversicherungsnummer rentenversicherungsnummer passeport securite pasaporte dni nie nif visa fuhrerschein national seguridad insurance"
        " nhs medicare id identity",
        rf"\b(?:passport|ssn|social\ssecurity|driver'?s?\slicen[cs]e|driving\slicen[cs]e|reisepass|personalausweis|ausweisnummer|steuer-?id|"
        rf"steuernummer|steueridentifikationsnummer|tax\s(?:id|number|payer)|tin|sozialversicherungsnummer|rentenversicherungsnummer|passeport|"
        rf"securite\ssociale|pasaporte|dni|nie|nif|fuhrerschein|national\s(?:id|insurance)|seguridad\ssocial|nhs|medicare|identity\scard|id\scard)\b"
        rf"{_DIGITS}",
    ),
    _phrase(
        "identity",
        "born dob birth birthday birthdate geboren geburtstag geburtsdatum ne nee naissance anniversaire nacio nacido nacida nacimiento cumpleanos",
        rf"\b(?:born|dob|date\sof\sbirth|birthdays?|birthdate|geboren|geburtstag|geburtsdatum|nee?\sle|naissance|anniversaire|nacio|nacid[oa]|nacimiento|"
        rf"cumpleanos)\b[^\n.?!]{{0,25}}?{_DAY}",
    ),
    _phrase(
        "intimate",
        "christian christians hindu protestant church mosque synagogue temple religion religious faith pray prays praying converted god",
        r"\b(?:is|am|are|was|i'm|he's|she's|became|devout|practi[cs]ing)\s(?:an?\s)?(?:devout\s|practi[cs]ing\s|born-again\s)?(?:christian|hindu|protestant|religious)\b"
        r"(?!\s[a-z]{2,15}(?:mann|son|sen)\b)|\b(?:to|at|from)\s(?:church|mosque|synagogue)\b|\b(?:my|his|her|their)\s(?:religion|faith)\b|\bprays?\b|"
        r"\bconverted\sto\s(?:islam|judaism|christianity|catholicism|buddhism)\b|\bbelieves?\sin\sgod\b",
    ),
    _phrase(
        "intimate",
        "republican democrat communist socialist votes voted vote voting party union activist leftist conservative political wahlt gewahlt partei parteimitglied syndicat sindicato voto",
        r"\b(?:is|am|are|was|i'm|he's|she's|registered)\s(?:an?\s)?(?:registered\s|lifelong\s)?(?:republican|democrat|communist|socialist|leftist|conservative)s?\b(?!\sestimate)|"
        r"\bvot(?:es?|ed|ing)\sfor\s(?:the\s)?(?:left|right|greens?|labour|tories|tory|conservatives?|liberals?|democrats?|republicans?|trump|biden|harris|obama|clinton|"
        r"sanders|afd|cdu|csu|spd|fdp|linke|macron|le\spen|psoe|pp|vox|podemos)\b|\b(?:member\sof|joined|supports?|donat(?:es|ed)\sto)\s(?:the|a|our)\s(?:\w{1,15}\s){0,2}(?:party|union)\b|"
        r"\b(?:trade|labou?r)\sunion\b|\bunion\s(?:member|rep|representative|steward|dues)\b|\b(?:my|his|her|their)\spolitical\b|"
        r"\bwahlt\s(?:die\s)?(?:afd|cdu|csu|spd|fdp|grunen?|linke)\b|\b(?:in\sder|mitglied\sder)\s(?:\w{1,15}\s)?partei\b|\b(?:au|du|le)\ssyndicat\b|\b(?:al|del|el)\ssindicato\b",
    ),
    _phrase(
        "intimate",
        "criminal prison jail parole probation court gefangnis prison carcel casier antecedentes",
        r"\bcriminal\s(?:record|conviction|charges|history)\b|\b(?:in|to|from|of)\s(?:prison|jail)\b|\bon\s(?:parole|probation)\b|\bprobation\sofficer\b|"
        r"\b(?:im|ins)\sgefangnis\b|\ben\sprison\b|\ben\sla\scarcel\b|\bcasier\sjudiciaire\b|\bantecedentes\spenales\b",
    ),
    _phrase(
        "intimate",
        "black asian arab roma african descent origin heritage race racial skin immigrant",
        r"\b(?:black|asian|arab|roma|white|african)\s(?:man|woman|person|people|guy|girl|boy|family|american)\b|\bof\s[a-z]{3,15}\s(?:descent|origin|heritage)\b|"
        r"\b(?:my|his|her|their)\s(?:race|racial|skin\scolou?r|immigration\sstatus)\b|\bafrican[ -]american",
    ),
    _phrase(
        "intimate",
        "sex affair cheating cheated abuse abused abusive violence out trans boyfriends girlfriends rape binary asylum",
        r"\bsex\slife\b|\bhad\ssex\b|\bhaving\s(?:sex|an\saffair)\b|\b(?:an?|had\san|the)\saffair\swith\b|\bcheat(?:ing|ed)\son\s(?:my|his|her|their|me|him)\b|"
        r"\b(?:domestic|sexual)\s(?:violence|abuse|assault)\b|\b(?:was|were|been|is)\s(?:sexually\s)?abused\b|\babusive\s(?:relationship|husband|wife|partner|father|mother|parents?)\b|"
        r"\b(?:came|come|coming)\sout\s(?:as|to\s(?:my|his|her|their))\b|\b(?:is|am|are|i'm|he's|she's|they're)\s(?:a\s)?trans\b|\b(?:was|were|been)\srap|\bnon-?binary\s(?:person|gender)|\bas\snon-?binary\b|\basylum\s(?:seeker|claim|application)\b",
    ),
    _phrase(
        "contact",
        "phone tel telephone mobile cell call text whatsapp number telefon telefonnummer handy handynummer mobil nummer anrufen numero portable telefono movil llamar"
        " appelle reach",
        r"\b(?:phone|tel|telephone|mobile|cell|whatsapp|call|text|reach|telefon|telefonnummer|handy|handynummer|mobil|anrufen|portable|movil|telefono)\b"
        r"[^\n\d+(]{0,25}[(+]{0,2}\d(?:[ ()./-]{0,2}\d){6,14}(?!\d)",
    ),
)

# A person's address, not a mailbox of a firm's.
ROLE_MAILBOXES = frozenset(
    """
    abuse accounts admin alerts all billing bookings careers contact customerservice devops dev dpo editor enquiries
    events feedback finance hello help helpdesk hr info inquiries invoices it jobs legal mail mailer marketing media
    news newsletter noc no-reply noreply notifications office operations ops orders postmaster press privacy reception
    recruiting reports root sales security service shop staff status support sysadmin team test user username webmaster
    git example kontakt buchhaltung vertrieb bestellung redaktion bonjour contacto ventas soporte hola facturas
    """.split()
)
EMAIL = re.compile(r"(?<=[a-z0-9])@(?=[a-z0-9])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,3}\.[a-z]{2,24}(?![a-z0-9])")
LOCAL_PART = re.compile(r"[a-z0-9.+_%-]{1,64}\Z")
PHONES = re.compile(
    r"(?<![\w+./-])(?:\+\d{1,3}(?:[ ()./-]{0,2}\d){7,12}|\(\d{3}\)\s?\d{3}[ -]\d{4}|\d{3}-\d{3}-\d{4})(?![\w-]|\.\d)"
)
SSN = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])")

# Street addresses are told by their capitals: these two are matched against the text as it is.
STREET_CUES = (
    "street", "st", "avenue", "ave", "road", "rd", "lane", "drive", "boulevard", "blvd", "court", "terrace", "square", "close",
    "rue", "chemin", "impasse", "calle", "avenida", "plaza", "paseo", "strasse", "str", "weg", "platz", "gasse", "allee", "via",
)  # fmt: skip
STREETS = re.compile(
    r"(?<![\w.-])\d{1,5}[a-zA-Z]?,?\s(?:[A-Z][\w'.-]{1,20}\s){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Drive|Boulevard|Blvd|Court|Terrace|Square|Close)\b|"
    r"(?<![\w.-])\d{1,4}(?:\s(?:bis|ter))?,?\s(?:[Rr]ue|[Aa]venue|[Bb]oulevard|[Cc]hemin|[Ii]mpasse|[Pp]lace)\s(?:de\s|du\s|des\s|la\s|le\s|l'|les\s){0,2}[A-ZÉÈ]\w|"
    r"\b(?:[Cc]alle|[Aa]venida|[Pp]laza|[Pp]aseo|[Vv]ia)\s(?:[\w'.]{1,20}\s?){1,4},?\s\d{1,4}\b|"
    r"[A-ZÄÖÜ][\wäöüß-]{1,30}(?:straße|strasse|str\.|weg|platz|gasse|allee)\s\d{1,4}\b|"
    r"[A-ZÄÖÜ][\wäöüß-]{1,20}\s(?:Straße|Strasse|Str\.|Weg|Platz|Allee)\s\d{1,4}\b"
)
STREET_WORDS = re.compile(r"(?:strasse|str|weg|platz|gasse|allee)$")
