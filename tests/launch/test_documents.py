"""The documents: what they link to, name and tell people to type is there."""

import pathlib
import re
import runpy
import shlex
import subprocess

import pytest

from neg_contrast.settings import config as config_lib

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted(
    ROOT / name for name in subprocess.check_output(
        ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard',
         '*.md'], cwd=ROOT, text=True).split('\0') if name)
SCRIPT = re.compile(r'\b((?:launch|tests)/[\w/]+\.(?:py|sh))\b')
LINK = re.compile(r'\]\(([^)#\s]*)(?:#([^)]*))?\)')

by_page = pytest.mark.parametrize(
    'page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page):
  return page.read_text('utf-8')


def anchors(page):
  """Of its headings, as GitHub makes them."""
  heads = re.findall('^#+ (.*)', text_of(page), re.MULTILINE)
  return {re.sub(r'[^\w -]', '', head.lower()).replace(' ', '-')
          for head in heads}


def commands(page):
  """Words of the commands in its indented blocks."""
  blocks = re.findall('^ {4,}(.*)', text_of(page), re.MULTILINE)
  return [shlex.split(line.rstrip('&').replace('[', '').replace(']', ''))
          for line in blocks if ' --config=configs/' in line
          and 'NAME' not in line and not line.startswith('gcloud')]


def test_the_front_door_is_short():
  text = text_of(ROOT / 'README.md')
  assert text.count('\n') <= 180
  assert '    bash launch/local.sh\n' in text
  assert '    bash launch/test.sh\n' in text
  assert not re.search(r'\b0?\.\d{3}', text), 'measurements lie elsewhere'


def test_every_room_has_a_page():
  rooms = {path.parent for path in (ROOT / 'neg_contrast').glob('*/*.py')}
  assert {room / 'README.md' for room in rooms} <= set(PAGES)
  tour = text_of(ROOT / 'neg_contrast' / 'README.md')
  for room in rooms:
    assert f'({room.name}/README.md)' in tour


@by_page
def test_links_lead_somewhere(page):
  for place, anchor in LINK.findall(text_of(page)):
    if not place.startswith('http'):
      target = page.parent / place if place else page
      assert target.exists(), place
      assert not anchor or anchor in anchors(target), (place, anchor)


@by_page
def test_scripts_are_there(page):
  if page.name != 'CHANGELOG.md':  # It names what was removed.
    for script in SCRIPT.findall(text_of(page)):
      assert 'NAME' in script or (ROOT / script).exists(), script


@by_page
def test_configs_of_commands_load(page):
  for words in commands(page):
    given = next(w for w in words if w.startswith('--config='))
    file, _, arg = given.partition('=')[2].partition(':')
    if file == 'configs/FILE.py':  # Stands for any.
      continue
    config = runpy.run_path(str(ROOT / file))['get_config'](arg or None)
    known = config_lib.flat(config)
    for word in words:
      if word.startswith('--config.') and '...' not in word:
        assert word[9:].partition('=')[0] in known, word


def test_commands_are_found():
  assert sum(len(commands(page)) for page in PAGES) > 40
