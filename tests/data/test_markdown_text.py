"""What of Markdown is text."""

import pytest

from neg_contrast.data.formats import markdown_text

CODE = '```sh\n# no heading\n~~~\n```\n'


@pytest.mark.parametrize(('text', 'title', 'left'), [
    ('words\n', '', 'words\n'),
    ('', '', ''),
    ('# A title #\n\nwords\n## Part\n', 'A title', 'A title\n\nwords\nPart\n'),
    ('---\nlayout: x\nTitle: "Of it"\n---\n# B\nwords', 'Of it', 'B\nwords'),
    ('---\ntitle: "It\'s"\ndate: 2024-99-99\n...\nwords', "It's", 'words'),
    ("---\ntitle: 'never closed\n---\nwords", '', 'words'),
    ('---\ntitle: >-\n  two\n  lines\n---\nwords', 'two lines', 'words'),
    ('---\ntitle: 1984\n---\nwords', '1984', 'words'),
    ('---\ntitle: [a, b]\n---\n# B', 'B', 'B'),
    ('---\na: ' + '[' * 5000 + '\n---\nwords', '', 'words'),
    ('---\ntags: [a]\n---\n', '', ''),
    ('---\nno end\n', '', '---\nno end\n'),
    ('---\nA rule above.\n\n---\n', '', '---\nA rule above.\n\n---\n'),
    ('above\n---\nbelow\n---\n', '', 'above\n---\nbelow\n---\n'),
    (CODE + '# B', 'B', '# no heading\n~~~\nB'),
    ('````\n```\n# in\n````', '', '```\n# in'),
    ('```\n# never closed', '', '# never closed'),
    ('## Part\n# Whole\n# Else', 'Whole', 'Part\nWhole\nElse'),
    ('## Part\nwords', '', 'Part\nwords'),
    ('#hashtag\n####### seven', '', '#hashtag\n####### seven'),
    ('#\nwords', '', '\nwords'),
    ('A title\n=======\nwords\n', 'A title', 'A title\nwords\n'),
    ('words\n\n Two\n lines  \n =\t', 'Two lines', 'words\n\n Two\n lines  '),
    ('First\n==\nSecond\n==', 'First', 'First\nSecond'),
    ('Part\n----\n# Whole', 'Whole', 'Part\n----\nWhole'),
    ('# One\n===\n', 'One', 'One\n===\n'),
    ('- item\nlazy\n===\n\n===\na = b', '', '- item\nlazy\n===\n\n===\na = b'),
    ('> quoted\n===', '', '> quoted\n==='),
    ('words\n---\n===', '', 'words\n---\n==='),
    ('words\n- item\n===', '', 'words\n- item\n==='),
    ('    code\n===', '', '    code\n==='),
    ('<!-- c\n====\n-->\n# T', 'T', '<!-- c\n====\n-->\nT'),
    ('<div>\nx\n===\n</div>\n\n# T', 'T', '<div>\nx\n===\n</div>\n\nT'),
    ('```\nx\n===\n```\n===', '', 'x\n===\n==='),
])
def test_title_and_text(text, title, left):
  assert markdown_text.read(text) == (title, left)


@pytest.mark.parametrize('start', ['# ' + ' #' * 200_000, 'a\n' + '=' * 200_000,
                                   '- - -' + ' ' * 200_000, '*' * 200_000])
def test_long_lines_take_no_time(start):
  assert markdown_text.read(f'{start}x')[1].endswith('x')
