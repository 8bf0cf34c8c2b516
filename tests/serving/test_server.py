"""The command: clients that hang or leave, a good end, and a real browser."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip('starlette')

from neg_contrast import errors
from neg_contrast.serving import server
from neg_contrast.settings import serve_settings
from tests import processes
from tests.serving import large_answers

BROWSER = next(filter(None, map(shutil.which, (
    'chromium', 'chromium-browser', 'google-chrome', 'chrome'))), None)
READ_SECONDS = 2
BUFFER_BYTES = 4096  # Of the system, for what a client has not read.
PATH_OF_LARGE_ANSWERS = '/search?query=a'


@contextlib.contextmanager
def running(served, *flags):
  """A server in a process of its own; yields it, and its port."""
  root, found = served
  source = found._dataset.prepared.manifest['spec']
  process = processes.command(
      '--config=configs/serve.py', f'--config.checkpoint={root / "model"}',
      f'--config.data.source={source}', f'--workdir={root / "work"}',
      f'--config.data.prepared_dir={root / "prepared"}',
      '--config.model.query_length=16', '--config.model.passage_length=24',
      '--config.index.chunk_tokens=512', '--config.serve.port=0',
      f'--config.serve.read_seconds={READ_SECONDS}', *flags,
      env=dict(os.environ, XLA_FLAGS=processes.with_devices(1)))
  try:
    line = next((one for one in process.lines() if 'serving at' in one), None)
    assert line, process.communicate()
    yield process, int(line.partition(';')[0].rpartition(':')[2])
  finally:
    process.kill()


@contextlib.contextmanager
def hosting_large_answers():
  """A server in a process of its own, of long passages; yields its port."""
  process = subprocess.Popen(
      [sys.executable, '-m', large_answers.__name__, str(READ_SECONDS),
       str(BUFFER_BYTES)], stdout=subprocess.PIPE, text=True)
  try:
    yield int(process.stdout.readline())
  finally:
    process.kill()
    process.communicate()


@pytest.fixture(scope='module')
def port(served):
  with running(served) as (_, port):
    yield port


def get(port, path):
  connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
  connection.request('GET', path)
  response = connection.getresponse()
  body = response.read()
  connection.close()
  return response.status, body


def seconds_until_closed(port, sent):
  """How long the server bears a client that sends this and no more."""
  with socket.create_connection(('127.0.0.1', port), timeout=60) as client:
    client.sendall(sent)
    began = time.monotonic()
    said = b''
    with contextlib.suppress(ConnectionResetError):
      while more := client.recv(65536):
        said += more
    return time.monotonic() - began, said


def test_search(port, served):
  status, body = get(port, '/search?query=word1+word2&depth=4')
  assert status == 200
  hits = json.loads(body)['results'][0]['hits']
  assert [hit['id'] for hit in hits] == [
      one.passage.id for one in served[1].find('word1 word2', 4)]


@pytest.mark.parametrize('sent', [
    b'', b'GET /search?query=a HTTP/1.1\r\nHo', b'GET'])
def test_a_client_that_sends_no_request(port, sent):
  took, said = seconds_until_closed(port, sent)
  assert READ_SECONDS / 2 < took < 15 * READ_SECONDS and not said
  assert get(port, '/health')[0] == 200


def test_a_client_that_sends_half_a_request(port):
  head = (b'POST /search HTTP/1.1\r\nHost: localhost\r\n'
          b'Content-Length: 99\r\n\r\n{')
  took, said = seconds_until_closed(port, head)
  assert READ_SECONDS / 2 < took < 15 * READ_SECONDS
  assert said.startswith(b'HTTP/1.1 408 ') and said.endswith(
      b'{"error":"the body did not arrive within 2 seconds"}')


def test_a_body_that_is_too_large(port):
  head = (b'POST /search HTTP/1.1\r\nHost: localhost\r\n'
          b'Content-Length: 99999999999\r\n\r\n')
  took, said = seconds_until_closed(port, head)
  assert took < READ_SECONDS and said.startswith(b'HTTP/1.1 413 ')


def test_who_sends_too_much_reads_why(port):
  """A connection that is closed while one sends takes the answer along."""
  connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
  connection.request('POST', '/search', b' ' * 50_000_000)
  response = connection.getresponse()
  assert response.status == 413 and b'and not more' in response.read()
  head = (b'POST /search HTTP/1.1\r\nHost: localhost\r\n'
          b'Content-Length: 50000000\r\nExpect: 100-continue\r\n\r\n')
  took, said = seconds_until_closed(port, head)
  assert took < READ_SECONDS and said.startswith(b'HTTP/1.1 413 ')


def test_no_http_at_all(port):
  _, said = seconds_until_closed(port, b'\x16\x03\x01 hello\r\n\r\n')
  assert b'400' in said
  assert get(port, '/health')[0] == 200


def test_clients_that_leave(port):
  for _ in range(20):
    with socket.create_connection(('127.0.0.1', port)) as client:
      client.sendall(b'GET /search?query=word1 HTTP/1.1\r\n'
                     b'Host: localhost\r\n\r\n')
  status, body = get(port, '/search?query=word3')
  assert status == 200 and json.loads(body)['results'][0]['query'] == 'word3'


def test_a_client_that_does_not_read():
  """Its connection ends: what it reads too late is not the whole answer."""
  with hosting_large_answers() as port:
    status, body = get(port, PATH_OF_LARGE_ANSWERS)
    assert status == 200 and len(body) > 20 * BUFFER_BYTES
    assert len(late_answer(port, seconds=0)) > len(body)  # It has a head.
    # A busy machine may be late itself; one that waits for ever always sends.
    assert any(len(late_answer(port, times * READ_SECONDS)) < len(body)
               for times in (2, 8, 32))
    assert get(port, '/health')[0] == 200


def late_answer(port, seconds):
  """All that a client gets which waits before it reads."""
  client = socket.socket()
  client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
  client.settimeout(60)
  client.connect(('127.0.0.1', port))
  with client:
    client.sendall(f'GET {PATH_OF_LARGE_ANSWERS} HTTP/1.1\r\n'
                   'Host: localhost\r\nConnection: close\r\n\r\n'.encode())
    client.recv(1, socket.MSG_PEEK)
    time.sleep(seconds)
    parts = []
    with contextlib.suppress(ConnectionResetError):
      while part := client.recv(65536):
        parts.append(part)
  return b''.join(parts)


def test_sigterm_lets_requests_end(served):
  with running(served, '--config.serve.wait_seconds=1') as (process, port):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    connection.request('GET', '/search?query=word1')
    time.sleep(0.3)  # It waits for its batch.
    process.send_signal(signal.SIGTERM)
    response = connection.getresponse()
    assert response.status == 200 and b'"results"' in response.read()
    out, err = process.communicate(60)
    assert process.returncode == 0 and 'Traceback' not in err, err
    with pytest.raises(OSError):
      socket.create_connection(('127.0.0.1', port))


def test_a_port_that_is_taken():
  with socket.create_server(('127.0.0.1', 0)) as other:
    taken = serve_settings.ServeConfig(port=other.getsockname()[1])
    with pytest.raises(errors.UserError, match=r'config\.serve\.port=\d+: '
                       r"can't be listened at \(Address already in use\)"):
      server.bind(taken)
  with pytest.raises(errors.UserError, match="can't be listened at"):
    server.bind(serve_settings.ServeConfig(host='no.such.host.invalid'))


def test_answers_do_not_wait_for_acknowledgements():
  """Without it each takes 40 ms more."""
  with server.bind(serve_settings.ServeConfig(port=0)) as bound:
    bound.listen()
    with (socket.create_connection(bound.getsockname()),
          bound.accept()[0] as accepted):
      assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(BROWSER is None, reason='no Chromium here')
def test_the_page_in_a_browser(port, served):
  """A query is typed; nothing that texts say is run; a phone shows it all."""
  from playwright import sync_api

  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=BROWSER, args=['--no-sandbox'])
    page = browser.new_page(viewport={'width': 390, 'height': 844})
    said, asked = [], []
    page.on('console', lambda message: said.append(message.text))
    page.on('pageerror', lambda error: said.append(str(error)))
    page.on('dialog', lambda dialog: (said.append(dialog.message),
                                      dialog.dismiss()))
    page.on('request', lambda request: asked.append(request.url))
    page.goto(f'http://127.0.0.1:{port}/')
    query = '<img src=x onerror=alert(9)> word1 "\''
    page.fill('#query', query)
    page.fill('#depth', '26')
    page.press('#query', 'Enter')
    page.wait_for_selector('ol')
    titles = page.locator('h2').all_inner_texts()
    expected = served[1].find(query, 26)
    assert titles == [
        f'{n}. {one.passage.title or one.passage.id}'
        for n, one in enumerate(expected, 1)]
    assert page.input_value('#query') == query
    assert page.locator('mark').count() == 26
    assert page.locator('main img, main script, main b').count() == 0
    width = page.evaluate('document.documentElement.scrollWidth')
    assert width <= 390
    mark = page.locator('mark').first
    assert mark.evaluate('e => getComputedStyle(e).backgroundColor') == (
        'rgb(251, 233, 166)')  # The policy lets the style in.
    page.fill('#query', '   ')
    page.press('#query', 'Enter')
    page.wait_for_selector('.error')
    assert 'query 1: is blank' in page.inner_text('.error')
    said = [one for one in said if 'status of 400' not in one]
    assert not said
    assert all(url.startswith(f'http://127.0.0.1:{port}/') for url in asked)
    browser.close()
