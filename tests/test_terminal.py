"""What reaches a terminal, and what a pipe gets instead."""

import io
import logging
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neg_contrast import errors, main, progress, terminal
from neg_contrast.data import records
from neg_contrast.jobs.common import shown_hits
from neg_contrast.retrieval import finding
from tests import processes

SOME = '''
import os, sys, time
from neg_contrast import main, progress, terminal

def go(argv):
  main._log_plainly(sys.stdout)
  progress.PLAN.expect([('data', 'data'), ('embeddings', 'vectors')])
  progress.PLAN.begin('data', 'data')
  tick = progress.Ticker('reading', 4)
  for done in range(1, 5):
    time.sleep(0.15)
    tick(done)
  progress.PLAN.end('data', 'data')
  progress.PLAN.begin('embeddings', 'vectors')
  with progress.busy('compiling the encoder'):
    time.sleep(0.2)
  main.logging.warning('an id a\\x1b[2Jb')
  print('plain\\x07 text')
  print('error: \\x9b31m', file=sys.stderr)
  progress.PLAN.end('embeddings', 'vectors')

with terminal.screens():
  main.app.run(go, argv=['x'])
'''


def test_a_traceback_that_a_library_logs_is_a_line():
  try:
    raise ValueError('no space')
  except ValueError:
    told = sys.exc_info()
  lines = main._Lines('%(message)s')
  for path, is_whole in (('/x/orbax/future.py', False), (main.__file__, True)):
    record = logging.LogRecord('absl', logging.ERROR, path, 1, 'failed', (),
                               told)
    said = lines.format(record).splitlines()
    assert 'failed' in said[0] and 'ValueError: no space' in said[-1]
    assert (len(said) > 1) == is_whole
    assert ('Traceback' in str(said)) == is_whole


def test_an_interruption_in_a_callback_is_heard_after_it(monkeypatch):
  class Interrupted:
    def __del__(self):
      raise KeyboardInterrupt

  monkeypatch.setattr(sys, 'unraisablehook', main._interrupt_again)
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  began = time.monotonic()
  try:
    with pytest.raises(KeyboardInterrupt):
      Interrupted()
      time.sleep(60)
  finally:
    signal.signal(signal.SIGINT, before)
  assert time.monotonic() - began < 30


