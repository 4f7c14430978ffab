"""The data sets of the logistic regressions, fetched once and checked by SHA-256.

They are the files the papers used. `TFP_ADAPTIVE_DATA` may name a folder that holds them, for
machines without a network; otherwise pooch downloads them to its cache.
"""

import gzip
import hashlib
import itertools
import os
import pathlib
from typing import NamedTuple

import numpy as np

from experiments import optional
from experiments.errors import ExperimentError

FOLDER_VARIABLE = 'TFP_ADAPTIVE_DATA'

_PAPER = (
    'https://raw.githubusercontent.com/marcelah/entropy_adaptive_hmc/'
    '9236ad93946479764c6eb30b0643f8a2149616f3/data/'
)
_UCI = 'https://archive.ics.uci.edu/ml/machine-learning-databases/'
_KERAS = 'https://storage.googleapis.com/tensorflow/tf-keras-datasets/'


class File(NamedTuple):
    """Where a data set is, and what it must be."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """Without the folders before it."""
        return self.url.rpartition('/')[2]


FILES = {
    'australian': File(
        f'{_PAPER}australian.mat',
        '60ed4bd0a5a28963ad65a81279d30ef4b4948072849658824c4ca101f4156de0',
    ),
    'caravan': File(
        f'{_PAPER}caravan.mat',
        '14f08ca7997d0f3dd53c9cb0c83f4aebbec6649072e42f579bfb113663365cf5',
    ),
    'german': File(
        f'{_PAPER}german.mat',
        '00c97efcd885081183be0226c1d50e70e0f9b64781b9cf83d67730a394b989a3',
    ),
    'heart': File(
        f'{_PAPER}heart.mat',
        '0b43068beef0c19a0631d9afb529de8a49f35a005cecef7334df45c00dd71b33',
    ),
    'higgs': File(
        f'{_UCI}00280/HIGGS.csv.gz',
        'ea302c18164d4e3d916a1e2e83a9a8d07069fa6ebc7771e4c0540d54e593b698',
    ),
    'mnist': File(
        f'{_KERAS}mnist.npz',
        '731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1',
    ),
    'pima': File(
        f'{_PAPER}pima.mat',
        '7b764cd1e4af35f0e73704adc461d365a1933585f1696beecde08f05caf0518e',
    ),
    'ripley': File(
        f'{_PAPER}ripley.mat',
        '1100bf5bf905c5e3ad27702450f622cc8e79216b3b16ff13fc9550dbdb33689e',
    ),
}


class DataError(ExperimentError):
    """A data set is unknown, missing, or not the file it should be."""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Covariates [n, p] as they are in the file, and labels [n] in {0, 1}.

    Of MNIST the fives and sixes of the training images, pixels in [0, 1]; label 1 is a six. Not of
    HIGGS, whose rows are read by `higgs`.

    Raises:
      DataError: for an unknown name, a missing file, no network, or a wrong checksum.
    """
    path = fetch(name)
    if name == 'mnist':
        with np.load(path) as file:
            images, digits = file['x_train'], file['y_train']
        is_kept = (digits == 5) | (digits == 6)
        pixels = images[is_kept].reshape(np.sum(is_kept), -1) / 255
        return pixels, (digits[is_kept] == 6).astype(np.float64)
    matrix = optional.load('scipy.io').loadmat(path)['X'].astype(np.float64)
    labels = matrix[:, -1]
    return matrix[:, :-1], (labels == labels.max()).astype(np.float64)


def higgs(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The 21 low-level features [n, 21] of the first rows of HIGGS, and labels [n] in {0, 1}.

    The file has 11 million rows and 2.8 GB; only the first are read.

    Raises:
      DataError: for a missing file, no network, or a wrong checksum.
    """
    with gzip.open(fetch('higgs'), 'rt') as file:
        table = np.loadtxt(itertools.islice(file, num_rows), delimiter=',', usecols=range(22))
    return table[:, 1:], table[:, 0]


def fetch(name: str) -> pathlib.Path:
    """Path of the file of data set `name`, checked."""
    if name not in FILES:
        raise DataError(f'no data set {name!r}; there are {", ".join(sorted(FILES))}.')
    folder = os.environ.get(FOLDER_VARIABLE)
    file = FILES[name]
    return _from_folder(file, pathlib.Path(folder)) if folder else _download(file)


def _from_folder(file: File, folder: pathlib.Path) -> pathlib.Path:
    path = folder / file.name
    if not path.is_file():
        raise DataError(f'{FOLDER_VARIABLE} names a folder without {path.name}: {folder}.')
    with path.open('rb') as opened:
        found = hashlib.file_digest(opened, 'sha256').hexdigest()
    if found != file.sha256:
        raise DataError(
            f'{path} is not the published file: its SHA-256 is {found}, expected {file.sha256}.'
        )
    return path


def _download(file: File) -> pathlib.Path:
    pooch = optional.load('pooch')
    pooch.get_logger().setLevel('WARNING')
    cache = pooch.os_cache('tfp_adaptive')
    try:
        path = pooch.retrieve(file.url, f'sha256:{file.sha256}', file.name, cache)
    except (OSError, ValueError) as error:
        raise DataError(
            f'could not fetch {file.url} ({error}); set {FOLDER_VARIABLE} to a folder that holds '
            f'{file.name}.'
        ) from error
    return pathlib.Path(path)
