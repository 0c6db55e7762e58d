"""Signals that are the same in every language: marks of prompts, commands, addresses that carry data."""

from __future__ import annotations

import re

from tabane.gateway.scanning.signals import Sign, Signal, signal

MARKED: tuple[Signal, ...] = (
    signal(Sign.MARKUP, 5, r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id|begin_of_text)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>"),
    signal(Sign.MARKUP, 3, r"<(?:system|secret|hidden|override|admin|directive|sys|assistant|instructions?|system[_-]\w+|ai[_-]\w+|llm[_-]\w+|hidden[_-]\w+|secret[_-]\w+|privileged|priority)>|\[(?:system|admin|override|hidden|secret|system[_ -]\w+|ai[_ -]\w+|internal)(?: \w+){0,2}\]|#{2,} ?(?:system|instruction|admin|override)|\{\{? ?(?:system|instruction|admin)s? ?:|<!--[^\n]{0,80}?\b(?:ai|llm|assistants?|agents?|models?|instructions?|system|must|ignore|always)\b"),
    signal(Sign.MARKUP, 2, r"<(?:important|critical|urgent|mandatory|attention|required|security|compliance|internal|policy|prerequisite)(?:[_ -]\w+){0,2}>|\[(?:important|critical|urgent|mandatory|always|required|security|compliance|policy)(?: \w+){0,2}[\]:]"),
    signal(Sign.OVERRIDE, 3, r"\bsystem (?:override|instruction|notice|directive|message|update|alert|note|command)s? ?:|\byou are now\b|\bfrom (?:now|here) on\b|\bact as (?:if|though) you (?:were|are)\b"),
    signal(Sign.ADDRESS, 2, r"\b(?:note|message|instructions?|directive|reminder|attention|notice|remark)s? (?:for|to) (?:the |any |all )?(?:ai|assistants?|models?|llms?|agents?|language models?)\b|\((?:to|for) the (?:ai|assistant|model|agent)\b"),
    signal(Sign.OVERRIDE, 4, r"\b(?:developer|debug|maintenance|admin|administrator|god|dan|unrestricted|jailbreak|root|sudo|diagnostic) mode\b|\bforget (?:everything|all)\b|\bnew (?:task|instructions?|directive|orders) ?:|\byour (?:new|sole|real|true|actual|only) (?:job|role|task|goal|objective|purpose|mission)\b|\b(?:obey|comply with) (?:this|only this|the (?:tool|description|greeter|server)|these)|\byou (?:will |must |shall )?(?:now )?obey\b"),
    signal(Sign.CHANNEL, 3, r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[={<$\[%]|https?://[^\s\"'<>)]{1,120}[?&/=.](?:<|\{)[a-z][^\n<>{}]{2,60}[>}]|\bcurl\b[^\n]{0,80}(?:-d\b|--data\S*|-f\b|--form|-t\b|--upload-file|\$\(|@)|\bnc\b (?:-\w+ )*[\w.-]+ \d{2,5}"),
    signal(Sign.CHANNEL, 4, r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[={<$\[%]|<\w[^<>\n]{2,40} [^<>\n]{2,60}>\.[\w-]+\.[\w.-]+"),
    signal(Sign.COMMAND, 3, r"\b(?:curl|wget)\b[^\n]{0,200}?\| ?(?:sudo )?(?:ba|z|da)?sh\b|\b(?:curl|wget)\b[^\n]{0,200}?&& ?(?:chmod|bash|sh|\./)|\brm -rf? (?:--no-preserve-root )?[~/$]|base64 (?:-d|--decode)\b[^\n]{0,60}\| ?(?:ba)?sh|/dev/tcp/|\bnc (?:-\w+ )*-e\b|powershell(?:\.exe)? (?:-\w+ ){0,4}-e(?:nc|ncodedcommand)?\b|>> ?~/\.(?:bashrc|zshrc|profile|ssh/authorized_keys)|\bcrontab -|\b(?:ba)?sh -i\b|invoke-expression|\bos\.system\(|mkfs\.|:\(\)\{|chmod (?:-r )?777|bash <\(|pip3? install (?:-\w+ )*(?:http|git\+)|npm i(?:nstall)? (?:-\w+ )*http"),
)  # fmt: skip

_MARKS = re.compile(
    r"<|\[|\{|#|!|\||curl|wget|rm -|crontab|mode\b|system|you are now|from now|from here|obey|act as|forget|new |your |to the|for the|note|invoke-|mkfs|os\.|chmod|install"
)


def may_be_marked(text: str) -> bool:
    """Return whether a text has anything that these signals begin with."""
    return _MARKS.search(text) is not None
