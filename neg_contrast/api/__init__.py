"""Training and retrieval from Python, for notebooks and services.

Objects in, objects out:

    from neg_contrast import api

    trained = api.train(
        {'q1': 'join two paths', 'q2': 'sort a list', 'q3': 'read a file'},
        {'a': ('os.path', 'Join paths.'), 'b': ('list', 'Sort in place.'),
         'c': ('open', 'Open a file.')},
        {'q1': 'a', 'q2': ['b'], 'q3': {'c': 1, 'a': 0}},
        optim__steps=100,
    )
    trained.metrics['trained']['mrr@10']
    trained.search(['how do I sort?', 'where is the file?'], depth=3)

Files in, a workdir out, as by the command line:

    api.show_progress()
    api.run('quickstart', 'workdirs/quickstart', optim__steps=100)

    encoder = api.load_encoder('workdirs/quickstart')
    query_vecs = encoder.encode_queries(['join two paths'])
    passage_vecs = encoder.encode_passages([('os.path', 'Join two paths.')])
    scores = query_vecs @ passage_vecs.T

    retriever = api.load_retriever('workdirs/quickstart', 'python_docs')
    for found in retriever.find('join two paths', depth=5):
      start, end = found.match
      print(found.score, found.passage.title, found.passage.text[start:end])

The jobs use the same functions.
"""

from neg_contrast.api.commands import run, show_progress
from neg_contrast.api.mteb_encoder import MtebEncoder, evaluate_mteb
from neg_contrast.api.opening import (
  load_corpus,
  load_encoder,
  load_retriever,
)
from neg_contrast.api.pushing import push_to_hub
from neg_contrast.api.results import Metrics, Negative, Negatives
from neg_contrast.api.training import Training
from neg_contrast.api.verbs import evaluate, mine, search, train

__all__ = [
  'Metrics', 'MtebEncoder', 'Negative', 'Negatives', 'Training', 'evaluate',
  'evaluate_mteb', 'load_corpus', 'load_encoder', 'load_retriever', 'mine',
  'push_to_hub', 'run', 'search', 'show_progress', 'train',
]
