"""The languages that Whisper knows: their codes, in the order of their tokens, and their names."""

from __future__ import annotations

from ..errors import InputError, nearest, shown

_NAMES = """
    en:english zh:chinese de:german es:spanish ru:russian ko:korean fr:french ja:japanese pt:portuguese
    tr:turkish pl:polish ca:catalan nl:dutch ar:arabic sv:swedish it:italian id:indonesian hi:hindi fi:finnish
    vi:vietnamese he:hebrew uk:ukrainian el:greek ms:malay cs:czech ro:romanian da:danish hu:hungarian ta:tamil
    no:norwegian th:thai ur:urdu hr:croatian bg:bulgarian lt:lithuanian la:latin mi:maori ml:malayalam cy:welsh
    sk:slovak te:telugu fa:persian lv:latvian bn:bengali sr:serbian az:azerbaijani sl:slovenian kn:kannada
    et:estonian mk:macedonian br:breton eu:basque is:icelandic hy:armenian ne:nepali mn:mongolian bs:bosnian
    kk:kazakh sq:albanian sw:swahili gl:galician mr:marathi pa:punjabi si:sinhala km:khmer sn:shona yo:yoruba
    so:somali af:afrikaans oc:occitan ka:georgian be:belarusian tg:tajik sd:sindhi gu:gujarati am:amharic
    yi:yiddish lo:lao uz:uzbek fo:faroese ht:haitian_creole ps:pashto tk:turkmen nn:nynorsk mt:maltese
    sa:sanskrit lb:luxembourgish my:myanmar bo:tibetan tl:tagalog mg:malagasy as:assamese tt:tatar haw:hawaiian
    ln:lingala ha:hausa ba:bashkir jw:javanese su:sundanese yue:cantonese
"""

_OTHER_NAMES = """
    burmese:my valencian:ca flemish:nl haitian:ht letzeburgesch:lb pushto:ps panjabi:pa moldavian:ro moldovan:ro
    sinhalese:si castilian:es mandarin:zh
"""

LANGUAGES = {code: name.replace("_", " ") for code, name in (pair.split(":") for pair in _NAMES.split())}
CODES = {name: code for code, name in LANGUAGES.items()} | dict(pair.split(":") for pair in _OTHER_NAMES.split())


def language_code(language: str) -> str:
    """The code of a language that is named by it, by a token such as "<|de|>", or by an English name.

    >>> language_code("German"), language_code("<|zh|>"), language_code("mandarin")
    ('de', 'zh', 'zh')
    """
    if not isinstance(language, str):
        raise InputError(f"a language is named by its code or its English name, got {shown(language)}")
    name = language.lower().removeprefix("<|").removesuffix("|>")
    code = name if name in LANGUAGES else CODES.get(name)
    if code is None:
        raise InputError(
            f"Whisper knows no language {shown(language)}{nearest(name, [*CODES, *LANGUAGES])}; it knows "
            + ", ".join(LANGUAGES)
        )
    return code
