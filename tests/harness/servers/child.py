"""A real MCP server over stdio, standard library alone, that misbehaves as its arguments say.

    [sys.executable, CHILD, "--era", "legacy", "--banner", "hello", "--noise"]

Without arguments it is a well-behaved server of the handshake era (2025-06-18 and 2025-11-25).

Protocol
  --era legacy|modern|dual   initialize alone; 2026-07-28 alone; whichever the first request speaks
  --versions V,V             handshake versions it knows (default 2025-06-18,2025-11-25)
  --discover HOW             how legacy answers what comes before initialize: error (-32601, default),
                             invalid (-32600), silent, or exit (ends with status 1)
  --name NAME                serverInfo.name (default child)
  --instructions TEXT
  --slow-start SECONDS       answers initialize or server/discover after that time
  --silent                   reads everything and answers nothing
  --ask-at-start METHOD      asks its client METHOD as soon as it is initialized (legacy)

Catalog
  --tools N                  N further tools, extra_0 … that echo
  --schemas FILE             a further tool that echoes for each member of a JSON object: its inputSchema
  --definitions FILE         lists what that file says, whenever it says something else (redefinition.py)
  --duplicate                lists ``echo`` twice, the second with another description
  --page-size N              tools/list in pages; --endless-cursor: the list never ends
  --list-after FILE          answers tools/list when that file is there
  --no-tools                 announces no tools at all; --extras: announces prompts and resources too
  --offers                   announces prompts, resources and templates, and has the tools of offers.py;
                             --uris U,U and --templates T,T: which of these; --quiet-lists: says nothing
                             when they change; --ttl MS: how long they hold (modern, default 60000)
  --skills NAME,NAME         serves these skills (SEP-2640, skills.py); --folders: reads their folders
  --extension ID             announces an extension that nobody knows, and has its methods (unknown.py)
  --junk                     lists what is no definition beside them
  --unknown METHOD,…         does not know these methods of theirs; --broken METHOD,…: fails at them
  --secret URI,…             refuses to tell of changes of these

What it writes
  --banner [TEXT]            a line before anything else
  --noise                    before each message: invalid UTF-8, pretty-printed JSON, JSON that is no
                             object, an empty line, and half an object
  --babble BYTES             a line of that length before anything else
  --wrong-ids                each answer goes to an id that nobody used; --twice: each is sent twice
  --unasked                  before each answer another, to a question that nobody put
  --close-stdout N           closes stdout after N answers to tools/call, and lives on
  --stderr TEXT              a line on stderr at start
  --flood-stderr BYTES       so many bytes on stderr as fast as they go, beside everything else; 0: for ever

How it lives and dies
  --exit CODE                ends at once, after --stderr
  --crash-after N            dies by SIGKILL instead of answering the call after the first N
  --ignore-eof               lives on when stdin is closed; --ignore-term: ignores SIGTERM
  --deaf                     ignores notifications/cancelled
  --grandchildren KIND,…     starts processes that live for ever: ``group`` in its own group, ``session``
                             in a session of its own and orphaned, ``nameless`` the same without an
                             environment; --stubborn: they ignore SIGTERM
  --pids FILE                adds a line ``KIND PID`` for itself (``child``) and each of those

Its tools are in toolbox.py.
"""

from __future__ import annotations

import os
import signal
import sys

# It is run as a script, from anywhere, with an environment that names no paths.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.harness.servers import mischief  # noqa: E402
from tests.harness.servers.options import Options, parsed  # noqa: E402
from tests.harness.servers.protocol import Server  # noqa: E402


def arguments() -> Options:
    """Return the options of the command line. Exit with 2 if it cannot be understood."""
    if "--help" in sys.argv[1:]:
        sys.exit(__doc__)
    try:
        return parsed(sys.argv[1:])
    except ValueError as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)


def main() -> None:
    options = arguments()
    if options.stderr is not None:
        print(options.stderr, file=sys.stderr, flush=True)
    if options.exit is not None:
        sys.exit(options.exit)
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mischief.note(options.pids, "child", os.getpid())
    for kind in options.grandchildren:
        mischief.grandchild(kind, options.pids, options.stubborn)
    if options.flood_stderr is not None:
        mischief.flood(options.flood_stderr)
    mischief.write_noise(options.banner, options.babble)
    Server(options).serve()
    while options.ignore_eof:
        signal.pause()


if __name__ == "__main__":
    main()
