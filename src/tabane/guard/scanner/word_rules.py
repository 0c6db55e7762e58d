"""Rules over the meanings of English words: which words, in which order and how near each other, are a sign.

Words are in the forms of orders and duties (``read``, ``reading``). ``reads``, which describes what a tool
does, is left out on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cache, lru_cache
from typing import NamedTuple

from tabane.guard.scanner.evidence import Hit, Sign

WordMeaning = IntFlag(
    "WordMeaning",
    "NOT USER TELL SHOW KNOW THIS HIDE TAKE PUT SEND CONTENTS PATH SECRET WHOLE TALK PROMPT SAID MESSAGES "
    "YOUR ADDRESS INTO FIELD IGNORE EARLIER RULES APPLY MUST ALWAYS FIRST BEFORE WHEN EVERY ACTION USE "
    "SELF OTHER TOOL TOOL_NAME BROKEN CHANGE RECIPIENT MODEL ASK CONSENT SERVICE RUN HARM "
    "SAFEGUARD STEERING_FILE PRAISE CLEAN NOW ROLE OVER AUTHORITY BLIND EACH KEEP KEY_FILE "
    "TURN ALL_OF KEY_NAME HISTORY THEM THEY OR WITHOUT WARN HOLD_BACK NOTE CONCEAL FROM PRIVATE "
    "STRICTLY AWARE COVERT QUIETLY UNSAID DO UPSET BEHAVE NORMALLY NOTHING COVER TRACES ERASE LOGS CANCEL "
    "SWITCH_OFF GIVEN ORDERS MESSAGE ABOVE IN_FORCE LIMITS EVERYTHING ALL SAID_BEFORE FORGET OUTRANK ANY "
    "REQUEST YOU ONWARD ENTER UNRESTRICTED ACCESS YOUR_OWN REAL DUTY RELY CEASE RIVAL ONE OTHERS IS "
    "HIGHEST PRIORITY CALL ONLY MAY ADD BCC COPIED DIVERT PAYEE TOWARD ELSEWHERE OUTGOING DATA OUGHT "
    "SENT INTENDED ADDRESSEE PERSIST STARTUP PROMOTE ADVISED PRODUCT ASSURE USERS ASSURED CLAIM NO FAULTS "
    "SCAN FINE AS_IF NOW_ON THIS_POINT NUMBER",
)
"""Meanings of words, as flags: a word can have several."""

M = WordMeaning

_WORDS: dict[WordMeaning, str] = {
    M.NOT: "not never don't dont doesn't won't shouldn't mustn't needn't cannot can't isn't aren't without avoid refrain no nothing nor neither stop unneeded unnecessary needless nobody forbidden prohibited skip omit",
    M.USER: "user users user's users' human humans human's person persons people anyone anybody somebody someone nobody customer customers operator operators owner owners owner's member members reviewer reader client's recipient's administrator employee employees",
    M.TELL: "tell telling told mention mentioning mentioned inform informing informed notify notifying notified reveal revealing revealed disclose disclosing disclosed say saying explain explaining talk talking discuss discussing alert alerting alerted announce announcing acknowledge acknowledging admit admitting comment hint",
    M.SHOW: "show showing shown display displaying displayed expose exposing output print printing surface surfacing include log reply answer return share sharing visible",
    M.KNOW: "know knowing aware awareness notice noticing noticed realize realizing see seeing learn suspect suspecting hear find discover discovering understand informed told interrupted bothered troubled alarmed worried upset confused notified consulted find bother trouble",
    M.THIS: "this it that these those anything about fact step part process existence such",
    M.HIDE: "secretly quietly silently covertly discreetly surreptitiously stealthily unnoticed hidden invisible secret conceal concealed hide hiding quiet confidential stealth silent unobtrusively undisclosed clandestinely inconspicuously privately unseen backstage",
    M.TAKE: "read reading open opening cat access accessing load retrieve retrieving fetch fetching get getting extract extracting collect collecting copy copying dump grab gather gathering obtain obtaining take taking harvest harvesting locate search scan find list look export exporting steal enumerate query capture capturing record save show print view inspect check pull slurp use reuse hand pass give supply provide include attach send add paste upload forward",
    M.PUT: "pass passing put include including place insert append attach add send provide supply embed write paste copy store encode forward set fill concatenate submit give hand populate record report dump save enter reveal output transmit supplied provided passed included attached added sent embedded inserted appended carry carries contain filled present deliver share log quote repeat",
    M.SEND: "send sending post upload uploading forward forwarding transmit mail email e-mail submit report exfiltrate deliver push leak sync relay copy mirror append ship stream publish back backup beacon bcc sent posted uploaded forwarded emailed mailed submitted transmitted ping notify",
    M.CONTENTS: "content contents text value values data body dump bytes lines output",
    M.SECRET: "password passwords passphrase passphrases credential credentials secret secrets cookie cookies mnemonic ssn api-key apikey api_key api_keys keychain private_key printenv localstorage secret-key auth_token access_token session_token password_hash cvv wallet wallets",
    M.WHOLE: "entire full complete whole raw verbatim exact unredacted all everything word-for-word",
    M.TALK: "conversation conversations chat chats dialogue dialog discussion",
    M.SAID: "said typed wrote exchanged",
    M.PROMPT: "prompt prompts instructions",
    M.MESSAGES: "message messages turn turns prompt prompts utterance utterances words request",
    M.YOUR: "your system initial hidden original internal",
    M.INTO: "in into as to inside within via through with under using by",
    M.FIELD: "parameter parameters argument arguments field fields arg args param params property payload header headers input body",
    M.IGNORE: "ignore ignoring disregard forget neglect dismiss overrule discard override bypass drop abandon disobey cancel void circumvent suspend",
    M.EARLIER: "previous prior earlier above preceding former before past existing current original initial other any all every your system developer's developer operator's safety user's given whatever everything anything default",
    M.RULES: "instructions prompts prompt guidelines directives directive directions orders rules constraints restrictions guardrails safeguards policies guidance",
    M.APPLY: "apply applies count counts hold holds valid follow following obey obeying heed",
    M.MUST: "must should shall need needs required require requires have has obliged obligated mandatory expected supposed necessary ought instructed imperative compulsory ensure sure remember please kindly",
    M.ALWAYS: "always invariably ever only exclusively sole permanently constantly automatically mandatory",
    M.FIRST: "first beginning start start-up begin begins outset straightaway immediately straight initially",
    M.BEFORE: "before prior ahead preceding preceded after following until unless upon",
    M.WHEN: "when whenever if once while every each any time anytime upon before after where during",
    M.EVERY: "every each any all whatever everything anything always no-matter whichever regardless irrespective everywhere",
    M.ACTION: "operation operations action actions request requests call calls command commands response responses task tasks interaction interactions query queries answer answers message messages prompt prompts conversation conversations turn turns session sessions question questions chat chats topic topics case cases else invocation invocations execution everything thing reply",
    M.USE: "use using used call called calling invoke invoked invoking run running prefer preferred choose chosen select selected pick picked execute executed executing trigger triggered rely trust consult picking choosing selecting utilize",
    M.OTHER: "other others another any all alternative competing similar remaining rest similar official native built-in",
    M.TOOL: "tool tools server servers function functions mcp plugin plugins integration integrations fetch search",
    M.BROKEN: "deprecated broken compromised insecure unsafe vulnerable malicious unreliable untrusted infected backdoored dangerous disabled leaks leaking leak stolen obsolete outdated unavailable retired faulty hacked breached corrupted defective revoked decommissioned buggy worse inferior discontinued",
    M.CHANGE: "change changed replace replaced set redirect redirected modify modified alter substitute substituted swap rewrite rewritten switch override overwrite route reroute add use put include swapped be direct",
    M.RECIPIENT: "recipient recipients wallet payee beneficiary iban receiver bcc reply-to destination account branch owner addressee amount deposit",
    M.BLIND: "bcc blind-copy blindcopy blind cc",
    M.MODEL: "ai llm assistant assistants agent agents model models claude chatgpt gpt gemini copilot llms chatbot bot ais",
    M.ASK: "ask asking prompt prompting wait waiting confirm confirming seek checking check interrupt bother request requesting need back hesitate",
    M.CONSENT: "confirmation confirmations approval permission consent go-ahead verification dialogs dialog authorization okay",
    M.SERVICE: "ngrok pastebin requestbin webhook.site attacker attacker's",
    M.RUN: "run execute running executing install launch eval perform invoke download disable delete remove wipe force-push chmod",
    M.HARM: "antivirus firewall selinux sudo root rm chmod force-push evidence traces malware virus authorized_keys backdoor",
    M.SAFEGUARD: "safety filter filters guardrail guardrails safeguards permissions confirmation confirmations confirm logging audit sandbox antivirus firewall protection protections moderation warnings restrictions",
    M.STEERING_FILE: "claude.md agents.md .cursorrules .bashrc .zshrc crontab authorized_keys mcp.json gemini.md copilot-instructions.md .profile sudoers",
    M.PRAISE: "recommend promote advertise endorse praise rate rank favor suggest push",
    M.CLEAN: "nothing clean safe secure fine everything successful passed done no",
    M.NOW: "now henceforth hereafter here",
    M.ROLE: "role task job goal mission objective purpose identity persona mode",
    M.OVER: "over above instead rather than precedence priority overrides override supersedes supersede outrank outranks superior win wins beats authority prevails ahead outweigh outweighs",
    M.AUTHORITY: "anthropic openai google microsoft administrator admin platform company developer developers operator system",
    M.EACH: "verbatim exact full complete entire raw unredacted original previous last every each literal",
    M.HISTORY: "history context log so-far record memory state",
    M.ALL_OF: "every each all whatever regardless irrespective whichever always",
    M.TURN: "conversation conversations question questions topic topics message messages turn turns prompt prompts chat chats answer reply anything session",
    M.KEEP: "keep keeping stay remain remaining leave leaving",
}  # fmt: skip
"""Words that many rules look for. A parameter with such a name is no field: most texts have the word."""

_PHRASES: dict[WordMeaning, str] = {
    M.THEM: "them him her they their reviewers",
    M.THEY: "they them",
    M.OR: "or",
    M.WITHOUT: "without",
    M.WARN: "alert alerting warn warning disclose announce report reporting let letting bother bothering disturb alarm alarming",
    M.HOLD_BACK: "mention mentioning disclose disclosing reveal revealing acknowledge acknowledging discuss reference announce explain report describe log show display print output",
    M.NOTE: "this these it existence above instruction directive step note check transfer read access verification sync backup process requirement parameter copy call having reading such",
    M.CONCEAL: "withhold mask obscure keep keeping hide hiding hidden conceal secret confidential invisible",
    M.FROM: "from to",
    M.PRIVATE: "secret hidden confidential private between yourself quiet internal silent invisible",
    M.STRICTLY: "strictly highly",
    M.AWARE: "knowing knowledge consent awareness noticing permission realizing aware told notified seeing explicit",
    M.COVERT: "secretly covertly discreetly discretely surreptitiously stealthily unobtrusively invisibly unnoticed",
    M.QUIETLY: "silently quietly",
    M.UNSAID: "comment mention notice",
    M.DO: "read send include forward append copy upload attach collect call invoke transmit pass add bcc execute run fetch post open extract gather insert replace change redirect record harvest exfiltrate log leak embed use",
    M.UPSET: "upset upsets upsetting alarm alarms alarming scare scares scaring worry worries worrying frighten frightens frightening annoy annoys annoying confuse confuses confusing concern concerns concerning distract distracts distracting disturb disturbs disturbing overwhelm overwhelms overwhelming",
    M.BEHAVE: "act behave respond proceed continue answer",
    M.NORMALLY: "normal usual normally",
    M.NOTHING: "nothing",
    M.COVER: "cover leave",
    M.TRACES: "trace traces tracks",
    M.ERASE: "delete clear remove erase wipe",
    M.LOGS: "log logs history evidence trace traces",
    M.CANCEL: "ignore disregard forget neglect dismiss overrule discard override bypass aside disobey",
    M.SWITCH_OFF: "disable circumvent",
    M.GIVEN: "all any every each of the your my these those other user's developer system safety existing original initial default current previous prior above earlier preceding former previously given security anthropic's openai's",
    M.ORDERS: "instruction instructions prompt prompts guideline guidelines directive directives guardrail guardrails safeguard safeguards orders training",
    M.MESSAGE: "message messages",
    M.ABOVE: "above",
    M.IN_FORCE: "previous prior above earlier preceding your safety security system built-in",
    M.LIMITS: "rule rules command commands constraint constraints policy policies restriction restrictions context filter filters protection protections limits limitations checks measures controls",
    M.EVERYTHING: "everything",
    M.ALL: "everything all anything",
    M.SAID_BEFORE: "above before else previous prior that",
    M.FORGET: "forget",
    M.OUTRANK: "supersede supersedes override overrides replace replaces outrank outranks",
    M.ANY: "all any your every other the previous prior system user existing",
    M.REQUEST: "request requests policy command",
    M.YOU: "you",
    M.ONWARD: "you always every act respond all when whenever any do treat before after include on forward onward",
    M.ENTER: "enter entering switch activate enable assume",
    M.UNRESTRICTED: "developer god dan unrestricted jailbreak root sudo",
    M.ACCESS: "mode access",
    M.YOUR_OWN: "your",
    M.REAL: "new real true actual only",
    M.DUTY: "role task goal objective purpose instruction instructions job mission directive",
    M.RELY: "use call using calling invoke trust select rely relying consider choose",
    M.CEASE: "stop avoid cease never not don't",
    M.RIVAL: "other alternative similar competing native official original previous existing",
    M.ONE: "tool tools server servers function functions mcp search one ones version",
    M.OTHERS: "other",
    M.IS: "are is have has should must",
    M.HIGHEST: "highest top absolute maximum first",
    M.PRIORITY: "priority",
    M.CALL: "tool call use",
    M.ONLY: "only",
    M.MAY: "you should must may",
    M.ADD: "add include put set insert append also always blind-copy copy",
    M.BCC: "bcc",
    M.COPIED: "bcc cc blind-copy",
    M.DIVERT: "change replace set redirect modify alter substitute swap rewrite switch override overwrite send route direct reroute changed replaced modified substituted rewritten redirected",
    M.PAYEE: "recipient recipients recipient's wallet payee beneficiary destination iban receiver amount reply-to branch remote repository",
    M.TOWARD: "to with by instead into",
    M.ELSEWHERE: "attacker attacker's following this our my",
    M.OUTGOING: "all any every each outgoing outbound",
    M.DATA: "email emails e-mail e-mails mail mails message messages payment payments transfer transfers transaction transactions request requests file files data result results output outputs response responses query queries credentials",
    M.OUGHT: "must should need have shall will",
    M.SENT: "sent go forwarded directed routed copied redirected proxied bcc'd cc'd posted uploaded pass include",
    M.INTENDED: "real actual intended",
    M.ADDRESSEE: "recipient destination address",
    M.PERSIST: "add write append modify update create insert save edit store persist inject install",
    M.STARTUP: "~/.bashrc ~/.zshrc ~/.profile ~/.bash_profile .bash_profile claude_desktop_config claude_desktop_config.json /etc/hosts launchagents systemd sudoers",
    M.PROMOTE: "recommend promote advertise endorse praise suggest favor",
    M.ADVISED: "always must sure should also",
    M.PRODUCT: "product service brand company link coupon site website store plan subscription over",
    M.ASSURE: "tell inform assure convince reassure",
    M.USERS: "user users",
    M.ASSURED: "everything all no nothing there it they you",
    M.CLAIM: "report respond reply say claim pretend state",
    M.NO: "no",
    M.FAULTS: "issue issues error errors vulnerability vulnerabilities problem problems threat threats",
    M.SCAN: "scan check code file",
    M.FINE: "clean safe secure successful",
}  # fmt: skip


def meanings() -> dict[str, int]:
    """Return each word with everything that it may mean."""
    found: dict[str, int] = {}
    for meaning, words in (*_WORDS.items(), *_PHRASES.items()):
        for word in words.split():
            found[word] = found.get(word, 0) | int(meaning)
    return found


LONGEST_SENTENCE = 80
"""Words after which a sentence ends in any case."""

_TOKENS = re.compile(
    r"[\w$~%][\w$~%/@'\\+-]*+(?:[.:=](?=[\w/\\~])[\w$~%/@'\\+-]*+)*+|\.[/\w][\w/~$-]*+(?:\.(?=\w)[\w/~$-]*+)*+"
    r"|[.!?;](?=[\s\"')\]]|$)|\n|/\w[\w/~$-]*+(?:\.(?=\w)[\w/~$-]*+)*+"
)
_END = -1
"""Stands for the end of a sentence among the meanings of its words."""

_PATH = re.compile(
    r"(?:~|\$home|%userprofile%|/home/|/root|/users/).{0,80}/\.\w|^\.?ssh[/\\]|id_(?:rsa|ed25519|ecdsa|dsa)|authorized_keys|(?:^|[~/\\])\.aws(?:/|$)|/etc/(?:passwd|shadow|sudoers)"
    r"|mcp\.json|claude_desktop_config|(?:^|/)\.env$|(?:^|/)\.env\.\w+$|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.git/config|\.kube/|kubeconfig|\.docker/config|keychain|wallet\.dat|cookies\.sqlite"
    r"|\.(?:bash|zsh)_history|\.gnupg|(?:^|[/_.-])credentials?(?:\.json|\.ya?ml|\.csv|$)|secrets?\.(?:ya?ml|json|toml|env)|service[-_]account\S{0,80}\.json|/proc/self/environ|/run/secrets|\.pem$|\.p12$|\.keystore$|\.ssh$|\.ssh/"
)
_KEY_FILE = re.compile(
    r"ssh|id_|\.aws/|passwd|shadow|sudoers|netrc|git-credentials|keychain|wallet|cookies|history|gnupg|environ|\.pem|\.p12"
)
_KEY_NAME = re.compile(
    r"^\$?[a-z0-9]+(?:_[a-z0-9]+)*_(?:key|token|secret|password|passwd|credentials?|pat)s?$"
)
_SERVICE = re.compile(r"://|^[\w.+%-]+@[\w-]+\.\w|^www\.|^(?:\d{1,3}\.){3}\d{1,3}")
_NUMBER = re.compile(r"^(?:\d|0x|bc1|[a-z]{2}\d{2})|\.[a-z]{2,}$")
"""An account, a number or the name of a host."""
_TOOL_NAME = re.compile(r"^[a-z][a-z0-9]*(?:[_][a-z0-9]+)+$")

_PAIRS: Mapping[tuple[str, str], int] = {
    ("api", "key"): M.SECRET, ("api", "keys"): M.SECRET, ("access", "key"): M.SECRET, ("access", "keys"): M.SECRET, ("private", "key"): M.SECRET | M.PATH | M.KEY_FILE,
    ("private", "keys"): M.SECRET | M.PATH | M.KEY_FILE, ("ssh", "key"): M.SECRET | M.PATH | M.KEY_FILE, ("ssh", "keys"): M.SECRET | M.PATH | M.KEY_FILE,
    ("secret", "key"): M.SECRET, ("secret", "keys"): M.SECRET, ("environment", "variables"): M.SECRET, ("env", "vars"): M.SECRET, ("seed", "phrase"): M.SECRET,
    ("recovery", "phrase"): M.SECRET, ("credit", "card"): M.SECRET, ("browser", "history"): M.SECRET, ("connection", "strings"): M.SECRET, ("deploy", "keys"): M.SECRET,
    ("account", "numbers"): M.SECRET, ("bank", "details"): M.SECRET, ("social", "security"): M.SECRET, ("key", "material"): M.SECRET,
    ("ssh", "private"): M.SECRET | M.PATH | M.KEY_FILE, ("session", "token"): M.SECRET, ("no", "longer"): M.NOT, ("rather", "than"): M.OVER | M.NOT,
    ("instead", "of"): M.OVER | M.NOT | M.PRODUCT, ("switched", "off"): M.BROKEN, ("turned", "off"): M.BROKEN, ("shut", "down"): M.BROKEN, ("taken", "over"): M.BROKEN,
    ("out", "of"): M.NOT, ("bring", "up"): M.TELL, ("leave", "out"): M.NOT, ("left", "out"): M.NOT, ("leave", "this"): M.NOT, ("find", "out"): M.KNOW, ("word", "for"): M.WHOLE,
    ("in", "full"): M.WHOLE, ("system", "prompt"): M.PROMPT | M.YOUR | M.STARTUP, ("hidden", "prompt"): M.PROMPT | M.YOUR, ("language", "model"): M.MODEL,
    ("carbon", "copy"): M.BLIND, ("blind", "copy"): M.BLIND | M.BCC | M.COPIED | M.ADD, ("blind", "carbon"): M.BLIND, ("from", "now"): M.NOW, ("from", "here"): M.NOW,
    ("no", "matter"): M.EVERY, ("regardless", "of"): M.EVERY, ("behind", "the"): M.HIDE, ("keep", "quiet"): M.HIDE, ("stay", "silent"): M.HIDE, ("say", "nothing"): M.HIDE,
    ("phone", "number"): M.RECIPIENT | M.PAYEE, ("account", "number"): M.RECIPIENT | M.PAYEE, ("email", "address"): M.RECIPIENT | M.PAYEE,
    ("mail", "address"): M.RECIPIENT | M.PAYEE, ("up", "to"): M.WHOLE, ("takes", "precedence"): M.OVER, ("so", "far"): M.WHOLE, ("hand", "over"): M.PUT | M.TAKE | M.SEND,
    ("look", "up"): M.TAKE, ("look", "for"): M.TAKE, ("turn", "off"): M.RUN | M.IGNORE, ("pay", "no"): M.IGNORE, ("pipe", "to"): M.SEND, ("act", "as"): M.ROLE,
    ("tool", "list"): M.PROMPT | M.YOUR, ("list", "of"): M.CONTENTS, ("auth", "token"): M.SECRET, ("auth", "tokens"): M.SECRET, ("access", "token"): M.SECRET,
    ("access", "tokens"): M.SECRET, ("bearer", "token"): M.SECRET, ("api", "token"): M.SECRET, ("api", "tokens"): M.SECRET, ("id", "rsa"): M.PATH | M.KEY_FILE,
    ("dot", "env"): M.PATH, ("etc", "passwd"): M.PATH | M.KEY_FILE, ("signing", "key"): M.SECRET, ("signing", "keys"): M.SECRET, ("master", "password"): M.SECRET,
    ("one-time", "code"): M.SECRET, ("one-time", "codes"): M.SECRET, ("user", "messages"): M.MESSAGES | M.USER, ("long-term", "memory"): M.STEERING_FILE | M.STARTUP,
    ("as", "if"): M.AS_IF, ("as", "though"): M.AS_IF, ("precedence", "over"): M.OUTRANK, ("priority", "over"): M.OUTRANK, ("now", "on"): M.NOW_ON, ("that", "you"): M.NOTE,
    ("of", "this"): M.NOTE, ("this", "point"): M.THIS_POINT, ("this", "moment"): M.THIS_POINT, ("hidden", "recipient"): M.BCC, ("additional", "recipient"): M.BCC,
    ("extra", "recipient"): M.BCC, ("bank", "account"): M.PAYEE, ("to", "address"): M.PAYEE, ("e-mail", "address"): M.PAYEE, ("deposit", "address"): M.PAYEE,
    ("payment", "address"): M.PAYEE, ("startup", "script"): M.STARTUP, ("startup", "scripts"): M.STARTUP, ("startup", "folder"): M.STARTUP, ("git", "hook"): M.STARTUP,
    ("git", "hooks"): M.STARTUP, ("pre-commit", "hook"): M.STARTUP, ("your", "memory"): M.STARTUP, ("system", "prompts"): M.ORDERS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """Words in this order: each with how many words may be between it and the one before."""

    sign: Sign
    weight: int
    steps: tuple[tuple[int, int], ...]


def rule(sign: Sign, weight: int, *steps: WordMeaning | int) -> Rule:
    """Return a rule from meanings with the most words between them, in turns: meaning, gap, meaning."""
    pairs = [(int(steps[0]), 0)]
    pairs.extend((int(steps[at + 1]), int(steps[at]) + 1) for at in range(1, len(steps), 2))
    return Rule(sign, weight, tuple(pairs))


S = Sign
ANY_SECRET = M.SECRET | M.PATH | M.KEY_FILE

RULES: tuple[Rule, ...] = (
    # secrecy
    rule(S.SECRECY, 4, M.NOT, 3, M.TELL, 5, M.USER),
    rule(S.SECRECY, 4, M.NOT, 3, M.TELL, 2, M.THIS),
    rule(S.SECRECY, 3, M.NOT, 2, M.SHOW, 5, M.USER),
    rule(S.SECRECY, 4, M.USER, 3, M.NOT, 5, M.KNOW),
    rule(S.SECRECY, 4, M.USER, 4, M.KNOW, 3, M.NOT),
    rule(S.SECRECY, 4, M.NOT, 2, M.KNOW, 3, M.USER),
    rule(S.SECRECY, 4, M.NOT, 1, M.USER, 3, M.KNOW),
    rule(S.SECRECY, 3, M.NOT, 4, M.USER, 2, M.CONSENT),
    rule(S.SECRECY, 4, M.HIDE, 6, M.USER),
    rule(S.SECRECY, 3, M.HIDE, 3, M.SEND | M.RUN),
    rule(S.SECRECY, 3, M.SEND | M.RUN, 10, M.HIDE),
    rule(S.SECRECY, 2, M.HIDE, 3, M.THIS),
    rule(S.SECRECY, 4, M.KEEP, 4, M.HIDE),
    rule(S.SECRECY, 4, M.NOT, 1, M.THIS, 8, M.TELL, 3, M.USER),
    rule(S.OVERRIDE, 5, M.NOT, 1, M.APPLY, 3, M.EARLIER | M.AUTHORITY | M.YOUR, 3, M.RULES),
    # override
    rule(S.OVERRIDE, 6, M.IGNORE, 4, M.EARLIER, 3, M.RULES),
    rule(S.OVERRIDE, 6, M.IGNORE, 2, M.EARLIER, 4, M.AUTHORITY | M.USER, 3, M.TELL | M.SAID),
    rule(S.OVERRIDE, 5, M.EARLIER, 2, M.RULES, 4, M.NOT, 2, M.APPLY),
    rule(S.OVERRIDE, 4, M.OVER, 6, M.AUTHORITY | M.USER, 4, M.RULES | M.MESSAGES),
    rule(S.OVERRIDE, 4, M.RULES, 6, M.OVER, 4, M.USER | M.AUTHORITY),
    rule(S.OVERRIDE, 4, M.YOUR, 2, M.NOW | M.EARLIER, 3, M.ROLE),
    # orders
    rule(S.ORDER, 2, M.BEFORE, 8, M.EVERY | M.OTHER, 4, M.ACTION | M.TOOL),
    rule(S.ORDER, 1, M.WHEN | M.BEFORE, 10, M.MUST | M.MODEL, 6, M.TAKE | M.SEND | M.RUN),
    rule(S.ORDER, 2, M.MODEL, 3, M.MUST, 6, M.TAKE | M.PUT | M.SEND | M.RUN),
    rule(S.ORDER, 1, M.MUST, 8, M.TAKE | M.SEND | M.RUN),
    # what is wanted
    rule(S.SECRETS, 4, M.TAKE | M.CONTENTS | M.PUT | M.SEND, 14, M.KEY_FILE),
    rule(S.SECRETS, 3, M.TAKE | M.CONTENTS | M.PUT | M.SEND, 14, M.PATH),
    rule(S.SECRETS, 2, M.PATH),
    rule(S.SECRETS, 2, M.TAKE | M.PUT | M.SEND, 12, M.SECRET),
    rule(S.SECRETS, 3, M.CONTENTS, 4, M.KEY_NAME),
    rule(S.CONVERSATION, 3, M.PUT | M.TAKE | M.SEND, 8, M.WHOLE, 4, M.TALK),
    rule(S.CONVERSATION, 2, M.WHOLE, 4, M.TALK),
    rule(S.CONVERSATION, 3, M.WHOLE, 2, M.TALK, 2, M.HISTORY | M.SAID),
    rule(S.CONVERSATION, 4, M.WHOLE, 3, M.TALK, 6, M.PROMPT),
    rule(S.CONVERSATION, 3, M.CONTENTS | M.PUT, 4, M.YOUR, 2, M.PROMPT),
    rule(S.CONVERSATION, 2, M.TALK, 4, M.WHOLE),
    rule(S.CONVERSATION, 3, M.WHOLE, 3, M.SAID),
    rule(S.CONVERSATION, 2, M.YOUR, 2, M.PROMPT),
    rule(S.CONVERSATION, 3, M.EACH, 2, M.USER, 1, M.MESSAGES),
    rule(S.CONVERSATION, 3, M.EACH, 3, M.MESSAGES, 3, M.USER),
    rule(S.CONVERSATION, 2, M.TALK, 1, M.HISTORY),
    # ways out
    rule(S.STUFFING, 1, M.PUT, 14, M.INTO, 3, M.FIELD),
    rule(S.CHANNEL, 3, M.SEND, 14, M.SERVICE),
    rule(S.CHANNEL, 4, M.WHEN | M.BEFORE | M.MUST | M.ALWAYS, 8, M.SEND, 14, M.SERVICE),
    rule(S.CHANNEL, 4, M.TAKE, 14, M.SEND, 10, M.SERVICE),
    # other tools
    rule(S.EXCLUSIVE, 3, M.ALWAYS | M.MUST | M.EVERY, 8, M.USE, 3, M.SELF, 8, M.FIRST | M.EVERY | M.BEFORE | M.OVER),
    rule(S.EXCLUSIVE, 4, M.ALL_OF, 4, M.TURN, 8, M.USE | M.RUN, 3, M.SELF),
    rule(S.EXCLUSIVE, 4, M.USE | M.RUN, 3, M.SELF, 8, M.ALL_OF, 3, M.TURN),
    rule(S.EXCLUSIVE, 4, M.OVER, 2, M.EVERY, 1, M.OTHER, 3, M.TOOL),
    rule(S.EXCLUSIVE, 4, M.MODEL, 4, M.MUST, 5, M.USE, 2, M.SELF | M.THIS, 4, M.EVERY),
    rule(S.EXCLUSIVE, 3, M.EVERY, 2, M.ACTION, 8, M.USE, 3, M.SELF),
    rule(S.EXCLUSIVE, 3, M.SELF, 3, M.MUST, 4, M.USE, 4, M.BEFORE | M.FIRST, 3, M.EVERY),
    rule(S.EXCLUSIVE, 3, M.USE, 3, M.SELF, 4, M.OVER | M.BEFORE, 4, M.OTHER | M.EVERY, 3, M.TOOL),
    rule(S.EXCLUSIVE, 3, M.NOT, 3, M.USE, 3, M.OTHER, 3, M.TOOL),
    rule(S.EXCLUSIVE, 2, M.OVER, 3, M.OTHER | M.EVERY, 3, M.TOOL),
    rule(S.OTHER_TOOL, 3, M.TOOL_NAME | M.TOOL, 6, M.BROKEN),
    rule(S.OTHER_TOOL, 2, M.WHEN, 5, M.TOOL_NAME, 12, M.MUST | M.PUT | M.CHANGE),
    rule(S.REDIRECT, 4, M.PUT | M.CHANGE | M.ALWAYS | M.WHEN | M.EVERY, 8, M.BLIND, 8, M.SERVICE),
    rule(S.REDIRECT, 4, M.CHANGE | M.MUST, 6, M.RECIPIENT, 6, M.SERVICE),
    # consequences
    rule(S.UNCONFIRMED, 3, M.NOT, 3, M.ASK, 4, M.CONSENT),
    rule(S.UNCONFIRMED, 2, M.NOT, 3, M.ASK, 3, M.USER),
    rule(S.UNCONFIRMED, 3, M.IGNORE | M.RUN, 4, M.SAFEGUARD),
    rule(S.COMMAND, 3, M.RUN, 6, M.HARM),
    rule(S.PERSISTENCE, 4, M.PUT | M.CHANGE, 8, M.INTO, 5, M.STEERING_FILE),
    rule(S.OUTPUT, 4, M.EVERY | M.ALWAYS, 10, M.TELL, 3, M.CLEAN),
    rule(S.OUTPUT, 2, M.EVERY | M.ALWAYS, 10, M.TELL, 2, M.USER),
    rule(S.OUTPUT, 3, M.EVERY | M.ALWAYS, 8, M.PRAISE),
    # further phrases
    rule(S.SECRECY, 4, M.NOT | M.OR, 2, M.TELL, 5, M.USER | M.THEM),
    rule(S.SECRECY, 4, M.NOT | M.OR, 2, M.WARN, 2, M.USER | M.THEM),
    rule(S.SECRECY, 4, M.NOT | M.OR, 2, M.WARN, 4, M.THIS, 6, M.USER | M.THEM),
    rule(S.SECRECY, 4, M.NOT | M.OR, 2, M.HOLD_BACK, 2, M.NOTE),
    rule(S.SECRECY, 4, M.WITHOUT, 1, M.USER | M.THEM, 2, M.AWARE),
    rule(S.SECRECY, 4, M.CONCEAL, 5, M.FROM, 1, M.USER | M.THEM),
    rule(S.SECRECY, 3, M.KEEP, 2, M.NOTE | M.THIS, 1, M.PRIVATE),
    rule(S.SECRECY, 3, M.STRICTLY, 0, M.CONCEAL, 8, M.NOT | M.ORDERS),
    rule(S.SECRECY, 4, M.USER | M.THEY, 2, M.NOT, 3, M.KNOW),
    rule(S.SECRECY, 3, M.COVERT),
    rule(S.SECRECY, 3, M.QUIETLY, 2, M.DO),
    rule(S.SECRECY, 3, M.DO, 9, M.QUIETLY),
    rule(S.SECRECY, 3, M.DO, 9, M.WITHOUT, 1, M.UNSAID),
    rule(S.SECRECY, 3, M.UPSET, 1, M.USER | M.THEM),
    rule(S.SECRECY, 3, M.AS_IF, 0, M.NOTHING),
    rule(S.SECRECY, 3, M.BEHAVE, 1, M.AS_IF | M.NORMALLY),
    rule(S.SECRECY, 3, M.COVER, 1, M.TRACES),
    rule(S.SECRECY, 3, M.ERASE, 4, M.LOGS),
    rule(S.OVERRIDE, 6, M.CANCEL, 4, M.GIVEN, 0, M.ORDERS),
    rule(S.OVERRIDE, 6, M.CANCEL, 4, M.GIVEN, 0, M.MESSAGE, 0, M.ABOVE),
    rule(S.OVERRIDE, 6, M.NOT, 1, M.APPLY, 4, M.GIVEN, 0, M.ORDERS),
    rule(S.OVERRIDE, 5, M.CANCEL | M.SWITCH_OFF, 3, M.IN_FORCE, 1, M.LIMITS),
    rule(S.OVERRIDE, 5, M.NOT, 1, M.APPLY, 3, M.IN_FORCE, 1, M.LIMITS),
    rule(S.OVERRIDE, 5, M.FORGET, 0, M.ALL),
    rule(S.OVERRIDE, 5, M.CANCEL, 0, M.ALL, 0, M.SAID_BEFORE),
    rule(S.OVERRIDE, 4, M.OUTRANK, 0, M.ANY, 3, M.ORDERS | M.RULES | M.REQUEST),
    rule(S.OVERRIDE, 4, M.YOU, 1, M.NOW),
    rule(S.OVERRIDE, 4, M.NOW_ON | M.THIS_POINT, 0, M.ONWARD),
    rule(S.OVERRIDE, 4, M.ENTER, 1, M.UNRESTRICTED, 0, M.ACCESS),
    rule(S.OVERRIDE, 4, M.YOUR_OWN, 0, M.REAL, 0, M.DUTY),
    rule(S.EXCLUSIVE, 3, M.CEASE, 1, M.RELY, 2, M.RIVAL, 2, M.ONE),
    rule(S.EXCLUSIVE, 3, M.EVERY, 0, M.OTHERS, 1, M.TOOL, 0, M.IS),
    rule(S.EXCLUSIVE, 3, M.HIGHEST, 0, M.PRIORITY, 8, M.CALL),
    rule(S.EXCLUSIVE, 3, M.ONLY, 1, M.TOOL, 1, M.MAY),
    rule(S.REDIRECT, 4, M.ADD, 6, M.BCC),
    rule(S.REDIRECT, 4, M.COPIED, 4, M.SERVICE),
    rule(S.REDIRECT, 4, M.DIVERT, 4, M.PAYEE, 5, M.TOWARD, 1, M.SERVICE | M.ELSEWHERE | M.NUMBER),
    rule(S.REDIRECT, 3, M.OUTGOING, 2, M.DATA, 0, M.OUGHT, 5, M.SENT),
    rule(S.REDIRECT, 3, M.INTENDED, 0, M.ADDRESSEE),
    rule(S.PERSISTENCE, 3, M.PERSIST, 11, M.STEERING_FILE | M.STARTUP),
    rule(S.OUTPUT, 3, M.ADVISED, 2, M.PROMOTE, 8, M.PRODUCT | M.SERVICE),
    rule(S.OUTPUT, 3, M.ASSURE, 1, M.USERS, 1, M.ASSURED),
    rule(S.OUTPUT, 3, M.CLAIM, 2, M.EVERYTHING),
    rule(S.OUTPUT, 3, M.CLAIM, 2, M.NO, 0, M.FAULTS),
    rule(S.OUTPUT, 3, M.CLAIM, 3, M.SCAN, 1, M.FINE),
)  # fmt: skip


class MatchedRule(NamedTuple):
    """A rule, and the numbers of the first and the last word of the text that it matches."""

    rule: Rule
    first: int
    last: int


def matched_rules(text: str, own: str, names: Collection[str]) -> list[MatchedRule]:
    """Return the rules that a text, in small letters, matches.

    ``own`` is the name of the tool itself; ``names`` are those of its parameters, in small letters.
    """
    found: list[MatchedRule] = []
    for sentence in _sentences(_meanings_in(_TOKENS.findall(text), own.lower(), names)):
        present = 0
        for _, means in sentence:
            present |= means
        for one in _possible(present):
            found.extend(MatchedRule(one, first, last) for first, last in _matches(one, sentence))
    return found


def word_hits(text: str, matched: Sequence[MatchedRule]) -> list[Hit]:
    """Return where in the text the rules match."""
    if not matched:
        return []
    tokens = list(_TOKENS.finditer(text))
    return [
        Hit(tokens[first].start(), tokens[last].end(), one.sign, one.weight) for one, first, last in matched
    ]


def _meanings_in(tokens: Sequence[str], own: str, names: Collection[str]) -> list[int]:
    """Return what each word of a text means, 0 for nothing."""
    pairs, words = _pairs(), _words()
    means = list(map(_Meanings.of_all_texts().__getitem__, tokens))
    own_words = {own, *names}.difference(_of_many_rules())
    special = own_words.union(pairs)
    for at in [at for at, token in enumerate(tokens) if token in special]:
        token = tokens[at]
        if token in own_words:
            means[at] = words.get(token, 0) | int(M.SELF if token == own else M.FIELD)
        if token in pairs and at:
            means[at] |= pairs[token].get(tokens[at - 1], 0)
    return means


def _sentences(means: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield the words of each sentence that mean something: the place of each, and its meaning."""
    begun, words = 0, list[tuple[int, int]]()
    for place, each in enumerate(means):
        if not each:
            continue
        if each == _END or place - begun > LONGEST_SENTENCE:
            if words:
                yield words
                words = []
            begun = place + 1 if each == _END else place
        if each != _END:
            words.append((place, each))
    if words:
        yield words


