"""Texts of several languages and odd ones, and random ones: what tokenizers are compared on."""

import random
import sys
import unicodedata

LANGUAGES = {
    "english": "All human beings are born free and equal in dignity and rights. They're endowed with reason; I'll say it "
               "wasn't THEY'LL'D who'd've known: $3,141.59 costs 1234567890 dollars.",
    "german": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Straße, Größe, ÄÖÜ, 3½ Äpfel.",
    "french": "Tous les êtres humains naissent libres et égaux en dignité et en droits. L'été, où ça? «Voilà»…",
    "russian": "Все люди рождаются свободными и равными в своём достоинстве и правах. Ёлка, 1917 год.",
    "greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "chinese": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，一九四八年１２月１０日。",
    "japanese": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナｶﾅ　全角スペース",
    "korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "arabic": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. ١٢٣٤٥",
    "hebrew": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। १२३",
    "thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ๑๒๓",
    "tamil": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்",
    "vietnamese": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İIıi",
    "emoji": "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣ 🤷🏿‍♀️😀😀😀",
    "code": "def f(x, *, y=0):\n\tif x != y:\n\t\treturn {'a': [1, 2.5e-3], \"b\": x**2}\n\n\n    # don't\n#include <a.h>\r\nint main(){return 0;}\r\n",
    "spaces": "a  b   c\t\td \t e\n\n\nf\r\n\r\ng \n h\u00a0i\u3000j\u2003\u2003k   ",
    "contractions": "I'M HE'S 'tis 'Twas don't DON'T y'all'd've it’s 'ſ X'ſt 's'S'll'LL're'RE'Ve'd'D 'l 'r 've",
    "combining": "e\u0301 a\u0308\u0323 \u0301x ñ n\u0303 ﬁ ﬃ ² ³ ¼ Ⅻ ①  ™ Å Å Ω Ω 각 각",
    "special": "a<|endoftext|>b <|endoftext|> c<mask> d  <mask>  e<s></s><|endoftext|><|endoftext|>",
    "trailing": "\n \n  word  \n ",
}

ODD = ["", " ", "  ", "\n", "\n\n", " \n", "\n ", "\r\n", "\t", "a", " a", "a ", "  a", "1", "12", "1234", " 1", "'", "''",
       "' ", " '", "'s", " 's", "\0", "\x7f", "\x85", "\ufeff", "\uffff", "\U0010ffff", "▁", " ▁ ", "<0x41>", "a" * 500,
       " " * 300, "\n" * 300, "ab" * 300, "é" * 200, "日" * 200, "!" * 100, "1" * 100, " \n" * 50, "a\u0301" * 60]


def random_texts(seed, count, is_usable):
    """Random code points of one kind or mixed, and random bytes read as UTF-8 with replacements."""
    rng = random.Random(seed)
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and is_usable(chr(c))]
    assigned = [c for c in points if unicodedata.category(chr(c)) not in ("Cn", "Co")]
    common = [ord(c) for c in "aeiouAZ sstlrvdm'''\n\n\r\t  .,;!?-_<|>019/\\\u00a0\u3000éßñ日本語עברית👍🏽"]
    out = []
    for i in range(count):
        length = rng.choice([1, 2, 3, 5, 8, 13, 30, 80, 300])
        kind = i % 5
        if kind == 0:
            out.append("".join(chr(rng.choice(points)) for _ in range(length)))
        elif kind == 1:
            out.append("".join(chr(rng.choice(assigned)) for _ in range(length)))
        elif kind == 2:
            out.append("".join(chr(rng.choice(common)) for _ in range(length)))
        elif kind == 3:
            out.append("".join(chr(rng.choice(common if rng.random() < 0.7 else assigned)) for _ in range(length)))
        else:
            out.append(rng.randbytes(length).decode("utf-8", "replace"))
    return [text for text in out if all(map(is_usable, text))]


def shuffled_languages(seed, count):
    """Pieces of the texts above, glued together."""
    rng = random.Random(seed)
    pieces = list(LANGUAGES.values())
    out = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randint(1, 6)):
            piece = rng.choice(pieces)
            begin = rng.randrange(len(piece))
            text += piece[begin:begin + rng.randint(1, 60)]
        out.append(text)
    return out


if __name__ == "__main__":
    sys.stdout.write("\n".join(LANGUAGES.values()))
