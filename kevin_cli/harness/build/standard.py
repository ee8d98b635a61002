"""Standard headers that a source uses without including them.

torch/extension.h brings nearly the whole standard library along, and generated code relies on it. The
thin headers bring little, so the ones that a source names are put in front of it. A name that is missed
here costs a second, thin, attempt with all of them (`ALL`), never the stock headers. `<vector>`, `<optional>`
and `<tuple>` are always there, and with them what libstdc++ keeps in `stl_algobase.h`: `min`, `max`, `copy`,
`fill`. `<string>` is not: it costs a quarter to half a second in the three passes of nvcc.
"""

from __future__ import annotations

import re

NAMES = {
    "algorithm": "sort stable_sort partial_sort nth_element min_element max_element minmax_element clamp copy_n "
    "transform for_each find find_if count count_if all_of any_of none_of reverse rotate unique upper_bound "
    "binary_search minmax generate remove_if is_sorted shuffle",
    "string": "string to_string stoi stol stoll stof stod getline",
    "numeric": "accumulate iota inner_product partial_sum reduce gcd lcm",
    "functional": "function bind hash plus multiplies less greater reference_wrapper ref cref",
    "memory": "unique_ptr shared_ptr make_unique make_shared weak_ptr allocator align addressof",
    "iostream": "cout cerr clog endl cin",
    "sstream": "stringstream ostringstream istringstream",
    "iomanip": "setprecision setw setfill",
    "fstream": "ofstream ifstream fstream",
    "map": "map multimap",
    "unordered_map": "unordered_map",
    "set": "set multiset",
    "unordered_set": "unordered_set",
    "deque": "deque",
    "list": "list",
    "queue": "queue priority_queue",
    "array": "array",
    "thread": "thread this_thread",
    "mutex": "mutex lock_guard unique_lock call_once once_flag scoped_lock",
    "atomic": "atomic atomic_flag memory_order memory_order_relaxed atomic_thread_fence",
    "condition_variable": "condition_variable",
    "future": "async future promise",
    "chrono": "chrono",
    "random": "mt19937 mt19937_64 normal_distribution uniform_real_distribution random_device uniform_int_distribution",
    "complex": "complex",
    "bitset": "bitset",
    "variant": "variant visit monostate",
    "any": "any any_cast",
    "string_view": "string_view",
    "span": "span",
    "bit": "bit_cast popcount countl_zero countr_zero bit_ceil has_single_bit",
    "numbers": "numbers",
    "exception": "exception exception_ptr current_exception rethrow_exception",
    "stdexcept": "runtime_error invalid_argument out_of_range logic_error domain_error",
    "iterator": "back_inserter distance advance next prev",
    "new": "bad_alloc align_val_t nothrow",
    "cstdlib": "aligned_alloc free malloc",
    "ranges": "ranges views",
    "concepts": "integral floating_point same_as convertible_to",
}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
TORCH_NAMES = {
    "kevin/errors.h": re.compile(r"\b(?:c10|at|torch)::(?:\w*Error\b|str\s*\()"),
    "string": re.compile(r"\.str\s*\(\)"),
}
"""What of torch's own needs more than the thin headers bring to everybody."""
USED = re.compile(r"\bstd\s*::\s*(\w+)")
MISSED = re.compile(
    r"is not a member of ['\"‘]std\S*['\"’]"
    r"|namespace \"std\S*\" has no member"
    r"|['‘]std::\w+['’] (?:has not|was not)"
    r"|incomplete type ['\"‘](?:class )?std::"
)
ALL = ("bits/stdc++.h", "kevin/errors.h")


def headers_for(sources: str) -> tuple[str, ...]:
    """The standard headers that the text names, in alphabetical order."""
    named = {HEADER_OF[name] for name in USED.findall(sources) if name in HEADER_OF}
    return tuple(sorted(named | {header for header, pattern in TORCH_NAMES.items() if pattern.search(sources)}))


def is_missed(first_error: str) -> bool:
    """Whether an error is about something of std that was not included."""
    return MISSED.search(first_error) is not None
