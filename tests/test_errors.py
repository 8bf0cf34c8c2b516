"""Errors name keys of configs within configs as flags do."""

import threading

import pytest
from IPython.core import interactiveshell

from neg_contrast import errors


def test_a_setting_error_is_its_parts():
  error = errors.SettingError('optim.steps', -1, 'must be at least 0')
  assert str(error) == 'config.optim.steps=-1: must be at least 0'
  assert (error.key, error.value, error.rule) == (
      'config.optim.steps', -1, 'must be at least 0')
  assert isinstance(error, errors.UserError)


def test_keys_are_named_by_where_the_config_lies():
  with errors.within('cells.none.bm25'), errors.within('stage1'):
    assert errors.key('seed') == 'config.cells.none.bm25.stage1.seed'
    error = errors.SettingError('seed', -1, 'is wrong')
  assert str(error) == 'config.cells.none.bm25.stage1.seed=-1: is wrong'
  assert errors.key('seed') == 'config.seed'


def test_an_error_leaves_the_place():
  with pytest.raises(errors.UserError), errors.within('stage1'):
    raise errors.SettingError('seed', -1, 'is wrong')
  assert errors.key('seed') == 'config.seed'


def test_threads_have_places_of_their_own():
  names = []
  with errors.within('stage1'):
    thread = threading.Thread(target=lambda: names.append(errors.key('seed')))
    thread.start()
    thread.join()
  assert names == ['config.seed']


def test_notes_tell_places_apart_and_are_no_keys():
  with errors.within('cells.none.bm25', 'seed 1'), errors.within('stage1'):
    assert errors.key('seed') == 'config.cells.none.bm25.stage1.seed'
    with_note = errors.place()
  with errors.within('cells.none.bm25', 'seed 2'), errors.within('stage1'):
    assert errors.place() != with_note
  with errors.within('', 'a=1,seed=0'):
    assert errors.key('seed') == 'config.seed'
    assert errors.flag('workdir') == '--workdir'
    with errors.within('stage1'):
      assert errors.flag('workdir') == '--config.stage1.workdir'


def test_a_notebook_shows_one_line(monkeypatch, tmp_path, capsys):
  monkeypatch.setenv('IPYTHONDIR', str(tmp_path))
  shell = interactiveshell.InteractiveShell()
  shell.run_cell('from neg_contrast import api\n'
                 'api.run("quickstart", optim__stepz=1)')
  said = capsys.readouterr()
  assert len(said.out.strip().splitlines()) == 1 and not said.err
  assert said.out.startswith('error: ') and 'steps' in said.out
