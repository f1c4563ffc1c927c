"""How often a source may call (protocol.md 2.2), and whom a trusted proxy speaks for."""

import json
from typing import Any

from tests.daemon import DaemonProcess
from tests.lab import Answer, error, exchange

CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).encode()
LIMITS = "[limits]\nrequests_per_minute = 5\n"


def _call(daemon: DaemonProcess, agent: str, forwarded: str = "", body: bytes = CALL) -> Answer:
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    return exchange(daemon.endpoint(agent), body=body, headers=headers)


def _refused(answer: Answer) -> None:
    assert answer.status == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert answer.headers["A2A-Version"] == "1.0"
    assert error(answer.json) == (-32603, "RESOURCE_EXHAUSTED")


def test_a_source_may_call_so_often_a_minute_over_all_agents(launch: Any) -> None:
    daemon = launch(config=LIMITS + "rate_limit_loopback = true\n")
    first, second = daemon.create_inbound(), daemon.create_inbound()
    daemon.act("inbound.setAuth", id=second, token="t")

    statuses = [_call(daemon, first).status for _ in range(3)]
    # a body that is wrong and a token that is wrong count too
    statuses += [_call(daemon, first, body=b"{").status, _call(daemon, second).status]

    assert statuses == [200, 200, 200, 200, 401]
    for agent in (first, second):
        _refused(_call(daemon, agent))
        _refused(_call(daemon, agent, forwarded="203.0.113.9"))  # nobody is trusted to say so
    # what is no call is not counted, and the operator is not held up
    assert exchange(f"{daemon.endpoint(first)}/agent-card.json", "GET").status == 200
    assert daemon.read("")["inbounds"]


def test_loopback_may_call_as_often_as_it_likes_by_default(launch: Any) -> None:
    daemon = launch(config=LIMITS)
    agent = daemon.create_inbound()

    assert [_call(daemon, agent).status for _ in range(12)] == [200] * 12


def test_a_trusted_proxy_says_who_calls(launch: Any) -> None:
    daemon = launch(config=LIMITS + '[server]\ntrusted_proxies = ["127.0.0.1", "10.0.0.0/8"]\n')
    daemon.await_control()
    agent = daemon.create_inbound()

    assert [_call(daemon, agent, "203.0.113.5").status for _ in range(5)] == [200] * 5
    _refused(_call(daemon, agent, "203.0.113.5"))
    # the rightmost address that is no proxy's counts: what a client put in front of it does not
    _refused(_call(daemon, agent, "198.51.100.7, 203.0.113.5"))
    _refused(_call(daemon, agent, "127.0.0.1, 203.0.113.5, 10.1.2.3"))
    assert _call(daemon, agent, "203.0.113.5, 203.0.113.6").status == 200
    assert _call(daemon, agent, "203.0.113.7").status == 200
    # a proxy on this machine that says nothing is not a source that is limited
    assert [_call(daemon, agent).status for _ in range(8)] == [200] * 8


def test_a_proxy_does_not_make_anyone_local(launch: Any) -> None:
    daemon = launch(config='[server]\ntrusted_proxies = ["127.0.0.1"]\n')
    daemon.await_control()
    agent = daemon.create_inbound()

    for forwarded in ("127.0.0.1", "::1", "nonsense", "", "203.0.113.5," * 500):
        assert _call(daemon, agent, forwarded).status == 200
        headers = {"X-Forwarded-For": forwarded} if forwarded else {}
        assert exchange(f"{daemon.url}/a2a/api", "GET", headers=headers).status in {403, 404}