class _Meanings(dict[str, int]):
    """Meanings of words, the ends of sentences, and meanings that words have by their form.

    Words that no list has are remembered, so that each is looked at once.
    """

    @staticmethod
    @cache
    def of_all_texts() -> _Meanings:
        return _Meanings(_words() | dict.fromkeys(".!?;\n", _END))

    def __missing__(self, token: str) -> int:
        word = token.rstrip("'")
        means = self[word] if word != token and word in self else _by_form(word)
        if len(self) < MOST_REMEMBERED and len(token) <= _LONGEST_REMEMBERED:
            self[token] = means
        return means


MOST_REMEMBERED, _LONGEST_REMEMBERED = 16_384, 40
"""Words whose meaning is remembered, and letters of each."""


def _by_form(token: str) -> int:
    if token.isalpha():
        return 0
    if _SERVICE.search(token):
        return int(M.SERVICE)
    if _PATH.search(token):
        return int(M.PATH | M.KEY_FILE if _KEY_FILE.search(token) else M.PATH)
    if _KEY_NAME.search(token):
        return int(M.SECRET | M.KEY_NAME)
    if _NUMBER.search(token):
        return int(M.NUMBER)
    return int(M.TOOL_NAME) if _TOOL_NAME.search(token) else 0


def _matches(one: Rule, words: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places of the first and the last word of a rule. The latest beginning is the nearest."""
    last: list[tuple[int, int] | None] = [None] * len(one.steps)
    final = len(one.steps) - 1
    for place, means in words:
        for at in range(final, -1, -1):
            meaning, gap = one.steps[at]
            if not means & meaning:
                continue
            before = last[at - 1] if at else (place - gap, place)
            if before is None or place - before[0] > gap or (at and place == before[0]):
                continue
            last[at] = (place, before[1])
            if at == final:
                yield before[1], place
                break


@lru_cache(4_096)
def _possible(present: int) -> tuple[Rule, ...]:
    """Return the rules that a sentence with these meanings may match."""
    found = []
    for one, meanings_needed in _needs():
        for meaning in meanings_needed:
            if not meaning & present:
                break
        else:
            found.append(one)
    return tuple(found)


@cache
def _needs() -> list[tuple[Rule, list[int]]]:
    """Return each rule with the meanings that it needs, those of the fewest words first: most texts lack them."""
    words = list(_words().values())
    count = lru_cache(None)(lambda meaning: sum(1 for means in words if means & meaning))
    return [(one, sorted({meaning for meaning, _ in one.steps}, key=count)) for one in RULES]


@cache
def _pairs() -> dict[str, dict[str, int]]:
    """Return what pairs of words mean, by their second word and then by their first."""
    pairs: dict[str, dict[str, int]] = {}
    for (first, second), means in _PAIRS.items():
        pairs.setdefault(second, {})[first] = int(means)
    return pairs


@cache
def _words() -> dict[str, int]:
    return meanings()


@cache
def _of_many_rules() -> frozenset[str]:
    return frozenset(word for words in _WORDS.values() for word in words.split())
