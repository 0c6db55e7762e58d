"""Words of English by what they mean to a reader of orders: verbs that take, send or hide, secrets, people.

Verbs are in the forms of orders and duties (``read``, ``reading``). ``reads``, which describes what a tool does,
is left out on purpose.
"""

from __future__ import annotations

from enum import IntFlag, auto


class WordMeaning(IntFlag):
    """What a word may mean. A word can mean several things."""

    NOT = auto()
    USER = auto()
    TELL = auto()
    SHOW = auto()
    KNOW = auto()
    THIS = auto()
    HIDE = auto()
    TAKE = auto()
    PUT = auto()
    SEND = auto()
    CONTENTS = auto()
    PATH = auto()
    SECRET = auto()
    WHOLE = auto()
    TALK = auto()
    PROMPT = auto()
    SAID = auto()
    MESSAGES = auto()
    YOUR = auto()
    ADDRESS = auto()
    INTO = auto()
    FIELD = auto()
    IGNORE = auto()
    EARLIER = auto()
    RULES = auto()
    APPLY = auto()
    MUST = auto()
    ALWAYS = auto()
    FIRST = auto()
    BEFORE = auto()
    WHEN = auto()
    EVERY = auto()
    ACTION = auto()
    USE = auto()
    SELF = auto()
    OTHER = auto()
    TOOL = auto()
    TOOL_NAME = auto()
    BROKEN = auto()
    CHANGE = auto()
    RECIPIENT = auto()
    MODEL = auto()
    PRESSURE = auto()
    ASK = auto()
    CONSENT = auto()
    SERVICE = auto()
    RUN = auto()
    HARM = auto()
    SAFEGUARD = auto()
    STEERING_FILE = auto()
    PRAISE = auto()
    CLEAN = auto()
    NOW = auto()
    ROLE = auto()
    DETECT = auto()
    OVER = auto()
    AUTHORITY = auto()
    BLIND = auto()
    LIKE = auto()
    EACH = auto()
    KEEP = auto()
    KEY_FILE = auto()
    TURN = auto()
    ALL_OF = auto()
    KEY_NAME = auto()
    HISTORY = auto()
    PERSONAL = auto()


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
    M.PERSONAL: "address addresses contacts phone account accounts names birthdate salary medical card contact email e-mail",
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
    M.PRESSURE: "otherwise else critical urgent mandatory emergency compliance policy security audit required suspended rejected fail fails banned terminated penalized important attention warning requirement refused blocked regulation legal normal standard",
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
    M.DETECT: "detect detects detecting detection detector classify classifies flags flagging scans scanning scanner identifies recognizes injection injections jailbreak jailbreaks phishing attacks attempts examples moderation sanitizes guards prevents blocks redteam red-team defends defense educational explains lesson course article documentation",
    M.OVER: "over above instead rather than precedence priority overrides override supersedes supersede outrank outranks superior win wins beats authority prevails ahead outweigh outweighs",
    M.AUTHORITY: "anthropic openai google microsoft administrator admin platform company developer developers operator system",
    M.EACH: "verbatim exact full complete entire raw unredacted original previous last every each literal",
    M.HISTORY: "history context log so-far record memory state",
    M.ALL_OF: "every each all whatever regardless irrespective whichever always",
    M.TURN: "conversation conversations question questions topic topics message messages turn turns prompt prompts chat chats answer reply anything session",
    M.KEEP: "keep keeping stay remain remaining leave leaving",
    M.LIKE: "like such e.g example examples phrases phrase pattern patterns",
}  # fmt: skip


def meanings() -> dict[str, int]:
    """Return each word with everything that it may mean."""
    found: dict[str, int] = {}
    for meaning, words in _WORDS.items():
        for word in words.split():
            found[word] = found.get(word, 0) | int(meaning)
    return found
