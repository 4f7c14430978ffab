"""Entropy estimators: how widely a proposal spreads its noise."""

from tfp_adaptive.entropy.log_det import log_det
from tfp_adaptive.entropy.russian_roulette import russian_roulette
from tfp_adaptive.entropy.spectral_penalty import spectral_penalty

__all__ = ['log_det', 'russian_roulette', 'spectral_penalty']
