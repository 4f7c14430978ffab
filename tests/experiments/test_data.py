"""Data sets: pinned, checked, and explained where they cannot be had."""

import hashlib

import numpy as np
import pytest
import scipy.io

from experiments import data, optional
from experiments.data import DataError
from experiments.targets import logistic_regression


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def _publish(folder, monkeypatch, matrix):
    path = folder / 'heart.mat'
    scipy.io.savemat(path, {'X': matrix})
    monkeypatch.setitem(data.SHA256, 'heart', hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize('labels', [[0, 1, 1], [1, 2, 2]])
def test_labels_become_zero_and_one(folder, monkeypatch, labels):
    _publish(folder, monkeypatch, np.column_stack([[5, 6, 9], labels]))
    covariates, found = data.load('heart')
    np.testing.assert_array_equal(covariates, [[5], [6], [9]])
    np.testing.assert_array_equal(found, [0, 1, 1])


def test_wrong_checksum_is_refused(folder):
    (folder / 'heart.mat').write_bytes(b'something else')
    with pytest.raises(DataError, match='is not the published file: its SHA-256 is'):
        data.fetch('heart')


def test_missing_file_is_named(folder):
    with pytest.raises(DataError, match=r'TFP_ADAPTIVE_DATA names a folder without heart\.mat'):
        data.fetch('heart')


def test_unknown_data_set():
    with pytest.raises(DataError, match="no data set 'hart'; there are australian"):
        data.fetch('hart')


def test_failed_download_points_to_the_folder(monkeypatch):
    def retrieve(*arguments):
        raise OSError('no route to host')

    monkeypatch.delenv(data.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr('pooch.retrieve', retrieve)
    with pytest.raises(DataError, match=r'no route to host.*set TFP_ADAPTIVE_DATA'):
        data.fetch('heart')


def test_missing_package_says_how_to_install_it():
    with pytest.raises(optional.MissingPackageError, match=r'pip install "tfp_adaptive\[exper'):
        optional.load('a_package_nobody_has.module')


def test_design_is_standardised_with_an_intercept_last(rng):
    design = logistic_regression.design_matrix(rng.normal(3, 2, size=[20, 2]))
    np.testing.assert_allclose(design.mean(axis=0), [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose((design**2).mean(axis=0), 1)
