"""Which files of machine code are run: those that nobody else could write, and that are whole."""

import os
import warnings

import pytest

from online_rank._kernels import _jit
from online_rank._kernels.ahead import loading
from online_rank._kernels.ahead.trust import Distrusted, make_folder, read_sealed, say_distrust, write_sealed

needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "cache" / "code.o"
    write_sealed(path, b"machine code")
    return path


def test_what_was_written_is_read(path):
    assert read_sealed(path) == b"machine code"
    assert os.listdir(path.parent) == ["code.o"]


def test_nobody_else_can_write_what_was_written_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        write_sealed(tmp_path / "a" / "b" / "code.o", b"machine code")
    finally:
        os.umask(before)
    modes = [os.stat(tmp_path / name).st_mode & 0o777 for name in ("a", "a/b", "a/b/code.o")]
    assert modes == [0o755, 0o755, 0o644]
    assert read_sealed(tmp_path / "a" / "b" / "code.o") == b"machine code"


@pytest.mark.parametrize("keep", [0, 1, 11, 12, 40, -1])
def test_a_truncated_file_is_not_run(path, keep):
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(Distrusted, match="truncated or damaged: delete it"):
        read_sealed(path)


def test_a_changed_byte_is_noticed_anywhere(path):
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Distrusted, match="damaged"):
            read_sealed(path)


def test_a_file_of_another_version_is_not_run_under_this_name(path):
    path.rename(path.with_name("newer.o"))
    with pytest.raises(Distrusted, match="damaged"):
        read_sealed(path.with_name("newer.o"))


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_not_run(path, mode):
    path.chmod(mode)
    with pytest.raises(Distrusted, match=rf"others can write to .*code.o \(mode {mode:o}\): `chmod go-w` it"):
        read_sealed(path)


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_file_in_a_folder_that_others_can_write_is_not_run(path, mode):
    path.parent.chmod(mode)
    with pytest.raises(Distrusted, match=r"others can write to .*cache"):
        read_sealed(path)


def test_the_folders_above_count_too_except_those_in_which_none_may_rename_what_others_have(path, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(Distrusted, match="others can write"):
        read_sealed(path)
    tmp_path.chmod(0o1777)
    assert read_sealed(path) == b"machine code"


@needs_root
@pytest.mark.parametrize("name", ["code.o", "."])
def test_what_belongs_to_another_user_is_not_run(path, name):
    os.chown(path.parent / name, 12345, -1)
    with pytest.raises(Distrusted, match=r"belongs to another user \(number 12345\)"):
        read_sealed(path)


def test_a_link_is_followed_to_where_it_leads(path, tmp_path):
    (tmp_path / "link").symlink_to(path.parent)
    assert read_sealed(tmp_path / "link" / "code.o") == b"machine code"
    path.parent.chmod(0o777)
    with pytest.raises(Distrusted, match="others can write"):
        read_sealed(tmp_path / "link" / "code.o")


def test_next_to_the_sources_only_damage_counts(path):
    path.chmod(0o666)
    assert read_sealed(path, anyones=True) == b"machine code"
    path.write_bytes(b"")
    with pytest.raises(Distrusted, match="damaged"):
        read_sealed(path, anyones=True)


@pytest.mark.parametrize("relative", ["", "here", "./here", "../here"])
def test_relative_folders_are_ignored(monkeypatch, tmp_path, relative):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    monkeypatch.setenv("ONLINE_RANK_CACHE_DIR", relative)
    assert loading.cache_folder() == tmp_path / ".cache" / "online_rank"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert loading.cache_folder() == tmp_path / "caches" / "online_rank"


def test_unused_objects_raise_one_warning_of_one_line():
    with pytest.warns(RuntimeWarning, match="compiled code is not used: of one test") as caught:
        say_distrust("of one test")
    assert warnings.formatwarning(caught[0].message, RuntimeWarning, caught[0].filename, 0).count("\n") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        say_distrust("of one test")


def test_numba_does_not_read_a_cache_that_others_can_write(tmp_path):
    make_folder(tmp_path / "safe")
    assert _jit._is_own(str(tmp_path / "safe"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"others can write to .*open"):
        assert not _jit._is_own(str(tmp_path / "open"))
    assert _jit._is_own(os.path.join(os.path.dirname(_jit.__file__), "__pycache__"))
