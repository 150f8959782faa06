"""What managed_pool refuses before PyTorch or a GPU is asked."""

import importlib.util

import pytest
from conftest import ROOT

# The package umbench.torch needs torch, this module of it only a call.
_spec = importlib.util.spec_from_file_location("managed", ROOT / "python/umbench/torch/managed.py")
managed = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(managed)


def test_the_cap_leaves_the_gpu_room():
    assert managed.pool_cap_bytes(1000) == 700
    assert managed.pool_cap_bytes(1000, 500) == 500
    for asked in (0, -1, 701):
        with pytest.raises(ValueError, match="can hang it"):
            managed.pool_cap_bytes(1000, asked)


def test_policies_have_names():
    with pytest.raises(ValueError, match="none of none, prefetch"):
        with managed.managed_pool("fast"):
            pass


def test_a_missing_library_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("UMBENCH_POOL_LIBRARY", raising=False)
    monkeypatch.setenv("UMBENCH_PROGRAM", str(tmp_path / "umbench"))
    monkeypatch.setattr(managed, "LIBRARY_NAME", "libno_such_thing.so")
    with pytest.raises(managed.NoLibrary, match="UM_CUDA=ON"):
        managed.library_path()


def test_the_library_is_found_beside_the_program(monkeypatch, tmp_path):
    (tmp_path / managed.LIBRARY_NAME).touch()
    monkeypatch.delenv("UMBENCH_POOL_LIBRARY", raising=False)
    monkeypatch.setenv("UMBENCH_PROGRAM", str(tmp_path / "umbench"))
    assert managed.library_path() == str(tmp_path / managed.LIBRARY_NAME)
