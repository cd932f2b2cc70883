"""The compiled code: as torch, its loader, and under the sanitizers of the compiler."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from problems import make_kernel, make_online, scattered

from poam_ros.core.errors import InputError
from poam_ros.models import kernels
from poam_ros.models.interface import Dataset, grid_points
from poam_ros.models.kernels import AttentiveKernel
from poam_ros.models.native import loader
from poam_ros.models.registry import MODELS, NeighbourOptions
from poam_ros.models.sparse.training import minibatch_elbo
from poam_ros.models.sparse.variational import Epoch

needs_native = pytest.mark.skipif(kernels._library is None, reason="no compiled kernel")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(params=[pytest.param(True, marks=needs_native), False], ids=["native", "torch"])
def backend(request, monkeypatch):
    """With the compiled kernel, then with torch alone."""
    if not request.param:
        without_library(monkeypatch)


def without_library(monkeypatch):
    monkeypatch.setattr(kernels, "_library", None)


def both(compute):
    """The result of the compiled kernel and of torch alone."""
    compiled = compute()
    with pytest.MonkeyPatch.context() as torch_alone:
        without_library(torch_alone)
        return compiled, compute()


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


# Columns are taken in strips and the last one is shorter: sizes around every width.
@needs_native
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 31, 32, 33, 100])
@pytest.mark.parametrize("symmetric", [True, False])
def test_values_and_gradients(columns, symmetric):
    kernel, X2 = make_kernel(), scattered(columns, 1).X.requires_grad_()
    X1 = X2 if symmetric else scattered(13, 2).X.requires_grad_()
    leaves = [*kernel.parameters(), X2, *([] if symmetric else [X1])]
    # The gradient is not contiguous.
    G = torch.randn(columns, len(X1), generator=torch.Generator().manual_seed(0)).double().mT

    def compute():
        K = kernel.forward(X1, X2)
        return [K.detach(), *torch.autograd.grad(K, leaves, G)]

    compiled, plain = both(compute)
    for found, expected in zip(compiled, plain, strict=True):
        close(found, expected, 1e-11)


@needs_native
@pytest.mark.parametrize(
    ("lengthscales", "dim"),
    [((0.05, 0.5, 10), 2), ((0.1, 0.3, 3), 1), ((0.07, 0.31, 5), 3), ((0.2, 0.2, 1), 2),
     ((0.002, 1.0, 32), 2)],
)  # fmt: skip
def test_any_lengthscales_and_dimension(lengthscales, dim):
    kernel = AttentiveKernel(*lengthscales, 1.0, torch.Generator().manual_seed(3), dim=dim)
    X = 2 * torch.rand(40, dim, generator=torch.Generator().manual_seed(4)).double() - 1
    compiled, plain = both(lambda: kernel.forward(X, X[:11]).detach())
    close(compiled, plain)


@needs_native
def test_far_apart_is_zero_and_the_same_place_is_the_amplitude():
    kernel = make_kernel()
    X = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1e3, -1e3]], dtype=torch.float64)
    K = kernel.forward(X, X[1:]).detach()
    assert K[0, 0].item() == pytest.approx(kernel.amplitude.item(), abs=1e-14)
    assert abs(K[0, 1].item()) < 1e-300


def test_too_many_lengthscales_are_left_to_torch():
    kernel = AttentiveKernel(0.05, 0.5, kernels.MAX_BASES + 1, 1.0)
    X = scattered(10, 0).X
    assert not kernels.usable(X, X, kernels.MAX_BASES + 1)
    assert kernel.forward(X, X).shape == (10, 10)


@pytest.mark.parametrize("shape", [(1, 1), (5, 64), (33, 65), (70, 20)])
def test_a_grid_equals_its_points(shape, backend):
    kernel, Z = make_kernel(), scattered(50, 1).X
    y, x = (torch.linspace(-1, 0.9, count, dtype=torch.float64) for count in shape)
    with torch.no_grad():
        found = kernel.grid_covariance(Z, x, y)
        close(found.flatten(1), kernel.forward(Z, grid_points(x, y)))


@pytest.mark.parametrize(("num_inducing", "count"), [(500, 30), (60, 400)])
def test_the_map_of_a_grid_equals_its_points(num_inducing, count, backend):
    online = make_online(num_inducing, steps=3, minibatch=64)
    online.update(scattered(count, 0))
    x = torch.linspace(-1, 1, 70, dtype=torch.float64)
    y = torch.linspace(-0.8, 1, 41, dtype=torch.float64)
    grid, points = online.predict_grid(x, y), online.predict(grid_points(x, y))
    close(grid.mean.flatten(), points.mean, 1e-9)
    close(grid.variance.flatten(), points.variance, 1e-9)
    quiet = online.predict_grid(x, y, noise=False)
    close(grid.variance, quiet.variance + online.noise.detach())


def step(online) -> list:
    """The loss of one mini-batch and its gradients."""
    online.draw = lambda: scattered(256, 5)
    loss = minibatch_elbo(Epoch(online, None, None, None))
    return [loss.detach(), *torch.autograd.grad(loss, list(online.parameters()))]


# Rank deficient: a tight cluster with repeated points has far fewer pivots than points.
CLUSTER = Dataset(
    0.02 * scattered(30, 3).X.repeat(2, 1), scattered(30, 3).y.repeat(2)
)  # fmt: skip


@needs_native
@pytest.mark.parametrize(
    ("num_inducing", "batches"),
    [(500, [scattered(3, 0)]), (500, [CLUSTER, scattered(20, 1)]), (300, [scattered(5000, 2)])],
    ids=["three data", "cluster", "N = 5000"],
)
def test_one_step_equals_that_of_torch(num_inducing, batches):
    # Step by step from the same Z: which pivot comes first is a tie that rounding decides.
    online = make_online(num_inducing, steps=2, minibatch=128)
    for batch in batches:
        online.update(batch)
    compiled, plain = both(lambda: step(online))
    for found, expected in zip(compiled, plain, strict=True):
        close(found, expected, 1e-8 * max(1.0, expected.abs().max().item()))
    X = scattered(200, 9).X

    def predict():
        online.hyperparameters_changed()
        return online.predict(X)

    compiled, plain = both(predict)
    close(compiled.mean, plain.mean, 1e-8)
    close(compiled.variance, plain.variance, 1e-8)


@needs_cuda
@pytest.mark.parametrize("count", [40, 600])
def test_a_gpu_gives_the_same_result(count):
    found = []
    for device in ("cpu", "cuda"):
        online = make_online(100, steps=3, minibatch=64, device=device)
        data, X = scattered(count, 0), scattered(200, 1).X.to(device)
        online.update(Dataset(data.X.to(device), data.y.to(device)))
        axis = torch.linspace(-1, 1, 20, dtype=torch.float64, device=device)
        parts = (online.predict(X), online.predict_grid(axis, axis))
        found.append([t.cpu() for part in parts for t in (part.mean, part.variance)])
        assert math.isfinite(online.noise.item())
    for cpu, gpu in zip(*found, strict=True):
        close(gpu, cpu, 1e-6)


@needs_native
@pytest.mark.parametrize("name", loader.LIBRARIES)
def test_a_library_of_other_sources_is_left_aside(name, monkeypatch, caplog):
    assert loader.load(name) is not None
    loader._warn_of_other_sources.cache_clear()
    monkeypatch.setattr(loader, "INTERFACE", loader.INTERFACE + 1)
    assert loader.load(name) is None
    loader.load(name)
    assert caplog.text.count("built from other sources") == 1  # one line for all of them


@needs_native
@pytest.mark.parametrize("features", [{"avx2", "fma", "avx512f"}, {"avx2"}, set()])
def test_a_library_for_longer_vectors_than_the_processor_s_is_not_loaded(features, monkeypatch):
    monkeypatch.setattr(loader, "_features", lambda: features)
    longest = 4 if "fma" in features else 2
    assert all(f"_{longest}." in loader._path(name).name for name in loader.LIBRARIES)
    assert loader.missing_parts() == ""


def test_the_number_of_the_header_is_the_loader_s():
    header = (loader.Path(loader.__file__).with_name("common.h")).read_text(encoding="utf-8")
    assert f"#define INTERFACE {loader.INTERFACE}\n" in header


@needs_native
def test_missing_libraries_are_reported(monkeypatch, capsys):
    loader.announce()
    assert loader.missing_parts() == capsys.readouterr().err == ""
    monkeypatch.setenv("POAM_NATIVE", "0")
    assert loader.missing_parts().startswith(
        f"without the compiled {', '.join(loader.LIBRARIES)}: "
    )
    loader.announce()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"WARNING: {loader.missing_parts()}"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_place_that_is_not_finite_is_refused(value):
    model = MODELS["nngp"].build(NeighbourOptions(first_steps=1), 0, torch.device("cpu"))
    X = torch.linspace(-1, 1, 20).double().reshape(10, 2)
    model.update(Dataset(X, X[:, 0]))
    at = torch.tensor([[0.0, 0.0], [0.1, value]], dtype=torch.float64)
    for ask in (model.predict, model.covariance, model.fields):
        with pytest.raises(InputError, match="expected finite points"):
            ask(at)


@pytest.mark.slow
def test_whole_models_work_without_any_compiled_code():
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    names = "nngp/test_model.py", "sparse/test_state.py", "test_mapper.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names],
        env={**own, "POAM_NATIVE": "0"}, cwd=HERE, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


HERE = Path(__file__).parent
SOURCES = Path(loader.__file__).parent
SANITIZERS = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
COMPILER = os.environ.get("CC", "cc")


def built(source: Path, program: Path, *flags: str) -> subprocess.CompletedProcess:
    command = [COMPILER, "-g", "-O0", "-w", *SANITIZERS, *flags, str(source), "-o", str(program)]
    return subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sanitizers(tmp_path_factory):
    """A compiler whose programs run with its sanitizers."""
    if shutil.which(COMPILER.split()[0]) is None:
        pytest.skip(f"no compiler {COMPILER}")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    if (
        built(folder / "probe.c", folder / "probe").returncode
        or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"{COMPILER} has no sanitizers")


@pytest.mark.slow
@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("lanes", [min(loader.LANES), max(loader.LANES)])
@pytest.mark.parametrize("name", loader.LIBRARIES)
def test_odd_inputs_do_nothing_undefined(name, lanes, tmp_path):
    program = tmp_path / name
    flags = (f'-DSOURCE="{SOURCES / name}.c"', f"-D{name.upper()}", f"-DLANES={lanes}")
    made = built(HERE / "odd_inputs.c", program, *flags)
    assert made.returncode == 0, made.stderr
    run = subprocess.run([program], capture_output=True, text=True, check=False, timeout=500)
    assert run.returncode == 0, run.stderr
