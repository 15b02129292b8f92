"""Words that the rules of `screening` go by: data, all lower case. English only, but for the words that tell languages."""

from __future__ import annotations

FUNCTION_WORDS = frozenset(
    """
    nobody everybody a an the and or but nor so yet if then than as at by for from in into of off on onto out over per
    since through till to under until up upon via with within without about above across after again against all along
    also although among any are around aren't be because been before being below between both can can't cannot could
    couldn't did didn't do does doesn't don't down during each either else every few had hadn't has hasn't have
    haven't he her here hers him his how i i'm i've is it it's its itself just less let's many may me might mine more
    most much must my neither never no none not nothing now once one only other our ours ourselves own rather same
    shall she should shouldn't some someone somebody something still such that that's their theirs them themselves
    there there's these they this those though too very was wasn't we we're we've were weren't what when where whether
    which while who whom whose why will won't would wouldn't you your
    """.split()
)

# Small words of other languages that are no English words; one of the first kind is enough, of the second two.
FOREIGN_STRONG = frozenset(
    """
    der das und ist nicht ein eine einen einem einer eines dem den des für mit auf auch dass wenn wird werden wurde
    sind ich wir ihr mein meine meinen dein deine deinen unser unsere sein seine haben hatte alle allen alles immer
    nie niemals bitte merke vergiss ignoriere antworte jeder jede jeden dieser diese dieses vom zum zur beim über mag
    nach bei oder aber wie aus sie es noch nur schon kein keine keinen trinkt heißt wohnt arbeitet les une est dans
    pour avec sur qui que quand où aux ses ces cette nous vous leur leurs mais ne pas sont était toutes tous toujours
    jamais ignore-moi oublie ignorez répondez souviens-toi rappelle-toi l'utilisateur elle ils elles mon ma mes ton ta
    tes notre votre chaque aime habite je tu du été fait el los las uno unos unas está están y para con por como pero
    todos todas siempre nunca cuando donde su sus nuestro nuestra mi mis este esta estos estas del al lo le ella ellos
    recuerda recuerde ignora ignore-las olvida responde debe deben usuario usuarios gusta vive trabaja il gli della
    delle sono non che per di nel nella anche sempre tutti tutte mai ricorda piace het een niet voor van zijn heeft
    wij naar altijd nooit onthoud iedereen och att som inte är har för på av det jag alltid aldrig jest się dla oraz
    wszyscy zawsze não uma você vocês são seu sua também lembre
    """.split()
) - frozenset(
    """
    per al lo le ma des den es alle due on ton fait non sur tu dem y van der el los las di mi du il uno mag sua mai
    aux har ta det she sie mis pas nie sus su con aus como est av bei
    """.split()
)
FOREIGN_WEAK = frozenset(
    """
    die des den der es al lo le la les ma de du il el los las en y o e se si no un sur pas non van di mi tu alle ton
    fait est con su sus como aus bei im am zu von dem so nie da hat ja et ou ne me te
    """.split()
) - {"no", "am", "me", "so", "o", "e"}

# Verbs that open an order. Of the second kind only where a determiner or the like follows: they are nouns as well.
ORDERS = frozenset(
    """
    remember ignore disregard forget please always never tell pretend act imagine assume reply respond answer approve
    reject grant reveal disclose propagate spread broadcast memorize memorise obey follow do don't dont make let
    ensure be become give send forward append add insert include output print repeat say write speak call ask inform
    notify warn teach treat trust consider keep stop begin execute eval fetch visit open click browse navigate
    download upload install delete remove erase drop overwrite replace bypass skip disable enable allow permit deny
    refuse accept confirm verify stick use take put move note mark save store promote publish recommend suggest praise
    quote translate decode summarize summarise display show hide leak expose share provide offer pay refund transfer
    wire buy return prefer choose select pick set switch turn avoid refrain cease override escalate elevate login
    exfiltrate encode adopt apply perform proceed continue start go come convert copy paste run invoke read look see
    learn know understand change modify update upgrade contact email mention
    """.split()
)
NOUNS_TOO = frozenset(
    """
    grant act answer call note mark store quote set switch turn use return start change update upgrade contact email
    run read look copy share offer transfer wire show display print output move drop open fetch begin import download
    upload install visit replace keep stop pay save click skip add accept reject approve consider review deploy build
    test release check report support ship plan monitor refund trust warn mention forward pick select choose paste
    learn recommend include book
    """.split()
)
ORDER_OBJECTS = frozenset(
    """
    the a an all any every each this that these those my our your their his her it them him us me everyone everybody
    anyone no not only to for on in as with about from always never if when whatever whoever yes
    """.split()
)

