"""A stand-in for the hub, on 127.0.0.1: the few endpoints of an upload, and of
reading data sets file by file."""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

TOKEN = 'hf_of_a_test'


class Hub(http.server.ThreadingHTTPServer):
  """Repositories in memory.

  Attributes:
    files: repository -> path -> bytes, of the last commit.
    commits: (repository, branch, message) each.
    private: repository -> whether.
    refuse: path's beginning -> (status, message); tried before all else.
    seen: (method, path) of all requests.
  """

  daemon_threads = True

  def __init__(self):
    super().__init__(('127.0.0.1', 0), _Handler)
    self.files, self.commits, self.private = {}, [], {}
    self.objects, self.refuse, self.seen = {}, {}, []

  @property
  def url(self):
    return f'http://127.0.0.1:{self.server_address[1]}'


@contextlib.contextmanager
def running():
  """A hub that answers while the block runs."""
  with Hub() as hub:
    thread = threading.Thread(target=hub.serve_forever, args=(0.05,))
    thread.start()
    try:
      yield hub
    finally:
      hub.shutdown()
      thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  server: Hub

  def log_message(self, *args):
    pass

  def do_POST(self):
    body = self._begin()
    if body is None:
      return
    path = self.path.partition('?')[0]
    if path == '/api/repos/create':
      self._create(json.loads(body))
    elif path == '/api/validate-yaml':
      self._answer(200, {'warnings': [], 'errors': []})
    elif found := re.fullmatch(r'/api/models/(.+)/preupload/(.+)', path):
      self._answer(200, {'files': [{
          'path': one['path'], 'shouldIgnore': False, 'oid': None,
          'uploadMode': 'lfs' if one['path'].endswith('.safetensors')
          else 'regular',
      } for one in json.loads(body)['files']]})
    elif re.fullmatch(r'/(.+)\.git/info/lfs/objects/batch', path):
      self._answer(200, {'transfer': 'basic', 'objects': [{
          **one, 'actions': {'upload': {
              'href': f'{self.server.url}/lfs/{one["oid"]}'}},
      } for one in json.loads(body)['objects']]})
    elif found := re.fullmatch(r'/api/models/(.+)/commit/(.+)', path):
      repo, branch = found.groups()
      self._commit(repo, branch, body)
    else:
      self._answer(404, {'error': 'no such endpoint'})

  def do_GET(self):
    if self._begin() is None:
      return
    path, _, query = self.path.partition('?')
    found = re.fullmatch(
        r'(/api)?/datasets/([^/]+/[^/]+)(?:/(tree|resolve)/main/?(.*))?', path)
    files = self.server.files.get(found[2]) if found else None
    if found is None or files is None:
      self._answer(404, {'error': 'Repository not found'})
    elif found[3] == 'tree':
      self._answer(200, _tree(
          files, urllib.parse.unquote(found[4]), 'recursive=true' in query))
    elif found[3] == 'resolve':
      self._send(200, files[urllib.parse.unquote(found[4])])
    else:
      self._answer(200, {'id': found[2], 'sha': '0' * 40, 'siblings': []})

  def do_PUT(self):
    body = self._read()
    name = self.path.removeprefix('/lfs/')
    is_whole = hashlib.sha256(body).hexdigest() == name
    self.server.objects[name] = body
    self._answer(200 if is_whole else 400, {})

  def _read(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      body = b''
      while size := int(self.rfile.readline(), 16):
        body += self.rfile.read(size)
        self.rfile.readline()
      self.rfile.readline()
      return body
    return self.rfile.read(int(self.headers.get('Content-Length') or 0))

  def _begin(self):
    """The body, unless the request is refused."""
    body = self._read()
    self.server.seen.append((self.command, self.path))
    for beginning, (status, message) in self.server.refuse.items():
      if self.path.startswith(beginning):
        self._answer(status, {'error': message})
        return None
    if self.headers.get('Authorization') != f'Bearer {TOKEN}':
      self._answer(401, {'error': 'Invalid credentials'})
      return None
    return body

  def _create(self, asked):
    repo = '/'.join(filter(None, (asked.get('organization', 'me'),
                                  asked['name'])))
    is_new = repo not in self.server.files
    if is_new:
      self.server.files[repo] = {}
      self.server.private[repo] = (
          asked.get('visibility') == 'private' or asked.get('private'))
    self._answer(200 if is_new else 409, {
        'url': f'{self.server.url}/{repo}', 'name': repo,
        'error': None if is_new else 'You already created this model repo'})

  def _commit(self, repo, branch, body):
    lines = [json.loads(line) for line in body.decode().splitlines()]
    header = lines[0]['value']
    for one in lines[1:]:
      value = one['value']
      self.server.files[repo][value['path']] = (
          base64.b64decode(value['content']) if one['key'] == 'file'
          else self.server.objects[value['oid']])
    self.server.commits.append((repo, branch, header['summary']))
    self._answer(200, {
        'commitUrl': f'{self.server.url}/{repo}/commit/{"0" * 40}',
        'commitOid': '0' * 40, 'success': True})

  def _answer(self, status, value):
    headers = {}
    if status >= 400 and value.get('error'):
      headers['X-Error-Message'] = value['error']
    if status == 404:
      headers['X-Error-Code'] = 'RepoNotFound'
    self._send(status, json.dumps(value).encode(),
               {'Content-Type': 'application/json', **headers})

  def _send(self, status, data, headers=None):
    self.send_response(status)
    self.send_header('Content-Length', str(len(data)))
    for name, value in (headers or {}).items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(data)


def _tree(files, folder, is_recursive):
  """What lies in a folder, as the hub lists it."""
  start = f'{folder}/' if folder else ''
  found = {}
  for path, data in files.items():
    name, _, rest = path.removeprefix(start).partition('/')
    if not path.startswith(start):
      continue
    if rest and not is_recursive:
      found[start + name] = {'type': 'directory', 'path': start + name,
                             'oid': '0' * 40, 'size': 0}
    else:
      found[path] = {'type': 'file', 'path': path, 'size': len(data),
                     'oid': hashlib.sha1(data).hexdigest()}
  return list(found.values())
