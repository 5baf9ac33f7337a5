import re

UNTRUSTED = re.compile("[\ud800-\udfff]")
