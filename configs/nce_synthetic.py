"""Why hard negatives work, in numbers: Figure 1 of Zhang and Stratos (2021).

    python -m neg_contrast.main --config=configs/nce_synthetic.py

A population over 1,000 labels with little entropy; a network with one ReLU
layer, trained by cross-entropy on 128 iid labels an update. NCE is only
measured: at each update the cross-entropy exactly, and NCE with 4 negatives,
hard and random, by 10 draws (section 6.4). Half a minute on a CPU. In the
workdir: `figure-loss.svg` and `figure-bias.svg`, the two panels; `curves.json`,
every update; `metrics.json`, the last one.

Expected, as in the paper's figure: hard NCE follows the cross-entropy to the
entropy of the population, random NCE goes to zero; the bias of hard NCE becomes
small, that of random NCE does not. Three things the figure does not tell:

* 10 draws leave an error in the bias whose norm adds to what is plotted.
  `unbiased` in the table has none (two halves of the draws, multiplied; a minus
  means that the square came out below 0: nothing is left).
* What remains of the bias of hard NCE is bounded by the mass that candidates
  miss (neg_contrast/bias/score_bias.py), so it vanishes only as far as five
  labels hold the population. That is why the temperature is 0.0005 (entropy
  0.69 nats) and not 0.001, which gives 1.48 with this seed, and a bias that
  ends at 2.3.
* At p = pop exactly uniform negatives have no bias either: given the K
  candidates, π is then the posterior of the gold
  (tests/bias/test_score_bias.py). That of random NCE remains because 128 labels
  an update keep the model beside the population, where its gradient is blind to
  what it does wrong.

What the paper leaves open is set as in its published code
(github.com/WenzhengZhang/hard-nce-el, gradient-bias/main.py): the population is
a softmax of uniform numbers in [0, 1] (over 0.001 there); the input is a
learned vector of 300, the layer has 300 units, all begun as PyTorch does; Adam
at 0.001, 30 updates; the expectation over golds is exact and the draws are ten
for each (here the golds that have all but a millionth of the mass); hard
negatives are drawn one after another without replacement, which section 6.3
describes, and not from equation 8. Random numbers are other ones.

Other kinds and lengths: --config.nce.percents="(0,50,100)",
--config.optim.steps=300.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.job = 'nce_synthetic'
  config.data.batch_size = 128
  config.nce.percents = (100, 0)
  config.nce.negatives = 4
  config.nce.draws = 10
  config.nce.labels = 1000
  config.nce.temperature = 0.0005
  config.nce.hidden = 300
  config.optim.learning_rate = 1e-3
  config.optim.steps = 30
  return config
