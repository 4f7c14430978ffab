"""Python processes on loopback: alone, or as the workers of one TensorFlow cluster."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
TIMEOUT_SECONDS = 300
"""A process that waits for a lost partner would wait for ever."""


def run_python(arguments, *, num_workers=None, timeout=TIMEOUT_SECONDS):
    """Runs `python *arguments` and returns what it printed, one string a process.

    Args:
      arguments: of the interpreter.
      num_workers: processes of one cluster, which find each other through TF_CONFIG. Default
        `None`: a single process without a cluster.
      timeout: seconds after which all are killed.

    Raises:
      AssertionError: if one fails or time is up, with what they wrote.
    """
    ports = _free_ports(num_workers or 0)
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env=_environment(ports, index),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(num_workers or 1)
    ]
    deadline = time.monotonic() + timeout
    outputs, is_late = [], False
    try:
        for process in processes:
            try:
                output, _ = process.communicate(timeout=max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                is_late = True
                for other in processes:
                    other.kill()
                output, _ = process.communicate()
            outputs.append(output)
    finally:
        for process in processes:
            process.kill()
    codes = [process.returncode for process in processes]
    assert not any(codes), '\n'.join(
        [f'exit codes {codes}' + (f', killed after {timeout} s' if is_late else ''), *outputs]
    )
    return outputs


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _environment(ports, index):
    """Quiet, on CPUs alone, and past any proxy."""
    inherited = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    path = os.pathsep.join(filter(None, [str(ROOT), inherited.get('PYTHONPATH')]))
    environment = inherited | {
        'PYTHONPATH': path,
        'TF_CPP_MIN_LOG_LEVEL': '3',
        'CUDA_VISIBLE_DEVICES': '',
        'no_proxy': '127.0.0.1,localhost',
    }
    if ports:
        workers = [f'127.0.0.1:{port}' for port in ports]
        task = {'type': 'worker', 'index': index}
        environment['TF_CONFIG'] = json.dumps({'cluster': {'worker': workers}, 'task': task})
    return environment
