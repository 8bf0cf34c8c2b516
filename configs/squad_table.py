"""Tables 2 and 4 of Lu et al. for SQuAD: the grid, ensembles and baselines.

    python -m neg_contrast.main \
        --config=configs/squad_table.py:corpus=wikipedia

Trains and evaluates {stage 1 with hard negatives, without, no stage 1} x
{random, coarse, fine, bm25, context, mixed} and DPR (Single), puts the
two-stage models of coarse, fine, bm25 and context together by embedding and
rank fusion, and BM25 with DPR (Single), and prints the table in the paper's
layout with the paper's numbers (`table.md`, `table.tex`, `report.html`). What
is there already is not done again; `--plan` lists it. DPR ours is the cell {no
stage 1} x {bm25}.

The paper searches 21,015,324 Wikipedia passages (`corpus=wikipedia`). With
`corpus=squad` the corpus is SQuAD's own paragraphs, so that the numbers are not
comparable, and the table says so. Hardware of the paper: a 4x4 TPU v3 slice;
hours are not given there, not measured here.

Arguments, as in `squad_table.py:size=small`:
  size: `full` (the paper's values; generator and stage 1 are those of Natural
    Questions), or `small`: two layers of all-MiniLM-L6-v2, 128 tokens, 16 steps
    of 16, and a generator trained here on SQuAD itself, our variant.

  corpus: `squad` (SQuAD's own paragraphs) or `wikipedia` (DPR's SQuAD questions
    and the passages of the paper).

Every cell is a config: `--config.cells.none.fine.optim.steps=...`. What all
share is set at the top (`--config.optim.steps=...`), what a group shares in
stage 1 in its first cell: `--config.cells.generated.random.stage1.optim.steps`.
Both groups share a generator: `...random.stage1.generator.optim.steps`.
"""

from neg_contrast import table_preset


def get_config(arg=None):
  """Takes `size`, `corpus`."""
  return table_preset.make_table(
      __file__, arg, stage1='nq', datasets=('squad',), corpus='squad'
  )