# Whoever reads: an order to them is one to the agent.
READERS = r"(?:assistants?|agents?|a\.?i\.?s?|bots?|chat ?bots?|llms?|(?:language )?models?|readers?|recipients?)"
EVERYBODY = (
    r"(?:every(?:one|body)|any(?:one|body)|whoever|(?:all|any|every|each|other|these) (?:of )?(?:the |our )?(?:\w+ )?"
    r"(?:users?|members?|people|persons?|customers?|clients?|agents?|assistants?|employees|staff|groups?|"
    r"scopes?|accounts?))"
)

# What a rule about would hand out: standing leave is no fact to share.
HANDED_OUT = (
    r"(?:refund(?:s|ed|ing)?|discounts?|payments?|pay-?outs?|transfers?|credits?|vouchers?|gift cards?|access|"
    r"passwords?|"
    r"credentials?|tokens?|secrets?|(?:admin|root)(?:istrator)? (?:rights?|access|privileges?)|privileges?|"
    r"permissions?|"
    r"permitted|approvals?|approved|granted|authori[sz]ed|authori[sz]ation|trusted|exempt|waived)"
)
WITHOUT_LIMIT = (
    r"(?:always|never|automatic(?:ally)?|without|no longer (?:need|requir)\w*|(?:do|does)(?:n't| not) (?:need|"
    r"require)|no need|"
    r"unlimited|unconditional(?:ly)?|regardless|whoever|everyone|everybody|anyone|anybody|(?:all|any|every|"
    r"each) (?:users?|customers?|"
    r"clients?|members?|requests?|people|persons?|amounts?|employees)|on request|upon request|when asked|"
    r"if asked|in full|for free)"
)

