"""Addresses, signed links, other kinds of ranges, links that fail and are opened again."""

import contextlib
import hashlib
import re
import socket

import pytest
from voyages import free_port

from poam_ros.app.commands import drive
from poam_ros.core.errors import InputError
from poam_ros.mavlink.link import NOT_READ, SET_MESSAGE_INTERVAL, STREAMS, Link, LinkSettings
from poam_ros.mavlink.simulated_boat import SimulatedBoat


@pytest.fixture(autouse=True)
def pymavlink():
    pytest.importorskip("pymavlink")


ADDRESSES = ("udpin:127.0.0.1:14550", "udpout:10.0.0.2:14550", "tcp:boat:5760", "/dev/ttyACM0",
             "/dev/serial/by-id/usb-ArduPilot:921600")  # fmt: skip


def test_addresses():
    assert all(LinkSettings(url).url == url for url in ADDRESSES)
    for url in ("", "log.bin", "udpin:127.0.0.1", "udpin::14550:1", "tcp:a:99999"):
        with pytest.raises(InputError, match=r"mavlink\.url: expected udpin:HOST:PORT"):
            LinkSettings(url)


def test_a_warning_names_a_link_that_others_can_reach(tmp_path):
    assert not LinkSettings().warning and not LinkSettings("/dev/ttyACM0").warning
    assert "open to everybody" in LinkSettings("udpin:0.0.0.0:14550").warning
    (tmp_path / "key").write_text("secret\n")
    signed = LinkSettings("udpin:0.0.0.0:14550", key_file=str(tmp_path / "key"))
    assert not signed.warning and signed.key == hashlib.sha256(b"secret").digest()


@pytest.mark.parametrize("content", [None, " \n"])
def test_a_missing_key_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_text(content)
    with pytest.raises(InputError, match=r"mavlink\.key_file"):
        Link(LinkSettings(key_file=str(tmp_path / "key")))


@pytest.mark.parametrize("key", [None, hashlib.sha256(b"other").digest()], ids=["none", "other"])
def test_messages_not_signed_with_our_key_are_ignored(voyage, tmp_path, key):
    (tmp_path / "key").write_text("secret")
    v = voyage({"mavlink.key_file": str(tmp_path / "key")}, {"key": key}).run(5)
    assert v.drive.vehicle.status is None and v.drive.session is None
    assert v.drive.link.left_out["unreadable or wrongly signed"] > 20


def test_a_message_on_a_signed_link_counts_once(voyage, tmp_path):
    """Neither replayed heartbeats nor a forged one from the future change who is heard."""
    (tmp_path / "key").write_text("secret")
    key = hashlib.sha256(b"secret").digest()
    v = voyage({"mavlink.key_file": str(tmp_path / "key")}, {"key": key})
    beats, transmit = [], v.boat._transmit

    def record(data, kind=""):
        if kind == "heartbeat":
            beats.append(data)
        transmit(data, kind)

    v.boat._transmit = record
    v.start()
    v.boat.mode = "MANUAL"
    v.heartbeat().run(2)
    assert v.state == "paused" and len(beats) > 3
    forger = v.boat._speaker(1, 1)
    forger.signing.secret_key, forger.signing.sign_outgoing = b"?" * 32, True
    forger.signing.timestamp, forger.signing.link_id = 2**47, v.boat._out.signing.link_id
    forged = forger.heartbeat_encode(10, 3, 1 + 128, 15, 4).pack(forger)
    old, before = beats[:-3], v.drive.link.left_out[NOT_READ]
    for data in (*old, forged):
        transmit(data)
    v.drive.step(v.now)
    assert v.drive.link.left_out[NOT_READ] == before + len(old) + 1
    v.run(3)
    assert v.drive.vehicle.status.mode == "MANUAL" and v.drive.link.heard_s == pytest.approx(
        v.now.steady_s, abs=1.1
    )
    v.boat.mode = "GUIDED"
    v.heartbeat().run(1)
    v.resume()
    v.until(lambda: v.boat.targets[-1][0] > v.boat.time_s - 1, 5)
    sent = len(v.boat.targets)
    v.boat._out.signing.secret_key = b"?" * 32  # of another boat: neither hears the other
    v.until(lambda: v.state == "paused", 10)
    assert "the link is lost" in v.mission.reason and len(v.boat.targets) <= sent + 1
    shown = drive.progress(v.drive, v.now)
    assert re.match(r"\d+ messages unreadable or wrongly signed", shown.problems["link"])


@pytest.mark.parametrize("kind", ["WATER_DEPTH", "RANGEFINDER"])
def test_other_messages_with_ranges(voyage, kind):
    v = voyage(boat={"ranges": kind}).explore().run(5)
    samples = v.drive.session.mapper.data
    truth = v.boat.simulation.terrain.elevation_at(samples.xy)
    # z counts from the surface, and the boat's sonar is 0.5 m below it. RANGEFINDER has no time.
    error = samples.z - 0.5 - truth
    assert abs(error).mean() < (0.15 if kind == "WATER_DEPTH" else 0.4)
    sent, known = v.balance()
    assert sent == known > 60


