"""The parts of a config that rooms get: no room sees the whole."""

from neg_contrast.retrieval import encoding as encoding_lib
from neg_contrast.retrieval import search_settings
from neg_contrast.settings import config as config_lib


def encoding(config: config_lib.Config) -> encoding_lib.EncodingSettings:
  """How models encode."""
  return encoding_lib.EncodingSettings(
      config.model, config.index, config.mesh, config.data.row_length
  )


def search(config: config_lib.Config) -> search_settings.SearchSettings:
  """How passages are searched, as deep as an evaluation looks."""
  return search_settings.SearchSettings(
      config.index, config.mesh, config.evaluation.depth
  )
