"""The one exception type that stands for a user's mistake."""


class UserError(Exception):
  """Bad input, config or environment: something the user can put right.

  `main` prints the message alone, without a traceback, and exits with 2. The
  message names the place (file, line, key or id) and the remedy.
  """
