"""Words deleted, replaced, masked: laws of sequences and of batches."""

import dataclasses
import json

import numpy as np
import pytest

from neg_contrast import errors
from neg_contrast.batches import augmentation, packing, word_table
from neg_contrast.data import sequences as sequences_lib
from neg_contrast.data.side_features import feature_kinds, feature_table
from neg_contrast.jobs import train, train_reranker
from neg_contrast.models import by_name
from neg_contrast.settings import config as config_lib
from neg_contrast.training import run_log
from tests import tiny
from tests.batches import test_batch_weights, test_batcher

CLS, SEP, MASK, MARK = 1, 2, 3, 4
SIZE, CONTINUES = 60, range(40, 60)  # Tokens 40 to 59 go on with a word.


def make(seed=0, **rates):
  special = np.arange(SIZE) < 5
  begins = ~special & ~np.isin(np.arange(SIZE), CONTINUES)
  words = augmentation.Words(
      special, begins, np.arange(5, 40, dtype=np.int32), MASK)
  return augmentation.Augmentation(words, seed, **rates)


def texts(seed, count=40):
  """[CLS] title [SEP] text [SEP], or with a mention in the middle."""
  rng = np.random.default_rng(seed)
  some = lambda: rng.integers(5, SIZE, rng.integers(1, 9))
  made = []
  for number in range(count):
    inner = [SEP] if number % 2 else [MARK, *some(), MARK]
    made.append(np.array([CLS, *some(), *inner, *some(), SEP]))
  return sequences_lib.listed(made)


def words_of(ids):
  """Words between special tokens, stretch by stretch."""
  stretches, word = [[]], None
  for token in ids.tolist():
    if token < 5 and token != MASK:
      stretches.append([])
      word = None
    elif word is None or not (token in CONTINUES or token == MASK):
      word = [token]
      stretches[-1].append(word)
    else:
      word.append(token)
  return stretches


def specials(ids):
  return [token for token in ids.tolist() if token < 5 and token != MASK]


@pytest.mark.parametrize('rates', [
    {'deletion': 0.5}, {'deletion': 0.999}, {'replacement': 0.7},
    {'masking': 0.7}, {'deletion': 0.3, 'replacement': 0.3, 'masking': 0.3},
])
@pytest.mark.parametrize('seed', range(3))
def test_special_tokens_stay_and_no_text_is_empty(rates, seed):
  before = texts(seed)
  after = make(seed, **rates)('query', 7, np.arange(40), before)
  changed = 0
  for old, new in zip(before, after, strict=True):
    assert specials(new) == specials(old)
    assert len(new) <= len(old)
    assert [bool(some) for some in words_of(new)] == [
        bool(some) for some in words_of(old)]
    changed += old.tolist() != new.tolist()
  assert changed > 20
  assert after.flat().tolist() == np.concatenate([*after]).tolist()
  assert after.lengths.tolist() == [len(ids) for ids in after]


def test_deletion_takes_whole_words_and_leaves_their_order():
  before = texts(1)
  for old, new in zip(before, make(deletion=0.5)(
      'query', 0, np.arange(40), before), strict=True):
    for was, left in zip(words_of(old), words_of(new), strict=True):
      rest = iter(was)
      assert all(word in rest for word in left)  # In this order.


def test_masking_masks_all_tokens_of_a_word():
  before, seen = texts(2), 0
  for old, new in zip(before, make(masking=0.5)(
      'query', 0, np.arange(40), before), strict=True):
    assert len(old) == len(new)
    words = [word for some in words_of(old) for word in some]
    places = [n for n, token in enumerate(old.tolist()) if token > 4]
    at = iter(places)
    for word in words:
      own = [int(new[next(at)]) for _ in word]
      assert own in ([MASK] * len(word), word)
      seen += own[0] == MASK
  assert 50 < seen < 400


def test_a_replaced_word_is_one_whole_word():
  before = texts(3)
  after = make(replacement=0.999)('query', 0, np.arange(40), before)
  for old, new in zip(before, after, strict=True):
    for was, word in zip(words_of(old), words_of(new), strict=True):
      assert len(was) == len(word)
  ids = np.concatenate([*after])
  assert (ids[ids > 4] < 40).mean() > 0.98
  assert len({*ids.tolist()}) > 30


@pytest.mark.parametrize('rates', [
    {'deletion': 0.2}, {'replacement': 0.35}, {'masking': 0.1}])
def test_rates_are_those_that_were_asked_for(rates):
  ids = np.append(np.append(CLS, np.resize(np.arange(5, 40), 4000)), SEP)
  new = make(**rates).change(ids, np.random.default_rng(0))
  name, rate = rates.popitem()
  got = {'deletion': 1 - len(new) / 4002,
         'replacement': (new != ids[:len(new)]).mean() * 35 / 34,
         'masking': (new == MASK).mean()}[name]
  assert got == pytest.approx(rate, abs=0.03)


