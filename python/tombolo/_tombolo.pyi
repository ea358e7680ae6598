from collections.abc import Callable
from typing import Any

__version__: str

def ask(words: list[bytes], name: str = "", text: bytes = b"", progress: Callable[[int, int], Any] | None = None,
        fails_a_check: bool = False) -> dict[str, Any]: ...
def command_names() -> list[str]: ...
