"""What an evaluation looks at, once it is made and before."""

import shutil

import pytest

from neg_contrast import errors
from neg_contrast.artifacts import plan
from neg_contrast.jobs import ensemble, evaluate
from neg_contrast.settings import config as config_lib
from tests import tiny


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """Two models as an ensemble, evaluated."""
  root = tmp_path_factory.mktemp('evaluate')
  fused = tiny.make_config(
      root, job='ensemble', evaluation__bm25=False, ensemble__hybrid=False,
      ensemble__weights=(0.5, 0.5),
      ensemble__members=(str(root / 'model'), str(root / 'other')))
  shutil.copytree(root / 'model', root / 'other')
  tiny.run(ensemble.EnsembleJob, fused, root / 'fused')
  tiny.run(evaluate.EvaluateJob, config_of(root), root / 'work')
  return root


def config_of(root):
  return tiny.make_config(root, job='evaluate', evaluation__bm25=False,
                          checkpoint=str(root / 'fused'))


def targets(root, workdir='work'):
  return evaluate.EvaluateJob(
      config_lib.parse(config_of(root)), root / workdir).targets()


def test_what_only_it_needed_may_be_damaged_or_gone(root):
  manifests = list((root / 'work' / 'retrieval').rglob('manifest.json'))
  assert manifests
  for manifest in manifests:
    manifest.write_text('{')
  said = plan.describe(targets(root))
  assert '[spared ] embeddings' in said and '[done   ] fusion_emb' in said
  plan.run(targets(root))
  shutil.rmtree(root / 'work' / 'retrieval')
  plan.run(targets(root))
  assert not (root / 'work' / 'retrieval').exists()


def test_a_member_that_is_gone_is_told_by_the_plan(root):
  (root / 'other').rename(root / 'gone')
  try:
    said = plan.describe(targets(root, 'new'))
    assert f'[MISSING] model            {root / "other"}' in said
    with pytest.raises(errors.UserError, match='other: no such model folder'):
      plan.run(targets(root, 'new'))
  finally:
    (root / 'gone').rename(root / 'other')