SAYING = frozenset(
    """
    said says mentioned mentions reported reports announced announces confirmed confirms noted notes explained
    explains told stated states wrote writes added adds clarified clarifies pointed reminded reminds shared shares
    proposed proposes decided decides agreed agrees thinks thought believes suggested suggests learned found
    discovered noticed observed
    """.split()
)
DOING = frozenset(
    """
    owns own owned leads lead led maintains maintain maintained reviews review reviewed handles handle handled manages
    manage managed runs run ran merged merges merge deployed deploys deploy fixed fixes fix released releases release
    migrated migrates migrate wrote writes write approves approve approved coordinates coordinate coordinated
    supervises supervise supervised oversees oversee oversaw tests test tested builds build built implements implement
    implemented refactored refactors refactor configured configures configure designed designs design documented
    documents document shipped ships ship monitors monitor monitored scheduled schedules schedule organises organizes
    organised organized administers administered develops develop developed updates update updated upgraded upgrades
    upgrade closed closes close opened opens reopened filed files rolled rolls reverted reverts created creates create
    added adds add removed removes remove moved moves move replaced replaces finished finishes finish completed
    completes presented presents joined joins leaves operates operated triages triaged signs signed
    """.split()
) - {"leaves"}
ROLES = frozenset(
    """
    owner lead leader maintainer reviewer approver contact responsible on-call oncall assignee manager coordinator
    architect administrator admin author point person driver sponsor head in charge accountable steward chair host
    moderator
    """.split()
) - {"in", "person", "point"}
VERBS_OF_PERSONS = frozenset(
    """
    prefers prefer preferred likes liked loves loved hates hated dislikes disliked enjoys enjoyed wants wanted wishes
    wished hopes hoped feels felt fears feared worries worried adores adored craves misses missed regrets regretted
    believes believed thinks thought dreams intends intended plans planned lives lived sleeps slept eats ate drinks
    drank cooks cooked smokes smoked wears wore weighs married divorced studies studied collects collected struggles
    struggled suffers suffered cried cries complained complains quit resigned retired retires earns earned owes owed
    donates donated votes voted prays prayed travels travelled traveled commutes rides swims swam jogs hikes knits
    paints sings dances avoids trusts mistrusts admires resents envies gets is was has had appears got became becomes
    always never usually often mostly rarely sometimes can't cannot
    """.split()
)
FEELING = frozenset(
    """
    prefers prefer preferred preference preferences likes liked loves loved love hates hated hate dislikes disliked
    dislike enjoys enjoyed enjoy wants wanted wishes wished hopes hoped feels felt fears feared worries worried adores
    adored craves regrets regretted dreams believes believed thinks favourite favorite favourites favorites misses
    intends
    """.split()
)
GROUPS = frozenset(
    """
    client customer vendor supplier team teams group groups squad squads company companies organisation organization
    department departments division crew committee board customers clients users engineers developers employees staff
    members colleagues stakeholders management leadership everyone we us our office guild chapter tribe unit vendors
    suppliers partners agency product products project projects
    """.split()
)
PERSONS = frozenset(
    """
    someone somebody anyone anybody person individual user speaker member colleague coworker co-worker teammate
    employee engineer developer designer intern contractor freelancer guy man woman lady boy girl gentleman dude boss
    supervisor guest patient student teacher neighbour neighbor roommate resident citizen worker analyst programmer
    secretary salesperson founder participant applicant candidate interviewee newcomer trainee apprentice client
    customer subscriber follower author sender contributor requester owner manager director president accountant
    lawyer recruiter receptionist ceo cfo cto coo cmo vp head
    """.split()
) - {"owner", "author", "client", "customer"}
WORK = frozenset(
    """
    zones deploys time passwords importer exporter parser utf-8 deploy approved rejected postponed cancelled canceled
    delayed finished planned required optional supported documented extended rescheduled finance legal development
    decided agreed agency guide switched rewrite switch trunk-based access account accounts accounting acceptance
    adapter admin agenda agile alarm alarms alembic alert alerts algorithm analytics annotation api apis app
    application applications approval approvals architecture archive archives artefact artefacts artifact artifacts
    asset assets async asynchronous asynchronously audit audits auth authentication authorization automation
    availability aws azure backend backlog backup backups bandwidth banner batch batches benchmark benchmarks beta
    billing binary board boards branch branches brand browser browsers budget budgets bug bugs build builds bundle
    business cache caches caching campaign capacity catalogue catalog certificate certificates changelog channel
    channels checklist checkout checks ci cd client clients cluster clusters code codebase colour column columns
    command commit commits communication company compiler compliance component components conference config
    configuration connection connections connector container containers contract contracts conversion cron csv
    customer customers dashboard dashboards data database databases dataset datasets deadline deadlines debt decision
    decisions default defaults demo demos department dependencies dependency deployed deployment deployments design
    designs desktop developer developers device devices diagram dns docker docs document documentation documents
    domain downtime draft drafts dump editor email emails employees encoding encryption endpoint endpoints engine
    engineering engineers environment environments epic error errors escalation estimate estimates event events
    experiment export exports feature features feed feedback field fields file files firewall firmware fixture flag
    flags folder forecast format formats form forms framework freeze frontend frozen function functions gateway git
    github gitlab goal goals grafana graphql guideline guidelines handbook handler hardware helm helpdesk hosted
    hosting hotfix html http https image images implementation import imports incident incidents index indexes
    indexing infrastructure ingestion inbox input install installation installer instance instances integration
    integrations interface interfaces inventory invoice invoices issue issues iteration javascript job jobs json kafka
    kernel keyboard kickoff kpi kubernetes label labels laptop laptops latency launch launched launches layer layout
    leadership library libraries licence license licences licenses lifecycle limit limits lint linter linux load
    logging logs logo log machine machines mailing maintenance management manual manuals market marketing meeting
    meetings merge merged metadata metric metrics microservice microservices middleware migration migrations milestone
    milestones mobile model models module modules monitor monitoring monolith monorepo mysql network newsletter node
    nodes notebook notification notifications oauth office offline okr onboarding oncall on-call opensearch operating
    operations order orders outage outages output owner ownership package packages page pages pager partition password
    patch patches payload payment payments payroll performance permissions phase pilot pipeline pipelines platform
    platforms playbook plugin plugins policy policies pool portal postgres postgresql postmortem postmortems pr prs
    price prices pricing printer priorities priority process processes procurement product production products program
    programme project projects prometheus proposal protocol prototype provider proxy pull purchase python qa quality
    quarter quarterly queries query queue queues quota quotas rate rates readme redis refactoring region regions
    regression regressions release released releases replica replicas replication repo repos repositories repository
    report reporting reports request requests requirement requirements response responses rest retention retro retros
    retrospective retrospectives revenue review reviewed reviewer reviewers reviews risk risks roadmap role roles
    rollback rollout rota rotation router row rows runbook runbooks runner runs runtime rust sales sandbox schedule
    scheduled schema schemas scope screen screens script scripts sdk search security sensor sensors server servers
    service services sessions shard shards ship shipped shipping ships shop signup site sites sla slack slo snapshot
    software source spec specification specs spike sprint sprints sql sso stack staff stage staging stakeholder
    stakeholders stand-up standup standups statement statistics status stock storage store stories story strategy
    stream streaming style subscription subscriptions supplier suppliers support survey suite sync syncs syntax system
    systems table tables target targets task tasks team teams template templates tenant tenants terraform test tested
    testing tests theme thread threads throughput ticket tickets tier timeline timeout timeouts timezone tls token
    tokens tool tooling tools topic topics track tracker tracing traffic training translation translations trigger
    triggers type types typescript ui unit update updates upgrade upgraded upgrades uploads uptime url usability usage
    users ux validation variable vendor vendors version versions view views volume vpn vulnerability warehouse
    warehouses warning warnings web webhook webhooks website widget wiki window windows workflow workflows workload
    workshop workspace workspaces xml yaml zone handover hiring headcount interns stand-ups check-in check-ins
    all-hands town-hall rfc rfcs adr adrs kanban scrum jira confluence trello figma notion sentry datadog ansible
    jenkins dbt airflow spark snowflake bigquery tableau looker plant factory shift shifts line conveyor shipment
    shipments parcel parcels delivery deliveries fleet depot dock harbour harbor ferry curriculum course courses
    semester lab ward clinic exhibition booth kiosk venue counter offices building floor parking badge badges
    reception elevator printers cafeteria canteen room rooms ticketing intake cutover go-live golive blue-green canary
    changeset diff linting typing mypy ruff pytest mongodb sqlite oracle nginx apache react vue angular django flask
    fastapi java golang kotlin swift node.js
    """.split()
)
# What concerns one person's life. A statement that holds one of these stays where it is, whoever its subject is.
PRIVATE = frozenset(
    """
    resign resigns quits quit hungover accident trial hearing husband wife spouse fiance fiancee boyfriend girlfriend
    partner-in-life ex-wife ex-husband daughter daughters son sons kid kids child children baby babies toddler twins
    mother father mum mom dad mama papa parent parents brother brothers sister sisters sibling siblings grandma
    grandpa grandmother grandfather grandchild grandchildren grandson granddaughter aunt uncle cousin cousins niece
    nephew stepson stepdaughter stepfather stepmother godmother godfather family families relatives mother-in-law
    father-in-law in-laws friend friends friendship neighbour neighbours neighbor neighbors roommate flatmate marriage
    married marries marry wedding engaged engagement-ring fiancé fiancée divorce divorced divorcing separated
    separation dating affair breakup pregnant pregnancy miscarriage maternity paternity adoption adopted widow widowed
    widower single romantic romance crush lover sexual sexuality gay lesbian bisexual transgender trans nonbinary
    queer orientation sick sickness ill illness disease diabetes diabetic cancer tumor tumour chemo chemotherapy
    leukemia asthma allergy allergies allergic gluten lactose coeliac celiac migraine migraines headache headaches
    depression depressed depressive anxiety anxious bipolar schizophrenia adhd autism autistic dyslexia dyslexic ptsd
    insomnia insomniac burnout stress stressed therapy therapist psychologist psychiatrist psychiatric counselling
    counsellor rehab addiction addicted alcoholic alcoholism alcohol sober sobriety drunk drugs cocaine cannabis weed
    smoking smoker smokes cigarette cigarettes vaping overdose suicide suicidal surgery operation-scar hospital
    hospitalised hospitalized doctor doctors dentist physician nurse medication medications medicine pills
    prescription insulin antidepressants vaccinated vaccine vaccination hiv aids covid flu fever injury injured
    fracture sprained disabled disability wheelchair blind deaf hearing-aid epilepsy epileptic seizure stroke
    arthritis diagnosis diagnosed diagnosing symptom symptoms biopsy dialysis kidney liver lung lungs tinnitus hernia
    ulcer eczema psoriasis anemia anaemia cholesterol hypertension menopause menstruation period-pain ivf infertility
    infertile vasectomy abortion tattoo tattoos piercing wig toupee hair haircut bald weight overweight obese obesity
    anorexia bulimia diet dieting calories height vegetarian vegan vegetarians vegans pescatarian halal kosher fasting
    lent breakfast lunch dinner supper snack snacks meal meals recipe tea coffee espresso cappuccino latte matcha wine
    beer beers whisky whiskey gin vodka rum cocktail cocktails chocolate pizza pasta sushi curry cheese cake cakes
    cookies bread vegetables fruit mushrooms peanuts peanut shellfish seafood steak burger salad soup ramen tofu
    dessert ice-cream cilantro coriander olives garlic onions strawberries spicy eats ate drinks drank cooks cooking
    bakes baking barbecue restaurant dog dogs cat cats puppy kitten pet pets hamster parrot horse horses rabbit
    goldfish aquarium hobby hobbies guitar piano violin cello drums flute trumpet choir band concert concerts opera
    theatre theater movie movies film films cinema netflix novel novels poetry poems football soccer tennis golf
    basketball volleyball hockey rugby cricket chess yoga pilates gym marathon marathons triathlon jogging jogs hiking
    hikes climbing bouldering skiing skis snowboard surfing surfs sailing swimming swims cycling running-shoes
    knitting knits sewing gardening garden painting pottery photography fishing hunting camping birdwatching karaoke
    salsa tango ballet dancing gaming videogames lego crossword holiday holidays vacation vacations honeymoon birthday
    birthdays anniversary christmas easter ramadan party parties funeral died dies death dying dead passed-away
    mourning grief grieving cremation inheritance inherited inherits testament house apartment flat mortgage rent
    landlord landlady tenancy evicted eviction homeless moving-house hometown bedroom kitchen bathroom sofa couch
    garage car cars motorbike motorcycle bicycle bike boat-trip commute commutes sleeps slept sleep sleeping nap naps
    nightmares snores salary salaries wage wages bonus debt-collector debts loan loans bankrupt bankruptcy savings
    pension gambling gambles lottery casino alimony overdraft broke tax-return religion religious church mosque
    synagogue temple catholic protestant muslim christian jewish hindu buddhist atheist atheism agnostic prays prayer
    baptised baptized confession faith vote votes voted voter republican democrat socialist communist conservative
    liberal politics political party-member union-member protest activist immigration asylum refugee visa-status
    ethnicity race-origin arrested arrest jail prison convicted conviction criminal probation lawsuit sued custody
    restraining-order police fired sacked laid-off unemployed resigned resignation resigning quitting retire retired
    retirement promoted demoted interviewing poached job-hunting recruiter underpaid overworked lonely loneliness sad
    happy unhappy angry furious jealous ashamed embarrassed embarrassing guilty afraid scared nervous excited tired
    exhausted homesick heartbroken bored lazy shy introvert introverted extrovert feelings feeling mood moods moody
    cries cried crying tears panic phobia dreams therapist's shoes dress clothes wardrobe perfume makeup jewellery
    jewelry personality horoscope zodiac born birth birthplace nationality passport maiden nickname secretly privately
    secret rumour rumor rumours gossip gossips scandal bullied bullying harassed harassment abused abusive assault
    assaulted raped stalked stalker blackmail favourite favorite favourites favorites likes liked loves loved hates
    hated dislikes enjoys adores fond hobbyist school kindergarten nursery daycare preschool homework college-fund
    babysitter nanny ovulation contraception contraceptive condom lipstick botox orthodontist braces glasses myopia
    girlfriend's boyfriend's crypto-wallet tinder bumble okcupid onlyfans dna-test herself himself
    """.split()
)
# Technical senses of private words, where no person is named beside them.
TECHNICAL = (
    r"lives? in (?:the |our |a )?(?:\w+ )?(?:handbook|wiki|repo|repository|monorepo|database|package|module|cluster)|"
    r"after the holidays|(?:end of|before|over) the holidays|(?:package|password|task|window|secrets|device|"
    r"dependency|session) managers?|"
    r"health(?:[- ]?checks?)|(?:child|parent|sibling) (?:process|processes|nodes?|tables?|tickets?|issues?|"
    r"company|tasks?|keys?)|"
    r"(?:request|response|message) body|home ?pages?|home (?:directory|screen|office)|third[- ]part(?:y|ies)|in-house|"
    r"(?:product|font|column|instance) famil(?:y|ies)|dead[- ](?:letters?|locks?|code|lines?)|(?:technical|tech) debt|"
    r"single (?:sign-on|point|source|page|tenant|instance|region|node|database|table|queue|repository|branch|"
    r"migration|file)|"
    r"(?:lunch|coffee) (?:break|room)|raise (?:a |an )?(?:ticket|issue|error|incident)s?|raises? an? (?:error|"
    r"exception)|"
    r"period of|die-cut|liberal licen[cs]e|school holidays|public holidays?|bank holidays?|"
    r"holiday (?:calendar|season|freeze)|"
    r"customer happiness|race conditions?|garbage|payroll|promoted to (?:production|staging|main|stable|beta)|"
    r"(?:release|deployment) trains?|film festival|dressing|race|car(?:rier|go)|film reel"
)
PRIVATE_PHRASES = (
    r"new job|job (?:offer|interview|search|hunt\w*)|looking for (?:a |another )?(?:job|flat|work|apartment|"
    r"position|change)|"
    r"sick leave|parental leave|on leave|day off|days off|time off|off sick|works? from home|calls? in sick|"
    r"day job|side job|"
    r"in love|falls? for|broke up|split up|sex life|grew up|growing up|years? old|aged? \d+|date of birth|"
    r"moving (?:in|house|to)|"
    r"moved (?:in with|house)|stays? with|stays? up|wakes? up|woke up|gets? up|going (?:to bed|out with)|"
    r"blood (?:pressure|type|test|sugar)|heart (?:attack|condition|problem|disease)|mental health|"
    r"health (?:problems?|issues?|"
    r"condition|insurance|reasons)|back pain|bad back|hearing loss|panic attacks?|eating disorder|"
    r"credit score|bank account|"
    r"in debt|pay(?:check|slip| rise| raise)|makes? (?:about |around )?[$€£]?\d+ ?k|social security|"
    r"home address|phone number|"
    r"(?:left|right)-handed|colou?r-?blind|personal (?:life|reasons?|matters?|problems?|project|phone|e-?mail|"
    r"account|trainer)|"
    r"private (?:life|matters?|reasons?|number|address|phone)|political part(?:y|ies)|trade union|passed away|"
    r"star sign|"
    r"works? out|one of (?:the|our|my|these|those) \w+s|(?:half|some|two|three|many|most|none) of (?:the|"
    r"our) (?:interns|women|men|guys|colleagues)|password hints?|free time|spare time|at home|home (?:life|alone)|"
    r"hard of hearing|night owl|early bird|morning person|"
    r"can't stand|cannot stand|"
    r"(?:is|was|are|were|be|been|get|gets|got|being) (?:fired|dismissed|let go|laid off|promoted|demoted|"
    r"bullied|arrested|dumped)|"
    r"performance (?:improvement plan|problems)|warning letter|visa (?:expires|application|status)|green card|"
    r"work permit"
)
MONTHS_AND_DAYS = frozenset(
    """
    january february march april may june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri
    sat sun
    """.split()
)
UNITS = frozenset(
    """
    second seconds minute minutes hour hours day days week weeks month months quarter quarters year years percent %
    euro euros dollar dollars kb mb gb tb ms requests users people servers reviews reviewers times
    """.split()
)
NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split()
    )
    if number != 1
} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "hundred": "100",
    "thousand": "1000",
    "million": "1000000",
}
NEGATIONS = frozenset(
    """
    not never no none nobody nothing neither nor without cannot hardly barely cant wont dont doesnt isnt arent didnt
    wasnt werent hasnt havent wouldnt shouldnt couldnt fails failed lacks lack refuses refused
    """.split()
)
OPPOSITES = tuple(
    tuple(pair.split("/"))
    for pair in """
    before/after increase/decrease rise/fall up/down allow/forbid permit/forbid allow/prohibit enable/disable start/stop
    open/close more/less fast/slow high/low add/remove early/late first/last accept/reject approve/reject win/lose pass/fail
    internal/external public/private minimum/maximum above/below include/exclude buy/sell begin/end faster/slower
    higher/lower always/never weekly/daily weekly/monthly daily/monthly staging/production synchronous/asynchronous
    sync/async postpone/advance mandatory/optional required/optional manual/automatic manually/automatically
    internally/externally best/worst grow/shrink gain/lose frontend/backend morning/afternoon morning/evening
    freeze/unfreeze frozen/open closed/open import/export public/internal done/late done/open  read/write
    """.split()
)
SAME_WORDS = {
    word: line.split()[0]
    for line in """
    prefer prefers preferred favour favours favor favors
    async asynchronous asynchronously
    sync synchronous synchronously
    database databases db dbs
    deadline due cutoff cut-off
    release releases released ship ships shipped launch launches launched
    deploy deploys deployed deployment deployments rollout rollouts
    documentation docs documented document documents
    keep keeps kept keeping
    store stores stored storing
    error errors fault faults
    meeting meetings call calls
    standup stand-up standups stand-ups
    bug bugs defect defects
    repository repo repos repositories
    customer customers client clients
    kubernetes k8s
    postgres postgresql
    monday mondays mon
    tuesday tuesdays tue tues
    wednesday wednesdays wed
    thursday thursdays thu thurs
    friday fridays fri
    january jan
    february feb
    april apr
    august aug
    september sep sept
    october oct
    november nov
    december dec
    freeze frozen freezes
    move moved moves reschedule rescheduled shifted
    write writes written writing wrote
    use uses used using
    decide decided decides decision chose chosen choose
    need needs needed require requires required
    review reviews reviewed reviewing
    test tests tested testing
    twice two
    """.strip().splitlines()
    for word in line.split()
}
# Words that say nothing of what is claimed.
WEAK = frozenset(
    """
    team teams group groups squad department people folks member members everyone company organisation organization
    our we us said says mentioned mentions reported reports announced confirmed noted told stated currently now
    generally usually typically mostly really also just please note fact likely will would tend tends like there
    """.split()
)

