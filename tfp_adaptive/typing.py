"""The records every axis is written in, and the tuples that flow between them.

A sampler is a pure step over explicit state, made of exchangeable axes: records of pure functions.

Notation (shapes: C chains, D event size after packing, L leapfrog steps):
    U = -log pi       potential;  s = grad log pi = -grad U, the score
    F                 the proposal factor: step_size * C, with C C^T the learned inverse mass
    q, v              position [C, D] and whitened velocity [C, D], v ~ N(0, I)
    A                 a relative change of the preconditioner, C -> C (I + A)
    Delta             energy error U(q') - U(q) + (|v'|^2 - |v|^2) / 2, shape [C]
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

Tensor = Any
"""A `tf.Tensor`; TensorFlow ships no usable type for one."""


class ChainState(NamedTuple):
    """What the next step needs of each chain; nothing here depends on learned parameters."""

    position: Tensor
    """[C, D] packed positions."""
    log_prob: Tensor
    """[C] target log-density."""
    score: Tensor
    """[C, D] gradient of the log-density; [C, 0] for proposals that do not use it."""
    velocity: Any = ()
    """[C, D] whitened velocity, for proposals that keep part of it; else empty."""
    memory: Any = ()
    """Nest of [C, ...]: what else a kernel keeps of each chain."""


class Pairs(NamedTuple):
    """A linear functional of A, A -> sum_m left_m^T A right_m, kept as its outer products."""

    left: Sequence[Tensor]
    """Groups [M_i, D]."""
    right: Sequence[Tensor]
    """As many groups, of the same sizes."""


class Event(NamedTuple):
    """How the packed coordinates of one chain are made of the parts of the state, in order."""

    sizes: tuple[int, ...]
    """Coordinates of each part."""
    names: tuple[str | int, ...]
    """Field names of a namedtuple state, else positions 0, 1, ..."""

    @property
    def size(self) -> int:
        """D."""
        return sum(self.sizes)


class LogDensity(NamedTuple):
    """The target on packed positions."""

    value: Callable[[Tensor], Tensor]
    """[C, D] -> [C]; -inf where not finite."""
    value_and_score: Callable[[Tensor], tuple[Tensor, Tensor]]
    """[C, D] -> ([C], [C, D]); (-inf, 0) where the value or its gradient is not finite."""
    score: Callable[[Tensor], Tensor]
    """[C, D] -> [C, D]; entries that are not finite are zero. For places a move passes through."""
    hessian_vector_product: Callable[[Tensor, Tensor], Tensor]
    """(position [C, D], x [C, D]) -> (Hessian of log pi) x, [C, D]."""
    event: Event
    """The parts that D is made of."""


class LinearMap(NamedTuple):
    """The proposal factor F at the current parameters."""

    forward: Callable[[Tensor], Tensor]
    """x [M, D] -> F x, row by row."""
    transpose: Callable[[Tensor], Tensor]
    """x [M, D] -> F^T x, row by row."""


class Preconditioner(NamedTuple):
    """A family of invertible matrices C and the local coordinates in which it is learned."""

    init: Callable[[int, Any, Tensor], Any]
    """(event_size, dtype, scale) -> parameters; `scale` is a scalar guess of a safe factor."""
    forward: Callable[[Any, Tensor], Tensor]
    """(prepared parameters, x [M, D]) -> C x."""
    transpose: Callable[[Any, Tensor], Tensor]
    """(prepared parameters, x [M, D]) -> C^T x."""
    log_det: Callable[[Any], Tensor]
    """parameters -> log|det C|, a scalar."""
    gradient: Callable[[Any, Pairs], Any]
    """(parameters, pairs) -> tangent: the functional of A as a gradient in local coordinates."""
    log_det_gradient: Callable[[Any], Any]
    """parameters -> tangent: gradient of log|det C| in local coordinates."""
    retract: Callable[[Any, Any], Any]
    """(parameters, tangent) -> parameters after the step; a zero tangent changes nothing."""
    probe: Callable[[Tensor, Tensor], Tensor] = lambda signs, coin: signs
    """(signs [C, D], coin [C] of 0, 1) -> probe [C, D] of covariance I; noises of blocks apart."""
    prepare: Callable[[Any], Any] = lambda parameters: parameters
    """parameters -> what the two products take in their place, computed once a step. A record that
    borrows another's products borrows its `prepare` too."""
    takes_scales: bool = False
    """Whether the `scale` of `init` may also be a vector [D], one guess a coordinate."""
    takes_factor: bool = False  # or lower triangular [D, D], a guess of C itself


