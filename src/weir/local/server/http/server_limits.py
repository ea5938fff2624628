"""Limits of the server for one request, one person and all of them together."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

ImagePrefix = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[!-~]+$")]


class ContainerRules(BaseModel):
    """Rules for containers. `images`: prefixes of allowed images, such as registry.example/team; empty: all.

    A project in `projects` has prefixes of its own in place of `images`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    runtimes: list[Literal["podman"]] = Field(default=["podman"], max_length=2)
    images: list[ImagePrefix] = Field(default=[], max_length=1000)
    projects: dict[str, list[ImagePrefix]] = Field(default={}, max_length=1000)


class ServerLimits(BaseModel):
    """Limits of a server, each with a default that suits one machine and its team."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    # Connections
    connections_max: int = Field(2048, ge=128, le=100_000)
    header_bytes_max: int = Field(32 << 10, ge=4096, le=1 << 20)
    header_s_max: float = Field(5.0, gt=0, le=3600, strict=False)
    keep_alive_s_max: int = Field(75, ge=1, le=3600)
    descriptors_max: int = Field(16_384, ge=256, le=1 << 20)

    # Limits of one request
    body_bytes_max: int = Field(1 << 20, ge=1024, le=64 << 20)
    body_values_max: int = Field(10_000, ge=100, le=1_000_000)
    body_s_max: float = Field(20.0, gt=0, le=3600, strict=False)
    workload_bytes_max: int = Field(256 << 10, ge=1024, le=64 << 20)

    # Limits of one person
    requests_per_s: float = Field(100.0, gt=0, le=1_000_000, strict=False)
    requests_burst: int = Field(1000, ge=100, le=1_000_000)
    requests_open_max: int = Field(32, ge=1, le=10_000)
    streams_per_person_max: int = Field(32, ge=1, le=10_000)
    pending_per_person_max: int = Field(1000, ge=1, le=1_000_000)
    pending_per_project_max: int = Field(5000, ge=1, le=1_000_000)

    # Limits of all persons together
    streams_max: int = Field(256, ge=1, le=10_000)
    log_repeats_max: int = Field(20, ge=1, le=1_000_000)

    # Containers
    containers: ContainerRules = ContainerRules()