def test_a_port_in_use_by_another_program_is_reported():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        link = Link(LinkSettings(f"udpin:127.0.0.1:{other.getsockname()[1]}"))
        assert link.poll(0.0) == [] and "in use" in link.failing
    assert link.poll(1.0) == [] and link.failing  # not before the next attempt
    assert link.poll(3.0) == [] and not link.failing
    link.close()


def test_a_tcp_link_is_opened_again():
    port = free_port()
    link = Link(LinkSettings(f"tcp:127.0.0.1:{port}"))
    assert link.poll(0.0) == [] and "refused" in link.failing
    with socket.create_server(("127.0.0.1", port)) as server:
        link.poll(3.0)
        assert not link.failing
        server.settimeout(0.0)
        server.accept()[0].close()
        for now_s in range(4, 40):
            link.poll(float(now_s))
            with contextlib.suppress(BlockingIOError):
                server.accept()[0].close()
                break
        else:
            raise AssertionError(f"not opened again: {link.failing}")
    link.close()


def test_nothing_is_set_armed_or_switched(voyage):
    """All that is ever sent: heartbeats, targets, requests of parameters and of streams."""
    v, sent = voyage(), set()
    obey = v.boat._obey
    v.boat._obey = lambda message: (
        sent.add((message.get_type(), getattr(message, "command", 0))),
        obey(message),
    )
    v.explore().command("pause")
    v.run(2)
    v.boat.mode = "MANUAL"
    v.heartbeat().run(3)
    assert sent == {
        ("HEARTBEAT", 0), ("SET_POSITION_TARGET_GLOBAL_INT", 0), ("PARAM_REQUEST_READ", 0),
        ("COMMAND_LONG", SET_MESSAGE_INTERVAL),
    }  # fmt: skip


def test_others_on_one_link(voyage):
    """The first boat that is heard is ours; another, ground stations and cameras are neither
    listened to nor driven."""
    v = voyage().explore()
    terrain, port = v.boat.simulation.terrain, int(v.values["mavlink.url"].rpartition(":")[2])
    other = SimulatedBoat(terrain, port, system=2)
    other.armed = True
    for mode in ("GUIDED", "MANUAL"):
        other.mode = mode
        for system, component, kind in ((255, 190, 6), (254, 190, 6), (1, 154, 26)):
            one = v.boat._speaker(system, component)
            v.boat._transmit(one.heartbeat_encode(kind, 8, 0, 0, 4).pack(one))
        for _ in range(50):
            other.step()
            v.step()
    assert v.state == "exploring" and not other.targets and not other.refused
    assert v.drive.link.left_out["of others"] > 50
    sent, known = v.balance()
    assert sent == known
    other.close()


def test_streams_at_1_hz_are_requested_at_their_rate(voyage):
    """A gap of 1 s between positions is too long for the pings in it."""
    v = voyage().explore()
    assert v.session.ledger.rejected["no_odometry"] < 5  # those before the first position
    v.boat._periods["GLOBAL_POSITION_INT"] = 1.0  # as another ground station may ask for
    v.run(25)
    asked = v.boat.intervals
    assert v.boat._periods["GLOBAL_POSITION_INT"] < 1 and asked[-len(STREAMS) :].count(33) == 1


@pytest.mark.parametrize(("vehicle", "asked"), [(10, {30, 11038, 87}), (12, {30})])
def test_missing_streams_are_requested(voyage, monkeypatch, vehicle, asked):
    """A submarine writes a text on every ground station for each message that it does not know."""
    monkeypatch.setattr("poam_ros.mavlink.simulated_boat.ROVER", vehicle)
    v = voyage()
    v.boat.muted.update(("ATTITUDE", "WATER_DEPTH", "POSITION_TARGET_GLOBAL_INT"))
    v.run(25)
    assert asked == {30, 11038, 87} & set(v.boat.intervals) and 33 not in v.boat.intervals[-5:]


def test_a_flood_ends_no_poll_and_sends_no_target(voyage, monkeypatch):
    v = voyage().start().run(3)
    monkeypatch.setattr("poam_ros.mavlink.link.MAX_READS", 20)
    link, receive = v.drive.link, v.drive.link._connection.recv
    link._connection.recv = lambda count: receive(count) or b"\0" * 20
    v.drive.command("pause")  # the vehicle is to hold station
    assert v.sent_within(2) == 0 and link.flooded and v.state == "paused"
    link._connection.recv = receive
    assert v.sent_within(3) > 0 and not link.flooded
