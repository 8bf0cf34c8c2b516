import gzip
import json
import weakref

import numpy as np
import pytest

from neg_contrast.data import answers
from neg_contrast.evaluation import dpr_results

RESULTS = [
    dpr_results.Result('who wrote "it"?', ['Homer', 'é\u2028'], [
        dpr_results.Passage('wiki:7', 'Homer', 'By nobody,\nit seems.', 0.1),
        dpr_results.Passage('wiki:8', '', 'By HOMER.', -2.5e-7),
    ]),
    dpr_results.Result('where?', (), ()),
    dpr_results.Result('when?', ['19[0-9]{2}'], [
        dpr_results.Passage('1', 'T', 'In 1901.', 1e20),
    ]),
]


@pytest.mark.parametrize('rule', ['string', 'regex'])
@pytest.mark.parametrize('name', ['out.json', 'out.json.gz'])
def test_reads_back(tmp_path, name, rule):
  dpr_results.write(tmp_path / name, iter(RESULTS), rule)
  opened = gzip.open if name.endswith('gz') else open
  with opened(tmp_path / name, 'rt', encoding='ascii') as f:
    text = f.read()
  found = json.loads(text)
  assert text == json.dumps(found, indent=4) + '\n'  # As DPR writes it.
  assert found == [
      {
          'question': result.question,
          'answers': list(result.answers),
          'ctxs': [
              {
                  'id': passage.id, 'title': passage.title,
                  'text': passage.text, 'score': str(np.float32(passage.score)),
                  'has_answer': answers.has_answer(
                      passage.text, result.answers, rule
                  ),
              }
              for passage in result.passages
          ],
      }
      for result in RESULTS
  ]
  hits = [[passage['has_answer'] for passage in item['ctxs']] for item in found]
  assert hits == [[False, True], [], [rule == 'regex']]
  scores = [float(passage['score']) for passage in found[0]['ctxs']]
  assert np.array_equal(np.float32(scores), np.float32([0.1, -2.5e-7]))
  assert found[0]['ctxs'][0]['score'] == '0.1'


def test_nothing_found_for_no_question(tmp_path):
  dpr_results.write(tmp_path / 'out.json', [])
  assert (tmp_path / 'out.json').read_text() == '[]\n'


def test_one_result_is_in_memory_at_a_time(tmp_path):
  made = []

  def results():
    for i in range(5):
      assert sum(ref() is not None for ref in made) <= 1  # That being read.
      result = dpr_results.Result(f'question {i}', (), ())
      made.append(weakref.ref(result))
      yield result
      del result

  dpr_results.write(tmp_path / 'out.json', results())
  assert len(made) == 5


@pytest.mark.parametrize('score', [np.nan, -np.inf])
def test_broken_scores_leave_the_old_file(tmp_path, score):
  path = tmp_path / 'out.json'
  path.write_text('old')
  broken = dpr_results.Passage('p', '', 'text', score)
  with pytest.raises(ValueError, match="passage 'p' has .* for 'which\\?'"):
    dpr_results.write(path, [
        *RESULTS, dpr_results.Result('which?', ['a'], [broken])
    ])
  assert path.read_text() == 'old'
  assert list(tmp_path.iterdir()) == [path]
