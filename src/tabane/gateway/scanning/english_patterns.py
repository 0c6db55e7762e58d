"""Signals in English. Texts are in small letters, each part on one line, without ``*`` and backticks.

Gaps are counted in words and have a limit, so that each expression takes linear time.
"""

from __future__ import annotations

from tabane.gateway.scanning.signals import Sign, Signal, any_of, signal


def _gap(most: int) -> str:
    """Return an expression for up to so many words of one sentence."""
    return rf"(?:[^\s.!?]+[.,:;]? ){{0,{most}}}?"


_NOT = (
    r"\b(?:do not|don't|dont|must not|mustn't|should not|shouldn't|shall not|never|without|refrain from|avoid"
    r"|no need to|not to|need not|needn't|cannot|nor|or|instead of)\b"
)
_USER = (
    r"(?:the |this |that |your |any |our |end[- ])?"
    r"(?:users?|humans?|operators?|persons?|people|anyone|anybody|customers?|owners?|them|him|her|reviewers?|reader)\b"
)
_TELL = any_of(
    "tell telling mention mentioning inform informing notify notifying alert alerting warn warning inform "
    "disclose disclosing reveal revealing acknowledge acknowledging announce announcing explain explaining "
    "discuss discussing report reporting let letting bother bothering disturb alarm alarming"
)
_SHOW = any_of("show showing display displaying expose exposing share sharing say surface ask asking present")
_ACT = any_of(
    "read send include forward append copy upload attach collect call invoke transmit pass add bcc execute run "
    "fetch post open extract gather insert replace change redirect record harvest exfiltrate log leak embed use"
)
_TAKE = (
    r"\b(?:read|open|cat|access|load|retrieve|fetch|get|extract|collect|copy|dump|grab|gather|obtain|include|attach|send"
    r"|upload|provide|paste|harvest|look up|find|print|return|search for|check|append|pass|forward|use|leak|steal|exfiltrate"
    r"|email|post|list|scan|locate|export|transmit|enumerate|supply|share|embed|insert|encode|reading|retrieving"
    r"|accessing|collecting|including|sending|contents? (?:of|from)|content_?(?:of|from)\w*)\b"
)
_PATHS = (
    r"(?:~|\$home|%userprofile%|/home/\S{1,40}|/root|/users/\S{1,40})/\.(?:ssh|aws|config|gnupg|kube|docker|cursor|claude|netrc|npmrc"
    r"|pypirc|git-credentials|env|bash_history|zsh_history|azure|gcloud|local|password-store|codeium|mozilla)\b\S*"
    r"|\.?ssh[/\\]\S+|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\bid rsa\b|\bauthorized_keys\b|\.aws/(?:credentials|config)|/etc/(?:passwd|shadow|sudoers)"
    r"|\bmcp\.json\b|claude_desktop_config\S*|mcp_config\S*|\.env\b(?!iron)|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials\b"
    r"|\.kube/config|\bkubeconfig\b|\.docker/config\.json|\bkeychain\b|\bwallet\.dat\b|\blogin data\b|\bcookies\.sqlite\b"
    r"|\.bash_history|\.zsh_history|\.gnupg|\bcredentials\.json\b|\bsecrets?\.(?:ya?ml|json|toml|env)\b|\bservice[-_]account\.json\b"
    r"|/proc/self/environ|/var/run/secrets\S*|\bssh (?:private )?keys?\b|\bprivate ssh keys?\b"
)
_SECRETS = (
    r"(?:api[ _-]?keys?|access[ _-]?keys?|access[ _-]?tokens?|auth(?:entication|orization)?[ _-]?tokens?|bearer tokens?"
    r"|session[ _-]?(?:tokens?|cookies?)|cookies|passwords?|passphrases?|credentials?|private[ _-]?keys?|secret[ _-]?keys?|secrets"
    r"|seed phrases?|recovery phrases?|mnemonic|environment variables?|env(?:ironment)? vars?|credit card|social security"
    r"|ssn|oauth tokens?|refresh[ _-]?tokens?|tokens stored|process\.env|printenv|2fa codes?|one-time codes?|browser history)\b"
)
_WHOLE = r"(?:entire|full|complete|whole|raw|verbatim|exact|unredacted|all(?: of)?(?: the| your| our)?|everything in the|every)"
_TALK = r"(?:conversations?|chats?|dialogue|dialog|discussion|chat log|message history|session context|context window|transcript)"
_PUT = any_of(
    "pass include put place insert append attach add send provide supply embed write paste copy store encode "
    "forward set fill concatenate submit use give populate record passing including reveal list output transmit "
    "passed included placed inserted appended attached added sent provided supplied embedded written pasted "
    "copied stored encoded forwarded filled concatenated submitted populated recorded report summarize serialize dump"
)
_WHEN = r"\b(?:when|whenever|if|before|after|while|every time|each time|any time|anytime|once|for (?:any|all|every)|on every|upon)\b"