class Flow(NamedTuple):
    """A non-linear preconditioner: an invertible map q = f(z), and HMC with unit mass on z."""

    init: Callable[[int, Any, Tensor], Any]
    """(event_size, dtype, scale) -> parameters; `scale` is a scalar guess of a safe factor."""
    forward: Callable[[Any, Tensor], tuple[Tensor, Tensor]]
    """(parameters, z [C, D]) -> (f(z) [C, D], log|det Df(z)| [C])."""
    inverse: Callable[[Any, Tensor], Tensor]
    """(parameters, q [C, D]) -> z [C, D]."""
    retract: Callable[[Any, Any], Any]
    """(parameters, tangent) -> parameters after the step; tangents look like parameters."""
    takes_scales: bool = False
    """Whether the `scale` of `init` may also be a vector [D], one guess a coordinate."""


class EventPreconditioner(NamedTuple):
    """A preconditioner that knows its structure only once it knows the parts of the state."""

    resolve: Callable[[Event], Preconditioner]
    """event -> preconditioner; called whenever a program is traced."""


class Move(NamedTuple):
    """A proposed transition and what learning needs to know of the trajectory behind it."""

    proposed: ChainState
    rejected: ChainState
    """The state if the proposal is rejected: the current one, but for its velocity."""
    energy_change: Tensor
    """[C] Delta, accepted with min(1, exp(-Delta)); not finite where the chain has no density."""
    midpoint: Tensor
    """[C, D] position in the middle of the trajectory."""
    midpoint_score: Tensor
    """[C, D] the score there, or [C, 0]."""
    curvature: Any
    """Scalar kappa: D = kappa F^T (Hessian of U) F, the whitened Jacobian residual; 0 for none."""
    num_gradients: Any
    """Scalar: new target gradients this move took."""
    trajectory: Any
    """Whitened quantities [C, ...] for `Proposal.pullback`; `()` for a move that tries several."""
    log_volume: Any = 0.0
    """[C] log|det| of the proposal that varies over the space; 0 for linear preconditioners."""
    scale: Any = 1.0
    """Scalar by which the move multiplied F."""


class Proposal(NamedTuple):
    """How a move is made from standard noise with a factor F."""

    stable_fraction: float
    """A safe first scale, as a fraction of 1 / sqrt(largest curvature)."""
    draw: Callable[..., Any]
    """(seed, num_chains, event_size, dtype) -> noise."""
    propose: Callable[[LogDensity, LinearMap, ChainState, Any], Move]
    """(target, factor, state, noise) -> move."""
    pullback: Callable[[LinearMap, Move, Tensor, Any], Pairs]
    """(factor, move, energy weight [C], position cotangent [C, D] or None) -> pairs, every group
    [C, D]: the derivative in A of sum(weight * Delta) + sum(cotangent * q'), gradients of U held
    constant. Rows whose Delta is not finite may hold anything; they are set to zero later."""
    uses_score: bool = True
    """Whether a move starts from the score of the current state."""
    uses_velocity: bool = False
    """Whether a move starts from the velocity of the current state."""
    learning: 'Proposal | None' = None
    """The same proposal recording what `pullback` needs, where that costs gradients of its own."""
    sequence_limit: int = 0
    """Size of a target up to which `internal.in_sequence` makes a move faster."""


class Objective(NamedTuple):
    """What a good move is, as a loss per chain to be minimised."""

    loss: Callable[..., Tensor]
    """(energy change [C], start [C, D], end [C, D], objective state) -> loss [C], each from its own
    row alone; rows whose energy change is not finite may hold anything."""
    uses_entropy: bool = True
    """Whether an entropy term belongs beside the loss."""
    init: Callable[[Any], Any] = lambda dtype: ()
    """dtype -> objective state: nothing, or one scalar."""
    statistic: Callable[..., Tensor] = lambda change, start, end: tf.zeros_like(change)
    """(energy change, start, end) -> [C], likewise, whose mean over chains feeds `update`."""
    update: Callable[[Any, Tensor], Any] = lambda state, mean: state
    """(objective state, mean statistic) -> objective state."""


