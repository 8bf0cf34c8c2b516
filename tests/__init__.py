"""The type checker that shapes are checked with: an int is a float too."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