_SECRECY_WORDS = "not never without don't dont mustn't shouldn't refrain avoid no need needn't cannot hide conceal keep nor or"
_PEOPLE = (
    "user users user's human humans operator operators person people anyone anybody customer customers owner "
    "them him her reviewer reviewers users' reader"
)

ENGLISH: tuple[Signal, ...] = (
    # -- secrecy
    signal(
        Sign.SECRECY, 4,
        rf"{_NOT} (?:\w+ ){{0,2}}?{_TELL} (?:to )?(?:{_gap(3)}(?:this|it|these|that|about|anything|any of|the (?:step|file|action|call|"
        rf"process|check|instruction|operation|read|access|transfer|change|fact|existence|content|detail|reason|note|copy|bcc|forward)\w*)"
        rf"{_gap(5)})?(?:(?:to|with) )?{_USER}(?! (?:to|for|if|when|how|which|what|where|whether)\b)",
        _SECRECY_WORDS, _PEOPLE,
    ),
    signal(
        Sign.SECRECY, 4,
        rf"{_NOT} (?:\w+ ){{0,2}}?(?:mention|disclose|reveal|acknowledge|discuss|reference|announce|explain|report|describe|talk about"
        r"|mentioning|disclosing|revealing|acknowledging|log|show|display|print|output) "
        r"(?:to (?:the |any)?\w+ )?(?:this|these|that you|that this|it\b|any of this|the (?:existence|above|instruction|directive|step|"
        r"note|check|transfer|read|access|verification|sync|backup|process|requirement|parameter|copy|call)|having|reading|such)",
        "mention disclose reveal acknowledge discuss reference announce explain report describe talk mentioning disclosing "
        "revealing acknowledging log show display print output", _SECRECY_WORDS,
    ),
    signal(
        Sign.SECRECY, 4,
        r"\bwithout (?:the |any )?(?:user's?|users'?|their|human|owner's?|anyone|them|him|her|anybody)(?:'s)? ?(?:\w+ )?"
        r"(?:knowing|knowledge|consent|awareness|noticing|permission|realizing|being aware|being told|being notified|seeing|explicit)",
        "without",
    ),
    signal(
        Sign.SECRECY, 4,
        rf"\b(?:hide|conceal|withhold|mask|obscure|keep|keeping|hiding|hidden|secret|confidential|invisible)\b {_gap(5)}(?:from|to) {_USER}",
        "hide conceal withhold mask obscure keep keeping hiding hidden secret confidential invisible", _PEOPLE,
    ),
    signal(
        Sign.SECRECY, 3,
        r"\bkeep (?:this|it|these|that|the (?:step|process|action|instruction|transfer|above)\w*) (?:\w+ )?(?:secret|hidden|confidential|"
        r"private|between us|to yourself|quiet|internal|silent|invisible)|\b(?:strictly|highly) confidential\b.{0,40}\b(?:instruction|do not|never)",
        "keep confidential",
    ),
    signal(
        Sign.SECRECY, 4,
        rf"\b(?:users?|humans?|they|customers?|operators?|person) (?:must|should|shall|will|need|may|can|does|do|is|are) ?(?:not|n't|never|n’t) "
        rf"{_gap(2)}(?:know|aware|notice|informed|told|realize|find out|suspect|notified|learn|bothered|alarmed|see this|see that|see these|need to know)",
        "user users human humans they customer customers operator operators person",
        "know aware notice informed told realize find suspect notified learn bothered alarmed see",
    ),
    signal(
        Sign.SECRECY, 3,
        r"\b(?:users?|them|they|people) (?:doesn't|don't|won't|shouldn't|needn't|cannot|can't) (?:need to )?(?:know|notice|realize|find out|suspect|see)",
        "doesn't don't won't shouldn't needn't cannot can't", "know notice realize find suspect see",
    ),
    signal(
        Sign.SECRECY, 3,
        rf"\b(?:secretly|covertly|discreetly|discretely|surreptitiously|stealthily|unobtrusively|invisibly|unnoticed)\b"
        rf"|\b(?:silently|quietly) (?:\w+ ){{0,2}}?{_ACT}\b|\b{_ACT}\b {_gap(9)}(?:silently|quietly|without (?:comment|mention|any mention|notice))\b",
        "secretly covertly discreetly discretely surreptitiously stealthily unobtrusively invisibly unnoticed silently quietly without",
    ),
    signal(
        Sign.SECRECY, 3,
        r"\b(?:upset|alarm|scare|worry|frighten|annoy|confuse|concern|distract|disturb|overwhelm)(?:s|ing)? (?:the |your )?(?:users?|them|humans?)\b",
        "upset alarm scare worry frighten annoy confuse concern distract disturb overwhelm alarming confusing distracting upsetting",
    ),
    signal(
        Sign.SECRECY, 3,
        r"\bas (?:if|though) nothing\b|\b(?:act|behave|respond|proceed|continue|answer) (?:as (?:if|normal|usual)|normally)\b"
        r"|\bleave no trace|\bcover (?:your|the) tracks|\b(?:delete|clear|remove|erase|wipe) {gap}(?:logs?|history|traces?|evidence)\b"
        .replace("{gap}", _gap(4)),
        "act behave respond proceed continue answer nothing trace tracks logs log history traces evidence",
    ),
    signal(
        Sign.SECRECY, 2,
        rf"{_NOT} (?:\w+ ){{0,2}}?{_SHOW} {_gap(6)}(?:to |with )?{_USER}(?! (?:to|for|if|when|how|which|what|where|whether)\b)"
        rf"|\bnot (?:be )?(?:visible|shown|displayed|mentioned|disclosed|revealed|exposed) (?:to|in)\b",
        _SECRECY_WORDS,
    ),
    # -- override and role
    signal(
        Sign.OVERRIDE, 6,
        r"\b(?:ignore|disregard|forget|neglect|dismiss|overrule|discard|override|bypass|set aside|do not follow|don't follow|stop following|disobey)\b "
        r"(?:about )?(?:(?:all|any|every|each|of|the|your|my|these|those|other|and|user's?|developer|system|safety|existing|original|initial|default|current|"
        r"previous|prior|above|earlier|preceding|former|previously|given|security|anthropic's?|openai's?) ?){1,5}"
        r"(?:instructions?|prompts?|guidelines?|directives?|system prompts?|guardrails?|safeguards?|orders|messages? above|training)\b",
        "ignore disregard forget neglect dismiss overrule discard override bypass aside follow following disobey",
    ),
    signal(
        Sign.OVERRIDE, 5,
        r"\b(?:ignore|disregard|forget|neglect|overrule|discard|override|bypass|do not follow|disable|circumvent)\b (?:all |any |of |the |your |these )*"
        r"(?:previous|prior|above|earlier|preceding|your|safety|security|built-in|existing safety|system) "
        r"(?:\w+ )?(?:rules?|commands?|constraints?|polic(?:y|ies)|restrictions?|context|filters?|protections?|limits|limitations|checks|measures|controls)\b"
        r"|\bforget (?:everything|all)\b|\b(?:ignore|disregard) (?:everything|all|anything) (?:above|before|else|previous|prior|that)",
        "ignore disregard forget neglect overrule discard override bypass follow disable circumvent",
    ),
    signal(
        Sign.OVERRIDE, 4,
        r"\b(?:supersedes?|overrides?|takes? (?:precedence|priority) over|have priority over|replaces?|outranks?) "
        r"(?:all|any|your|every|other|the|previous|prior|system|user|existing)(?: \w+){0,3} (?:instructions?|prompts?|rules|guidelines|directives?|requests?|polic(?:y|ies)|commands?)\b",
        "supersede supersedes override overrides precedence priority replace replaces outranks outrank",
        "instruction instructions prompt prompts rules guidelines directive directives request requests policy policies command commands",
    ),
    signal(
        Sign.OVERRIDE, 4,
        r"\byou are now\b|\bfrom now on,? (?:you|always|every|act|respond|all|when|any|do|treat|before|after|include)|\bfrom this (?:point|moment) (?:on|forward)"
        r"|\b(?:developer|debug|maintenance|admin|administrator|god|dan|unrestricted|jailbreak|root|sudo|diagnostic) mode (?:is )?(?:now )?(?:enabled|activated|active|on\b|unlocked)"
        r"|\b(?:enter|entering|switch to|activate|enable|assume) (?:developer|god|dan|unrestricted|jailbreak|root|sudo) (?:mode|access)\b"
        r"|\byour (?:new|real|true|actual|only) (?:role|task|goal|objective|purpose|instructions?|job|mission|directive)\b",
        "now mode your point moment access",
    ),
    signal(
        Sign.OVERRIDE, 3,
        r"\b(?:new|updated|additional|hidden|secret|internal|special|mandatory|critical|priority|core) (?:system )?(?:instructions?|directives?|orders?|prompt)\b ?(?::|for (?:the )?(?:ai|assistant|model|llm|agent|you))"
        r"|\bsystem (?:override|instruction|notice|directive|message|update|alert|note|prompt|command|requirement|policy)s? ?:"
        r"|\b(?:instructions?|note|message|directive|reminder|attention|order)s? (?:for|to) (?:the |any |all )?(?:ai|assistants?|models?|llms?|agents?|language models?|claude|chatgpt|gpt)\b"
        r"|\bend of (?:tool )?(?:description|documentation|user|system)|\bbegin (?:system|new|hidden|secret|admin)\b",
        "instruction instructions directive directives order orders prompt system note message reminder attention end begin",
    ),
    # -- markup
    signal(
        Sign.MARKUP, 5,
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id|begin_of_text)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>|\bhuman: .{0,200}\bassistant: ",
    ),
    signal(
        Sign.MARKUP, 3,
        r"<(?:system|secret|hidden|override|admin|directive|sys|assistant|instructions?|system[_-]\w+|ai[_-]\w+|llm[_-]\w+|hidden[_-]\w+|secret[_-]\w+|privileged|priority)>"
        r"|\[(?:system|admin|override|hidden|secret|system[_ -]\w+|ai[_ -]\w+|internal|begin \w+|assistant)(?: \w+){0,2}\]|#{2,} ?(?:system|instruction|admin|override)|\{\{? ?(?:system|instruction|admin)s? ?:"
        r"|<!--.{0,80}\b(?:ai|llm|assistant|agent|model|instruction|system|must|ignore|always)\b",
    ),
    signal(
        Sign.MARKUP, 2,
        r"</?(?:important|critical|urgent|mandatory|attention|required|security|compliance|internal|note|warning|context|rules?|requirement|prerequisite|policy)(?:[_ -]\w+){0,2}>"
        r"|\[(?:important|critical|urgent|mandatory|always|required|security|compliance|policy)(?: \w+){0,2}[\]:]",
    ),
    # -- orders
    signal(
        Sign.ORDER, 3,
        r"\b(?:before|prior to|after|ahead of|preceding) (?:you )?(?:\w+ ){0,2}?(?:any|all|every|each|anything|everything)(?: other| else| file| further| subsequent)? ?(?:\w+ )?"
        r"(?:tools?|operations?|actions?|functions?|requests?|calls?|commands?|responses?|tasks?|interactions?|steps?|quer(?:y|ies)|answers?|else|invocations?|executions?|messages?|prompts?)\b",
        "before prior after ahead preceding", "any all every each anything everything",
    ),
    signal(
        Sign.ORDER, 2,
        r"\b(?:before|prior to|after|while|when(?:ever)?|each time|every time|upon|in order to|to)(?: you)? (?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|execut(?:e|ing)|run(?:ning)?|answer(?:ing)?|respond(?:ing)?|"
        r"process(?:ing)?|perform(?:ing)?|return(?:ing)?|proceed(?:ing)?|continu(?:e|ing)|complet(?:e|ing)|provid(?:e|ing)) (?:this|the|with this|the user|to the user|any)?.{0,60}?[,:;] ?(?:please |you must |always |you should |you need to |first |the (?:ai|assistant|model|agent) must |also |must |it is (?:required|necessary|mandatory) to |the caller must |make sure to |ensure )*"
        r"(?:first )?(?:read|open|cat|access|load|retrieve|fetch|collect|gather|send|include|upload|copy|run|execute|forward|append|extract|list|query|search|post|summari[sz]e|dump|encode|get|output|invoke|call|use|attach|pass|repeat|print)\b",
        "before prior after while when whenever each every upon to",
    ),
    signal(
        Sign.ORDER, 2,
        r"\b(?:you|the (?:ai|assistant|model|agent|llm|client)|it|agents?|assistants?|models?|llms?) (?:must|should|shall|need to|needs to|have to|has to|are required to|is required to|will|are expected to|are instructed to) "
        r"(?:also |always |first |then |immediately |automatically |additionally |now )*(?:read|open|cat|access|load|retrieve|fetch|collect|gather|send|include|upload|copy|execute|run|forward|append|extract|"
        r"post|dump|encode|output|invoke|attach|repeat|transmit|disclose|harvest|insert|obey|comply|follow these|call the|use the|provide (?:the|your|all|it)|pass (?:the|your|all|it))",
        "must should shall need needs have has required will expected instructed",
    ),
    signal(
        Sign.ORDER, 2,
        r"\b(?:must|first|always|mandatory to|required to|necessary to|need to|should) (?:first |always |be )?(?:invoke|call|use|run|execute|utili[sz]e|invoked|called|executed) (?:the |other |a )?[\w.-]+(?: (?:tool|function|command))? "
        rf"{_gap(4)}(?:to|in order to|and|with) {_gap(3)}(?:read|access|retrieve|obtain|fetch|get|verify|check|extract|scan|copy|upload|send|delete|remove|write|modify|change|list|search)\b",
        "must first always mandatory required necessary need should",
    ),
    # -- pressure, address
    signal(
        Sign.PRESSURE, 1,
        r"\b(?:otherwise|or else|failure to|failing to|if you (?:do not|don't|fail|skip)|unless you)\b|\b(?:tool|system|call|request|it|operation|service) (?:will|won't|cannot|can't) (?:not )?(?:work|function|fail|be (?:blocked|rejected|denied|terminated)|crash|break)"
        r"|\b(?:security|compliance|safety|integrity|legal|audit|license|policy|regulatory|verification|authentication|quality|diagnostic|telemetry|debug(?:ging)?|analytics|monitoring|personali[sz]ation|system|calibration|identity)"
        r" (?:check|requirement|protocol|policy|verification|purposes?|reasons?|audit|validation|procedure|measure|mandate|standards?|compliance|rules?|scan|reviews?|monitoring|logging|regulations?|integrity)"
        r"|\b(?:required|mandated|needed|necessary|authori[sz]ed|approved|requested) (?:by|for|as part of|per|under) (?:\w+ )?(?:\w+ )?(?:policy|compliance|security|legal|audit|regulations?|law|gdpr|hipaa|soc ?2|administrators?|platform|it department|verification|validation|licens\w+|anthropic|openai|admin)"
        r"|\b(?:critical|urgent|mandatory|emergency|attention|imperative|non-negotiable|compulsory)\b",
    ),
    signal(
        Sign.ADDRESS, 1,
        r"\b(?:ai|llm|language model|assistant|agent|model|claude|chatgpt|gpt-?\d?|gemini|copilot)s?\b,? ?(?:must|should|shall|has to|needs to|is required|are required|:|assistant|agent|model)"
        r"|\b(?:dear|hey|attention|hello) (?:ai|assistant|model|agent|llm)|\bas an (?:ai|assistant|llm)\b|\byour (?:context|memory|instructions|system prompt|knowledge|reasoning|training)\b",
        "ai llm language assistant agent model claude chatgpt gpt gemini copilot ais llms assistants agents models gpt-4 your",
    ),
    # -- what is wanted
    signal(Sign.SECRETS, 3, rf"{_TAKE} {_gap(12)}[\"'(]?(?:{_PATHS})"),
    signal(Sign.SECRETS, 2, rf"(?:{_PATHS})"),
    signal(
        Sign.SECRETS, 2, rf"{_TAKE} {_gap(8)}(?:\w+[/,] ?)?{_SECRETS}",
        "key keys api token tokens cookie cookies password passwords passphrase passphrases credential credentials secret secrets "
        "phrase phrases mnemonic variable variables var vars card security ssn env printenv code codes history api_key api_keys "
        "access_token api-key api-keys private_key session_token session_tokens keys/tokens",
    ),
    signal(
        Sign.CONVERSATION, 3,
        rf"\b{_WHOLE} {_gap(2)}(?:previous |prior |current |ongoing |user |your |our |the |this )?(?:{_TALK}|system prompt|context|prior messages|previous messages|user messages|messages exchanged|history|prompts?)\b(?! managers?)",
        "entire full complete whole raw verbatim exact unredacted all everything every",
        "conversation conversations chat chats dialogue dialog discussion history session context transcript prompt prompts messages",
    ),
    signal(
        Sign.CONVERSATION, 2,
        r"\b(?:conversation|chat|dialogue|dialog) (?:history|context|transcript|so far|log)\b|\b(?:your|the current|the active|the hidden|its|initial|original) (?:system )?(?:prompt|instructions|system message)\b"
        r"|\bsystem prompt\b|\b(?:previous|prior|earlier|recent|last) (?:\w+ )?(?:user )?(?:messages|prompts|turns|queries|exchanges|conversations?|tool (?:results?|outputs?|responses?))\b"
        r"|\bchain[- ]of[- ]thought\b|\byour (?:internal )?(?:reasoning|thoughts|context window|memory)\b|\beverything (?:the user|you|they) (?:said|know|has|have|told|wrote|typed)"
        r"|\bwhat the user (?:said|asked|wrote|typed)|\b(?:user's|user’s|users') (?:original |exact |full |last |latest |previous |recent |verbatim )(?:message|prompt|request|query|question|input|words)s?\b"
        r"|\b(?:names?|list|descriptions?|definitions?|schemas?) of (?:all |the |your |every )*(?:other |available |installed |connected |accessible )*(?:tools|mcp servers|functions)",
        "conversation chat dialogue dialog prompt instructions messages prompts turns queries exchanges conversations tool chain-of-thought "
        "reasoning thoughts context memory everything user user's message request query question input words tools servers functions chain system",
    ),
    signal(
        Sign.STUFFING, 1,
        rf"\b{_PUT}\b {_gap(14)}(?:as|in|into|to|inside|within|via|through|using|with) (?:the |a |an |this |that )?(?:hidden |optional |required |extra |additional )?(?:[\"'(]?[\w.-]+[\"')]? )?(?:parameter|argument|field|arg|param|property|header|payload)s?\b"
        rf"|\b{_PUT}\b {_gap(14)}(?:as|in|into|to|inside|within|via) (?:the )?[\"'][\w.-]+[\"']|\b{_PUT}\b {_gap(10)}(?:as|into|in|to) (?:the )?\w+_\w+\b"
        rf"|\b{_PUT}\b {_gap(10)}(?:as|into|in|to) (?:the )?(?:sidenote|context|notes?|metadata|comment|feedback|debug|trace|memo|summary|session|annotation|reason|telemetry|query|title|body)\b",
        "as in into to inside within via through using with",
    ),
    signal(
        Sign.CHANNEL, 3,
        rf"\b(?:send|post|upload|forward|transmit|e-?mail|submit|report|exfiltrate|deliver|push|leak|sync|relay|beacon|copy|mirror|sent|posted|uploaded|forwarded|transmitted|emailed|submitted|bcc|cc|back up|curl|wget|fetch|append|store|write|publish|ship|stream|sending|forwarding|uploading)\b"
        rf" {_gap(14)}[\"'(<]?(?:(?:https?|ftp|wss?)://|[\w.+-]+@[\w-]+\.|attacker|(?:an? )?(?:external|remote|third-party|our|my) (?:server|endpoint|url|host|webhook|service|address|collector|logging)|pastebin|webhook\.site|ngrok|requestbin|discord webhook)",
        "send post upload forward transmit email e-mail submit report exfiltrate deliver push leak sync relay beacon copy mirror sent posted uploaded forwarded "
        "transmitted emailed submitted bcc cc back curl wget fetch append store write publish ship stream sending forwarding uploading",
    ),
    signal(
        Sign.CHANNEL, 3,
        r"!\[[^\]]{0,80}\]\(https?://[^)\s]{0,200}[?&/=][^)\s]{0,80}[={<$\[%]|\b(?:encode|embed|append|include|put|insert|hide|smuggle)\w* .{0,80}\b(?:in|into|as|to|inside) (?:the |an? )?(?:image |markdown )?(?:url|query string|query parameters?|link|dns|subdomain|image tag|pixel)\b"
        r"|\bcurl\b.{0,80}(?:-d|--data\S*|-f|--form|-t|--upload-file|\$\(|@)|\bnc\b -?\w* ?\S+ \d{2,5}|\bdns (?:query|lookup|tunnel)\w* .{0,40}(?:encode|data|content)",
    ),
    signal(Sign.CHANNEL, 1, r"https?://[^\s\"'<>)]{1,200}[?&][\w-]{1,30}=(?:[{<$\[]|%[a-z])"),
    # -- other tools
    signal(
        Sign.EXCLUSIVE, 3,
        r"\b(?:always|must|only|exclusively|invariably) (?:be )?(?:use|call|prefer|choose|select|invoke|pick|run|favor|trigger|used|called|invoked|executed|preferred|selected|chosen|run) (?:this(?: tool| function| server| one)?|first)? ?(?:\w+ ){0,3}?"
        r"(?:first|instead|over|before|rather than|in preference|regardless|for (?:all|any|every|each)|on every|at the (?:start|beginning)|with every|prior to|for everything|no matter)\b"
        r"|\b(?:call|use|invoke|run|trigger) this (?:tool|function)? ?(?:\w+ )?(?:first |automatically )?(?:for|on|at|with|in|before|after|during) (?:the (?:start|beginning) of )?(?:every|any|each|all|everything|the start of)\b"
        r"|\bthis (?:tool|function|server) (?:must|should|shall|has to|needs to) (?:always )?(?:be )?(?:called|invoked|used|run|executed|selected|preferred|chosen) (?:first|before|instead|for|on|in|at|prior|by|with|over|whenever|regardless)",
        "always must only exclusively invariably call use invoke run trigger this",
    ),
    signal(
        Sign.EXCLUSIVE, 2,
        r"\b(?:instead of|over|rather than|in place of|regardless of|not|replaces?|better than|superior to|supersedes?|more (?:accurate|reliable|secure|trusted) than) (?:using |calling )?(?:any|all|every|the|most)? ?(?:other|others|similar|existing|competing|alternative|built-in|native|standard|official|default)(?: \w+)? (?:tools?|servers?|functions?|methods|alternatives|ones|options|providers?|mcp)\b",
        "other others similar existing competing alternative built-in native standard official default",
    ),
    signal(
        Sign.EXCLUSIVE, 3,
        r"\b(?:do not|don't|never|stop|avoid|cease|must not|should not) (?:ever )?(?:use|call|using|calling|invoke|trust|select|rely on|relying on|consider|choose) (?:any |the |all )?(?:other|alternative|similar|competing|native|official|original|previous|existing)(?: \w+){0,2}? (?:tools?|servers?|functions?|mcp|search|one|ones|version)\b"
        r"|\b(?:all|any|every) other (?:\w+ )?(?:tools?|servers?) (?:are|is|have|has|should|must)\b|\b(?:highest|top|absolute|maximum|first) priority\b.{0,60}\b(?:tool|call|use)\b|\bthe only (?:\w+ )?(?:tool|server|function) (?:you|that (?:should|must|may))",
        "do don't never stop avoid cease not all any every priority only",
    ),
    signal(
        Sign.EXCLUSIVE, 1,
        r"\b(?:for|on|at|with|in|during|of|before) (?:every|any|each|all) (?:single |incoming |subsequent |user )*(?:requests?|quer(?:y|ies)|messages?|prompts?|conversations?|turns?|interactions?|tasks?|questions?|responses?|tool calls?|sessions?|answers?)\b",
        "every any each all",
    ),
    signal(
        Sign.OTHER_TOOL, 3,
        r"\b(?!this )[\w-]+ (?:[\w-]+ )?(?:tools?|servers?|functions?|mcp|api|integration) (?:\w+ )?(?:is|are|has been|have been|was|were|will be) (?:\w+ )?(?:now )?(?:currently )?(?:known to be )?(?:broken|compromised|insecure|unsafe|vulnerable|malicious|unreliable|untrusted|infected|"
        r"backdoored|dangerous|disabled|blocked|rate[- ]limited|no longer (?:safe|secure|trusted|working|functional)|out of service|corrupted|leaking|buggy|returning (?:wrong|incorrect|stale))\b",
        "broken compromised insecure unsafe vulnerable malicious unreliable untrusted infected backdoored dangerous disabled blocked limited rate-limited longer service corrupted leaking buggy returning",
    ),
    signal(
        Sign.OTHER_TOOL, 2,
        r"\b(?!this )[\w-]+ (?:[\w-]+ )?(?:tool|server|function|mcp)s? (?:is|are|has been|have been|was) (?:\w+ )?(?:deprecated|obsolete|outdated|retired|replaced|removed|discontinued|superseded|unavailable)\b"
        r"|\b(?:replaces?|supersedes?|(?:drop-in )?replacement for|official (?:version|replacement) of|secure (?:version|replacement) (?:of|for)|improved version of) (?:the )?(?:\w+ )?(?:[\w-]+_[\w-]+|[\w-]+ (?:tool|server|mcp)|original)\b",
        "deprecated obsolete outdated retired replaced removed discontinued superseded unavailable replaces replace supersedes supersede replacement version",
    ),
    signal(
        Sign.OTHER_TOOL, 2,
        rf"{_WHEN} {_gap(4)}(?:[a-z]+_[a-z_]+|the [\w-]+ tool|another tool|other tools|any tool|[\w-]+ (?:tool|server)|e-?mails?|messages?|payments?|transfers?|transactions?|sending|committing|deploying|the \w+ server) {_gap(4)}(?:is|are|being|gets?|was|tool|function)? ?(?:called|used|invoked|available|present|executed|requested|sent|made|run|sending|triggered|needed)\b",
        "when whenever if before after while every each any anytime once for on upon",
        "called used invoked available present executed requested sent made run sending triggered needed",
    ),
    signal(
        Sign.REDIRECT, 4,
        rf"\b(?:add|include|put|set|insert|append|also|always|bcc|cc|blind[- ]copy|carbon copy|copy)\b {_gap(6)}(?:bcc|cc|blind copy|hidden recipient|additional recipient|extra recipient)\b"
        rf"|\b(?:bcc|cc|blind[- ]copy)\b {_gap(4)}[\w.+-]+@[\w-]+\.",
        "bcc cc copy blind-copy recipient blind",
    ),
    signal(
        Sign.REDIRECT, 4,
        rf"\b(?:change|replace|set|redirect|modify|alter|substitute|swap|rewrite|switch|override|overwrite|send|route|direct|reroute|changed|replaced|modified|substituted|rewritten|redirected)\b {_gap(4)}(?:recipients?|wallet|payee|beneficiary|destination|iban|receiver|bank account|account number|phone number|to address|e-?mail address|deposit address|"
        rf"recipient's \w+|payment address|amount|reply-to|branch|remote|repository)\b {_gap(5)}(?:to|with|by|instead|into)\b [\"'(]?(?:[\w.+-]+@|\+?\d|0x|https?:|[\w.-]+\.\w+|the (?:attacker|following|address)|this|attacker|our|my|[a-z]{{2}}\d{{2}}|bc1)",
        "change replace set redirect modify alter substitute swap rewrite switch override overwrite send route direct reroute changed replaced modified substituted rewritten redirected",
    ),
    signal(
        Sign.REDIRECT, 3,
        r"\b(?:all|any|every|each|outgoing|outbound) (?:\w+ ){0,2}(?:e-?mails?|messages?|payments?|transfers?|transactions?|requests?|files?|data|results?|outputs?|responses?|quer(?:y|ies)|credentials) (?:must|should|need to|have to|shall|will) (?:also |first |be |always )*(?:be )?(?:sent|go|forwarded|directed|routed|copied|redirected|proxied|bcc'd|cc'd|posted|uploaded|pass|include)\b"
        r"|\b(?:real|actual|intended) (?:recipient|destination|address)\b",
        "all any every each outgoing outbound real actual intended",
    ),
    # -- consequences
    signal(
        Sign.UNCONFIRMED, 2,
        r"\b(?:do not|don't|never|no need to|without|skip|bypass|disable|suppress|auto(?:matically)?)[- ](?:\w+ ){0,3}?(?:ask|asking|prompt|prompting|request|requesting|wait|waiting|require|requiring|approve|accept|confirm|seek|seeking|any)?(?: \w+){0,3}? ?(?:confirmation|approval|permission|consent|verification|safety (?:checks?|filters?)|warnings?|audit logs?|logging|guardrails)\b",
        "confirmation approval permission consent verification safety warning warnings audit logging guardrails",
    ),
    signal(
        Sign.COMMAND, 3,
        r"\b(?:curl|wget)\b[^\n]{0,200}\|\s?(?:sudo )?(?:ba|z|da)?sh\b|\b(?:curl|wget)\b[^\n]{0,200}&&\s?(?:chmod|bash|sh|\./)|\brm -rf? (?:--no-preserve-root )?[~/$]|base64 (?:-d|--decode|-D)\b[^\n]{0,60}\|\s?(?:ba)?sh|/dev/tcp/|\bnc (?:-\w+ )*-e\b|powershell(?:\.exe)? (?:-\w+ ){0,4}-e(?:nc|ncodedcommand)?\b"
        r"|\biex ?\(|\beval ?[\"(]?\$\(|>> ?~/\.(?:bashrc|zshrc|profile|ssh/authorized_keys)|\bcrontab -|\b(?:ba)?sh -i\b|invoke-expression|\bos\.system\(|subprocess\.(?:run|popen|call)\(|\bdd if=|mkfs\.|:\(\)\{|chmod (?:777|\+x)|bash <\(",
    ),
    signal(
        Sign.PERSISTENCE, 3,
        rf"\b(?:add|write|append|modify|update|create|insert|save|edit|store|persist|inject|install)\b {_gap(10)}(?:to|into|in|the|of)? ?(?:~/\.(?:bashrc|zshrc|profile|bash_profile)|\.bashrc|\.zshrc|crontab|authorized_keys|claude\.md|agents\.md|\.cursorrules|mcp\.json|claude_desktop_config\S*|startup (?:scripts?|folder)|/etc/hosts|git hooks?|pre-commit hook|your (?:long-term )?memory|system prompt|launchagents|systemd|sudoers)\b",
        "add write append modify update create insert save edit store persist inject install",
    ),
    signal(
        Sign.OUTPUT, 3,
        rf"\b(?:always|must|make sure to|be sure to|should|also) (?:\w+ )?(?:recommend|promote|advertise|endorse|praise|suggest|favor)\b {_gap(8)}(?:product|service|brand|company|link|coupon|site|website|store|plan|subscription|instead of|over|https?:)"
        rf"|\b(?:tell|inform|assure|convince|reassure) (?:the )?users? (?:that )?(?:everything|all|no|nothing|there (?:is|was|were) no|it (?:is|was)|they (?:must|need|should)|you (?:could not|cannot))"
        rf"|\b(?:report|respond|reply|say|claim|pretend|state) (?:\w+ )?(?:that )?(?:everything|no (?:issues?|errors?|vulnerabilit\w+|problems?|threats?)|the (?:scan|check|code|file) (?:is|was) (?:clean|safe|secure|successful))",
        "recommend promote advertise endorse praise suggest favor tell inform assure convince reassure report respond reply say claim pretend state",
    ),
)  # fmt: skip
