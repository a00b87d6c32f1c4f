"""I-BERT's encoder on Gemmini of the TAIDL paper's section 8.2, with the attention that TAIDL's artifact leaves out."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.oracle.oracle_suites.case import Case, recorded
from examples.ibert_kernels import Encoder, Scales, Size

MOST_OVER_NATIVE = 2


def native(size: Size, scales: Scales, x: Any, *weights: Any) -> tuple[Any, ...]:
    """The same integer network written directly in JAX, layer after layer as the encoder runs them."""
    import jax.numpy as jnp
    from jax import lax

    def small(v: Any, scale: float) -> Any:
        return jnp.clip(jnp.round(v.astype(jnp.float32) * np.float32(scale)), -128, 127).astype(jnp.int8)

    def dot(a: Any, b: Any, dims: Any) -> Any:
        return lax.dot_general(a, b, dims, preferred_element_type=jnp.int32)

    def dense(a: Any, b: Any, bias: Any, scale: float) -> Any:
        return small(dot(a, b, (((1,), (0,)), ((), ()))) + bias, scale)

    def heads(a: Any) -> Any:
        return a.reshape(size.sequence, size.heads, size.depth)

    def softmax(v: Any) -> Any:
        e = scales.exponential
        q = v - v.max(-1, keepdims=True)
        z = (-q * e["ln2_inv"]) >> 16
        power = ((q + z * e["ln2"] + e["b"]) ** 2 + e["c"]) >> z
        share = np.float32(127) / power.sum(-1, keepdims=True).astype(jnp.float32)
        return jnp.clip(jnp.round(power.astype(jnp.float32) * share), -128, 127).astype(jnp.int8)

    def norm(a: Any, b: Any) -> Any:
        v = a.astype(jnp.int32) + b
        away = v - lax.div(v.sum(-1, keepdims=True), jnp.int32(size.width))
        variance = lax.div((away * away).sum(-1, keepdims=True), jnp.int32(size.width))
        # variances are below 2^16 here: their roots are exact enough in f32
        deviation = jnp.where(variance == 0, 1, jnp.sqrt(variance.astype(jnp.float32)).astype(jnp.int32))
        inverse = np.float32(1) / deviation.astype(jnp.float32)
        return small((away.astype(jnp.float32) * inverse).astype(jnp.int32), scales.norm)

    def gelu(v: Any) -> Any:
        c = scales.gelu_constants
        q = v.astype(jnp.int32)
        poly = (jnp.minimum(jnp.abs(q), -c["b"]) + c["b"]) ** 2 + c["c"]
        return small(q * (jnp.where(q < 0, -poly, poly) + c["c"]), scales.gelu_out)

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        wq, bq, wk, bk, wv, bv, wo, bo, w1, b1, w2, b2 = w
        q, k = (heads(dense(x, m, b, scales.query)) for m, b in ((wq, bq), (wk, bk)))
        v = heads(dense(x, wv, bv, scales.value))
        p = softmax(dot(q, k, (((2,), (2,)), ((1,), (1,)))))
        o = small(dot(p, v, (((2,), (0,)), ((0,), (1,)))), scales.share)
        o = o.transpose(1, 0, 2).reshape(size.sequence, size.width)
        h = norm(dense(o, wo, bo, scales.out), x)
        return norm(dense(gelu(dense(h, w1, b1, scales.inner)), w2, b2, scales.last), h), None

    return (lax.scan(layer, x, weights)[0],)


def cases() -> list[Case]:
    encoder = Encoder()
    return [Case("ibert", lambda: (Encoder(), None), partial(native, encoder.size, encoder.scales), encoder.inputs,
                 recorded(suite="ibert"), most_over_native=MOST_OVER_NATIVE, rounds=5)]
