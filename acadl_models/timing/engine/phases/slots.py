"""Jitted: slots of storages and the FIFOs before them, for requests of units and for refills of caches.

A refill is a request that waits at a cache for a line, in a slot of the storage behind that cache: it has two slots.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import StoreSpec
from archloom.acadl_models.timing.engine.phases.accounting import settle_queue
from archloom.acadl_models.timing.engine.phases.links import is_exclusive
from archloom.acadl_models.timing.engine.state import M, Request, Store


@jit
def is_refill(m, store, request):
    """Whether a request asks for a line on behalf of a cache before a storage."""
    return m[request + Request.STORE] != store


@jit
def has_slot(t, m, store, request):
    """Whether a storage may grant a request now."""
    if m[store + Store.ACTIVE] >= t[m[store + Store.SPEC] + StoreSpec.CAPACITY]:
        return False
    if t[m[store + Store.SPEC] + StoreSpec.LINKS] == NONE or m[store + Store.ACTIVE] == 0:
        return True
    return m[store + Store.EXCLUSIVE] == 0 and (is_refill(m, store, request) or not is_exclusive(t, m, store, request))


@jit
def queue(m, store, request, now):
    """A request waits in the FIFO of a storage."""
    if m[store + Store.QUEUED] == 0:
        m[store + Store.QUEUE_HEAD] = request
    else:
        m[m[store + Store.QUEUE_TAIL] + Request.LINK] = request
    m[request + Request.LINK] = NONE
    m[request + Request.FINISH] = FOREVER
    m[store + Store.QUEUE_TAIL] = request
    settle_queue(m, store, now)
    m[store + Store.QUEUED] += 1


@jit
def free_slot(m, store):
    """A slot is free from now on: in phase 1 who waits for it gets it."""
    m[store + Store.ACTIVE] -= 1
    m[store + Store.EXCLUSIVE] = 0
    if m[store + Store.QUEUED] > 0 and m[store + Store.FREED] == 0:
        m[store + Store.FREED] = 1
        m[m[M.FREED] + m[M.FREES]] = store
        m[M.FREES] += 1
