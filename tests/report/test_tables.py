import dataclasses

import pytest

from neg_contrast.report import paper, tables

SMALL = paper.Size(2_067, 2_366)
TABLE = tables.Table(
    'SQuAD & more',
    ('accuracy@1', 'mrr@10'),
    (
        tables.Group('Baselines_1', (
            tables.Row('BM25 + DPR', paper={'mrr@10': 71.5}),
            tables.Row('bm25|own', {'accuracy@1': 50.26, 'mrr@10': None},
                       size=SMALL),
        )),
        tables.Group('', (
            tables.Row(
                'random', {'accuracy@1': 50.34, 'mrr@10': 60.0},
                {'accuracy@1': 50.0, 'mrr@10': 60.0}, paper.SIZES['squad'],
                comparable=True,
            ),
            tables.Row(
                'mixed', {'accuracy@1': 50.3, 'mrr@10': 59.94},
                {'accuracy@1': 52.0, 'mrr@10': 59.0}, SMALL,
                marks={'accuracy@1': '†', 'mrr@10': ''},
            ),
        )),
    ),
    paper.SIZES['squad'],
    {'†': 'better than random, p < 0.05', '‡': 'not used'},
)


def test_markdown():
  assert tables.markdown(TABLE) == r"""**SQuAD \& more**

|  | accuracy@1 | mrr@10 |
|---|---:|---:|
| *Baselines\_1* |  |  |
| BM25 + DPR | - | - (71.5) |
| bm25\|own | **50.3** | - |
| random | **50.3** (50.0, +0.3) | **60.0** (60.0, 0) |
| mixed | **50.3**† (52.0) | 59.9 (59.0) |

In percent: ours (Lu et al., difference).

† better than random, p \< 0.05

not comparable: ours 2,067 passages, 2,366 queries; Lu et al. """ + (
    '21,015,324 passages, 10,570 queries\n'
  )


def test_latex():
  assert tables.latex(TABLE) == r"""\begin{table}
  \centering
  \caption{SQuAD \& more}
  \begin{tabular}{lrr}
    \toprule
     & accuracy@1 & mrr@10 \\
    \midrule
    \multicolumn{3}{l}{\emph{Baselines\_1}} \\
    BM25 + DPR & - & - (71.5) \\
    bm25\textbar{}own & \textbf{50.3} & - \\
    \midrule
    random & \textbf{50.3} (50.0, +0.3) & \textbf{60.0} (60.0, 0) \\
    mixed & \textbf{50.3}\textsuperscript{\dag{}} (52.0) & 59.9 (59.0) \\
    \bottomrule
  \end{tabular}
  \par\footnotesize In percent: ours (Lu et al., difference).
  \par\footnotesize \dag{} better than random, p \textless{} 0.05
  \par\footnotesize not comparable: ours 2,067 passages, 2,366 queries; """ + (
    'Lu et al. 21,015,324 passages, 10,570 queries\n\\end{table}\n'
  )


def test_comparable_tables_do_not_say_otherwise():
  row = tables.Row('a', {'mrr': 3.0}, {'mrr': 4.04}, SMALL, comparable=True)
  table = tables.Table('t', ('mrr',), (tables.Group('', (row,)),), SMALL)
  assert '| **3.0** (4.0, −1.0) |' in tables.markdown(table)
  assert r'\textbf{3.0} (4.0, $-$1.0) \\' in tables.latex(table)
  assert 'not comparable' not in tables.markdown(table) + tables.latex(table)


def test_special_characters_are_escaped():
  label = '\\ ` * _ [x] <b> | & ~ $ # % { } ^ ‡\n'
  row = tables.Row(label, {'mrr': 1.0}, size=SMALL)
  table = tables.Table('t', ('mrr',), (tables.Group(label, (row,)),), SMALL)
  escaped = r'\\ \` \* \_ \[x\] \<b\> \| \& \~ \$ # % { } ^ ‡'
  assert f'\n| *{escaped}* |  |\n| {escaped} | ' in tables.markdown(table)
  escaped = (
      r'\textbackslash{} ` {*} \_ {[}x{]} \textless{}b\textgreater{} '
      r'\textbar{} \& \textasciitilde{} \$ \# \% \{ \} \textasciicircum{} '
      r'\ddag{}'
  )
  found = tables.latex(table)
  assert f'{{l}}{{\\emph{{{escaped}}}}} \\\\\n    {escaped} & ' in found


@pytest.mark.parametrize('render', [tables.markdown, tables.latex])
def test_marks_need_a_legend(render):
  with pytest.raises(ValueError, match="the mark '†' has no legend"):
    render(dataclasses.replace(TABLE, legend={'‡': 'other'}))


def test_html():
  page = tables.html(TABLE)
  assert page.count('<tr>') == 1 + sum(
      len(group.rows) + bool(group.title) for group in TABLE.groups
  )
  assert '<b>50.3</b>' in page and 'SQuAD &amp;' in page
  assert 'not comparable' in page
