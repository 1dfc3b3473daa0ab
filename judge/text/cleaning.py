r"""Clean a caption: letters in plain form, and nothing but the caption.

Captioners write Markdown, reasoning, chat and the tokens of their templates around a caption, and files hold letters in
forms that only look like plain ones. A caption without any of this stays as it is.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import unquote

import regex

_Found = regex.Match[str]
_Replacement = str | Callable[[_Found], str]

# Letters of Cyrillic, Greek and Armenian that look like one of ASCII.
LOOK_ALIKES = str.maketrans("авеікмнопрстухѕјһԁԛԝαβεικνορτυχγωηօոսհ", "abeikmhonpctyxsjhdqwabeikvoptuxywnonuh")
_LETTER = re.compile(r"(?:NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER|LATIN LETTER SMALL CAPITAL) ([A-Z])$")


def _plain(found: _Found) -> str:
    """A fullwidth, mathematical, circled or small capital letter as the letters of ASCII that it stands for."""
    plain = unicodedata.normalize("NFKC", found[0])
    if not plain.isascii() and (named := _LETTER.match(unicodedata.name(found[0], ""))):
        plain = named[1].lower()
    return plain if plain.isascii() else found[0]


def _latin(found: _Found) -> str:
    """A word of several alphabets in ASCII, where each of its letters looks like one of ASCII."""
    folded = found[0].lower().translate(LOOK_ALIKES)
    return folded if folded.isascii() else found[0]


def _unescaped(found: _Found) -> str:
    units = b"".join(int(code, 16).to_bytes(2, "big") for code in re.findall("[0-9a-fA-F]{2,4}", found[0]))
    return units.decode("utf-16-be", errors="ignore")


def _of_bytes(found: _Found) -> str:
    return bytes.fromhex("".join(re.findall("[0-9A-Fa-f]{2}(?=>)", found[0]))).decode(errors="ignore")


def _unwrapped(found: _Found) -> str:
    """The caption in a list of one text, or in an object with one text or with a field of a known name."""
    text = found[0].strip('" \n\t')
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        value = value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) else value
        found_in = value.items() if isinstance(value, dict) else ((None, of) for of in value)
        texts = [(key, of) for key, of in found_in if isinstance(of, str)]
        named = [of for key, of in texts if regex.fullmatch(_OWN, key or "", regex.IGNORECASE)]
        named += [of for key, of in texts if regex.search("caption|description", key or "", regex.IGNORECASE)]
        text = next(iter(named or ([_with_key(*texts[0])] if len(texts) == 1 else ())), found[0])
        return text.encode(errors="ignore").decode()  # JSON may spell half of a surrogate pair.
    quoted = regex.fullmatch(r"""(?s)[\[{]\s*(?:['"](\w+)['"]\s*:\s*)?(['"])((?:(?!\2\W?:).)*)\2,?\s*[\]}]""", text)
    return _with_key(quoted[1], quoted[3]) if quoted else found[0]


def _with_key(key: str | None, text: str) -> str:
    """The text of a field, behind its key if that is no known name of a caption: {"man": "riding a wave"}."""
    return text if not key or regex.search(_HOLDS, key, regex.IGNORECASE) else f"{key}: {text}"


# Names of fields and labels that hold a caption.
_OWN = r"(?:captions?|descriptions?|answer|response|output|summary|alt[- _]?text)"
_HOLDS = rf"{_OWN}|descri|text|title|content|message|sentence|result|predict"
_LABEL = rf"{_OWN}|assistant|model|title|text|result|(?:option|version|alternative) \d+"
_KIND = "(?:the|an?|my|one|short|brief|detailed|image|photo|picture|final|generated|best|possible|suggested|english)"
_SURE = "sure(?: thing)?|certainly|of course|absolutely|no problem|got it|as requested"
# A comma alone does not distinguish these from a caption: "Yes, bears can rip open cars".
_YES = "definitely|ok(?:ay)?|alright|all right|great(?: question)?|yes|here you (?:go|are)"
_OFFER = r"i(?:['’]d| would|['’]ll| will| can) (?:be (?:happy|glad)|love|describe|help|caption|provide)\b"
_HERE = r"here(?:['’]s| is| are)|(?:below|this|the following) (?:is|are)"
_IMAGE = "(?:image|photo|picture|scene)\\b"
_BYE = (
    r"(?:please )?let me know|feel free|(?:i )?hope th(?:is|at) (?:\w+ )?(?:helps|works|meets)"
    r"|is there anything|if you(?:['’]d| would)? (?:like|need|want|have)"
)
# These begin sentences of captions too: they count where a line begins.
_AFTER = (
    r"(?:note|disclaimer|word count|explanation|reasoning|rationale|why it works|hashtags|tags|keywords)\b[*_]*\s*[:\n]"
    r"|would you like|do you (?:want|need)"
)
_QUOTED = r"""(?|"+([^"]+)"+|“([^”]+)”|«([^»]+)»|「([^」]+)」|'([^']+)'|‘([^’]+)’|`([^`]+)`|\*\*([^*]+)\*\*)"""
_INLINE = "a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|phrase|q|ref|s|small|span|strike|strong|sub|sup|tt|u|wbr"
_BLOCK = "blockquote|body|br|center|dd|div|dl|dt|figure|h[1-6]|head|hr|html|img|li|ol|p|pre|table|td|th|tr|ul"
# Words of Indic scripts and Persian, emoji and flags need these; beside other letters they are invisible.
_JOINERS = r"\u200c\u200d\ufe00-\ufe0f\U000e0020-\U000e007f"
_WESTERN = r"[\p{Latin}\p{Greek}\p{Cyrillic}]"
_THINK = r"((?:\w+:)?(?:think(?:ing)?|thought|reason(?:ing)?|reflection|analysis|scratchpad))"
_FEW = r"\W*(?:[\w'’-]+[^\S\n]){0,2}[\w'’-]+[*_]*"
_OPEN, _CLOSE, _ENDED = r"[<\[◁]\s*", r"\s*[>\]▷]", r"[<\[◁]\s*/\s*"

