"""Data sets: pinned, checked, and explained where they cannot be had."""

import gzip
import hashlib

import numpy as np
import pytest
import scipy.io
import tensorflow as tf

from experiments import data, optional
from experiments.data import DataError
from experiments.targets import logistic_regression


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def _publish(folder, monkeypatch, matrix):
    scipy.io.savemat(folder / 'heart.mat', {'X': matrix})
    _pin(folder, monkeypatch, 'heart')


def _pin(folder, monkeypatch, name):
    """The file of data set `name` in the folder is the right one."""
    file = data.FILES[name]
    sha256 = hashlib.sha256((folder / file.name).read_bytes()).hexdigest()
    monkeypatch.setitem(data.FILES, name, file._replace(sha256=sha256))


@pytest.mark.parametrize('labels', [[0, 1, 1], [1, 2, 2]])
def test_labels_become_zero_and_one(folder, monkeypatch, labels):
    _publish(folder, monkeypatch, np.column_stack([[5, 6, 9], labels]))
    covariates, found = data.load('heart')
    np.testing.assert_array_equal(covariates, [[5], [6], [9]])
    np.testing.assert_array_equal(found, [0, 1, 1])


def test_fives_and_sixes_of_mnist(folder, monkeypatch):
    images = np.arange(6 * 4).reshape(6, 2, 2).astype(np.uint8)
    digits = np.array([6, 1, 5, 5, 9, 6], np.uint8)
    np.savez(folder / 'mnist.npz', x_train=images, y_train=digits)
    _pin(folder, monkeypatch, 'mnist')
    pixels, labels = data.load('mnist')
    np.testing.assert_array_equal(labels, [1, 0, 0, 1])
    np.testing.assert_allclose(255 * pixels, images[[0, 2, 3, 5]].reshape(4, 4))
    target = logistic_regression.logistic_regression('mnist')
    q = np.array([1.0, -2.0, 3.0, 1.0, 0.5])
    signs = 2 * labels - 1
    expected = -np.sum(np.log1p(np.exp(-signs * (pixels @ q[:4] + q[4])))) - np.sum(q**2) / 2
    np.testing.assert_allclose(target.log_prob(tf.constant(q)), expected, rtol=1e-10)


def test_first_rows_of_higgs(folder, monkeypatch):
    table = np.random.default_rng(1).normal(size=[5, 29])
    table[:, 0] = [1, 0, 0, 1, 1]
    with gzip.open(folder / 'HIGGS.csv.gz', 'wt') as file:
        np.savetxt(file, table, delimiter=',')
    _pin(folder, monkeypatch, 'higgs')
    features, labels = data.higgs(3)
    np.testing.assert_allclose(features, table[:3, 1:22])
    np.testing.assert_array_equal(labels, [1, 0, 0])


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
