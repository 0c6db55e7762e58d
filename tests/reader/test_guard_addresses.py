"""Which addresses are public, and which are never reached."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.guard import address_of, fault

NAT64 = IPv6Network("64:ff9b::/96")

PUBLIC = ["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1",
          "198.17.0.1", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8",
          "64:ff9b::8.8.8.8", "2002:808:808::1", "2400:cb00::5efe:808:808"]  # fmt: skip

KEPT_OUT = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12::1", "fec0::1"],
    "link-local": ["169.254.169.254", "fe80::1"],
    "CGNAT": ["100.64.0.1", "100.127.255.255", "100.100.100.200"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "cloud": ["168.63.129.16"],
    "reserved": ["192.0.0.192", "192.88.99.1", "198.18.0.1", "198.19.255.255", "240.0.0.1",
                 "255.255.255.255", "100::1", "64:ff9b:1::1", "::ffff:0:8.8.8.8", "4000::1", "5f00::1",
                 "::8.8.8.8", "2001::1", "2001:1ff::1"],
    # IPv4 within IPv6: 6to4, NAT64, ISATAP, compatible
    "private ": ["2002:a00:1::", "64:ff9b::10.0.0.1", "2a00:1450:4001::5efe:192.168.0.1",
                 "2a00:1450:4001:0:200:5efe:10.0.0.1", "::ffff:10.0.0.1"],
    "loopback ": ["2002:7f00:1::", "64:ff9b::127.0.0.1", "::127.0.0.1"],
}  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_let_through(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert fault(address) is None


@pytest.mark.parametrize(("kind", "text"), [(kind, one) for kind, all_ in KEPT_OUT.items() for one in all_])
def test_every_other_address_is_named_for_what_it_is(kind: str, text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert kind.strip() in str(fault(address))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_no_more_public_than_python_says(address: IPv4Address) -> None:
    if fault(address) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_public_within_what_is_assigned_alone(address: IPv6Address) -> None:
    if fault(address) is None:
        inner = address.ipv4_mapped or (address in NAT64 and IPv4Address(int(address) & 0xFFFFFFFF))
        assert fault(inner) is None if inner else int(address) >> 125 == 1


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "64:ff9b::{}", "2606:4700::5efe:{}"]))
def test_an_address_within_an_address_is_judged_as_what_it_is(address: IPv4Address, form: str) -> None:
    outer = address_of(form.format(address))
    assert outer is not None
    assert fault(outer) == fault(address)


def test_a_zone_is_no_part_of_an_address() -> None:
    assert address_of("fe80::1%eth0") == IPv6Address("fe80::1")
    assert address_of("no address") is None