def test_draws_depend_on_seed_step_example_and_role_alone():
  before, numbers = texts(4), np.arange(40)
  change = lambda seed=0, step=3, role='query', some=numbers: [
      ids.tolist() for ids in make(seed, deletion=0.5)(
          role, step, some, before.take(some))]
  first = change()
  assert change() == first
  order = np.random.default_rng(0).permutation(40)
  assert change(some=order) == [first[n] for n in order]
  assert change(some=numbers[7:9]) == first[7:9]
  for other in (change(seed=1), change(step=4), change(role='passage')):
    assert sum(a != b for a, b in zip(first, other, strict=True)) > 25


def test_roles_and_places():
  before = texts(5)
  only = make(deletion=0.9, roles=('passage',))
  assert only('query', 0, np.arange(40), before) is before
  places = np.array([3, 30])
  after = only('passage', 0, np.array([8, 9]), before, places)
  for number, (old, new) in enumerate(zip(before, after, strict=True)):
    assert (old.tolist() == new.tolist()) == (number not in places)


def test_features_beside_text_stay():
  """Of queries and positives, as of negatives."""
  (price,) = feature_kinds.parse_all(['price:numeric'])
  table = feature_table.FeatureTable.of(
      [price], [price.keep([float(n) for n in range(40)])])
  rows = np.random.default_rng(0).permutation(40)
  plain = texts(6).take(rows)
  before = sequences_lib.Featured(plain, table, rows)
  places = np.array([3, 30])
  change = make(deletion=0.9)
  after = change('passage', 0, np.array([8, 9]), before, places)
  want = change('passage', 0, np.array([8, 9]), plain, places)
  layout = packing.plan(after.lengths, 2, 40)
  packed = packing.fill(layout, after)
  np.testing.assert_array_equal(
      packed.token_ids, packing.fill(layout, want).token_ids)
  found = packed.side_features['price-numeric']
  assert found[layout.group, layout.slot].tolist() == [
      [1, float(row)] for row in rows]


def test_a_vocabulary_without_words_to_replace_others():
  change = make(deletion=0.5)
  bare = dataclasses.replace(change, words=dataclasses.replace(
      change.words, replacements=np.zeros(0, np.int32)))
  before = texts(7)
  for one, other in zip(*(
      augment('query', 1, np.arange(40), before) for augment in (change, bare)
  ), strict=True):
    assert one.tolist() == other.tolist()


def test_a_sequence_of_special_tokens_alone():
  ids = np.array([CLS, SEP])
  changed = make(deletion=0.9).change(ids, np.random.default_rng(0))
  assert changed.tolist() == [CLS, SEP]


def test_queries_and_positives_of_a_batch_are_changed_and_nothing_else():
  plain, all_texts, draw = test_batcher.make_batcher(2)
  augment = make(replacement=0.6)
  batcher = dataclasses.replace(plain, augment=augment)
  for step in range(3):
    batch, stats = batcher(step)
    same, before = plain(step)
    numbers = batcher.example_numbers(step)
    read = lambda some, slots: [ids.tolist() for ids in test_batcher.unpacked(
        some, 'shared', slots)]
    for role, slots in (('query', 'query_slots'),
                        ('passage', 'positive_slots')):
      was = test_batcher.unpacked(same, 'shared', getattr(same, slots))
      want = [ids.tolist() for ids in augment(
          role, step, numbers, sequences_lib.listed(was))]
      assert read(batch, getattr(batch, slots)) == want != [
          ids.tolist() for ids in was]
    there = draw(step, numbers, None).rows.reshape(-1) >= 0
    assert read(batch, batch.negative_slots.reshape(-1)[there]) == read(
        same, same.negative_slots.reshape(-1)[there])
    np.testing.assert_array_equal(batch.forward_mask, same.forward_mask)
    assert stats.useful_tokens <= before.useful_tokens


def test_pairs_of_a_reranker_have_one_change_of_their_query():
  plain, all_texts, draw = test_batcher.make_batcher(2)
  augment = make(replacement=0.6)
  pairs = test_batch_weights.make_pairs(plain, all_texts, draw)
  changed = dataclasses.replace(pairs, augment=augment)
  for step in range(3):
    numbers = plain.example_numbers(step)
    _, rows, _, (queries, passages) = changed._candidates(step, numbers)
    _, _, _, (was, were) = pairs._candidates(step, numbers)
    lines, columns = np.nonzero(rows >= 0)
    asked = augment('query', step, numbers, plain.query_tokens(
        plain.examples.query_rows[numbers]))
    answers = augment('passage', step, numbers, sequences_lib.listed(
        were[int(n)] for n in np.flatnonzero(columns == 0)))
    for n, (line, column) in enumerate(zip(lines, columns, strict=True)):
      assert queries[n].tolist() == asked[int(line)].tolist()
      want = were[n] if column else answers[int(line)]
      assert passages[n].tolist() == want.tolist()


def batcher_of(tmp_path, **overrides):
  config = config_lib.parse(tiny.make_config(tmp_path, **overrides))
  job = train.TrainJob(config, tmp_path / 'work')
  for need in job.run.needs().values():
    need.load()
  return job.run.training()._make_batch()[0], job.run.training().model


