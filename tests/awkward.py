"""Texts that tokenizers trip over."""

import random

PIECES = (
    'word', 'Running', 'don\'t', 'U.S.', 'naïve', 'e\u0301', 'n\u0303a',
    'ﬁ', '😀', '👩\u200d👩\u200d👧', '🇫🇷', '日本語', '한국어', '中文',
    'עברית', 'العربية', '\u202eabc\u202c', 'Ελληνικά', 'Привет', 'ไทย',
    'हिन्दी', '\x00', '\x07', '\x1b[0m', '\ufeff', '\u200b', '\u00a0',
    '\u3000', '\u2028', '\t', '\n', '\r\n', '  ', '\ufffd', '123', '3.14',
    '1,000,000', '٣', '½', 'x²', '[SEP]', '[CLS]', '[PAD]', '</s>', '<s>',
    '<unk>', '[ SEP ]', '##ing', '▁', 'Ġ', '<|endoftext|>', 'query: ', '"',
    '“”', '—', '...', '!?', '#', '@user', 'https://a.b/c?d=e&f',
    'CamelCase', 'a_b', '\\n', '\U0001d54f', '\U000e0041', 'İ', 'ß', 'ǅ',
    'a' * 150, '哈' * 40, '-' * 70,
)
FIXED = ('', ' ', '\n', '\t \n ', '\u3000', '.', '[SEP]', '</s>', '\x00',
         '\ufeff')
RANGES = (1, 0x500), (0xE000, 0xFFFE), (0x10000, 0x1FFFF)


def texts(count, seed=0):
  """So many different texts, the same for one seed; the fixed ones first."""
  draw, made = random.Random(seed), dict.fromkeys(FIXED)
  while len(made) < count:
    pieces = [
        chr(draw.randrange(*draw.choice(RANGES)))
        if draw.random() < 0.15 else draw.choice(PIECES)
        for _ in range(draw.randrange(1, 9))]
    made[''.join(piece + draw.choice(('', ' ', ' ', '  '))
                 for piece in pieces)] = None
  return list(made)
