from typing import Any

from numpy.typing import NDArray

def add_differing_bits(
    words: NDArray[Any],
    wanted: NDArray[Any],
    numbers: NDArray[Any],
    counts: NDArray[Any],
    slots: NDArray[Any] | None,
    variant: str | None = None,
    /,
) -> None: ...
def dot_rows(
    rows: NDArray[Any],
    slots: NDArray[Any],
    query: NDArray[Any],
    products: NDArray[Any],
    squares: NDArray[Any] | None,
    variant: str | None = None,
    /,
) -> None: ...
def exact_dot_rows(
    rows: NDArray[Any],
    slots: NDArray[Any],
    query: NDArray[Any],
    products: NDArray[Any],
    squares: NDArray[Any],
    variant: str | None = None,
    /,
) -> None: ...
def variants() -> list[str]: ...
