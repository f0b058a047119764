"""A server of S3's calls on this machine's loopback, where `make s3` has installed one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUCKET = "s3://bucket"


@contextmanager
def bucket() -> Iterator[dict[str, str]]:
    """Has an empty bucket at `BUCKET`; the environment variables by which a process finds it."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    pytest.importorskip("s3fs")
    import boto3

    server.start()
    try:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        keys |= {"AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port())}
        names = {name.lower(): value for name, value in keys.items() if name != "AWS_DEFAULT_REGION"}
        names["endpoint_url"] = names.pop("aws_endpoint_url")
        boto3.client("s3", region_name=keys["AWS_DEFAULT_REGION"], **names).create_bucket(Bucket="bucket")
        yield keys
    finally:
        server.stop()
