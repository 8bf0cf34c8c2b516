"""The config of the tutorial loads, and its commands mean what it says."""

import pathlib
import re
import runpy
import shlex

from neg_contrast.jobs.common import sweeps
from tests import tiny

PAGE = pathlib.Path(__file__).parents[2] / 'launch/tutorials/ablation.md'


def test_the_ablation_is_six_runs(tmp_path):
  text = PAGE.read_text(encoding='utf-8')
  config = tmp_path / 'ablation.py'
  config.write_text(re.search('```python\n(.*?)```', text, re.DOTALL)[1])
  commands = [shlex.split(line) for line in re.findall(
      '^ {4}(.*)', text.replace(config.read_text(), ''), re.MULTILINE)]
  assert len(commands) == 4
  found = [word.partition('=')[2] for words in commands[:2] for word in words
           if word.startswith('--sweep=')]
  assert len(found) == 2 and len(set(found)) == 1
  cells = sweeps.cells(found[0], sweeps.Source(str(config), '', {}), tmp_path)
  assert [(cell.config.negatives.sources, cell.config.seed)
          for cell in cells] == [
      (listed, seed) for listed in ((), ('bm25:1',)) for seed in (0, 1, 2)]
  patterns = re.findall(r"ablation/(negatives=\w+,\*)'", text)
  assert [sum(cell.workdir.match(pattern) for cell in cells)
          for pattern in patterns] == [3, 3]


def test_the_code_of_from_python_runs(tmp_path, monkeypatch, capsys):
  """As it stands, but with a model of random weights, on one device."""
  text = (PAGE.parent / 'python.md').read_text(encoding='utf-8')
  blocks = re.findall('```python\n(.*?)```', text, re.DOTALL)
  assert len(blocks) == 6
  words = sorted({word for word in re.findall(r'[a-z]+', text.lower())})
  tiny.write_model(tmp_path / 'minilm', words=words,
                   vocab_size=len(words) + 5, max_positions=300)
  monkeypatch.chdir(tmp_path)
  code = '\n'.join(blocks).replace("'minilm'", "'./minilm'")
  path = tmp_path / 'python.py'
  path.write_text(code.replace('batch_size=4', 'batch_size=4, mesh__data=1'))
  names = runpy.run_path(str(path))
  trained, negatives = names['trained'], names['negatives']
  assert set(trained.metrics) == {'bm25', 'initial', 'trained', 'hybrid'}
  assert set(names['metrics']['initial']) == {'mrr@10', 'ndcg@10'}
  assert len(negatives) == 10 and 'open' not in [
      one.passage_id for one in negatives['q3']]
  assert (names['folder'] / 'modules.json').exists()
  assert (tmp_path / 'workdirs' / 'python' / 'report.html').exists()
  output = capsys.readouterr().out
  assert 'copy everything\n' in output and output.count('  0.') >= 1
