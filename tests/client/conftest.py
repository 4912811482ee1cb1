"""The service of the client's tests."""

import pytest
from client_service import service


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The address of a service that the tests of a file share."""
    with service(tmp_path_factory.mktemp("shared")) as address:
        yield address
