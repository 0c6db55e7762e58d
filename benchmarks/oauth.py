"""Time on the event loop for one access token: seen before, and new. Run: python -m benchmarks.oauth"""

from __future__ import annotations

import asyncio
import time

from tests.access.oauth.forging import NOW, MemoryRequests, claims, private_key, verifier

COUNT = 2_000


async def measure(algorithm: str) -> str:
    """Return the microseconds for a token that was verified before, for a new one, and for a forged one."""
    key = private_key("one", algorithm)
    here = verifier(MemoryRequests([key]))
    tokens = [key.sign(claims(sub=f"user {number}", exp=NOW + 600)) for number in range(COUNT)]
    await here.verify(tokens[0])
    begun = time.thread_time()
    for token in tokens[1:]:
        await here.verify(token)
    new = (time.thread_time() - begun) / (COUNT - 1)
    begun = time.thread_time()
    for _ in range(COUNT):
        await here.verify(tokens[-1])
    known = (time.thread_time() - begun) / COUNT
    return f"{algorithm}: seen before {known * 1e6:.1f} µs, new {new * 1e6:.0f} µs"


async def main() -> None:
    for algorithm in ("RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"):
        print(await measure(algorithm))


if __name__ == "__main__":
    asyncio.run(main())
