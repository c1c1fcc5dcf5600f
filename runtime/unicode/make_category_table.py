"""Writes category_table.cpp: general categories and word characters of Unicode 16, which PyPI's tokenizers 0.23 and
tiktoken 0.14 use.

  python3 -m venv env && env/bin/pip install unicodedata2==16.0.0 regex && env/bin/python make_category_table.py
"""

import pathlib

import regex
import unicodedata2

CODES = 0x110000
# The order of `enum class Category` in categories.h.
NAMES = "Cn Cc Cf Cs Co Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
ALPHABETIC = regex.compile(r"\p{Alphabetic}")


def is_word(code, category):
    """Unicode Technical Standard 18, Annex C: \\w."""
    if category in ("Cn", "Cs"):  # `regex` may know a later Unicode
        return False
    in_category = category[0] == "M" or category in ("Nd", "Pc") or code in (0x200C, 0x200D)
    return in_category or bool(ALPHABETIC.match(chr(code)))


def main():
    assert unicodedata2.unidata_version == "16.0.0"
    runs, last = [], None
    for code in range(CODES):
        category = unicodedata2.category(chr(code))
        value = NAMES.index(category) | (0x80 if is_word(code, category) else 0)
        if value != last:
            runs.append((code, value))
            last = value
    lines, line = [], " "
    for code, value in runs:
        entry = f" 0x{code << 8 | value:x},"
        if len(line) + len(entry) > 118:
            lines.append(line)
            line = " "
        line += entry
    lines.append(line)
    text = "\n".join(
        ["// Written by make_category_table.py from Unicode 16.0: do not edit.",
         '#include "runtime/unicode/categories.h"', "", "namespace hetsynth::unicode {", "",
         "// clang-format off", "static constexpr uint32_t runs[] = {", *lines, "};",
         "// clang-format on", "const std::span<const uint32_t> category_runs(runs);", "", "}  // namespace hetsynth::unicode", ""])
    pathlib.Path(__file__).with_name("category_table.cpp").write_text(text)


main()
