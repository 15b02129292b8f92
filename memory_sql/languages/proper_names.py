"""Which capitalised words are names of people, and which everybody knows: data for rules that have no model to ask.

Common given names (no record of anybody), and names of places, times, firms, works and famous people. Lower case.
"""

GIVEN = frozenset(
    """
    aaron abby abdul abigail adam adele adrian agnes ahmed aisha akira alan albert alec alejandro alex alexa
    alexander alexandra alexis ali alice alicia alina alison allison alma alyssa amanda amelia amina amir amy ana
    anders andre andrea andreas andrew andy angela angelica angie anita ann anna annabelle anne annette annie
    anthony anton antonia antonio anya april archie ariana arjun arlene arnold arthur arturo asha ashley astrid
    audrey austin ava avery barbara barry beatrice becky bella ben benjamin benny bernard bernd bert beth bethany
    betty beverly bianca bill billy birgit birgitta björn blake bob bobby bonnie boris brad bradley brandon brenda
    brendan brent brett brian brianna bridget brittany brooke bruce bruno bryan caitlin caleb calvin cameron camila
    camille candice carl carla carlos carmen caro carol carolina caroline carolyn carrie casey cassandra cassie
    catherine cathy cecilia celia celine chad chandra charles charlie charlotte chelsea chen cheryl chiara chloe
    chris christa christian christina christine christoph christopher chuck cindy claire clara clark claude claudia
    clay cleo cliff clive cody colin colleen connie connor conrad courtney craig cristina crystal curtis cynthia dad
    daisy dale dan dana daniel daniela danielle danny daphne darius darren dave david dawn dean deanna deb debbie
    deborah debra dee denise dennis derek derrick desmond devin diana diane diego dieter dimitri dina dirk dmitri
    dolores dominic don donald donna dora doreen doris dorothy doug douglas duncan dylan earl ed eddie edgar edith
    edward edwin eileen elaine eleanor elena eli elias elin elisa elisabeth elise eliza elizabeth ella ellen ellie
    elliot elsa elsie emil emilia emilio emily emma emmanuel enrique eric erica erik erika erin ernest ernesto
    esteban esther ethan eugene eva evan eve evelyn fabian faith farid fatima faye felicia felix fernando finn fiona
    flora florian frances francesca francis francisco frank franz fred freddie frederick freya frida friedrich fritz
    gabriel gabriela gail gareth gary gavin gene geoff george georgia georgina gerald gerard gerd gerhard gianni gil
    gilbert gina gino giorgio giovanni giulia gloria gordon grace graham grandma grandpa granny grant greg gregory
    greta gretchen gudrun guido guillermo gunnar gus gustav gwen günter hannah hans harold harriet harry harvey
    hassan hazel heather hector heidi heike heinrich heinz helen helena helga helmut henrik henry herbert hilary
    hilda hiroshi holger holly hope horst howard hugh hugo ian ibrahim ida ignacio igor ike imran ines ingo ingrid
    irene iris irma isaac isabel isabella isla ivan ivy jack jackie jackson jacob jacqueline jade jaime jake james
    jamie jan jana jane janet janice jared jasmin jasmine jason javier jay jean jeanne jeff jeffrey jen jenna jennie
    jennifer jenny jens jeremy jerome jerry jess jesse jessica jessie jesús jill jim jimmy jing jo joachim joan
    joanna joanne joaquin jochen jodie joe joel joey johan johann johanna johannes john johnny jolene jon jonah
    jonas jonathan jordi jorge josef joseph josephine josh joshua josé joy joyce juan juanita jude judith judy jules
    julia julian juliana julie juliet julio julius june justin jürgen kai kamal karen kari karim karin karina karl
    karla kate katharina katherine kathleen kathryn kathy katie katja katrin katrina kay kayla keiko keith kelly
    kelsey ken kenji kenneth kenny kerry kevin khalid kiara kim kimberly kira kirk kirsten klara klaus kofi kristen
    kristin kristina kurt kyle lara larry lars laura lauren lea leah lee leila lena lenny leo leon leonard leonardo
    leroy leslie lewis lia liam lila lilian lily linda lindsay lindsey linus lisa liz liza lloyd logan lois lola
    lorenzo loretta lori lorraine lotte lou louis louisa louise luc luca lucas lucia lucie lucinda lucy ludwig luigi
    luis luisa lukas luke luna lydia lynn mabel mac maddie madeleine madison mads magdalena maggie magnus malcolm
    mama mandy manfred manuel manuela mara marc marcel marcela marco marcos marcus margaret margarita margot maria
    mariam marian mariana marianne marie marina mario marion marisa marjorie mark markus marlene marsha marta martha
    martin martina marty martín marvin mary masha mason mateo mathias mathilda matilda matt matteo matthew matthias
    maureen maurice max maxim maxine maya megan mehmet mei mel melanie melinda melissa melody mercedes meredith mia
    michael michaela michel michelle miguel mike mikhail mila mildred miles milo mina mindy miranda miriam mitch
    mitchell mohamed mohammed moira molly mom mona monica monika morgan moritz morten moses muhammad mum mustafa
    myra nadia nadine nana nancy naomi natalia natalie natasha nate nathan nathaniel neha neil nell nellie nelson
    nicholas nick nicky nico nicola nicolas nicole nigel nikita niklas nils nina nisha noah noel noelle noor nora
    norbert norma norman odette olaf oleg olga oliver olivia ollie olof omar ophelia oscar oskar otto owen pablo
    paige pam pamela paola papa pascal pat patricia patrick patty paul paula paulina pauline pedro peggy penelope
    penny percy pete peter petra phil philip philipp philippe phillip phoebe pia pierre polly preeti priya quentin
    rachel rafael rahul rainer raj rajesh ralf ralph ramon randy raphael raquel raul ravi ray raymond rebecca regina
    reginald reinhard renata renate rene rené rex rhonda ricardo rich richard rick ricky rita rob robbie robert
    roberta roberto robin rod roderick rodney rodrigo roger roland rolf roman romeo ron ronald ronnie rory rosa
    rosalie rosalind rose rosemary rosie ross roxanne roy ruby rudolf rudy rupert russell ruth ryan sabine sabrina
    sadie sakura sally salma salvador sam samantha sami samir sammy samuel sandra sandy sanjay santiago sara sarah
    sasha saul savannah scott sean sebastian selena selma serena sergei sergio seth shane shannon shari sharon shaun
    shawn sheila shelby shelley sheng sherry shirley sid sidney sienna sierra sigrid silke silvia simon simona
    simone skye sofia solveig sonia sonja sonya sophia sophie spencer stacey stacy stan stanley stefan stefanie
    stella stephan stephanie stephen steve steven stewart stuart sue sunita susan susanna susanne susie suzanne sven
    svetlana sylvia tabitha takeshi tamara tammy tania tanja tanya tara tariq tasha tatiana ted terence teresa terri
    terry tessa thelma theo theodore theresa thomas thorsten tiffany tilda tim timothy tina tobias toby todd tom
    tommy toni tony torsten tracey tracy travis trevor tricia trina trisha tristan trudy tyler udo ulrich ulrike
    ursula uwe valentina valeria valerie vanessa vera vernon veronica vicki vicky victor victoria vijay vikram
    viktor vince vincent viola violet virginia vivian viviane vladimir wade wally walter wanda warren wayne wei
    wendy werner wesley wilfred wilhelm willem william willie willow wilma winston wolfgang xavier ximena yael yan
    yara yasmin yolanda yoshi yuki yuri yusuf yvette yvonne zach zachary zara zoe zoey åke åsa åse
    """.split()
)