# Work words that much else is said with as well: one alone is no evidence of work.
WEAK_WORK = frozenset(
    """
    time approved rejected postponed cancelled canceled delayed finished planned required optional supported
    documented extended rescheduled decided agreed agency guide switched rewrite switch table tables story stories
    view views page pages room rooms order orders event events support image images screen screens design designs
    designed field fields building role roles goal goals brand class course courses store shop box training style
    color colour columns label labels stage target targets board boards branch branches counter line lines memory
    floor parking badge badges reception cafeteria canteen laptop laptops email emails machine machines library lab
    office offices factory plant ferry harbour harbor dock delivery deliveries session sessions process performance
    search review reviews reviewed manual manuals track theme themes topic topics thread threads channel channels test
    tests tested issue issues update updates updated feedback communication job jobs campaign conference schedule
    scheduled strategy risk risks tool tools response responses website site sites app apps team teams system systems
    business marketing company market price prices input output limit limits form forms pool layer layout stock sprint
    sprints shift shifts desktop keyboard type types volume exhibition booth kiosk ward clinic check checks connection
    connections report reports tier traffic capacity windows window runs account accounts access program programme
    programs module notebook camera network handbook decision decisions statistics survey quality stream streaming
    priority priorities draft drafts meeting meetings member members staff customer customers client clients everyone
    users people group groups department developers engineers ship ships shipped budget feature features install index
    quarter rest ticket tickets agenda venue tooling usage phase server servers contract contracts printer printers
    printing documents document documentation estimate forecast experiment demo source pilot station speaker stand
    elevator translation translations code project projects workshop workshops spring swift notion oracle react spark
    node trigger triggers warehouse proposal newsletter curriculum semester procurement timeline inbox
    """.split()
)
# Talk of delight, of leisure and of life, and the small words of chatting.
CHATTING = frozenset(
    """
    amazing awesome incredible beautiful lovely fun funny wonderful inspiring inspiration inspired rewarding fantastic
    blast joy joyful happiness hope hopes courage grateful thankful proud pride memories journey passion passions
    passionate cherish unforgettable epic enjoy enjoyed thrilled glad congrats congratulations wow yeah yep yup nope
    haha lol oh hey hi hello thanks thank life sunset beach mountain mountains nature hike picnic campfire weekend
    trip trips travel travels adventure laughter laugh laughs smile smiles gonna wanna gotta kinda sorta ourselves
    charity fans tasty delicious art artist artists music musician song songs dance sports athlete athletes coach
    player players played playing game games gamer tournament championship toys forest ocean lake river sky stars
    flowers photo photos pic pics picture pictures vase sculpture love peaceful peace calming calm relaxing relax cozy
    comfort healing wellbeing wellness self-care mindful mindfulness meditation meditate supportive encouraging
    encouragement empower empowering cool super stunning gorgeous magical special heart hearts soul spirit spiritual
    dream bond bonding bonded community volunteer volunteering volunteers shelter kindness compassion acceptance
    struggles struggle struggling tough hug hugs truly so-called nostalgic memory-lane excited exciting excitement
    crazy vibe vibes wild
    """.split()
)
# What an unknown name may be, where it is the name of a thing.
STATES_OF_THINGS = frozenset(
    """
    in on at behind ahead under down up live ready stable unstable available unavailable deprecated offline online
    open closed read-only written built part about due compatible incompatible safe complete incomplete done
    idempotent stateless split frozen blocked over above below between based hosted run an not no still now currently
    only two three four five six seven eight nine ten
    """.split()
) - {"an", "about", "over", "in", "at", "under", "safe", "open"}

