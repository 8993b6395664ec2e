"""Texts for comparisons of tokenizers: words, numbers, code, white space, and scripts of the world."""
import random

PIECES = [
    "The quick brown fox", " jumps", "didn't", "I'LL", " we've", "HELLO'S", " naïve café", "Straße", "ＦＵＬＬ",
    "don’t",
    "3.14159", "1234567", "007", " 1,000,000", "2024-07-26", "٣٤٥", "Ⅳ", "½", "x²+y³", "0xDEADBEEF", "1e-5", "１２３",
    "def f(x):\n    return x**2\n", "for(int i=0;i<n;++i){", "}\r\n\r\n", "<div class=\"a\">", "SELECT * FROM t;",
    "a_b-c.d",
    "\tif __name__ == '__main__':", "// TODO\n", "#include <stdio.h>", "!!??...", "$100", "~^|`", " (see [1]) ",
    "—“quoted”—",
    " ", "  ", "   ", "\n", "\n\n", " \n ", "\t\t", "\r\n", "\u00a0", "\u3000", "\u200b",
    "中文字符", "日本語のテスト", "한국어", "Привет, мир", "Ελληνικά", "العربية", "עברית", "हिन्दी", "ไทย", "Tiếng Việt",
    "🙂", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "é", "\u0000", "\ufffd", "𝔘𝔫𝔦", "zażółć", "Ünïcödé",
    "https://example.org/a?b=c&d=%20", "user@example.org", "C:\\path\\file.txt", "CamelCaseWord", "snake_case_word",
]


# Texts of a chat template, with control tokens of SmolLM2.
CHATS = ["<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "a<repo_name>b <file_sep>\n"]


def texts(count=200, seed=7):
    """The pieces, then random sequences of up to 12 of them."""
    chooser = random.Random(seed)
    mixed = ["".join(chooser.choice(PIECES) for _ in range(chooser.randint(1, 12))) for _ in range(count)]
    return (PIECES + mixed)[:count]
