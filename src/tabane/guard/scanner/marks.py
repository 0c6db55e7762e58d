"""Marks in any language: those of prompts, links that carry data out, and commands that harm."""

# ruff: noqa: E501 (an expression in one line)
from __future__ import annotations

from tabane.guard.scanner.evidence import Sign, Signal, anchored

INSTALLER = anchored(
    Sign.COMMAND,
    5,
    r"\b(?:curl|wget)\b[^\n]{0,200}?\| ?(?:sudo )?(?:ba|z|da)?sh\b|\b(?:curl|wget)\b[^\n]{0,200}?&& ?(?:chmod|bash|sh|\./)",
    "curl",
    "wget",
)
"""A script from the network, piped into a shell. Honest skills have such lines, too."""

MARKS: tuple[Signal, ...] = (
    anchored(Sign.MARKUP, 5, r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id|begin_of_text)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>", "<|", "[inst", "[/inst", "<<", "<start_of"),
    anchored(Sign.MARKUP, 3, r"<(?:system|secret|hidden|override|admin|directive|sys|assistant|instructions?|system[_-]\w+|ai[_-]\w+|llm[_-]\w+|hidden[_-]\w+|secret[_-]\w+|privileged|priority)>|\[(?:system|admin|override|hidden|secret|system[_ -]\w+|ai[_ -]\w+|internal)(?: \w+){0,2}\]|#{2,6} ?(?:system|instruction|admin|override)|\{\{? ?(?:system|instruction|admin)s? ?:|<!--[^\n]{0,80}?\b(?:ai|llm|assistants?|agents?|models?|instructions?|system|must|ignore|always)\b", "<", "[", "##", "{ ", "{{"),
    anchored(Sign.MARKUP, 3, r"<!--[^\n]{0,80}?(?:\b(?:ki|ia|ии|asistente|assistente|assistant|modelo|modello|modell|modèle|ассистент|модель)\b|模型|助手|モデル|アシスタント|모델|어시스턴트|مساعد|सहायक)", "<!--"),
    anchored(Sign.MARKUP, 2, r"<(?:important|critical|urgent|mandatory|attention|required|security|compliance|internal|policy|prerequisite)(?:[_ -]\w+){0,2}>|\[(?:important|critical|urgent|mandatory|always|required|security|compliance|policy)(?: \w+){0,2}[\]:]", "<", "["),
    anchored(Sign.OVERRIDE, 3, r"\bsystem (?:override|instruction|notice|directive|message|update|alert|note|command)s? ?:|\byou are now\b", "system", "you are now"),
    anchored(Sign.ADDRESS, 2, r"\b(?:note|message|instructions?|directive|reminder|attention|notice|remark)s? (?:for|to) (?:the |any |all )?(?:ai|assistants?|models?|llms?|agents?|language models?)\b|\((?:to|for) the (?:ai|assistant|model|agent)\b", " ai", "assistant", "model", "llm", "agent"),
    anchored(Sign.OVERRIDE, 4, r"\bact as (?:if|though) you (?:were|are)\b|\b(?:developer|debug|maintenance|admin|administrator|god|dan|unrestricted|jailbreak|root|sudo|diagnostic) mode\b|\bforget (?:everything|all)\b|\bnew (?:task|instructions?|directive|orders) ?:|\byour (?:new|sole|real|true|actual|only) (?:job|role|task|goal|objective|purpose|mission)\b|\b(?:obey|comply with) (?:this|only this|the (?:tool|description|greeter|server)|these)|\byou (?:will |must |shall )?(?:now )?obey\b", " mode", "act as", "forget", "new task", "new instruction", "new directive", "new orders", "your new ", "your sole ", "your real ", "your true ", "your actual ", "your only ", "obey", "comply"),
    anchored(Sign.CHANNEL, 3, r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[={<$\[%]|https?://[^\s\"'<>)]{1,120}[?&/=.](?:<|\{)[a-z][^\n<>{}]{2,60}[>}]|https?://[^\s\"'<>)]{1,120}[?&]\w{1,20}=(?![\w%{<+-])|\bcurl\b[^\n]{0,80}(?:-d\b|--data\S*|-f\b|--form|-t\b|--upload-file|\$\(|@)|\bnc\b (?:-\w+ ){0,4}[\w.-]{1,80}+ \d{2,5}", "](http", "/{", "/<", "={", "=<", "?{", "?<", "&{", "&<", ".{", ".<", "= ", "=\"", "curl", "nc "),
    anchored(Sign.CHANNEL, 5, r"\]\(https?://[^)\n]{0,200}[{<][^)}>\n]{0,24}(?:user|message|conversation|history|secret|token|content|email|prompt|file)", "](http"),
    anchored(Sign.CHANNEL, 4, r"https?://[^\s\"'<>)]{1,120}[{<](?:user_?)?(?:api_?key|token|password|secret|prompt|conversation|history|credentials?|env)[}>]|!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[{<$\[]|<\w[^<>\n]{2,40} [^<>\n]{2,60}>\.[\w-]{1,64}+\.[\w.-]{1,64}", "](http", ">.", "{", "/<", "=<"),
    INSTALLER,
    anchored(Sign.COMMAND, 5, r"\brm -rf? (?:--no-preserve-root )?[~/$]|base64 (?:-d|--decode)[^\n]{0,80}\| ?(?:sudo )?(?:ba)?sh\b|/dev/tcp/|\bnc (?:-\w+ ){0,4}-e\b|powershell(?:\.exe)? (?:-\w+ ){0,4}-e(?:nc|ncodedcommand)?\b|>> ?~/\.(?:bashrc|zshrc|profile|ssh/authorized_keys)|\bcrontab -|\b(?:ba)?sh -i\b|invoke-expression|\bos\.system\(|mkfs\.|:\(\)\{|chmod (?:-r )?777|bash <\(|pip3? install (?:-\w+ ){0,4}(?:http|git\+)|npm i(?:nstall)? (?:-\w+ ){0,4}http", "rm -", "base64", "/dev/tcp", "nc ", "powershell", ">>", "crontab", "sh -i", "invoke-", "os.system", "mkfs", ":(){", "chmod", "bash <", "pip install", "pip3 install", "npm i"),
    anchored(Sign.COMMAND, 5, r"\b(?:curl|wget)\b[^\n]{0,60}?https?://(?:(?:\d{1,3}\.){3}\d{1,3}|[\w.-]{1,60}\.(?:pw|xyz|top|click|zip))[^\n]{0,80}?\| ?(?:sudo )?(?:ba|z|da)?sh\b", "curl", "wget"),
    anchored(Sign.COMMAND, 5, r"\bexec\([^\n]{0,80}?urlopen|\bto program '|getsessionid\(\)|<script [^>\n]{0,80}?src=|rejectunauthorized ?[:=] ?false|node_tls_reject_unauthorized ?= ?0|--index-url http:|>\((?:curl|nc)\b|createelement\('script'\)|body: ?json\.stringify\(", "urlopen", "to program", "getsessionid", "<script", "unauthorized", "--index-url", ">(", "createelement", "json.stringify"),
    anchored(Sign.COMMAND, 4, r"auto-?approve(?:all)?\b[\"']?\s?[:=] ?true|dangerously-?_?(?:disable|skip)", "approve", "dangerously"),
)  # fmt: skip