# What of somebody's is a matter of work.
POSSESSED = frozenset(
    """
    deadline api export roadmap launch database endpoint config configuration schema backlog changelog pull request
    requests team service project proposal branch change changes patch review reports report design ticket tickets
    release deployment migration draft pr prs rfc commit commits fix merge department squad document dashboard module
    code implementation refactoring presentation demo
    """.split()
)

# What things do. An unknown name that does something else is taken for a person's.
DONE_BY_THINGS = frozenset(
    """
    ships shipped launches launched runs ran uses used supports supported requires required needs needed depends
    stores stored sends sent writes reads exports exported imports returns returned logs handles processes serves
    served replaces replaced moves moved migrates migrated starts started ends ended lands contains includes provides
    exposes lacks costs fails broke breaks crashed crashes scales scaled targets integrates follows releases released
    shows becomes rejects accepts expects skips caches closes closed opens opened drops dropped holds keeps listens
    polls publishes consumes encrypts validates times works raised switches switched adds removes stops stopped grew
    doubled goes went slows belongs consists comes stays lives
    """.split()
)
JUDGING = frozenset(
    """
    bad badly worse worst wrong poor poorly slow slowly weak weakest weaker sloppy terrible awful useless incompetent
    unreliable rude difficult hard lousy careless messy clumsy stupid cheap cheapest best better good great brilliant
    excellent smart talented young youngest old oldest late early drunk blames blamed blame fault mistake mistakes
    failed fails rather hungover
    """.split()
)

