"""Of several processes that need an artifact, one makes it."""

import json
import threading

from neg_contrast.artifacts import folders
from neg_contrast.data import corpus_writer, preparation, token_store
from neg_contrast.data import tokenizer as tokenizer_lib
from tests import tiny


def while_locked(folder, make):
  """What two calls of `make` return that both start before `folder` is free.

  A lock belongs to an open file, so threads wait for each other as processes
  do.
  """
  results = []
  threads = [threading.Thread(target=lambda: results.append(make()))
             for _ in range(2)]
  with folders.only_one(folder):
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join(0.5)
      assert thread.is_alive()
    assert not folder.exists()
  for thread in threads:
    thread.join(60)
  return results


def count_calls(monkeypatch, owner, name):
  """A list that grows with each call of `owner.name`."""
  calls, original = [], getattr(owner, name)

  def counted(*args):
    calls.append(name)
    return original(*args)

  monkeypatch.setattr(owner, name, counted)
  return calls


def test_a_corpus_is_prepared_once(tmp_path, monkeypatch):
  data = tmp_path / 'data'
  (data / 'qrels').mkdir(parents=True)
  (data / 'corpus.jsonl').write_text(json.dumps({'_id': 'a', 'text': 'x'}))
  (data / 'queries.jsonl').write_text(json.dumps({'_id': 'q', 'text': 'y'}))
  (data / 'qrels' / 'test.tsv').write_text('query\tpassage\tscore\nq\ta\t1\n')
  spec, out = f'beir:{data}', tmp_path / 'out'
  calls = count_calls(monkeypatch, corpus_writer.CorpusWriter, 'write')
  made = while_locked(preparation._folder(spec, out, 0),
                      lambda: preparation.prepare(spec, out, False))
  assert [len(corpus.passages) for corpus in made] == [1, 1]
  assert len(calls) == 1


def test_a_token_store_is_made_once(tmp_path, monkeypatch):
  tiny.write_tokenizer(tmp_path / 't')
  tokenizer = tokenizer_lib.load_tokenizer(str(tmp_path / 't'))
  folder = tmp_path / 'stores' / 's'
  calls = count_calls(monkeypatch, token_store, '_make')
  made = while_locked(folder, lambda: token_store.make_token_store(
      [('', 'word1 word2')], tokenizer, folder, 'abc'))
  assert [store.texts.lengths.tolist() for store in made] == [[2], [2]]
  assert len(calls) == 1
