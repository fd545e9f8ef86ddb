import subprocess
import sys

import online_rank


def test_import_is_lazy():
    # Neither numba nor any module of ours beside the package itself is loaded, so nothing can be compiled.
    code = "import sys, online_rank; print([m for m in sys.modules if m == 'numba' or m.startswith('online_rank.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_every_module_compiles_nothing():
    code = (
        "import online_rank, importlib, sys\n"
        "from numba.core.registry import CPUDispatcher\n"
        "for name in online_rank.__all__: getattr(online_rank, name)\n"
        "kernels = {id(v): v for m in list(sys.modules.values()) if getattr(m, '__name__', '').startswith('online_rank')\n"
        "           for v in vars(m).values() if isinstance(v, CPUDispatcher)}\n"
        "print(len(kernels) > 0, [k for k in kernels.values() if k.overloads])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"


def test_public_names():
    assert sorted(online_rank.__all__) == sorted(set(online_rank.__all__))
    for name in online_rank.__all__:
        assert getattr(online_rank, name) is getattr(online_rank, name)
        assert name in dir(online_rank)
