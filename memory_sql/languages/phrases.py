"""How each language asks for what was said before: data for `trigger`, one table per language.

A pattern is matched against one sentence without its closing marks, in lower case, with straight apostrophes and single
spaces. Its key is the kind of phrase that `Fired` names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Pattern = re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Language:
    """`words` tell the language. Without one of the `cues` no recall phrase stands there, which is quick to see.

    The patterns: `to_store`: it tells something to remember. `recall`: it asks for what was said, whatever its form.
    `frame`: polite words before the question proper. `question`: it begins like one. `request`: it asks to be told or
    done something. `recall_in_request`: asks for what was said, if it is a question or a request. `impersonal`: a
    question whose answer is in nobody's memory, though it says "I" or names a thing of mine. `past` and `own`: questions
    about what the user did and about what is the user's. `addressed`: it speaks to the other side. `telling`: a request
    to be told about something. `past_tense`: a sign of the past, or a question who somebody is. `supposing`: it tells of
    people who may not exist.

    `subject_follows`: words that a subject follows in a question. `capitals_are_names`: no other nouns are capitalised.
    """

    words: frozenset[str]
    cues: frozenset[str]
    to_store: Pattern
    recall: Pattern
    frame: Pattern
    question: Pattern
    request: Pattern
    recall_in_request: Pattern
    impersonal: Pattern
    past: Pattern
    own: Pattern
    addressed: Pattern
    telling: Pattern
    past_tense: Pattern
    subject_follows: frozenset[str]
    supposing: Pattern
    capitals_are_names: bool = True


def _any(*patterns: str) -> Pattern:
    return re.compile("|".join(patterns))


def _kinds(**patterns: tuple[str, ...]) -> Pattern:
    """Any of the patterns; the name of the group that matched is the kind."""
    return re.compile("|".join(f"(?P<{kind}>{'|'.join(some)})" for kind, some in patterns.items()))


_KIN = (
    r"(?:mother|mom|mum|father|dad|parents?|sisters?|brothers?|siblings?|wife|husband|partner|spouse|boyfriend|girlfriend|"
    r"fianc[eé]e?|daughters?|sons?|kids?|child(?:ren)?|bab(?:y|ies)|grand\w+|aunts?|uncles?|cousins?|nieces?|nephews?|"
    r"(?:mother|father|sister|brother)s?-in-laws?|famil(?:y|ies)|friends?|neighbou?rs?|boss|manager|colleagues?|"
    r"co-?workers?|team|roommates?|flatmates?|landlord|landlady|dentist|doctor|gp|therapist|lawyer|accountant|coach|trainer|"
    r"teacher|tutor|dogs?|cats?|pupp(?:y|ies)|kittens?|pets?|horses?|rabbits?)"
)
# Things of mine that no memory is asked about: what lies before us, and what a machine knows.
_AT_HAND = (
    r"(?:api|app|application|arguments?|array|attempt|best (?:bet|option|choice|chance|move|way)|bet|browser|bug|"
    r"build|chances?|class|cluster|code|column|commands?|computer|config\w*|connection|container|css|data|"
    r"database|dataframe|deployment|device|docker\w*|draft|email|error|essay|file|following|formula|function|gpu|"
    r"grammar|html|image|input|internet|ip|keyboard|laptop|list|log|logic|loop|machine|mac|method|mistake|model|"
    r"module|mouse|next (?:steps?|moves?)|options?|output|pc|paragraph|phone|pipeline|plot|pod|printer|problem|"
    r"program|prompt|proof|python|queries|query|question|regex|repo\w*|request|response|rights|router|screen|"
    r"script|sentence|server|site|solution|spelling|spreadsheet|sql|syntax|table|terminal|tests?|text|tv|version|"
    r"vm|webpage|website|wi-?fi|windows|writing)"
)
_ASKS = (
    r"(?:what|when|where|who|whom|whose|which|why|how|whats|whos|wheres|whens|at what|in (?:what|which)|on (?:what|which)|"
    r"for (?:what|which|how)|from (?:what|which|where)|since when|to (?:whom|what|which|where)|with (?:whom|what|which)|by)"
)
_BE_DO = (
    r"(?:am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must|isn't|aren't|wasn't|"
    r"weren't|don't|doesn't|didn't|hasn't|haven't|hadn't|can't|couldn't|won't|wouldn't|shouldn't)"
)
_SAID = (
    r"(?:said|told|mentioned|discussed|agreed|decided|talked about|spoke about|spoken about|described|explained to you|"
    r"shared|gave you|asked you to|settled on|landed on|came up with|brought up)"
)
_SAY = (
    r"(?:say|said|tell|told|mention(?:ed)?|talk(?:ed)?|discuss(?:ed)?|agreed?|decided?|bring up|brought up|described?|"
    r"settled? on|share)"
)
_LIVED = (
    r"(?:liked?|loved|hated|enjoyed|went|visit(?:ed)?|stay(?:ed)?|ate|met|watched|saw|bought|booked|ordered|cooked|made|"
    r"planned|tried|talked|spoke|wanted|picked|chose|had|rented|hired|used|took|grew up|lived|worked|adopted|recommended|"
    r"like|love|hate|always|usually|keep|go to)"
)

ENGLISH = Language(
    words=frozenset(
        "the a an and of to in is are was were do does did what when where who why how which that this it my "
        "your you i we "
        "me with for on at be have has had can could would should not but from about please s t m re ve ll don didn "
        "know name called some any there his her he she they if so tell".split()
    ),
    cues=frozenset(
        (
            "remember recall remind forgot forgotten forget say said tell told mention mentioned talk talked discuss "
            "discussed agree agreed decide decided bring brought describe described settle settled share suggest "
            "suggested recommend recommended advise advised conversation conversations chat chats know learn "
            "learned learnt store stored note noted saved memory memories"
        ).split()
    ),
    to_store=_any(
        r"\b(?:please|always|must|should|to|and|but|also) remember (?:that|to|this)\b",
        r"^(?:just |so )?remember(?: that(?! time| (?!when|if|because)\w+ (?:i|we)\b)| to|:|,)",
        r"\b(?:don't|do not|never) forget\b",
        r"\bremind me (?:to|in|at|on|tomorrow|every|next|this|later|again (?:in|at|on|to))\b",
        r"\b(?:a|the) recall\b",
    ),
    recall=_kinds(
        remember=(
            (
                r"\b(?:do|did|can|could|would|don't|can't) you (?:still |even |happen to |perhaps "
                r")?(?:remember|recall)\b(?! (?:to|from|most|best|fondly)\b)"
            ),
            (
                r"(?<!i )(?<!i'll )(?<!i still )(?<!to )(?<!always )\bremember (?:when|what i|what we|where i|"
                r"where we|who i|that time|the time (?:i|we)|how (?:i|we))\b"
            ),
            r"^(?:please )?(?:recall|remember) (?:my|our|what|when|where|who|which)\b",
            (
                r"(?:^|[,:] ?|\b(?:please|you|and|but|so|just) )remind me (?:again|about|of (?:my|our|what|"
                r"when|the|that|those|which)|who|what|when|where|which|how|why|if|whether)\b"
            ),
            (
                r"\bi (?:don't|do not|can't|cannot|can no longer|no longer) (?:quite |exactly |really |for "
                r"the life of me )?(?:remember|recall)\b(?! (?:how to|the (?:syntax|command)))"
            ),
            (
                r"\bi(?:'ve| have)? (?:forgot|forgotten|forget) (?:what|when|where|who|which|whether|if|my|"
                r"our|the name|his|her|their)\b"
            ),
        ),
        asked_back=(
            rf"\b(?:did|have|had) (?:i|we) (?:ever |already |not |once )?{_SAY}\b",
            (
                r"\b(?:what|when|where|which|who|how) (?:\w+ ){0,5}?(?:did|have|had) (?:i|we) (?:\w+ "
                rf")?{_SAY}\b"
            ),
        ),
        i_told_you=(
            (
                r"\bi(?:'ve| have| had| already)?(?: already| just)? told you\b(?= (?:\w+ )*(?:i|my|we|that|"
                r"what|this|the|it|about)\b|$)"
            ),
            r"\bdidn't i (?:say|tell|mention)\b",
            r"\bi(?:'m| am)? (?:pretty )?sure i (?:told|mentioned|said)\b",
        ),
        you_told_me=(
            r"\byou told me\b",
            (
                r"\b(?:what|which|when|where|who|how) (?:\w+ ){0,5}?(?:(?:did|have) you (?:say|said|"
                r"suggest(?:ed)?|recommend(?:ed)?|advised?|told|tell)|you (?:said|suggested|recommended|"
                r"advised|told))(?: \w+)? (?:i|me|us|about|for my|to me|last|the other|earlier|before|"
                r"yesterday|back)\b"
            ),
        ),
        we_discussed=(
            r"\bwe (?:discussed|agreed on|agreed to|agreed that|settled on)\b",
            r"\bthroughout our (?:conversations?|chats?)\b",
        ),
        what_you_know=(
            (
                r"\bwhat (?:else )?(?:do|did|have) you (?:actually |already |still |even )?(?:know|remember|"
                r"recall|learn(?:t|ed)?|got|have|store[d]?|note[d]?) (?:stored |noted |saved |down )?(?:about|"
                r"of|on) (?:me|my|us|our)\b"
            ),
            (
                r"\b(?:all|everything|anything|something|what) (?:that )?you(?:'ve| have)? (?:know|remember|"
                r"remembered|stored|noted|learned|learnt|saved)(?: so far)? (?:about|of|on) (?:me|my|us|our)\b"
            ),
            r"\bwhat(?:'s| is) (?:stored )?in your (?:memory|memories|notes)\b",
            (
                r"\bdo you (?:still )?(?:know|have) (?:my|our|who i am|where i|what i|when i|who my|what my|"
                r"where my|when my|which of)\b"
            ),
        ),
        your_memory=(
            (
                r"\b(?:search|check|consult|look (?:\w+ )?(?:in|into|at|through)|go through|query|from|dig "
                r"through) (?:your|my|our|the) (?:long-term )?(?:memory|memories|past (?:chats?|"
                r"conversations?)|chat history|notes about (?:me|us))\b"
            ),
        ),
    ),
    frame=_any(
        (
            r"^(?:(?:so|and|but|ok|okay|hey|hi|hello|um+|uh+|well|now|also|then|btw|by the way|quick question|"
            r"sorry|thanks|please|oh|anyway|wait|actually|honestly|one more thing|just curious|just "
            r"wondering)[,:;]? +)*(?:(?:can|could|would|will) you (?:please |also |maybe |quickly |just "
            r")?(?:(?:tell|remind|show|give) (?:me|us)(?: again)? |check |look up |find out |say )?|do you "
            r"(?:happen to )?(?:know|have any idea) (?=(?:what|when|where|who|which|why|how|if|whether)\b)|"
            r"i(?:'m| am) (?:wondering|curious|trying to remember|trying to find out|not sure) |i (?:wonder|"
            r"was wondering|want to know|need to know|would like to know|'d like to know) |any idea |please "
            r")?(?:(?:if|whether|tell me|let me know) (?=(?:i|we|my|our|what|when|where|who|which|why|how|the|"
            r"he|she|they)\b))?"
        ),
    ),
    question=_any(
        rf"^(?:{_ASKS}|{_BE_DO})\b",
    ),
    request=_any(
        (
            r"^(?:let's |please )?(?:book|find|order|show|send|give|list|use|play|recommend|suggest|tell|plan|"
            r"cook|remind|look|pull|bring|get|name|describe|summari[sz]e|recap|recommend|pick|choose|call|buy|"
            r"reserve|schedule|search|check|repeat|make|write|help|add|open|compare|count|tell|go)\b"
        ),
        r"^(?:can|could|would|will) you\b",
        r"^(?:i want|i need|i'd like|i would like|we need|any)\b",
    ),
    recall_in_request=_kinds(
        what_was_that=(r"\bwhat was that\b(?! (?:like|for|about))",),
        last_time=(
            (
                r"\b(?:last|the other|that|the first) (?:time|day|night|week|month|year|summer|winter) (?:i|"
                r"we|you)\b"
            ),
            r"\b(?:same|like|as|from|than) (?:\w+ )?(?:last time|before$)",
            r"\bas (?:i|we) (?:said|discussed|agreed|mentioned)\b",
            r"\blike (?:i|we) (?:said|discussed|agreed|told|mentioned)\b",
            r"\bback (?:when|in \w+ when) (?:i|we)\b",
            r"\bi (?:(?:once|already|previously) )?(?:told|mentioned|said)\b",
            r"\bi(?:'ve| have) (?:told|mentioned|brought up)\b",
            r"\bi brought up\b",
            r"\bwe(?:'ve| have)? (?:talked|spoke|spoken) about\b",
        ),
        we_talked=(
            (
                r"(?<!since )\b(?:our|my) (?:last|previous|earlier|past|prior|first) (?:chats?|conversations?|"
                r"sessions?|discussions?|talks?|meetings?|calls?)\b"
            ),
            r"\bour (?:conversations?|chats?|discussions?) (?:about|on|so far|from|yesterday|last)\b",
        ),
        what_i_said=(
            (
                r"\b(?:what|which|where|when|who|whom|how|that|the \w+)(?: [\w'-]+){0,6}? (?:i|we)(?:'ve| "
                rf"have| had)?(?: already| once| previously)? {_SAID}\b"
            ),
        ),
        again=(
            (
                r"^(?:what|who|where|when|which|how (?:much|many|old|long|far))(?: \w+){0,2}?(?:'s|s| is| are|"
                r" was| were| did| do| does) (?:(?!\byou\b).)*\bagain$"
            ),
        ),
        usual=(
            r"\b(?:my|our|the) usual\b(?! suspects)",
            r"\bas usual$",
            r"\bthe way (?:i|we) (?:like|prefer|want) (?:it|them)\b",
            r"\bi (?:usually|normally|always) (?:order|have|take|drink|eat|buy)\b",
        ),
        thing_lived=(
            (
                r"\b(?:the|that|those) (?:[\w'-]+ ){1,4}?(?:(?:that|which|where|who|when) )?(?:i|"
                r"we|my \w+|our \w+)(?:'ve| have|'d| had)? (?:both |all |really |so |once |always "
                rf")?{_LIVED}\b(?! to\b)"
            ),
        ),
        my_taste=(
            (
                r"\b(?:based on|given|considering|knowing|in line with|according to|keeping in mind|matching|"
                r"that (?:fits?|suits?|match(?:es)?)|to fit|fit for|around|for) (?:what (?:you know|i|we)|all "
                r"(?:that )?(?:you know|i|we)|(?:my|our) (?:[\w-]+ ){0,2}(?:preferences?|tastes?|likes|"
                r"history|allerg\w+|diet\w*|budget|interests?|habits?|goals?|situation|schedule|hobb\w+|"
                r"background|health|size|style|routine|lifestyle|personality))\b"
            ),
            (
                r"\b(?:i|we)(?:'d| would| might|'ll) (?:actually |really |probably |both |all )?(?:like|enjoy|"
                r"love|hate)$"
            ),
            r"\bmy (?:taste|kind of|sort of)\b",
            r"\bfor my (?:upcoming|next|planned) \w+",
            rf"\bfor my {_KIN}(?:'s)? (?:birthday|anniversary|present|gift)\b",
        ),
        tell_of_mine=(
            (
                r"\b(?:tell (?:me|us)|all|everything|anything|more) (?:\w+ ){0,3}about (?:my|our) "
                rf"(?!{_AT_HAND}\b)"
            ),
            (
                r"^(?:list|name|recap|summari[sz]e|show me|give me) (?:all )?(?:of )?(?:my|our) (?!(?:\w+ "
                rf")?{_AT_HAND}\b)"
            ),
            (
                r"^(?:pull up|look up|find|search|check) (?:my|our) (?:\w+ )?(?:notes|memories|plans|"
                r"appointments|preferences)\b"
            ),
            (
                r"\b(?:summari[sz]e|summary of|recap|describe|overview of) (?:how|what|all|everything)\b(?: "
                r"[\w'-]+)* (?:(?:i|we)(?: have|'ve| did)|(?:my|our) (?:[\w-]+ ){1,4}(?:has|have|evolved|"
                r"progressed|changed|developed|went|was))\b"
            ),
        ),
        in_order=(
            (
                r"\b(?:order|sequence|timeline|history) (?:in which |of (?:how |when )?|that )(?:\w+ "
                r"){0,4}?(?:i|we|my|our)\b"
            ),
            r"\bmy (?:progress|journey) (?:so far|over|since|with|in|on)\b",
            (
                r"\b(?:over|throughout|across) (?:all )?(?:the |our |my )(?:past )?(?:weeks|months|"
                r"conversations|chats|sessions)\b"
            ),
        ),
    ),
    impersonal=_any(
        (
            r"\bwhy (?:did|do|does|am|is|are|was|were|won't|can't|isn't|doesn't|don't|would|has|have|had) "
            r"(?:i|we|my|our|the|this|it)\b(?! (?:ever )?(?:decide|choose|quit|leave|move|pick|stop|start|"
            r"break|switch|go|buy|sell|cancel|skip|want|change))"
        ),
        (
            r"\bhow (?:do|can|could|should|would|might|may|to|must|will|shall|am) (?:i|we)\b(?! (?:\w+ "
            r")?(?:like|prefer|feel about|take (?:my|our)|know (?!if|that|whether|when|what|which|how|this|it|the|an?))\b)"
        ),
        (
            r"\bhow (?:many|much|long|often) (?:\w+ ){0,3}(?:do|should|can|must|would|will) (?:i|we) (?:\w+ "
            r")?(?:need|have to|cook|boil|bake|wait|use|put|add|expect|require|let|leave|pay|tip|charge|water|"
            r"wash|clean|replace|change|get|set|soak|store|keep)\b"
        ),
        (
            r"\b(?:what|which|where|who|when|how)(?: \w+){0,3} (?:should|can|could|would|must|shall|may|might|"
            r"will) (?:i|we)\b"
        ),
        (
            r"\b(?:what|which|where|who|when)(?: \w+){0,3} (?:do|would) (?:i|we) (?:need|have to|do (?:with|"
            r"if|about|now|here|next|wrong)|put|write|call (?:it|this|a|the)|get if|file|start|begin|find|set|"
            r"configure|change|install|say (?:in|to|if)|type|click|download|insert|enter)\b"
        ),
        (
            r"^(?!.*\b(?:did|have|had|was|were) (?:i|we)\b).*\b(?:my|our) (?:\w+ (?!class\b|list\b|options?\b|"
            rf"team\b))?{_AT_HAND}\b"
        ),
        (
            r"\b(?:did|do|am|was|were|have|had) (?:i|we) (?:\w+ )?(?:wrong|right|miss(?:ing|ed)?|correct|"
            r"supposed|allowed|make (?:any|a) mistake|need|have to|really need|forget (?:a|any|something)|"
            r"doing|use (?:the|a|this)|get (?:this|that|the|an?) (?:\w+ )?error|misunderst\w+|overlook\w*|"
            r"going to die|too|being|screw|mess)\b"
        ),
        (
            r"\b(?:did|do|have) (?:i|we) (?:\w+ )?(?:it|this|that|everything|anything) (?:right|correctly|"
            r"wrong|properly)\b"
        ),
        r"\b(?:can|could|may|should|shall|must|will|would) (?:i|we|my|our)\b",
        r"\b(?:did|do|have|am|was) (?:i|we)\b.* (?:right|correctly|properly|wrong|enough|ok|okay)$",
        (
            r"^(?!.*\b(?:did|have|had|was|were) (?:i|we)\b).*\b(?:error|bug|exception|traceback|compil\w+|"
            r"syntax|undefined|null|stack ?trace|snippet|output above|code (?:above|below)|regex|localhost)\b"
        ),
        r"\bsince (?:we|i|you) (?:last )?(?:talked|spoke|chatted|met|saw|caught up)\b",
        r"^(?:what|how)(?:'s|'ve| is| has| have) (?:up|new|been up|you been|everything|it going|things)\b",
        r"\bworld war\b",
        r"\bwhat(?:'s| is| was)? wrong with\b",
        r"\b(?:best|good|easiest|fastest|right|proper) (?:ways?|times?|places?|methods?) to\b|\bmeans? (?:when|by|if)\b",
        r"\b(?:what if|what happens|mind if|is it (?:ok|okay|fine|safe|bad|normal|possible) )",
    ),
    past=_kinds(
        own_past=(
            (
                rf"^(?:{_ASKS}\b(?: [\w'/-]+){{0,7}}? )?(?:did|was|were|had|have|haven't|didn't|'ve) (?:i|we|my|"
                rf"our|{_KIN} and i)\b"
            ),
            (
                rf"^{_ASKS}\b.*\b(?:i|we|me|us|my|our)\b.*\b(?:(?!called\b|named\b|needed\b)\w{{2,}}ed|went|was|were|had|did|got|met|saw|"
                r"bought|made|gave|said|told|ate|took|left|began|chose|came|felt|found|kept|lost|paid|read|"
                r"sold|spent|thought|won|wrote|put|been)\b"
            ),
            (
                rf"^{_ASKS}\b.*\b(?:did|was|were|had|has|have|(?!called\b|named\b|needed\b)\w{{3,}}ed|gave|told|said|sent|got|made|bought|"
                r"sold|came|took|left|went)\b.*\b(?:i|we|me|us|my|our)\b"
            ),
        ),
        thing_past=(
            (
                r"^(?:when|where|who|at what time|on what day|on which day)(?:'s)? (?:was|were|did) (?:the|"
                r"our|that) (?!first|last|most|world|\w+est\b)[a-z-]+"
            ),
        ),
    ),
    own=_kinds(
        own_thing=(
            r"^(?:which|how many|what|who) of (?:my|our)\b",
            r"^(?:what|who|when|where|which) (?:my|our) (?:[\w'-]+ ){1,6}?(?:is|are|was|were|does|do)\b",
            (
                r"^(?:what|who|when|where|which|whose)(?: [\w'-]+){0,4}?(?:'s|'re| is| are|s| was| were|'ll "
                r"be| will be) (?:[\w'-]+ ){0,5}?(?:my|our|mine|ours)\b"
            ),
            (
                r"^how (?:old|tall|big|long|far|much|many|often|heavy|late|early|is|are|does|do|good|"
                r"high)\b(?: [\w'-]+){0,4}? (?:is|are|do|does|has|have|my|our) ?(?:my|our|i|we)?\b.*\b(?:my|"
                r"our|i|we|mine)\b"
            ),
        ),
        own_habit=(rf"^{_ASKS}(?: [\w'-]+){{0,5}}? (?:do|am|are|have|'m|did|'ve|does|is) (?:i|we|my|our)\b",),
        am_i=(
            (
                r"^(?:am i|are we|do i|do we|have i|have we|is my|are my|does my|do my|has my|have my|is our|"
                r"are our|was my|were my)\b(?= (?:\w+ )?(?:allergic|vegetarian|vegan|married|single|a member|"
                r"subscribed|signed up|registered|still|already|supposed to (?:meet|see|call)|like|love|hate|"
                r"eat|drink|own|prefer|enjoy|speak|play|drive|smoke|have (?:any|a|an) (?:\w+ )?(?:allerg\w+|"
                rf"plans?|appointments?|meetings?|siblings?|{_KIN}|pets?|car|insurance|intoleranc\w+)|{_KIN}|"
                r"know (?:any|anyone|someone|somebody)|birthday|passport|lease|contract|insurance|favou?rite|"
                r"met|been|seen|tried|visited|read|watched|worked|told|mentioned)\b)"
            ),
            rf"^(?:is|are|does|do|has|have|was|were) (?:my|our) (?:\w+ )?{_KIN}\b",
        ),
    ),
    addressed=_any(
        r"\b(?:you|your|yours|yourself|u|ur|ya|y'all|you're|you've|you'd|you'll)\b",
    ),
    telling=_any(
        (
            r"^(?:please )?(?:tell (?:me|us) (?:more |again |everything )?(?:about|what|who|when|where|how)|"
            r"list|name|summari[sz]e|recap|describe|what about|how about|remind me|show me|give me (?:a |an "
            r")?(?:\w+ )?(?:summary|list|overview|rundown)|anything about|everything about|catch me up on)\b"
        ),
    ),
    past_tense=_any(
        r"^who(?:'s| is)\b",
        (
            r"\b(?:was|were|did|had|has|have|said|told|mentioned|decided|agreed|used to|ago|last|yesterday|"
            r"\w{2,}ed|went|bought|made|gave|saw|met|got|came|left|took|felt|wrote|sent|began|kept|lost|won)\b"
        ),
    ),
    subject_follows=frozenset(
        "did does do has have had was were is are would will might could should can what's who's when's "
        "where's how's didn't doesn't "
        "hasn't isn't wasn't when where why how".split()
    ),
    supposing=_any(
        (
            r"\b(?:suppose|supposing|imagine|assume|assuming|let's say|let's pretend|pretend|given that|word "
            r"problem|hypothetically)\b"
        ),
    ),
)

GERMAN = Language(
    words=frozenset(
        "der die das und ist sind war waren nicht ein eine einen mein meine meinen dein deine du ich wir mir "
        "mich uns wie was wo wann "
        "wer warum welche welcher welches hast habe haben hat kannst bitte noch nochmal mit für auf den dem "
        "des zu im von es sie "
        "heißt heisst gibt über als auch doch mal".split()
    ),
    cues=frozenset(
        (
            "erinnerst erinnern erinner erinnere weißt weisst weiß weiss vergessen gesagt erzählt erwähnt gemeint "
            "geschrieben besprochen vereinbart ausgemacht beschlossen entschieden gesprochen geredet empfohlen geraten "
            "vorgeschlagen letzte letzten letztes letzter letztem nochmal noch gleich einmal doch"
        ).split()
    ),
    to_store=_any(
        r"\b(?:merk|notier|merke) dir\b",
        r"\berinner(?:e)? mich (?:an den|an die|morgen|um|am|daran,? (?:zu|dass))\b",
        r"\bvergiss nicht\b",
    ),
    recall=_kinds(
        remember=(
            r"\b(?:erinnerst|weißt|weisst) du (?:dich |noch|eigentlich noch)",
            r"\bkannst du dich (?:\w+ )*erinnern",
            (
                r"\berinner(?:e)? mich (?:nochmal |noch mal |bitte )*(?:daran,? )?(?:was|wann|wo|wer|wie|"
                r"welche\w*)\b"
            ),
            r"\bich (?:weiß|weiss) (?:\w+ )?nicht mehr\b",
            r"\bich (?:habe?|hab) (?:\w+ )?vergessen,? (?:was|wann|wo|wer|wie|welche\w*)\b",
            r"\bich erinnere mich nicht\b",
        ),
        asked_back=(
            r"\b(?:habe?|hatte) ich (?:\w+ ){0,6}(?:gesagt|erzählt|erwähnt|gemeint|geschrieben)\b",
            (
                r"\b(?:haben|hatten) wir (?:\w+ ){0,6}(?:besprochen|vereinbart|ausgemacht|beschlossen|"
                r"entschieden|gesprochen|geredet)\b"
            ),
        ),
        i_told_you=(
            r"\b(?:habe?|hatte) ich dir (?:\w+ ){0,4}(?:gesagt|erzählt)\b",
            r"\bich (?:habe?|hatte) dir (?:\w+ ){0,5}(?:gesagt|erzählt)\b",
            r"\bwas ich (?:\w+ ){0,4}(?:gesagt|erzählt|erwähnt) hab",
        ),
        you_told_me=(
            r"\b(?:hast|hattest) du mir (?:\w+ ){0,6}(?:gesagt|erzählt|empfohlen|geraten|vorgeschlagen)\b",
            r"\bdu (?:hast|hattest) mir (?:\w+ ){0,6}(?:gesagt|erzählt|empfohlen)\b",
        ),
        what_you_know=(
            r"\bwas weißt du (?:\w+ )*(?:über|von) (?:mich|mir|uns|mein\w*)\b",
            r"\bwas du (?:über|von) (?:mich|mir|uns) weißt\b",
        ),
        we_discussed=(
            r"\bunser\w* letzt\w+ (?:gespräch|unterhaltung|treffen|chat)\b",
            r"\bletztes mal\b",
        ),
        again=(
            r"\b(?:nochmal|noch mal|noch gleich|doch gleich|gleich noch|noch einmal)$",
            r"\bwie (?:hieß|hiess|heißt|heisst|war|hießen) (?:nochmal|noch mal|noch|doch) ",
            (
                r"\b(?:was|wann|wo|wer|wie) (?:war|ist|hieß|hiess) (?:das |der |die )?(?:nochmal|noch mal|"
                r"noch gleich|doch gleich)\b"
            ),
        ),
    ),
    frame=_any(
        (
            r"^(?:(?:und|also|hallo|hi|hey|ok|okay|danke|übrigens|sag mal|bitte|ach|so)[,:]? +)*(?:(?:kannst|"
            r"könntest|würdest) du (?:mir )?(?:bitte )?(?:nochmal |noch mal )?(?:sagen,? )?|(?:weißt|weisst) "
            r"du,? |sag mir,? )?"
        ),
    ),
    question=_any(
        (
            r"^(?:was|wann|wo|wer|wen|wem|wessen|wie|warum|wieso|weshalb|welche\w*|woher|wohin|womit|worüber|"
            r"wovon|an welche\w*|in welche\w*|mit wem|seit wann|bis wann|um wie viel|hat|haben|habe|hatte|ist|"
            r"sind|war|waren|bin|kann|mag|magst|soll|will|darf|muss|wird)\b"
        ),
    ),
    request=_any(
        (
            r"^(?:nenn|zeig|sag|such|find|buch|bestell|empfiehl|empfehl|schlag|gib|plan|fass|erzähl|kannst du|"
            r"könntest du|mach|schreib)\w*\b"
        ),
    ),
    recall_in_request=_kinds(
        usual=(
            r"\bwie (?:immer|üblich|sonst|letztes mal|beim letzten mal|gewohnt)\b",
            r"\b(?:mein|das) übliche\w*\b",
        ),
        thing_lived=(
            (
                r"\b(?:de[rnms]|die|das),? (?:[\wäöüß-]+,? ){1,3}(?:de[rnm]|die|das|wo|in dem|in der) (?:wir|"
                r"ich|mir|uns) (?:[\wäöüß]+ ){0,4}(?:gefallen|gemocht|mochten?|waren?|gegessen|gekauft|"
                r"besucht|erwähnt\w*|gesehen|bestellt|gebucht|hatten?|gefiel\w*|erzählt|war|habe?|haben)\b"
            ),
        ),
        my_taste=(
            r"\b(?:mir|uns) (?:gefallen|schmecken) (?:könnte|würde|wird)\b",
            r"\b(?:zu|nach) mein(?:em|en|er) (?:geschmack|vorlieben|interessen|budget|diät)\b",
            r"\bwas ich (?:mag|gern\w*)\b",
        ),
    ),
    impersonal=_any(
        (
            r"\bwie (?:kann|könnte|soll|sollte|muss|mache?|bekomme?|kriege?|installiere?|lösche?|ändere?|"
            r"erstelle?) (?:ich|wir|man)\b"
        ),
        (
            r"\b(?:was|wo|wann|wie|welche\w*) (?:\w+ ){0,3}?(?:kann|könnte|soll|sollte|muss|darf) (?:ich|wir|"
            r"man)\b"
        ),
        r"^(?:kann|darf|soll|sollte|muss|könnte) (?:ich|man|mein\w*)\b",
        (
            r"\b(?:mein\w*|unser\w*) (?:\w+ )?(?:code|fehler|programm|laptop|rechner|computer|handy|drucker|"
            r"text|satz|skript|abfrage|funktion|datei|internet|wlan|ip\S*|frage|server|browser|essay|aufsatz|"
            r"bewerbung|seite|website|test|tests)\b"
        ),
        (
            r"\bwarum (?:ist|sind|geht|funktioniert|habe|bekomme|kriege|läuft|kommt) (?:ich|mein\w*|das|es|"
            r"der|die)\b"
        ),
    ),
    past=_kinds(
        own_past=(
            (
                r"^(?:was|wann|wo|wer|wen|wem|wie|welche\w*|woher|wohin|mit wem|seit wann|warum)\b(?: "
                r"[\w-]+){0,3}? (?:habe?|hatten?|haben|war|waren|bin|sind) (?:ich|wir)\b"
            ),
            (
                r"^(?:habe?|hatten?|haben|war|waren|bin) (?:ich|wir)\b(?= .*(?:\bge(?!gen\b)\w+t\b|"
                r"\bge(?!gen\b)\w+en\b|schon|jemals|"
                r"mal))"
            ),
            (r"^(?:was|wann|wo|wer|wie|welche\w*)\b.*\b(?:hat|hatte|war|waren|haben) (?:mir|mich|uns)\b"),
            r"^(?:was|wann|wo|wer|wie|welche\w*)\b.*\b(?:war|waren) (?:mein\w*|unser\w*)\b",
            r"^(?:wer|was) (?:hat|hatte) (?:mir|uns)\b",
        ),
    ),
    own=_kinds(
        own_thing=(
            (
                r"^(?:was|wann|wo|wer|wie|welche\w*|wessen|um wie viel uhr)\b(?: [\w-]+){0,3}? (?:ist|sind|"
                r"heißt|heisst|heißen|hat|haben|wohnt|arbeitet|steht|liegt|beginnt) (?:\w+ )?(?:mein\w*|"
                r"unser\w*)\b"
            ),
            (
                r"^(?:welche\w*|was|wo|wie viele?|wie oft|wie lange)\b(?: [\w-]+){0,3}? (?:habe|mag|trinke|"
                r"esse|wohne|arbeite|besitze|nehme|bevorzuge|trage|gehe) ich\b"
            ),
        ),
        am_i=(
            (
                r"^(?:bin ich|mag ich|habe ich|hab ich|esse ich|trinke ich|haben wir)\b(?= .*(?:allerg\w+|"
                r"vegetari\w+|vegan|termin\w*|geschwister|gern\w*|verheiratet))"
            ),
        ),
    ),
    addressed=_any(
        r"\b(?:du|dich|dir|dein|deine|deinen|deiner|deinem|ihr|euch)\b",
    ),
    telling=_any(
        r"^(?:erzähl mir (?:\w+ )?(?:über|von)|was ist mit|fass \w+|nenn mir)\b",
    ),
    past_tense=_any(
        r"^wer ist\b",
        (
            r"\b(?:war|waren|hat|hatte|haben|hatten|wurde|wurden|ging|sagte|meinte|ist \w+ ge\w+|ge\w{3,}t|"
            r"ge\w{2,}en)\b"
        ),
    ),
    subject_follows=frozenset(
        "hat hatte ist war mag wird will kann hätte würde wollte ging fuhr sagte heißt heisst wohnt arbeitet "
        "macht".split()
    ),
    capitals_are_names=False,
    supposing=_any(
        r"\b(?:angenommen|stell dir vor|nehmen wir an)\b",
    ),
)

FRENCH = Language(
    words=frozenset(
        "le la les un une des du de et est sont était que qui quoi quand où comment pourquoi quel quelle "
        "quels quelles je tu nous vous mon ma mes ton "
        "ta tes moi toi me te pas ne dans pour avec sur ce cette ai as a avons avez ont j l d c qu s t m n il "
        "elle on y en déjà".split()
    ),
    cues=frozenset(
        (
            "souviens souvenez rappelles rappelle rappelez oublié sais savez sait dit mentionné raconté parlé décidé "
            "convenu discuté recommandé conseillé suggéré dernière précédente déjà fois"
        ).split()
    ),
    to_store=_any(
        r"\b(?:souviens-toi|rappelle-toi|retiens|note) (?:que|de|bien que)\b",
        r"\brappelle-moi (?:de|d'|demain|à|dans)",
        r"\bn'oublie pas\b",
    ),
    recall=_kinds(
        remember=(
            r"\b(?:tu te|vous vous) (?:souviens|souvenez|rappelles?|rappelez)\b",
            r"\bte (?:souviens|rappelles)-tu\b",
            r"\brappelle-moi (?:quand|où|qui|comment|ce que|quel\w*|le nom|pourquoi)\b",
            r"\bje ne me (?:souviens|rappelle) (?:plus|pas)\b",
            r"\bj'ai oublié (?:quand|où|qui|comment|ce que|quel\w*|le nom)\b",
            r"\bje (?:ne )?sais plus\b",
        ),
        asked_back=(
            (
                r"\b(?:qu'est-ce que |que |où |quand |ce que |quel\w* \w+ )?(?:est-ce que )?(?:j'ai|j'avais|"
                r"ai-je|avais-je) (?:\w+ )?(?:dit|mentionné|raconté|parlé)\b"
            ),
            r"\bon (?:a|avait) (?:\w+ )?(?:décidé|convenu|discuté|dit|parlé)\b",
            r"\bnous (?:avons|avions) (?:\w+ )?(?:décidé|convenu|discuté|parlé)\b",
            r"\bavons-nous (?:\w+ )?(?:décidé|convenu|discuté|parlé)\b",
        ),
        i_told_you=(r"\bje (?:t'ai|vous ai|t'avais) (?:\w+ )?(?:dit|raconté|parlé)\b",),
        you_told_me=(
            (
                r"\b(?:tu m'as|tu m'avais|vous m'avez|m'as-tu) (?:\w+ )?(?:dit|recommandé|conseillé|suggéré|"
                r"parlé)\b"
            ),
        ),
        what_you_know=(
            (
                r"\b(?:que|qu'est-ce que|ce que|tout ce que) (?:sais-tu|tu sais|savez-vous|vous savez)(?: "
                r"déjà)? (?:de|sur|à propos de) (?:moi|nous|mon|ma|mes)\b"
            ),
        ),
        we_discussed=(
            r"\bla dernière fois\b",
            r"\bnotre (?:dernière|précédente) (?:conversation|discussion|rencontre)\b",
        ),
        again=(
            r"\b(?:déjà|encore une fois)$",
            r"^(?:comment|c'est quoi|c'était quoi|quel\w*|où|qui|quand)\b.*\bdéjà\b",
        ),
    ),
    frame=_any(
        (
            r"^(?:(?:et|alors|bonjour|salut|ok|merci|donc|au fait|dis|bon|stp)[,:]? +)*(?:(?:peux-tu|"
            r"pourrais-tu|pouvez-vous|tu peux|est-ce que tu peux|sais-tu|tu sais) (?:me |m')?(?:dire |"
            r"rappeler )?|dis-moi )?(?:s'il te plaît )?"
        ),
    ),
    question=_any(
        (
            r"^(?:qu'|que|qui|quoi|quand|où|comment|pourquoi|quel\w*|combien|est-ce|c'est quoi|c'était quoi|à "
            r"qui|à quel\w*|avec qui|de quel\w*|dans quel\w*|depuis quand|a-t-|ai-je|avons-nous|suis-je|"
            r"sommes-nous)"
        ),
    ),
    request=_any(
        (
            r"^(?:trouve|montre|donne|réserve|commande|recommande|propose|suggère|raconte|résume|cherche|fais|"
            r"peux-tu|pourrais-tu|liste|conseille|écris)\b"
        ),
    ),
    recall_in_request=_kinds(
        usual=(
            r"\bcomme (?:d'habitude|toujours|la dernière fois|avant)\b",
            r"\b(?:mon|ma|le) \w+ habituel(?:le)?\b",
        ),
        thing_lived=(
            (
                r"\b(?:le|la|les|l'|ce|cette|du|au) ?[\w'-]+ (?:[\w'-]+ )?(?:que|qu'|où) ?(?:j'ai|j'avais|on "
                r"a|on avait|nous avons|nous avions) (?:\w+ )*?(?:aimé|adoré|mangé|visité|acheté|réservé|vu|"
                r"logé|mentionné|commandé|rencontré|parlé|choisi)\w*"
            ),
        ),
        my_taste=(
            (
                r"\b(?:selon|d'après|vu|compte tenu de) (?:mes|mon|ma|nos) (?:goûts?|préférences?|allergies?|"
                r"budget|intérêts?|habitudes|régime)\b"
            ),
            r"\bqui (?:me|nous) plair\w+\b",
            r"\bce que j'aime\b",
        ),
    ),
    impersonal=_any(
        (
            r"\bcomment (?:est-ce que )?(?:je|on|puis-je|faire|dois-je|peut-on|nous)\b(?!.*\b(?:avons|avais|"
            r"ai)\b)"
        ),
        (
            r"\b(?:que|où|quand|quel\w*|qu'est-ce que)(?: \w+){0,3}? (?:dois-je|puis-je|je dois|je peux|je "
            r"devrais|devrais-je|peut-on|faut-il)\b"
        ),
        (
            r"\b(?:mon|ma|mes|notre|nos) (?:\w+ )?(?:code|erreur|programme|ordinateur|téléphone|imprimante|"
            r"texte|phrase|script|requête|fonction|fichier|adresse ip|site|serveur|question|test|tests|page|"
            r"lettre|cv|navigateur)\b"
        ),
        r"\bpourquoi (?:est-ce que )?(?:mon|ma|mes|le|la|ça|je|cela)\b",
    ),
    past=_kinds(
        own_past=(
            (
                r"^(?:qu'est-ce que|que|où|quand|comment|quel\w*|qui|combien|avec qui|à qui|à quel\w*|depuis "
                r"quand|pourquoi)\b.*\b(?:j'ai|j'avais|j'étais|ai-je|étais-je|avons-nous|nous avons|on a|"
                r"suis-je (?:né|allé|parti)\w*|je suis (?:né|allé|parti)\w*|m'a|m'avait|nous a)\b"
            ),
            r"^(?:ai-je|avons-nous|est-ce que (?:j'ai|on a|nous avons)) (?:déjà|jamais)\b",
        ),
    ),
    own=_kinds(
        own_thing=(
            (
                r"^(?:quel\w*|qui|où|quand|comment|c'est quoi|combien|à quel\w*|de quel\w*)\b(?: "
                r"[\w'-]+){0,5}? (?:mon|ma|mes|notre|nos)\b"
            ),
            (
                r"^(?:quel\w*|qu'est-ce que|où|que) (?:\w+ )?(?:est-ce que )?(?:j'aime|j'habite|je (?:bois|"
                r"mange|préfère|travaille|porte))\b"
            ),
        ),
        am_i=(
            (
                r"^(?:suis-je|est-ce que je suis|est-ce que j'aime|ai-je|est-ce que j'ai) (?:allergique|"
                r"végétarien\w*|végan\w*|marié\w*|des (?:allergies|enfants|frères)|un rendez-vous)"
            ),
        ),
    ),
    addressed=_any(
        r"\b(?:tu|toi|te|ton|ta|tes|vous|votre|vos|t'\w+)\b",
        r"-(?:tu|vous)\b",
    ),
    telling=_any(
        r"^(?:parle-moi (?:de|d')|raconte|résume|et pour|dis-moi)",
    ),
    past_tense=_any(
        r"^qui est\b",
        (
            r"\b(?:a|ont|avait|avaient|était|étaient|est (?:né|allé|parti|venu|mort|devenu)\w*|\w+-t-(?:il|"
            r"elle))\b"
        ),
    ),
    subject_follows=frozenset(
        "que est a avait était quand comment où pourquoi aime habite travaille qu'est-ce".split()
    ),
    supposing=_any(
        r"\b(?:supposons|imagine|imaginons|admettons)\b",
    ),
)

SPANISH = Language(
    words=frozenset(
        "el la los las un una unos y es son era que qué quien quién cuando cuándo donde dónde cómo como por "
        "cual cuál cuáles yo tú nosotros mi mis tu tus me te "
        "nos no en con para del al lo se su he has ha hemos dije dijiste está están fue fui de a hay sobre ya".split()
    ),
    cues=frozenset(
        (
            "acuerdas recuerdas acuerda acordáis recuérdame acuerdo recuerdo olvidé olvidado olvidó dije mencioné "
            "dicho dijimos acordamos decidimos hablamos conté contado dijiste recomendaste contaste sugeriste "
            "aconsejaste sabes última anterior cómo cuál qué quién dónde cuándo era"
        ).split()
    ),
    to_store=_any(
        r"\b(?:recuerda|acuérdate|anota|apunta) (?:que|de)\b",
        r"\brecuérdame (?:que|mañana|a las|en|el)\b(?! (?:nombre|título))",
        r"\bno (?:te )?olvides\b",
    ),
    recall=_kinds(
        remember=(
            r"\b(?:te acuerdas|recuerdas|se acuerda|os acordáis)\b",
            r"\brecuérdame (?:qué|cuándo|dónde|quién|cómo|cuál|el nombre|lo que)",
            r"\bno (?:me acuerdo|recuerdo)\b",
            r"\b(?:olvidé|he olvidado|se me olvidó) (?:qué|cuándo|dónde|quién|cómo|cuál|el nombre)",
        ),
        asked_back=(
            (
                r"\b(?:qué|cuándo|dónde|cómo|cuál|quién|lo que)\b.{0,30}?\b(?:te dije|te he dicho|te conté|"
                r"dije|mencioné|he dicho|dijimos|acordamos|decidimos|hablamos)\b"
            ),
            r"^(?:te dije|te he dicho|te conté|mencioné|te mencioné)\b",
        ),
        i_told_you=(r"\b(?:ya )?te (?:dije|conté|había dicho|he contado)\b",),
        you_told_me=(r"\bme (?:dijiste|recomendaste|habías dicho|has dicho|contaste|sugeriste|aconsejaste)\b",),
        what_you_know=(r"\b(?:qué|lo que|todo lo que) (?:sabes|recuerdas) (?:de|sobre) (?:mí|mi|mis|nosotros)\b",),
        we_discussed=(
            r"\bla última vez\b",
            r"\bnuestra (?:última|anterior) (?:conversación|charla|reunión)\b",
        ),
        again=(
            r"^cómo (?:se llama(?:ba|ban)|era (?:el|la|su) (?:nombre|dirección|título))\b",
            r"^cuál era (?:el|la|su) (?:nombre|dirección|título)\b",
        ),
    ),
    frame=_any(
        (
            r"^¿?(?:(?:y|pues|hola|oye|ok|vale|gracias|por cierto|bueno)[,:]? +¿?)*(?:(?:puedes|podrías|me "
            r"puedes|me podrías|sabes) (?:decirme |recordarme |decir )?|dime )?(?:por favor,? )?¿?"
        ),
    ),
    question=_any(
        (
            r"^¿?(?:qué|que|cuándo|cuando|dónde|donde|quién|quien|quiénes|cómo|como|cuál|cual|cuáles|"
            r"cuánto\w*|por qué|a qué|a quién|con quién|de qué|de quién|en qué|desde cuándo|a dónde|adónde|"
            r"soy|tengo|he|hemos|está|es|era)\b"
        ),
    ),
    request=_any(
        (
            r"^(?:busca|encuentra|muéstra\w*|dame|reserva|pide|recomiéndame|recomienda|sugiere|sugiéreme|"
            r"cuéntame|resume|haz|puedes|podrías|escribe|di|dime|planea)\b"
        ),
    ),
    recall_in_request=_kinds(
        usual=(
            r"\b(?:como|lo de) (?:siempre|la última vez|antes)$",
            r"\bmi \w+ (?:habitual|de siempre)\b",
        ),
        thing_lived=(
            (
                r"\b(?:el|la|los|las|ese|esa|aquel|aquella) [\w-]+ (?:[\w-]+ )?(?:que|donde|en el que|en la "
                r"que) (?:\w+ )?(?:nos gustó|me gustó|mencioné|comimos|fuimos|visitamos|compré|compramos|"
                r"vimos|reservé|probamos|conocimos|te dije)\b"
            ),
        ),
        my_taste=(
            (
                r"\b(?:según|de acuerdo con|teniendo en cuenta|basado en) (?:mis|mi|nuestros) (?:gustos?|"
                r"preferencias?|alergias?|presupuesto|intereses|dieta)\b"
            ),
            r"\bque (?:me|nos) (?:guste|gustaría)\b",
        ),
    ),
    impersonal=_any(
        r"\bcómo (?:puedo|debo|hago|podría|se puede|podemos|se)\b(?! llama)",
        r"\b(?:qué|dónde|cuándo|cuál)(?: \w+){0,3}? (?:debo|puedo|debería|tengo que|podría|hago|hay que)\b",
        (
            r"\b(?:mi|mis|nuestro|nuestra) (?:\w+ )?(?:código|error|programa|ordenador|computadora|teléfono|"
            r"móvil|impresora|texto|frase|script|consulta|función|archivo|ip|dirección ip|sitio|servidor|"
            r"pregunta|prueba|pruebas|página|carta|navegador)\b"
        ),
        r"\bpor qué (?:mi|mis|el|la|no|me|esto)\b",
    ),
    past=_kinds(
        own_past=(
            (
                r"^¿?(?:qué|cuándo|dónde|quién|cómo|cuál|cuáles|cuánto\w*|a quién|con quién|en qué|desde "
                r"cuándo|por qué|a dónde)\b.*\b(?:fui|fuimos|hice|hicimos|estuve|estuvimos|compré|compramos|"
                r"comí|comimos|conocí|conocimos|visité|visitamos|dejé|dejamos|aparqué|empecé|empezamos|nací|"
                r"vi|vimos|puse|leí|gasté|quedamos|me (?:dijo|dio|regaló|recomendó|contó)|nos (?:dijo|dio|"
                r"contó))\b"
            ),
            r"^(?:he|hemos) (?:estado|visitado|probado|leído|visto)\b",
        ),
    ),
    own=_kinds(
        own_thing=(
            (
                r"^¿?(?:cuál|cuáles|quién|quiénes|dónde|cuándo|cómo|qué (?:edad|día|hora|talla|número|color)|cuánto\w*|"
                r"en qué|a qué)\b(?: "
                r"[\w-]+){0,4}? (?:mi|mis|nuestro|nuestra|nuestros)\b"
            ),
            r"^¿?(?:qué|dónde|cuál)\b(?: \w+)? (?:me gusta|bebo|como|vivo|trabajo|prefiero|tengo)\b",
        ),
        am_i=(
            (
                r"^¿?(?:soy|tengo|estoy) (?:alérgic[oa]|vegetarian[oa]|vegan[oa]|alergias?|hermanos|hijos|una "
                r"cita|casad[oa])"
            ),
        ),
    ),
    addressed=_any(
        r"\b(?:tú|te|ti|tu|tus|contigo|usted|ustedes|vosotros|os|vuestr\w+)\b",
    ),
    telling=_any(
        r"^(?:háblame de|cuéntame|resume|qué (?:hay|pasa) (?:de|con)|dime)\b",
    ),
    past_tense=_any(
        r"^quién es\b",
        r"\b(?:fue|era|eran|estaba|ha|han|había|hizo|dijo|tuvo|compró|\w{2,}(?:ó|aron|ieron|aba|ía))\b",
    ),
    subject_follows=frozenset(
        "es fue era ha tiene hizo dijo vive trabaja estudia está estaba tenía quiere compró llama cuándo "
        "dónde cómo".split()
    ),
    supposing=_any(
        r"\b(?:supongamos|supón|imagina|digamos)\b",
    ),
)

LANGUAGES: Mapping[str, Language] = {"english": ENGLISH, "german": GERMAN, "french": FRENCH, "spanish": SPANISH}