def test_words_of_a_model_and_the_batches_of_its_training(tmp_path):
  batcher, model = batcher_of(
      tmp_path, negatives__sources=(), data__word_deletion=0.3,
      data__word_masking=0.3, data__augmented='query')
  words = batcher.augment.words
  tokenizer = model.tokenizer
  named = lambda *tokens: [tokenizer.token_id(token) for token in tokens]
  assert words.is_special[named('[CLS]', '[SEP]', '[PAD]')].all()
  assert words.mask_id == tokenizer.token_id('[MASK]')
  assert not words.is_special[named(*tiny.WORDS[:5])].any()
  assert {*named(*tiny.WORDS)} <= {*words.replacements.tolist()}
  first, again = batcher(2)[0], batcher(2)[0]
  np.testing.assert_array_equal(first.sequences['shared'].token_ids,
                                again.sequences['shared'].token_ids)
  assert (first.sequences['shared'].token_ids == words.mask_id).any()


def test_without_rates_nothing_is_wrapped(tmp_path):
  batcher, _ = batcher_of(tmp_path, negatives__sources=())
  assert batcher.augment is augmentation.nothing
  assert type(batcher.query_tokens(np.array([0]))) is type(
      batcher._queries(0, np.array([0])))


def losses(folder, name, **overrides):
  tiny.train_only(folder, folder / name, negatives__sources=(),
                  data__word_deletion=0.3, data__word_replacement=0.2,
                  checkpointing__log_steps=1, **overrides)
  return {one['step']: one['loss'] for one in run_log.read(
      folder / name / run_log.FILE) if 'loss' in one}


def test_a_resumed_training_has_the_same_losses_to_the_bit(
    tmp_path, monkeypatch
):
  whole = losses(tmp_path, 'whole', optim__steps=6)
  call = augmentation.Augmentation.__call__

  def interrupt(self, role, step, *args):
    if step == 4:
      raise KeyboardInterrupt
    return call(self, role, step, *args)

  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(augmentation.Augmentation, '__call__', interrupt)
    losses(tmp_path, 'cut', optim__steps=6)
  assert losses(tmp_path, 'cut', optim__steps=6) == whole
  assert len(whole) == 6


def test_one_device_and_eight_have_the_same_losses(tmp_path):
  one, eight = (losses(tmp_path, f'on{data}', optim__steps=3, mesh__data=data)
                for data in (1, 8))
  np.testing.assert_allclose([*one.values()], [*eight.values()], rtol=1e-5)


def test_a_process_fills_its_groups_alike():
  plain, *_ = test_batcher.make_batcher(2)
  batcher = dataclasses.replace(plain, augment=make(deletion=0.5))
  half = dataclasses.replace(batcher, held=lambda count: np.arange(count // 2))
  whole, part = batcher(1)[0], half(1)[0]
  for name in ('token_ids', 'segment_ids', 'first_index'):
    np.testing.assert_array_equal(
        getattr(whole.sequences['shared'], name)[:1],
        getattr(part.sequences['shared'], name)[:1])


@pytest.mark.parametrize(('changes', 'message'), [
    ({'word_deletion': 1.0}, 'data.word_deletion=1.0: '),
    ({'word_masking': -0.1}, 'data.word_masking=-0.1: '),
    ({'word_deletion': 0.5, 'word_masking': 0.6}, 'a word has one fate'),
    ({'augmented': 'query'}, 'is for data.word_deletion, word_replacement or'),
    ({'augmented': 'both sides', 'word_masking': 0.1}, 'must be one of both'),
])
def test_rates_that_are_none(tmp_path, changes, message):
  with pytest.raises(errors.UserError, match=message):
    config_lib.parse(tiny.make_config(tmp_path, **{
        f'data__{key}': value for key, value in changes.items()}))


def test_a_vocabulary_without_a_mask(tmp_path):
  tiny.write_model(tmp_path)
  text = (tmp_path / 'tokenizer.json').read_text().replace('[MASK]', '[other]')
  json.loads(text)
  (tmp_path / 'tokenizer.json').write_text(text)
  model = by_name.load_as_it_comes(str(tmp_path), 0)
  with pytest.raises(errors.UserError, match=(
      r'data.word_masking=0.1: the tokenizer of the model has no \[MASK\] or')):
    word_table.augmentation_of(
        config_lib.DataConfig(word_masking=0.1), 0, model)


def test_rerankers_are_augmented_too(tmp_path):
  config = tiny.make_config(
      tmp_path, job='train_reranker', negatives__sources=('bm25:2',),
      negatives__mined_dir=str(tmp_path / 'mined'), data__word_deletion=0.3)
  from neg_contrast.artifacts import plan

  job = train_reranker.TrainRerankerJob(
      config_lib.parse(config), tmp_path / 'work')
  plan.run([*job.run.needs().values()])
  batcher, _ = job.run.training()._make_batch()
  assert batcher.augment.deletion == 0.3
  batcher(0)
