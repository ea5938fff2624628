"""File with the address of the server."""

from pathlib import Path

import pytest

from weir.local.server.home import server_file


def test_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "server.json").mkdir()
    with pytest.raises(IsADirectoryError) as refused:
        server_file.write(tmp_path, "http://127.0.0.1:9347", has_socket=False)
    assert refused.value.filename == str(tmp_path / "server.json")
    assert [path.name for path in tmp_path.iterdir()] == ["server.json"]
