"""Hierarchies: schools, counties, items and persons, and the horseshoe."""

import numpy as np
import tensorflow as tf

from experiments.targets.base import Target
from experiments.targets.posteriors.parts import (
    cauchy,
    constant,
    each,
    normal,
    normals,
    positive,
    posterior,
    real,
)

_EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
_ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(centred: bool) -> Target:
    """Coaching in eight schools (Rubin 1981).

    Args:
      centred: whether the state holds the effects, or their standard normals.
    """

    def log_joint(mu, tau, effects):
        prior = normal(mu, 0, 5) + cauchy(tau, 5)
        if centred:
            prior, theta = prior + normals(effects, each(mu), each(tau)), effects
        else:
            prior, theta = prior + normals(effects), each(mu) + each(tau) * effects
        return prior + normals(constant(_EFFECTS, mu) - theta, 0.0, constant(_ERRORS, mu))

    name = 'eight_schools_centred' if centred else 'eight_schools'
    parts = {'mu': real(), 'tau': positive(), 'effects': real(8)}
    return posterior(name, 'Rubin (1981)', log_joint, **parts)


def centred_schools(draws: np.ndarray) -> np.ndarray:
    """Draws of the schools that are not centred, in the coordinates of those that are.

    Args:
      draws: [..., 10], mu, log tau and the standard normals.
    """
    mu, tau, z = draws[..., :1], np.exp(draws[..., 1:2]), draws[..., 2:]
    return np.concatenate([draws[..., :2], mu + tau * z], axis=-1)


def varying_intercepts(num_groups: int = 40, num_rows: int = 800) -> Target:
    """A measurement in houses of 40 counties of unequal size, each with its own level.

    Args:
      num_groups: number of levels.
      num_rows: of data.
    """
    rng = np.random.default_rng(151)
    group = rng.choice(num_groups, size=num_rows, p=rng.dirichlet(np.ones(num_groups)))
    floor = (rng.uniform(size=num_rows) < 0.2).astype(float)
    level = 1.5 + 0.3 * rng.normal(size=num_groups)
    y = level[group] - 0.7 * floor + 0.8 * rng.normal(size=num_rows)

    def log_joint(mu, slope, level, tau, s):
        fitted = tf.gather(level, group, axis=-1) + each(slope) * constant(floor, mu)
        prior = normal(mu, 0, 10) + normal(slope, 0, 10) + normal(tau) + normal(s)
        prior += normals(level, each(mu), each(tau))
        return prior + normals(constant(y, mu) - fitted, 0.0, each(s))

    return posterior(
        'varying_intercepts',
        'simulated',
        log_joint,
        mu=real(),
        slope=real(),
        level=real(num_groups),
        tau=positive(),
        s=positive(),
    )


def horseshoe(num_covariates: int = 20, num_rows: int = 100) -> Target:
    """A regression with three coefficients that matter, and a horseshoe prior, not centred.

    Args:
      num_covariates: number of coefficients.
      num_rows: of data.
    """
    rng = np.random.default_rng(152)
    x = rng.normal(size=(num_rows, num_covariates))
    y = x[:, :3] @ np.array([3.0, -2.0, 1.0]) + rng.normal(size=num_rows)

    def log_joint(z, local, shared, s):
        b = z * local * each(shared * s)
        fitted = tf.linalg.matvec(constant(x, z), b)
        prior = (
            normals(z) + tf.reduce_sum(cauchy(local), axis=-1) + cauchy(shared) + normal(s, 0, 5)
        )
        return prior + normals(constant(y, z) - fitted, 0.0, each(s))

    return posterior(
        'horseshoe',
        'simulated',
        log_joint,
        z=real(num_covariates),
        local=positive(num_covariates),
        shared=positive(),
        s=positive(),
    )


def item_response(num_parameters: int, num_persons: int = 60, num_items: int = 15) -> Target:
    """Answers of persons to items of unknown difficulty.

    Args:
      num_parameters: 1 (a difficulty for each item) or 2 (and a discrimination).
      num_persons: with an ability each.
      num_items: in the test.
    """
    rng = np.random.default_rng(153)
    ability, difficulty = rng.normal(size=num_persons), rng.normal(size=num_items)
    slope = rng.lognormal(0, 0.4, num_items) if num_parameters == 2 else np.ones(num_items)
    logits = slope * (ability[:, np.newaxis] - difficulty)
    y = (rng.uniform(size=logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)

    def log_joint(ability, difficulty, centre, slope=None):
        eta = ability[..., tf.newaxis] - difficulty[..., tf.newaxis, :] - each(each(centre))
        prior = normals(ability) + normals(difficulty, 0, 2) + normal(centre, 0, 2)
        if slope is not None:
            eta *= slope[..., tf.newaxis, :]
            prior += normals(tf.math.log(slope), 0, 0.5)
        data = constant(y, centre) * eta - tf.nn.softplus(eta)
        return prior + tf.reduce_sum(data, axis=[-2, -1])

    parts = {'ability': real(num_persons), 'difficulty': real(num_items), 'centre': real()}
    if num_parameters == 2:
        parts['slope'] = positive(num_items)
    name = f'item_response_{num_parameters}'
    return posterior(name, 'simulated', log_joint, **parts)
