"""Questions that are written by Beam's RunInference; those of one process."""

import pathlib
import types

import pytest

pytest.importorskip(
    'apache_beam', reason='Apache Beam is not installed: the extra [beam]')

from neg_contrast import beams
from neg_contrast.jobs import generate_questions
from neg_contrast.stage1 import questions
from tests import beam_runs, dies_once
from tests.jobs import test_stage1

nano, root = test_stage1.nano, test_stage1.root  # Fixtures.


@pytest.fixture(autouse=True)
def no_runner():
  yield
  beams.choose('local')


def write(root, folder):
  """The files of the shards, and those of the job."""
  test_stage1.run(
      generate_questions.GenerateQuestionsJob,
      test_stage1.make_questions(root, synthetic__dir=str(folder / 'made')),
      folder)
  return test_stage1.files_of(folder)


def test_the_same_shards(root, tmp_path, monkeypatch):
  """In threads, and by a process that is killed, and the one after it."""
  for name in ('local', 'threads', 'killed'):
    (tmp_path / name).mkdir()
  local = write(root, tmp_path / 'local')
  assert len([name for name in local if name.name == 'pairs.jsonl']) == 8
  beams.choose('direct', beam_runs.IN_THREADS)
  with monkeypatch.context() as patch:
    done = beam_runs.without_helper(patch)
    assert write(root, tmp_path / 'threads') == local
  assert done
  flag = tmp_path / 'died'
  monkeypatch.setenv('DIES_ONCE', str(flag))
  monkeypatch.setattr(questions, 'beams', types.SimpleNamespace(
      is_chosen=beams.is_chosen, run=beams.run,
      Inferred=lambda load, items: beams.Inferred(
          dies_once.DiesOnce(load, 4), items)))
  beams.choose('direct', beam_runs.ONE_PROCESS)
  assert write(root, tmp_path / 'killed') == local
  assert flag.exists()
  loads = pathlib.Path(f'{flag}.loads').read_text().split()
  assert len(loads) == len(set(loads)) >= 2  # Once a process.