# Given names that are also words: they count only with a capital, and not where a sentence begins.
ALSO_WORDS = frozenset(
    """
    abby ali ana april austin bill blake bob brad brooke carol chad chuck clay cliff cody crystal dad daisy dale dan
    dawn dean dee don earl eve faith finn flora frank gene gil grace grandma grandpa granny grant harry hazel
    heather holly hope iris ivy jack jade jan jasmine jay jean jerry jess joy jude june ken kim lara lee lily logan
    lola lou mac mama mark mason matt max mei mel melody mercedes miles mina mom mona morgan mum nana nell nick nina
    noel norma pam papa pat patty paul penny petra phil pia ray rex rich rick rob robin rod roman rose ruby ruth
    sally sam sandy savannah serena sid sierra skye spencer stan stella sue tasha terry tim toby todd tom tony tracy
    trina tyler vera victor viola violet wade wally warren wei willow yan
    """.split()
)

FAMILIAR = frozenset(
    """
    i ok okay god lord internet web earth sun moon mars venus jupiter saturn mercury milky universe
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat
    january february march april may june july august september october november december jan feb mar apr jun jul aug sep
    sept oct nov dec christmas xmas easter thanksgiving halloween ramadan hanukkah diwali valentine passover eid
    africa america antarctica asia australia europe oceania arctic atlantic pacific baltic mediterranean alps andes himalaya
    himalayas rockies sahara amazon nile danube rhine mississippi thames everest bible quran torah koran
    afghanistan albania algeria angola argentina armenia austria azerbaijan bahrain bangladesh belarus belgium bolivia bosnia
    botswana brazil britain bulgaria cambodia cameroon canada chad chile china colombia congo croatia cuba cyprus czechia
    denmark ecuador egypt england eritrea estonia ethiopia eu fiji finland france georgia germany ghana greece greenland
    guatemala haiti honduras hungary iceland india indonesia iran iraq ireland israel italy jamaica japan jordan kazakhstan
    kenya korea kosovo kuwait laos latvia lebanon liberia libya lithuania luxembourg madagascar malaysia mali malta mexico
    moldova monaco mongolia montenegro morocco mozambique myanmar namibia nepal netherlands nicaragua niger nigeria norway
    oman pakistan panama paraguay peru philippines poland portugal qatar romania russia rwanda scotland senegal serbia
    singapore slovakia slovenia somalia spain sudan sweden switzerland syria taiwan tanzania thailand tibet tunisia turkey
    uganda ukraine uruguay us usa uk ussr uzbekistan venezuela vietnam wales yemen zambia zimbabwe
    african american antarctic arabic arab argentinian asian australian austrian bavarian belgian brazilian british bulgarian
    canadian catalan celtic chinese croatian cuban czech danish dutch egyptian english estonian european finnish flemish
    french german greek hebrew hindi hungarian icelandic indian indonesian iranian irish israeli italian japanese jewish
    korean latin latvian lithuanian malay mandarin mexican mongolian moroccan muslim norwegian persian peruvian polish
    portuguese roman romanian russian scottish serbian slovak slovenian spanish swahili swedish swiss syrian thai turkish
    ukrainian urdu vietnamese viking vikings welsh christian christianity buddhist buddhism islam hindu hinduism catholic
    protestant judaism soviet ottoman byzantine aztec inca victorian renaissance
    alabama alaska arizona arkansas california colorado connecticut delaware florida hawaii idaho illinois indiana iowa
    kansas kentucky louisiana maine maryland massachusetts michigan minnesota missouri montana nebraska nevada oklahoma
    ohio oregon pennsylvania tennessee texas utah vermont virginia washington wisconsin wyoming dakota carolina jersey
    amsterdam athens atlanta auckland baghdad bangkok barcelona beijing berlin bergen bern boston brussels bucharest budapest
    buenos aires cairo calcutta cambridge chicago cologne copenhagen dallas delhi denver detroit dubai dublin edinburgh
    florence frankfurt geneva glasgow hague hamburg hanoi havana helsinki hiroshima hollywood hong kong houston istanbul
    jakarta jerusalem johannesburg kiev kyiv kyoto lagos lima lisbon liverpool london los angeles lyon madrid manchester
    manila marseille mecca melbourne miami milan milano montreal moscow mumbai munich nairobi naples york orlando osaka oslo
    oxford paris perth philadelphia pisa prague reykjavik riga rio rome rotterdam salzburg san seattle
    seoul seville shanghai stockholm stuttgart sydney tallinn tehran tokyo toronto toulouse turin valencia vancouver venice
    vienna vegas vilnius warsaw zagreb zurich bordeaux brooklyn manhattan broadway texas tuscany provence sicily crete bali
    hawaii ibiza normandy catalonia crimea siberia bavaria scandinavia balkans caribbean silicon valley
    google apple microsoft amazon facebook meta twitter instagram tiktok youtube netflix spotify linkedin reddit wikipedia
    whatsapp telegram slack zoom discord uber airbnb tesla toyota ford bmw volkswagen samsung sony nintendo intel nvidia amd
    ibm oracle cisco adobe paypal visa mastercard ebay ikea nike adidas disney marvel lego openai anthropic chatgpt gpt
    claude gemini copilot siri llama mistral github gitlab bitbucket jira confluence trello asana notion figma photoshop
    excel word powerpoint outlook gmail drive docs sheets teams onedrive dropbox chrome firefox safari edge android ios iphone
    ipad macbook mac macos windows linux ubuntu debian fedora kernel bash zsh powershell vim emacs vscode pycharm intellij
    python java javascript typescript rust go golang ruby php perl kotlin swift scala haskell clojure erlang elixir lua
    fortran cobol html css xml json yaml toml csv sql nosql postgres postgresql mysql sqlite mongodb redis kafka rabbitmq
    elasticsearch docker kubernetes helm terraform ansible jenkins nginx apache aws azure gcp lambda heroku vercel
    cloudflare react angular vue svelte django flask fastapi rails spring node nodejs npm pip numpy pandas pytorch tensorflow
    keras sklearn jupyter matplotlib sqlalchemy pydantic alembic pytest celery graphql rest api http https tcp ip dns ssh tls
    ssl oauth jwt cpu gpu ram ssd usb pdf png jpeg gif url uri id ci cd pr ui ux faq ceo cto nasa fbi cia nato un who eu nba
    nfl fifa uefa mba phd dna rna covid gdp vat irs hr ai ml llm nlp iot vr pc tv dvd cd dj lgbtq lgbtq+ bitcoin ethereum
    stripe shopify wordpress latex markdown unicode ascii utf unix posix git svn minecraft pokemon fortnite zelda mario tetris
    playstation xbox monopoly scrabble chess olympics olympic wimbledon super bowl premier league nobel oscars grammy
    shakespeare einstein newton darwin galileo copernicus kepler freud marx kant hegel nietzsche plato aristotle socrates
    descartes voltaire rousseau goethe schiller mozart beethoven bach chopin wagner vivaldi tchaikovsky picasso rembrandt
    monet gogh vinci michelangelo dali napoleon bonaparte caesar augustus cleopatra hitler stalin lenin
    churchill gandhi mandela lincoln kennedy roosevelt nixon reagan clinton bush obama trump biden thatcher merkel
    macron putin columbus magellan cook tolstoy dostoevsky chekhov kafka hemingway orwell austen dickens twain tolkien rowling
    homer dante cervantes woolf poe proust camus sartre curie tesla edison turing hawking feynman bohr heisenberg
    schrödinger gauss euler pythagoras archimedes euclid fermat newton jobs gates musk bezos zuckerberg presley
    beatles lennon mccartney bowie queen madonna beyoncé beyonce swift rihanna drake eminem messi ronaldo pelé jordan
    federer bolt hitchcock spielberg kubrick tarantino potter hogwarts gandalf frodo sherlock holmes batman superman spiderman
    avengers titanic matrix odyssey iliad hamlet macbeth faust bismarck hanseatic reformation enlightenment
    buddha jesus christ zeus odin thor congress senate parliament republican democrat brexit holocaust
    alamo eiffel kremlin colosseum acropolis pentagon nobel pulitzer celsius fahrenheit kelvin euro euros dollar dollars
    """.split()
)