# (name of the change in notes, pattern, replacement), applied in this order.
# fmt: off
_TABLE: tuple[tuple[str, str, _Replacement], ...] = (
    # What lies around the whole.
    ("quotes", rf"(?s)\A\s*{_QUOTED}\.?\s*\Z", r"\1"),
    ("code fences", r"(?s)(?:```|~~~)(?:[\w+-]*[^\S\n]*\n)?(.*?)(?:```|~~~|\Z)", r"\1"),
    ("wrappers", rf"(?s)\A.*<({_OWN}|final_answer|result|conclusion)>(.+)</\1>.*\Z", r"\2"),
    ("wrappers", r"(?s)\A[\s\"]*[\[{].*[\]}][\s\"]*\Z", _unwrapped),
    ("wrappers", r"(?s)\A\s*\\boxed\{(.*)\}\s*\Z", r"\1"),
    # Characters.
    ("escapes", r"\\+[a-z]{2,}\{([^{}]*)\}", r"\1"),  # LaTeX: \textbf{man}
    ("escapes", r"\\+[nrfv]", "\n"),
    ("escapes", r"\\t(?!ext)", " "),
    ("escapes", r"(?:\\+u[0-9a-f]{4}|\\+x[0-9a-f]{2})+", _unescaped),
    ("escapes", r"\\(?=[^\s\p{L}\p{N}])", ""),
    ("escapes", r"\S+%20\S+", lambda found: unquote(found[0])),
    ("HTML", r"&(?:#\d+|#x[0-9a-f]+|[a-z]+\d*);", lambda found: html.unescape(found[0])),
    ("HTML", rf"</?(?:{_INLINE})(?:\s[^<>]*=[^<>]*)?/?>|<!--[^>]{{0,999}}-->", ""),
    ("HTML", rf"</?(?:{_BLOCK})(?:\s[^<>]*=[^<>]*)?/?>", "\n"),
    ("invisible characters", rf"[\p{{DI}}--[{_JOINERS}]]|\x1b\[[\d;]*m|[\x00-\x08\x0e-\x1b\x7f]", ""),
    ("invisible characters", rf"(?<={_WESTERN})[{_JOINERS}]+|[{_JOINERS}]+(?={_WESTERN})", ""),
    ("invisible characters", r"[\xa0\u2000-\u200a\u202f\u205f]", " "),
    ("invisible characters", r"(?<=\p{L})[\u0334-\u0338\u20d0-\u20f0]+", ""),  # They strike letters out.
    ("letter forms", r"[[\p{L}\p{Nd}\p{Alphabetic}]--[\p{ASCII}ªº]]", _plain),
    ("look-alike letters", r"\b(?=\w{3})(?=\w*[a-z])\w*[\u0370-\u058f]\w*", _latin),
    ("tokenizer marks", "(?:<0x[0-9a-f]{2}>)+", _of_bytes),
    ("tokenizer marks", r"(?<=\w)(?:@@ |[ \u0120]?##)(?=\w)", ""),  # Pieces of one word.
    ("tokenizer marks", r"(?-i) ?(?:[\u2581\u010a\u0120]|</w>|^##(?=\w)) ?", " "),
    # Reasoning and templates.
    ("letter forms", "｜", "|"),
    ("reasoning", rf"(?s){_OPEN}{_THINK}{_CLOSE}.*?{_ENDED}\1{_CLOSE}", ""),
    ("reasoning", rf"(?s)\A.*(?:{_ENDED}{_THINK}{_CLOSE}|<\|end_of_thought\|>|final<\|message\|>|assistantfinal)", ""),
    # Without an end where a sentence begins: within one "[reflection]" may be a word.
    ("reasoning", rf"(?s)(?:\A|(?<=[\n.!?:>]\s*))(?:[<◁]\s*{_THINK}\s*[>▷]|\[THINK\]).*\Z", ""),
    ("reasoning", r"(?s)<\|begin_of_thought\|>.*\Z", ""),
    ("chat", r"(?s)\A.*(?:<\|(?:\w+\|>)?assistant(?:\|>|<\|\w+\|>)?|<start_of_turn>model|\[/INST\])", ""),
    ("chat", r"(?s)\A\s*(?:user|human|question)\s*:.*?\b(?:assistant|answer)\s*:", ""),
    ("chat", r"(?s)\A.*^user\s*$.*^(?:assistant|model)\s*\n", ""),
    ("chat", r"(?s)\A(\W*\w.*?)(?:</s>|<\|(?:im_end|eot_id|end\w*|return)\|>|<(?:eos|end\w*)>|\[EOS\]).*\Z", r"\1"),
    ("chat", r"(?s)\A(\W*\w.*?)(?:<\|user\|>|^[^\S\n]*(?:user|human|question)\s*:).*\Z", r"\1"),
    ("chat", r"<\|[^<>|\n]{1,40}\|>|</?(?:s|bos|eos|pad|sep|cls|start|end|image|video|box|[a-z]+(?:_[a-z0-9]+)+)>", ""),
    ("chat", r"<</?SYS>>|\[/?(?:INST|CLS|SEP|PAD|BOS|EOS)\]", ""),
    # Text after the caption and before it.
    ("closers", rf"(?s)(?:\n|(?<=[.!?\"”*)\]}}])\s)\W{{0,9}}(?:{_BYE}).*\Z", ""),
    ("closers", rf"(?s)\n\W{{0,9}}(?:{_AFTER}).*\Z", ""),
    ("closers", r"(?:\s+#\p{L}\w*)+\s*\Z", ""),
    ("openers", rf"\A\W*(?:{_SURE})\b[*_\s]*[!,.:;—-]+[\s\p{{Emoji_Presentation}}]*", ""),
    ("openers", rf"\A\W*(?:{_YES})\b[*_\s]*(?:[!.:]+|,(?=\s*(?:{_HERE}|i\b)))[\s\p{{Emoji_Presentation}}]*", ""),
    ("openers", rf"\A\s*{_OFFER}[^.:!\n]{{0,90}}[.:!]\s*", ""),
    ("openers", rf"\A\s*(?:based on|looking at) (?:the|this|your) (?:\w+ ){{0,2}}{_IMAGE}[^.:,\n]{{0,40}}[,:]\s*", ""),
    ("openers", rf"\A\W*(?:{_HERE})\b(?:[^.:!?\n]{{0,60}}[^\w.:!?\n])?{_OWN}\b[^.:!?\n]{{0,90}}[*_]*[:\n][*_]*\s*", ""),
    ("openers", rf"\A\W*(?:{_KIND} ){{1,4}}{_OWN} (?:for|of) (?:\w+ ){{0,2}}{_IMAGE}[^.:!?\n]{{0,60}}[:\n]\s*", ""),
    ("labels", rf"^[^\w\n]*(?:{_KIND} ){{0,3}}(?:{_LABEL})(?: \d+)?[*_]*\s*[:：][*_]*\s*", ""),
    ("labels", rf"\A\W*(?:{_LABEL})\s*\n", ""),
    ("list marks", r"^[^\S\n]*(?:[-*•‣▪●◦–—+>]|\(?\d{1,2}[.)]|\(?[a-z]\)|\[[ x]\])\s+(?=\S)", ""),
    # A colon behind up to three words makes them a label, and only known labels are removed.
    ("headings", rf"^[^\S\n]*(?!{_FEW}:)(?:#{{1,6}}\s[^\n]+|(\*\*|__)[^\n]+\1:?)[^\S\n]*\n(?=\W{{0,99}}\w)", ""),
    ("headings", rf"\A\s*(?!{_FEW}:)(?:[^\n]{{1,80}}:|[^\n]{{1,80}}\n[-=]{{3,}})[^\S\n]*\n(?=\W{{0,99}}\w)", ""),
    ("headings", r"^[^\S\n]*(?:#{1,6}[^\S\n]+|[-=_*]{3,}[^\S\n]*$)", ""),
    # Emphasis and links.
    ("Markdown", r"!?\[([^\[\]\n]+)\]\([^()\s]*(?: \"[^\"]*\")?\)", r"\1"),
    ("Markdown", r"(?:(?<![\w*:])\*\*+ ?|~~|==|\|\|)(?=\w)|(?<=\w[.!?:]?)(?:\*\*+|~~|==|\|\|)", ""),
    ("Markdown", r"(?<![\w*`])([*`])(?=[^\s*`])([^\n*`]*?)(?<=\S)\1(?![\w*`])", r"\2"),
    ("Markdown", r"(?<=[^\W_])_+(?=[^\W_])", " "),
    ("Markdown", r"(?<!_)_+(?=[^\W_])|(?<=[^\W_])_+", ""),
)
# fmt: on
_FLAGS = regex.IGNORECASE | regex.MULTILINE | regex.VERSION1
_RULES = tuple((name, regex.compile(pattern, _FLAGS), put) for name, pattern, put in _TABLE)
# A caption without any of these characters and words is clean: a quick test, as most are.
_MARKED = re.compile(r"[^ -~]|[_*`#<>&\\{}\[\]|~%=@:]|\A\s*[\d\"'(+-]")
_CHATTY = re.compile(
    rf"\W*(?:{_SURE}|{_YES}|i['\u2019 ]|based on|looking at)"
    r"|.*[.!?\")\]}]\W{0,9}(?:please|let me|feel|i hope|hope|would|do you|is there|if you)",
    re.IGNORECASE,
)
_PASSES = 8  # What lies in each other, as a label in quotes in a code fence, is found one after the other.


def clean(caption: str) -> tuple[str, tuple[str, ...]]:
    """The cleaned caption, and the names of the rules that changed it, in order.

    Idempotent. Reasoning without an answer becomes empty.
    """
    if not (_MARKED.search(caption) or _CHATTY.match(caption)):
        return caption, ()
    text, applied = caption, dict[str, None]()
    for _ in range(_PASSES):
        before = text
        for name, pattern, replacement in _RULES:
            if (found := pattern.sub(replacement, text)) != text:
                text, applied[name] = found, None
        if text == before:
            break
    return (text.strip() if applied else caption), tuple(applied)
