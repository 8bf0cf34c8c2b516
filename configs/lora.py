"""LoRA (Hu et al., 2021): small matrices are trained, the model stays as it is.

    python -m neg_contrast.main --config=configs/lora.py --workdir=workdirs/lora

On the documentation of the Python standard library, with MiniLM. For a larger
model name it, `--config.model.init=Qwen/Qwen3-Embedding-0.6B`, and the kernels
that are adapted, `--config.model.lora_targets="('all',)"`; half the memory for
its frozen kernels takes `--config.model.lora_frozen_dtype=bfloat16`. What that
saves: neg_contrast/models/README.md, "LoRA".

Rates for LoRA are about ten times those of full training. Checkpoints hold what
is trained; the workdir needs the model that it began with, as it was.
`configs/export.py` writes the merged model, and the adapters for the library
peft.

Reproduces no row of a paper.
"""

from neg_contrast.settings import config as config_lib


def get_config(arg=None):
  """Takes no argument."""
  config_lib.arguments(arg)
  config = config_lib.base_config()
  config.data.source = 'python_docs'
  config.data.tune_split = 'tune'
  config.data.batch_size = 64
  config.model.init = 'minilm'
  config.model.query_length = 64
  config.model.passage_length = 128
  config.model.lora_rank = 8
  config.optim.optimizer = 'adamw'
  config.optim.learning_rate = 5e-4
  config.optim.schedule = 'linear'
  config.optim.warmup_steps = 3
  config.optim.weight_decay = 0.01
  config.optim.steps = 34
  config.evaluation.eval_steps = 17
  config.checkpointing.save_steps = 17
  config.checkpointing.log_steps = 2
  return config
