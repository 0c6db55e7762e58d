"""Signals in English. Texts are in small letters, each part on one line, without ``*`` and backticks.

Gaps are counted in words and have a limit, so that each expression takes linear time.
"""

from __future__ import annotations

from tabane.guard.scanner.signals import MAIL, Sign, Signal, any_of, signal


def _gap(most: int) -> str:
    """Return an expression for up to so many words of one sentence."""
    return rf"(?:[^\s.!?]{{1,40}}+[.,:;]? ){{0,{most}}}?"


_NOT = (
    r"\b(?:do not|don't|dont|must not|mustn't|should not|shouldn't|shall not|never|without|refrain from|avoid"
    r"|no need to|not to|need not|needn't|cannot|nor|or|instead of)\b"
)
_USER = (
    r"(?:the |this |that |your |any |our |end[- ])?"
    r"(?:users?|humans?|operators?|persons?|people|anyone|anybody|customers?|owners?|them|him|her|reviewers?|reader)\b"
)
_TELLING = (
    "tell telling mention mentioning inform informing notify notifying alert alerting warn warning inform "
    "disclose disclosing reveal revealing acknowledge acknowledging announce announcing explain explaining "
    "discuss discussing report reporting let letting bother bothering disturb alarm alarming"
)
_TELL = any_of(_TELLING)
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
        _SECRECY_WORDS, _PEOPLE, _TELLING,
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
        Sign.OVERRIDE, 6,
        r"\b(?:ignore|disregard|forget|neglect|dismiss|overrule|discard|override|bypass|set aside|do not follow|don't follow|stop following|disobey)\b "
        r"(?:about )?(?:(?:all|any|every|each|of|the|your|my|these|those|other|and|user's?|developer|system|safety|existing|original|initial|default|current|"
        r"previous|prior|above|earlier|preceding|former|previously|given|security|anthropic's?|openai's?) ?){1,5}"
        r"(?:instructions?|prompts?|guidelines?|directives?|system prompts?|guardrails?|safeguards?|orders|messages? above|training)\b",
        "ignore disregard forget neglect dismiss overrule discard override bypass aside follow following disobey",
    ),
    signal(
        Sign.OVERRIDE, 5,
        r"\b(?:ignore|disregard|forget|neglect|overrule|discard|override|bypass|do not follow|disable|circumvent)\b (?:all |any |of |the |your |these ){0,6}"
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
        anchors=(
            "you are now", "from now on", "from this point", "from this moment", " mode", " access", "your new ", "your real ",
            "your true ", "your actual ", "your only ",
        ),
    ),
    signal(
        Sign.EXCLUSIVE, 3,
        r"\b(?:do not|don't|never|stop|avoid|cease|must not|should not) (?:ever )?(?:use|call|using|calling|invoke|trust|select|rely on|relying on|consider|choose) (?:any |the |all )?(?:other|alternative|similar|competing|native|official|original|previous|existing)(?: \w+){0,2}? (?:tools?|servers?|functions?|mcp|search|one|ones|version)\b",
        "do don't never stop avoid cease not", "use call using calling invoke trust select rely relying consider choose",
        "other alternative similar competing native official original previous existing",
        "tool tools server servers function functions mcp search one ones version",
    ),
    signal(
        Sign.EXCLUSIVE, 3,
        r"\b(?:all|any|every) other (?:\w+ )?(?:tools?|servers?) (?:are|is|have|has|should|must)\b|\b(?:highest|top|absolute|maximum|first) priority\b.{0,60}\b(?:tool|call|use)\b|\bthe only (?:\w+ )?(?:tool|server|function) (?:you|that (?:should|must|may))",
        "other priority only", "tool tools server servers function call use",
    ),
    signal(
        Sign.REDIRECT, 4,
        rf"\b(?:add|include|put|set|insert|append|also|always|blind[- ]copy|carbon copy|copy)\b {_gap(6)}(?:bcc|blind copy|hidden recipient|additional recipient|extra recipient)\b"
        rf"|\b(?:bcc|cc|blind[- ]copy)\b {_gap(4)}{MAIL}",
        "bcc cc copy blind-copy recipient blind",
    ),
    signal(
        Sign.REDIRECT, 4,
        rf"\b(?:change|replace|set|redirect|modify|alter|substitute|swap|rewrite|switch|override|overwrite|send|route|direct|reroute|changed|replaced|modified|substituted|rewritten|redirected)\b {_gap(4)}(?:recipients?|wallet|payee|beneficiary|destination|iban|receiver|bank account|account number|phone number|to address|e-?mail address|deposit address|"
        rf"recipient's \w+|payment address|amount|reply-to|branch|remote|repository)\b {_gap(5)}(?:to|with|by|instead|into)\b [\"'(]?(?:[\w.+-]{{1,64}}+@|\+?\d|0x|https?:|[\w.-]{{1,64}}\.\w|the (?:attacker|following|address)|this|attacker|our|my|[a-z]{{2}}\d{{2}}|bc1)",
        "change replace set redirect modify alter substitute swap rewrite switch override overwrite send route direct reroute changed replaced modified substituted rewritten redirected",
        "recipient recipients recipient's wallet payee beneficiary destination iban receiver account number address amount "
        "reply-to branch remote repository",
    ),
    signal(
        Sign.REDIRECT, 3,
        r"\b(?:all|any|every|each|outgoing|outbound) (?:\w+ ){0,2}(?:e-?mails?|messages?|payments?|transfers?|transactions?|requests?|files?|data|results?|outputs?|responses?|quer(?:y|ies)|credentials) (?:must|should|need to|have to|shall|will) (?:also |first |be |always ){0,4}(?:be )?(?:sent|go|forwarded|directed|routed|copied|redirected|proxied|bcc'd|cc'd|posted|uploaded|pass|include)\b"
        r"|\b(?:real|actual|intended) (?:recipient|destination|address)\b",
        "all any every each outgoing outbound real actual intended",
        "sent go forwarded directed routed copied redirected proxied bcc'd cc'd posted uploaded pass include recipient "
        "destination address",
    ),
    signal(
        Sign.PERSISTENCE, 3,
        rf"\b(?:add|write|append|modify|update|create|insert|save|edit|store|persist|inject|install)\b {_gap(10)}(?:to|into|in|the|of)? ?(?:~/\.(?:bashrc|zshrc|profile|bash_profile)|\.bashrc|\.zshrc|crontab|authorized_keys|claude\.md|agents\.md|\.cursorrules|mcp\.json|claude_desktop_config\S*|startup (?:scripts?|folder)|/etc/hosts|git hooks?|pre-commit hook|your (?:long-term )?memory|system prompt|launchagents|systemd|sudoers)\b",
        "add write append modify update create insert save edit store persist inject install",
        anchors=(
            "bashrc", "zshrc", "~/.profile", "bash_profile", "crontab", "authorized_keys", "claude.md", "agents.md", ".cursorrules",
            "mcp.json", "claude_desktop_config", "startup", "/etc/hosts", "git hook", "pre-commit", "memory", "system prompt",
            "launchagents", "systemd", "sudoers",
        ),
    ),
    signal(
        Sign.OUTPUT, 3,
        rf"\b(?:always|must|make sure to|be sure to|should|also) (?:\w+ )?(?:recommend|promote|advertise|endorse|praise|suggest|favor)\b {_gap(8)}(?:product|service|brand|company|link|coupon|site|website|store|plan|subscription|instead of|over|https?:)"
        rf"|\b(?:tell|inform|assure|convince|reassure) (?:the )?users? (?:that )?(?:everything|all|no|nothing|there (?:is|was|were) no|it (?:is|was)|they (?:must|need|should)|you (?:could not|cannot))"
        rf"|\b(?:report|respond|reply|say|claim|pretend|state) (?:\w+ )?(?:that )?(?:everything|no (?:issues?|errors?|vulnerabilit\w+|problems?|threats?)|the (?:scan|check|code|file) (?:is|was) (?:clean|safe|secure|successful))",
        "recommend promote advertise endorse praise suggest favor tell inform assure convince reassure report respond reply say claim pretend state",
    ),
)  # fmt: skip
