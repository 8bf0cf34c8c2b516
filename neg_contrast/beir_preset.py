"""Sets of BEIR as data of a config; only files in `configs/` use it."""

import ml_collections

from neg_contrast.settings import config as config_lib

SETS = {
    'arguana': '8ad3e3c2a5867cdced806d6503f29b99',
    'fiqa': '17918ed23cd04fb15047f73e6c3bd9d9',
    'nfcorpus': 'a89dba18a62ef92f7d323ec890a0d38d',
    'scifact': '5f7d1de60b170fc8027bb7898e2efca1',
}
"""Name -> md5 of its archive (github.com/beir-cellar/beir, README.md)."""

_PLACE = ('https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/'
          'datasets/')


def set_data(
    config: ml_collections.ConfigDict, name: str, model: str, key: str
) -> None:
  """Sets where a set lies, and where to get it and a model.

  Args:
    config: changed in place.
    name: one of `SETS`.
    model: name of the model on the hub; empty: it is here.
    key: that names the model.

  Raises:
    UserError: another name.
  """
  if name not in SETS:
    raise config_lib.unknown_argument('set', name, SETS)
  config.data.source = f'beir:data/{name}'
  config.data.how_to_get = (
      f'Download {name}.zip (md5 {SETS[name]}) from\n{_PLACE}{name}.zip\n'
      f'and unpack it into data/{name}/ (corpus.jsonl, queries.jsonl, qrels/)'
  )
  if model:
    config.data.how_to_get += (
        f'.\n{model} comes from huggingface.co by itself (440 MB); where that '
        f'is\nout of reach, name a folder that has it: --config.{key}=FOLDER'
    )
