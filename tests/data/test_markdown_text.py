"""What of Markdown is text."""

import pytest

from neg_contrast.data.formats import markdown_text

CODE = '```sh\n# no heading\n~~~\n```\n'


@pytest.mark.parametrize(('text', 'title', 'left'), [
    ('words\n', '', 'words\n'),
    ('', '', ''),
    ('# A title #\n\nwords\n## Part\n', 'A title', 'A title\n\nwords\nPart\n'),
    ('---\nlayout: x\nTitle: "Of it"\n---\n# B\nwords', 'Of it', 'B\nwords'),
    ("---\ntitle: 'It''s\n...\nwords", "'It''s", 'words'),
    ('---\ntags: [a]\n---\n', '', ''),
    ('---\nno end\n', '', '---\nno end\n'),
    ('---\nA rule above.\n\n---\n', '', '---\nA rule above.\n\n---\n'),
    ('above\n---\nbelow\n---\n', '', 'above\n---\nbelow\n---\n'),
    (CODE + '# B', 'B', '# no heading\n~~~\nB'),
    ('````\n```\n# in\n````', '', '```\n# in'),
    ('```\n# never closed', '', '# never closed'),
    ('#hashtag\n####### seven', '', '#hashtag\n####### seven'),
    ('#\nwords', '', '\nwords'),
])
def test_title_and_text(text, title, left):
  assert markdown_text.read(text) == (title, left)


def test_long_lines_take_no_time():
  text = '# ' + ' #' * 200_000 + 'x'
  assert markdown_text.read(text)[1].endswith('x')
