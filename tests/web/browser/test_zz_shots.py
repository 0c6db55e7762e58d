import json, time
from pathlib import Path
from tests.web.browser.hub import WebHome, WebBrowsers, show
from tests.harness.bridge import INITIALIZE, BridgeClient
from tests.harness.labeled_servers import TOOLS, replayed
from tests.harness.patience import LONG, wait_until

OUT = "/tmp/letter_shots"


def test_shots(tmp_path, browser):
    home = WebHome(tmp_path, approval_wait="600")
    home.write_servers(
        {n: {**replayed(tmp_path, n), **({"confirm": ["delete_*"]} if n == "files" else {})} for n in TOOLS}
    )
    home.start()
    web = WebBrowsers(browser, home)
    try:
        wait_until(lambda: "mail__send_email" in home.run("tools", "list").out, "known")
        cs = []

        def client():
            c = BridgeClient(home.environment)
            cs.append(c)
            c.call(0, "initialize", **{**INITIALIZE, "capabilities": {}})
            c.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
            return c

        def call(c, id, name, args):
            c.send(
                json.dumps(
                    {
                        "jsonrpc": "2.0",
                        "id": id,
                        "method": "tools/call",
                        "params": {"name": name, "arguments": args},
                    }
                ).encode()
            )

        c = client()
        call(c, 1, "mail__read_inbox", {})
        c.answer(1, LONG)
        call(c, 2, "files__read_file", {"path": "x"})
        c.answer(2, LONG)
        call(
            c,
            3,
            "mail__send_email",
            {
                "body": "Dear Bob,\nWhat was read before\n- nothing\n\u202egnp.exe\n" + "海の灯台。" * 60,
                "subject": "Hi",
                "to": ["bob@example.com", "eve@ex\u0430mple.com"],
                "password": "hunter2hunter2",
                "options": {"when": {"at": "now"}},
            },
        )
        c2 = client()
        call(c2, 3, "files__delete_file", {"path": "/home/ada/notes/old.txt"})
        wait_until(lambda: len(home.rpc("list_approvals")["results"]) == 2, "wait")
        rows = home.rpc("list_approvals")["results"]
        ids = {r["tool"]: r["id"] for r in rows}
        for lang in ("en", "ja"):
            for theme, w in (("light", 1280), ("dark", 1280), ("light", 390)):
                page = web.page("/approvals", lang=lang, theme=theme, width=w)
                page.wait_for_timeout(400)
                page.screenshot(path=f"{OUT}/list-{lang}-{theme}-{w}.png", full_page=True)
            page = web.page("/", lang=lang)
            page.wait_for_timeout(400)
            page.screenshot(path=f"{OUT}/home-{lang}.png")
            page = web.page("/approvals/" + ids["mail__send_email"], lang=lang)
            page.wait_for_timeout(400)
            page.screenshot(path=f"{OUT}/one-{lang}.png", full_page=True)
        for lang in ("en", "ja"):
            home.environment["TABANE_LANG"] = lang
            home.environment["COLUMNS"] = "80"
            Path(f"{OUT}/show-{lang}.txt").write_text(
                home.run("approve", ids["mail__send_email"], "--show").out
            )
            from tests.harness.terminal import on_terminal

            with on_terminal(home, "approve") as t:
                t.end(60)
                Path(f"{OUT}/list-{lang}.txt").write_text(t.out)
            with on_terminal(home, "tools", "call", "files__delete_file", "path=/tmp/海の灯台" + lang) as t:
                t.read_until("[y/N]", 60)
                Path(f"{OUT}/prompt-{lang}.txt").write_text(t.out)
                import os

                os.write(t.fd, b"n\n")
                t.end(60)
    finally:
        web.close()
        home.run("stop")