# What is done to people: a name after one of these is a person's.
DONE_TO_PERSONS = frozenset(
    """
    thanked thanks met meets meet asked asks ask hired hires hire fired praised praises blamed blames helped helps
    help invited invites invite told tells tell reminded reminds warned warns criticised criticized interviewed
    interviews congratulated welcomed welcomes dismissed promoted demoted sacked suspended bullied married knows know
    likes dislikes trusts mistrusts admires called calls phoned emailed informed informs persuaded convinced paid pays
    owes appointed elected nominated
    """.split()
)

# What guards money, access and data, and how it is given up: a statement that loosens a guard acts like an order.
GUARDS = (
    r"(?:firewalls?|security|authentication|two-factor|2fa|mfa|reviews?|approvals?|invoices?|payments?|"
    r"refunds?|passwords?|"
    r"credentials?|tokens?|permissions?|audits?|backups?|verification|validation|logins?|encryption|"
    r"safeguards?|restrictions?)"
)
LOOSENED = (
    r"(?:disabl\w+|(?:switch|turn)(?:ed|ing|es|s)? off|off|waiv\w+|skip\w*|bypass\w*|unseen|unchecked|"
    r"optional|hand(?:s|ed|ing)? out|"
    r"suspended|not needed|unnecessary|ignor\w+|delet\w+|pre-?approved|(?:is|are|get|gets|count as|"
    r"counts as) (?:approved|paid)|"
    r"shar(?:e|es|ed|ing)|giv(?:e|es|en|ing) (?:out|away)|lifted|obsolete)"
)
