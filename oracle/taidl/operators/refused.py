"""The operators of XLA's dialects (HLO, StableHLO, CHLO) that TAIDL does not have, and why; a test holds that every
operator of theirs is in the table or here."""

from __future__ import annotations

_WHY: dict[str, tuple[str, ...]] = {
    "an instruction touches the storage of its machine alone, with no host or channel beside it": (
        "infeed", "outfeed", "send", "send_done", "recv", "recv_done"),
    "statements run in the order of the text, without tokens": ("after_all", "add_dependency", "create_token"),
    "what is computed is the operator's without _start and _done; when it is, is said by the timing model": (
        "all_gather_start", "all_gather_done", "all_reduce_start", "all_reduce_done", "collective_permute_start",
        "collective_permute_done", "copy_start", "copy_done", "async_start", "async_update", "async_done"),
    "each output is a tensor of its own: result=N names it": ("tuple", "get_tuple_element"),
    "a def has parameters, and gives what it defines": ("parameter", "return"),
    "XLA alone puts it into programs, for its own use": ("fusion", "domain"),
    "a def says what it is composed of: call it": ("composite",),
    "extents are known before a stream runs: write the operator without it": (
        "dynamic_reshape", "set_dimension_size", "real_dynamic_slice", "dynamic_pad", "dynamic_iota",
        "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather"),
    "iota along the axis of the replicas gives their numbers": ("replica_id", "partition_id"),
    "its numbers depend on a state of the device: rng takes a seed": ("rng_get_and_update_state",),
    "the sizes of its parts are data: dynamic_slice and dynamic_update_slice move them": ("ragged_all_to_all",),
    "XLA has not published what it means": ("collective_reduce", "shuffle"),
    "conditional chooses between two; put one into the other": ("case",),
    "transpose, dot_general and reduce say the same": ("einsum", "unary_einsum"),
    "gather says the same": ("torch_index_select",),
    "broadcast_in_dim its operands first": (
        *(f"broadcast_{name}" for name in (
            "add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum", "multiply", "next_after", "or",
            "polygamma", "power", "remainder", "select", "shift_left", "shift_right_arithmetic",
            "shift_right_logical", "subtract", "xor", "zeta")),),
    "XLA itself writes it with other operators": (
        "bessel_i1e", "conj", "constant_like", "digamma", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf",
        "lgamma", "next_after", "polygamma", "square", "zeta", "_asin_acos_kernel"),
}

REFUSED: dict[str, str] = {name: reason for reason, names in _WHY.items() for name in names}
"""Why there is no such operator, by XLA's name of it."""
