"""Chains on many devices or hosts that learn one proposal together, through `tf.distribute`."""

from tfp_adaptive.distribute.driver import DistributedChains, sample_chain
from tfp_adaptive.distribute.gathering import gather
from tfp_adaptive.distribute.pooling import sum_over_replicas
from tfp_adaptive.distribute.replicas import LocalValues

__all__ = ['DistributedChains', 'LocalValues', 'gather', 'sample_chain', 'sum_over_replicas']