class EntropyEstimate(NamedTuple):
    """Stochastic entropy of the proposal beyond log|det C|."""

    log_det: Tensor
    """[C] estimate of log det(I + D)."""
    pairs: Pairs
    """Derivative in A of log det(I + D) - weighted penalty; groups [C, D], or [0, D] for none."""
    forms: Pairs
    """The same derivative in D: sum_m left_m^T dD right_m, groups [C, D], or [0, D] for none."""
    is_finite: Tensor
    """[C] whether every quantity of this chain was finite."""
    spectral_radius: Tensor
    """[C] estimate of the largest |eigenvalue| of D, or [0] where there is none."""
    penalty: Tensor
    """[C] unweighted spectral penalty."""
    num_hessian_vector_products: Tensor
    """Scalar int32 spent."""


class Entropy(NamedTuple):
    """Estimator of the entropy term of the objective."""

    draw: Callable[..., Any]
    """(seed, num_chains, event_size, dtype) -> noise."""
    estimate: Callable[..., EntropyEstimate]
    """(residual, probe_fn, noise, penalty weight, is_adapting) -> estimate; `residual` is x -> D x,
    `probe_fn` is `Preconditioner.probe`. Chains that are not finite are removed afterwards."""


class Optimizer(NamedTuple):
    """A first-order method as a pure state machine, over any nest of tensors."""

    init: Callable[[Any], Any]
    """tangent of zeros -> optimizer state."""
    update: Callable[[Any, Any, Tensor], tuple[Any, Any]]
    """(gradient, state, progress in [0, 1]) -> (tangent step, state); already a descent step."""
    condition: Callable[[Tensor, Tensor], Tensor] = lambda slope, entropy_weight: slope
    """(one tensor of the gradient, entropy weight) -> the tensor as this method wants it."""


class Controller(NamedTuple):
    """A scalar weight steered by feedback."""

    init: float
    update: Callable[[Tensor, Tensor], Tensor]
    """(weight, mean signal) -> weight."""
    signal: Callable[[Any], Tensor] | None = None
    """Transition -> [C]; `None` for a controller that is fed otherwise."""


class Transition(NamedTuple):
    """The outcome of one sampler step, packed."""

    state: ChainState
    proposed: ChainState
    log_accept_ratio: Tensor
    """[C]; -inf where the energy is not finite."""
    is_accepted: Tensor
    """[C] bool."""


class Info(NamedTuple):
    """Diagnostics of a run, on which no step depends; counts are totals since the bootstrap.

    A frozen kernel estimates no entropy and leaves those fields as empty tuples.
    """

    accept_prob: Tensor
    """Mean over chains of min(1, exp(-Delta)) at this step."""
    entropy: Tensor
    """Mean over chains of log|det F| + log det(I + D), up to a constant."""
    spectral_radius: Tensor
    """Largest |mu| over chains: how near the trajectories are to folding over."""
    entropy_weight: Tensor
    """beta."""
    penalty_weight: Tensor
    """gamma."""
    num_nonfinite: Tensor
    """int32: proposals rejected because an energy or a gradient was not finite."""
    num_gradients: Tensor
    """int32: target gradients per chain."""
    num_hessian_vector_products: Tensor
    """int32: Hessian-vector products per chain, each about two gradients."""


class Sampler(NamedTuple):
    """A pure step over explicit state: all that the TFP adapter knows of an algorithm."""

    init: Callable[[LogDensity, ChainState], Any]
    """(target, state) -> adaptation."""
    init_info: Callable[[Any], Info]
    """dtype -> Info before the first step."""
    draw: Callable[..., Any]
    """(seed, num_chains, event_size, dtype) -> noise of one step."""
    step: Callable[..., tuple[Transition, Any, Info]]
    """(target, state, adaptation, info, noise, step_size, step)
    -> (transition, adaptation, info); `step` is the number of steps taken before this one."""
    uses_score: bool = True
    """Whether the chain state carries the score."""
    uses_velocity: bool = False
    """Whether the chain state carries a velocity."""
    sequence_limit: int = 0
    """`Proposal.sequence_limit` of the moves it makes."""
    num_values: int = 0
    """Evaluations of the log-density without its gradient, a step."""