def test_an_interruption_while_modules_are_read_says_nothing(tmp_path):
  """The first seconds of a command: there is no state that one could tell."""
  program = subprocess.Popen(
      [sys.executable, '-m', 'neg_contrast.main', '--config=quickstart',
       f'--workdir={tmp_path / "work"}'],
      cwd=processes.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
      # What runs in the background may have been told to ignore it.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
  maps = pathlib.Path(f'/proc/{program.pid}/maps')
  while 'jaxlib' not in maps.read_text() and program.poll() is None:
    time.sleep(0.01)
  program.send_signal(signal.SIGINT)
  assert program.communicate() == (b'', b'')
  assert program.returncode == -signal.SIGINT


def in_terminal(code, **env):
  """Everything that a terminal of 80 columns receives."""
  pid, master = pty.fork()
  if pid == 0:
    os.environ |= {'COLUMNS': '80', 'TERM': 'xterm', **env}
    os.execv(sys.executable, [sys.executable, '-c', code])
  parts, until = [], time.monotonic() + 120
  while time.monotonic() < until:
    if not select.select([master], [], [], 1)[0]:
      continue
    try:
      part = os.read(master, 65536)
    except OSError:  # Closed by the other end.
      break
    if not part:
      break
    parts.append(part)
  assert os.waitpid(pid, 0)[1] == 0, b''.join(parts)
  return b''.join(parts).decode()


def screen_of(text):
  """The lines that stay on a terminal: of a line, what is written last."""
  lines = re.sub(r'\x1b\[\d*m', '', text).replace('\r\n', '\n').split('\n')
  return [line.rpartition('\r\x1b[K')[2] for line in lines]


def test_one_line_updates_in_place():
  text = in_terminal(SOME, NO_COLOR='')
  lines = screen_of(text)
  assert [line[10:] for line in lines[:2]] == [
      '[1/2] data: done in 0:00:01', 'an id a\ufffd[2Jb']
  assert lines[2:5] == ['plain\ufffd text', 'error: \ufffd31m',
                        f'{lines[4][:8]}  [2/2] embeddings: done in 0:00:00']
  assert lines[5:] == ['']
  shown = re.findall(r'\r\x1b\[K([^\r\n]+)', text)
  assert any('reading ━' in one and 'ETA' in one and '[1/2]' in one
             for one in shown)
  assert any('compiling the encoder ... 0:00:00' in one for one in shown)
  assert all(terminal.columns(re.sub(r'\x1b\[\d*m', '', one)) < 80
             for one in shown)
  assert '\x1b[33man id' in text and '\x1b[2J' not in text


def test_no_color_still_updates():
  text = in_terminal(SOME, NO_COLOR='1')
  assert '\r\x1b[K' in text and not re.search(r'\x1b\[\d*m', text)


def test_a_pipe_gets_lines():
  result = processes.run(processes.Process(SOME))
  assert result.returncode == 0, result.stderr
  lines = result.stdout.splitlines()
  assert '\x1b' not in result.stdout and '\r' not in result.stdout
  assert [line[10:] for line in lines if line[2] == ':'] == [
      '[1/2] data: done in 0:00:01', '[2/2] compiling the encoder ...',
      'an id a\ufffd[2Jb', '[2/2] embeddings: done in 0:00:00']
  assert 'plain\ufffd text' in lines
  assert result.stderr == 'error: \ufffd31m\n'


@given(st.text())
def test_clean_keeps_places_and_steers_nothing(text):
  cleaned = terminal.clean(text)
  assert len(cleaned) == len(text)
  assert not set(cleaned) & {'\x1b', '\r', '\x9b', '\u202e', terminal.BOLD}
  assert terminal.clean(cleaned) == cleaned
  cleaned.encode()


def test_letters_of_all_scripts_stay():
  text = 'Grüße, 日本語, हिन्दी, می\u200cخواهم, 👩\u200d💻, e\u0301\tx\n'
  assert terminal.clean(text) == text


def test_messages_are_bounded_and_keep_their_ends():
  error = errors.UserError('file.tsv, line 3: ' + 'x' * 10**6 + ': remove it')
  assert len(str(error)) < 4200
  assert str(error).startswith('file.tsv, line 3: xxx')
  assert str(error).endswith('xxx: remove it')
  assert str(errors.UserError('id \x1b[31m')) == 'id \ufffd[31m'


def test_a_stream_that_knows_few_characters(monkeypatch):
  raw = io.BytesIO()
  stream = io.TextIOWrapper(raw, 'ascii', newline='\n')
  screen = terminal.Screen(stream)
  screen.write('é\ud800 \u4e2d\n')
  stream.flush()
  assert raw.getvalue() == b'\\xe9\\ufffd \\u4e2d\n'


@pytest.mark.parametrize(('text', 'width', 'first'), [
    ('abcdef', 3, 'abc'), ('日本語', 5, '日本'),
    ('e\u0301e\u0301x', 2, 'e\u0301e\u0301'),
])
def test_fit_counts_columns(text, width, first):
  assert terminal.fit(text, width) == first


def test_the_eta_of_a_plan(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(progress.time, 'monotonic', lambda: now[0])
  plan = progress.Plan()
  plan.expect([('data', 'data'), ('a', 'vectors'), ('training', 'run'),
               ('b', 'vectors'), ('c', 'vectors')])
  plan.begin('data', 'data')
  assert plan.place == '[1/5] '
  assert plan.eta(60) == 'ETA 0:01:00, then 4 more steps'
  plan.end('data', 'data')
  plan.begin('a', 'vectors')
  now[0] += 100
  plan.end('a', 'vectors')
  assert plan.place == '[2/5] '
  plan.skip('c', 'vectors')
  plan.begin('training', 'run')
  assert plan.place == '[3/4] '
  assert plan.eta(60) == 'ETA 0:01:00, plan 0:02:40'
  assert plan.eta(60, '2 evaluations') == (
      'ETA 0:01:00 + 2 evaluations, plan 0:02:40 + 2 evaluations')
  plan.begin('unexpected', 'new')
  assert plan.place == '[4/5] '


def found(score, title, text, match, passage_id='d-1'):
  return finding.Found(records.Passage(passage_id, title, text), score, match)


def test_answers_are_aligned_and_front_matter_is_cut():
  text = '---\ntitle: Paths\ntags: [a]\n---\nJoin two paths. Or three.'
  start = text.index('Join')
  answers = [found(0.75, 'Paths', text, (start, start + 15)),
             found(-0.5, '', text, (4, 10), 'd-2'),
             found(10.25, 'T' * 200, 'Other.', (0, 6), 'd-3')]
  told = shown_hits.format_found('join', answers, bold=False, width=60)
  lines = told.splitlines()
  assert lines[3:5] == ['  1.  0.7500  Paths  [d-1]',
                        '              **Join two paths.** Or three.']
  assert lines[6:8] == ['  2. -0.5000  [d-2]',
                        '              Join two paths. Or three.']
  assert lines[9].startswith('  3. 10.2500  TTT') and len(lines[9]) <= 60
  assert lines[9].endswith('...  [d-3]') and 'tags' not in told
