"""The data sets of the logistic regressions, fetched once and checked by SHA-256.

They are the files the papers used. `TFP_ADAPTIVE_DATA` may name a folder that holds them, for
machines without a network; otherwise pooch downloads them to its cache.
"""

import hashlib
import os
import pathlib

import numpy as np

from experiments import optional
from experiments.errors import ExperimentError

FOLDER_VARIABLE = 'TFP_ADAPTIVE_DATA'

_URL = (
    'https://raw.githubusercontent.com/marcelah/entropy_adaptive_hmc/'
    '9236ad93946479764c6eb30b0643f8a2149616f3/data/{name}.mat'
)
SHA256 = {
    'australian': '60ed4bd0a5a28963ad65a81279d30ef4b4948072849658824c4ca101f4156de0',
    'caravan': '14f08ca7997d0f3dd53c9cb0c83f4aebbec6649072e42f579bfb113663365cf5',
    'german': '00c97efcd885081183be0226c1d50e70e0f9b64781b9cf83d67730a394b989a3',
    'heart': '0b43068beef0c19a0631d9afb529de8a49f35a005cecef7334df45c00dd71b33',
    'pima': '7b764cd1e4af35f0e73704adc461d365a1933585f1696beecde08f05caf0518e',
    'ripley': '1100bf5bf905c5e3ad27702450f622cc8e79216b3b16ff13fc9550dbdb33689e',
}


class DataError(ExperimentError):
    """A data set is unknown, missing, or not the file it should be."""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Covariates [n, p] as they are in the file, and labels [n] in {0, 1}.

    Raises:
      DataError: for an unknown name, a missing file, no network, or a wrong checksum.
    """
    matrix = optional.load('scipy.io').loadmat(fetch(name))['X'].astype(np.float64)
    labels = matrix[:, -1]
    return matrix[:, :-1], (labels == labels.max()).astype(np.float64)


def fetch(name: str) -> pathlib.Path:
    """Path of the file of data set `name`, checked."""
    if name not in SHA256:
        raise DataError(f'no data set {name!r}; there are {", ".join(sorted(SHA256))}.')
    folder = os.environ.get(FOLDER_VARIABLE)
    return _from_folder(name, pathlib.Path(folder)) if folder else _download(name)


def _from_folder(name: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f'{name}.mat'
    if not path.is_file():
        raise DataError(f'{FOLDER_VARIABLE} names a folder without {path.name}: {folder}.')
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256[name]:
        raise DataError(
            f'{path} is not the published file: its SHA-256 is {found}, expected {SHA256[name]}.'
        )
    return path


def _download(name: str) -> pathlib.Path:
    pooch = optional.load('pooch')
    pooch.get_logger().setLevel('WARNING')
    url = _URL.format(name=name)
    try:
        path = pooch.retrieve(
            url, f'sha256:{SHA256[name]}', f'{name}.mat', pooch.os_cache('tfp_adaptive')
        )
    except (OSError, ValueError) as error:
        raise DataError(
            f'could not fetch {url} ({error}); set {FOLDER_VARIABLE} to a folder that holds '
            f'{name}.mat.'
        ) from error
    return pathlib.Path(path)
