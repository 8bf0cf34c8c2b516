"""Flags that set what nothing reads are told of."""

import pytest
from ml_collections import config_dict

from neg_contrast.settings import config as config_lib
from neg_contrast.settings import unread_keys
from tests import processes


def _config(**changes):
  config = config_lib.base_config()
  for key, value in changes.items():
    config_lib.set_key(config, key.replace('__', '.'), value)
  return config


@pytest.mark.parametrize('key, needs', [
    ('negatives.hard_percent', {'negatives.sources': 'sampled:1'}),
    ('negatives.refresh_epochs', {'negatives.sources': 'sampled:1'}),
    ('negatives.coarse_dim', {'negatives.sources': 'coarse:1'}),
    ('negatives.miner_steps', {'negatives.sources': 'fine:1'}),
    ('negatives.judge_below', {'negatives.judge': 'workdirs/judge'}),
    ('negatives.formats', {'job': 'mine'}),
    ('negatives.formats', {'job': 'judge'}),
    ('evaluation.patience', {'evaluation.eval_steps': 5}),
    ('evaluation.by_document', {'job': 'search'}),
    ('evaluation.runs', {'job': 'evaluate'}),
    ('candidates', {'job': 'rerank'}),
    ('query', {'job': 'search'}),
    ('data.split', {'job': 'evaluate'}),
    ('data.passage_words', {'job': 'split'}),
    ('serve.port', {'job': 'serve'}),
])
def test_a_key_without_what_reads_it(caplog, key, needs):
  unread_keys.warn(config_lib.parse(_config()), [key, 'optim.steps'])
  (line,) = caplog.messages
  assert line.startswith(f'config.{key}: changes nothing here; it is read if ')
  caplog.clear()
  unread_keys.warn(config_lib.parse(_config(**needs)), [key])
  assert not caplog.messages


def test_keys_of_configs_within(caplog):
  config = _config()
  config.cells = config_dict.ConfigDict({'group': {
      'row': _config(), 'drawn': _config(negatives__sources='sampled:1')}})
  parsed = config_lib.parse(config)
  unread_keys.warn(parsed, ['negatives.greedy'])  # Rows may have it.
  unread_keys.warn(parsed, ['cells.group.drawn.negatives.greedy'])
  assert not caplog.messages
  unread_keys.warn(parsed, ['cells.group.row.negatives.greedy'])
  assert caplog.messages == [
      'config.cells.group.row.negatives.greedy: changes nothing here; it is '
      'read if `sources` name `sampled`'
  ]


def test_sets_of_a_mixture_may_read_it(caplog):
  config = _config()
  config.mixture.sets = config_lib.named_sets(
      a={'source': 'beir:a', 'negatives': ('sampled:1',)},
      b={'source': 'beir:b'})
  unread_keys.warn(config_lib.parse(config), ['negatives.greedy', 'query'])
  assert [line.split(':')[0] for line in caplog.messages] == ['config.query']


def test_the_command_says_it(tmp_path):
  done = processes.run(processes.command(
      '--config=configs/quickstart.py', '--config.negatives.greedy=True',
      f'--workdir={tmp_path}', '--plan',
  ))
  assert ('config.negatives.greedy: changes nothing here; it is read if '
          '`sources` name `sampled`') in done.stdout
