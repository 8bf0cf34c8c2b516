"""tensorflow-datasets' own Beam writer, beside ours, on the same passages.

    .venv/bin/python launch/benchmarks/benchmark_tfds_writer.py 200000

Writes synthetic passages as `benchmark_prepare.py` does, and has Beam's
DirectRunner prepare them with two workers: reading, ids by GroupByKey, row
numbers, shards of rows, equal texts. Then it gives the stored rows to
`BeamWriter`, numbered and serialized already, to write the same shards again:
it groups all records by shard, and sorts each shard in memory. Prints time, CPU
time and memory of both, and whether the files are equal. Needs psutil and
launch/requirements-beam.txt.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

import benchmark_prepare

_ROOT = pathlib.Path(__file__).parents[2]
_PREPARE = '''
import pathlib, sys
from neg_contrast import beams, hosts
from neg_contrast.data import preparation
hosts.usable_cores = lambda: 2
beams.choose('direct')
preparation.prepare('beir:' + sys.argv[1], pathlib.Path(sys.argv[2]), False)
'''
_WRITE = '''
import pathlib, sys
import apache_beam as beam
import tensorflow_datasets as tfds
from apache_beam.options import pipeline_options
from tensorflow_datasets.core import file_adapters, writer
from tensorflow_datasets.core.utils import shard_utils
from neg_contrast.data import tfds_records

PART = 10_000
SHARD = tfds_records.ROWS_PER_SHARD


class Serialized:
  example_specs = None

  def serialize_example(self, example):
    return example


def read(begin, folder, count):
  source = tfds.builder_from_directory(folder).as_data_source(
      'rows', deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES)
  # It divides keys from 0 to the largest evenly: the last shard's end there.
  last = (count - 1) // SHARD
  shift = (last + 1) * SHARD - count
  for row in range(begin, min(begin + PART, count)):
    yield row + (shift if row // SHARD == last else 0), source.data_source[row]


if __name__ == '__main__':
  (prepared,) = pathlib.Path(sys.argv[1]).glob('*/passages')
  folder = pathlib.Path(sys.argv[2])
  folder.mkdir()
  count = len(tfds_records.Rows(prepared))
  made = writer.BeamWriter(
      Serialized(),
      tfds.core.ShardedFileTemplate(
          data_dir=folder, dataset_name='text_records', split='rows',
          filetype_suffix='array_record'),
      '', True,
      writer.ExampleWriter(file_adapters.FileFormat.ARRAY_RECORD),
      shard_utils.ShardConfig(num_shards=-(-count // SHARD)))
  options = pipeline_options.PipelineOptions([
      '--runner=DirectRunner', '--direct_running_mode=multi_processing',
      '--default_sdk_harness_log_level=ERROR', '--direct_num_workers=2',
      '--save_main_session'])
  with beam.Pipeline(options=options) as pipeline:
    made.write_from_pcollection(
        pipeline | beam.Create(range(0, count, PART)) | beam.Reshuffle()
        | beam.FlatMap(read, str(prepared), count))
'''


def main() -> None:
  """Measures and prints a Markdown table."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('passages', type=int)
  parser.add_argument('--folder', type=pathlib.Path)
  args = parser.parse_args()
  sys.path.insert(0, str(_ROOT))
  root = pathlib.Path(tempfile.mkdtemp(dir=args.folder))
  try:
    benchmark_prepare.write_corpus(root / 'data', args.passages)
    print('| what | time | CPU | µs CPU a passage | memory |')
    print('|---' * 5 + '|')
    for what, code, *places in (
        ('prepare, shards by ours', _PREPARE, root / 'data', root / 'ours'),
        ("shards alone, by tensorflow-datasets' BeamWriter", _WRITE,
         root / 'ours', root / 'theirs'),
    ):
      # Beam's workers import it by its name.
      program = places[1].with_suffix('.py')
      program.write_text(code)
      seconds, seen = benchmark_prepare.measure(
          what, *map(str, (program, *places)), PYTHONPATH=str(_ROOT))
      print(f'| {what} | {seconds:.0f} s | {seen.cpu:.0f} s | '
            f'{seen.cpu / args.passages * 1e6:.0f} | '
            f'{seen.own / 2**20:,.0f} MiB |', flush=True)
    ours = {path.name: path.read_bytes()
            for path in root.glob('ours/*/passages/*array_record*')}
    theirs = {path.name: path.read_bytes()
              for path in root.glob('theirs/*array_record*')}
    print(f'{len(ours)} and {len(theirs)} shards,',
          'equal' if ours == theirs else 'not equal')
  finally:
    shutil.rmtree(root)


if __name__ == '__main__':
  main()
