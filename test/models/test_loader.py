"""The loader of the compiled libraries, and what is said where they are missing."""

import pytest
import torch

from poam_ros.core.errors import InputError
from poam_ros.models.interface import Dataset
from poam_ros.models.native import loader
from poam_ros.models.registry import MODELS, NeighbourOptions

needs_native = pytest.mark.skipif(loader.load("search") is None, reason="no compiled kernel")


@needs_native
@pytest.mark.parametrize("name", loader.LIBRARIES)
def test_a_library_of_other_sources_is_left_aside(name, monkeypatch, caplog):
    assert loader.load(name) is not None
    monkeypatch.setattr(loader, "INTERFACE", loader.INTERFACE + 1)
    assert loader.load(name) is None
    assert f"{name} was built from other sources" in caplog.text


def test_the_number_of_the_header_is_the_loader_s():
    header = (loader.Path(loader.__file__).with_name("common.h")).read_text(encoding="utf-8")
    assert f"#define INTERFACE {loader.INTERFACE}\n" in header


def test_missing_libraries_are_reported(monkeypatch, capsys):
    monkeypatch.setenv("POAM_NATIVE", "0")
    assert loader.missing_parts().startswith(
        f"without the compiled {', '.join(loader.LIBRARIES)}: "
    )
    loader.announce()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"WARNING: {loader.missing_parts()}"


@needs_native
def test_nothing_is_reported_if_all_libraries_are_there(capsys):
    loader.announce()
    assert loader.missing_parts() == capsys.readouterr().err == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_place_that_is_not_finite_is_refused(value):
    model = MODELS["nngp"].build(NeighbourOptions(first_steps=1), 0, torch.device("cpu"))
    X = torch.linspace(-1, 1, 20).double().reshape(10, 2)
    model.update(Dataset(X, X[:, 0]))
    at = torch.tensor([[0.0, 0.0], [0.1, value]], dtype=torch.float64)
    for ask in (model.predict, model.covariance, model.fields):
        with pytest.raises(InputError, match="expected finite points"):
            ask(at)
