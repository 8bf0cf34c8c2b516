"""Decoding against transformers, against decoding without a cache, and laws."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from neg_contrast.models import decoding, pretrained, t5
from neg_contrast.models import token_sampling as sampling
from tests.models import test_t5, test_token_sampling

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

MAX_TOKENS = 9
SEEDS = 4
EOS = 1
generate = test_t5.jit(decoding.generate, static_argnums=(0, 5))
SOURCES = [source for source, _ in test_t5.pairs()]


def keys(numbers):
  return jax.vmap(jax.random.key)(jnp.asarray(numbers, jnp.uint32))


def decode(config, params, sources, settings, width=None, numbers=None):
  """Targets and scores of sources whose keys are their numbers."""
  ids, segment_ids = test_t5.padded(sources, width)
  numbers = range(len(sources)) if numbers is None else numbers
  out = generate(
      t5.T5(config), params, ids, segment_ids, keys(numbers), settings)
  return np.asarray(out.token_ids), np.asarray(out.scores)


def reference_targets(reference, sources, **kwargs):
  """Targets `[rows, samples, tokens]`, filled up with 0, and scores.

  Their cache is off: theirs has as many layers as the encoder.
  """
  ids, mask = map(torch.tensor, test_t5.padded(sources))
  with torch.no_grad():
    out = reference.generate(
        input_ids=ids.long(), attention_mask=mask, do_sample=False,
        max_new_tokens=MAX_TOKENS, use_cache=False, output_scores=True,
        return_dict_in_generate=True, **kwargs)
  made = np.zeros((out.sequences.shape[0], MAX_TOKENS), np.int64)
  tokens = out.sequences[:, 1:].numpy()
  made[:, :tokens.shape[1]] = tokens
  made[is_after_end(made)] = 0  # Theirs is filled with the end if that is 0.
  return made.reshape(len(sources), -1, MAX_TOKENS), out


def is_after_end(tokens, end=EOS):
  return np.cumsum(tokens == end, -1) - (tokens == end) > 0


def make_usual(reference, folder, token):
  """Lets `token` and the end change places, so that targets do end."""
  with torch.no_grad():
    for weight in {reference.shared.weight, reference.lm_head.weight}:
      weight[[EOS, token]] = weight[[token, EOS]]
  reference.save_pretrained(folder)
  return pretrained.load_t5(str(folder))


@pytest.fixture(scope='module', params=['v1.0', 'v1.1'])
def models(request, tmp_path_factory):
  """Random models whose targets often end."""
  made = []
  for seed in range(SEEDS):
    folder = tmp_path_factory.mktemp('model')
    reference = test_t5.make_reference(
        folder, seed, **test_t5.VERSIONS[request.param])
    with torch.no_grad():  # Else targets repeat what they began with.
      for name, weight in reference.decoder.named_parameters():
        if name.endswith(('.o.weight', '.wo.weight')):
          weight.mul_(4)
    tokens = reference_targets(reference, SOURCES)[0]
    usual = np.bincount(tokens[:, :, 2:].ravel(), minlength=41)[2:].argmax() + 2
    made.append((reference, make_usual(reference, folder, int(usual))))
  return made


def test_greedy_equals_transformers(models):
  kept, ended = 0, 0
  for reference, loaded in models:
    theirs, out = reference_targets(reference, SOURCES, num_beams=1)
    best = torch.stack(out.scores, 1).log_softmax(-1).topk(2).values.numpy()
    is_step = ~is_after_end(theirs[:, 0])[:, :best.shape[1]]
    gaps = np.where(is_step, best[..., 0] - best[..., 1], 1).min(1)
    ours, scores = decode(loaded.config, loaded.params, SOURCES,
                          decoding.Decoding(max_tokens=MAX_TOKENS))
    is_clear = gaps > 1e-4
    np.testing.assert_array_equal(ours[is_clear], theirs[is_clear])
    np.testing.assert_allclose(
        scores[is_clear, 0],
        np.where(is_step, best[..., 0], 0).sum(1)[is_clear], atol=1e-4)
    kept += is_clear.sum()
    ended += (theirs == EOS).any(-1).sum()
  total = SEEDS * len(SOURCES)
  assert kept > 0.9 * total and 0.2 * total < ended < total


def watch_gaps(reference, monkeypatch):
  """What separates the candidates of each row, as they are compared."""
  gaps = {}

  def note(scores):
    scores = scores.sort(-1, descending=True).values
    gap = (scores[:, :-1] - scores[:, 1:]).masked_fill(scores[:, 1:] < -1e8, 1)
    gaps['least'] = np.minimum(
        gaps.get('least', 1), gap.min(-1).values.numpy())

  def continuations(**kwargs):
    count = kwargs['beams_to_keep'] + 1
    note(kwargs['accumulated_log_probs'].topk(count).values)
    return type(reference)._get_top_k_continuations(reference, **kwargs)

  def finished(**kwargs):
    out = type(reference)._update_finished_beams(reference, **kwargs)
    note(out[1])
    return out

  monkeypatch.setattr(reference, '_get_top_k_continuations', continuations)
  monkeypatch.setattr(reference, '_update_finished_beams', finished)
  return gaps


@pytest.mark.parametrize('settings', [
    dict(beams=3, samples=2),
    dict(beams=4, samples=2, length_penalty=0.3),
    dict(beams=3, samples=3, length_penalty=2.5, early_stopping=True),
])
def test_beams_equal_transformers(models, settings, monkeypatch):
  kept, ended, lengths = 0, 0, set()
  for reference, loaded in models:
    gaps = watch_gaps(reference, monkeypatch)
    theirs, out = reference_targets(
        reference, SOURCES, num_beams=settings['beams'],
        num_return_sequences=settings['samples'],
        length_penalty=settings.get('length_penalty', 1.0),
        early_stopping=settings.get('early_stopping', False))
    ours, scores = decode(
        loaded.config, loaded.params, SOURCES,
        decoding.Decoding('beam', max_tokens=MAX_TOKENS, **settings))
    is_clear = gaps['least'] > 1e-4
    np.testing.assert_array_equal(ours[is_clear], theirs[is_clear])
    np.testing.assert_allclose(
        scores[is_clear], out.sequences_scores.reshape(scores.shape)[is_clear],
        rtol=1e-5, atol=1e-5)
    kept += is_clear.sum()
    ended += (theirs == EOS).any(-1).sum()
    lengths |= set((~is_after_end(theirs)).sum(-1).ravel().tolist())
  total = SEEDS * len(SOURCES)
  assert kept > 0.7 * total
  assert ended > 0.3 * total * settings['samples'] and len(lengths) > 2


def test_a_step_equals_a_whole_pass():
  """Several targets of a source, one of them shorter than the others."""
  config, params = test_t5.random_t5()
  rng = np.random.default_rng(4)
  source, is_source = test_t5.padded(SOURCES[:3])
  target = rng.integers(2, 41, (3, 2, 17)).astype(np.int32)
  module = t5.T5(config, scan_unroll=2)
  apply = functools.partial(module.apply, {'params': params})

  @test_t5.jit
  def stepped():
    hidden = apply(source, is_source, True, method='encode')
    cache = apply(hidden, is_source, 2, 20, method='start')

    def step(cache, inputs):
      logits, cache = apply(cache, *inputs, method='step')
      return cache, logits

    tokens = jnp.moveaxis(target, -1, 0)
    return jax.lax.scan(step, cache, (tokens, jnp.arange(17)))[1]

  got = np.moveaxis(stepped(), 0, 2)
  for number in range(2):
    want = test_t5.logits_of(module, params, (
        source, is_source, target[:, number], np.ones((3, 17), np.int32)))
    test_t5.assert_close(got[:, number], np.asarray(want))


def test_greedy_equals_decoding_without_a_cache():
  config, params = test_t5.random_t5(True, eos_id=31, pad_id=3)
  module = t5.T5(config)
  source = test_t5.padded(SOURCES)
  tokens = np.zeros((len(SOURCES), 24), np.int32)
  is_done = np.zeros(len(SOURCES), bool)
  want = np.full((len(SOURCES), 23), 3)
  total = np.zeros(len(SOURCES))
  for i in range(23):
    logits = test_t5.logits_of(
        module, params, (*source, tokens, np.ones_like(tokens)))[:, i]
    best = np.asarray(logits.argmax(-1))
    gained = np.asarray(jax.nn.log_softmax(logits)).max(-1)
    want[~is_done, i], tokens[:, i + 1] = best[~is_done], best
    total += np.where(is_done, 0, gained)
    is_done |= best == 31
  assert is_done.tolist() == [True, True, False, False, False]
  got, scores = decode(
      config, params, SOURCES, decoding.Decoding(max_tokens=23))
  np.testing.assert_array_equal(got[:, 0], want)
  np.testing.assert_allclose(scores[:, 0], total, rtol=1e-5)


SAMPLED = decoding.Decoding('sample', 4, 9, temperature=1.5, top_p=0.95)


def test_samples_depend_on_key_number_and_place_only():
  config, params = test_t5.random_t5(True, eos_id=11)
  run = functools.partial(decode, config, params)
  tokens, _ = run(SOURCES, SAMPLED)
  assert len(np.unique(tokens.reshape(-1, 9), axis=0)) > 15  # Of 20.
  order, longer = [3, 0, 4], dataclasses.replace(SAMPLED, max_tokens=12)
  part, _ = run([SOURCES[i] for i in order], longer, 31, order)
  np.testing.assert_array_equal(part[:, :, :9], tokens[order])
  others, _ = run(SOURCES, SAMPLED, numbers=range(10, 15))
  assert (others != tokens).any(-1).mean() > 0.7


def test_devices_change_nothing():
  config, params = test_t5.random_t5(True, eos_id=11)
  sources = [*SOURCES, *SOURCES[:3]]
  want, _ = decode(config, params, sources, SAMPLED)
  mesh = jax.make_mesh((8,), ('data',), axis_types=(AxisType.Auto,))
  split = NamedSharding(mesh, PartitionSpec('data'))
  run = test_t5.jit(
      lambda ids, segments, words: decoding.generate(
          t5.T5(config), params, ids, segments, words, SAMPLED),
      in_shardings=split)
  got = run(*test_t5.padded(sources), keys(range(8))).token_ids
  assert len(got.sharding.device_set) == 8
  np.testing.assert_array_equal(got, want)


def test_scores_are_log_probabilities_of_the_model():
  config, params = test_t5.random_t5(True, eos_id=8, pad_id=3)
  tokens, scores = decode(config, params, SOURCES, SAMPLED)
  is_after = is_after_end(tokens, 8)
  assert (tokens[is_after] == 3).all() and 0.2 < is_after.mean() < 0.9
  source = test_t5.padded(SOURCES)
  for number in range(SAMPLED.samples):
    made = tokens[:, number]
    before = np.pad(made, ((0, 0), (1, 0)))[:, :-1]
    logits = test_t5.logits_of(
        t5.T5(config), params, (*source, before, np.ones_like(made)))
    each = np.take_along_axis(
        np.asarray(jax.nn.log_softmax(logits)), made[..., None], -1)[..., 0]
    want = np.where(is_after[:, number], 0, each).sum(1)
    np.testing.assert_allclose(scores[:, number], want, rtol=1e-5, atol=1e-5)


def test_samples_follow_the_model():
  """Pairs of first tokens come as often as the model and the cut say."""
  config, params = test_t5.random_t5(True, eos_id=11)
  settings = decoding.Decoding(
      'sample', 4000, 2, temperature=3.0, top_k=4, top_p=0.9)
  tokens, _ = decode(config, params, SOURCES[:2], settings)
  source = test_t5.padded(SOURCES[:2])

  cut = test_t5.jit(lambda logits: sampling.candidates(
      logits, settings.temperature, settings.top_k, settings.top_p))

  def probabilities(first):
    before = np.array([[0, t] for t in first], np.int32)
    logits = test_t5.logits_of(
        t5.T5(config), params, (*source, before, np.ones_like(before)))
    weights, ids = cut(logits)
    out = np.zeros(logits.shape)
    np.put_along_axis(out, np.asarray(ids), np.asarray(weights), -1)
    return out / out.sum(-1, keepdims=True)

  for row in range(2):
    first = probabilities([0, 0])[row, 0]
    assert (first > 0).sum() > 2
    for token in np.flatnonzero(first):
      is_token = tokens[row, :, 0] == token
      test_token_sampling.assert_frequency(is_token.mean(), first[token], 4000)
      if token == 11:
        continue
      second = probabilities([token, token])[row, 1]
      got = np.bincount(tokens[row, is_token, 1], minlength=41)
      assert not got[second == 0].any()
      test_token_sampling.assert_frequency(got / got.sum(), second, got.sum())
    assert not np.isin(tokens[row, :, 0], np.flatnonzero(first == 0)).any()


@pytest.mark.parametrize('settings', [
    decoding.Decoding(max_tokens=40),
    decoding.Decoding('beam', 2, 40, beams=3, early_stopping=True),
])
def test_the_loop_ends_when_all_rows_have(settings, monkeypatch):
  """Rows without a source don't keep it going, and get nothing."""
  config, params = test_t5.random_t5(True, eos_id=11, pad_id=3)
  steps, plain = [], t5.T5.step

  def counted(self, cache, token_ids, index):
    jax.debug.callback(lambda index: steps.append(int(index)), index)
    return plain(self, cache, token_ids, index)

  monkeypatch.setattr(t5.T5, 'step', counted)
  ids, segment_ids = test_t5.padded([*SOURCES[:1], []])
  run = test_t5.jit(lambda params: decoding.generate(
      t5.T5(config), params, ids, segment_ids, keys([0, 1]), settings))
  head = params['embeddings']['word']['embedding']
  for scale in (1, 6):  # A long embedding of the end makes it likely.
    steps.clear()
    likely = {**params, 'embeddings': {'word': {
        'embedding': head.at[11].mul(scale)}}}
    out = run(likely)
    jax.effects_barrier()
    lengths = np.asarray(out.token_ids != 3).sum(-1)
    assert sorted(steps) == list(range(len(steps)))
    assert (out.token_ids[1] == 3).all() and (out.scores[1] == 0).all()
    if settings.method == 'greedy':
      assert len(steps) == lengths[0, 0]
    assert (len(steps) < 40) == (scale == 6)


@pytest.mark.parametrize('name,kwargs', [
    ('method', dict(method='best')), ('samples', dict(samples=0)),
    ('max_tokens', dict(max_tokens=0)), ('temperature', dict(temperature=0.0)),
    ('top_k', dict(top_k=-1)), ('top_p', dict(top_p=0.0)),
    ('top_p', dict(top_p=1.5)), ('beams', dict(method='beam', beams=0)),
    ('samples', dict(method='beam', beams=2, samples=3)),
    ('samples', dict(method='greedy', samples=2)),
])
def test_ranges(name, kwargs):
  with pytest.raises(ValueError, match=f'^{name}='):
    decoding.Decoding(**kwargs)
