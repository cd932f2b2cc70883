"""Problems of several sizes, the same every time."""

import math
from dataclasses import replace

import numpy as np
import torch

from poam_ros.models.interface import Dataset
from poam_ros.models.kernels import AttentiveKernel, ElevationKernel
from poam_ros.models.registry import MODELS, NeighbourOptions, SparseOptions
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.model import SparseGP, resolved

#: Inducing inputs of the smaller models.
M = 24


def scattered(count: int, seed: int) -> Dataset:
    """Noisy data of a surface that is rough on one side, in [-1, 1]^2."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(count, 2))
    y = np.where(X[:, 0] > 0, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]), 0.3 * X[:, 1])
    return Dataset(torch.from_numpy(X), torch.from_numpy(y + 0.1 * rng.normal(size=count)))


#: Where predictions are compared.
XS = scattered(60, 99).X


#: Of a small nearest-neighbour model.
SHORT = NeighbourOptions(first_steps=15, early_steps=3, update_steps=2, hidden=8, lattice=8)


def built(options=SHORT, seed=0):
    """A nearest-neighbour model on the CPU."""
    return MODELS["nngp"].build(options, seed, torch.device("cpu"))


def same(one, other):
    """Two models predict the same to the last bit."""
    first, second = one.predict(XS), other.predict(XS)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.variance, second.variance)


def make_kernel(
    seed: int = 1, sharpness: float = 3.0, kind: type[AttentiveKernel] = AttentiveKernel
) -> AttentiveKernel:
    """A kernel whose weights vary over the inputs, as after training."""
    kernel = kind(0.05, 0.5, 10, 1.3, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for parameter in kernel.network.parameters():
            parameter.mul_(sharpness)
    return kernel


def make_online(
    num_inducing: int,
    *,
    method: str = "poam",
    kernel: ElevationKernel | None = None,
    noise: float = 0.05,
    jitter: float = 1e-6,
    steps: int = 0,
    device: str = "cpu",
    replaced: dict | None = None,
    **options,
):
    """An online model; without steps its hyperparameters stay where they are.

    ``replaced``: functions or values that take the place of those in the method's row.
    """
    own = {"num_inducing": num_inducing, "steps": steps, "noise_variance": noise, "jitter": jitter}
    row = replace(resolved(METHODS[method]), **(replaced or {}))
    generators = (torch.Generator().manual_seed(seed) for seed in (0, 1))
    kernel = (kernel or make_kernel()).to(device)
    return SparseGP(kernel, row, SparseOptions(**own, **options), *generators)


def set_options(online: SparseGP, **options) -> None:
    """Change options of a model in the middle of its life."""
    online.options = replace(online.options, **options)


def soft_kernel(kind=AttentiveKernel):
    """A kernel whose weights vary little, as at the beginning."""
    return make_kernel(sharpness=1.0, kind=kind)


def after_updates(method, count=50, *, batch=6, steps=2, **options):
    """An online model after a pilot of 40 and more updates, hyperparameters moving."""
    settings = {"noise": 0.5, "steps": steps, "minibatch": 32, "kernel": soft_kernel(), **options}
    online = make_online(M, method=method, **settings)
    online.update(scattered(40, 0))
    for k in range(1, count):
        online.update(scattered(batch, k))
    return online


def numpy_kernel(kernel: AttentiveKernel, X1: np.ndarray, X2: np.ndarray) -> np.ndarray:
    """The Attentive Kernel, term by term from the paper's formula, with numpy alone."""

    def weights(X):
        layers = [m for m in kernel.network if isinstance(m, torch.nn.Linear)]
        for i, layer in enumerate(layers):
            X = X @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
            if i < len(layers) - 1:
                X = np.tanh(X)
        w = np.exp(X - X.max(1, keepdims=True))
        w /= w.sum(1, keepdims=True)
        return w / np.linalg.norm(w, axis=1, keepdims=True)

    W1, W2 = weights(X1), weights(X2)
    squared = ((X1[:, None] - X2[None]) ** 2).sum(-1)
    blend = sum(
        np.outer(W1[:, m], W2[:, m]) * np.exp(-squared / (2 * length**2))
        for m, length in enumerate(kernel.lengthscales.numpy())
    )
    amplitude = math.log1p(math.exp(kernel.raw_amplitude.item()))
    return amplitude * (W1 @ W2.T) * blend
