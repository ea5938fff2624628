"""Domains of a preferred topology level that could hold a gang at all."""

import numpy as np

from weir.engine.feasibility import pods_that_fit
from weir.engine.feasibility_cache import FeasibilityCache
from weir.engine.topology_levels import missing_topology
from weir.state.cluster import Cluster
from weir.state.jobs import Job


def fits_one_domain(cluster: Cluster, feasibility: FeasibilityCache, job: Job) -> bool:
    """Return True if a domain of the job's preferred level could hold all its pods on an empty cluster.

    Each group counts by itself. Only then is it worth waiting for one domain.
    """
    asked = job.topology
    if asked is None or asked.preferred is None or missing_topology(cluster.topologies, asked) is not None:
        return True
    affinity = feasibility.affinity(job)
    key = tuple(shape.id for shape in job.shapes), tuple(job.needed), asked, affinity
    found = feasibility.one_domain.get(key)
    if found is None:
        depth = cluster.topologies[asked.name].levels.index(asked.preferred)
        level = feasibility.levels(asked.name)[depth]
        fits = np.ones(level.count, np.bool_)
        for shape, need in zip(job.shapes, job.needed, strict=True):
            pods = pods_that_fit(*feasibility.empty_capacity(), shape)
            fits &= level.sums(np.where(feasibility.feasible_nodes(shape, affinity)[0], pods, 0)) >= need
        found = feasibility.one_domain[key] = bool(fits.any())
    return found
