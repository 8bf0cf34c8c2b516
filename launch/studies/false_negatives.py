"""Two guards against false negatives, where many passages fit a question.

BM25 negatives as in negatives.py, without the mask of known positives, and
without candidates that score above 0.9 of the positive's score.
"""

from negatives import METRICS, WARM, mine, train
from study import Line, Run, Study

RUNS: dict[str, Run] = {
    'warm start': WARM,
    'mine bm25': mine('bm25'),
    'mine margin': mine('bm25', negatives__relative_margin=0.1),
    'train random': train('random'),
    'train bm25': train('bm25', 'mine bm25'),
    'train unmasked': train('bm25', 'mine bm25',
                            loss__mask_known_positives=False),
    'train margin': train('bm25', 'mine margin'),
}

STUDY = Study(
    runs=RUNS,
    lines={
        'warm start': Line('warm start'), 'random': Line('train random'),
        **{name: Line(f'train {name}', versus='random')
           for name in ('bm25', 'unmasked', 'margin')},
    },
    metrics=METRICS, shown='mean rank',
    pool=(('warm start', 'bm25'), ('warm start', 'trained')),
)
